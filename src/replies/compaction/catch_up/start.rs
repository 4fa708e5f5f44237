//! Queues the task in which a model writes a catch-up.

use serde::{Deserialize, Serialize};

use crate::{
    auth::{AuthError, Caller, Scope},
    chat::{
        ChatError,
        access::{self, ThreadAccess},
    },
    db::{Conn, DbError, dialect},
    http::error::{ApiError, ErrorCode, StatusCode},
    ids::ThreadId,
    replies::compaction::record::last_agent,
    tasks::{NewTask, Task, TaskKind, TaskTarget, queue},
};

use super::range::Range;

/// Minimum number of messages to summarize; reading fewer takes less time than waiting for a summary.
const MESSAGES_MIN: usize = 20;

/// Options of a `catch_up` task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatchUpOptions {
    pub from_seq: i64,
    pub to_seq: i64,
    /// Number of older messages that are not summarized.
    pub older: i64,
}

impl CatchUpOptions {
    pub(super) fn of(task: &Task) -> Option<Self> {
        serde_json::from_value(task.input.0.options.clone()?).ok()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CatchUpError {
    #[error(
        "a model only summarizes {MESSAGES_MIN} or more new messages, and there are {0}: read them, or use GET for a summary without a model"
    )]
    TooFew(usize),
    #[error(transparent)]
    Chat(#[from] ChatError),
}

impl From<DbError> for CatchUpError {
    fn from(e: DbError) -> Self {
        Self::Chat(e.into())
    }
}

impl From<AuthError> for CatchUpError {
    fn from(e: AuthError) -> Self {
        Self::Chat(e.into())
    }
}

impl From<CatchUpError> for ApiError {
    fn from(e: CatchUpError) -> Self {
        let text = e.to_string();
        match e {
            CatchUpError::Chat(e) => e.into(),
            CatchUpError::TooFew(_) => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                ErrorCode::TooFewMessages,
                text,
            ),
        }
    }
}

/// Checks that the caller can have a model summarize the thread.
///
/// # Errors
/// `ThreadNotFound`, or any error from `reading` or `Actor::require`.
pub async fn enter<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    thread: ThreadId,
) -> Result<ThreadAccess<'a>, ChatError> {
    let access = access::thread(c, caller, thread).await?.reading()?;
    // Viewers and read-only API keys must not cause costs.
    access.channel_access.actor.require(Scope::AgentsUse)?;
    Ok(access)
}

/// Finds the messages to summarize. Not part of `start`, because it is too expensive for that transaction.
///
/// # Errors
/// `TooFew`, `ThreadNotFound`, or an error from `reading`.
pub async fn plan(
    c: &mut Conn,
    caller: &Caller,
    thread: ThreadId,
    since: Option<i64>,
) -> Result<CatchUpOptions, CatchUpError> {
    enter(c, caller, thread).await?;
    let range = Range::load(c, caller, thread, since).await?;
    let ends = range.ends().filter(|_| range.rows.len() >= MESSAGES_MIN);
    let ends = ends.ok_or(CatchUpError::TooFew(range.rows.len()))?;
    Ok(CatchUpOptions {
        from_seq: ends.from,
        to_seq: ends.to,
        older: range.older,
    })
}

/// Queues the task, or returns the caller's active one for the same messages.
///
/// # Errors
/// `ThreadNotFound`, `NoSuchAgent` in a workspace without an agent, or an error from `reading`.
pub async fn start(
    c: &mut Conn,
    caller: &Caller,
    thread: ThreadId,
    options: CatchUpOptions,
) -> Result<Task, CatchUpError> {
    let access = enter(c, caller, thread).await?;
    let actor = &access.channel_access.actor;
    dialect::lock_workspace(c, actor.workspace.0).await?;
    if let Some(active) = queue::active_catch_up(c, thread, actor.user).await? {
        if CatchUpOptions::of(&active) == Some(options) {
            return Ok(active);
        }
        // The active task covers other messages, so its result would not be current.
        queue::cancel(c, active.id, access.channel_access.audience()).await?;
    }
    // Every task belongs to an agent, although this one calls the utility model.
    let agent = last_agent(c, actor.workspace, thread, access.conversation()).await?;
    let (agent, agent_version) =
        agent.ok_or_else(|| ChatError::NoSuchAgent("default".to_owned()))?;
    let new = NewTask {
        options: serde_json::to_value(options).ok(),
        ..NewTask::new(
            actor.workspace,
            TaskKind::CatchUp,
            actor.user,
            TaskTarget {
                agent,
                agent_version,
                channel: access.channel_access.channel,
                thread,
                fork: None,
            },
        )
    };
    let task = queue::insert(c, &new, None).await?;
    let task = task.ok_or(ChatError::ThreadNotFound)?;
    queue::announce(c, &task, access.channel_access.audience()).await?;
    Ok(task)
}
