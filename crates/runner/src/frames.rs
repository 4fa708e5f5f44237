//! Frames between the server and a runner: JSON objects `{type, session, n, …}`, numbered in both directions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of this protocol.
pub const PROTOCOL: u32 = 1;
/// Maximum size of a frame.
pub const FRAME_BYTES_MAX: usize = 256 << 10;
/// Maximum number of a frame: the next ones can be counted.
const NUMBER_MAX: u64 = 1 << 62;
/// Maximum size of one text in a frame, which leaves room for escapes.
pub(crate) const TEXT_BYTES_MAX: usize = 32 << 10;

/// A command of the server. Unknown fields are ignored, so that a newer server can add some.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Command {
    Open {
        repository: String,
        number: u64,
        engine: String,
        /// True if the new copy starts with the session's last patch, which the runner then reads from the server.
        #[serde(default)]
        patch: bool,
        /// Number of the last event that the server has: a runner that no longer has the session continues after it.
        #[serde(default)]
        last_event: u64,
    },
    Prompt {
        task: String,
        /// Key of the turn, for the server's model and tools.
        key: String,
        /// What is new for the agent.
        text: String,
        /// Instructions, conversation, and trigger: for an agent that has no session to continue.
        #[serde(default)]
        full: Option<String>,
        /// Limits of the agent's sandbox policy, which apply in addition to those of the runner.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<TurnLimits>,
    },
    Steer {
        task: String,
        text: String,
    },
    Answer {
        ask: String,
        /// ID of an option, or the object of a form; null declines.
        value: Value,
    },
    Cancel {
        task: String,
    },
    Push {
        action: String,
        tree: String,
        parent: String,
        branch: String,
        title: String,
        body: String,
        /// Time of the commit, RFC 3339 in UTC.
        at: String,
    },
    Close,
    Forget {
        /// Task whose log goes; null: all of them, and the patch.
        #[serde(default)]
        task: Option<String>,
    },
    /// A command of a newer server: not executed.
    #[serde(other)]
    Unknown,
}

/// Limits of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnLimits {
    /// Maximum duration in seconds.
    pub seconds: u64,
    /// Maximum memory in MiB.
    pub memory_mb: u64,
    /// Number of processors.
    pub cpu: usize,
    /// True if the agent can change the copy.
    pub writes: bool,
    /// Those hosts of the repository that the agent can reach; null for all of them.
    pub hosts: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    Running,
    Done,
    Failed,
}

/// One thing that the agent did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Number in the turn, from 0; a later step with this number replaces it.
    pub step: usize,
    pub title: String,
    /// Kind of the Agent Client Protocol, such as `edit` or `execute`.
    pub kind: String,
    pub state: StepState,
    pub ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEntry {
    pub content: String,
    pub status: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskOption {
    pub id: String,
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskKind {
    /// A question with a form (`schema`).
    Question,
    /// A permission with options.
    Permission,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    Complete,
    /// A limit of the agent ended the turn.
    Truncated,
    Canceled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileStatus {
    Added,
    Modified,
    Deleted,
    Renamed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    pub path: String,
    pub old_path: Option<String>,
    pub status: FileStatus,
    pub additions: u64,
    pub deletions: u64,
    pub binary: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    Passed,
    Failed,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    pub state: CheckState,
    pub ms: u64,
}

/// Code of a failed task or push.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    SandboxFailed,
    AgentFailed,
    Refused,
    Timeout,
    WorkerLost,
    /// The tree or its parent is not what this session reported last.
    DiffChanged,
    PushFailed,
}

/// Changes after a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Null if the changes are larger than 20 MiB: `too_large`.
    pub tree: Option<String>,
    pub too_large: bool,
    /// At most 300.
    pub files: Vec<ChangedFile>,
    pub file_count: u64,
    pub additions: u64,
    pub deletions: u64,
    pub notes: Vec<String>,
}

/// An event of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    Opened {
        commit: String,
    },
    Text {
        task: String,
        text: String,
    },
    Step {
        task: String,
        steps: Vec<Step>,
    },
    Plan {
        task: String,
        entries: Vec<PlanEntry>,
    },
    /// What the agent reports about calls of models that are not the server's.
    Usage {
        task: String,
        /// All costs up to now; null if they are unknown.
        #[serde(default)]
        reported_cost_usd: Option<f64>,
        /// Tokens since the last report.
        #[serde(default)]
        input_tokens: u64,
        #[serde(default)]
        output_tokens: u64,
    },
    Ask {
        task: String,
        ask: String,
        kind: AskKind,
        title: String,
        options: Vec<AskOption>,
        schema: Option<Value>,
    },
    Done {
        task: String,
        stop: StopReason,
        #[serde(flatten)]
        changes: Changes,
        check: Check,
        /// Numbers of `steer` commands that the agent did not read.
        unread_steers: Vec<u64>,
        /// Number of the last command that the runner had then: `steer` commands after it were not read, either.
        #[serde(default)]
        received: Option<u64>,
        /// Size of the text after the last step in bytes, without white space at its end: what the agent says about its work. 0 if it is unknown.
        #[serde(default)]
        last_text_bytes: u64,
    },
    Failed {
        task: Option<String>,
        action: Option<String>,
        code: FailureCode,
        message: String,
    },
    /// `note` is set if the pull request could not be opened.
    Pushed {
        action: String,
        commit: String,
        url: Option<String>,
        note: Option<String>,
    },
}

