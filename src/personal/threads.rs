//! Deletes threads: chats of a person with an agent, and examples.
//!
//! ```text
//! delete: tasks are stopped, the thread moves to a channel without members ─► summaries ─► messages ─► memories ─► tasks
//!         ─► event log ─► the thread, with everything that refers to it
//! ```
//!
//! Every access check and every list goes through the channel, so nobody sees the thread after the first transaction. The rest is removed
//! in many short ones, each of which can be repeated.

use std::collections::BTreeSet;

use serde_json::Value;

use super::erase::Eraser;
use crate::{
    agents::derived::{self, Change, DELETED, SourceId},
    auth::{Actor, Caller, Scope, quota},
    chat::{
        ChatError, access,
        channels::{ChannelKind, is_chat_channel},
        event::ThreadDeletedEvent,
        remove,
        search::index,
        variants,
    },
    code,
    db::{
        Conn, Db, DbError, Json,
        dialect::{hexadecimal_ids, lock_workspace},
        now,
    },
    failpoint, files,
    ids::{
        ActionId, ChannelId, CompactionId, FileId, MemoryId, MessageId, TaskId, ThreadId,
        WorkspaceId,
    },
    realtime::{Audience, EventType, Hub, NewEvent, log},
    replies::compaction::catch_up,
    schedules, sql_with_ids,
    tasks::{TaskInput, actions, queue},
};

/// Maximum number of messages removed per transaction.
const MESSAGES_AT_ONCE: i64 = 500;
/// Maximum number of other rows removed per transaction.
const ROWS_AT_ONCE: i64 = 100;
/// Maximum number of events that a statement scans.
const EVENTS_SCANNED_MAX: i64 = 1000;
/// Maximum number of active tasks of a thread. There are far fewer.
const ACTIVE_MAX: i64 = 1000;
/// Maximum number of removals in one round.
const REMOVALS_MAX: i64 = 1000;
/// Number of events that a post appends before the one of its message.
const EVENTS_BEFORE_ROOT: i64 = 10;
/// `direct_key` of the channel of deleted threads. No other direct channel has it, because keys consist of IDs.
const REMOVED_KEY: &str = "removed";

/// Hides a thread and its variants from everyone; their rows are then removed by `Eraser::remove_threads`. A person can delete their own chats, and an admin
/// the examples of the workspace. Returns the workspace.
///
/// # Errors
/// `ThreadNotFound`, `NotDeletable`, or an error from `Actor::require`.
pub async fn delete_thread(
    c: &mut Conn,
    caller: &Caller,
    id: ThreadId,
    hub: &Hub,
) -> Result<WorkspaceId, ChatError> {
    let access = access::thread(c, caller, id).await?;
    let actor = &access.channel_access.actor;
    actor.require(Scope::ChatWrite)?;
    let workspace = actor.workspace;
    lock_workspace(c, workspace.0).await?;
    let (channel, audience) = (
        access.channel_access.channel,
        access.channel_access.audience(),
    );
    check_deletable(c, actor, id, channel).await?;
    let target = removed_channel(c, workspace).await?;
    for variant in variants::list(c, id).await? {
        hide(c, workspace, variant.thread_id, audience, target, hub).await?;
    }
    hide(c, workspace, id, audience, target, hub).await?;
    Ok(workspace)
}

/// Properties of a thread that decide whether it can be deleted.
#[derive(sqlx::FromRow)]
struct Deletable {
    is_chat: bool,
    metadata: Option<Json<Value>>,
}

async fn check_deletable(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ThreadId,
    channel: ChannelId,
) -> Result<(), ChatError> {
    // The person in the direct channel is the caller, because nobody else sees it.
    let found: Option<Deletable> = c
        .q(concat!(
            "select ",
            is_chat_channel!(),
            " as is_chat, m.metadata \
             from threads t join channels ch on ch.id = t.channel_id left join messages m on m.id = t.root_message_id \
             where t.id = $1 and t.channel_id = $2"
        ))
        .bind(id)
        .bind(channel)
        .opt()
        .await?;
    let found = found.ok_or(ChatError::ThreadNotFound)?;
    let is_example = found
        .metadata
        .is_some_and(|metadata| metadata.0["example"] == Value::Bool(true));
    if found.is_chat || (is_example && actor.require(Scope::WorkspaceAdmin).is_ok()) {
        return Ok(());
    }
    Err(ChatError::NotDeletable)
}

