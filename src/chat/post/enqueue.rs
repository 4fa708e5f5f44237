//! Enqueues tasks and retries failed ones.

use serde_json::json;

use super::{
    chain::with_later,
    insert::{NoticeTarget, insert_notice},
};
use crate::{
    agents::profiles,
    auth::{Actor, Caller, Scope, quota},
    chat::{ChatError, access, rows::message::get_message},
    db::{Conn, DbError},
    ids::{AgentId, ApiKeyId, TaskId},
    realtime::{Audience, log},
    tasks::{
        FailCode, Lane, NewLink, NewTask, Task, TaskError, TaskKind, TaskStatus, TaskTarget,
        notice_text,
        queue::{self, GUARD_OPTION},
        steers,
    },
};

/// Text of the notice for a task that does not fit into the queue. `later` contains the agents of later links, which are canceled.
pub async fn queue_full(
    c: &mut Conn,
    agent: AgentId,
    later: &[AgentId],
) -> Result<TaskError, DbError> {
    let name = profiles::shown_name(c, agent).await?;
    let notice = notice_text(&name, FailCode::QueueFull);
    Ok(TaskError {
        code: FailCode::QueueFull,
        message: with_later(c, notice, agent, later).await?,
    })
}

/// Inserts a task and announces it under `seq`. If the queue is full, posts a notice in the conversation. Returns `None` if `new`
/// retries a task that has already been retried.
pub async fn enqueue(
    c: &mut Conn,
    seq: i64,
    new: &NewTask,
    full: Option<TaskError>,
    audience: Audience,
) -> Result<Option<Task>, DbError> {
    let Some(task) = queue::insert(c, new, full.as_ref()).await? else {
        return Ok(None);
    };
    queue::announce_as(c, seq, &task, audience).await?;
    if let Some((error, target)) = full.zip(NoticeTarget::of(&task)) {
        let notice = insert_notice(c, target, audience, new.trigger, error.message).await?;
        queue::set_notice(c, task.id, notice.id).await?;
    }
    Ok(Some(task))
}

/// Retries a failed or canceled task with the agent's newest version. A link of a chain is retried together with the links after
/// it, as a new tree whose loop guard stops it at the score `guard`.
///
/// # Errors
/// `TaskNotFound`, `NotRetryable`, `NotRoot`, `AlreadyRetried`, `NotYoursToRetry`, `NoSuchAgent`,
/// `TriggerDeleted`, `QuotaExceeded`, or any error from `writing`.
pub async fn retry_task(
    c: &mut Conn,
    caller: &Caller,
    id: TaskId,
    guard: Option<i64>,
) -> Result<Task, ChatError> {
    let task = queue::find_task(c, id)
        .await?
        .ok_or(ChatError::TaskNotFound)?;
    access::check_personal(caller, &task)?;
    if task.starts_thread() {
        access::channel_of_task(c, caller, &task).await?;
        return Err(ChatError::NotRetryable);
    }
    // A task without a conversation came from the API, whose client repeats the request instead.
    let target = task.target().ok_or(ChatError::NotRetryable)?;
    let access = access::find_conversation(c, caller, target.conversation())
        .await
        .map_err(|_| ChatError::TaskNotFound)?
        .writing()?;
    let actor = &access.channel_access.actor;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let task = queue::find_task(c, id)
        .await?
        .ok_or(ChatError::TaskNotFound)?;
    if task.requested_by != actor.user {
        actor
            .require(Scope::WorkspaceAdmin)
            .map_err(|_| ChatError::NotYoursToRetry)?;
    }
    actor.require(Scope::AgentsUse)?;
    let later = queue::later_links(c, id).await?;
    let tasks: Vec<&Task> = std::iter::once(&task).chain(&later).collect();
    // A later link whose agent cannot be invoked fails when it is woken.
    check_agent(c, actor, &task).await?;
    check_retryable(c, &task).await?;
    quota::check_message(c, actor.workspace, "", "").await?;
    let audience = access.channel_access.audience();
    let agents: Vec<AgentId> = later.iter().filter_map(|link| link.agent_id).collect();
    let full = if queue::free_slots(c, actor.workspace).await? <= 0 {
        Some(queue_full(c, target.agent, &agents).await?)
    } else {
        None
    };
    if task.requested_by != actor.user {
        let data = json!({});
        crate::auth::record_audit(
            c,
            actor,
            crate::auth::AuditAction::TaskRetried,
            id.to_string(),
            data,
        )
        .await?;
    }
    let first_seq = log::reserve(c, actor.workspace, tasks.len()).await?;
    enqueue_again(c, first_seq, &tasks, actor.key, guard, full, audience).await
}

