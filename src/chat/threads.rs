//! Threads: every message in a channel belongs to one.

use std::collections::HashMap;

use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    ChatError,
    access::{self, ChannelAccess},
    bindings,
    event::ThreadData,
    follows::{self, Follow},
    messages::{self, Message, message_sql},
    reads,
};
use crate::{
    agents::profiles::InvocableAgent,
    auth::Caller,
    chat::messages::{AuthorKind, MessageKind},
    cursor,
    db::{Conn, DbError, Json, now},
    ids::{AgentId, ChannelId, MessageId, ThreadId, UserId, WorkspaceId},
    realtime::{Audience, NewEvent, hub::Conversation, log},
    tasks::{Task, queue},
    text_enum::text_enum,
};

/// Maximum number of participants stored for a thread.
const PARTICIPANTS_MAX: usize = 12;

text_enum! {
    pub enum ParticipantKind {
        Human = "human",
        Agent = "agent",
    }
}

text_enum! {
    pub enum ThreadStatus {
        Open = "open",
        Archived = "archived",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Participant {
    #[serde(rename = "type")]
    pub kind: ParticipantKind,
    pub id: String,
    /// Name at the time of the first message.
    pub name: String,
}

#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Thread {
    pub id: ThreadId,
    pub workspace_id: WorkspaceId,
    pub channel_id: ChannelId,
    /// Null unless someone set a title.
    pub title: Option<String>,
    pub status: ThreadStatus,
    /// Agent that replies to messages that mention no agent.
    pub agent_id: Option<AgentId>,
    /// Pinned version of that agent.
    pub agent_version: Option<i64>,
    /// Whether `agent_id` replies without a mention.
    pub auto_reply: bool,
    pub root_message_id: MessageId,
    /// Messages after the first, without notices.
    pub reply_count: i64,
    pub participants: Vec<Participant>,
    pub last_activity_at: Timestamp,
    /// Sequence number of the newest message; threads are listed in this order.
    pub last_seq: i64,
    pub created_by: UserId,
    pub created_at: Timestamp,
}

/// A thread as one person sees it.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct MyThread {
    #[serde(flatten)]
    pub thread: Thread,
    pub root_message: Option<Message>,
    /// Null if it is the root message.
    pub last_message: Option<Message>,
    pub active_tasks: Vec<Task>,
    /// Unread messages; counting stops at 1,000.
    pub unread_count: i64,
    /// Unread mentions; counting stops at 1,000.
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
}

#[derive(sqlx::FromRow)]
struct Row {
    id: ThreadId,
    workspace_id: WorkspaceId,
    channel_id: ChannelId,
    title: Option<String>,
    status: ThreadStatus,
    agent_id: Option<AgentId>,
    agent_version: Option<i64>,
    auto_reply: Option<bool>,
    root_message_id: MessageId,
    reply_count: i64,
    participants: Json<Vec<Participant>>,
    last_activity_at: Timestamp,
    last_seq: i64,
    created_by: UserId,
    created_at: Timestamp,
}

impl From<Row> for Thread {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            workspace_id: row.workspace_id,
            channel_id: row.channel_id,
            title: row.title,
            status: row.status,
            agent_id: row.agent_id,
            agent_version: row.agent_version,
            auto_reply: row.auto_reply.unwrap_or(false),
            root_message_id: row.root_message_id,
            reply_count: row.reply_count,
            participants: row.participants.0,
            last_activity_at: row.last_activity_at,
            last_seq: row.last_seq,
            created_by: row.created_by,
            created_at: row.created_at,
        }
    }
}

macro_rules! thread_sql {
    ($tail:literal) => {
        concat!(
            "select t.id, t.workspace_id, t.channel_id, t.title, t.status, t.agent_id, b.agent_version, b.auto_reply, \
             t.root_message_id, t.reply_count, t.participants, t.last_activity_at, t.last_seq, t.created_by, t.created_at \
             from threads t left join bindings b on b.place_id = t.id and b.agent_id = t.agent_id ",
            $tail
        )
    };
}