/// The channel of the workspace's deleted threads. It has no members, so nobody sees it.
async fn removed_channel(c: &mut Conn, workspace: WorkspaceId) -> Result<ChannelId, DbError> {
    c.q("insert into channels (id, workspace_id, kind, direct_key, joined_by_all, created_at, archived_at) \
         values ($1, $2, $3, $4, FALSE, $5, $5) on conflict (workspace_id, direct_key) do nothing")
        .bind(ChannelId::new())
        .bind(workspace)
        .bind(ChannelKind::Direct)
        .bind(REMOVED_KEY.to_owned())
        .bind(now())
        .run()
        .await?;
    c.q("select id from channels where workspace_id = $1 and direct_key = $2")
        .bind(workspace)
        .bind(REMOVED_KEY.to_owned())
        .value()
        .await
}

/// Statements that delete rows of thread `$1` which belong to people and would still be counted or notified.
const DELETED_AT_ONCE: [&str; 8] = [
    "delete from inbox_items where thread_id = $1",
    "delete from message_mentions where thread_id = $1",
    "delete from follows where thread_id = $1",
    "delete from suspended_follows where thread_id = $1",
    "delete from reads where thread_id = $1",
    "delete from grants where thread_id = $1",
    "delete from hook_threads where thread_id = $1",
    "delete from action_items where resolution_id in (select id from resolutions where thread_id = $1)",
];
/// Statements that move thread `$1` to channel `$2`. An archived thread without memory is not used by anything.
const MOVED: [&str; 8] = [
    "update threads set channel_id = $2, status = 'archived', memory = 'off', title = null, first_thread_id = null, \
     variant_message_id = null, variant_seq = null where id = $1",
    "update messages set channel_id = $2 where thread_id = $1",
    "update forks set channel_id = $2 where thread_id = $1",
    "update resolutions set channel_id = $2 where thread_id = $1",
    "update tasks set channel_id = $2 where thread_id = $1",
    "update runs set channel_id = $2 where thread_id = $1",
    "update memories set channel_id = $2 where thread_id = $1",
    "update code_sessions set channel_id = $2 where thread_id = $1",
];

/// Stops all work in a thread, moves it to the channel `target`, and appends `thread.deleted`.
async fn hide(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: ThreadId,
    audience: Audience,
    target: ChannelId,
    hub: &Hub,
) -> Result<(), ChatError> {
    let (channel, from_seq): (ChannelId, Option<i64>) = c
        .q("select t.channel_id, m.seq from threads t left join messages m on m.id = t.root_message_id where t.id = $1")
        .bind(id)
        .one()
        .await?;
    let active: Vec<(TaskId,)> = c
        .q("select id from tasks where thread_id = $1 and status in ('queued', 'running') order by id desc limit $2")
        .bind(id)
        .bind(ACTIVE_MAX)
        .all()
        .await?;
    for (task,) in active {
        if let Some(task) = queue::find_task(c, task).await? {
            remove::stop(c, &task, hub, audience).await?;
        }
    }
    code::forget_thread(c, id, audience).await?;
    schedules::delete_in_thread(c, id).await?;
    catch_up::store::forget_thread(c, id).await?;
    for sql in DELETED_AT_ONCE {
        c.q(sql).bind(id).run().await?;
    }
    for sql in MOVED {
        c.q(sql).bind(id).bind(target).run().await?;
    }
    c.q("insert into thread_removals (thread_id, workspace_id, channel_id, from_seq, created_at) values ($1, $2, $3, $4, $5)")
        .bind(id)
        .bind(workspace)
        .bind(channel)
        .bind(from_seq.unwrap_or_default() - EVENTS_BEFORE_ROOT)
        .bind(now())
        .run()
        .await?;
    let seq = log::reserve(c, workspace, 1).await?;
    let data = ThreadDeletedEvent {
        thread_id: id,
        channel_id: channel,
    };
    let event =
        NewEvent::new(seq, EventType::ThreadDeleted, audience, &data)?.in_conversation(id, None);
    log::append(c, workspace, event).await?;
    Ok(())
}

