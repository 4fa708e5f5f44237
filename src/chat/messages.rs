//! Messages as clients see them: reading, editing, and reacting. Posting is in `post`, deletion in
//! `remove`.

use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    ChatError, access,
    event::MessageData,
    event::ReactionData,
    mentions::RawMention,
    plain,
    search::index::{self, SearchDocument, ThreadRoot},
};
use crate::{
    agents::derived::{self, Change, SourceId},
    auth::{Caller, quota},
    db::{Conn, DbError, Json, now},
    files::{Attachment, File},
    ids::{ChannelId, FileId, ForkId, MessageId, ThreadId, UserId, WorkspaceId},
    realtime::{Audience, NewEvent, hub::Conversation, log},
    text_enum::text_enum,
};

use super::error::MESSAGE_BYTES_MAX;

/// Maximum number of different emoji on one message.
const EMOJI_MAX: usize = 40;
const EMOJI_BYTES_MAX: usize = 64;

text_enum! {
    pub enum AuthorKind {
        Human = "human",
        Agent = "agent",
        System = "system",
    }
}

text_enum! {
    pub enum MentionKind {
        Agent = "agent",
        User = "user",
        /// `everyone`, `here`, or `channel`.
        Group = "group",
    }
}

text_enum! {
    pub enum MessageKind {
        Text = "text",
        /// System message.
        Notice = "notice",
        /// Publishes the resolution of a fork.
        Resolution = "resolution",
    }
}

text_enum! {
    pub enum MessageState {
        Complete = "complete",
        Streaming = "streaming",
        /// Ended early, with partial text.
        Interrupted = "interrupted",
    }
}

#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct MessageAuthor {
    #[serde(rename = "type")]
    pub kind: AuthorKind,
    /// `user_…` or `agent_…`; null for the system.
    pub id: Option<String>,
    pub name: String,
    pub avatar_url: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Mention {
    #[serde(rename = "type")]
    pub kind: MentionKind,
    /// Null for a group: `everyone`, `here`, or `channel`.
    pub id: Option<String>,
    pub handle: String,
    /// Offset of the `@` in UTF-16 code units.
    pub start: usize,
    pub length: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Reaction {
    pub emoji: String,
    pub user_ids: Vec<UserId>,
}

/// Machine-readable data about a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageMetadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<crate::ids::AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<crate::ids::TaskId>,
    /// The reply was cut off at the model's output limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// API key that posted the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_id: Option<crate::ids::ApiKeyId>,
    /// The resolution that this message publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_id: Option<crate::ids::ResolutionId>,
    /// The fork of the resolution that this message publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_id: Option<ForkId>,
    /// Users notified of a resolution message as if mentioned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify_user_ids: Vec<UserId>,
}

#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Message {
    pub id: MessageId,
    pub workspace_id: WorkspaceId,
    pub channel_id: ChannelId,
    pub thread_id: ThreadId,
    pub fork_id: Option<ForkId>,
    /// For an agent's reply, the trigger message; for a resolution message, the forked message.
    pub parent_id: Option<MessageId>,
    /// Sequence number of its `message.created` event; conversations are sorted by it.
    pub seq: i64,
    pub author: MessageAuthor,
    /// `resolution` is the message that publishes the resolution of a fork.
    pub kind: MessageKind,
    pub state: MessageState,
    /// Markdown.
    pub content: String,
    pub content_plain: String,
    pub mentions: Vec<Mention>,
    pub reactions: Vec<Reaction>,
    /// Files in the order of the request.
    pub attachments: Vec<File>,
    pub metadata: MessageMetadata,
    pub client_id: Option<String>,
    pub created_at: Timestamp,
    pub edited_at: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
}

