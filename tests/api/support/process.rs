//! The server as a process of its own, for tests that kill it.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, ExitStatus, Stdio},
};

use tokio::sync::oneshot;

use super::{ModelServer, Place, app::settings, within};

pub struct TestProcess {
    child: Child,
    pub base: String,
    /// What it said before it listened.
    pub said: Vec<String>,
}

/// A command of the program with these settings and nothing else in its environment.
pub fn command(place: &Place, model: &ModelServer, others: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openvibe"));
    command
        .env_clear()
        .current_dir(&place.dir)
        .env("OPENVIBE_LOG", "error");
    for (name, value) in settings(place, model, others) {
        command.env(format!("OPENVIBE_{name}"), value);
    }
    command
}

impl TestProcess {
    /// `FAILPOINT` among the settings makes it die at that place.
    pub async fn start(place: &Place, model: &ModelServer, others: &[(&str, &str)]) -> Self {
        let started = Self::try_start(place, model, others).await;
        started.unwrap_or_else(|status| panic!("the server ended before it listened: {status}"))
    }

    /// How it ended, when it did so before it listened.
    pub async fn try_start(
        place: &Place,
        model: &ModelServer,
        others: &[(&str, &str)],
    ) -> Result<Self, ExitStatus> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(place.dir.join("stderr.log"));
        let mut child = command(place, model, others)
            .stdout(Stdio::piped())
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let (send, receive) = oneshot::channel();
        std::thread::spawn(move || {
            let mut said = Vec::new();
            let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
            for line in lines.by_ref() {
                if let Some((_, address)) = line.split_once("listening on ") {
                    // Nobody waits any more when the test has failed.
                    drop(send.send((address.to_owned(), said)));
                    break;
                }
                said.push(line);
            }
            // Read to the end, so that it never waits for a reader.
            lines.for_each(drop);
        });
        match within("the server to listen", receive).await {
            Ok((base, said)) => Ok(Self { child, base, said }),
            Err(_) => Err(wait(child).await.0),
        }
    }

    /// `kill -9`, and until it is gone.
    pub async fn kill(mut self) {
        self.child.kill().unwrap();
        self.exited().await;
    }

    pub fn terminate(&self) {
        let kill = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
    }

    /// How it ended.
    pub async fn exited(mut self) -> ExitStatus {
        // The process that is left behind ends nothing when it is dropped.
        let placeholder = Command::new("true").spawn().unwrap();
        let child = std::mem::replace(&mut self.child, placeholder);
        let (status, _) = wait(child).await;
        status
    }
}

async fn wait(mut child: Child) -> (ExitStatus, Child) {
    let waiting = tokio::task::spawn_blocking(move || (child.wait(), child));
    let (status, child) = within("the server to end", waiting).await.unwrap();
    (status.unwrap(), child)
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
