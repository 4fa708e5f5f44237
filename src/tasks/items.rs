//! Inbox items that follow from the status of a task: the answer to its requester, or its failure.

use uuid::Uuid;

use crate::{
    db::{Conn, DbError},
    ids::{ChannelId, ForkId, MessageId, ThreadId},
    inbox::{
        InboxReason, InboxSubject, InboxSubjectKind, NewItem, Place, close,
        open::{open, open_unread},
    },
    tasks::{Task, TaskKind, TaskStatus},
};

/// A message in which a task ended.
#[derive(sqlx::FromRow)]
struct EndRow {
    id: MessageId,
    channel_id: ChannelId,
    thread_id: ThreadId,
    conversation_id: Uuid,
    seq: i64,
}

impl EndRow {
    fn place(&self) -> Place {
        let fork = (self.conversation_id != self.thread_id.0).then_some(self.conversation_id);
        Place {
            channel: self.channel_id,
            thread: self.thread_id,
            fork: fork.map(ForkId),
        }
    }
}

/// Opens and closes the items that follow from the status of a task after the event `seq`. Only tasks at the root of a
/// tree, and the links of a chain, have items.
pub(super) async fn follow_status(c: &mut Conn, task: &Task, seq: i64) -> Result<(), DbError> {
    // Later links of a chain are below the first one.
    if task.parent_task_id.is_some() && task.input.0.chain.is_none() {
        return Ok(());
    }
    match task.status {
        TaskStatus::Queued if task.attempt == 1 && is_again(task) => close_failure(c, task).await,
        TaskStatus::Completed => {
            if task.kind == TaskKind::Resolve {
                close_failure(c, task).await?;
            }
            open_answer(c, task, seq).await
        }
        TaskStatus::Failed => open_failure(c, task, seq).await,
        TaskStatus::Queued | TaskStatus::Running | TaskStatus::Cancelled => Ok(()),
    }
}

/// Checks whether a task may repeat one that failed.
fn is_again(task: &Task) -> bool {
    task.retry_of.is_some() || task.kind == TaskKind::Resolve
}

/// Subject of the failure of a task: its trigger message, fork, or run. `None` if its failure is shown elsewhere: a schedule shows those
/// of its tasks and runs.
async fn failure_subject(c: &mut Conn, task: &Task) -> Result<Option<InboxSubject>, DbError> {
    Ok(match task.kind {
        TaskKind::Reply | TaskKind::Collaborate => task.trigger_message_id.map(InboxSubject::from),
        TaskKind::Resolve => task.fork_id.map(InboxSubject::from),
        TaskKind::Workflow => {
            let is_scheduled: bool = c
                .q("select exists (select 1 from runs where id = $1 and cause = 'schedule')")
                .bind(task.id)
                .value()
                .await?;
            (!is_scheduled).then(|| InboxSubject::new(InboxSubjectKind::Run, task.id.0))
        }
        TaskKind::Compact
        | TaskKind::Reflect
        | TaskKind::Utility
        | TaskKind::Title
        | TaskKind::CatchUp
        | TaskKind::Replay
        | TaskKind::Schedule
        | TaskKind::Response
        | TaskKind::Delegate => None,
    })
}

async fn open_failure(c: &mut Conn, task: &Task, seq: i64) -> Result<(), DbError> {
    let Some(subject) = failure_subject(c, task).await? else {
        return Ok(());
    };
    let notice: Option<MessageId> = c
        .q("select notice_message_id from tasks where id = $1")
        .bind(task.id)
        .value()
        .await?;
    let place = task.channel_id.zip(task.thread_id);
    let item = NewItem {
        workspace: task.workspace_id,
        reason: InboxReason::Failed,
        subject,
        actor: task.agent_id.map(|agent| agent.0),
        place: place.map(|(channel, thread)| Place {
            channel,
            thread,
            fork: task.fork_id,
        }),
        channel: task.channel_id,
        message: notice.or(task.trigger_message_id),
        seq,
        changed_seq: seq,
        is_quiet: false,
    };
    open(c, task.requested_by, &item).await?;
    Ok(())
}

/// Closes the item about the failure of a task, because the work is done again.
pub(super) async fn close_failure(c: &mut Conn, task: &Task) -> Result<(), DbError> {
    match failure_subject(c, task).await? {
        Some(subject) => {
            let workspace = task.workspace_id;
            close::close(c, workspace, InboxReason::Failed, subject.id, None).await
        }
        None => Ok(()),
    }
}

/// Opens the item about a completed reply: for a chain or a run, about the last one.
async fn open_answer(c: &mut Conn, task: &Task, seq: i64) -> Result<(), DbError> {
    let reply: Option<EndRow> = match task.kind {
        TaskKind::Reply | TaskKind::Schedule => {
            let reply = task
                .output
                .as_ref()
                .and_then(|output| output.0.message_id);
            let has_next: bool = c
                .q("select exists (select 1 from tasks where after_task_id = $1)")
                .bind(task.id)
                .value()
                .await?;
            if reply.is_none() || has_next {
                return Ok(());
            }
            c.q("select id, channel_id, thread_id, conversation_id, seq from messages where id = $1 and deleted_at is null")
                .bind(reply)
                .opt()
                .await?
        }
        TaskKind::Workflow => {
            c.q("select m.id, m.channel_id, m.thread_id, m.conversation_id, m.seq from tasks t join messages m on m.id = t.reply_message_id \
                 where t.root_task_id = $1 and t.kind = 'reply' and t.status = 'completed' and m.deleted_at is null \
                 order by m.seq desc limit 1")
                .bind(task.id)
                .opt()
                .await?
        }
        _ => None,
    };
    let Some(reply) = reply else {
        return Ok(());
    };
    let subject = task.trigger_message_id.unwrap_or(reply.id);
    let item = NewItem {
        workspace: task.workspace_id,
        reason: InboxReason::Answer,
        subject: subject.into(),
        actor: task.agent_id.map(|agent| agent.0),
        place: Some(reply.place()),
        channel: None,
        message: Some(reply.id),
        seq: reply.seq,
        changed_seq: seq,
        is_quiet: false,
    };
    open_unread(c, task.requested_by, &item).await?;
    Ok(())
}
