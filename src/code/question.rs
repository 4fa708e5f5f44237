//! Questions to requesters: which repository is meant, and those of agents.

use std::time::Duration;

use openvibe_runner::{AskKind, AskOption, Command};
use serde_json::{Value, json};

use super::{commands, repository::TurnRepository};
use crate::{
    db::{Conn, DbError, now},
    ids::{ActionId, CodeSessionId, RepositoryId, TaskId},
    mcp::Effect,
    realtime::Audience,
    tasks::{
        Lease, LeaseLost, Task, WaitReason,
        actions::{
            self, ActionKind, ActionState, Need, NeededPerson,
            approval::{self, NewApproval},
            texts,
        },
        queue,
    },
    tools::{
        hash::{self, HashedCall},
        taint,
    },
};

/// Name of the function.
const QUESTION: &str = "question";
/// Time for an answer.
const TIMEOUT_S: u32 = 86_400;
const TITLE_CHARS_MAX: usize = 500;
/// Maximum size of a question's ID.
const ASK_BYTES_MAX: usize = 128;
const OPTIONS_MAX: usize = 20;
const SCHEMA_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of questions of a turn that wait for an answer.
const WAITING_MAX: i64 = 20;

/// A question to the requester of a task.
#[derive(Debug, Clone)]
struct NewQuestion {
    /// What asks: `SESSION ASK` for an agent on a runner; empty for the server.
    call_id: String,
    title: String,
    /// What the requester sees: `options` or `schema`.
    arguments: Value,
}

async fn ask(
    c: &mut Conn,
    task: &Task,
    new: NewQuestion,
    audience: Audience,
) -> Result<(), DbError> {
    let id = ActionId::new();
    let round = approval::next_round(c, task.id).await?;
    let text = hash::canonical_text(&new.arguments);
    let arguments_id = texts::put(c, task.workspace_id, id, &text).await?;
    texts::cite_prompt(c, task.id, arguments_id).await?;
    let hashed = HashedCall {
        task: task.id,
        round,
        call: 1,
        tool: None,
        function: QUESTION,
        definition_hash: "",
    };
    let new = NewApproval {
        id,
        kind: ActionKind::Question,
        call_id: new.call_id,
        workspace: task.workspace_id,
        task: task.id,
        round,
        name: QUESTION,
        title: new.title,
        effect: Effect::Read,
        arguments_hash: hash::arguments_hash(&hashed, &text),
        call_hash: hash::call_hash(None, QUESTION, &text),
        arguments_id,
        sources: taint::list(c, task.id).await?,
        needs: vec![Need::of(NeededPerson::Requester)],
        timeout_s: TIMEOUT_S,
        expires_at: now() + Duration::from_secs(TIMEOUT_S.into()),
    };
    approval::ask(c, &new, audience).await
}

/// Asks the requester which repository is meant, and parks the task.
///
/// # Errors
/// `Gone` if the task no longer belongs to this worker.
pub async fn ask_repository(
    c: &mut Conn,
    lease: &Lease,
    repositories: &[TurnRepository],
) -> Result<(), LeaseLost> {
    let task = queue::lock_lease(c, lease).await?;
    let options: Vec<Value> = repositories
        .iter()
        .take(OPTIONS_MAX)
        .map(|one| json!({"id": one.id, "name": one.name}))
        .collect();
    let title = "Which repository?".to_owned();
    let new = NewQuestion {
        call_id: String::new(),
        arguments: json!({"title": title, "kind": "question", "options": options, "schema": null}),
        title,
    };
    ask(c, &task, new, lease.audience).await?;
    queue::park(c, lease, 0, WaitReason::Approval).await?;
    Ok(())
}

/// State of the question which repository is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedRepository {
    /// Nobody was asked.
    No,
    Answered,
    /// The requester has not chosen in time.
    Unanswered,
}

/// Whether the requester of a task was asked which repository is meant.
///
/// # Errors
/// Only database errors.
pub async fn find_asked(c: &mut Conn, task: TaskId) -> Result<AskedRepository, DbError> {
    let asked: Option<(ActionState,)> = c
        .q("select state from actions where task_id = $1 and function = $2 and call_id = $3 order by id desc limit 1")
        .bind(task)
        .bind(QUESTION.to_owned())
        .bind(String::new())
        .opt()
        .await?;
    Ok(match asked {
        None => AskedRepository::No,
        Some((ActionState::Done,)) => AskedRepository::Answered,
        Some(_) => AskedRepository::Unanswered,
    })
}

