//! `openvibe update`: replaces this program by a newer one, and takes it back if the newer one does not start.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use clap::Args;
use tokio::time::Instant;

use super::{addresses::local_url, database::open_existing, outgoing, output::say};
use crate::{
    config::{Config, Flags},
    db::DatabaseUrl,
    nodes,
    realtime::NodeState,
    release::{self, InstallKind, Latest, Release, Source, Version},
    trust,
    upkeep::before_migration,
};

/// Name of the service in systemd.
pub(super) const UNIT: &str = "openvibe.service";
/// Maximum time until the new version is ready, shorter in tests. Its backup and its changes to the tables are not part of it.
const READY_WITHIN: Duration = Duration::from_secs(if cfg!(test_hooks) { 5 } else { 60 });
/// Interval between requests for `/readyz`.
const POLL_EVERY: Duration = Duration::from_millis(500);
/// Maximum time for the backup and for the changes to the tables.
const MIGRATE_WITHIN: Duration = Duration::from_hours(2);
/// Mode of a program.
const PROGRAM_MODE: u32 = 0o755;

/// Output of `openvibe migrate --check`, which the previous version reads.
const WILL_CHANGE: &str = "the tables will be changed";
const UP_TO_DATE: &str = "the tables are up to date";

#[derive(Args)]
pub(super) struct UpdateCommand {
    /// Print the newest version, and install nothing
    #[arg(long)]
    check: bool,
    /// Version to install, instead of the newest
    #[arg(long, value_name = "VERSION", value_parser = str::parse::<Version>)]
    to: Option<Version>,
    /// URL or directory of the release
    #[arg(long, value_name = "URL|DIRECTORY")]
    from: Option<String>,
}

/// Prints whether this version will change the tables.
pub(super) async fn check_tables(config: Config) -> anyhow::Result<()> {
    let will_change = before_migration::check(&config).await?;
    say(if will_change { WILL_CHANGE } else { UP_TO_DATE });
    Ok(())
}

/// Updates this program.
pub(super) async fn run(flags: Flags, command: UpdateCommand) -> anyhow::Result<()> {
    let env_file = flags.env_file.clone();
    // Not as the owner of the data directory, who cannot replace the program.
    let config = Config::load(flags)?;
    outgoing::prepare(&config)?;
    let from = command.from.as_deref();
    let from = from.or_else(|| release::address(config.releases.as_deref()));
    let from = from.context(
        "there is no address of releases: name the release with --from, or set OPENVIBE_RELEASES",
    )?;
    let release = find(Source::parse(from)?, command.to).await?;
    let latest = &release.latest;
    let current = Version::current();
    if latest.version == current {
        say(&format!("OpenVibe {current} is the newest version"));
        return Ok(());
    }
    if command.check && latest.version > current {
        announce(latest);
        return Ok(());
    }
    require_possible(&config, latest, current).await?;
    if !latest.notes.is_empty() {
        say(latest.notes.trim_end());
    }
    say(&format!(
        "{} is signed and newer than {current}",
        latest.version
    ));
    let program = std::env::current_exe().context("this program's file cannot be found")?;
    match InstallKind::of_this_program() {
        InstallKind::Image => bail!(
            "this program is part of an image: pull version {} of it, and start a container of that",
            latest.version
        ),
        InstallKind::Deb => install_package(&release, &program).await,
        InstallKind::Binary | InstallKind::Source => {
            let update = Update {
                config: &config,
                env_file,
                program,
            };
            update.replace(&release).await
        }
    }
}

fn announce(latest: &Latest) {
    let kind = if latest.security {
        ", a security update"
    } else {
        ""
    };
    say(&format!(
        "{} of {} is available{kind}: sudo openvibe update",
        latest.version, latest.date
    ));
}

/// Reads the newest release, or the one with this version, which can also be in a directory of its own.
async fn find(source: Source, version: Option<Version>) -> anyhow::Result<Release> {
    let Some(version) = version else {
        return Release::open(source).await;
    };
    let own = source.of_version(version);
    let newest = Release::open(source).await;
    if let Ok(newest) = newest
        && newest.latest.version == version
    {
        return Ok(newest);
    }
    let release = Release::open(own).await?;
    let found = release.latest.version;
    ensure!(
        found == version,
        "the release has version {found}, not {version}"
    );
    Ok(release)
}

/// # Errors
/// If the release is older, or if it requires another version in between.
async fn require_possible(
    config: &Config,
    latest: &Latest,
    current: Version,
) -> anyhow::Result<()> {
    let (version, min_from) = (latest.version, latest.min_from);
    ensure!(
        version > current,
        "{version} cannot open this database; restore {} with it",
        before_migration::path(config, &current.to_string()).display()
    );
    ensure!(
        current >= min_from,
        "{version} cannot follow {current}: update to {min_from} first, with `openvibe update --to {min_from}`"
    );
    // SQLite has only one server.
    if !version.is_next_to(current) && matches!(config.database, DatabaseUrl::Postgres(_)) {
        let db = open_existing(config).await?;
        let listed = nodes::list_stored(&mut db.read().await?, None).await?;
        db.close().await;
        let live = listed
            .iter()
            .filter(|node| node.state != NodeState::Lost)
            .count();
        ensure!(
            live <= 1,
            "{live} servers share the database, and they can only be updated one after the other from a minor version to the next: stop the \
             others first, or update to a version in between"
        );
    }
    Ok(())
}

