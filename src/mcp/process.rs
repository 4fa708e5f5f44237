//! Servers that run as processes on this machine. Only the operator configures them, in `openvibe.toml`.

use std::{
    collections::BTreeMap,
    io,
    pin::Pin,
    process::Stdio,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use tokio::{
    io::{AsyncRead, ReadBuf},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use super::limits::Excess;

/// A process, configured as `[mcp.NAME]` in `openvibe.toml`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessConfig {
    /// Program and arguments; no shell is involved.
    pub command: Vec<String>,
    /// Complete environment of the process.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Slugs of the workspaces that can use the process.
    #[serde(default)]
    pub workspaces: Vec<String>,
}

impl std::fmt::Debug for ProcessConfig {
    /// Omits the arguments and the environment, which can contain credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessConfig")
            .field("program", &self.command.first())
            .finish_non_exhaustive()
    }
}

/// All configured processes by name.
#[derive(Debug, Clone, Default)]
pub struct LocalServers(BTreeMap<String, Arc<ProcessConfig>>);

impl LocalServers {
    /// Parses the `mcp` table of the settings, which is passed as JSON.
    ///
    /// # Errors
    /// A description of the problem for the operator.
    pub fn parse(json: &str) -> Result<Self, String> {
        let table: BTreeMap<String, ProcessConfig> = serde_json::from_str(json).map_err(|e| {
            format!("expected tables [mcp.NAME] with command, env, and workspaces: {e}")
        })?;
        if let Some((name, _)) = table.iter().find(|(_, process)| process.command.is_empty()) {
            return Err(format!("[mcp.{name}] has no command"));
        }
        let shared = table
            .into_iter()
            .map(|(name, process)| (name, Arc::new(process)));
        Ok(Self(shared.collect()))
    }

    /// The process with this name, if the workspace with this slug can use it.
    pub fn find(&self, name: &str, slug: &str) -> Option<Arc<ProcessConfig>> {
        let process = self.0.get(name)?;
        let is_permitted = process.workspaces.iter().any(|known| known == slug);
        is_permitted.then(|| Arc::clone(process))
    }
}

/// Limits of the output of a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutputLimits {
    /// Maximum length of a line.
    pub(super) line_bytes: usize,
    /// Maximum number of lines after a request.
    pub(super) lines: usize,
    /// Maximum total length of the lines after a request.
    pub(super) bytes: usize,
}

/// Output of a process since the latest request.
#[derive(Debug, Default)]
struct Written {
    lines: AtomicUsize,
    bytes: AtomicUsize,
    /// The limit whose excess ended the output.
    excess: OnceLock<Excess>,
}

/// A running process, which ends, together with the processes that it started, when this value is
/// dropped.
pub(super) struct Running {
    written: Arc<Written>,
    /// The process, which is killed on drop.
    _child: Child,
    group: Option<Pid>,
}

impl Running {
    /// Resets the output counters for a new request.
    pub(super) fn note_request(&self) {
        self.written.lines.store(0, Ordering::Relaxed);
        self.written.bytes.store(0, Ordering::Relaxed);
    }

