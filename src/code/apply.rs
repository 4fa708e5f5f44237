//! Events of runners. Each is one transaction together with its number, so that it counts once, however often it is sent.

use openvibe_runner::{Event, FailureCode, Numbered, PlanEntry, Step, StepState};

use super::{
    finish,
    link::is_of_runner,
    push::{self, PushEnd},
    question::{self, AgentQuestion},
    reply::{ActiveTurn, is_commit, open_reply},
    runner::RunnerIdentity,
    sessions::{self, SessionState},
    turns::{self, Told},
};
use crate::{
    agents::profiles,
    chat::messages::{MessageState, ReplyText},
    db::{Conn, Db, DbError, Json, dialect::lock_workspace},
    failpoint,
    ids::{ActionId, CodeSessionId, MessageId, TaskId},
    realtime::{
        CodePlanEntry, CodeStep, CodeStepState,
        hub::{Conversation, TaskRun},
    },
    tasks::{FailCode, TokenUsage, queue},
};

/// Maximum size of the text of a reply in UTF-8 bytes.
const REPLY_BYTES_MAX: i64 = 256 * 1024;
/// Maximum number of steps of a turn, and of entries of a plan.
const STEPS_MAX: usize = 1000;
const PLAN_MAX: usize = 50;
/// Number of steps that take as long as a small event.
const STEPS_PER_WEIGHT: usize = 16;
const TITLE_CHARS_MAX: usize = 300;
const KIND_CHARS_MAX: usize = 40;
/// Maximum number of tokens of a report: sums of them can be counted.
const TOKENS_MAX: u64 = 1 << 40;
/// Maximum length of a failure's description in characters.
const CAUSE_CHARS_MAX: usize = 500;

fn state_of(state: StepState) -> CodeStepState {
    match state {
        StepState::Running => CodeStepState::Running,
        StepState::Done => CodeStepState::Done,
        StepState::Failed => CodeStepState::Failed,
    }
}

/// An event of a runner.
#[derive(Debug, Clone)]
pub struct RunnerEvent {
    pub session: CodeSessionId,
    pub n: i64,
    event: Event,
}

impl RunnerEvent {
    /// Parses a frame; `None` if it is not an event.
    pub fn parse(text: &str) -> Option<Self> {
        let frame: Numbered<Event> = serde_json::from_str(text).ok()?;
        Some(Self {
            session: CodeSessionId::parse(&frame.session).ok()?,
            n: i64::try_from(frame.n).ok().filter(|n| *n > 0)?,
            event: frame.body,
        })
    }

    /// Number of small events that take as long as this one, about.
    pub fn weight(&self) -> u32 {
        match &self.event {
            Event::Step { steps, .. } => {
                u32::try_from(1 + steps.len() / STEPS_PER_WEIGHT).unwrap_or(u32::MAX)
            }
            _ => 1,
        }
    }
}

/// What people see of an event at once.
#[derive(Debug, Clone)]
pub enum Shown {
    /// Text of a reply.
    Text {
        run: TaskRun,
        conversation: Conversation,
        message: MessageId,
        attempt: i64,
        piece: String,
    },
    /// Changed steps, or the whole plan.
    Steps {
        task: TaskId,
        conversation: Conversation,
        steps: Vec<CodeStep>,
        plan: Option<Vec<CodePlanEntry>>,
    },
}

/// Result of an event.
#[derive(Debug, Clone)]
pub enum Applied {
    /// The event was stored, or has no effect.
    Stored(Option<Shown>),
    /// Events after this number are missing.
    Gap(i64),
}

fn line(text: &str, chars_max: usize) -> String {
    let text = text.replace(char::is_control, " ");
    text.trim().chars().take(chars_max).collect()
}

/// Stores an event of a runner.
///
/// # Errors
/// Only database errors.
pub async fn apply(
    db: &Db,
    runner: RunnerIdentity,
    event: RunnerEvent,
) -> Result<Applied, DbError> {
    // Long texts are prepared outside of the transaction, because other writers would have to wait.
    let text = match &event.event {
        Event::Done { task, .. } => match TaskId::parse(task) {
            Ok(task) => finish::prepare(db, task).await?,
            Err(_) => None,
        },
        _ => None,
    };
    let applied = db
        .write(runner.workspace_id.0, async move |c: &mut Conn| {
            store(c, runner, &event, text.as_ref()).await
        })
        .await?;
    failpoint!("runner_event_stored");
    Ok(applied)
}

