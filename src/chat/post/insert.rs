//! Inserts messages and notices and appends their events.

use uuid::Uuid;

use crate::{
    auth::quota,
    chat::{
        ChatError,
        event::MessageEvent,
        forks,
        rows::{
            self,
            message::{
                AuthorKind, Mention, MentionKind, Message, MessageKind, MessageMetadata,
                MessageState, Reaction,
            },
        },
    },
    db::{Conn, DbError, Json, now},
    files::Attachment,
    ids::{AgentId, ChannelId, ForkId, MessageId, TaskId, ThreadId, UserId, WorkspaceId},
    realtime::{Audience, EventType, NewEvent, log},
    tasks::{Lease, Task, TaskTarget},
};

/// A message to insert, with its sequence number from the event log.
#[derive(Debug, Clone)]
pub struct NewMessage {
    pub id: MessageId,
    pub workspace: WorkspaceId,
    pub channel: ChannelId,
    pub thread: ThreadId,
    pub fork: Option<ForkId>,
    pub parent: Option<MessageId>,
    pub author_type: AuthorKind,
    pub author: Option<Uuid>,
    pub kind: MessageKind,
    pub state: MessageState,
    pub content: String,
    pub plain: String,
    pub mentions: Vec<Mention>,
    pub attachments: Vec<Attachment>,
    pub metadata: MessageMetadata,
    pub client_id: Option<String>,
}

impl NewMessage {
    fn bytes(&self) -> i64 {
        quota::message_bytes(&self.content, &self.plain)
    }
}

/// Inserts a message, appends `message.created` under `seq`, and updates the counters of its thread
/// or fork. The storage quota does not apply.
pub async fn insert_message(
    c: &mut Conn,
    seq: i64,
    new: &NewMessage,
    audience: Audience,
) -> Result<Message, DbError> {
    quota::count_message(c, new.workspace, new.bytes()).await?;
    insert_counted(c, seq, new, audience).await
}

/// Like `insert_message`, for a person's message, to which the storage quota applies.
///
/// # Errors
/// `QuotaExceeded`.
pub(super) async fn insert_post(
    c: &mut Conn,
    seq: i64,
    new: &NewMessage,
    audience: Audience,
) -> Result<Message, ChatError> {
    quota::count_message_within_limit(c, new.workspace, new.bytes()).await?;
    Ok(insert_counted(c, seq, new, audience).await?)
}

async fn insert_counted(
    c: &mut Conn,
    seq: i64,
    new: &NewMessage,
    audience: Audience,
) -> Result<Message, DbError> {
    let at = now();
    let (author_name, avatar_url): (Option<String>, Option<String>) = c.q("insert into messages (id, workspace_id, channel_id, thread_id, conversation_id, parent_id, seq, author_type, author_id, kind, state, \
         content, content_plain, mentions, reactions, metadata, client_id, created_at, attachments, counted_bytes) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20) \
         returning case messages.author_type when 'agent' then (select coalesce(a.summary ->> 'display_name', a.name) from agents a where a.id = messages.author_id) \
           when 'system' then null else (select u.name from users u where u.id = messages.author_id) end, \
           case messages.author_type when 'agent' then (select '/v1/files/' || (a.summary -> 'avatar' ->> 'file_id') from agents a where a.id = messages.author_id) \
           when 'system' then null else (select u.avatar_url from users u where u.id = messages.author_id) end")
        .bind(new.id)
        .bind(new.workspace)
        .bind(new.channel)
        .bind(new.thread)
        .bind(new.fork.map_or(new.thread.0, |fork| fork.0))
        .bind(new.parent)
        .bind(seq)
        .bind(new.author_type)
        .bind(new.author)
        .bind(new.kind)
        .bind(new.state)
        .bind(new.content.clone())
        .bind(new.plain.clone())
        .bind(Json(new.mentions.clone()))
        .bind(Json(Vec::<Reaction>::new()))
        .bind(Json(new.metadata.clone()))
        .bind(new.client_id.clone())
        .bind(at)
        .bind(Json(new.attachments.clone()))
        .bind(new.bytes())
        .one()
        .await?;
    // Built from the inserted values, which saves a query.
    let message = Message::from(rows::message::Row {
        id: new.id,
        workspace_id: new.workspace,
        channel_id: new.channel,
        thread_id: new.thread,
        fork_id: new.fork,
        parent_id: new.parent,
        seq,
        author_type: new.author_type,
        author_id: new.author,
        author_name,
        avatar_url,
        kind: new.kind,
        state: new.state,
        content: new.content.clone(),
        content_plain: new.plain.clone(),
        mentions: Json(new.mentions.clone()),
        reactions: Json(Vec::new()),
        attachments: Json(new.attachments.clone()),
        metadata: Json(new.metadata.clone()),
        client_id: new.client_id.clone(),
        created_at: at,
        edited_at: None,
        deleted_at: None,
    });
    count_and_announce(c, new, &message, audience).await?;
    Ok(message)
}

