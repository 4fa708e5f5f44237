//! A NATS server.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::Context;
use serde_json::Value;
use uuid::Uuid;

use crate::process;

const PROGRAMS: [&str; 2] = ["/usr/sbin/nats-server", "/usr/bin/nats-server"];
const STARTS_WITHIN: Duration = Duration::from_secs(10);

pub(super) struct NatsServer {
    child: Child,
    dir: PathBuf,
    pub(super) url: String,
}

impl NatsServer {
    /// Starts the NATS server that Debian packages, without `JetStream`.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let program = PROGRAMS.into_iter().find(|path| Path::new(path).exists());
        let program = program.context("no nats-server: run scripts/ensure-test-tools.sh")?;
        let name = format!("nats-{}", Uuid::now_v7().simple());
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&dir)?;
        let child = Command::new(program)
            .args(["-a", "127.0.0.1", "-p", "-1", "--ports_file_dir"])
            .arg(&dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let ports = dir.join(format!("nats-server_{}.ports", child.id()));
        // Created before the server is ready, so that an error below also stops the process.
        let mut server = Self {
            child,
            dir,
            url: String::new(),
        };
        let url = tokio::time::timeout(STARTS_WITHIN, read_url(&ports)).await;
        server.url = url.context("NATS did not start in time")?;
        Ok(server)
    }

    pub(super) fn cpu(&self) -> Duration {
        process::cpu(self.child.id())
    }
}

/// Waits until the server has written its address.
async fn read_url(ports: &Path) -> String {
    loop {
        let text = std::fs::read_to_string(ports).unwrap_or_default();
        let addresses: Value = serde_json::from_str(&text).unwrap_or_default();
        if let Some(url) = addresses["nats"][0].as_str() {
            return url.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        // The process may have already exited.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.dir));
    }
}
