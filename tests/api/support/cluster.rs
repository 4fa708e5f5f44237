//! A dedicated `PostgreSQL` server that a test can restart while `OpenVibe` uses it.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::disk::is_root;

pub struct Cluster {
    dir: PathBuf,
    bin: PathBuf,
    connections_max: u32,
    /// URL of a database on the server.
    pub url: String,
}

/// Directory with the programs of the newest installed version, which Debian does not add to the PATH.
fn programs() -> PathBuf {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    found.sort();
    found.pop().expect("PostgreSQL's server programs").1
}

/// Directory for servers, in memory if possible: on a busy disk, a restart can take longer than the maximum wait of a read.
fn in_memory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    }
}

impl Cluster {
    pub fn start() -> Self {
        Self::with_connections(100)
    }

    /// Starts a server with this `max_connections`.
    pub fn with_connections(connections_max: u32) -> Self {
        let cluster = Self::create(connections_max);
        cluster.run(
            "initdb",
            &["-U", "openvibe", "-A", "trust", "-E", "UTF8", "--no-sync"],
        );
        cluster.ctl("start", &[]);
        cluster
    }

    /// Creates the directory of a server that allows this many connections.
    fn create(connections_max: u32) -> Self {
        let dir = in_memory().join(format!(
            "openvibe-cluster-{}-{}",
            std::process::id(),
            uuid::Uuid::now_v7().simple()
        ));
        std::fs::create_dir_all(&dir).unwrap();
        let cluster = Self {
            url: format!(
                "postgres://openvibe@localhost/postgres?host={}",
                dir.display()
            ),
            bin: programs(),
            connections_max,
            dir,
        };
        if is_root() {
            let given = Command::new("chown")
                .arg("postgres")
                .arg(&cluster.dir)
                .status();
            assert!(given.unwrap().success());
        }
        cluster
    }

    /// Starts a standby that replicates from this server.
    pub fn standby(&self) -> Self {
        let standby = Self::create(self.connections_max);
        let primary = format!("host={} user=openvibe", self.dir.display());
        standby.run("pg_basebackup", &["-R", "-c", "fast", "-d", &primary]);
        standby.ctl("start", &[]);
        standby
    }

    /// Promotes this standby to primary. Returns when it accepts writes.
    pub fn promote(&self) {
        self.run("pg_ctl", &["-w", "promote"]);
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let program = self.bin.join(program);
        let mut command = if is_root() {
            // PostgreSQL refuses to run as root.
            let mut command = Command::new("setpriv");
            command
                .args([
                    "--reuid",
                    "postgres",
                    "--regid",
                    "postgres",
                    "--clear-groups",
                ])
                .arg(program);
            command
        } else {
            Command::new(program)
        };
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir.join("said.log"))
            .unwrap();
        let status = command
            .arg("-D")
            .arg(self.dir.join("data"))
            .args(arguments)
            .current_dir(&self.dir)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .status();
        let said = || std::fs::read_to_string(self.dir.join("said.log")).unwrap_or_default();
        assert!(status.unwrap().success(), "{}", said());
    }

    fn ctl(&self, act: &str, arguments: &[&str]) {
        // Tests do not simulate power loss, so data does not have to be flushed to the disk.
        let options = format!(
            "-c listen_addresses= -c unix_socket_directories={} -c fsync=off -c max_connections={}",
            self.dir.display(),
            self.connections_max
        );
        let log = self.dir.join("server.log");
        let mut all = vec!["-w", "-o", &options, "-l", path(&log)];
        all.extend(arguments);
        all.push(act);
        self.run("pg_ctl", &all);
    }

    /// Path of the server's socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.join(".s.PGSQL.5432")
    }

    /// Stops the server as in a crash and restarts it. Returns when it accepts connections again.
    pub fn crash_and_restart(&self) {
        self.ctl("restart", &["-m", "immediate"]);
    }

    pub fn crash(&self) {
        self.run("pg_ctl", &["-w", "-m", "immediate", "stop"]);
    }

    pub fn go_on(&self) {
        self.ctl("start", &[]);
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::fs::exists(self.dir.join("data/postmaster.pid")).unwrap_or(false) {
            self.run("pg_ctl", &["-m", "immediate", "stop"]);
        }
        // If this fails, the directory is left behind; its name contains the process ID.
        drop(std::fs::remove_dir_all(&self.dir));
    }
}
