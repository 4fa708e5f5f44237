//! Chooses the events of the log that a bot gets: those that it can see, except for its own.

use std::time::Duration;

use serde::{Deserialize, de::IgnoredAny};

use super::links::links_in;
use crate::{
    auth::{Scope, Scopes},
    chat::{
        mentions,
        messages::{AuthorKind, MessageState},
    },
    db::{Conn, DbError, Json},
    hooks::BotEventKind,
    ids::{BotId, ChannelId, MessageId, ThreadId, WorkspaceId},
    realtime::EventType,
    time::Timestamp,
};

/// Number of successive messages of bots in a thread after which no bot gets its messages until a person writes.
const BOT_MESSAGES_MAX: i64 = 20;
/// Time within which bots start as many threads in a channel if each answers with a new one.
const LOOP_WITHIN: Duration = Duration::from_mins(10);
/// Difference between an edit and its event, in milliseconds, if the message's earlier events were deleted from the log.
const EDIT_MS_MAX: i64 = 60_000;

/// A subscription whose position is behind the end of the log.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct Reader {
    pub(super) bot_id: BotId,
    pub(super) workspace_id: WorkspaceId,
    pub(super) cursor_seq: i64,
    pub(super) version: i64,
    events: Json<Vec<BotEventKind>>,
    channel_ids: Option<Json<Vec<ChannelId>>>,
    with_bots: bool,
    handle: String,
    scopes: Json<Scopes>,
    link_domains: Json<Vec<String>>,
    /// Numbers of the newest event, and of the newest one that was deleted.
    pub(super) head_seq: i64,
    pub(super) pruned_seq: i64,
    /// Number of deliveries that have not ended.
    pub(super) waiting: i64,
}

impl Reader {
    /// Checks whether the bot's keys could read the messages. If not, its position waits.
    pub(super) fn can_read(&self) -> bool {
        self.scopes.0.has(Scope::ChatRead)
    }
}

/// An event of the log.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct LoggedEvent {
    pub(super) seq: i64,
    r#type: EventType,
    channel_id: Option<ChannelId>,
    message_id: Option<MessageId>,
    frame: String,
    ts: Timestamp,
}

/// Parts of a frame by which events are chosen.
#[derive(Debug, Deserialize)]
struct LoggedFrame {
    fork_id: Option<IgnoredAny>,
    data: LoggedData,
}

#[derive(Debug, Deserialize)]
struct LoggedData {
    message: Option<LoggedMessage>,
}

#[derive(Debug, Deserialize)]
struct LoggedMessage {
    thread_id: ThreadId,
    seq: i64,
    author: LoggedAuthor,
    state: MessageState,
    #[serde(default)]
    content: String,
    edited_at: Option<Timestamp>,
}

#[derive(Debug, Deserialize)]
struct LoggedAuthor {
    r#type: AuthorKind,
    id: Option<String>,
}

/// Active subscriptions after a bot that have not read the whole log.
pub(super) async fn list_readers(
    c: &mut Conn,
    after: BotId,
    limit: i64,
) -> Result<Vec<Reader>, DbError> {
    c.q("select s.bot_id, s.workspace_id, s.cursor_seq, s.version, s.events, s.channel_ids, s.with_bots, b.handle, b.scopes, b.link_domains, \
         w.seq as head_seq, w.pruned_seq, \
         (select count(*) from bot_deliveries d where d.bot_id = s.bot_id and d.due_at is not null) as waiting \
         from bot_subscriptions s join bots b on b.id = s.bot_id join workspaces w on w.id = s.workspace_id \
         where s.bot_id > $1 and s.status = 'active' and b.status = 'active' and w.seq > s.cursor_seq order by s.bot_id limit $2")
        .bind(after)
        .bind(limit)
        .all()
        .await
}

