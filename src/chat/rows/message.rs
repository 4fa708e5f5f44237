//! Messages as they are stored and shown.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::variant::find_base;
use crate::{
    auth::Caller,
    chat::{ChatError, emoji},
    db::{Conn, DbError, Json, dialect::hexadecimal_ids},
    files::{Attachment, File},
    ids::{
        AgentId, BotId, ChannelId, CodeSessionId, FileId, ForkId, ImportId, MessageId, ThreadId,
        UserId, VectorStoreId, WorkspaceId,
    },
    realtime::hub::Conversation,
    sql_with_ids,
    text_enum::text_enum,
    time::Timestamp,
    workflows::run::RunCause,
};

text_enum! {
    /// Format of an archive.
    pub enum ImportFormat {
        Slack = "slack",
        Mattermost = "mattermost",
        Zulip = "zulip",
        /// JSON of `DiscordChatExporter`.
        Discord = "discord",
        /// Chats of one person with `ChatGPT`, `Open WebUI`, or `LibreChat`. Every member can import their own, and is the only one who can
        /// see the import. It is never detected.
        Chats = "chats",
        /// An export of this program.
        OpenVibe = "openvibe",
    }
}

text_enum! {
    pub enum AuthorKind {
        Human = "human",
        Agent = "agent",
        /// A bot, such as a webhook.
        Bot = "bot",
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
        /// The reply ended early, with partial text.
        Interrupted = "interrupted",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct MessageAuthor {
    #[serde(rename = "type")]
    pub kind: AuthorKind,
    /// `user_…`, `agent_…`, or `bot_…`; null for the system.
    pub id: Option<String>,
    pub name: String,
    pub avatar_url: Option<String>,
}

impl MessageAuthor {
    /// Checks whether the caller is the author.
    pub fn is(&self, caller: &Caller) -> bool {
        let (kind, id) = match caller.bot() {
            Some(bot) => (AuthorKind::Bot, bot.to_string()),
            None => (AuthorKind::Human, caller.user.to_string()),
        };
        self.kind == kind && self.id.as_ref() == Some(&id)
    }

    /// Author with a stored ID and name. The system has no ID, and a deleted author has no name.
    pub(in crate::chat) fn new(
        kind: AuthorKind,
        id: Option<uuid::Uuid>,
        name: Option<String>,
        avatar_url: Option<String>,
    ) -> Self {
        let nobody = match kind {
            AuthorKind::System => "OpenVibe",
            AuthorKind::Agent => "Deleted agent",
            AuthorKind::Human => "Deleted account",
            AuthorKind::Bot => "Deleted bot",
        };
        let id = id.map(|id| match kind {
            AuthorKind::Agent => AgentId(id).to_string(),
            AuthorKind::Bot => BotId(id).to_string(),
            AuthorKind::Human | AuthorKind::System => UserId(id).to_string(),
        });
        Self {
            kind,
            id,
            name: name.unwrap_or_else(|| nobody.to_owned()),
            avatar_url,
        }
    }
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
    /// Agents that reacted; their reactions are announced by `message.updated`.
    #[serde(default)]
    #[schema(required)]
    pub agent_ids: Vec<AgentId>,
    /// Bots that reacted; omitted if there are none. Their reactions are announced by `message.updated`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bot_ids: Vec<BotId>,
}

impl Reaction {
    /// Checks whether nobody has this reaction anymore.
    pub(in crate::chat) fn is_empty(&self) -> bool {
        self.user_ids.is_empty() && self.agent_ids.is_empty() && self.bot_ids.is_empty()
    }
}

/// Joins stored reactions that are spellings of one emoji: the first one keeps its place, and each person counts once.
pub(in crate::chat) fn joined(stored: Vec<Reaction>) -> Vec<Reaction> {
    let mut joined: Vec<Reaction> = Vec::with_capacity(stored.len());
    for mut reaction in stored {
        reaction.emoji = emoji::one_spelling(&reaction.emoji);
        let Some(first) = joined
            .iter_mut()
            .find(|first| first.emoji == reaction.emoji)
        else {
            joined.push(reaction);
            continue;
        };
        reaction.user_ids.retain(|id| !first.user_ids.contains(id));
        first.user_ids.append(&mut reaction.user_ids);
        reaction
            .agent_ids
            .retain(|id| !first.agent_ids.contains(id));
        first.agent_ids.append(&mut reaction.agent_ids);
        reaction.bot_ids.retain(|id| !first.bot_ids.contains(id));
        first.bot_ids.append(&mut reaction.bot_ids);
    }
    joined
}

/// A message that a reply cites as `[n]`, a passage of one of its files, or a passage of a file in a vector store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageSource {
    pub n: usize,
    /// Absent for a file in a vector store, like the thread and the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub message_id: Option<MessageId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub thread_id: Option<ThreadId>,
    pub fork_id: Option<ForkId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub channel_id: Option<ChannelId>,
    /// The vector store with the cited file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub vector_store_id: Option<VectorStoreId>,
    /// The cited file; absent if the message itself is cited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub file_id: Option<FileId>,
    /// Number of the part of the file, such as the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub part: Option<i64>,
    /// Name of the part, such as `page 12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub label: Option<String>,
    /// Position of the passage in the text of the part, in UTF-16 code units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub from: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub to: Option<i64>,
}

impl MessageSource {
    /// A message without its number.
    pub fn of(
        message: MessageId,
        thread: ThreadId,
        fork: Option<ForkId>,
        channel: ChannelId,
    ) -> Self {
        Self {
            n: 0,
            message_id: Some(message),
            thread_id: Some(thread),
            fork_id: fork,
            channel_id: Some(channel),
            vector_store_id: None,
            file_id: None,
            part: None,
            label: None,
            from: None,
            to: None,
        }
    }

    /// A file in a vector store, without its number.
    pub fn in_store(store: VectorStoreId, file: FileId) -> Self {
        Self {
            n: 0,
            message_id: None,
            thread_id: None,
            fork_id: None,
            channel_id: None,
            vector_store_id: Some(store),
            file_id: Some(file),
            part: None,
            label: None,
            from: None,
            to: None,
        }
    }
}

/// Work on a repository to which a reply belongs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageCode {
    /// The session; absent if the agent replied without a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub session_id: Option<CodeSessionId>,
    /// Name of the repository that the requester must not use, so that the agent replied without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub without: Option<String>,
}

