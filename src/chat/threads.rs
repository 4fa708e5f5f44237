//! Threads. Every message in a channel belongs to a thread.

use std::collections::HashMap;

use serde::Serialize;

use super::{
    ChatError,
    access::{self, ChannelAccess},
    bindings::{self, BoundBy},
    follows::{self, Follow},
    reads,
    rows::{
        message::{self, Message, message_sql},
        thread::{Row, get_thread, thread_sql, threads_of},
    },
    variants::{self, ChatVariant, VariantBase},
};
use crate::{
    agents::profiles::InvocableAgent,
    auth::Caller,
    chat::event::ThreadEvent,
    cursor,
    db::{self, Conn, DbError, Json, now},
    ids::{ChannelId, MessageId, ThreadId, UserId, WorkspaceId},
    realtime::{Audience, EventType, NewEvent, hub::Conversation, log},
    tasks::{Task, queue},
    text_enum::text_enum,
};

pub use super::rows::thread::{Participant, ParticipantKind, Thread, ThreadMemory, ThreadStatus};

/// A thread as one person sees it.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct MyThread {
    #[serde(flatten)]
    pub thread: Thread,
    pub root_message: Option<Message>,
    /// The newest message of the thread; null if that is the root message.
    pub last_message: Option<Message>,
    pub active_tasks: Vec<Task>,
    /// Unread messages; at most 1,000.
    pub unread_count: i64,
    /// Unread mentions; at most 1,000.
    pub mention_count: i64,
    /// Every message up to this sequence number is read.
    pub read_seq: i64,
    /// The person's follow level.
    pub follow: Follow,
}

/// `MyThread` with the data that a client needs to open it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct OpenedThread {
    #[serde(flatten)]
    pub thread: MyThread,
    /// The oldest unread message; null if there is none.
    pub first_unread_id: Option<MessageId>,
    /// Variants of the chat, oldest first; in a variant, those of the first chat.
    pub variants: Vec<ChatVariant>,
}

/// Channel of a new thread, and the person who starts it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThreadOrigin {
    pub workspace: WorkspaceId,
    pub channel: ChannelId,
    pub created_by: UserId,
}

impl From<&ChannelAccess<'_>> for ThreadOrigin {
    fn from(access: &ChannelAccess<'_>) -> Self {
        Self {
            workspace: access.actor.workspace,
            channel: access.channel,
            created_by: access.actor.user,
        }
    }
}

/// A thread that is being started.
pub(super) struct ThreadStart<'a> {
    pub(super) id: ThreadId,
    pub(super) root: MessageId,
    pub(super) title: Option<&'a str>,
    pub(super) memory: ThreadMemory,
    /// Base of a variant of a chat; `None` for other threads.
    pub(super) base: Option<VariantBase>,
}

/// Inserts a thread; its root message is inserted afterward. Appends no event.
pub(super) async fn insert(
    c: &mut Conn,
    origin: ThreadOrigin,
    new: ThreadStart<'_>,
    agent: Option<&InvocableAgent>,
    bound_by: BoundBy,
) -> Result<Thread, ChatError> {
    let ThreadStart {
        id,
        root,
        title,
        memory,
        base,
    } = new;
    c.q("insert into threads (id, workspace_id, channel_id, root_message_id, title, status, reply_count, participants, last_seq, \
         last_activity_at, memory, created_by, created_at, first_thread_id, variant_message_id, variant_seq) \
         values ($1, $2, $3, $4, $5, 'open', -1, $6, 0, $7, $9, $8, $7, $10, $11, $12)")
        .bind(id)
        .bind(origin.workspace)
        .bind(origin.channel)
        .bind(root)
        .bind(title.map(str::to_owned))
        .bind(Json(Vec::<Participant>::new()))
        .bind(now())
        .bind(origin.created_by)
        .bind(memory)
        .bind(base.map(|base| base.thread))
        .bind(base.map(|base| base.message))
        .bind(base.map(|base| base.seq))
        .run()
        .await?;
    if let Some(agent) = agent {
        let conversation = Conversation::Thread(id);
        let (workspace, version) = (origin.workspace, agent.version);
        bindings::bind_by(c, workspace, id, conversation, agent.id, version, bound_by).await?;
    }
    let thread = get_thread(c, id).await?;
    Ok(Thread {
        reply_count: 0,
        ..thread
    })
}

/// Cursor kind in this module.
const CURSOR: &str = "threads";

