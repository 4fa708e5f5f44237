//! The server as a separate process, for tests that kill it.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

use super::{Disk, ModelServer, TestDatabase, app::settings, disk, within};

/// Returns a command that runs `script` and then `command` in their own mount namespace.
pub fn in_own_mounts(command: &Command, script: &str) -> Command {
    let mut unshare = disk::unshare();
    unshare.args(["sh", "-ec", &format!("{script}\nexec \"$0\" \"$@\"")]);
    started_by(unshare, command)
}

/// Appends a command to the arguments of the command that starts it.
pub(super) fn started_by(mut starter: Command, command: &Command) -> Command {
    starter
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .current_dir(command.get_current_dir().unwrap());
    starter
}

/// Runs a program that must refuse to start, with status 1 and one line of error output. Returns that line.
pub fn refusal(command: &Command) -> String {
    // Limits the runtime of a program that starts unexpectedly.
    let program = command.get_program().to_owned();
    let mut bounded = Command::new("timeout");
    bounded
        .arg("60")
        .arg(program)
        .args(command.get_args())
        .env_clear()
        .envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .current_dir(command.get_current_dir().unwrap());
    let output = bounded.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    said.trim_end().to_owned()
}

/// A failpoint at which the program waits for the test.
pub struct Hold(TcpListener);

impl Hold {
    pub async fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// Value of `FAILPOINT` that makes the program wait at `failpoint` (`NAME:N`).
    pub fn at(&self, failpoint: &str) -> String {
        format!("{failpoint}:hold={}", self.0.local_addr().unwrap())
    }

    /// Waits until the failpoint is reached; the program continues when the returned connection is dropped.
    pub async fn reached(&self) -> TcpStream {
        within("a failpoint to be reached", self.0.accept())
            .await
            .unwrap()
            .0
    }
}

pub struct TestProcess {
    child: Child,
    pub base: String,
    /// Lines that the program printed before it started listening.
    pub said: Vec<String>,
}

/// A command of the program with only these settings in its environment.
pub fn command(place: &TestDatabase, model: &ModelServer, others: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openvibe"));
    command
        .env_clear()
        .current_dir(&place.dir)
        .env("OPENVIBE_LOG", "error");
    if let Ok(dir) = std::env::var("OPENVIBE_TEST_STATEMENTS") {
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        command
            .env("OPENVIBE_TEST_STATEMENTS", dir)
            .env("OPENVIBE_TEST_NAME", test);
    }
    for (name, value) in settings(place, model, others) {
        if name.starts_with("AWS_") {
            command.env(name, value);
        } else {
            command.env(format!("OPENVIBE_{name}"), value);
        }
    }
    command
}

impl TestProcess {
    /// Starts the server. With the setting `FAILPOINT`, it crashes or waits at that failpoint (see `src/failpoint.rs`).
    pub async fn start(place: &TestDatabase, model: &ModelServer, others: &[(&str, &str)]) -> Self {
        let started = Self::try_start(place, model, others).await;
        started.unwrap_or_else(|status| panic!("the server ended before it listened: {status}"))
    }

    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap()
    }

    fn status_bytes(&self, field: &str) -> u64 {
        let status = self.proc("status");
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.expect(field) * 1024
    }

    /// Current memory use of the process.
    pub fn resident_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// Maximum memory use of the process so far.
    pub fn peak_bytes(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    /// CPU time that the process has used.
    pub fn cpu_time(&self) -> Duration {
        let stat = self.proc("stat");
        // The name of the program, in parentheses, can contain spaces.
        let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
        let ticks: u64 = fields
            .skip(11)
            .take(2)
            .map(|n| n.parse::<u64>().unwrap())
            .sum();
        // Linux reports hundredths of a second.
        Duration::from_millis(ticks * 10)
    }

    /// Starts the server; returns the exit status if it exits before it listens.
    pub async fn try_start(
        place: &TestDatabase,
        model: &ModelServer,
        others: &[(&str, &str)],
    ) -> Result<Self, ExitStatus> {
        Self::spawn(place, command(place, model, others)).await
    }

    /// Starts the server with its data on this disk.
    pub async fn start_within(
        place: &TestDatabase,
        model: &ModelServer,
        others: &[(&str, &str)],
        disk: &Disk,
    ) -> Self {
        let started = Self::try_start_within(place, model, others, disk).await;
        started.unwrap_or_else(|status| panic!("the server ended before it listened: {status}"))
    }

    pub async fn try_start_within(
        place: &TestDatabase,
        model: &ModelServer,
        others: &[(&str, &str)],
        disk: &Disk,
    ) -> Result<Self, ExitStatus> {
        let command = disk.inside(&command(place, model, others));
        Self::spawn(place, command).await
    }

    async fn spawn(place: &TestDatabase, mut command: Command) -> Result<Self, ExitStatus> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(place.dir.join("stderr.log"));
        let mut child = command
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
                    // Fails only if the test has already failed, so that it no longer waits.
                    // In a JSON log, the address ends with the string.
                    let address = address.split('"').next().unwrap();
                    drop(send.send((address.to_owned(), said)));
                    break;
                }
                said.push(line);
            }
            // Drains the output, so that the program never blocks on it.
            lines.for_each(drop);
        });
        match within("the server to listen", receive).await {
            Ok((base, said)) => Ok(Self { child, base, said }),
            Err(_) => Err(wait(child).await.0),
        }
    }

    /// Sends `kill -9` and waits until the process has ended.
    pub async fn kill(mut self) {
        self.child.kill().unwrap();
        self.exited().await;
    }

    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends a signal, whose name omits `SIG`.
    pub fn signal(&self, name: &str) {
        let kill = Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
    }

    /// Exit status, if the process has already exited by itself.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for the process to end and returns its exit status.
    pub async fn exited(mut self) -> ExitStatus {
        // Replaces the child, so that dropping `self` does not kill anything.
        let placeholder = Command::new("true").spawn().unwrap();
        let child = std::mem::replace(&mut self.child, placeholder);
        let (status, _) = wait(child).await;
        status
    }
}

async fn wait(mut child: Child) -> (ExitStatus, Child) {
    let waiting = openvibe::blocking::blocking((), move || (child.wait(), child));
    let (status, child) = within("the server to end", waiting).await.unwrap();
    (status.unwrap(), child)
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        // The process may have already ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
