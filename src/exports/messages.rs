//! Messages of our format: for each channel, the threads in the order of their first messages, each with its messages; then the deep dives.
//! An entry has the threads that started in one month.

use std::collections::HashMap;

use chrono::DateTime;
use serde::Serialize;
use uuid::Uuid;

use super::{
    error::ExportError,
    page::{Content, Line, PAGE, Page, Position, Rows, Shape, exported},
    view::{View, is_exported},
};
use crate::{
    chat::messages::{Message, list_by_ids},
    db::{Conn, is_example},
    hooks,
    ids::{ChannelId, MessageId},
    time::Timestamp,
};

const KIND: &str = "messages";
/// Number of channels that are looked through at once, so that a read ends well before its deadline even if they are empty.
const CHANNELS_AT_ONCE: usize = 50;

/// Treatment of messages of deep dives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeepDives {
    Included,
    LeftOut,
}

/// Position of a message.
#[derive(Debug, Clone, sqlx::FromRow)]
struct Key {
    /// First message of the thread, or the fork.
    root: Uuid,
    conversation: Uuid,
    seq: i64,
    id: MessageId,
    /// First message of the thread, its time, and its sequence number; `None` in a deep dive. Then the title of the thread.
    #[sqlx(default)]
    root_id: Option<MessageId>,
    #[sqlx(default)]
    root_at: Option<Timestamp>,
    #[sqlx(default)]
    root_seq: Option<i64>,
    #[sqlx(default)]
    root_title: Option<String>,
}

/// The first message of a thread.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Root {
    pub(super) id: MessageId,
    pub(super) created_at: Timestamp,
    /// Title of the thread.
    title: Option<String>,
    #[serde(skip)]
    seq: i64,
}

impl Root {
    /// Slack's ID of the message.
    pub(super) fn ts(&self) -> String {
        hooks::slack_ts_of(self.id, self.seq)
    }
}

/// A message as the API shows it, with the first message of its thread; null in a deep dive.
#[derive(Debug, Serialize)]
struct ExportedMessage<'a> {
    #[serde(flatten)]
    message: &'a Message,
    root: Option<Root>,
}

/// Further messages of a thread: `$1` is the thread, `$2` the sequence number.
const REST_OF_THREAD: &str = concat!(
    "select t.root_message_id as root, t.id as conversation, m.seq, m.id, r.id as root_id, r.created_at as root_at, r.seq as root_seq, t.title as root_title \
     from messages m join threads t on t.id = m.conversation_id join messages r on r.id = t.root_message_id \
     join channels ch on ch.id = t.channel_id \
     where m.conversation_id = $1 and m.seq > $2 and m.state <> 'streaming' and ",
    is_exported!("ch"),
    " order by m.seq limit $3"
);
/// Messages of later threads: `$1` is the channel, `$2` the first message of the last thread.
const NEXT_THREADS: &str = concat!(
    "select t.root_message_id as root, t.id as conversation, m.seq, m.id, r.id as root_id, r.created_at as root_at, r.seq as root_seq, t.title as root_title \
     from threads t join messages r on r.id = t.root_message_id join messages m on m.conversation_id = t.id \
     join channels ch on ch.id = t.channel_id \
     where t.channel_id = $1 and t.root_message_id > $2 and m.state <> 'streaming' and ",
    is_exported!("ch"),
    " and not ",
    is_example!("t.id"),
    " order by t.root_message_id, m.seq limit $3"
);
const REST_OF_FORK: &str = concat!(
    "select f.id as root, f.id as conversation, m.seq, m.id \
     from messages m join forks f on f.id = m.conversation_id join channels ch on ch.id = f.channel_id \
     where m.conversation_id = $1 and m.seq > $2 and m.state <> 'streaming' and ",
    is_exported!("ch"),
    " order by m.seq limit $3"
);
const NEXT_FORKS: &str = concat!(
    "select f.id as root, f.id as conversation, m.seq, m.id \
     from forks f join messages m on m.conversation_id = f.id join channels ch on ch.id = f.channel_id \
     where f.channel_id = $1 and f.id > $2 and m.state <> 'streaming' and ",
    is_exported!("ch"),
    " and not ",
    is_example!("f.thread_id"),
    " order by f.id, m.seq limit $3"
);
const NEXT_CHANNEL: &str = concat!(
    "select ch.id from channels ch where ch.workspace_id = $1 and ch.id > $2 and ",
    is_exported!("ch"),
    " order by ch.id limit $3"
);

/// Day or month of an ID in UTC, in this format of `chrono`. IDs have the time of their creation.
pub(super) fn date_of(id: Uuid, format: &str) -> String {
    let seconds = id.get_timestamp().map_or(0, |at| at.to_unix().0);
    let at = DateTime::from_timestamp(i64::try_from(seconds).unwrap_or(0), 0).unwrap_or_default();
    at.format(format).to_string()
}