async fn store(
    c: &mut Conn,
    runner: RunnerIdentity,
    frame: &RunnerEvent,
    text: Option<&ReplyText>,
) -> Result<Applied, DbError> {
    lock_workspace(c, runner.workspace_id.0).await?;
    let session = frame.session;
    if !is_of_runner(c, runner.id, session).await? {
        // The session was deleted, or belongs to another runner: it is acknowledged, so that it is not sent again.
        return Ok(Applied::Stored(None));
    }
    let (last,): (i64,) = c
        .q("select last_event from code_sessions where id = $1")
        .bind(session)
        .one()
        .await?;
    if frame.n <= last {
        return Ok(Applied::Stored(None));
    }
    if frame.n > last + 1 {
        return Ok(Applied::Gap(last));
    }
    c.q("update code_sessions set last_event = $2 where id = $1")
        .bind(session)
        .bind(frame.n)
        .run()
        .await?;
    let shown = match frame.event.clone() {
        Event::Opened { commit } => {
            opened(c, session, &commit).await?;
            None
        }
        Event::Text { task, text } => match active(c, session, &task).await? {
            Some(turn) => append(c, session, &turn, &text).await?,
            None => None,
        },
        Event::Step { task, steps } => match active(c, session, &task).await? {
            Some(turn) => store_steps(c, &turn, &steps).await?,
            None => None,
        },
        Event::Plan { task, entries } => match active(c, session, &task).await? {
            Some(turn) => store_plan(c, &turn, entries).await?,
            None => None,
        },
        Event::Usage {
            task,
            reported_cost_usd,
            input_tokens,
            output_tokens,
        } => {
            if let Some(turn) = active(c, session, &task).await? {
                count_tokens(c, session, &turn, [input_tokens, output_tokens]).await?;
                if let Some(usd) = reported_cost_usd {
                    count_cost(c, &turn, usd).await?;
                }
            }
            None
        }
        Event::Ask {
            task,
            ask,
            kind,
            title,
            options,
            schema,
        } => {
            if let Some(turn) = active(c, session, &task).await? {
                let question = AgentQuestion {
                    ask,
                    kind,
                    title,
                    options,
                    schema,
                };
                let audience = turn.lease.audience;
                question::ask_for_agent(c, session, &turn.task, question, audience).await?;
            }
            None
        }
        Event::Done {
            task,
            stop,
            changes,
            check,
            unread_steers,
            received,
            last_text_bytes,
        } => {
            let done = finish::Done {
                stop,
                changes,
                check,
                unread_steers,
                received,
                last_text_bytes,
            };
            if let Some(turn) = active(c, session, &task).await? {
                finish::finish(c, session, Some(&turn), &done, text).await?;
            } else if let Ok(task) = TaskId::parse(&task) {
                finish::finish_late(c, session, task, &done).await?;
            }
            None
        }
        Event::Failed {
            task,
            action,
            code,
            message,
        } => {
            let cause = line(&message, CAUSE_CHARS_MAX);
            failed(c, session, task.as_deref(), action.as_deref(), code, &cause).await?;
            None
        }
        Event::Pushed {
            action,
            commit,
            url,
            note,
        } => {
            if let Some(action) = ActionId::parse(&action).ok().filter(|_| is_commit(&commit)) {
                let end = PushEnd::Pushed {
                    commit,
                    url: url.filter(|url| is_link(url)),
                    note: note.map(|note| line(&note, CAUSE_CHARS_MAX)),
                };
                push::finish(c, session, action, &end).await?;
            }
            None
        }
    };
    failpoint!("runner_event");
    Ok(Applied::Stored(shown))
}

fn is_link(url: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '<' | '>' | '\\' | '`');
    url.len() <= 2000
        && (url.starts_with("https://") || url.starts_with("http://"))
        && url.chars().all(is_plain)
}

/// The turn of a session with this task, which starts if it was waiting; `None` if the task has ended, or belongs to another session.
async fn active(
    c: &mut Conn,
    session: CodeSessionId,
    task: &str,
) -> Result<Option<ActiveTurn>, DbError> {
    let Ok(id) = TaskId::parse(task) else {
        return Ok(None);
    };
    let turn = turns::find(c, id).await?;
    if turn.is_none_or(|turn| turn.session_id != session) {
        return Ok(None);
    }
    queue::begin_outside(c, id).await?;
    let Some(task) = queue::find_task(c, id).await? else {
        return Ok(None);
    };
    let lease = queue::find_outside_lease(c, &task).await?;
    Ok(lease.map(|lease| ActiveTurn { task, lease }))
}

