//! Messages that steer a running reply: its next model call contains them, and they start no tasks. Messages that a completed reply
//! has not read start one task together.

use super::{enqueue, links::span_of, queue_full};
use crate::{
    agents::profiles,
    auth::{AuditAction, Scope, record_audit},
    chat::{
        ChatError,
        access::{self, ThreadAccess},
        mentions::{self, Span},
        rows::message::{Message, find_message},
    },
    db::{Conn, DbError},
    ids::{AgentId, TaskId},
    realtime::{Audience, log},
    tasks::{
        NewTask, Task, TaskKind,
        actions::{self, ActionState},
        queue,
        steers::{self, STEERS_MAX},
    },
    workflows::run,
};

/// Finds the reply that the caller steers. The workspace must be locked.
///
/// # Errors
/// `NoSuchReply` unless the task is a reply in this conversation, `NotRequester`, `TaskEnded`, `TooManySteers`, or any error from
/// `Actor::require`.
pub(super) async fn find_steered(
    c: &mut Conn,
    access: &ThreadAccess<'_>,
    id: TaskId,
) -> Result<Task, ChatError> {
    let actor = &access.channel_access.actor;
    let found = queue::find_task(c, id).await?.filter(|task| {
        task.kind == TaskKind::Reply
            && task.workspace_id == actor.workspace
            && task.thread_id == Some(access.thread)
            && task.fork_id == access.fork_id()
    });
    let task = found.ok_or(ChatError::NoSuchReply)?;
    if task.requested_by != actor.user {
        return Err(ChatError::NotRequester);
    }
    actor.require(Scope::AgentsUse)?;
    if !task.is_active() {
        return Err(ChatError::TaskEnded);
    }
    if steers::count(c, id).await? >= STEERS_MAX {
        return Err(ChatError::TooManySteers);
    }
    Ok(task)
}

/// Adds a message to those that a reply has to read. Calls that have not started are withdrawn, those that people have to approve
/// with the message as note, and reads end.
pub(super) async fn steer(
    c: &mut Conn,
    access: &ThreadAccess<'_>,
    task: &Task,
    message: &Message,
) -> Result<(), DbError> {
    let channel = &access.channel_access;
    let audience = channel.audience();
    steers::insert(c, task.id, message.id).await?;
    let note = steers::note_of(&message.content);
    let withdrawn = actions::withdraw_open(c, task.id, audience, note.as_deref()).await?;
    for action in withdrawn {
        if action.state == ActionState::Waiting {
            let data = serde_json::json!({"function": action.function, "task_id": task.id});
            let (denied, target) = (AuditAction::ActionDenied, action.id.to_string());
            record_audit(c, &channel.actor, denied, target, data).await?;
        }
    }
    queue::wake(c, task.id, audience).await?;
    run::announce_run_of(c, task.id).await
}

/// Starts a task for the messages that an ended reply has not read. The first one is the trigger message, and the others steer the
/// task. Nothing is started if the requester can no longer post in the conversation or invoke the agent.
pub async fn start_unread(c: &mut Conn, ended: &Task, audience: Audience) -> Result<(), DbError> {
    let Some(trigger) = steers::list_unread(c, ended.id).await?.into_iter().next() else {
        return Ok(());
    };
    let Some(target) = ended.target() else {
        return Ok(());
    };
    let can_invoke = profiles::is_invocable_by(c, target.agent, ended.requested_by).await?;
    if !can_invoke || !access::requester_can_post(c, ended).await? {
        return Ok(());
    }
    let Some(message) = find_message(c, trigger).await? else {
        return Ok(());
    };
    let new = NewTask {
        trigger: Some(trigger),
        prompt: prompt_for(&message, target.agent),
        ..NewTask::new(
            ended.workspace_id,
            TaskKind::Reply,
            ended.requested_by,
            target,
        )
    };
    let full = if queue::free_slots(c, ended.workspace_id).await? <= 0 {
        Some(queue_full(c, target.agent, &[]).await?)
    } else {
        None
    };
    let seq = log::reserve(c, ended.workspace_id, 1).await?;
    let started = enqueue(c, seq, &new, full, audience).await?;
    match started {
        Some(task) => steers::move_unread(c, ended.id, task.id, trigger).await,
        None => Ok(()),
    }
}

/// The text of a message without the mentions of this agent.
fn prompt_for(message: &Message, agent: AgentId) -> String {
    let agent = agent.to_string();
    let mentions = message.mentions.iter();
    let own = mentions.filter(|mention| mention.id.as_ref() == Some(&agent));
    let spans: Vec<Span> = own.map(span_of).collect();
    mentions::without(&message.content, &spans)
}