/// # Errors
/// `ThreadNotFound`.
pub(super) async fn get_thread(c: &mut Conn, id: ThreadId) -> Result<Thread, ChatError> {
    let row: Option<Row> = c.q(thread_sql!("where t.id = $1")).bind(id).opt().await?;
    row.map(Thread::from).ok_or(ChatError::ThreadNotFound)
}

/// Appends `thread.updated` with the current thread.
pub(super) async fn announce_update(
    c: &mut Conn,
    channel_access: &ChannelAccess<'_>,
    id: ThreadId,
) -> Result<Thread, ChatError> {
    announce_as(
        c,
        channel_access.actor.workspace,
        channel_access.audience(),
        id,
    )
    .await
}

/// Like `announce_update`, for a change that was not made by someone in the channel.
pub(super) async fn announce_as(
    c: &mut Conn,
    workspace: WorkspaceId,
    audience: Audience,
    id: ThreadId,
) -> Result<Thread, ChatError> {
    let thread = get_thread(c, id).await?;
    let seq = log::reserve(c, workspace, 1).await?;
    let event = NewEvent::new(
        seq,
        "thread.updated",
        audience,
        &ThreadData { thread: &thread },
    )?
    .in_conversation(id, None);
    log::append(c, workspace, event).await?;
    Ok(thread)
}

/// Inserts a thread before its root message. Appends no event.
pub(super) async fn insert(
    c: &mut Conn,
    channel_access: &ChannelAccess<'_>,
    id: ThreadId,
    root: MessageId,
    title: Option<&str>,
    agent: Option<&InvocableAgent>,
) -> Result<Thread, ChatError> {
    c.q("insert into threads (id, workspace_id, channel_id, root_message_id, title, status, agent_id, reply_count, participants, last_seq, \
         last_activity_at, created_by, created_at) values ($1, $2, $3, $4, $5, 'open', null, -1, $6, 0, $7, $8, $7)")
        .bind(id)
        .bind(channel_access.actor.workspace)
        .bind(channel_access.channel)
        .bind(root)
        .bind(title.map(str::to_owned))
        .bind(Json(Vec::<Participant>::new()))
        .bind(now())
        .bind(channel_access.actor.user)
        .run()
        .await?;
    if let Some(agent) = agent {
        let bound = (agent.id, agent.version);
        bindings::bind(
            c,
            channel_access.actor.workspace,
            id,
            Conversation::Thread(id),
            bound,
        )
        .await?;
    }
    let thread = get_thread(c, id).await?;
    Ok(Thread {
        reply_count: 0,
        ..thread
    })
}

/// Updates a thread's counters for a message that was just inserted into its main line. Notices are
/// not counted.
pub(super) async fn count_message(c: &mut Conn, message: &Message) -> Result<(), DbError> {
    if message.kind == MessageKind::Notice {
        return Ok(());
    }
    let participants: Json<Vec<Participant>> = c
        .q("update threads set reply_count = reply_count + 1, last_seq = $2, last_activity_at = $3 where id = $1 returning participants")
        .bind(message.thread_id)
        .bind(message.seq)
        .bind(message.created_at)
        .value()
        .await?;
    let mut participants = participants.0;
    let kind = match message.author.kind {
        AuthorKind::Human => Some(ParticipantKind::Human),
        AuthorKind::Agent => Some(ParticipantKind::Agent),
        AuthorKind::System => None,
    };
    if let (Some(kind), Some(id)) = (kind, message.author.id.clone())
        && participants.len() < PARTICIPANTS_MAX
        && participants.iter().all(|p| p.id != id)
    {
        participants.push(Participant {
            kind,
            id,
            name: message.author.name.clone(),
        });
        c.q("update threads set participants = $2 where id = $1")
            .bind(message.thread_id)
            .bind(Json(participants))
            .run()
            .await?;
    }
    Ok(())
}

