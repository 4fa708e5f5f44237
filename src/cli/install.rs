//! `openvibe install` and `openvibe uninstall`: this program as a service of systemd.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, ensure};
use clap::Args;

use super::{
    addresses::{local_address, local_url},
    output::say,
    update::UNIT,
};
use crate::{
    config::{Config, Flags},
    doctor::CheckState,
    release::{CURRENT, InstallKind},
    tls_settings, trust,
};

/// The service, with the paths below.
const SERVICE: &str = include_str!("../../deploy/openvibe.service");
const PROGRAM: &str = "/usr/local/bin/openvibe";
const SETTINGS: &str = "/etc/openvibe/openvibe.toml";
const DATA: &str = "/var/lib/openvibe";
const BACKUPS: &str = "/var/backups/openvibe";
const UNITS: &str = "/etc/systemd/system";
const USER: &str = "openvibe";

/// Readable by the service, and changed only by root.
const SETTINGS_MODE: u32 = 0o640;
const PRIVATE_MODE: u32 = 0o700;
const PUBLIC_MODE: u32 = 0o755;
const UNIT_MODE: u32 = 0o644;

/// Maximum time until the server is ready, with its certificate.
const READY_WITHIN: Duration = Duration::from_mins(1);
const POLL_EVERY: Duration = Duration::from_millis(500);

#[derive(Args)]
pub(super) struct InstallCommand {
    /// Names of the server for HTTPS, separated by commas; the first is the public one
    #[arg(long, value_name = "NAME[,NAME]")]
    domain: Option<String>,
    /// HOST:PORT to listen on
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Directory of the data
    #[arg(long, value_name = "DIRECTORY", default_value = DATA)]
    data_dir: PathBuf,
}

#[derive(Args)]
pub(super) struct UninstallCommand {
    /// Delete the settings, the data, and the user, too
    #[arg(long)]
    purge: bool,
}

/// Prefix of all paths that are written: empty, except in tests of debug builds.
fn root() -> PathBuf {
    #[cfg(test_hooks)]
    if let Some(root) = std::env::var_os("OPENVIBE_INSTALL_ROOT") {
        return root.into();
    }
    PathBuf::new()
}

fn at(path: &Path) -> PathBuf {
    match root() {
        root if root.as_os_str().is_empty() => path.to_owned(),
        root => root.join(path.strip_prefix("/").unwrap_or(path)),
    }
}

/// # Errors
/// If the command does not run as root.
fn require_root(command: &str) -> anyhow::Result<()> {
    let is_root = rustix::process::geteuid().is_root() || !root().as_os_str().is_empty();
    ensure!(is_root, "run it as root: sudo openvibe {command}");
    Ok(())
}

/// Installs the service, starts it, and prints the link for the first account.
pub(super) async fn install(command: &InstallCommand) -> anyhow::Result<()> {
    require_root("install")?;
    ensure!(
        has_systemd(),
        "this machine has no systemd: start `openvibe` with another supervisor (docs/operations.md)"
    );
    ensure!(
        command.data_dir.is_absolute(),
        "--data-dir {} is not absolute",
        command.data_dir.display()
    );
    check_values(command).await?;
    let program = install_program()?;
    let user = find_or_create_user(&command.data_dir)?;
    for (dir, mode) in [
        (command.data_dir.as_path(), PRIVATE_MODE),
        (Path::new(BACKUPS), PRIVATE_MODE),
    ] {
        create_dir(dir, mode)?;
        chown(at(dir), Some(user.id), Some(user.group))?;
    }
    write_settings(command, &user)?;
    let unit = Path::new(UNITS).join(UNIT);
    write(&unit, &service(&program, &command.data_dir), UNIT_MODE)?;
    systemctl(&["enable", "--quiet", UNIT])?;
    if !is_booted() {
        say(&format!(
            "OpenVibe {CURRENT} is installed; {UNIT} starts with this machine"
        ));
        return Ok(());
    }
    systemctl(&["daemon-reload"])?;
    systemctl(&["restart", UNIT])?;
    say(&format!(
        "OpenVibe {CURRENT} runs as {UNIT}; its settings are in {SETTINGS}"
    ));
    finish(&program).await
}

/// Refuses values with which the server does not start, because later installations keep the settings.
async fn check_values(command: &InstallCommand) -> anyhow::Result<()> {
    if let Some(domain) = &command.domain {
        let names = tls_settings::parse_names(domain);
        let names = names.map_err(|e| anyhow::anyhow!("--domain: {e}"))?;
        ensure!(!names.is_empty(), "--domain: name the host of this server");
    }
    if let Some(listen) = &command.listen {
        local_address(listen).await?;
    }
    Ok(())
}