/// A deleted thread whose rows are being removed.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
struct Removal {
    thread_id: ThreadId,
    workspace_id: WorkspaceId,
    channel_id: ChannelId,
    from_seq: i64,
}

/// Condition that removal `x` can continue: runners have the commands for which it waits.
macro_rules! can_continue {
    () => {
        "(not x.is_waiting or not exists (select 1 from runner_commands m \
          join code_sessions s on s.id = m.session_id where s.thread_id = x.thread_id))"
    };
}

/// Workspaces with deleted threads that have not been removed completely, except for those that wait for runners.
///
/// # Errors
/// Only database errors.
pub async fn workspaces_to_clean(db: &Db) -> Result<Vec<WorkspaceId>, DbError> {
    let found: Vec<(WorkspaceId,)> = db
        .read()
        .await?
        .q(concat!(
            "select distinct x.workspace_id from thread_removals x where ",
            can_continue!(),
            " order by x.workspace_id limit $1"
        ))
        .bind(REMOVALS_MAX)
        .all()
        .await?;
    Ok(found.into_iter().map(|(id,)| id).collect())
}

/// A step of a removal, which removes a limited number of rows.
#[derive(Debug, Clone, Copy)]
enum Step {
    Segments,
    Messages,
    Memories,
    Tasks,
}

impl Eraser {
    /// Removes the deleted threads of a workspace.
    ///
    /// # Errors
    /// If the database fails or the server is stopping; calling it again continues.
    pub async fn remove_threads(&self, workspace: WorkspaceId) -> Result<(), ChatError> {
        let removals: Vec<Removal> = self
            .db
            .read()
            .await?
            .q(concat!(
                "select x.thread_id, x.workspace_id, x.channel_id, x.from_seq from thread_removals x where x.workspace_id = $1 and ",
                can_continue!(),
                " order by x.created_at limit $2"
            ))
            .bind(workspace)
            .bind(REMOVALS_MAX)
            .all()
            .await?;
        if removals.is_empty() {
            return Ok(());
        }
        for removal in removals {
            self.remove_thread(removal).await?;
        }
        self.delete_bytes().await;
        Ok(())
    }

    async fn remove_thread(&self, removal: Removal) -> Result<(), ChatError> {
        for step in [Step::Segments, Step::Messages, Step::Memories, Step::Tasks] {
            while self.remove_some(removal, step).await? > 0 {
                failpoint!("removing_thread");
            }
        }
        self.replace_events(removal).await?;
        let thread = removal.thread_id;
        self.remove_step(removal, async move |c: &mut Conn| {
            // The other rows of the thread are deleted by a cascade, which must not take commands from runners.
            let sql = if code::has_commands_in(c, thread).await? {
                "update thread_removals set is_waiting = TRUE where thread_id = $1"
            } else {
                "delete from threads where id = $1"
            };
            c.q(sql).bind(thread).run().await?;
            Ok(())
        })
        .await
    }

    /// Removes some rows and returns their number.
    async fn remove_some(&self, removal: Removal, step: Step) -> Result<usize, ChatError> {
        self.remove_step(removal, async move |c: &mut Conn| {
            Ok(match step {
                Step::Segments => remove_segments(c, removal).await?,
                Step::Messages => remove_messages(c, removal).await?,
                Step::Memories => remove_memories(c, removal).await?,
                Step::Tasks => remove_tasks(c, removal).await?,
            })
        })
        .await
    }

