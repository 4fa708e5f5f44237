//! `openvibe runner check`: tries what a runner needs, one line each.

use std::time::Duration;

use serde_json::json;

use crate::{
    Owner,
    acp::Peer,
    client,
    config::{Config, SandboxKind},
    door::{Door, Provider, Ways},
    failure::{Failure, finish},
    git::Mirror,
    sandbox::{Places, Sandbox},
    scratch,
    turn::{initialize, new_session},
};

const MEBIBYTE: u64 = 1 << 20;

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckLine {
    pub is_ok: bool,
    /// What was checked, and the remedy if it failed.
    pub text: String,
}

fn line(name: &str, result: Result<String, Failure>) -> CheckLine {
    match result {
        Ok(text) => CheckLine { is_ok: true, text: format!("{name}: {text}") },
        Err(failure) => CheckLine { is_ok: false, text: format!("{name}: {failure}") },
    }
}

/// Checks the sandbox, git, space, programs, each repository, and each engine.
pub async fn check(config: &Config) -> Vec<CheckLine> {
    let mirrors = Some(config.data_dir.join("mirrors"));
    let places = Places { session: config.data_dir.join("check"), mirror: mirrors };
    let sandbox = Sandbox::new(config, places);
    let kind = match config.sandbox {
        SandboxKind::Bubblewrap => "bubblewrap works",
        SandboxKind::None => "none: agents run as this user, and nothing is pushed",
    };
    let mut lines = vec![line("sandbox", sandbox.check().await.map(|()| kind.to_owned()))];
    lines.push(line("git", git().await));
    lines.push(line("space", space(config)));
    if config.scratch {
        lines.push(line("scratch", scratch::languages(config).await));
    }
    for name in config.repositories.keys() {
        lines.push(line(&format!("repository {name}"), repository(config, name).await));
    }
    for name in config.engines.keys() {
        lines.push(line(&format!("engine {name}"), engine(config, &sandbox, name).await));
    }
    lines
}

async fn git() -> Result<String, Failure> {
    let mut command = tokio::process::Command::new("git");
    command.arg("--version");
    let remedy = "is not installed: install the package git";
    let ended = finish(command, Duration::from_secs(10), 1000).await;
    let ended = ended.map_err(|_| Failure::sandbox(remedy))?;
    Ok(String::from_utf8_lossy(&ended.stdout).trim().to_owned())
}

fn space(config: &Config) -> Result<String, Failure> {
    let disk = rustix::fs::statvfs(&config.data_dir).map_err(std::io::Error::from)?;
    let free_mb = disk.f_bavail.saturating_mul(disk.f_frsize) / MEBIBYTE;
    let at_once = config.turns * if config.scratch { 2 } else { 1 };
    let needed_mb = config.limits.disk_mb.saturating_mul(at_once as u64);
    if free_mb < needed_mb {
        let text = format!(
            "{free_mb} MiB are free, {needed_mb} MiB are needed: lower limits.disk_mb or turns"
        );
        return Err(Failure::sandbox(text));
    }
    Ok(format!("{free_mb} MiB are free"))
}

async fn repository(config: &Config, name: &str) -> Result<String, Failure> {
    let mirror = Mirror::open(config, name).await?;
    let commit = mirror.fetch().await?;
    if config.sandbox == SandboxKind::None {
        return Ok(format!("{} can be fetched", mirror.base()));
    }
    let remedy = |failure: Failure| {
        let text = format!("branches cannot be pushed, so changes are only shown: {failure}");
        Failure { message: text, ..failure }
    };
    mirror.check_push(&commit).await.map_err(remedy)?;
    Ok(format!("{} can be fetched, and branches can be pushed", mirror.base()))
}

async fn engine(config: &Config, sandbox: &Sandbox, name: &str) -> Result<String, Failure> {
    let owner = Owner::new();
    let engine = &config.engines[name];
    let failed = |error: &dyn std::fmt::Display| Failure::agent(error.to_string());
    let header = engine.header().map_err(|error| failed(&error))?;
    let provider = engine.to.clone().map(|to| Provider { name: name.to_owned(), to, header });
    let ways = Ways {
        server: config.server.clone(),
        key: None,
        engine: provider,
        allow: Vec::new(),
        client: client().map_err(|error| failed(&error))?,
    };
    let door = Door::open(config, "check", ways, &owner).await?;
    let command = sandbox.command(&engine.command, &engine.env(false), Some(&door.address));
    let mut process = sandbox.start(command, &owner)?;
    let streams = process.child.stdout.take().zip(process.child.stdin.take());
    let Some((stdout, stdin)) = streams else { return Err(Failure::agent("has no streams")) };
    let mut peer = Peer::new(stdout, stdin, &owner);
    let hello = initialize(&mut peer).await;
    let mut opened = Ok(());
    if hello.is_ok() {
        // Some agents refuse this without a login.
        let work = sandbox.work().display().to_string();
        let mode = engine.mode.as_deref();
        opened = new_session(&mut peer, &work, &json!([]), mode).await.map(drop);
    }
    let cause = if hello.is_err() { process.error().await } else { None };
    process.kill().await;
    let hello = hello.map_err(|error| {
        let cause = cause.map(|cause| format!(" ({cause})")).unwrap_or_default();
        let text = format!(
            "{error}{cause}: check that `{}` is installed in /usr or in paths",
            engine.command.join(" ")
        );
        Failure { message: text, ..error }
    })?;
    opened?;
    let version = hello["agentInfo"]["version"].as_str().unwrap_or("version unknown");
    Ok(format!("started, {version}"))
}
