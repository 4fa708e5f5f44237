//! Servers that run as processes on this machine. Only the operator configures them, in `openvibe.toml`.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    pin::Pin,
    process::Stdio,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader, ReadBuf},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{limits::Excess, output::redacted, received};

/// Number of lines of the error output that are kept, and the size at which a line is cut.
const ERROR_LINES: usize = 5;
const ERROR_LINE_BYTES_MAX: u64 = 300;
/// Time limit of the wait for the rest of the error output after a failure.
const ERRORS_WITHIN: Duration = Duration::from_millis(500);
/// Minimum length of a configured value that is replaced in messages.
const SECRET_BYTES_MIN: usize = 6;
/// Size of the pieces in which output is read.
const PIECE_BYTES: usize = 8 * 1024;

/// A process, configured as `[mcp.NAME]` in `openvibe.toml`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessConfig {
    /// Program and arguments; no shell is involved.
    pub command: Vec<String>,
    /// Environment of the process, in addition to `PATH` and `HOME`, which it can replace.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Slugs of the workspaces that can use the process.
    #[serde(default)]
    pub workspaces: Vec<String>,
    /// Value of `HOME`: a directory of the process's own, which is created at the start.
    #[serde(skip)]
    pub home: Option<PathBuf>,
}

impl ProcessConfig {
    /// Values that must not appear in messages: those of the environment, and those of options such as `--token`.
    fn secrets(&self) -> Vec<String> {
        let names_secret = |option: &str| {
            let option = option.to_ascii_lowercase();
            let words = ["key", "token", "secret", "password", "auth", "credential"];
            option.starts_with('-') && words.iter().any(|word| option.contains(word))
        };
        let mut secrets: Vec<String> = self.env.values().cloned().collect();
        for (n, argument) in self.command.iter().enumerate() {
            if let Some((option, value)) = argument.split_once('=') {
                secrets.extend(names_secret(option).then(|| value.to_owned()));
            } else if n > 0 && names_secret(&self.command[n - 1]) {
                secrets.push(argument.clone());
            }
        }
        secrets.retain(|secret| secret.len() >= SECRET_BYTES_MIN);
        // Longer ones first, because they can contain others.
        secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets
    }
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

