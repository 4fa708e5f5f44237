//! A separate NATS server for one test.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

/// Key that the nodes of a test share.
pub const SECRET_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

pub struct NatsServer {
    child: Option<Child>,
    dir: PathBuf,
    pub port: u16,
    /// Login that the server requires.
    login: Option<Login>,
}

#[derive(Clone)]
struct Login {
    user: String,
    password: String,
}

impl NatsServer {
    /// Starts the installed `nats-server` on a free port, without `JetStream`.
    pub async fn start() -> Self {
        Self::requiring(None).await
    }

    /// Like `start`, but only clients with this user and password can connect.
    pub async fn with_password(user: &str, password: &str) -> Self {
        let login = Login {
            user: user.to_owned(),
            password: password.to_owned(),
        };
        Self::requiring(Some(login)).await
    }

    async fn requiring(login: Option<Login>) -> Self {
        let dir = std::env::temp_dir().join(format!("openvibe-nats-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&dir).unwrap();
        let mut server = Self {
            child: None,
            dir,
            port: 0,
            login,
        };
        server.go_on().await;
        server
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts the server again on the same port.
    pub async fn go_on(&mut self) {
        let program = ["/usr/sbin/nats-server", "/usr/bin/nats-server"];
        let program = program
            .into_iter()
            .find(|path| std::path::Path::new(path).exists());
        let port = match self.port {
            0 => "-1".to_owned(),
            port => port.to_string(),
        };
        let login = self.login.iter();
        let login = login.flat_map(|login| ["--user", &login.user, "--pass", &login.password]);
        let child = Command::new(program.expect("nats-server: run scripts/ensure-test-tools.sh"))
            .args(["-a", "127.0.0.1", "-p", &port, "--ports_file_dir"])
            .arg(&self.dir)
            .args(login)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let ports = self.dir.join(format!("nats-server_{}.ports", child.id()));
        self.child = Some(child);
        self.port = super::within("NATS to start", async {
            loop {
                let text = std::fs::read_to_string(&ports).unwrap_or_default();
                let parsed: Option<serde_json::Value> = serde_json::from_str(&text).ok();
                let url = parsed.and_then(|all| all["nats"][0].as_str().map(str::to_owned));
                if let Some((_, port)) = url.as_deref().and_then(|url| url.rsplit_once(':')) {
                    return port.parse().unwrap();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.stop();
        drop(std::fs::remove_dir_all(&self.dir));
    }
}