#[derive(sqlx::FromRow)]
pub(super) struct Row {
    pub(super) id: MessageId,
    pub(super) workspace_id: WorkspaceId,
    pub(super) channel_id: ChannelId,
    pub(super) thread_id: ThreadId,
    pub(super) fork_id: Option<ForkId>,
    pub(super) parent_id: Option<MessageId>,
    pub(super) seq: i64,
    pub(super) author_type: AuthorKind,
    pub(super) author_id: Option<uuid::Uuid>,
    pub(super) author_name: Option<String>,
    pub(super) avatar_url: Option<String>,
    pub(super) kind: MessageKind,
    pub(super) state: MessageState,
    pub(super) content: String,
    pub(super) content_plain: String,
    pub(super) mentions: Json<Vec<Mention>>,
    pub(super) reactions: Json<Vec<Reaction>>,
    pub(super) attachments: Json<Vec<Attachment>>,
    pub(super) metadata: Json<MessageMetadata>,
    pub(super) client_id: Option<String>,
    pub(super) created_at: Timestamp,
    pub(super) edited_at: Option<Timestamp>,
    pub(super) deleted_at: Option<Timestamp>,
}

impl From<Row> for Message {
    fn from(row: Row) -> Self {
        let id = row.author_id.map(|id| match row.author_type {
            AuthorKind::Agent => crate::ids::AgentId(id).to_string(),
            _ => UserId(id).to_string(),
        });
        let nobody = match row.author_type {
            AuthorKind::System => "OpenVibe",
            AuthorKind::Agent => "Deleted agent",
            AuthorKind::Human => "Deleted account",
        };
        Self {
            id: row.id,
            workspace_id: row.workspace_id,
            channel_id: row.channel_id,
            thread_id: row.thread_id,
            fork_id: row.fork_id,
            parent_id: row.parent_id,
            seq: row.seq,
            author: MessageAuthor {
                kind: row.author_type,
                id,
                name: row.author_name.unwrap_or_else(|| nobody.to_owned()),
                avatar_url: row.avatar_url,
            },
            kind: row.kind,
            state: row.state,
            content: row.content,
            content_plain: row.content_plain,
            mentions: row.mentions.0,
            reactions: row.reactions.0,
            attachments: row
                .attachments
                .0
                .into_iter()
                .map(|file| file.into_file(row.workspace_id, Some(row.id)))
                .collect(),
            metadata: row.metadata.0,
            client_id: row.client_id,
            created_at: row.created_at,
            edited_at: row.edited_at,
            deleted_at: row.deleted_at,
        }
    }
}

/// Selects messages as `m` with their authors; the given text is appended to the statement.
macro_rules! message_sql {
    ($tail:literal) => {
        concat!(
            "select m.id, m.workspace_id, m.channel_id, m.thread_id, m.fork_id, m.parent_id, m.seq, m.author_type, m.author_id, \
             coalesce(u.name, a.summary ->> 'display_name', a.name, \
             (select n.name from agent_names n where n.agent_id = m.author_id)) as author_name, \
             coalesce(u.avatar_url, '/v1/files/' || (a.summary -> 'avatar' ->> 'file_id')) as avatar_url, m.kind, m.state, m.content, \
             m.content_plain, m.mentions, m.reactions, m.attachments, m.metadata, m.client_id, m.created_at, m.edited_at, m.deleted_at \
             from messages m left join users u on m.author_type = 'human' and u.id = m.author_id \
             left join agents a on m.author_type = 'agent' and a.id = m.author_id ",
            $tail
        )
    };
}
pub(super) use message_sql;

/// A validated text with the data derived from it; built outside of transactions.
#[derive(Debug, Clone)]
pub struct Text {
    pub content: String,
    pub plain: String,
    pub search_document: SearchDocument,
    pub mentions: Vec<RawMention>,
    /// Attached files.
    pub files: Vec<FileId>,
}

impl Text {
    /// # Errors
    /// `Invalid` if it is blank, `MessageTooLong`.
    pub fn parse(content: String) -> Result<Self, ChatError> {
        Self::with_files(content, Vec::new())
    }

