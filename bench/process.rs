//! Processes that are measured: what they have used so far.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::Context;
use openvibe::db::Place;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use uuid::Uuid;

/// The server in which a benchmark makes its databases, when it is to run on `PostgreSQL` (`make bench ENGINE=postgres`).
const POSTGRES_URL: &str = "OPENVIBE_TEST_POSTGRES_URL";

/// The engine that is measured.
pub(crate) fn engine() -> &'static str {
    if std::env::var_os(POSTGRES_URL).is_some() {
        "PostgreSQL, fsync on"
    } else {
        "SQLite, synchronous=FULL"
    }
}

/// `sysconf(_SC_CLK_TCK)` on every Linux that Rust runs on.
const TICK: Duration = Duration::from_millis(10);

pub(crate) struct Process {
    child: Child,
    /// What it said after `listening on `.
    pub(crate) address: String,
    /// What it said after `control ` before.
    pub(crate) control: String,
}

impl Process {
    /// Starts `command` and waits until it says where it listens.
    fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("its output is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let mut control = String::new();
        for line in lines.by_ref() {
            let line = line?;
            if let Some(address) = line.strip_prefix("control ") {
                address.clone_into(&mut control);
            }
            if let Some((_, address)) = line.split_once("listening on ") {
                let address = address.trim_start_matches("http://").to_owned();
                // Read to the end, so that it never waits for a reader.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(Self {
                    child,
                    address,
                    control,
                });
            }
        }
        anyhow::bail!("a process ended before it listened: {:?}", child.wait()?)
    }

    /// User and system time of all its threads so far, to 10 ms.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        // The name may hold spaces; numbers follow the last parenthesis.
        let stat = stat.unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks: u32 = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|n| n.parse::<u32>().ok())
            .sum();
        TICK * ticks
    }

    /// Memory that is really there, in KiB.
    pub(crate) fn resident_kib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        status
            .unwrap_or_default()
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .unwrap_or_default()
    }

    /// The reference: a bare broadcaster.
    pub(crate) fn bare() -> anyhow::Result<Self> {
        Self::start(Command::new(std::env::current_exe()?).arg(crate::bare::COMMAND))
    }

    /// Ends it as SIGTERM does.
    fn stop(&mut self) -> anyhow::Result<()> {
        Command::new("kill")
            .arg(self.child.id().to_string())
            .status()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A data directory and its database. The directory goes away when it is dropped; it is on the disk of the build, because a
/// temporary directory may be memory.
pub(crate) struct Scratch {
    dir: PathBuf,
    url: String,
}

impl Scratch {
    pub(crate) async fn new() -> anyhow::Result<Self> {
        let id = Uuid::now_v7().simple();
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("speed-{id}"));
        std::fs::create_dir_all(&dir)?;
        let url = match std::env::var(POSTGRES_URL) {
            Ok(server) => {
                let mut c = PgConnection::connect(&server).await?;
                sqlx::query(AssertSqlSafe(format!("create database speed_{id}")))
                    .execute(&mut c)
                    .await?;
                server.replacen("/postgres?", &format!("/speed_{id}?"), 1)
            }
            Err(_) => format!("sqlite://{}", dir.join("openvibe.db").display()),
        };
        Ok(Self { dir, url })
    }

    pub(crate) fn place(&self) -> anyhow::Result<Place> {
        Place::parse(&self.url).map_err(anyhow::Error::msg)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed lies in the build directory; databases go with their server.
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

/// The program itself, with an empty database.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) scratch: Scratch,
}

impl Server {
    /// With other settings, named without the prefix.
    pub(crate) async fn start(settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        Self::run(Command::new(env!("CARGO_BIN_EXE_openvibe")), settings).await
    }

    /// The same server in a program that lets frames be handed to its hub.
    pub(crate) async fn with_open_hub() -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(crate::hub::COMMAND);
        Self::run(command, &[]).await
    }

    async fn run(mut command: Command, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let scratch = Scratch::new().await?;
        command
            .env_clear()
            .current_dir(&scratch.dir)
            .env("OPENVIBE_LISTEN", "127.0.0.1:0")
            .env("OPENVIBE_DATA_DIR", &scratch.dir)
            .env("OPENVIBE_DATABASE_URL", &scratch.url)
            .env("OPENVIBE_LOG", "warn")
            .env("OPENVIBE_RATE_LIMITS", "off");
        for (name, value) in settings {
            command.env(format!("OPENVIBE_{name}"), value);
        }
        Ok(Self {
            process: Process::start(&mut command)?,
            scratch,
        })
    }

    /// Ends the server; what is left is its database.
    pub(crate) fn into_database(self) -> anyhow::Result<Scratch> {
        let Self {
            mut process,
            scratch,
        } = self;
        process.stop()?;
        Ok(scratch)
    }
}
