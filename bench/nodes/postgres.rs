//! The `PostgreSQL` server: CPU time of a running one, and a separate one that can be restarted.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::process::{self, Scratch};

/// Directory that contains Debian's server programs by version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// User that runs the server if the benchmark runs as root, which `PostgreSQL` rejects.
const UNPRIVILEGED: &str = "postgres";
const ACCEPTS_WITHIN: Duration = Duration::from_secs(20);
const RETRY_EVERY: Duration = Duration::from_millis(10);

/// A running server.
pub(super) struct DatabaseServer {
    /// Process ID of the postmaster, the parent of all server processes.
    postmaster: u32,
}

impl DatabaseServer {
    /// Finds the server of a database, which must be on this machine.
    pub(super) async fn of(scratch: &Scratch) -> anyhow::Result<Self> {
        let mut c = PgConnection::connect(scratch.url()).await?;
        let own: i32 = sqlx::query_scalar("select pg_backend_pid()")
            .fetch_one(&mut c)
            .await?;
        // The first two fields are the state and the parent's ID.
        let stat = process::stat(u32::try_from(own)?);
        let postmaster = stat.get(1).context("PostgreSQL is on another machine")?;
        Ok(Self {
            postmaster: postmaster.parse()?,
        })
    }

    /// CPU time so far of all server processes, including those that have ended.
    pub(super) fn cpu(&self) -> Duration {
        let parent = self.postmaster;
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        let children = children.unwrap_or_default();
        let children = children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok());
        process::cpu_with_ended_children(parent) + children.map(process::cpu).sum::<Duration>()
    }
}

/// A separate server, which can be stopped and started again.
pub(super) struct OwnServer {
    programs: PathBuf,
    dir: PathBuf,
    running: Option<Child>,
}

impl OwnServer {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let name = format!("openvibe-bench-{}", Uuid::now_v7().simple());
        // The user that runs the server may not have access to the build directory.
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir)?;
        let mut server = Self {
            programs: newest_programs()?,
            dir,
            running: None,
        };
        if is_root() {
            let mut chown = Command::new("chown");
            finish(chown.arg(UNPRIVILEGED).arg(&server.dir))?;
        }
        finish(
            server
                .command("initdb")
                .args(["-U", "openvibe", "-A", "trust", "-E", "UTF8"])
                .args(["--locale", "C.UTF-8", "--no-sync"]),
        )?;
        server.go_on()?;
        server.accept().await?;
        let mut c = PgConnection::connect(&server.url()).await?;
        sqlx::query("create table probe (n bigint)")
            .execute(&mut c)
            .await?;
        Ok(server)
    }

    pub(super) fn url(&self) -> String {
        format!(
            "postgres://openvibe@localhost/postgres?host={}",
            self.dir.display()
        )
    }

    /// Returns a command that runs a server program as a user that is allowed to run it.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        if is_root() {
            command.args(["--reuid", UNPRIVILEGED, "--regid", UNPRIVILEGED]);
            command.arg("--clear-groups");
        }
        // The server stops when this process is killed.
        command
            .args(["--pdeathsig", "QUIT"])
            .arg(self.programs.join(program))
            .arg("-D")
            .arg(self.dir.join("data"))
            .current_dir(&self.dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Starts the server without waiting until it is ready.
    pub(super) fn go_on(&mut self) -> anyhow::Result<()> {
        let sockets = format!("unix_socket_directories={}", self.dir.display());
        let child = self
            .command("postgres")
            .args(["-c", "listen_addresses=", "-c", &sockets])
            .spawn()?;
        self.running = Some(child);
        Ok(())
    }

    /// Stops the server; open transactions are aborted.
    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.running.take() {
            let pid = child.id().to_string();
            finish(Command::new("kill").args(["-INT", &pid]))?;
            child.wait()?;
        }
        Ok(())
    }

    /// Waits until the server accepts connections.
    async fn accept(&self) -> anyhow::Result<PgConnection> {
        let url = self.url();
        let connected = async {
            loop {
                if let Ok(c) = PgConnection::connect(&url).await {
                    return c;
                }
                tokio::time::sleep(RETRY_EVERY).await;
            }
        };
        let connected = tokio::time::timeout(ACCEPTS_WITHIN, connected).await;
        connected.context("PostgreSQL did not start in time")
    }

    /// Waits until a bare connection has written a row; returns the time.
    pub(super) async fn accept_write(&self) -> anyhow::Result<Instant> {
        let mut c = self.accept().await?;
        sqlx::query("insert into probe (n) values (1)")
            .execute(&mut c)
            .await?;
        Ok(Instant::now())
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // If this fails, files are left in the temporary directory.
        drop(self.stop());
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn newest_programs() -> anyhow::Result<PathBuf> {
    let newest = std::fs::read_dir(Path::new(VERSIONS))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .max();
    let newest = newest.with_context(|| format!("no PostgreSQL server programs in {VERSIONS}"))?;
    Ok(Path::new(VERSIONS).join(newest.to_string()).join("bin"))
}

/// Runs a command; fails if the command fails.
fn finish(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status()?;
    anyhow::ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}