/// Decodes a cursor into the `last_seq` of the last thread of the previous page.
///
/// # Errors
/// `Invalid` if `cursor` is not a cursor of a thread list.
fn parse_cursor(cursor: Option<&str>) -> Result<i64, ChatError> {
    let Some(text) = cursor.filter(|t| !t.is_empty()) else {
        return Ok(i64::MAX);
    };
    cursor::read(CURSOR, text)
        .map(|[last_seq]| last_seq)
        .ok_or_else(|| {
            ChatError::Invalid(
                "the cursor does not belong to a list of threads: use `next_cursor` of the previous page".to_owned(),
                "cursor",
            )
        })
}

fn cursor_at(last_seq: i64) -> String {
    cursor::write(CURSOR, &[last_seq])
}

/// Checks that `text` is a cursor of a thread list.
///
/// # Errors
/// `Invalid` if it is not.
pub fn check_cursor(text: Option<&str>) -> Result<(), ChatError> {
    parse_cursor(text).map(|_| ())
}

text_enum! {
    /// Selection of a channel's threads.
    pub enum ThreadFilter {
        /// Has messages that the person has not read.
        Unread = "unread",
        /// An agent has replied in it.
        Agents = "agents",
        /// Has the result of a deep dive.
        Results = "results",
    }
}

/// Threads of a channel, latest activity first, and the cursor of the next page.
///
/// # Errors
/// `Invalid` for a bad cursor.
pub async fn list(
    c: &mut Conn,
    user: UserId,
    channel: ChannelId,
    filter: Option<ThreadFilter>,
    after: Option<&str>,
    limit: i64,
) -> Result<(Vec<MyThread>, Option<String>), ChatError> {
    let query = match filter {
        None => c.q(thread_sql!(
            "where t.channel_id = $1 and t.last_seq < $2 order by t.last_seq desc limit $3"
        )),
        // Unread messages as counted by `reads::of_threads`.
        Some(ThreadFilter::Unread) => c.q(thread_sql!(
            "join channel_members cm on cm.channel_id = t.channel_id and cm.user_id = $4 \
             left join reads r on r.conversation_id = t.id and r.user_id = cm.user_id \
             where t.channel_id = $1 and t.last_seq < $2 and t.last_seq > coalesce(r.seq, cm.read_seq) \
             and exists (select 1 from messages m where m.conversation_id = t.id \
               and m.seq > coalesce(r.seq, cm.read_seq) and m.seq > cm.joined_seq \
               and m.kind <> 'notice' and m.deleted_at is null and m.author_id <> cm.user_id) \
             and not exists (select 1 from follows f where f.user_id = cm.user_id and f.conversation_id = t.id and f.level = 'none') \
             order by t.last_seq desc limit $3"
        )),
        Some(ThreadFilter::Agents) => c.q(thread_sql!(
            "where t.channel_id = $1 and t.last_seq < $2 \
             and exists (select 1 from conversation_agents p where p.conversation_id = t.id and p.turns > 0) \
             order by t.last_seq desc limit $3"
        )),
        Some(ThreadFilter::Results) => c.q(thread_sql!(
            "where t.channel_id = $1 and t.last_seq < $2 \
             and exists (select 1 from forks f where f.thread_id = t.id and f.status = 'resolved') \
             order by t.last_seq desc limit $3"
        )),
    };
    let query = query
        .bind(channel)
        .bind(parse_cursor(after)?)
        .bind(limit + 1);
    let query = match filter {
        Some(ThreadFilter::Unread) => query.bind(user),
        _ => query,
    };
    let rows: Vec<Row> = query.all().await?;
    let mut threads = threads_of(c, rows).await?;
    let more = i64::try_from(threads.len()).unwrap_or(i64::MAX) > limit;
    threads.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let next = threads
        .last()
        .filter(|_| more)
        .map(|thread| cursor_at(thread.last_seq));
    Ok((with_details(c, user, channel, threads).await?, next))
}