/// Events after `after` and up to `until` in the bot's channels, oldest first.
pub(super) async fn list_events(
    c: &mut Conn,
    reader: &Reader,
    after: i64,
    until: i64,
    limit: i64,
) -> Result<Vec<LoggedEvent>, DbError> {
    c.q("select e.seq, e.type, e.channel_id, e.message_id, e.frame, e.ts from events e \
         where e.workspace_id = $1 and e.seq > $2 and e.seq <= $3 and not e.is_restricted and (e.type = 'member.joined' or \
         (e.type in ('message.created', 'message.updated', 'message.deleted', 'reaction.added', 'reaction.removed', 'channel.updated', \
         'channel.archived', 'channel.member_added', 'channel.member_removed') \
         and exists (select 1 from bot_channels bc where bc.bot_id = $4 and bc.channel_id = e.channel_id))) order by e.seq limit $5")
        .bind(reader.workspace_id)
        .bind(after)
        .bind(until)
        .bind(reader.bot_id)
        .bind(limit)
        .all()
        .await
}

/// Events that the bot gets for an event of the log: none, one, or several, such as for a message that mentions it.
pub(super) async fn kinds_of(
    c: &mut Conn,
    reader: &Reader,
    event: &LoggedEvent,
) -> Result<Vec<BotEventKind>, DbError> {
    let in_channels = match (&reader.channel_ids, event.channel_id) {
        (Some(Json(channels)), Some(channel)) => channels.contains(&channel),
        _ => true,
    };
    let Ok(frame) = serde_json::from_str::<LoggedFrame>(&event.frame) else {
        return Ok(Vec::new());
    };
    if !in_channels || frame.fork_id.is_some() {
        return Ok(Vec::new());
    }
    let mut kinds = match (event.r#type, &frame.data.message) {
        (
            EventType::MessageCreated | EventType::MessageUpdated | EventType::MessageDeleted,
            Some(message),
        ) => message_kinds(c, reader, event, message).await?,
        (EventType::ReactionAdded, _) => vec![BotEventKind::ReactionAdded],
        (EventType::ReactionRemoved, _) => vec![BotEventKind::ReactionRemoved],
        (EventType::ChannelUpdated, _) => vec![BotEventKind::ChannelUpdated],
        (EventType::ChannelArchived, _) => vec![BotEventKind::ChannelArchived],
        (EventType::ChannelMemberAdded, _) => vec![BotEventKind::ChannelMemberAdded],
        (EventType::ChannelMemberRemoved, _) => vec![BotEventKind::ChannelMemberRemoved],
        (EventType::MemberJoined, _) => vec![BotEventKind::MemberJoined],
        _ => Vec::new(),
    };
    kinds.retain(|kind| reader.events.0.contains(kind));
    Ok(kinds)
}

async fn message_kinds(
    c: &mut Conn,
    reader: &Reader,
    event: &LoggedEvent,
    message: &LoggedMessage,
) -> Result<Vec<BotEventKind>, DbError> {
    let author = &message.author;
    if author.r#type == AuthorKind::Bot && author.id.as_ref() == Some(&reader.bot_id.to_string()) {
        return Ok(Vec::new());
    }
    let kind = match event.r#type {
        EventType::MessageDeleted => Some(BotEventKind::MessageDeleted),
        EventType::MessageUpdated => update_kind(c, reader, event, message).await?,
        _ => (message.state != MessageState::Streaming).then_some(BotEventKind::MessageCreated),
    };
    let Some(kind) = kind else {
        return Ok(Vec::new());
    };
    if author.r#type == AuthorKind::Bot {
        // Edits of bots would be loops that no number of messages ends.
        let is_sent = reader.with_bots
            && kind == BotEventKind::MessageCreated
            && !is_loop(c, message.thread_id, message.seq).await?
            && !is_loop_of_threads(c, event).await?;
        return Ok(if is_sent { vec![kind] } else { Vec::new() });
    }
    let mut kinds = vec![kind];
    if author.r#type == AuthorKind::Human && kind == BotEventKind::MessageCreated {
        let raw = mentions::parse(&message.content);
        if raw
            .iter()
            .any(|mention| mention.candidates.contains(&reader.handle))
        {
            kinds.push(BotEventKind::AppMention);
        }
        if !links_in(&message.content, &reader.link_domains.0).is_empty() {
            kinds.push(BotEventKind::LinkShared);
        }
    }
    Ok(kinds)
}