async fn opened(c: &mut Conn, session: CodeSessionId, commit: &str) -> Result<(), DbError> {
    if !is_commit(commit) {
        return Ok(());
    }
    let row = sessions::find_row(c, session).await?;
    if row.is_none_or(|row| !row.is_open()) {
        // It was closed while the runner prepared the copy, which the runner deletes next.
        return Ok(());
    }
    let has_turns = !turns::list_of_session(c, session).await?.is_empty();
    let state = if has_turns {
        SessionState::Working
    } else {
        SessionState::Ready
    };
    c.q("update code_sessions set base_commit = $2, state = $3 where id = $1")
        .bind(session)
        .bind(commit.to_owned())
        .bind(state)
        .run()
        .await?;
    sessions::announce(c, session).await
}

/// Appends text to the reply of a turn. The first text creates the reply.
async fn append(
    c: &mut Conn,
    session: CodeSessionId,
    turn: &ActiveTurn,
    text: &str,
) -> Result<Option<Shown>, DbError> {
    let clean = text.replace('\0', "");
    let (message, piece) = if let Some(message) = turn.task.reply_message_id {
        (message, clean.as_str())
    } else {
        let piece = clean.trim_start();
        if piece.is_empty() {
            return Ok(None);
        }
        (open_reply(c, session, turn).await?, piece)
    };
    let appended = c
        .q("update messages set content = content || $2 where id = $1 and state = $3 and deleted_at is null and octet_length(content) < $4")
        .bind(message)
        .bind(piece.to_owned())
        .bind(MessageState::Streaming)
        .bind(REPLY_BYTES_MAX)
        .run()
        .await?;
    Ok((appended == 1).then(|| Shown::Text {
        run: turn.lease.run(),
        conversation: turn.lease.target.conversation(),
        message,
        attempt: turn.task.attempt,
        piece: piece.to_owned(),
    }))
}

async fn store_steps(
    c: &mut Conn,
    turn: &ActiveTurn,
    steps: &[Step],
) -> Result<Option<Shown>, DbError> {
    let mut stored = Vec::new();
    for step in steps.iter().filter(|step| step.step < STEPS_MAX) {
        let step = CodeStep {
            n: i64::try_from(step.step).unwrap_or(i64::MAX),
            title: line(&step.title, TITLE_CHARS_MAX),
            kind: line(&step.kind, KIND_CHARS_MAX),
            state: state_of(step.state),
            ms: i64::try_from(step.ms).unwrap_or(i64::MAX),
        };
        c.q("insert into code_steps (task_id, n, title, kind, state, ms) values ($1, $2, $3, $4, $5, $6) \
             on conflict (task_id, n) do update set title = excluded.title, kind = excluded.kind, state = excluded.state, ms = excluded.ms")
            .bind(turn.task.id)
            .bind(step.n)
            .bind(step.title.clone())
            .bind(step.kind.clone())
            .bind(step.state)
            .bind(step.ms)
            .run()
            .await?;
        stored.push(step);
    }
    Ok((!stored.is_empty()).then(|| Shown::Steps {
        task: turn.task.id,
        conversation: turn.lease.target.conversation(),
        steps: stored,
        plan: None,
    }))
}

async fn store_plan(
    c: &mut Conn,
    turn: &ActiveTurn,
    entries: Vec<PlanEntry>,
) -> Result<Option<Shown>, DbError> {
    let entries = entries.into_iter().take(PLAN_MAX);
    let plan: Vec<CodePlanEntry> = entries
        .map(|entry| CodePlanEntry {
            content: line(&entry.content, TITLE_CHARS_MAX),
            status: line(&entry.status, KIND_CHARS_MAX),
        })
        .collect();
    c.q("update task_keys set plan = $2 where task_id = $1")
        .bind(turn.task.id)
        .bind(Json(plan.clone()))
        .run()
        .await?;
    Ok(Some(Shown::Steps {
        task: turn.task.id,
        conversation: turn.lease.target.conversation(),
        steps: Vec::new(),
        plan: Some(plan),
    }))
}

