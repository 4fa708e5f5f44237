//! Reason why a turn or a push ended without its result.

use std::{io, time::Duration};

use tokio::{io::AsyncReadExt, process::Command};

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

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::sandbox(format!("the runner failed: {error}"))
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
    use std::process::Stdio;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
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