    /// Returns the limit whose excess ended the output, if there is one.
    pub(super) fn excess(&self) -> Option<Excess> {
        self.written.excess.get().copied()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // Fails if all processes of the group have already ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Starts a process in its own process group.
///
/// # Errors
/// If the process cannot be started.
pub(super) fn start(
    config: &ProcessConfig,
    limits: OutputLimits,
) -> io::Result<(Running, LimitedLines<ChildStdout>, ChildStdin)> {
    let [program, arguments @ ..] = config.command.as_slice() else {
        return Err(io::Error::other("the command is empty"));
    };
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(&config.env)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let missing = || io::Error::other("the process has no standard input or output");
    let output = child.stdout.take().ok_or_else(missing)?;
    let input = child.stdin.take().ok_or_else(missing)?;
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let output = LimitedLines::new(output, limits);
    let running = Running {
        written: Arc::clone(&output.written),
        group: id.and_then(Pid::from_raw),
        _child: child,
    };
    Ok((running, output, input))
}

/// Reads lines, and fails if they exceed the limits on their length and number.
pub(super) struct LimitedLines<R> {
    inner: R,
    line_bytes: usize,
    written: Arc<Written>,
    limits: OutputLimits,
}

impl<R> LimitedLines<R> {
    fn new(inner: R, limits: OutputLimits) -> Self {
        Self {
            inner,
            line_bytes: 0,
            written: Arc::default(),
            limits,
        }
    }

    /// Counts a piece of output.
    ///
    /// # Errors
    /// The limit that the output exceeds.
    fn count(&mut self, piece: &[u8]) -> Result<(), Excess> {
        let written = self.written.bytes.fetch_add(piece.len(), Ordering::Relaxed);
        if written.saturating_add(piece.len()) > self.limits.bytes {
            return Err(Excess::Response);
        }
        for (n, line) in piece.split(|byte| *byte == b'\n').enumerate() {
            if n > 0 {
                self.line_bytes = 0;
                if self.written.lines.fetch_add(1, Ordering::Relaxed) >= self.limits.lines {
                    return Err(Excess::Messages);
                }
            }
            self.line_bytes = self.line_bytes.saturating_add(line.len());
            if self.line_bytes > self.limits.line_bytes {
                return Err(Excess::Message);
            }
        }
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for LimitedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        Poll::Ready(self.count(&buf.filled()[before..]).map_err(|excess| {
            self.written.excess.get_or_init(|| excess);
            io::Error::other(excess)
        }))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn a_process_is_available_in_its_workspaces_only() {
        let servers = LocalServers::parse(
            r#"{"files": {"command": ["/usr/bin/files", "--root", "/srv"], "workspaces": ["northwind"]}}"#,
        )
        .unwrap();
        let found = servers.find("files", "northwind").unwrap();
        assert_eq!(found.command[1..], ["--root", "/srv"]);
        assert_eq!(servers.find("files", "other"), None);
        assert_eq!(servers.find("shell", "northwind"), None);
        for invalid in [
            r#"{"files": {"command": []}}"#,
            r#"{"files": {}}"#,
            r#"{"files": {"command": "ls"}}"#,
            r#"{"files": {"command": ["ls"], "shell": true}}"#,
        ] {
            assert!(LocalServers::parse(invalid).is_err(), "{invalid}");
        }
    }

    #[tokio::test]
    async fn output_beyond_a_limit_is_an_error() {
        let limits = OutputLimits {
            line_bytes: 2,
            lines: 200,
            bytes: 300,
        };
        let most = "{}\n".repeat(100);
        let mut text = String::new();
        let mut lines = LimitedLines::new(most.as_bytes(), limits);
        lines.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, most);
        let (many, large) = ("\n".repeat(201), "12\n".repeat(101));
        for (more, excess) in [
            ("{}\n{ }\n", Excess::Message),
            (many.as_str(), Excess::Messages),
            (large.as_str(), Excess::Response),
        ] {
            let mut lines = LimitedLines::new(more.as_bytes(), limits);
            assert!(lines.read_to_string(&mut String::new()).await.is_err());
            assert_eq!(lines.written.excess.get(), Some(&excess));
        }
    }

    #[tokio::test]
    async fn a_process_has_no_environment_and_ends_with_its_value() {
        let limits = OutputLimits {
            line_bytes: 1000,
            lines: 10,
            bytes: 1000,
        };
        let config = ProcessConfig {
            command: vec!["/usr/bin/env".to_owned()],
            env: BTreeMap::from([("ONLY".to_owned(), "this".to_owned())]),
            workspaces: Vec::new(),
        };
        let (running, mut output, _input) = start(&config, limits).unwrap();
        let mut text = String::new();
        output.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "ONLY=this\n");
        drop(running);
        let config = ProcessConfig {
            command: vec!["/bin/cat".to_owned()],
            ..config
        };
        let (running, mut output, mut input) = start(&config, limits).unwrap();
        for _ in 0..5 {
            running.note_request();
            input.write_all(&[b'\n'; 10]).await.unwrap();
            output.read_exact(&mut [0; 10]).await.unwrap();
        }
        input.write_all(b"\n").await.unwrap();
        let more = output.read_exact(&mut [0; 1]).await;
        assert!(more.is_err(), "an eleventh line without a request");
        drop(running);
        let (running, mut output, _input) = start(&config, limits).unwrap();
        drop(running);
        let mut text = String::new();
        output.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "", "its output ends");
    }
}
