//! The process that reads one file: `openvibe extract`, with the file on its standard input and nothing else.

use std::{io, os::unix::process::ExitStatusExt, path::Path, process::Stdio, time::Duration};

use futures::StreamExt;
use openvibe_documents::{
    DocumentKind, End, Line, NO_SANDBOX, Part, Reason, State, TEXT_BYTES_MAX,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::mpsc,
    time::timeout,
};

use super::rows::{DocumentReason, DocumentState, Outcome};
use crate::{db::DbError, files::Bytestream};

/// Time limit of the whole process, which also limits its own processor time.
const ENDS_WITHIN: Duration = Duration::from_mins(2);
/// Maximum size of the output: texts are escaped in JSON.
const OUTPUT_BYTES_MAX: usize = 3 * TEXT_BYTES_MAX;
/// Parts are stored when they reach one of these sizes together.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_PARTS: usize = 200;
/// Maximum number of characters of a file name's ending that the process gets.
const ENDING_CHARS_MAX: usize = 12;

/// Signals that end a process at its limits.
const SIGNAL_ABORT: i32 = 6;
const SIGNAL_KILL: i32 = 9;
const SIGNAL_CPU: i32 = 24;

/// Error that is not about the content of a file, which is read again later.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("the process that reads files could not be started: {0}")]
    Start(#[source] io::Error),
    #[error("the stored bytes could not be read: {0}")]
    Storage(#[source] io::Error),
    #[error(transparent)]
    Db(#[from] DbError),
}

/// Starts the process. `argument` is the ending of a name, or `PICTURE`.
pub(in crate::files) fn start(program: &Path, argument: &str) -> io::Result<Child> {
    Command::new(program)
        .arg0("openvibe")
        .arg("extract")
        .arg(argument)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
}

/// Reads a file, and sends its parts in batches; `None` if the receiver was closed before the end.
pub(super) async fn read(
    program: &Path,
    name: &str,
    bytes: Bytestream,
    batches: mpsc::Sender<Vec<Part>>,
) -> Result<Option<Outcome>, ReadError> {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_plain = |c: char| c.is_ascii_alphanumeric();
    let ending: String = ending
        .chars()
        .filter(|c| is_plain(*c))
        .take(ENDING_CHARS_MAX)
        .collect();
    let mut child = start(program, &ending).map_err(ReadError::Start)?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(ReadError::Start(io::ErrorKind::BrokenPipe.into()));
    };
    let mut progress = Progress::default();
    let talk = async {
        let (fed, ()) = tokio::join!(feed(stdin, bytes), progress.read(stdout, batches));
        fed
    };
    let talked = timeout(ENDS_WITHIN, talk).await;
    let is_late = talked.is_err();
    let fed = talked.unwrap_or(Ok(()));
    if is_late || progress.is_unwanted {
        let _ = child.start_kill();
    }
    let status = child.wait().await.map_err(ReadError::Start)?;
    if progress.is_unwanted {
        return Ok(None);
    }
    // Even a result may be about the first bytes only.
    fed.map_err(ReadError::Storage)?;
    if status.code() == Some(i32::from(NO_SANDBOX)) {
        return Ok(Some(Outcome {
            state: DocumentState::Off,
            reason: None,
            parts: 0,
            chars: 0,
            unread_parts: Vec::new(),
            kind: DocumentKind::Other,
        }));
    }
    let Some(end) = progress.end.take() else {
        let reason = match status.signal() {
            _ if is_late => DocumentReason::TooSlow,
            Some(SIGNAL_CPU) => DocumentReason::TooSlow,
            Some(SIGNAL_ABORT | SIGNAL_KILL) => DocumentReason::TooLarge,
            _ => DocumentReason::Damaged,
        };
        return Ok(Some(progress.cut(reason)));
    };
    Ok(Some(progress.whole(&end)))
}

/// Writes the file to the process. A process that stops reading has seen enough.
pub(in crate::files) async fn feed(mut stdin: ChildStdin, mut bytes: Bytestream) -> io::Result<()> {
    while let Some(piece) = bytes.next().await {
        if stdin.write_all(&piece?).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Output of the process so far.
#[derive(Default)]
struct Progress {
    parts: i64,
    chars: i64,
    has_text: bool,
    end: Option<End>,
    is_unwanted: bool,
}

impl Progress {
    async fn read(&mut self, stdout: ChildStdout, batches: mpsc::Sender<Vec<Part>>) {
        let mut lines = BufReader::new(stdout.take(OUTPUT_BYTES_MAX as u64));
        let mut batch = Vec::new();
        let mut batch_bytes = 0;
        loop {
            let mut line = Vec::new();
            let len = lines.read_until(b'\n', &mut line).await.unwrap_or(0);
            let parsed = Line::parse(&line);
            drop(line);
            match parsed {
                Some(Line::Part(part)) => {
                    self.parts = i64::from(part.part);
                    self.chars += i64::try_from(part.text.chars().count()).unwrap_or(0);
                    self.has_text |= !part.text.is_empty();
                    batch_bytes += part.text.len();
                    batch.push(part);
                }
                Some(Line::End(end)) => self.end = Some(end),
                None => {}
            }
            let is_last = len == 0 || self.end.is_some();
            if is_last || batch_bytes >= BATCH_BYTES || batch.len() >= BATCH_PARTS {
                batch_bytes = 0;
                let full = std::mem::take(&mut batch);
                if !full.is_empty() && batches.send(full).await.is_err() {
                    self.is_unwanted = true;
                    return;
                }
            }
            if is_last {
                return;
            }
        }
    }

    fn outcome(&self, state: DocumentState, reason: Option<DocumentReason>) -> Outcome {
        Outcome {
            state,
            reason,
            parts: self.parts,
            chars: self.chars,
            unread_parts: Vec::new(),
            kind: DocumentKind::Other,
        }
    }

    /// The result of a process that ended before its last line.
    fn cut(&self, reason: DocumentReason) -> Outcome {
        let state = if self.has_text {
            DocumentState::Partial
        } else {
            DocumentState::Failed
        };
        self.outcome(state, Some(reason))
    }

    fn whole(&self, end: &End) -> Outcome {
        let state = match end.state {
            State::Ready => DocumentState::Ready,
            State::Partial => DocumentState::Partial,
            State::Failed => DocumentState::Failed,
            State::None => DocumentState::None,
        };
        Outcome {
            unread_parts: end.unread_parts.clone(),
            kind: end.kind,
            ..self.outcome(state, end.reason.map(reason))
        }
    }
}

fn reason(reason: Reason) -> DocumentReason {
    match reason {
        Reason::Scanned => DocumentReason::Scanned,
        Reason::Encrypted => DocumentReason::Encrypted,
        Reason::Damaged => DocumentReason::Damaged,
        Reason::TooLarge => DocumentReason::TooLarge,
        Reason::TooSlow => DocumentReason::TooSlow,
        Reason::NoTextMap => DocumentReason::NoTextMap,
        Reason::OldFormat => DocumentReason::OldFormat,
    }
}