/// Copies this program to its place, unless a package installed it. Returns its path.
fn install_program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("this program's file cannot be found")?;
    if InstallKind::of_this_program() == InstallKind::Deb {
        return Ok(own);
    }
    let program = at(Path::new(PROGRAM));
    if own != program {
        create_dir(
            Path::new(PROGRAM).parent().unwrap_or(Path::new("/")),
            PUBLIC_MODE,
        )?;
        let new = program.with_extension("new");
        fs::copy(&own, &new).with_context(|| format!("cannot write {}", new.display()))?;
        fs::set_permissions(&new, fs::Permissions::from_mode(PUBLIC_MODE))?;
        fs::rename(&new, &program)?;
    }
    Ok(PROGRAM.into())
}

/// Account of the service.
struct User {
    id: u32,
    group: u32,
}

fn find_or_create_user(data_dir: &Path) -> anyhow::Result<User> {
    if let Some(user) = find_user() {
        return Ok(user);
    }
    let home = data_dir.as_os_str();
    let created = Command::new("useradd")
        .args([
            "--system",
            "--user-group",
            "--no-create-home",
            "--shell",
            "/usr/sbin/nologin",
            "--home-dir",
        ])
        .args([home, USER.as_ref()])
        .status()
        .context("cannot start useradd")?;
    ensure!(
        created.success(),
        "useradd could not create the user {USER}"
    );
    find_user().with_context(|| format!("the user {USER} was created and is not found"))
}

fn find_user() -> Option<User> {
    let id = |option| {
        let output = Command::new("id").args([option, USER]).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    Some(User {
        id: id("-u")?,
        group: id("-g")?,
    })
}

/// Writes the settings, unless there are some.
fn write_settings(command: &InstallCommand, user: &User) -> anyhow::Result<()> {
    let path = Path::new(SETTINGS);
    let dir = path.parent().unwrap_or(Path::new("/"));
    create_dir(dir, PUBLIC_MODE)?;
    let settings = settings(command);
    if let Ok(found) = fs::read_to_string(at(path)) {
        if found != settings && (command.domain.is_some() || command.listen.is_some()) {
            say(&format!(
                "{SETTINGS} exists and was kept: change the domain and the address there"
            ));
        }
    } else {
        write(path, &settings, SETTINGS_MODE)?;
    }
    chown(at(path), None, Some(user.group))?;
    Ok(())
}

fn settings(command: &InstallCommand) -> String {
    let mut lines = vec!["# Settings of OpenVibe; .env.sample and docs/operations.md list them all. Names are those of the variables, in lowercase and without OPENVIBE_.".to_owned()];
    let mut set =
        |name: &str, value: &str| lines.push(format!("{name} = {}", toml::Value::from(value)));
    set("data_dir", &command.data_dir.to_string_lossy());
    set("backup_to", BACKUPS);
    if let Some(domain) = &command.domain {
        set("domain", domain);
    }
    if let Some(listen) = &command.listen {
        set("listen", listen);
    }
    lines.join("\n") + "\n"
}

fn service(program: &Path, data_dir: &Path) -> String {
    SERVICE
        .replace(PROGRAM, &program.to_string_lossy())
        .replace(DATA, &data_dir.to_string_lossy())
}

fn create_dir(path: &Path, mode: u32) -> anyhow::Result<()> {
    let path = at(path);
    if !path.is_dir() {
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Writes a file so that no reader sees a part of it.
fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let path = at(path);
    let cannot_write = || format!("cannot write {}", path.display());
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(cannot_write)?;
    }
    let new = path.with_extension("new");
    fs::write(&new, text).with_context(cannot_write)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(mode))?;
    fs::rename(&new, &path).with_context(cannot_write)
}

/// Waits until the server is ready, and prints the link for the first account.
async fn finish(program: &Path) -> anyhow::Result<()> {
    let config = Config::load(Flags {
        env_file: None,
        ..Flags::default()
    })?;
    let mut cause = String::new();
    let ready = async {
        while let Err(e) = try_ready(&config).await {
            cause = e.to_string();
            tokio::time::sleep(POLL_EVERY).await;
        }
    };
    if tokio::time::timeout(READY_WITHIN, ready).await.is_err() {
        let checks = Command::new(at(program)).arg("doctor").output()?;
        for line in String::from_utf8_lossy(&checks.stdout).lines() {
            if line.starts_with(CheckState::Failed.as_str()) {
                say(line);
            }
        }
        anyhow::bail!(
            "the server is not ready after a minute: {cause} (see `journalctl -u {UNIT}` and `openvibe doctor`)"
        );
    }
    let link = Command::new(at(program)).arg("setup-link").output()?;
    let link = String::from_utf8_lossy(&link.stdout);
    match link.lines().next() {
        Some(link) => say(&format!("Open {link}")),
        None => say("The server is ready, and it has its first account."),
    }
    Ok(())
}