/// Cursor kind in this module.
const CURSOR: &str = "threads";

/// Decodes a cursor into the `last_seq` of the last thread of the previous page.
///
/// # Errors
/// `Invalid` if it is not a cursor of a thread list.
fn parse_cursor(cursor: Option<&str>) -> Result<i64, ChatError> {
    let Some(text) = cursor.filter(|t| !t.is_empty()) else {
        return Ok(i64::MAX);
    };
    cursor::read(CURSOR, text)
        .map(|[last_seq]| last_seq)
        .ok_or_else(|| {
            ChatError::Invalid(
                "the cursor does not belong to a list of threads".to_owned(),
                "cursor",
            )
        })
}

fn cursor_at(last_seq: i64) -> String {
    cursor::write(CURSOR, &[last_seq])
}

/// # Errors
/// `Invalid` if it is not a cursor of a thread list.
pub fn check_cursor(text: Option<&str>) -> Result<(), ChatError> {
    parse_cursor(text).map(|_| ())
}

/// Threads of a channel, latest activity first, and the cursor of the next page.
///
/// # Errors
/// `Invalid` for a bad cursor.
pub async fn list(
    c: &mut Conn,
    user: UserId,
    channel: ChannelId,
    after: Option<&str>,
    limit: i64,
) -> Result<(Vec<MyThread>, Option<String>), ChatError> {
    let rows: Vec<Row> = c
        .q(thread_sql!(
            "where t.channel_id = $1 and t.last_seq < $2 order by t.last_seq desc limit $3"
        ))
        .bind(channel)
        .bind(parse_cursor(after)?)
        .bind(limit + 1)
        .all()
        .await?;
    let mut threads: Vec<Thread> = rows.into_iter().map(Thread::from).collect();
    let more = i64::try_from(threads.len()).unwrap_or(i64::MAX) > limit;
    threads.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let next = threads
        .last()
        .filter(|_| more)
        .map(|thread| cursor_at(thread.last_seq));
    Ok((with_details(c, user, channel, threads).await?, next))
}

/// Adds one person's data to threads of one channel, with a fixed number of queries.
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
    let roots: Vec<messages::Row> = c
        .q(message_sql!("join threads t on t.root_message_id = m.id where t.channel_id = $1 and t.last_seq between $2 and $3"))
        .bind(channel)
        .bind(low)
        .bind(high)
        .all()
        .await?;
    let lasts: Vec<messages::Row> = c
        .q(message_sql!(
            "join threads t on t.id = m.thread_id and t.last_seq = m.seq and t.root_message_id <> m.id and m.fork_id is null \
             where t.channel_id = $1 and t.last_seq between $2 and $3"
        ))
        .bind(channel)
        .bind(low)
        .bind(high)
        .all()
        .await?;
    let by_thread = |rows: Vec<messages::Row>| -> HashMap<ThreadId, Message> {
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
    let counts = reads::of_threads(c, user, channel, (low, high)).await?;
    let follows = follows::of_threads(c, user, channel, (low, high)).await?;
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
/// `ThreadNotFound`, or any error of `reading`.
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
    Ok(OpenedThread {
        thread,
        first_unread_id,
    })
}

/// Removes a person from a thread: their name from the participants, and the title if they created
/// the thread. Appends `thread.updated`.
pub async fn erase_person(
    c: &mut Conn,
    id: ThreadId,
    (user, alias): (UserId, UserId),
    audience: Audience,
) -> Result<(), ChatError> {
    let thread = get_thread(c, id).await?;
    let gone = user.to_string();
    let mut participants = thread.participants;
    participants.retain(|participant| participant.id != gone);
    let is_creator = thread.created_by == user;
    c.q("update threads set participants = $2, title = $3, created_by = $4 where id = $1")
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
        "thread.updated",
        audience,
        &ThreadData { thread: &thread },
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