/// Adds a new message to the counters of its conversation, and appends its event.
async fn count_and_announce(
    c: &mut Conn,
    new: &NewMessage,
    message: &Message,
    audience: Audience,
) -> Result<(), DbError> {
    match new.fork {
        None => rows::thread::count_message(c, message).await?,
        Some(fork) => forks::count_message(c, fork, message).await?,
    }
    let event = NewEvent::new(
        message.seq,
        EventType::MessageCreated,
        audience,
        &MessageEvent { message },
    )?
    .in_conversation(message.thread_id, message.fork_id)
    .about(Some(message.id))
    .mentioning(notified(new));
    log::append(c, new.workspace, event).await
}

/// People who are notified of the message as a mention. Only messages outside forks notify people: those whom a message of a person or a
/// bot mentions, and those in `notify_user_ids`.
fn notified(new: &NewMessage) -> Vec<UserId> {
    if new.fork.is_some() {
        return Vec::new();
    }
    let mentions = new.mentions.iter().filter(|mention| {
        matches!(new.author_type, AuthorKind::Human | AuthorKind::Bot)
            && mention.kind == MentionKind::User
    });
    mentions
        .filter_map(|mention| mention.id.as_ref()?.parse().ok())
        .chain(new.metadata.notify_user_ids.iter().copied())
        .collect()
}

/// Location and subject of a notice.
#[derive(Debug, Clone, Copy)]
pub struct NoticeTarget {
    pub workspace: WorkspaceId,
    pub channel: ChannelId,
    pub thread: ThreadId,
    pub fork: Option<ForkId>,
    pub agent: AgentId,
    pub task: Option<TaskId>,
}

impl NoticeTarget {
    fn new(workspace: WorkspaceId, task: TaskId, target: TaskTarget) -> Self {
        Self {
            workspace,
            channel: target.channel,
            thread: target.thread,
            fork: target.fork,
            agent: target.agent,
            task: Some(task),
        }
    }

    /// Location of notices about a task; `None` if the task has no conversation.
    pub(in crate::chat) fn of(task: &Task) -> Option<Self> {
        Some(Self::new(task.workspace_id, task.id, task.target()?))
    }
}

impl From<&Lease> for NoticeTarget {
    fn from(lease: &Lease) -> Self {
        Self::new(lease.workspace, lease.task, lease.target)
    }
}

/// Posts a system notice in a thread or fork.
pub async fn insert_notice(
    c: &mut Conn,
    target: NoticeTarget,
    audience: Audience,
    parent: Option<MessageId>,
    text: String,
) -> Result<Message, DbError> {
    let seq = log::reserve(c, target.workspace, 1).await?;
    let new = NewMessage {
        id: MessageId::new(),
        workspace: target.workspace,
        channel: target.channel,
        thread: target.thread,
        fork: target.fork,
        parent,
        author_type: AuthorKind::System,
        author: None,
        kind: MessageKind::Notice,
        state: MessageState::Complete,
        plain: text.clone(),
        content: text,
        mentions: Vec::new(),
        attachments: Vec::new(),
        metadata: MessageMetadata {
            agent_id: Some(target.agent),
            task_id: target.task,
            ..MessageMetadata::default()
        },
        client_id: None,
    };
    insert_message(c, seq, &new, audience).await
}