    /// A text with attached files; it can be blank if there are any.
    ///
    /// # Errors
    /// As for `parse`.
    pub fn with_files(content: String, files: Vec<FileId>) -> Result<Self, ChatError> {
        let text = Self::maybe_blank(content, files)?;
        if text.files.is_empty() {
            text.require_words()?;
        }
        Ok(text)
    }

    /// The new text of an edited message; it can be blank if the message has files.
    ///
    /// # Errors
    /// `MessageTooLong`.
    pub fn edited(content: String) -> Result<Self, ChatError> {
        Self::maybe_blank(content, Vec::new())
    }

    fn require_words(&self) -> Result<(), ChatError> {
        if self.content.trim().is_empty() {
            return Err(ChatError::Invalid(
                "the message is blank: write something".to_owned(),
                "content",
            ));
        }
        Ok(())
    }

    fn maybe_blank(content: String, files: Vec<FileId>) -> Result<Self, ChatError> {
        if content.len() > MESSAGE_BYTES_MAX {
            return Err(ChatError::MessageTooLong(content.len()));
        }
        if content.contains('\0') {
            return Err(ChatError::Invalid(
                "the message contains a NUL character: remove it".to_owned(),
                "content",
            ));
        }
        let plain = plain::to_plain(&content);
        let search_document = SearchDocument::of(&content, &plain);
        let mentions = super::mentions::parse(&content);
        Ok(Self {
            content,
            plain,
            search_document,
            mentions,
            files,
        })
    }
}

pub async fn find_message(c: &mut Conn, id: MessageId) -> Result<Option<Message>, DbError> {
    let row: Option<Row> = c.q(message_sql!("where m.id = $1")).bind(id).opt().await?;
    Ok(row.map(Message::from))
}

/// # Errors
/// `MessageNotFound`.
pub async fn get_message(c: &mut Conn, id: MessageId) -> Result<Message, ChatError> {
    find_message(c, id).await?.ok_or(ChatError::MessageNotFound)
}

/// Part of a conversation to read.
#[derive(Debug, Clone, Copy)]
pub enum Window {
    Newest,
    Before(i64),
    After(i64),
    /// Half before and half after, including the message itself.
    Around(i64),
}

/// Messages of a conversation, oldest first. `Newest`, `Before`, and `After` return one more than
/// `limit` if there are more in that direction.
pub async fn list(
    c: &mut Conn,
    conversation: Conversation,
    window: Window,
    limit: i64,
) -> Result<Vec<Message>, DbError> {
    let mut rows: Vec<Row> = match window {
        Window::Newest => before(c, conversation, i64::MAX, limit + 1).await?,
        Window::Before(seq) => before(c, conversation, seq, limit + 1).await?,
        Window::After(seq) => {
            return Ok(after(c, conversation, seq, limit + 1)
                .await?
                .into_iter()
                .map(Message::from)
                .collect());
        }
        Window::Around(seq) => {
            let mut newer = after(c, conversation, seq - 1, limit / 2 + 1).await?;
            newer.reverse();
            let room = limit - i64::try_from(newer.len()).unwrap_or(limit);
            newer.extend(before(c, conversation, seq, room).await?);
            newer
        }
    };
    rows.reverse();
    Ok(rows.into_iter().map(Message::from).collect())
}

async fn before(
    c: &mut Conn,
    conversation: Conversation,
    seq: i64,
    limit: i64,
) -> Result<Vec<Row>, DbError> {
    let q = match conversation {
        Conversation::Thread(_) => c.q(message_sql!(
            "where m.thread_id = $1 and m.fork_id is null and m.seq < $2 order by m.seq desc limit $3"
        )),
        Conversation::Fork(_) => c.q(message_sql!(
            "where m.fork_id = $1 and m.seq < $2 order by m.seq desc limit $3"
        )),
    };
    q.bind(conversation.id()).bind(seq).bind(limit).all().await
}