/// The diff to which the comments of a message refer. The text of the message quotes the lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageReview {
    pub session_id: CodeSessionId,
    pub tree: String,
    /// Number of comments.
    pub comments: i64,
}

/// Machine-readable data about a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageMetadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub agent_id: Option<crate::ids::AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub agent_version: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub task_id: Option<crate::ids::TaskId>,
    /// True if the reply was cut off at the model's output limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Tasks of the chain that the message started, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<crate::ids::TaskId>,
    /// The running reply that the message steers. If the reply ended before it read the message, the message has a task of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub steers: Option<crate::ids::TaskId>,
    /// Work on a repository to which a reply belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub code: Option<MessageCode>,
    /// Lines of a diff that the message comments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub review: Option<MessageReview>,
    /// The schedule that started the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub schedule_id: Option<crate::ids::ScheduleId>,
    /// API key that posted the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub api_key_id: Option<crate::ids::ApiKeyId>,
    /// The resolution that this message publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub resolution_id: Option<crate::ids::ResolutionId>,
    /// Number of actions of the reply's task; omitted if 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub steps: Option<i64>,
    /// Number of those actions that were denied, expired, were stopped, or failed; omitted if 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub steps_failed: Option<i64>,
    /// Messages that the reply cites, in the order of `n`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<MessageSource>,
    /// Number of removed citations: those of unknown, deleted, or hidden messages, and those that do not support the sentence that
    /// cites them; omitted if 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub sources_removed: Option<i64>,
    /// Workflow run that posted the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub run_id: Option<crate::ids::RunId>,
    /// Start of the workflow run that the message announces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub run_start: Option<RunStart>,
    /// The fork whose resolution this message publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub fork_id: Option<ForkId>,
    /// Color of the bar beside a bot's message: `#rrggbb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub color: Option<String>,
    /// Name and emoji under which a bot posted this message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub shown_as: Option<ShownAs>,
    /// Buttons below a bot's message: links, and those whose presses its program gets; at most 25.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buttons: Vec<MessageButton>,
    /// Previews of links that bots added to a person's message; at most 5.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfurls: Vec<Unfurl>,
    /// Person who pinned the message in its channel; for an imported pin, the importer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub pinned_by: Option<UserId>,
    /// Import that brought the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub import_id: Option<ImportId>,
    /// Format of the archive that the message is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub imported_from: Option<ImportFormat>,
    /// Later import of the same source that changed the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub updated_by_import_id: Option<ImportId>,
    /// Users who are notified of a resolution message as if it mentioned them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify_user_ids: Vec<UserId>,
    /// True for the messages of the example in a new workspace, whose authors are not members.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub example: bool,
}