    /// Gives each process a home directory in this directory.
    #[must_use]
    pub fn with_homes_in(self, directory: &Path) -> Self {
        // Processes do not run in the service's directory.
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        let homes = self.0.into_iter().map(|(name, process)| {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            let file: String = name
                .chars()
                .map(|c| if plain(c) { c } else { '_' })
                .collect();
            let process = ProcessConfig {
                home: Some(directory.join(file)),
                ..ProcessConfig::clone(&process)
            };
            (name, Arc::new(process))
        });
        Self(homes.collect())
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
    errors: Errors,
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

    /// Describes the end of the error output, for a process that has just failed: `: LINE / LINE`, or nothing.
    pub(super) async fn last_lines(&self) -> String {
        // The last lines of a process that has ended may not have been read yet.
        let _ = timeout(ERRORS_WITHIN, self.errors.end.cancelled()).await;
        let lines = self
            .errors
            .lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if lines.is_empty() {
            return String::new();
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        format!(": {}", lines.join(" / "))
    }
}

/// The last lines that a process wrote to its error output, without secrets.
#[derive(Clone, Default)]
struct Errors {
    lines: Arc<Mutex<VecDeque<String>>>,
    /// Cancelled at the end of the output.
    end: CancellationToken,
}

impl Errors {
    /// Reads the error output of a process to its end.
    async fn read(self, output: ChildStderr, secrets: Vec<String>) {
        let _end = self.end.clone().drop_guard();
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        // The rest of a long line is read as further lines.
        while let Ok(1..) = (&mut output)
            .take(ERROR_LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)
            .await
        {
            let mut text = String::from_utf8_lossy(&line).into_owned();
            for secret in &secrets {
                text = redacted(&text, Some(secret.as_str()));
            }
            let text = redacted(&text, None).trim().to_owned();
            line.clear();
            if text.is_empty() {
                continue;
            }
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.len() == ERROR_LINES {
                lines.pop_front();
            }
            lines.push_back(text);
        }
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

/// Starts a process in its own process group, with the service's `PATH` and a home directory of its own, so that programs such as `npx`
/// and `uvx` work. Everything else in the environment is configured.
///
/// # Errors
/// A description of the problem.
pub(super) fn start(
    config: &ProcessConfig,
    limits: OutputLimits,
) -> Result<(Running, LimitedLines<ChildStdout>, ChildStdin), String> {
    let [program, arguments @ ..] = config.command.as_slice() else {
        return Err("its command is empty".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    if let Some(home) = &config.home {
        let created = create_home(home);
        created.map_err(|e| format!("its home directory could not be created: {}", e.kind()))?;
        command.env("HOME", home);
    }
    let spawned = command
        .envs(&config.env)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let mut child = spawned.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => format!("its program `{program}` was not found"),
        kind => format!("its program `{program}` could not be started: {kind}"),
    })?;
    let missing = || "its process has no standard input or output".to_owned();
    let output = child.stdout.take().ok_or_else(missing)?;
    let input = child.stdin.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    let errors = Errors::default();
    #[expect(
        clippy::disallowed_methods,
        reason = "ends with the process, which is killed when it is dropped"
    )]
    tokio::spawn(errors.clone().read(stderr, config.secrets()));
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let output = LimitedLines::new(output, limits);
    let running = Running {
        written: Arc::clone(&output.written),
        errors,
        group: id.and_then(Pid::from_raw),
        _child: child,
    };
    Ok((running, output, input))
}

/// Creates a directory that only this user can read, unless it exists.
fn create_home(home: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(home)
}

/// Reads lines with messages, in the form that `received` gives them, and fails if they exceed the limits on their length and number.
pub(super) struct LimitedLines<R> {
    inner: R,
    line_bytes: usize,
    /// The line that is not complete yet.
    line: Vec<u8>,
    /// Complete lines that have not been returned, from `returned` on.
    ready: Vec<u8>,
    returned: usize,
    written: Arc<Written>,
    limits: OutputLimits,
}

impl<R> LimitedLines<R> {
    fn new(inner: R, limits: OutputLimits) -> Self {
        Self {
            inner,
            line_bytes: 0,
            line: Vec::new(),
            ready: Vec::new(),
            returned: 0,
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

impl<R> LimitedLines<R> {
    /// Adds a piece of output. At the end of the output, a piece is empty and completes the last line.
    fn add(&mut self, piece: &[u8]) {
        if piece.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.complete(&line, b"");
        }
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.last() == Some(&b'\n') {
                let mut line = std::mem::take(&mut self.line);
                line.pop();
                self.complete(&line, b"\n");
            }
        }
    }

    fn complete(&mut self, line: &[u8], end: &[u8]) {
        match received::parse(line) {
            Some(message) => self.ready.extend_from_slice(message.to_string().as_bytes()),
            None => self.ready.extend_from_slice(line),
        }
        self.ready.extend_from_slice(end);
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for LimitedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.returned < self.ready.len() {
                let rest = &self.ready[self.returned..];
                let count = rest.len().min(buf.remaining());
                buf.put_slice(&rest[..count]);
                self.returned += count;
                return Poll::Ready(Ok(()));
            }
            self.ready.clear();
            self.returned = 0;
            let mut piece = [0; PIECE_BYTES];
            let mut piece = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut self.inner).poll_read(cx, &mut piece))?;
            let piece = piece.filled();
            let is_end = piece.is_empty();
            if let Err(excess) = self.count(piece) {
                self.written.excess.get_or_init(|| excess);
                return Poll::Ready(Err(io::Error::other(excess)));
            }
            self.add(piece);
            if is_end && self.ready.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tokio::io::AsyncWriteExt;

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
    async fn the_last_error_lines_are_kept_without_secrets() {
        let script = "for n in 1 2 3 4 5 6; do echo \"line $n $SECRET $2 $3\" >&2; done; printf 'no end' >&2";
        let arguments = [
            "sh",
            "-c",
            script,
            "sh",
            "--api-key",
            "sk-1234567",
            "--url=x",
        ];
        let config = ProcessConfig {
            command: arguments.map(str::to_owned).to_vec(),
            env: BTreeMap::from([("SECRET".to_owned(), "flamingo".to_owned())]),
            workspaces: Vec::new(),
            home: None,
        };
        let limits = OutputLimits {
            line_bytes: 10,
            lines: 10,
            bytes: 10,
        };
        let (running, _output, _input) = start(&config, limits).unwrap();
        running.errors.end.cancelled().await;
        let line = |n| format!("line {n} [secret] [secret] --url=x");
        let lines = [line(3), line(4), line(5), line(6)].join(" / ");
        assert_eq!(running.last_lines().await, format!(": {lines} / no end"));
        let missing = ProcessConfig {
            command: vec!["no-such-program".to_owned()],
            ..config
        };
        let problem = start(&missing, limits).err().unwrap();
        assert_eq!(problem, "its program `no-such-program` was not found");
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
    async fn a_process_has_a_path_and_a_home_and_ends_with_its_value() {
        let limits = OutputLimits {
            line_bytes: 1000,
            lines: 10,
            bytes: 1000,
        };
        let directory =
            std::env::temp_dir().join(format!("openvibe-home-{}", uuid::Uuid::now_v7()));
        let config = ProcessConfig {
            // Also checks that the program is found in `PATH`.
            command: vec!["env".to_owned()],
            env: BTreeMap::from([("ONLY".to_owned(), "this".to_owned())]),
            workspaces: Vec::new(),
            home: Some(directory.join("mcp/env")),
        };
        let environment = async |config: &ProcessConfig| {
            let (_running, mut output, _input) = start(config, limits).unwrap();
            let mut text = String::new();
            output.read_to_string(&mut text).await.unwrap();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        let path = format!("PATH={}", std::env::var("PATH").unwrap());
        let home = directory.join("mcp/env");
        let home_line = format!("HOME={}", home.display());
        let found = environment(&config).await;
        assert_eq!(found, [home_line, "ONLY=this".to_owned(), path.clone()]);
        let mode = home.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let env = BTreeMap::from([("HOME".to_owned(), "/srv".to_owned())]);
        let config = ProcessConfig { env, ..config };
        let found = environment(&config).await;
        assert_eq!(found, ["HOME=/srv".to_owned(), path]);
        std::fs::remove_dir_all(directory).unwrap();
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