async fn after(
    c: &mut Conn,
    conversation: Conversation,
    seq: i64,
    limit: i64,
) -> Result<Vec<Row>, DbError> {
    let q = match conversation {
        Conversation::Thread(_) => c.q(message_sql!(
            "where m.thread_id = $1 and m.fork_id is null and m.seq > $2 order by m.seq limit $3"
        )),
        Conversation::Fork(_) => c.q(message_sql!(
            "where m.fork_id = $1 and m.seq > $2 order by m.seq limit $3"
        )),
    };
    q.bind(conversation.id()).bind(seq).bind(limit).all().await
}

/// Sequence number of a message if it belongs to this conversation.
pub async fn conversation_seq(
    c: &mut Conn,
    conversation: Conversation,
    id: MessageId,
) -> Result<Option<i64>, DbError> {
    let q = match conversation {
        Conversation::Thread(_) => {
            c.q("select seq from messages where id = $1 and thread_id = $2 and fork_id is null")
        }
        Conversation::Fork(_) => c.q("select seq from messages where id = $1 and fork_id = $2"),
    };
    let row: Option<(i64,)> = q.bind(id).bind(conversation.id()).opt().await?;
    Ok(row.map(|row| row.0))
}

/// Appends `message.updated` with the current message.
pub(super) async fn announce_update(
    c: &mut Conn,
    message: &Message,
    audience: Audience,
) -> Result<(), DbError> {
    let seq = log::reserve(c, message.workspace_id, 1).await?;
    let event = NewEvent::new(seq, "message.updated", audience, &MessageData { message })?
        .in_conversation(message.thread_id, message.fork_id)
        .about(Some(message.id));
    log::append(c, message.workspace_id, event).await
}

/// Edits the caller's own message. An edit never triggers an agent.
///
/// # Errors
/// `MessageNotFound`, `NotYours`, `NotEditable`, `MessageDeleted`, or any error of `writing`.
pub async fn edit(
    c: &mut Conn,
    caller: &Caller,
    id: MessageId,
    text: &Text,
) -> Result<Message, ChatError> {
    let access = access::message(c, caller, id).await?.writing()?;
    crate::db::dialect::lock_workspace(c, access.channel_access.actor.workspace.0).await?;
    let message = get_message(c, id).await?;
    if message.deleted_at.is_some() {
        return Err(ChatError::MessageDeleted);
    }
    if message.author.kind != AuthorKind::Human
        || message.author.id.as_deref() != Some(caller.user.to_string().as_str())
    {
        return Err(ChatError::NotYours);
    }
    if message.kind != MessageKind::Text || message.state == MessageState::Streaming {
        return Err(ChatError::NotEditable);
    }
    if message.attachments.is_empty() {
        text.require_words()?;
    }
    let found = super::post::resolve_mentions(c, &access.channel_access.actor, text).await?;
    c.q("update messages set content = $2, content_plain = $3, mentions = $4, edited_at = $5 where id = $1")
        .bind(id)
        .bind(text.content.clone())
        .bind(text.plain.clone())
        .bind(Json(found.mentions.clone()))
        .bind(now())
        .run()
        .await?;
    quota::recount_edit(c, message.workspace_id, id, &text.content, &text.plain).await?;
    c.q("delete from message_mentions where message_id = $1")
        .bind(id)
        .run()
        .await?;
    if message.fork_id.is_none() {
        super::post::insert_mention_targets(c, &message, &found).await?;
    }
    let message = get_message(c, id).await?;
    index::reindex(c, &message, &text.search_document).await?;
    announce_update(c, &message, access.channel_access.audience()).await?;
    super::forks::on_source_changed(c, &message, access.channel_access.audience()).await?;
    Ok(message)
}

