//! Reason why a turn or a push ended without its result.

use std::{io, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::AsyncReadExt,
    process::{Child, Command},
};

use crate::frames::{FailureCode, cut};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub code: FailureCode,
    /// Shown to people.
    pub message: String,
}

impl Failure {
    pub(crate) fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn sandbox(message: impl Into<String>) -> Self {
        Self::new(FailureCode::SandboxFailed, message)
    }

    pub(crate) fn agent(message: impl Into<String>) -> Self {
        Self::new(FailureCode::AgentFailed, message)
    }
}

/// True for an error of a full disk.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::sandbox(if is_full(&error) {
            "the disk of the runner is full: make room there, and ask again".to_owned()
        } else {
            format!("the runner failed: {error}")
        })
    }
}

/// Output of a process that ended.
pub(crate) struct Finished {
    /// Exit status; `None` after a signal.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Finished {
    pub(crate) fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// The last line of the errors, for a message; hints of older versions of git follow it.
    pub(crate) fn cause(&self) -> String {
        let is_cause = |line: &&str| !line.is_empty() && !line.starts_with("hint:");
        let line = self.stderr.lines().map(str::trim).rfind(is_cause);
        match line {
            Some(line) => cut(line, 300).to_owned(),
            None => self.code.map_or("killed".to_owned(), |code| format!("exit status {code}")),
        }
    }
}

/// Runs a command to its end. Output above the limit is dropped.
pub(crate) async fn finish(
    mut command: Command,
    duration_max: Duration,
    stdout_bytes_max: u64,
) -> io::Result<Finished> {
    command.kill_on_drop(true);
    wait(start(command)?, duration_max, stdout_bytes_max).await
}

/// Like `finish`. If the command takes too long, or nobody waits for it, all that it started ends with it, such as a download of git.
pub(crate) async fn finish_all(
    mut command: Command,
    duration_max: Duration,
    stdout_bytes_max: u64,
) -> io::Result<Finished> {
    command.process_group(0);
    let child = start(command)?;
    let mut group = Group(child.id());
    let ended = wait(child, duration_max, stdout_bytes_max).await?;
    group.0 = None;
    Ok(ended)
}

/// A group of processes, which is terminated when it is dropped. Git then removes its locks; those of a killed one would stay in a
/// repository of this machine.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            // All of them may have ended.
            let _ = kill_process_group(pid, Signal::TERM);
        }
    }
}

fn start(mut command: Command) -> io::Result<Child> {
    use std::process::Stdio;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn()
}

async fn wait(
    mut child: Child,
    duration_max: Duration,
    stdout_bytes_max: u64,
) -> io::Result<Finished> {
    let stdout = collect(child.stdout.take(), stdout_bytes_max);
    let stderr = collect(child.stderr.take(), 64 << 10);
    let all = async { tokio::join!(stdout, stderr, child.wait()) };
    let (stdout, stderr, status) = tokio::time::timeout(duration_max, all)
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "timed out"))?;
    let stderr = String::from_utf8_lossy(&stderr?).into_owned();
    Ok(Finished { code: status?.code(), stdout: stdout?, stderr })
}

async fn collect(
    stream: Option<impl tokio::io::AsyncRead + Unpin>,
    bytes_max: u64,
) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        (&mut stream).take(bytes_max).read_to_end(&mut bytes).await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_command_that_is_too_slow_ends_with_all_that_it_started() {
        let directory = tempfile::tempdir().unwrap();
        let mark = directory.path().join("mark");
        let script = "while sleep 0.05; do touch mark; done & wait";
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(directory.path());
        assert!(finish_all(command, Duration::from_secs(1), 0).await.is_err());
        tokio::time::sleep(Duration::from_millis(500)).await;
        std::fs::remove_file(&mark).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!mark.exists());
    }
}