async fn install_package(release: &Release, program: &Path) -> anyhow::Result<()> {
    let architecture = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "amd64"
    };
    let name = format!("openvibe_{}_{architecture}.deb", release.latest.version);
    let package = std::env::temp_dir().join(&name);
    release.fetch(&name, &package).await?;
    say(&format!("{name} is the released file"));
    let installed = Command::new("dpkg").arg("-i").arg(&package).status();
    drop(fs::remove_file(&package));
    ensure!(
        installed.context("cannot start dpkg")?.success(),
        "dpkg failed; {} is unchanged",
        program.display()
    );
    say(&format!("{} is installed", release.latest.version));
    Ok(())
}

struct Update<'a> {
    config: &'a Config,
    env_file: Option<PathBuf>,
    /// File of this program, which is replaced.
    program: PathBuf,
}

impl Update<'_> {
    async fn replace(&self, release: &Release) -> anyhow::Result<()> {
        let version = release.latest.version;
        let new = self.beside("new");
        self.fetch(release, &new).await?;
        crate::failpoint!("update_fetched");
        let checked = self.will_migrate(&new);
        let will_migrate = match checked {
            Ok(will_migrate) => will_migrate,
            Err(e) => {
                drop(fs::remove_file(&new));
                return Err(e);
            }
        };
        if will_migrate {
            say(&format!(
                "{version} will change the tables; at its start, it makes the backup {}",
                before_migration::path(self.config, &version.to_string()).display()
            ));
        }
        let previous = self.beside("previous");
        // At every moment, one of the two versions is at the program's path.
        drop(fs::remove_file(&previous));
        fs::hard_link(&self.program, &previous)
            .with_context(|| format!("cannot keep this version as {}", previous.display()))?;
        crate::failpoint!("update_kept");
        fs::rename(&new, &self.program)?;
        crate::failpoint!("update_replaced");
        say(&format!(
            "{} is {version}; this version is {}",
            self.program.display(),
            previous.display()
        ));
        if !is_service_active() {
            say(&format!("restart the server to use {version}"));
            return Ok(());
        }
        restart()?;
        if self.becomes_ready(version, will_migrate).await? {
            say(&format!("{version} is ready"));
            return Ok(());
        }
        self.take_back(version, will_migrate, &previous)
    }

    /// A file beside the program, so that it can be renamed to the program.
    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.program.file_name().unwrap_or_default().to_owned();
        name.push(".");
        name.push(suffix);
        self.program.with_file_name(name)
    }

    async fn fetch(&self, release: &Release, to: &Path) -> anyhow::Result<()> {
        let name = format!(
            "openvibe-{}-linux-{}",
            release.latest.version,
            std::env::consts::ARCH
        );
        let fetched = release.fetch(&name, to).await;
        fetched.context("nothing was changed; only root can replace the program")?;
        fs::set_permissions(to, fs::Permissions::from_mode(PROGRAM_MODE))?;
        say(&format!("{name} is the released file"));
        Ok(())
    }

    /// Asks another version whether it will change the tables.
    fn will_migrate(&self, program: &Path) -> anyhow::Result<bool> {
        let mut command = Command::new(program);
        if let Some(file) = &self.env_file {
            command.arg("--env-file").arg(file);
        }
        let output = command.args(["migrate", "--check"]).output();
        let output = output.context("the new version cannot be started")?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.lines().last() {
            Some(WILL_CHANGE) if output.status.success() => Ok(true),
            Some(UP_TO_DATE) if output.status.success() => Ok(false),
            _ => bail!(
                "nothing was changed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ),
        }
    }

    /// Waits until the new version is ready. The time for changes to the tables does not count.
    async fn becomes_ready(&self, version: Version, will_migrate: bool) -> anyhow::Result<bool> {
        let url = format!("{}/readyz", local_url(self.config).await?);
        let client = trust::client_builder().timeout(POLL_EVERY * 4).build()?;
        let start = Instant::now();
        let mut until = start + READY_WITHIN;
        let mut is_migrating = will_migrate;
        loop {
            let response = client.get(&url).send().await;
            let is_new = response.as_ref().is_ok_and(|r| r.status().is_success());
            if is_new && is_service_active() {
                return Ok(true);
            }
            if is_migrating && !self.will_migrate(&self.program)? {
                is_migrating = false;
                until = Instant::now() + READY_WITHIN;
                say(&format!("{version} has changed the tables"));
            }
            let is_late = if is_migrating && is_service_active() {
                start.elapsed() > MIGRATE_WITHIN
            } else {
                Instant::now() > until
            };
            if is_late {
                return Ok(false);
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    /// Returns to the previous version, unless the new one has changed the tables.
    fn take_back(
        &self,
        version: Version,
        will_migrate: bool,
        previous: &Path,
    ) -> anyhow::Result<()> {
        let log = format!("see `journalctl -u {UNIT}`");
        if will_migrate && !self.will_migrate(&self.program)? {
            let backup = before_migration::path(self.config, &version.to_string());
            let database = match &self.config.database {
                DatabaseUrl::Sqlite(path) => format!("move {} away", path.display()),
                DatabaseUrl::Postgres(_) => "empty the database".to_owned(),
            };
            bail!(
                "{version} did not become ready in time ({log}), and it has changed the tables. To return: stop the service, {database}, \
                 then run\n  mv {} {}\n  openvibe restore --awake {}",
                previous.display(),
                self.program.display(),
                backup.display()
            );
        }
        fs::rename(previous, &self.program)?;
        restart()?;
        bail!("{version} did not become ready in time ({log}): the previous version runs again");
    }
}

fn is_service_active() -> bool {
    let asked = Command::new("systemctl")
        .args(["is-active", "--quiet", UNIT])
        .status();
    asked.is_ok_and(|status| status.success())
}

fn restart() -> anyhow::Result<()> {
    let restarted = Command::new("systemctl").args(["restart", UNIT]).status();
    let restarted = restarted.context("cannot start systemctl")?;
    ensure!(restarted.success(), "systemctl could not restart {UNIT}");
    Ok(())
}