/// # Errors
/// `NoSuchAgent` if the caller cannot invoke the task's agent.
async fn check_agent(c: &mut Conn, actor: &Actor<'_>, task: &Task) -> Result<(), ChatError> {
    let agent = task.agent_id.ok_or(ChatError::NotRetryable)?;
    if profiles::cannot_invoke(c, actor, agent).await? {
        return Err(ChatError::NoSuchAgent(agent.to_string()));
    }
    Ok(profiles::refresh_first(c, actor.workspace, agent).await?)
}

/// # Errors
/// `NotRetryable`, `NotRoot`, or `TriggerDeleted`.
async fn check_retryable(c: &mut Conn, task: &Task) -> Result<(), ChatError> {
    let is_failed_link = task.after_task_id.is_some() && task.status == TaskStatus::Failed;
    if task.parent_task_id.is_some() && !is_failed_link {
        return Err(ChatError::NotRoot);
    }
    if !matches!(task.status, TaskStatus::Failed | TaskStatus::Cancelled) {
        return Err(ChatError::NotRetryable);
    }
    if task.kind == TaskKind::Resolve {
        return Ok(());
    }
    let trigger = task.trigger_message_id.ok_or(ChatError::NotRetryable)?;
    if get_message(c, trigger).await?.deleted_at.is_some() {
        return Err(ChatError::TriggerDeleted);
    }
    Ok(())
}

/// Enqueues a task and the links after it again, and returns the first new task. Their events are numbered from `first_seq`, and
/// the tasks use the caller's API key.
///
/// # Errors
/// `AlreadyRetried`, or `NotRetryable` if the first task's agent was permanently deleted.
async fn enqueue_again(
    c: &mut Conn,
    first_seq: i64,
    tasks: &[&Task],
    key: Option<ApiKeyId>,
    guard: Option<i64>,
    full: Option<TaskError>,
    audience: Audience,
) -> Result<Task, ChatError> {
    let mut first: Option<Task> = None;
    let mut before: Option<TaskId> = None;
    for (seq, task) in (first_seq..).zip(tasks) {
        let target = task.target().ok_or(ChatError::NotRetryable)?;
        let link = task.input.0.chain.map(|step| NewLink {
            id: TaskId::new(),
            after: before,
            step,
        });
        let before_seq = match link {
            // The new link reads the same messages as the failed one, or everything so far if the failed one never started.
            Some(NewLink { after: None, .. }) => {
                Some(queue::before_seq(c, task.id).await?.unwrap_or(seq))
            }
            _ => None,
        };
        let mut options = task.input.0.options.clone();
        if let Some(guard) = guard.filter(|_| before.is_none()) {
            options.get_or_insert_with(|| json!({}))[GUARD_OPTION] = guard.into();
        }
        let newest = profiles::newest_version(c, target.agent).await?;
        let newest = newest.or_else(|| before.map(|_| target.agent_version));
        let new = NewTask {
            trigger: task.trigger_message_id,
            retry_of: Some(task.id),
            parent: first.as_ref().map(|first| first.id),
            link,
            before_seq,
            api_key: key.filter(|_| link.is_some() || task.kind == TaskKind::Collaborate),
            prompt: task.input.0.prompt.clone(),
            options,
            lane: Lane::Foreground,
            ..NewTask::new(
                task.workspace_id,
                task.kind,
                task.requested_by,
                TaskTarget {
                    agent_version: newest.ok_or(ChatError::NotRetryable)?,
                    ..target
                },
            )
        };
        let full = full.clone().filter(|_| before.is_none());
        let again = enqueue(c, seq, &new, full, audience).await?;
        let again = again.ok_or(ChatError::AlreadyRetried)?;
        steers::copy(c, task.id, again.id).await?;
        before = Some(again.id);
        if first.is_none() {
            first = Some(again);
        }
    }
    let first = first.ok_or(ChatError::NotRetryable)?;
    if first.status == TaskStatus::Failed {
        queue::cancel_later(c, first.id, audience).await?;
    }
    Ok(first)
}