/// A change of a message is the end of an agent's reply, or an edit. Others, such as reactions of bots and agents, and previews, are not
/// sent.
async fn update_kind(
    c: &mut Conn,
    reader: &Reader,
    event: &LoggedEvent,
    message: &LoggedMessage,
) -> Result<Option<BotEventKind>, DbError> {
    if message.state == MessageState::Streaming {
        return Ok(None);
    }
    let before: Option<(String,)> = c
        .q(
            "select frame from events where message_id = $1 and workspace_id = $2 and seq < $3 \
             and type in ('message.created', 'message.updated') order by seq desc limit 1",
        )
        .bind(event.message_id)
        .bind(reader.workspace_id)
        .bind(event.seq)
        .opt()
        .await?;
    let before = before.and_then(|(frame,)| serde_json::from_str::<LoggedFrame>(&frame).ok());
    let Some(before) = before.and_then(|frame| frame.data.message) else {
        let is_edit = message
            .edited_at
            .is_some_and(|at| event.ts.unix_ms() - at.unix_ms() < EDIT_MS_MAX);
        return Ok(is_edit.then_some(BotEventKind::MessageUpdated));
    };
    Ok(if before.state == MessageState::Streaming {
        Some(BotEventKind::MessageCreated)
    } else if before.edited_at != message.edited_at {
        Some(BotEventKind::MessageUpdated)
    } else {
        None
    })
}

/// Checks whether the last 20 messages of people and bots in a thread, up to this one, are all from bots.
async fn is_loop(c: &mut Conn, thread: ThreadId, seq: i64) -> Result<bool, DbError> {
    let authors: Vec<(AuthorKind,)> = c
        .q("select m.author_type from messages m where m.conversation_id = $1 and m.seq <= $2 and m.author_type in ('human', 'bot') \
            order by m.seq desc limit $3")
        .bind(thread)
        .bind(seq)
        .bind(BOT_MESSAGES_MAX)
        .all()
        .await?;
    let is_full = i64::try_from(authors.len()).is_ok_and(|n| n >= BOT_MESSAGES_MAX);
    Ok(is_full && authors.iter().all(|(author,)| *author == AuthorKind::Bot))
}

/// Checks whether a message starts a thread, and the last 20 threads of its channel were started within 10 minutes by bots that get messages
/// of bots. A program that answers without naming the thread starts another one each time.
async fn is_loop_of_threads(c: &mut Conn, event: &LoggedEvent) -> Result<bool, DbError> {
    let roots: Vec<(MessageId, Timestamp, bool)> = c
        .q("select m.id, m.created_at, m.author_type = 'bot' and exists (select 1 from bot_subscriptions s where s.bot_id = m.author_id \
            and s.with_bots) as is_of_reader from threads t join messages m on m.id = t.root_message_id \
            where t.channel_id = $1 and t.root_message_id <= $2 order by t.root_message_id desc limit $3")
        .bind(event.channel_id)
        .bind(event.message_id)
        .bind(BOT_MESSAGES_MAX)
        .all()
        .await?;
    let is_root = roots.first().map(|root| root.0) == event.message_id;
    let is_full = i64::try_from(roots.len()).is_ok_and(|n| n >= BOT_MESSAGES_MAX);
    let since = event.ts - LOOP_WITHIN;
    Ok(is_root
        && is_full
        && roots
            .iter()
            .all(|(_, at, is_of_reader)| *is_of_reader && *at > since))
}
