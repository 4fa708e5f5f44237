//! Events with the state of a task.

use super::find_task;
use crate::{
    db::{Conn, DbError, Json},
    ids::{ChannelId, TaskId},
    realtime::{
        Audience, EventType, NewEvent,
        log::{self, Recipients},
    },
    tasks::{
        Task, TaskEvent, TokenUsage,
        costs::{self, CostReader},
        items,
    },
};

/// Recipients of events in a channel.
pub async fn audience_of(c: &mut Conn, channel: ChannelId) -> Result<Audience, DbError> {
    let is_public: bool = c
        .q("select kind = 'public' from channels where id = $1")
        .bind(channel)
        .value()
        .await?;
    Ok(if is_public {
        Audience::Public(channel)
    } else {
        Audience::Members(channel)
    })
}

/// Recipients of events in a channel. `None` is for tasks without a channel, whose events go only to their requester.
pub async fn audience_in(c: &mut Conn, channel: Option<ChannelId>) -> Result<Audience, DbError> {
    match channel {
        Some(channel) => audience_of(c, channel).await,
        None => Ok(Audience::Workspace),
    }
}

/// Appends an event with the current state of the task under the sequence number `seq`. If the task is personal or has no channel,
/// only its requester receives the event. Also opens or closes the inbox item that follows from the status.
pub async fn announce_as(
    c: &mut Conn,
    seq: i64,
    task: &Task,
    audience: Audience,
) -> Result<(), DbError> {
    // Everyone in the conversation receives the same frame, so it contains no costs.
    let without_cost =
        if task.has_cost() && !costs::are_visible(c, task.workspace_id, CostReader::Other).await? {
            Some(task.clone().without_cost())
        } else {
            None
        };
    let task = without_cost.as_ref().unwrap_or(task);
    let is_hidden = task.kind.is_personal() || task.channel_id.is_none();
    let only = is_hidden.then(|| Recipients {
        users: vec![task.requested_by],
        managers: false,
    });
    let mut event = NewEvent::new(
        seq,
        EventType::TaskStatusChanged,
        audience,
        &TaskEvent { task },
    )?
    .about(task.trigger_message_id)
    .only_to(only);
    if let Some(thread) = task.thread_id {
        event = event.in_conversation(thread, task.fork_id);
    }
    log::append(c, task.workspace_id, event).await?;
    items::follow_status(c, task, seq).await
}

/// Appends an event with the current state of the task.
pub async fn announce(c: &mut Conn, task: &Task, audience: Audience) -> Result<(), DbError> {
    let seq = log::reserve(c, task.workspace_id, 1).await?;
    announce_as(c, seq, task, audience).await
}

/// Stores the usage of a task after one of its calls. A call on another node can end after its task was stopped: the last event of
/// such a task lacks the usage of that call, because a task does not change after its end.
pub async fn set_usage(c: &mut Conn, id: TaskId, usage: Option<TokenUsage>) -> Result<(), DbError> {
    c.q("update tasks set token_usage = $2 where id = $1")
        .bind(id)
        .bind(usage.map(Json))
        .run()
        .await?;
    Ok(())
}

/// Adds the usage of calls that are not its own to a task, unless it has ended. The workspace must be locked.
pub async fn add_usage(c: &mut Conn, id: TaskId, usage: TokenUsage) -> Result<(), DbError> {
    let task = find_task(c, id).await?.filter(Task::is_active);
    let Some(task) = task else { return Ok(()) };
    let earlier = task.token_usage.map(|usage| usage.0);
    set_usage(c, id, Some(usage.plus(earlier))).await
}
