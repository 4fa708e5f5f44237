//! Enqueues tasks and retries failed ones.

use super::insert::{NoticeTarget, insert_notice};
use crate::{
    agents::profiles,
    auth::{Caller, Scope, quota},
    chat::{ChatError, access, rows::message::get_message},
    db::{Conn, DbError},
    ids::AgentId,
    realtime::{Audience, log},
    tasks::{FailCode, Lane, NewTask, Task, TaskError, TaskKind, TaskStatus, notice_text, queue},
};

pub async fn queue_full(c: &mut Conn, agent: AgentId) -> Result<TaskError, DbError> {
    let name = profiles::shown_name(c, agent).await?;
    Ok(TaskError {
        code: FailCode::QueueFull,
        message: notice_text(&name, FailCode::QueueFull),
    })
}

/// Inserts a task and announces it under `seq`. If the queue is full, posts a notice in the
/// conversation. Returns `None` if the task was already retried.
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

/// Retries a failed or canceled task with the agent's newest version.
///
/// # Errors
/// `TaskNotFound`, `NotRetryable`, `AlreadyRetried`, `NotYoursToRetry`, `NoSuchAgent`,
/// `TriggerDeleted`, `QuotaExceeded`, or any error of `writing`.
pub async fn retry_task(
    c: &mut Conn,
    caller: &Caller,
    id: crate::ids::TaskId,
) -> Result<Task, ChatError> {
    let task = queue::find_task(c, id)
        .await?
        .ok_or(ChatError::TaskNotFound)?;
    access::check_personal(caller, &task)?;
    // A task without a conversation came from the API: the API client repeats its request.
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
    if profiles::cannot_invoke(c, actor, target.agent).await? {
        return Err(ChatError::NoSuchAgent(target.agent.to_string()));
    }
    if !matches!(task.status, TaskStatus::Failed | TaskStatus::Cancelled) {
        return Err(ChatError::NotRetryable);
    }
    let kind = match (task.kind, task.trigger_message_id) {
        (TaskKind::Resolve, _) => TaskKind::Resolve,
        (_, None) => return Err(ChatError::NotRetryable),
        (_, Some(trigger)) => {
            let trigger = get_message(c, trigger).await?;
            if trigger.deleted_at.is_some() {
                return Err(ChatError::TriggerDeleted);
            }
            TaskKind::Reply
        }
    };
    quota::check_message(c, actor.workspace, "", "").await?;
    profiles::refresh_first(c, actor.workspace, target.agent).await?;
    let new = NewTask {
        workspace: task.workspace_id,
        kind,
        agent: target.agent,
        agent_version: profiles::newest_version(c, target.agent)
            .await?
            .ok_or(ChatError::NotRetryable)?,
        channel: target.channel,
        thread: target.thread,
        fork: target.fork,
        trigger: task.trigger_message_id,
        requested_by: task.requested_by,
        retry_of: Some(task.id),
        parent: None,
        lane: Lane::Foreground,
        prompt: task.input.0.prompt.clone(),
        options: task.input.0.options.clone(),
    };
    let audience = access.channel_access.audience();
    let full = if queue::free_slots(c, actor.workspace).await? <= 0 {
        Some(queue_full(c, target.agent).await?)
    } else {
        None
    };
    if task.requested_by != actor.user {
        let data = serde_json::json!({});
        crate::auth::record_audit(
            c,
            actor,
            crate::auth::AuditAction::TaskRetried,
            id.to_string(),
            data,
        )
        .await?;
    }
    let seq = log::reserve(c, actor.workspace, 1).await?;
    enqueue(c, seq, &new, full, audience)
        .await?
        .ok_or(ChatError::AlreadyRetried)
}
