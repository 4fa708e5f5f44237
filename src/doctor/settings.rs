//! Checks `settings` and `limits`.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::{
    finding::Finding,
    subject::{CheckedServer, Program},
};
use crate::{
    blocking::blocking, config::Config, outbound::Url, server::hosts::is_loopback_url,
    telemetry::logs, tls::files, tls_settings::TlsSource,
};

/// Permissions of everyone except the owner and the group.
const OTHERS: u32 = 0o007;
/// Permissions of everyone except the owner.
const GROUP_AND_OTHERS: u32 = 0o077;
/// Parts of the names of settings with secrets.
const SECRETS: [&str; 8] = [
    "secret_key",
    "api_key",
    "token",
    "database_url",
    "nats_url",
    "smtp_url",
    "secret_access_key",
    "acme_eab",
];

pub(super) async fn check(s: &CheckedServer) -> Finding {
    let (config, public_url) = (s.config.clone(), s.public_url.clone());
    let looked = blocking((), move || {
        let mut problems = idle(&config);
        problems.extend(contradictions(&config, &public_url));
        problems.extend(exposed_files(&config));
        Finding::of(problems, "all settings are known and take effect")
    });
    looked
        .await
        .unwrap_or_else(|_| Finding::skipped("the settings were not read"))
}

/// Settings that are unknown or without effect.
fn idle(config: &Config) -> Vec<Finding> {
    let warnings = config.warnings.iter().map(|warning| {
        let (text, hint) = warning
            .split_once(": ")
            .unwrap_or((warning, "remove it, or set what it needs"));
        Finding::warning(text, hint)
    });
    let filter = logs::parse(&config.log).is_none().then(|| {
        Finding::warning(
            "OPENVIBE_LOG is not a valid filter, so `info` is used",
            "set it to info, debug, or parts such as openvibe=debug",
        )
    });
    warnings.chain(filter).collect()
}

fn contradictions(config: &Config, public_url: &str) -> Vec<Finding> {
    let mut problems = Vec::new();
    let url = config
        .public_url
        .as_deref()
        .and_then(|url| Url::parse(url).ok());
    if let (Some(tls), Some(url)) = (&config.tls, &url) {
        let host = url.host_str().unwrap_or_default();
        if url.scheme() != "https" {
            problems.push(Finding::failed(
                "OPENVIBE_PUBLIC_URL is http, but the server uses HTTPS",
                format!("set OPENVIBE_PUBLIC_URL=https://{host}, or leave it out"),
            ));
        }
        if !tls.names.is_empty() && !tls.names.iter().any(|name| name == host) {
            problems.push(Finding::failed(
                format!("OPENVIBE_PUBLIC_URL names {host}, which is not in OPENVIBE_DOMAIN"),
                format!("add {host} to OPENVIBE_DOMAIN, or leave OPENVIBE_PUBLIC_URL out"),
            ));
        }
    }
    if let Some(TlsSource::Files(pair)) = config.tls.as_ref().map(|tls| &tls.source)
        && let Err(e) = files::check(pair)
    {
        problems.push(Finding::failed(
            e.to_string(),
            "correct the files, or name others",
        ));
    }
    let listens_to_all =
        config.listen.starts_with("0.0.0.0:") || config.listen.starts_with("[::]:");
    if listens_to_all && config.tls.is_none() && is_loopback_url(public_url) {
        problems.push(Finding::warning(
            "OPENVIBE_PUBLIC_URL is not set, although others can connect",
            "set it to the address in people's browsers, such as https://chat.example.org",
        ));
    }
    problems
}

/// A file with secrets, and its forbidden permissions.
struct SecretFile {
    path: PathBuf,
    forbidden: u32,
}

fn exposed_files(config: &Config) -> Vec<Finding> {
    let of_others = |path: &Path| SecretFile {
        path: path.to_owned(),
        forbidden: OTHERS,
    };
    let mut files: Vec<SecretFile> = config
        .sources
        .iter()
        .filter(|path| has_secrets(path))
        .map(|path| of_others(path))
        .collect();
    if let Some(TlsSource::Files(pair)) = config.tls.as_ref().map(|tls| &tls.source) {
        files.push(of_others(&pair.key));
    }
    let credentials = config
        .nats
        .as_ref()
        .and_then(|nats| nats.credentials.as_deref());
    files.extend(credentials.map(of_others));
    files.push(SecretFile {
        path: config.data_dir.join("secret.key"),
        forbidden: GROUP_AND_OTHERS,
    });
    let exposed = files.into_iter().filter_map(|file| {
        let mode = fs::metadata(&file.path).ok()?.mode();
        let shown = file.path.display();
        let remedy = if file.forbidden == OTHERS {
            "o="
        } else {
            "go="
        };
        (mode & file.forbidden != 0).then(|| {
            Finding::failed(
                format!("{shown} has secrets, and others on this machine can read it"),
                format!("chmod {remedy} {shown}"),
            )
        })
    });
    exposed.collect()
}

/// Checks whether a settings file sets a secret.
fn has_secrets(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default().to_lowercase();
    let mut lines = text
        .lines()
        .map(str::trim_start)
        .filter(|line| !line.starts_with(['#', ';']));
    lines.any(|line| {
        line.split_once('=')
            .is_some_and(|(name, _)| SECRETS.iter().any(|secret| name.contains(secret)))
    })
}

pub(super) fn check_limits(s: &CheckedServer) -> Finding {
    let wanted = (s.config.sockets_max + s.config.connections_max) as u64;
    let allowed = match &s.program {
        Program::This(_) => rlimit::Resource::NOFILE.get_soft().ok(),
        Program::Other(Some(pid)) => limit_of(*pid),
        Program::Other(None) => None,
        Program::Stopped => return Finding::skipped("the server is not running"),
    };
    let Some(allowed) = allowed else {
        return Finding::skipped("the limits of the server cannot be read: run this as its user");
    };
    if allowed < wanted {
        return Finding::warning(
            format!(
                "the server can open {allowed} files; OPENVIBE_SOCKETS_MAX and OPENVIBE_CONNECTIONS_MAX need {wanted}"
            ),
            format!("set LimitNOFILE={wanted} in its service, or lower these settings"),
        );
    }
    Finding::ok(format!("the server can open {allowed} files"))
}

/// Limit on open files of another process.
fn limit_of(pid: u32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