text_enum! {
    /// Emphasis of a button.
    pub enum ButtonStyle {
        Primary = "primary",
        Danger = "danger",
    }
}

/// A button below a bot's message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageButton {
    /// Unique in the message; at most 255 bytes.
    pub id: String,
    /// At most 75 characters.
    pub text: String,
    /// Address that the button opens, http or https; a button without it is pressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub url: Option<String>,
    /// Sent to the program with each press; at most 2,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub style: Option<ButtonStyle>,
    /// Question before the press counts; at most 300 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub confirm: Option<String>,
}

/// Preview of a link, as a bot described it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Unfurl {
    /// The link in the message.
    pub url: String,
    pub bot_id: BotId,
    /// Name of the bot when it added the preview.
    pub bot_name: String,
    /// Markdown.
    pub content: String,
    /// Color of the bar beside the preview: `#rrggbb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub color: Option<String>,
}

impl Unfurl {
    /// Checks whether a text contains the link, and not only the beginning of a longer one.
    pub(in crate::chat) fn is_in(&self, text: &str) -> bool {
        let is_end = |rest: &str| {
            let mut next = rest.chars();
            match next.next() {
                None => true,
                Some('.' | '!' | '?' | ':') => next.next().is_none_or(char::is_whitespace),
                Some(c) => c.is_whitespace() || ")>]\"'<,;|`*".contains(c),
            }
        };
        let found = |(at, link): (usize, &str)| is_end(&text[at + link.len()..]);
        !self.url.is_empty() && text.match_indices(self.url.as_str()).any(found)
    }
}

/// Name and emoji under which a bot posted a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ShownAs {
    pub name: Option<String>,
    pub emoji: Option<String>,
}

/// Start of a workflow run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunStart {
    pub run_id: crate::ids::RunId,
    pub workflow_id: crate::ids::WorkflowId,
    pub cause: RunCause,
    /// The run acts with this person's rights.
    pub requested_by: UserId,
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
    /// Sequence number of the message's `message.created` event; messages of a conversation are sorted by this number. It is negative
    /// for imported messages, which have no event.
    pub seq: i64,
    pub author: MessageAuthor,
    /// Kind of the message; `resolution` for a message that publishes the resolution of a fork.
    pub kind: MessageKind,
    pub state: MessageState,
    /// Markdown.
    pub content: String,
    pub content_plain: String,
    pub mentions: Vec<Mention>,
    pub reactions: Vec<Reaction>,
    /// Attached files, in the order in which the request listed them.
    pub attachments: Vec<File>,
    pub metadata: MessageMetadata,
    pub client_id: Option<String>,
    pub created_at: Timestamp,
    pub edited_at: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
}

#[derive(sqlx::FromRow)]
pub(in crate::chat) struct Row {
    pub(in crate::chat) id: MessageId,
    pub(in crate::chat) workspace_id: WorkspaceId,
    pub(in crate::chat) channel_id: ChannelId,
    pub(in crate::chat) thread_id: ThreadId,
    pub(in crate::chat) fork_id: Option<ForkId>,
    pub(in crate::chat) parent_id: Option<MessageId>,
    pub(in crate::chat) seq: i64,
    pub(in crate::chat) author_type: AuthorKind,
    pub(in crate::chat) author_id: Option<uuid::Uuid>,
    pub(in crate::chat) author_name: Option<String>,
    pub(in crate::chat) avatar_url: Option<String>,
    pub(in crate::chat) kind: MessageKind,
    pub(in crate::chat) state: MessageState,
    pub(in crate::chat) content: String,
    pub(in crate::chat) content_plain: String,
    pub(in crate::chat) mentions: Json<Vec<Mention>>,
    pub(in crate::chat) reactions: Json<Vec<Reaction>>,
    pub(in crate::chat) attachments: Json<Vec<Attachment>>,
    pub(in crate::chat) metadata: Json<MessageMetadata>,
    pub(in crate::chat) client_id: Option<String>,
    pub(in crate::chat) created_at: Timestamp,
    pub(in crate::chat) edited_at: Option<Timestamp>,
    pub(in crate::chat) deleted_at: Option<Timestamp>,
}