/// # Errors
/// `Invalid` if it is not an emoji or a short name.
pub fn parse_emoji(text: &str) -> Result<String, ChatError> {
    let fits = !text.is_empty()
        && text.len() <= EMOJI_BYTES_MAX
        && !text.chars().any(|c| {
            c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '&' | '"' | '\'')
        });
    if fits {
        Ok(text.to_owned())
    } else {
        Err(ChatError::Invalid(
            "a reaction must be one emoji or a short name without white space".to_owned(),
            "emoji",
        ))
    }
}

/// Whether to add or remove a reaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum React {
    Add,
    Remove,
}

/// Adds or removes the caller's reaction; idempotent.
///
/// # Errors
/// `MessageNotFound`, `MessageDeleted`, `Invalid` for too many emoji, or any error of `writing`.
pub async fn react(
    c: &mut Conn,
    caller: &Caller,
    id: MessageId,
    emoji: &str,
    what: React,
) -> Result<Message, ChatError> {
    let access = access::message(c, caller, id).await?.writing()?;
    crate::db::dialect::lock_workspace(c, access.channel_access.actor.workspace.0).await?;
    let mut message = get_message(c, id).await?;
    if message.deleted_at.is_some() {
        return Err(ChatError::MessageDeleted);
    }
    let had_reactions = !message.reactions.is_empty();
    let index = message.reactions.iter().position(|r| r.emoji == emoji);
    let there = index.is_some_and(|i| message.reactions[i].user_ids.contains(&caller.user));
    if there == (what == React::Add) {
        return Ok(message);
    }
    match (index, what) {
        (Some(i), React::Add) => message.reactions[i].user_ids.push(caller.user),
        (None, React::Add) if message.reactions.len() >= EMOJI_MAX => {
            return Err(ChatError::Invalid(
                format!("a message can have at most {EMOJI_MAX} different reactions"),
                "emoji",
            ));
        }
        (None, React::Add) => {
            message.reactions.push(Reaction {
                emoji: emoji.to_owned(),
                user_ids: vec![caller.user],
            });
        }
        (Some(i), React::Remove) => {
            message.reactions[i]
                .user_ids
                .retain(|user| *user != caller.user);
            if message.reactions[i].user_ids.is_empty() {
                message.reactions.remove(i);
            }
        }
        (None, React::Remove) => {}
    }
    c.q("update messages set reactions = $2 where id = $1")
        .bind(id)
        .bind(Json(message.reactions.clone()))
        .run()
        .await?;
    if had_reactions == message.reactions.is_empty() {
        let text = SearchDocument::of(&message.content, &message.content_plain);
        index::reindex(c, &message, &text).await?;
    }
    let kind = if what == React::Add {
        "reaction.added"
    } else {
        "reaction.removed"
    };
    let seq = log::reserve(c, message.workspace_id, 1).await?;
    let data = ReactionData {
        message_id: id,
        emoji,
        user_id: caller.user,
        reactions: &message.reactions,
    };
    let event = NewEvent::new(seq, kind, access.channel_access.audience(), &data)?
        .in_conversation(message.thread_id, message.fork_id);
    log::append(c, message.workspace_id, event).await?;
    Ok(message)
}

/// The text of a finished reply with the data derived from it; built outside of transactions.
#[derive(Debug, Clone)]
pub struct ReplyText {
    pub(super) content: String,
    pub(super) plain: String,
    pub(super) search_document: SearchDocument,
}

impl ReplyText {
    pub fn of(content: String) -> Self {
        let plain = plain::to_plain(&content);
        let search_document = SearchDocument::of(&content, &plain);
        Self {
            content,
            plain,
            search_document,
        }
    }
}