/// The next positions of messages with the same date of their thread or deep dive, and the position of the last one.
async fn next_keys(
    c: &mut Conn,
    view: &View,
    at: &mut Position,
    format: &str,
) -> Result<Vec<Key>, ExportError> {
    let (rest, later) = match at.line {
        Line::Threads => (REST_OF_THREAD, NEXT_THREADS),
        Line::Forks => (REST_OF_FORK, NEXT_FORKS),
    };
    let mut keys: Vec<Key> = Vec::new();
    if !at.conversation.is_nil() {
        keys = rest_of(c, view, rest, at).await?;
    }
    if keys.is_empty() {
        keys = exported(c, view, later, at.channel, at.root).await?;
    }
    let Some(first) = keys.first() else {
        return Ok(keys);
    };
    let date = date_of(first.root, format);
    let same = keys
        .iter()
        .take_while(|key| date_of(key.root, format) == date);
    let count = same.count();
    keys.truncate(count);
    if let Some(last) = keys.last() {
        (at.root, at.conversation, at.seq) = (last.root, last.conversation, last.seq);
    }
    Ok(keys)
}

async fn rest_of(
    c: &mut Conn,
    view: &View,
    sql: &'static str,
    at: &Position,
) -> Result<Vec<Key>, ExportError> {
    let keys = c
        .q(sql)
        .bind(at.conversation)
        .bind(at.seq)
        .bind(PAGE)
        .bind(view.reader())
        .bind(view.is_everything());
    Ok(keys.all().await?)
}

/// Messages, each with the first message of its thread, and the position after them. There can be none.
pub(super) struct MessagePage {
    pub(super) channel: ChannelId,
    pub(super) line: Line,
    /// Date of the threads or deep dives.
    pub(super) date: String,
    pub(super) messages: Vec<(Message, Option<Root>)>,
    pub(super) next: Position,
}

/// The next messages, of one channel and date; `None` after those of the last channel.
///
/// # Errors
/// `Db`.
pub(super) async fn next_messages(
    c: &mut Conn,
    view: &View,
    position: &Position,
    dives: DeepDives,
    format: &str,
) -> Result<Option<MessagePage>, ExportError> {
    let mut at = position.clone();
    for _ in 0..CHANNELS_AT_ONCE {
        let keys = if at.channel.is_nil() {
            Vec::new()
        } else {
            next_keys(c, view, &mut at, format).await?
        };
        if let Some(first) = keys.first() {
            let date = date_of(first.root, format);
            return Ok(Some(MessagePage {
                channel: ChannelId(at.channel),
                line: at.line,
                date,
                messages: read(c, keys).await?,
                next: at,
            }));
        }
        let has_dives = !at.channel.is_nil() && at.line == Line::Threads;
        if has_dives && dives == DeepDives::Included {
            at = Position {
                line: Line::Forks,
                root: Uuid::nil(),
                conversation: Uuid::nil(),
                ..at
            };
            continue;
        }
        let channels: Vec<(Uuid,)> =
            exported(c, view, NEXT_CHANNEL, view.workspace.0, at.channel).await?;
        let Some((channel,)) = channels.first().copied() else {
            return Ok(None);
        };
        at = Position {
            part: at.part,
            channel,
            ..Position::default()
        };
    }
    Ok(Some(MessagePage {
        channel: ChannelId(at.channel),
        line: at.line,
        date: String::new(),
        messages: Vec::new(),
        next: at,
    }))
}

/// The messages at these positions, except those that were removed since.
async fn read(c: &mut Conn, keys: Vec<Key>) -> Result<Vec<(Message, Option<Root>)>, ExportError> {
    let ids = keys.iter().map(|key| key.id).collect();
    let found = list_by_ids(c, ids).await?;
    let mut found: HashMap<MessageId, Message> = found
        .into_iter()
        .map(|message| (message.id, message))
        .collect();
    let with_root = |key: Key| {
        let root = key.root_id.zip(key.root_at).zip(key.root_seq);
        let title = key.root_title;
        let root = root.map(|((id, created_at), seq)| Root {
            id,
            created_at,
            title,
            seq,
        });
        Some((found.remove(&key.id)?, root))
    };
    Ok(keys.into_iter().filter_map(with_root).collect())
}

/// The next lines of messages.
///
/// # Errors
/// `Db`.
pub(super) async fn next(
    c: &mut Conn,
    view: &View,
    at: &Position,
) -> Result<Option<Page>, ExportError> {
    let page = next_messages(c, view, at, DeepDives::Included, "%Y-%m").await?;
    let Some(page) = page else {
        return Ok(None);
    };
    if page.messages.is_empty() {
        return Ok(Some(Page {
            content: Content::Nothing,
            next: page.next,
        }));
    }
    let forks = match page.line {
        Line::Threads => "",
        Line::Forks => "deep-dives/",
    };
    let rows = page.messages.into_iter().map(|(message, root)| {
        let line = ExportedMessage {
            message: &message,
            root,
        };
        serde_json::to_string(&line).unwrap_or_default()
    });
    Ok(Some(Page {
        content: Content::Rows(Rows {
            name: format!("messages/{}/{forks}{}.jsonl", page.channel, page.date),
            shape: Shape::Lines,
            kind: Some(KIND),
            rows: rows.collect(),
        }),
        next: page.next,
    }))
}