/// The repository that the requester of a task has chosen.
pub(super) async fn chosen_repository(
    c: &mut Conn,
    task: TaskId,
) -> Result<Option<RepositoryId>, DbError> {
    let answer: Option<(String,)> = c
        .q("select x.text from actions a join context_texts x on x.id = a.result_id and x.hash is not null \
            where a.task_id = $1 and a.function = $2 and a.call_id = $3 and a.state = $4 order by a.id desc limit 1")
        .bind(task)
        .bind(QUESTION.to_owned())
        .bind(String::new())
        .bind(ActionState::Done)
        .opt()
        .await?;
    let id = answer.and_then(|(text,)| serde_json::from_str::<String>(&text).ok());
    Ok(id.and_then(|id| RepositoryId::parse(&id).ok()))
}

/// A question of an agent on a runner.
#[derive(Debug, Clone)]
pub(super) struct AgentQuestion {
    pub(super) ask: String,
    pub(super) kind: AskKind,
    pub(super) title: String,
    pub(super) options: Vec<AskOption>,
    pub(super) schema: Option<Value>,
}

impl AgentQuestion {
    /// Checks whether the question can be answered.
    fn has_id(&self) -> bool {
        (1..=ASK_BYTES_MAX).contains(&self.ask.len())
            && self.ask.chars().all(|c| c.is_ascii_graphic())
    }

    /// Checks whether the question can be shown.
    fn is_valid(&self) -> bool {
        let has_form = self.schema.as_ref().is_some_and(Value::is_object);
        let schema_bytes = self
            .schema
            .as_ref()
            .map_or(0, |schema| schema.to_string().len());
        self.options.len() <= OPTIONS_MAX
            && schema_bytes <= SCHEMA_BYTES_MAX
            && (has_form || !self.options.is_empty())
    }
}

/// Number of questions of a task that wait for an answer.
async fn count_waiting(c: &mut Conn, task: TaskId) -> Result<i64, DbError> {
    c.q("select count(*) from actions where task_id = $1 and kind = $2 and state = $3")
        .bind(task)
        .bind(ActionKind::Question)
        .bind(ActionState::Waiting)
        .value()
        .await
}

/// Asks the requester for an agent, whose task goes on. A question that cannot be shown, or that is one too many, is declined. One without a
/// valid ID is dropped, because no answer can name it.
pub(super) async fn ask_for_agent(
    c: &mut Conn,
    session: CodeSessionId,
    task: &Task,
    question: AgentQuestion,
    audience: Audience,
) -> Result<(), DbError> {
    if !question.has_id() {
        return Ok(());
    }
    if !question.is_valid() || count_waiting(c, task.id).await? >= WAITING_MAX {
        let command = Command::Answer {
            ask: question.ask,
            value: Value::Null,
        };
        commands::insert(c, session, Some(task.id), &command).await?;
        return Ok(());
    }
    let title = question.title.replace(char::is_control, " ");
    let title: String = title.chars().take(TITLE_CHARS_MAX).collect();
    let options: Vec<Value> = question
        .options
        .iter()
        .map(|option| json!({"id": option.id, "name": option.name}))
        .collect();
    let new = NewQuestion {
        call_id: format!("{session} {}", question.ask),
        arguments: json!({
            "title": title, "kind": question.kind, "options": options, "schema": question.schema,
        }),
        title,
    };
    ask(c, task, new, audience).await
}

/// Passes an answer on to what asked: to the runner, or to the task that waits for it. `None` declines. Does nothing for other actions, and
/// after the end of the turn, when a person repeats an answer.
///
/// # Errors
/// Only database errors.
pub async fn pass_on(c: &mut Conn, id: ActionId) -> Result<(), DbError> {
    let Some(action) = actions::find(c, id).await? else {
        return Ok(());
    };
    let ended = [ActionState::Done, ActionState::Denied, ActionState::Expired];
    if action.kind != ActionKind::Question || !ended.contains(&action.state) {
        return Ok(());
    }
    let Some((session, asked)) = action.call_id.split_once(' ') else {
        return Ok(());
    };
    let Ok(session) = CodeSessionId::parse(session) else {
        return Ok(());
    };
    let is_open: bool = c
        .q("select exists (select 1 from task_keys where task_id = $1 and session_id = $2)")
        .bind(action.task_id)
        .bind(session)
        .value()
        .await?;
    if !is_open {
        return Ok(());
    }
    let answer = match action.result_id {
        Some(result) => texts::find(c, result).await?,
        None => None,
    };
    let value = answer.and_then(|text| serde_json::from_str(&text).ok());
    let command = Command::Answer {
        ask: asked.to_owned(),
        value: value.unwrap_or(Value::Null),
    };
    commands::insert(c, session, Some(action.task_id), &command).await?;
    Ok(())
}
