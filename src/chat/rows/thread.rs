//! Threads as they are stored and shown.

use serde::{Deserialize, Serialize};

use super::{
    message::{AuthorKind, Message, MessageKind},
    preset::{ConversationPreset, list_presets},
    variant::VariantOf,
};
use crate::{
    chat::ChatError,
    db::{Conn, DbError, Json},
    ids::{AgentId, ChannelId, MessageId, ThreadId, UserId, WorkspaceId},
    text_enum::text_enum,
    time::Timestamp,
};

/// Maximum number of participants stored for a thread.
const PARTICIPANTS_MAX: usize = 12;

text_enum! {
    pub enum ParticipantKind {
        Human = "human",
        Agent = "agent",
        Bot = "bot",
    }
}

text_enum! {
    pub enum ThreadStatus {
        Open = "open",
        Archived = "archived",
    }
}

text_enum! {
    /// Memory setting of a thread and its forks.
    pub enum ThreadMemory {
        On = "on",
        /// Agents use no memory in the thread, and entries from the thread are not used anywhere.
        Off = "off",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Participant {
    #[serde(rename = "type")]
    pub kind: ParticipantKind,
    pub id: String,
    /// Name of the participant when they first posted in the thread.
    pub name: String,
}

#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Thread {
    pub id: ThreadId,
    pub workspace_id: WorkspaceId,
    pub channel_id: ChannelId,
    /// Title that someone has set, or null.
    pub title: Option<String>,
    pub status: ThreadStatus,
    /// Agent that replies to messages that mention no agent.
    pub agent_id: Option<AgentId>,
    /// Pinned version of the agent in `agent_id`.
    pub agent_version: Option<i64>,
    /// True if `agent_id` replies without a mention.
    pub auto_reply: bool,
    #[schema(inline)]
    pub memory: ThreadMemory,
    /// Reply styles of the agents in this thread. Agents that are not listed have none.
    pub presets: Vec<ConversationPreset>,
    pub root_message_id: MessageId,
    /// Number of messages after the first, excluding notices.
    pub reply_count: i64,
    pub participants: Vec<Participant>,
    pub last_activity_at: Timestamp,
    /// Sequence number of the newest message; threads are listed in this order.
    pub last_seq: i64,
    /// Chat and message that a variant runs again; null for other threads.
    pub variant_of: Option<VariantOf>,
    pub created_by: UserId,
    pub created_at: Timestamp,
}

#[derive(sqlx::FromRow)]
pub(in crate::chat) struct Row {
    pub(in crate::chat) id: ThreadId,
    pub(in crate::chat) workspace_id: WorkspaceId,
    pub(in crate::chat) channel_id: ChannelId,
    pub(in crate::chat) title: Option<String>,
    pub(in crate::chat) status: ThreadStatus,
    pub(in crate::chat) agent_id: Option<AgentId>,
    pub(in crate::chat) agent_version: Option<i64>,
    pub(in crate::chat) auto_reply: Option<bool>,
    pub(in crate::chat) memory: ThreadMemory,
    pub(in crate::chat) root_message_id: MessageId,
    pub(in crate::chat) reply_count: i64,
    pub(in crate::chat) participants: Json<Vec<Participant>>,
    pub(in crate::chat) last_activity_at: Timestamp,
    pub(in crate::chat) last_seq: i64,
    pub(in crate::chat) first_thread_id: Option<ThreadId>,
    pub(in crate::chat) variant_message_id: Option<MessageId>,
    pub(in crate::chat) created_by: UserId,
    pub(in crate::chat) created_at: Timestamp,
}

impl Row {
    /// The thread without its presets.
    fn thread(self) -> Thread {
        Thread {
            id: self.id,
            workspace_id: self.workspace_id,
            channel_id: self.channel_id,
            title: self.title,
            status: self.status,
            agent_id: self.agent_id,
            agent_version: self.agent_version,
            auto_reply: self.auto_reply.unwrap_or(false),
            memory: self.memory,
            presets: Vec::new(),
            root_message_id: self.root_message_id,
            reply_count: self.reply_count,
            participants: self.participants.0,
            last_activity_at: self.last_activity_at,
            last_seq: self.last_seq,
            variant_of: VariantOf::new(self.first_thread_id, self.variant_message_id),
            created_by: self.created_by,
            created_at: self.created_at,
        }
    }
}

text_enum! {
    /// Origin of a binding.
    pub enum BoundBy {
        Person = "person",
        /// The mode of the channel's agent; replies without a mention are limited per day.
        Channel = "channel",
    }
}

/// SQL condition for valid bindings. A binding by a channel is valid while its agent still binds new threads of the channel; all
/// others are always valid.
macro_rules! binding_holds {
    ($alias:literal) => {
        concat!(
            "(",
            $alias,
            ".bound_by <> 'channel' or exists (select 1 from threads bt join channel_agents ca on ca.channel_id = bt.channel_id \
             where bt.id = ",
            $alias,
            ".thread_id and ca.agent_id = ",
            $alias,
            ".agent_id and ca.mode = 'all'))"
        )
    };
}

pub(in crate::chat) use binding_holds;

macro_rules! thread_sql {
    ($tail:literal) => {
        concat!(
            "select t.id, t.workspace_id, t.channel_id, t.title, t.status, b.agent_id, b.agent_version, b.auto_reply, t.memory, \
             t.root_message_id, t.reply_count, t.participants, t.last_activity_at, t.last_seq, t.first_thread_id, t.variant_message_id, \
             t.created_by, t.created_at \
             from threads t left join bindings b on b.conversation_id = t.id and b.is_bound and ",
            $crate::chat::rows::thread::binding_holds!("b"),
            " ",
            $tail
        )
    };
}

pub(in crate::chat) use thread_sql;

/// # Errors
/// `ThreadNotFound`.
pub(in crate::chat) async fn get_thread(c: &mut Conn, id: ThreadId) -> Result<Thread, ChatError> {
    let row: Option<Row> = c.q(thread_sql!("where t.id = $1")).bind(id).opt().await?;
    let thread = threads_of(c, row.into_iter().collect()).await?.pop();
    thread.ok_or(ChatError::ThreadNotFound)
}

/// Adds the presets to stored threads.
pub(in crate::chat) async fn threads_of(
    c: &mut Conn,
    rows: Vec<Row>,
) -> Result<Vec<Thread>, DbError> {
    let mut presets = list_presets(c, rows.iter().map(|row| row.id.0).collect()).await?;
    let threads = rows.into_iter().map(|row| {
        let presets = presets.remove(&row.id.0).unwrap_or_default();
        Thread {
            presets,
            ..row.thread()
        }
    });
    Ok(threads.collect())
}

/// Like `count_message`, for an imported message, which belongs wherever its time is.
pub(in crate::chat) async fn count_imported(
    c: &mut Conn,
    message: &Message,
) -> Result<(), DbError> {
    let participants: Json<Vec<Participant>> = c
        .q("update threads set reply_count = reply_count + 1, last_seq = case when last_seq < $2 then $2 else last_seq end, \
            last_activity_at = case when last_activity_at < $3 then $3 else last_activity_at end where id = $1 returning participants")
        .bind(message.thread_id)
        .bind(message.seq)
        .bind(message.created_at)
        .value()
        .await?;
    add_participant(c, message, participants.0).await
}

/// Updates a thread's counters for a message that was just inserted into its main line. Notices are
/// not counted.
pub(in crate::chat) async fn count_message(c: &mut Conn, message: &Message) -> Result<(), DbError> {
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
    add_participant(c, message, participants.0).await
}

async fn add_participant(
    c: &mut Conn,
    message: &Message,
    mut participants: Vec<Participant>,
) -> Result<(), DbError> {
    let kind = match message.author.kind {
        AuthorKind::Human => Some(ParticipantKind::Human),
        AuthorKind::Agent => Some(ParticipantKind::Agent),
        AuthorKind::Bot => Some(ParticipantKind::Bot),
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