/// A frame with its number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Numbered<T> {
    pub session: String,
    pub n: u64,
    #[serde(flatten)]
    pub body: T,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedRepository {
    pub name: String,
    pub base: String,
    pub can_push: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedEngine {
    pub name: String,
    /// Host of the provider, through which the agent can reach the web.
    pub to: Option<String>,
}

/// A program that runs in an empty directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Name of the language, such as `python`.
    pub language: String,
    pub code: String,
    /// Maximum duration in seconds.
    pub seconds: u64,
    /// Maximum memory in MiB; null for the runner's limit, which also applies.
    #[serde(default)]
    pub memory_mb: Option<u64>,
    /// Number of processors; null for the runner's limit, which also applies.
    #[serde(default)]
    pub cpu: Option<usize>,
    /// True if the program can write to files.
    pub writes: bool,
}

/// End of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ProgramEnd {
    /// The program has ended. The output includes the exit status, unless it is 0.
    Ended { output: String },
    /// The program was not started.
    Refused { message: String },
}

/// Frames of a connection, which are not kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Control {
    Hello {
        protocol: u32,
        version: String,
        repositories: Vec<OfferedRepository>,
        engines: Vec<OfferedEngine>,
        sandbox: crate::config::SandboxKind,
        /// True if the runner takes `run`.
        #[serde(default)]
        scratch: bool,
        /// Number of turns that work at the same time; null if the runner takes all at once.
        #[serde(default)]
        turns: Option<usize>,
        /// Number of the last command by session.
        sessions: BTreeMap<String, u64>,
    },
    /// Number of the last event by session.
    Ready {
        sessions: BTreeMap<String, u64>,
    },
    Ack {
        session: String,
        n: u64,
    },
    /// Asks for all frames after number `n`.
    Resend {
        session: String,
        n: u64,
    },
    /// Asks a runner for a folder of a repository's base commit, which it sends over HTTP.
    Read {
        id: String,
        repository: String,
        path: String,
    },
    /// Events up to number `n` are gone, and are not sent again.
    Skip {
        session: String,
        n: u64,
    },
    /// Runs a program, which ends with the connection.
    Run {
        run: String,
        #[serde(flatten)]
        program: Program,
    },
    /// Ends a program, without a response.
    Kill {
        run: String,
    },
    Ran {
        run: String,
        end: ProgramEnd,
    },
}

/// A frame of the server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Incoming {
    Control(Control),
    Command(Numbered<Command>),
}