/// Adds one person's data to threads of one channel. The number of queries does not depend on the
/// number of threads.
pub(super) async fn with_details(
    c: &mut Conn,
    user: UserId,
    channel: ChannelId,
    threads: Vec<Thread>,
) -> Result<Vec<MyThread>, ChatError> {
    let (Some(high), Some(low)) = (
        threads.iter().map(|t| t.last_seq).max(),
        threads.iter().map(|t| t.last_seq).min(),
    ) else {
        return Ok(Vec::new());
    };
    let roots: Vec<message::Row> = c
        .q(message_sql!("join threads t on t.root_message_id = m.id where t.channel_id = $1 and t.last_seq between $2 and $3"))
        .bind(channel)
        .bind(low)
        .bind(high)
        .all()
        .await?;
    let lasts: Vec<message::Row> = c
        .q(message_sql!(
            "join threads t on t.id = m.conversation_id and t.last_seq = m.seq and t.root_message_id <> m.id \
             where t.channel_id = $1 and t.last_seq between $2 and $3"
        ))
        .bind(channel)
        .bind(low)
        .bind(high)
        .all()
        .await?;
    let by_thread = |rows: Vec<message::Row>| -> HashMap<ThreadId, Message> {
        rows.into_iter()
            .map(Message::from)
            .map(|m| (m.thread_id, m))
            .collect()
    };
    let (mut roots, mut lasts) = (by_thread(roots), by_thread(lasts));
    let mut tasks: HashMap<ThreadId, Vec<Task>> = HashMap::new();
    for task in queue::active_in_threads(c, channel, low, high).await? {
        if let Some(thread) = task.thread_id {
            tasks.entry(thread).or_default().push(task);
        }
    }
    let counts = reads::of_threads(c, user, channel, low, high).await?;
    let follows = follows::of_threads(c, user, channel, low, high).await?;
    Ok(threads
        .into_iter()
        .map(|thread| {
            let (found, read_seq) = counts.get(&thread.id).copied().unwrap_or_default();
            MyThread {
                root_message: roots.remove(&thread.id),
                last_message: lasts.remove(&thread.id),
                active_tasks: tasks.remove(&thread.id).unwrap_or_default(),
                unread_count: found.unread_count,
                mention_count: found.mention_count,
                read_seq,
                follow: follows.get(&thread.id).copied().unwrap_or_default(),
                thread,
            }
        })
        .collect())
}

/// A thread as the person sees it.
///
/// # Errors
/// `ThreadNotFound`, or any error from `reading`.
pub async fn get_mine(c: &mut Conn, caller: &Caller, id: ThreadId) -> Result<MyThread, ChatError> {
    let access = access::thread(c, caller, id).await?.reading()?;
    let thread = get_thread(c, id).await?;
    let mut found =
        with_details(c, caller.user, access.channel_access.channel, vec![thread]).await?;
    found.pop().ok_or(ChatError::ThreadNotFound)
}

/// A thread as the person sees it, with the oldest unread message.
///
/// # Errors
/// As for `get_mine`.
pub async fn open_mine(
    c: &mut Conn,
    caller: &Caller,
    id: ThreadId,
) -> Result<OpenedThread, ChatError> {
    let thread = get_mine(c, caller, id).await?;
    let first_unread_id = reads::first_unread(c, caller.user, id).await?;
    let variant_of = thread.thread.variant_of;
    let first = variant_of.map_or(id, |variant_of| variant_of.thread_id);
    Ok(OpenedThread {
        thread,
        first_unread_id,
        variants: variants::list(c, first).await?,
    })
}

/// Checks whether a thread is the example of a new workspace.
///
/// # Errors
/// Only database errors.
pub async fn is_example(c: &mut Conn, id: ThreadId) -> Result<bool, DbError> {
    c.q(concat!("select ", db::is_example!("$1")))
        .bind(id)
        .value()
        .await
}

/// Removes a person from a thread: deletes them from the participants and, if they created the thread, deletes its title and makes
/// `alias` its creator. Appends `thread.updated`.
pub async fn erase_person(
    c: &mut Conn,
    id: ThreadId,
    user: UserId,
    alias: UserId,
    audience: Audience,
) -> Result<(), ChatError> {
    let thread = get_thread(c, id).await?;
    let gone = user.to_string();
    let mut participants = thread.participants;
    participants.retain(|participant| participant.id != gone);
    let is_creator = thread.created_by == user;
    c.q("update threads set participants = $2, title = $3, title_from = case when $3 is null then null else title_from end, created_by = $4 where id = $1")
        .bind(id)
        .bind(Json(participants))
        .bind(thread.title.filter(|_| !is_creator))
        .bind(if is_creator { alias } else { thread.created_by })
        .run()
        .await?;
    super::search::index::reindex_stored(c, thread.root_message_id).await?;
    let thread = get_thread(c, id).await?;
    let seq = log::reserve(c, thread.workspace_id, 1).await?;
    let event = NewEvent::new(
        seq,
        EventType::ThreadUpdated,
        audience,
        &ThreadEvent { thread: &thread },
    )?
    .in_conversation(id, None);
    log::append(c, thread.workspace_id, event).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_cursor_is_rejected() {
        assert_eq!(parse_cursor(Some(&cursor_at(42))).unwrap(), 42);
        assert_eq!(parse_cursor(None).unwrap(), i64::MAX);
        for bad in ["42", "!!", "dGhyZWFkczp4", "ZXZpbDo0Mg"] {
            assert!(parse_cursor(Some(bad)).is_err(), "{bad}");
        }
    }
}