/// # Errors
/// The reason why the server is not ready, or has no certificate.
async fn try_ready(config: &Config) -> anyhow::Result<()> {
    let client = trust::client_builder().timeout(READY_WITHIN / 6).build()?;
    let url = format!("{}/readyz", local_url(config).await?);
    let response = client.get(&url).send().await;
    response
        .and_then(reqwest::Response::error_for_status)
        .context("it does not answer")?;
    let Some(name) = config.tls.as_ref().and_then(|tls| tls.names.first()) else {
        return Ok(());
    };
    // Also where the name leads elsewhere, for example to a router that cannot be reached from inside.
    let address = local_address(&config.listen).await?;
    let client = trust::client_builder()
        .timeout(READY_WITHIN / 6)
        .resolve(name, address)
        .build()?;
    let response = client
        .get(format!("https://{name}:{}/healthz", address.port()))
        .send()
        .await;
    response
        .map(drop)
        .with_context(|| format!("it has no certificate for {name} yet"))
}

/// Removes the service and the program.
pub(super) fn uninstall(command: &UninstallCommand) -> anyhow::Result<()> {
    require_root("uninstall")?;
    let unit = Path::new(UNITS).join(UNIT);
    let data_dir = fs::read_to_string(at(&unit)).ok().and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("WorkingDirectory="))?;
        Some(PathBuf::from(line))
    });
    if at(&unit).exists() {
        if is_booted() {
            systemctl(&["stop", UNIT])?;
        }
        systemctl(&["disable", "--quiet", UNIT])?;
        remove(&unit)?;
        if is_booted() {
            systemctl(&["daemon-reload"])?;
        }
    }
    if InstallKind::of_this_program() != InstallKind::Deb {
        remove(Path::new(PROGRAM))?;
    }
    let data_dir = data_dir.unwrap_or_else(|| DATA.into());
    if !command.purge {
        say(&format!(
            "OpenVibe is removed; {} and /etc/openvibe were kept",
            data_dir.display()
        ));
        return Ok(());
    }
    remove(&data_dir)?;
    remove(Path::new("/etc/openvibe"))?;
    if find_user().is_some() {
        let deleted = Command::new("userdel").arg(USER).status();
        ensure!(
            deleted.is_ok_and(|status| status.success()),
            "userdel could not delete the user {USER}"
        );
    }
    say(&format!(
        "OpenVibe and its data are removed; backups in {BACKUPS} were kept"
    ));
    Ok(())
}

fn remove(path: &Path) -> anyhow::Result<()> {
    let path = at(path);
    let removed = if path.is_dir() {
        fs::remove_dir_all(&path)
    } else {
        fs::remove_file(&path)
    };
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn has_systemd() -> bool {
    Command::new("systemctl").arg("--version").output().is_ok()
}

/// Checks whether systemd runs, and not only its files are there, as in an image that is being built.
fn is_booted() -> bool {
    at(Path::new("/run/systemd/system")).exists()
}

fn systemctl(arguments: &[&str]) -> anyhow::Result<()> {
    let done = Command::new("systemctl").args(arguments).status();
    ensure!(
        done.context("cannot start systemctl")?.success(),
        "`systemctl {}` failed",
        arguments.join(" ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(domain: Option<&str>) -> InstallCommand {
        InstallCommand {
            domain: domain.map(str::to_owned),
            listen: None,
            data_dir: "/srv/chat".into(),
        }
    }

    #[test]
    fn settings_have_only_what_was_given() {
        let lines = |domain| {
            let text = settings(&command(domain));
            let parsed: toml::Table = text.parse().unwrap();
            parsed.keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(lines(None), ["backup_to", "data_dir"]);
        assert_eq!(
            lines(Some("chat.example.org,chat.example.com")),
            ["backup_to", "data_dir", "domain"]
        );
    }

    #[test]
    fn a_quote_in_a_value_stays_in_the_value() {
        let text = settings(&command(Some("a\"\nlisten = \"x")));
        let parsed: toml::Table = text.parse().unwrap();
        assert_eq!(parsed["domain"].as_str(), Some("a\"\nlisten = \"x"));
        assert!(!parsed.contains_key("listen"));
    }

    #[test]
    fn the_service_has_the_paths_of_the_installation() {
        let text = service(Path::new("/usr/bin/openvibe"), Path::new("/srv/chat"));
        assert!(text.contains("ExecStart=/usr/bin/openvibe\n"));
        assert!(text.contains("ReadWritePaths=/srv/chat /var/backups/openvibe\n"));
        assert!(!text.contains(DATA));
    }
}