impl Incoming {
    /// Parses a frame; `None` if it is not one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() > FRAME_BYTES_MAX {
            return None;
        }
        if let Ok(control) = serde_json::from_str::<Control>(text) {
            let fits = match &control {
                Control::Ready { sessions } => sessions.values().all(|n| *n <= NUMBER_MAX),
                _ => true,
            };
            return fits.then_some(Self::Control(control));
        }
        let command: Numbered<Command> = serde_json::from_str(text).ok()?;
        let last_event = match &command.body {
            Command::Open { last_event, .. } => *last_event,
            _ => 0,
        };
        let fits = is_id(&command.session)
            && (1..=NUMBER_MAX).contains(&command.n)
            && last_event <= NUMBER_MAX;
        fits.then_some(Self::Command(command))
    }
}

/// True if the text is an ID of the server, which can be part of a path.
pub(crate) fn is_id(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && text.len() <= 64 && text.chars().all(fits)
}

/// The start of a text, cut between characters.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_unknown_fields_is_read() {
        let text =
            r#"{"type":"cancel","session":"code_1","n":3,"task":"task_1","later":{"x":[1]}}"#;
        let cancel = Command::Cancel { task: "task_1".to_owned() };
        let frame = Numbered { session: "code_1".to_owned(), n: 3, body: cancel };
        assert_eq!(Incoming::parse(text), Some(Incoming::Command(frame)));
    }

    #[test]
    fn a_command_of_a_newer_server_is_known_as_unknown() {
        let text = r#"{"type":"dance","session":"code_1","n":1,"steps":2}"#;
        let Some(Incoming::Command(frame)) = Incoming::parse(text) else { panic!("not read") };
        assert_eq!(frame.body, Command::Unknown);
    }

    #[test]
    fn invalid_frames_are_rejected() {
        for text in [
            "",
            "[]",
            r#"{"type":"close"}"#,
            r#"{"type":"close","session":"../x","n":1}"#,
            r#"{"type":"close","session":"code_1","n":0}"#,
            r#"{"type":"cancel","session":"code_1","n":1}"#,
            r#"{"type":"ack","session":"code_1","n":-1}"#,
            r#"{"type":"ready","sessions":{"code_1":18446744073709551615}}"#,
            r#"{"type":"close","session":"code_1","n":18446744073709551615}"#,
            r#"{"type":"open","session":"code_1","n":1,"repository":"a","number":1,"engine":"b","last_event":18446744073709551615}"#,
        ] {
            assert_eq!(Incoming::parse(text), None, "{text}");
        }
        let long = format!(
            r#"{{"type":"close","session":"code_1","n":1,"x":"{}"}}"#,
            "x".repeat(FRAME_BYTES_MAX)
        );
        assert_eq!(Incoming::parse(&long), None);
    }

    #[test]
    fn a_program_is_read_without_limits_of_its_own() {
        let text =
            r#"{"type":"run","run":"act_1","language":"sh","code":"id","seconds":9,"writes":true}"#;
        let Some(Incoming::Control(Control::Run { run, program })) = Incoming::parse(text) else {
            panic!("not read")
        };
        assert_eq!((run.as_str(), program.seconds, program.cpu), ("act_1", 9, None));
    }

    #[test]
    fn an_event_is_one_flat_object() {
        let done = Event::Done {
            task: "task_1".to_owned(),
            stop: StopReason::Complete,
            changes: Changes { tree: Some("abc".to_owned()), ..Changes::default() },
            check: Check { state: CheckState::None, ms: 0 },
            unread_steers: Vec::new(),
            received: Some(9),
            last_text_bytes: 5,
        };
        let frame = Numbered { session: "code_1".to_owned(), n: 7, body: done };
        let value = serde_json::to_value(&frame).unwrap();
        assert_eq!(value["type"], "done");
        assert_eq!(value["tree"], "abc");
        assert_eq!(value["check"]["state"], "none");
        assert_eq!(serde_json::from_value::<Numbered<Event>>(value).unwrap(), frame);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 9), "aé");
    }
}