/// Adds input and output tokens of calls that an agent has made without this server, as it reports them.
async fn count_tokens(
    c: &mut Conn,
    session: CodeSessionId,
    turn: &ActiveTurn,
    tokens: [u64; 2],
) -> Result<(), DbError> {
    let [input_tokens, output_tokens] = tokens.map(|count| count.min(TOKENS_MAX).cast_signed());
    if input_tokens + output_tokens == 0 {
        return Ok(());
    }
    let row = sessions::find_row(c, session).await?;
    let usage = TokenUsage {
        input_tokens,
        output_tokens,
        model: row.map(|row| row.engine).unwrap_or_default(),
        cost_usd: None,
        estimated: false,
    };
    queue::add_usage(c, turn.task.id, usage).await
}

/// Stops a turn whose cost, as its agent reports it, is above the agent's limit.
async fn count_cost(c: &mut Conn, turn: &ActiveTurn, usd: f64) -> Result<(), DbError> {
    if !usd.is_finite() || usd < 0.0 {
        return Ok(());
    }
    c.q("update task_keys set reported_cost_usd = $2 where task_id = $1")
        .bind(turn.task.id)
        .bind(usd)
        .run()
        .await?;
    let target = turn.lease.target;
    let agent = profiles::find_resolved(c, target.agent, target.agent_version).await?;
    let coding = agent
        .as_ref()
        .and_then(|agent| agent.profile.coding.as_ref());
    let limit = coding.and_then(|coding| coding.usd_max);
    if limit.is_some_and(|limit| usd > limit) {
        let name = profiles::shown_name(c, target.agent).await?;
        let text = format!("{name} stopped: the turn cost more than its limit.");
        turns::fail(c, turn.task.id, FailCode::BudgetExceeded, Some(&text)).await?;
    }
    Ok(())
}

fn code_of(code: FailureCode) -> FailCode {
    match code {
        FailureCode::Refused => FailCode::Refused,
        FailureCode::Timeout => FailCode::Timeout,
        FailureCode::WorkerLost => FailCode::WorkerLost,
        FailureCode::SandboxFailed
        | FailureCode::AgentFailed
        | FailureCode::DiffChanged
        | FailureCode::PushFailed => FailCode::SandboxFailed,
    }
}

/// Ends a turn or a push that has failed, or all turns of a session that could not be prepared.
async fn failed(
    c: &mut Conn,
    session: CodeSessionId,
    task: Option<&str>,
    action: Option<&str>,
    code: FailureCode,
    cause: &str,
) -> Result<(), DbError> {
    if let Some(action) = action.and_then(|action| ActionId::parse(action).ok()) {
        return push::finish(c, session, action, &PushEnd::Failed(cause.to_owned())).await;
    }
    let Some(task) = task else {
        // The prompt that follows prepares the session again, and fails with this cause if it cannot, either.
        return Ok(());
    };
    let Ok(task) = TaskId::parse(task) else {
        return Ok(());
    };
    let Some(turn) = turns::find(c, task).await? else {
        return Ok(());
    };
    if turn.session_id != session {
        return Ok(());
    }
    let text = (!cause.is_empty()).then_some(cause);
    turns::fail_task(c, task, code_of(code), text).await?;
    turns::end(c, turn, Told::Knows).await?;
    let row = sessions::find_row(c, session).await?;
    if row.is_some_and(|row| row.state == SessionState::Preparing) {
        // There is no copy.
        sessions::set_state(c, session, SessionState::Lost).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_addresses_are_links() {
        assert!(is_link("https://git.example/team/api/pull/7"));
        for bad in [
            "javascript:alert(1)",
            "https://x y",
            "https://x\"onload=",
            "ftp://x",
            "",
        ] {
            assert!(!is_link(bad), "{bad}");
        }
    }

    #[test]
    fn commits_are_object_names() {
        assert!(is_commit(&"a".repeat(40)) && is_commit(&"0".repeat(64)));
        assert!(!is_commit("HEAD") && !is_commit(&"g".repeat(40)));
    }

    #[test]
    fn a_line_has_no_control_characters() {
        assert_eq!(line(" a\nb\u{7}c ", 4), "a b ");
        assert_eq!(line(&"ä".repeat(10), 3), "äää");
    }

    #[test]
    fn frames_that_are_no_events_are_rejected() {
        let session = CodeSessionId::new();
        let good =
            format!(r#"{{"type":"text","session":"{session}","n":1,"task":"t","text":"x"}}"#);
        assert!(RunnerEvent::parse(&good).is_some());
        for bad in [
            good.replace("\"n\":1", "\"n\":0"),
            good.replace("code_", "task_"),
            good.replace("\"text\",", "\"dance\","),
        ] {
            assert!(RunnerEvent::parse(&bad).is_none(), "{bad}");
        }
    }
}