    /// Runs a step in the workspace's write order, unless the server is stopping.
    async fn remove_step<T, F>(&self, removal: Removal, command: F) -> Result<T, ChatError>
    where
        T: Send + 'static,
        F: AsyncFn(&mut Conn) -> Result<T, ChatError> + Send + 'static,
    {
        if self.shutdown.is_cancelled() {
            return Err(DbError::Closed.into());
        }
        self.db.write(removal.workspace_id.0, command).await
    }

    /// Replaces all events about the thread by `thread.deleted`, so that the log contains none of its texts and has no gaps.
    async fn replace_events(&self, removal: Removal) -> Result<(), ChatError> {
        let pattern = format!("%{}%", removal.thread_id);
        let mut after = removal.from_seq;
        loop {
            let scanned: Vec<(i64, bool)> = self
                .db
                .read()
                .await?
                .q("select seq, coalesce(channel_id in ($4, (select channel_id from threads where id = $5)) \
                    and type <> 'thread.deleted' and frame like $6, FALSE) \
                    from events where workspace_id = $1 and seq > $2 order by seq limit $3")
                .bind(removal.workspace_id)
                .bind(after)
                .bind(EVENTS_SCANNED_MAX)
                .bind(removal.channel_id)
                .bind(removal.thread_id)
                .bind(pattern.clone())
                .all()
                .await?;
            let Some((last, _)) = scanned.last() else {
                return Ok(());
            };
            after = *last;
            let found = scanned.iter().filter(|(_, is_about)| *is_about);
            let found: Vec<i64> = found.map(|(seq, _)| *seq).collect();
            if found.is_empty() {
                continue;
            }
            self.remove_step(removal, async move |c: &mut Conn| {
                let data = ThreadDeletedEvent {
                    thread_id: removal.thread_id,
                    channel_id: removal.channel_id,
                };
                for seq in &found {
                    let audience = Audience::Members(removal.channel_id);
                    let event = NewEvent::new(*seq, EventType::ThreadDeleted, audience, &data)?
                        .in_conversation(removal.thread_id, None);
                    log::replace(c, removal.workspace_id, event).await?;
                }
                Ok(())
            })
            .await?;
        }
    }
}

/// Removes the summaries of the thread and the memory entries that were made with them.
async fn remove_segments(c: &mut Conn, removal: Removal) -> Result<usize, DbError> {
    let segments: Vec<(CompactionId,)> = c
        .q("select id from compactions where thread_id = $1 limit $2")
        .bind(removal.thread_id)
        .bind(ROWS_AT_ONCE)
        .all()
        .await?;
    for (id,) in &segments {
        derived::changed(c, SourceId::Compaction(*id), Change::Deleted).await?;
        c.q("delete from compactions where id = $1")
            .bind(*id)
            .run()
            .await?;
    }
    Ok(segments.len())
}

async fn remove_messages(c: &mut Conn, removal: Removal) -> Result<usize, DbError> {
    let workspace = removal.workspace_id;
    let messages: Vec<(MessageId, i64, i64)> = c
        .q("select id, seq, counted_bytes from messages where thread_id = $1 limit $2")
        .bind(removal.thread_id)
        .bind(MESSAGES_AT_ONCE)
        .all()
        .await?;
    if messages.is_empty() {
        return Ok(0);
    }
    let ids = || hexadecimal_ids(messages.iter().map(|(id, ..)| id.0));
    let sql = sql_with_ids!(
        c,
        "select id, message_id from files where message_id in",
        1,
        "order by id"
    );
    let attached: Vec<(FileId, MessageId)> = c.q(sql).bind(ids()).all().await?;
    let attached_ids: Vec<FileId> = attached.iter().map(|(file, _)| *file).collect();
    actions::forget_files(c, &attached_ids, DELETED).await?;
    let with_files: BTreeSet<MessageId> = attached.iter().map(|(_, message)| *message).collect();
    for message in with_files {
        files::remove_of_message(c, message).await?;
    }
    for (id, seq, _) in &messages {
        derived::changed(c, SourceId::Message(*id), Change::Deleted).await?;
        index::remove_at(c, workspace, *seq).await?;
    }
    let bytes: i64 = messages.iter().map(|(.., bytes)| bytes).sum();
    quota::count_message(c, workspace, -bytes).await?;
    let sql = sql_with_ids!(
        c,
        "delete from client_ids where (workspace_id, user_id, client_id) in \
         (select m.workspace_id, m.author_id, m.client_id from messages m where m.client_id is not null and m.id in",
        1,
        ")"
    );
    c.q(sql).bind(ids()).run().await?;
    // A run in another conversation can have the message as its trigger.
    let sql = sql_with_ids!(
        c,
        "update tasks set input = $2 where trigger_message_id in",
        1,
        ""
    );
    c.q(sql)
        .bind(ids())
        .bind(Json(TaskInput::default()))
        .run()
        .await?;
    let sql = sql_with_ids!(
        c,
        "update hook_requests set body = null where message_id in",
        1,
        ""
    );
    c.q(sql).bind(ids()).run().await?;
    let sql = sql_with_ids!(c, "delete from messages where id in", 1, "");
    c.q(sql).bind(ids()).run().await?;
    Ok(messages.len())
}