/// Completes a streaming reply with its full text. Appends `message.updated`.
pub async fn finish_reply(
    c: &mut Conn,
    id: MessageId,
    text: &ReplyText,
    metadata: &MessageMetadata,
    audience: Audience,
) -> Result<(), DbError> {
    c.q("update messages set content = $2, content_plain = $3, metadata = $4, state = 'complete' where id = $1 and deleted_at is null")
        .bind(id)
        .bind(text.content.clone())
        .bind(text.plain.clone())
        .bind(Json(metadata.clone()))
        .run()
        .await?;
    if let Some(message) = find_message(c, id).await? {
        quota::recount_message(
            c,
            message.workspace_id,
            id,
            &message.content,
            &message.content_plain,
        )
        .await?;
        index::add(c, &message, &text.search_document, ThreadRoot::Nothing).await?;
        announce_update(c, &message, audience).await?;
    }
    Ok(())
}

/// Stores the partial text of a streaming reply without an event.
pub async fn checkpoint_reply(c: &mut Conn, id: MessageId, content: &str) -> Result<(), DbError> {
    c.q("update messages set content = $2 where id = $1 and state = 'streaming' and deleted_at is null")
        .bind(id)
        .bind(content.to_owned())
        .run()
        .await?;
    Ok(())
}

/// Removes all of a person's reactions to a message. Appends `reaction.removed` for each.
pub async fn erase_reactions(
    c: &mut Conn,
    message: &Message,
    user: UserId,
    audience: Audience,
) -> Result<(), DbError> {
    let mut reactions = message.reactions.clone();
    let gone: Vec<String> = reactions
        .iter()
        .filter(|reaction| reaction.user_ids.contains(&user))
        .map(|reaction| reaction.emoji.clone())
        .collect();
    for emoji in &gone {
        for reaction in reactions.iter_mut().filter(|r| r.emoji == *emoji) {
            reaction.user_ids.retain(|by| *by != user);
        }
        reactions.retain(|reaction| !reaction.user_ids.is_empty());
        c.q("update messages set reactions = $2 where id = $1")
            .bind(message.id)
            .bind(Json(reactions.clone()))
            .run()
            .await?;
        let seq = log::reserve(c, message.workspace_id, 1).await?;
        let data = ReactionData {
            message_id: message.id,
            emoji,
            user_id: user,
            reactions: &reactions,
        };
        let event = NewEvent::new(seq, "reaction.removed", audience, &data)?
            .in_conversation(message.thread_id, message.fork_id);
        log::append(c, message.workspace_id, event).await?;
    }
    Ok(())
}

/// Replaces the text and the agent of a notice. Appends `message.updated`.
pub async fn rewrite_notice(
    c: &mut Conn,
    notice: &Message,
    agent: crate::ids::AgentId,
    content: String,
    audience: Audience,
) -> Result<(), DbError> {
    let mut notice = notice.clone();
    notice.metadata.agent_id = Some(agent);
    c.q("update messages set metadata = $2 where id = $1")
        .bind(notice.id)
        .bind(Json(notice.metadata.clone()))
        .run()
        .await?;
    rewrite(c, &notice, content, audience).await
}

/// Replaces the text of a message, also in the event log and context records, so that the old text cannot be read.
/// Appends `message.updated`.
pub async fn rewrite(
    c: &mut Conn,
    message: &Message,
    content: String,
    audience: Audience,
) -> Result<(), DbError> {
    let content_plain = plain::to_plain(&content);
    c.q("update messages set content = $2, content_plain = $3 where id = $1")
        .bind(message.id)
        .bind(content.clone())
        .bind(content_plain.clone())
        .run()
        .await?;
    quota::recount_message(
        c,
        message.workspace_id,
        message.id,
        &content,
        &content_plain,
    )
    .await?;
    log::blank_message(c, message.workspace_id, message.id, |frame| {
        let Some(shown) = frame.pointer_mut("/data/message") else {
            return;
        };
        shown["content"] = content.as_str().into();
        shown["content_plain"] = content_plain.as_str().into();
    })
    .await?;
    super::search::index::reindex_stored(c, message.id).await?;
    derived::changed(c, SourceId::Message(message.id), Change::Rewritten).await?;
    let message = Message {
        content,
        content_plain,
        ..message.clone()
    };
    announce_update(c, &message, audience).await
}
