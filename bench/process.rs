//! Measured processes and their resource usage.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::Context;
use openvibe::db::DatabaseUrl;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use uuid::Uuid;

/// URL of the `PostgreSQL` server for benchmark databases (`make bench ENGINE=postgres`).
const POSTGRES_URL: &str = "OPENVIBE_TEST_POSTGRES_URL";

/// Checks whether the benchmarks run on `PostgreSQL`.
pub(crate) fn is_postgres() -> bool {
    std::env::var_os(POSTGRES_URL).is_some()
}

/// Name of the measured engine.
pub(crate) fn engine() -> &'static str {
    if is_postgres() {
        "PostgreSQL, fsync on"
    } else {
        "SQLite, synchronous=FULL"
    }
}

/// `sysconf(_SC_CLK_TCK)` on every Linux that Rust runs on.
const TICK: Duration = Duration::from_millis(10);

/// Index of the first CPU time in `/proc/PID/stat` after the name. The times are user and system time of the process, then of its
/// children that have ended.
const FIRST_TIME: usize = 11;

/// Returns the fields of `/proc/PID/stat` after the name; empty if the process does not exist.
pub(crate) fn stat(pid: u32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name can contain spaces; the numbers follow the last parenthesis.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    fields.split_whitespace().map(str::to_owned).collect()
}

fn sum_of_times(pid: u32, count: usize) -> Duration {
    let times = stat(pid).into_iter().skip(FIRST_TIME).take(count);
    let ticks: u32 = times.filter_map(|n| n.parse::<u32>().ok()).sum();
    TICK * ticks
}

/// User and system time of all threads of a process so far, with a resolution of 10 ms.
pub(crate) fn cpu(pid: u32) -> Duration {
    sum_of_times(pid, 2)
}

/// Like `cpu`, but includes all children that have ended.
pub(crate) fn cpu_with_ended_children(pid: u32) -> Duration {
    sum_of_times(pid, 4)
}

pub(crate) struct Process {
    child: Child,
    /// Address that the process printed after `listening on `.
    pub(crate) address: String,
    /// Address that the process printed before that, after `control `.
    pub(crate) control: String,
}

impl Process {
    /// Starts `command` and waits until it prints its address.
    fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("the output is not piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let mut control = String::new();
        for line in lines.by_ref() {
            let line = line?;
            if let Some(address) = line.strip_prefix("control ") {
                address.clone_into(&mut control);
            }
            if let Some((_, address)) = line.split_once("listening on ") {
                let address = address.trim_start_matches("http://").to_owned();
                // Drains the output, so that the process never blocks on it.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(Self {
                    child,
                    address,
                    control,
                });
            }
        }
        anyhow::bail!(
            "a process exited before it was listening: {:?}",
            child.wait()?
        )
    }

    /// User and system time of all threads so far, with a resolution of 10 ms.
    pub(crate) fn cpu(&self) -> Duration {
        cpu(self.child.id())
    }

    /// User and system time of all children that have ended.
    pub(crate) fn cpu_of_ended_children(&self) -> Duration {
        cpu_with_ended_children(self.child.id()).saturating_sub(self.cpu())
    }

    /// Resident memory in KiB.
    pub(crate) fn resident_kib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        status
            .unwrap_or_default()
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .unwrap_or_default()
    }

    /// Starts the baseline: a bare broadcaster.
    pub(crate) fn bare() -> anyhow::Result<Self> {
        Self::start(Command::new(std::env::current_exe()?).arg(crate::bare::COMMAND))
    }

    /// Stops the process with SIGTERM.
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
        // The process may have already exited.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Data directory with a database, deleted on drop. It is in the build directory, because the temporary directory may
/// be in memory.
pub(crate) struct Scratch {
    dir: PathBuf,
    url: String,
}

impl Scratch {
    pub(crate) async fn new() -> anyhow::Result<Self> {
        Self::on(std::env::var(POSTGRES_URL).ok()).await
    }

    /// Creates a database on a `PostgreSQL` server, or in a `SQLite` file if there is no server.
    pub(crate) async fn on(server: Option<String>) -> anyhow::Result<Self> {
        let id = Uuid::now_v7().simple();
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("speed-{id}"));
        std::fs::create_dir_all(&dir)?;
        let url = match server {
            Some(server) => {
                let mut c = PgConnection::connect(&server).await?;
                sqlx::query(AssertSqlSafe(format!("create database speed_{id}")))
                    .execute(&mut c)
                    .await?;
                server.replacen("/postgres?", &format!("/speed_{id}?"), 1)
            }
            None => format!("sqlite://{}", dir.join("openvibe.db").display()),
        };
        Ok(Self { dir, url })
    }

    pub(crate) fn place(&self) -> anyhow::Result<DatabaseUrl> {
        DatabaseUrl::parse(&self.url).map_err(anyhow::Error::msg)
    }

    /// URL of the database.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Starts a server on this database, with its own data directory.
    pub(crate) fn node(&self, name: &str, settings: &[(&str, &str)]) -> anyhow::Result<Process> {
        let data = self.dir.join(name);
        std::fs::create_dir_all(&data)?;
        self.serve(
            Command::new(env!("CARGO_BIN_EXE_openvibe")),
            &data,
            settings,
        )
    }

    fn serve(
        &self,
        mut command: Command,
        data: &Path,
        settings: &[(&str, &str)],
    ) -> anyhow::Result<Process> {
        command
            .env_clear()
            .current_dir(data)
            .env("OPENVIBE_LISTEN", "127.0.0.1:0")
            .env("OPENVIBE_DATA_DIR", data)
            .env("OPENVIBE_DATABASE_URL", &self.url)
            .env("OPENVIBE_LOG", "warn")
            .env("OPENVIBE_EXAMPLE", "off")
            .env("OPENVIBE_RATE_LIMITS", "off");
        for (name, value) in settings {
            command.env(format!("OPENVIBE_{name}"), value);
        }
        Process::start(&mut command)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If this fails, files are left in the build directory; databases are deleted with their server.
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

/// A server on a new database.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) scratch: Scratch,
}

impl Server {
    /// Starts a server with additional settings, whose names omit the prefix.
    pub(crate) async fn start(settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        Self::run(Command::new(env!("CARGO_BIN_EXE_openvibe")), settings).await
    }

    /// Starts the server with a control connection to its hub.
    pub(crate) async fn with_open_hub() -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(crate::hub::COMMAND);
        Self::run(command, &[]).await
    }

    async fn run(command: Command, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let scratch = Scratch::new().await?;
        Ok(Self {
            process: scratch.serve(command, &scratch.dir, settings)?,
            scratch,
        })
    }

    /// Stops the server and returns its database.
    pub(crate) fn into_database(self) -> anyhow::Result<Scratch> {
        let Self {
            mut process,
            scratch,
        } = self;
        process.stop()?;
        Ok(scratch)
    }
}