/// Removes the memory entries that belong to the thread.
async fn remove_memories(c: &mut Conn, removal: Removal) -> Result<usize, DbError> {
    let entries: Vec<(MemoryId,)> = c
        .q("select id from memories where thread_id = $1 limit $2")
        .bind(removal.thread_id)
        .bind(ROWS_AT_ONCE)
        .all()
        .await?;
    let entries: Vec<MemoryId> = entries.into_iter().map(|(id,)| id).collect();
    derived::remove_entries(c, &entries).await?;
    Ok(entries.len())
}

/// Removes tasks of the thread. The calls of models keep their rows, which have no texts, because usage is counted by them.
async fn remove_tasks(c: &mut Conn, removal: Removal) -> Result<usize, DbError> {
    let tasks: Vec<(TaskId, ChannelId)> = c
        .q("select id, channel_id from tasks where thread_id = $1 limit $2")
        .bind(removal.thread_id)
        .bind(ROWS_AT_ONCE)
        .all()
        .await?;
    if tasks.is_empty() {
        return Ok(0);
    }
    for (task, channel) in &tasks {
        // No task should have started after the thread was hidden.
        queue::cancel(c, *task, Audience::Members(*channel)).await?;
    }
    let ids = || hexadecimal_ids(tasks.iter().map(|(id, _)| id.0));
    let sql = sql_with_ids!(c, "select id from actions where task_id in", 1, "");
    let calls: Vec<(ActionId,)> = c.q(sql).bind(ids()).all().await?;
    for (id,) in calls {
        derived::changed(c, SourceId::Action(id), Change::Deleted).await?;
    }
    for sql in [
        sql_with_ids!(
            c,
            "update context_texts set text = $2, hash = null where id in (select arguments_id from actions where task_id in",
            1,
            ")"
        ),
        sql_with_ids!(
            c,
            "update context_texts set text = $2, hash = null where id in (select result_id from actions where task_id in",
            1,
            ")"
        ),
        sql_with_ids!(
            c,
            "update context_texts set text = $2, hash = null where id in (select brief_id from tasks where id in",
            1,
            ")"
        ),
        sql_with_ids!(
            c,
            "update context_texts set text = $2, hash = null where id in (select answer_id from tasks where id in",
            1,
            ")"
        ),
        sql_with_ids!(
            c,
            "update context_texts set text = $2, hash = null where id in (select output_id from run_steps where run_id in",
            1,
            ")"
        ),
        // The title of a fork that a person chose is in the block about the conversation, which cites no message for it.
        sql_with_ids!(
            c,
            "update context_texts set text = $2, hash = null where id in (select p.text_id from context_parts p \
             join tasks t on t.id = p.task_id where p.name = 'conversation' and t.conversation_id <> t.thread_id and t.id in",
            1,
            ")"
        ),
    ] {
        c.q(sql).bind(ids()).bind(DELETED).run().await?;
    }
    let sql = sql_with_ids!(c, "delete from tasks where id in", 1, "");
    c.q(sql).bind(ids()).run().await?;
    Ok(tasks.len())
}