impl From<Row> for Message {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            workspace_id: row.workspace_id,
            channel_id: row.channel_id,
            thread_id: row.thread_id,
            fork_id: row.fork_id,
            parent_id: row.parent_id,
            seq: row.seq,
            author: MessageAuthor::new(
                row.author_type,
                row.author_id,
                row.author_name,
                row.avatar_url,
            ),
            kind: row.kind,
            state: row.state,
            content: row.content,
            content_plain: row.content_plain,
            mentions: row.mentions.0,
            reactions: joined(row.reactions.0),
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

/// Selects messages as `m` with their authors; the argument continues the statement.
macro_rules! message_sql {
    ($tail:literal) => {
        concat!(
            "select m.id, m.workspace_id, m.channel_id, m.thread_id, \
             nullif(m.conversation_id, m.thread_id) as fork_id, m.parent_id, m.seq, m.author_type, m.author_id, \
             coalesce(u.name, a.summary ->> 'display_name', a.name, \
             (select n.name from agent_names n where n.agent_id = m.author_id)) as author_name, \
             coalesce(u.avatar_url, '/v1/files/' || (a.summary -> 'avatar' ->> 'file_id')) as avatar_url, m.kind, m.state, m.content, \
             m.content_plain, m.mentions, m.reactions, m.attachments, m.metadata, m.client_id, m.created_at, m.edited_at, m.deleted_at \
             from messages m left join users u on m.author_type in ('human', 'bot') and u.id = m.author_id \
             left join agents a on m.author_type = 'agent' and a.id = m.author_id ",
            $tail
        )
    };
}
pub(in crate::chat) use message_sql;

pub async fn find_message(c: &mut Conn, id: MessageId) -> Result<Option<Message>, DbError> {
    let row: Option<Row> = c.q(message_sql!("where m.id = $1")).bind(id).opt().await?;
    Ok(row.map(Message::from))
}

/// Messages with these IDs, in any order.
pub async fn list_by_ids(c: &mut Conn, ids: Vec<MessageId>) -> Result<Vec<Message>, DbError> {
    let sql = sql_with_ids!(c, message_sql!("where m.id in"), 1, "");
    let ids = hexadecimal_ids(ids.into_iter().map(|id| id.0));
    let rows: Vec<Row> = c.q(sql).bind(ids).all().await?;
    Ok(rows.into_iter().map(Message::from).collect())
}

/// # Errors
/// `MessageNotFound`.
pub async fn get_message(c: &mut Conn, id: MessageId) -> Result<Message, ChatError> {
    find_message(c, id).await?.ok_or(ChatError::MessageNotFound)
}

/// Replaces the metadata of a message.
///
/// # Errors
/// Only database errors.
pub async fn update_metadata(
    c: &mut Conn,
    id: MessageId,
    metadata: MessageMetadata,
) -> Result<(), DbError> {
    c.q("update messages set metadata = $2 where id = $1")
        .bind(id)
        .bind(Json(metadata))
        .run()
        .await?;
    Ok(())
}

/// Sets the files of a message.
pub async fn set_attachments(
    c: &mut Conn,
    id: MessageId,
    attachments: Vec<Attachment>,
) -> Result<(), DbError> {
    c.q("update messages set attachments = $2 where id = $1")
        .bind(id)
        .bind(Json(attachments))
        .run()
        .await?;
    Ok(())
}

/// First messages of threads, by their IDs.
#[derive(Debug, Clone, Copy)]
pub struct RootRange {
    /// Only later messages.
    pub after: MessageId,
    /// Only earlier messages.
    pub before: MessageId,
    pub limit: i64,
}

/// First messages of a channel's threads and their numbers of replies, newest first; without deleted ones that have no replies.
pub async fn list_roots(
    c: &mut Conn,
    channel: ChannelId,
    range: RootRange,
) -> Result<Vec<(Message, i64)>, DbError> {
    let rows: Vec<Row> = c
        .q(message_sql!(
            "join threads t on t.root_message_id = m.id where t.channel_id = $1 and t.root_message_id > $2 and t.root_message_id < $3 \
             and (m.deleted_at is null or t.reply_count > 0) order by t.root_message_id desc limit $4"
        ))
        .bind(channel)
        .bind(range.after)
        .bind(range.before)
        .bind(range.limit)
        .all()
        .await?;
    let messages: Vec<Message> = rows.into_iter().map(Message::from).collect();
    let (Some(newest), Some(oldest)) = (messages.first(), messages.last()) else {
        return Ok(Vec::new());
    };
    let counts: HashMap<MessageId, i64> = c
        .q("select root_message_id, reply_count from threads where channel_id = $1 and root_message_id >= $2 and root_message_id <= $3 \
            order by root_message_id desc limit 2000")
        .bind(channel)
        .bind(oldest.id)
        .bind(newest.id)
        .all::<(MessageId, i64)>()
        .await?
        .into_iter()
        .collect();
    let with_count = |message: Message| {
        let count = counts.get(&message.id).copied().unwrap_or(0);
        (message, count)
    };
    Ok(messages.into_iter().map(with_count).collect())
}

/// Part of a conversation to read.
#[derive(Debug, Clone, Copy)]
pub enum Window {
    Newest,
    Before(i64),
    After(i64),
    /// Half of the messages before the given sequence number and half after it, including the message itself.
    Around(i64),
}

/// Messages of a conversation, oldest first. `Newest`, `Before`, and `After` return up to `limit` + 1 messages, so that
/// the caller knows whether there are more in that direction.
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

/// Messages before a sequence number, newest first. Those of a variant's first chat follow its own.
async fn before(
    c: &mut Conn,
    conversation: Conversation,
    seq: i64,
    limit: i64,
) -> Result<Vec<Row>, DbError> {
    let mut rows = own_before(c, conversation, seq, limit).await?;
    let room = limit - i64::try_from(rows.len()).unwrap_or(limit);
    if room > 0
        && let Some(base) = find_base(c, conversation).await?
    {
        let first = base.conversation();
        rows.extend(own_before(c, first, seq.min(base.seq), room).await?);
    }
    Ok(rows)
}

async fn own_before(
    c: &mut Conn,
    conversation: Conversation,
    seq: i64,
    limit: i64,
) -> Result<Vec<Row>, DbError> {
    c.q(message_sql!(
        "where m.conversation_id = $1 and m.seq < $2 order by m.seq desc limit $3"
    ))
    .bind(conversation.id())
    .bind(seq)
    .bind(limit)
    .all()
    .await
}

/// Messages after a sequence number, oldest first. Those of a variant's first chat precede its own.
async fn after(
    c: &mut Conn,
    conversation: Conversation,
    seq: i64,
    limit: i64,
) -> Result<Vec<Row>, DbError> {
    let base = find_base(c, conversation).await?;
    let mut rows = match base.filter(|base| seq < base.seq) {
        Some(base) => between(c, base.conversation(), seq, base.seq, limit).await?,
        None => Vec::new(),
    };
    let room = limit - i64::try_from(rows.len()).unwrap_or(limit);
    if room > 0 {
        rows.extend(between(c, conversation, seq, i64::MAX, room).await?);
    }
    Ok(rows)
}

/// Messages of a conversation between two sequence numbers (exclusive), oldest first.
async fn between(
    c: &mut Conn,
    conversation: Conversation,
    above: i64,
    below: i64,
    limit: i64,
) -> Result<Vec<Row>, DbError> {
    c.q(message_sql!(
        "where m.conversation_id = $1 and m.seq > $2 and m.seq < $3 order by m.seq limit $4"
    ))
    .bind(conversation.id())
    .bind(above)
    .bind(below)
    .bind(limit)
    .all()
    .await
}

/// Sequence number of a message; `None` if the message is not in this conversation. A variant contains the messages of the first chat
/// with which it begins.
pub async fn conversation_seq(
    c: &mut Conn,
    conversation: Conversation,
    id: MessageId,
) -> Result<Option<i64>, DbError> {
    let row: Option<(i64,)> = c
        .q("select m.seq from messages m where m.id = $1 and (m.conversation_id = $2 or exists (select 1 from threads t \
            where t.id = $2 and t.first_thread_id = m.conversation_id and m.seq < t.variant_seq))")
        .bind(id)
        .bind(conversation.id())
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_found_as_a_whole() {
        let unfurl = Unfurl {
            url: "https://a.example/1".to_owned(),
            bot_id: BotId::new(),
            bot_name: String::new(),
            content: String::new(),
            color: None,
        };
        for text in [
            "https://a.example/1",
            "see https://a.example/1.",
            "[x](https://a.example/1)",
            "https://a.example/12 https://a.example/1, ok",
        ] {
            assert!(unfurl.is_in(text), "{text}");
        }
        for text in ["https://a.example/12", "https://a.example/1.html", ""] {
            assert!(!unfurl.is_in(text), "{text}");
        }
    }
}
