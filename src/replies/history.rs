//! Reads messages of conversations for models.

use crate::{
    agents::derived::SourceId,
    chat::messages::{AuthorKind, Mention, MentionKind, MessageKind, MessageState},
    db::{
        Conn, DbError, Json,
        dialect::{context::prompt_sources, hexadecimal_ids},
    },
    files::Attachment,
    ids::{AgentId, MessageId, TaskId, UserId},
    realtime::hub::Conversation,
    replies::{
        lines::BOT_SUFFIX,
        prompt::{Attached, Author, HistoryKind, HistoryMessage, attached_line},
    },
    sql_with_ids, sql_with_seqs,
    time::Timestamp,
};

#[derive(sqlx::FromRow, Clone)]
pub(super) struct Row {
    pub id: MessageId,
    pub seq: i64,
    pub author_type: AuthorKind,
    pub author_id: Option<uuid::Uuid>,
    pub author_name: Option<String>,
    kind: MessageKind,
    state: MessageState,
    content: String,
    attachments: Json<Vec<Attachment>>,
    pub created_at: Timestamp,
    author_handle: Option<String>,
    mentions: Json<Vec<Mention>>,
    /// Agent that the message invoked.
    pub asked_agent_id: Option<AgentId>,
    /// For a late or steered reply, the sequence number of the message to which it replies.
    parent_seq: Option<i64>,
}

impl Row {
    /// Returns the sort key: a late or steered reply directly follows the message to which it replies.
    pub(super) fn order(&self) -> (i64, i64) {
        self.parent_seq
            .map_or((self.seq, 0), |parent| (parent, self.seq))
    }

    pub(super) fn history_message(self) -> HistoryMessage {
        HistoryMessage {
            message_id: self.id,
            author: author(
                self.author_type,
                self.author_id.unwrap_or_default(),
                self.author_name,
            ),
            kind: match (self.kind, self.state) {
                (MessageKind::Resolution, _) => HistoryKind::Result,
                (_, MessageState::Interrupted) => HistoryKind::CutOff,
                _ => HistoryKind::Complete,
            },
            handle: self.author_handle,
            posted_at: self.created_at,
            mentions_agent: (self.mentions.0.iter())
                .any(|mention| mention.kind == MentionKind::Agent),
            asks_agent: self.asked_agent_id.is_some(),
            content: self.content,
            attachments: told(self.attachments.0),
        }
    }

    /// Returns the content of the message and its attachments as one string.
    pub(super) fn shown(&self) -> String {
        let mut text = self.content.clone();
        for file in told(self.attachments.0.clone()) {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&attached_line(&file));
        }
        text
    }
}

pub(super) fn author(kind: AuthorKind, id: uuid::Uuid, name: Option<String>) -> Author {
    if kind == AuthorKind::Agent {
        Author::Agent {
            id: AgentId(id),
            name: name.unwrap_or_else(|| "Deleted agent".to_owned()),
        }
    } else {
        let name = name.unwrap_or_else(|| "Deleted account".to_owned());
        Author::Human {
            id: UserId(id),
            name: if kind == AuthorKind::Bot {
                name + BOT_SUFFIX
            } else {
                name
            },
        }
    }
}

pub(super) fn told(files: Vec<Attachment>) -> Vec<Attached> {
    files
        .into_iter()
        .map(|file| Attached {
            name: file.name,
            size_bytes: file.size_bytes,
        })
        .collect()
}

/// Selects the columns of a `Row`, including the author's name, from messages as `m`; the arguments continue the
/// query.
macro_rules! row_sql {
    ($parent_seq:literal, $tail:literal) => {
        concat!(
            "select m.id, m.seq, m.author_type, m.author_id, coalesce(u.name, a.summary ->> 'display_name', a.name, \
             (select n.name from agent_names n where n.agent_id = m.author_id)) as author_name, \
             m.kind, m.state, m.content, m.attachments, m.created_at, coalesce(h.handle, a.name) as author_handle, m.mentions, \
             (select k.agent_id from tasks k where k.trigger_message_id = m.id and k.kind = 'reply' order by k.id limit 1) as asked_agent_id, ",
            $parent_seq,
            " as parent_seq from messages m left join users u on m.author_type in ('human', 'bot') and u.id = m.author_id \
             left join members h on m.author_type = 'human' and h.user_id = m.author_id and h.workspace_id = m.workspace_id \
             left join agents a on m.author_type = 'agent' and a.id = m.author_id ",
            $tail
        )
    };
}

/// Condition for messages that belong to the history: not deleted, not a notice, not streaming, and not a superseded resolution
/// message.
macro_rules! said {
    () => {
        " and m.deleted_at is null and m.kind <> 'notice' and m.state <> 'streaming' and (m.kind <> 'resolution' or not exists \
         (select 1 from resolutions r where r.message_id = m.id and r.status = 'superseded')) "
    };
}

/// Lists the most recent messages in a conversation before a sequence number, newest first. A reply that was steered counts as a reply
/// to the last message that it has read.
pub(super) async fn before(
    c: &mut Conn,
    conversation: Conversation,
    seq: i64,
    count_max: usize,
) -> Result<Vec<Row>, DbError> {
    c.q(concat!(
        row_sql!(
            "case when m.author_type = 'agent' then (select max(x.seq) from tasks k \
             join task_steers s on s.task_id = k.id and s.round is not null join messages x on x.id = s.message_id and x.seq < $2 \
             where k.trigger_message_id = m.parent_id and k.reply_message_id = m.id) end",
            "where m.conversation_id = $1 and m.seq < $2"
        ),
        said!(),
        "order by m.seq desc limit $3"
    ))
    .bind(conversation.id())
    .bind(seq)
    .bind(i64::try_from(count_max).unwrap_or(i64::MAX))
    .all()
    .await
}

/// Inclusive range of sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeqRange {
    pub from: i64,
    pub to: i64,
}

/// Lists up to `count_max` messages in a range, oldest first.
pub(super) async fn between(
    c: &mut Conn,
    conversation: Conversation,
    range: SeqRange,
    count_max: usize,
) -> Result<Vec<Row>, DbError> {
    c.q(concat!(
        row_sql!(
            "CAST(null AS BIGINT)",
            "where m.conversation_id = $1 and m.seq >= $2 and m.seq <= $3"
        ),
        said!(),
        "order by m.seq limit $4"
    ))
    .bind(conversation.id())
    .bind(range.from)
    .bind(range.to)
    .bind(i64::try_from(count_max).unwrap_or(i64::MAX))
    .all()
    .await
}

/// Size of a message's text.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub(super) struct TextSize {
    pub seq: i64,
    pub bytes: i64,
}

/// Lists the text sizes of the most recent messages in a conversation after a sequence number, newest first.
pub(super) async fn sizes_after(
    c: &mut Conn,
    conversation: Conversation,
    seq: i64,
    count_max: usize,
) -> Result<Vec<TextSize>, DbError> {
    c.q(concat!(
        "select m.seq, cast(octet_length(m.content) as bigint) as bytes from messages m where m.conversation_id = $1 and m.seq > $2",
        said!(),
        "order by m.seq desc limit $3"
    ))
    .bind(conversation.id())
    .bind(seq)
    .bind(i64::try_from(count_max).unwrap_or(i64::MAX))
    .all()
    .await
}

/// Counts messages between two sequence numbers (exclusive), up to `count_max`.
pub(super) async fn count_between(
    c: &mut Conn,
    conversation: Conversation,
    after: i64,
    before: i64,
    count_max: i64,
) -> Result<i64, DbError> {
    c.q(concat!(
        "select count(*) from (select 1 from messages m where m.conversation_id = $1 and m.seq > $2 and m.seq < $3",
        said!(),
        "limit $4) counted"
    ))
    .bind(conversation.id())
    .bind(after)
    .bind(before)
    .bind(count_max)
    .value()
    .await
}

/// Reads the messages with these sequence numbers, in no particular order.
pub(super) async fn list(
    c: &mut Conn,
    conversation: Conversation,
    seqs: impl IntoIterator<Item = i64>,
) -> Result<Vec<Row>, DbError> {
    let sql = sql_with_seqs!(
        c,
        concat!(
            row_sql!("CAST(null AS BIGINT)", "where true"),
            said!(),
            "and"
        ),
        "conversation_id" = 1,
        2,
        ""
    );
    c.q(sql)
        .bind(conversation.id())
        .bind(Json(seqs.into_iter().collect::<Vec<i64>>()))
        .all()
        .await
}

/// Maximum number of cited messages that are read.
const FOUND_MAX: i64 = 500;

/// Reads the most recent messages that are cited in a task's latest prompt, oldest first.
pub(super) async fn cited_by_prompt(c: &mut Conn, task: TaskId) -> Result<Vec<Row>, DbError> {
    let sources = prompt_sources(c, task.0).await?;
    let messages = sources
        .into_iter()
        .filter_map(|(kind, id)| match SourceId::of(&kind, id) {
            Some(SourceId::Message(id)) => Some(id.0),
            _ => None,
        });
    let sql = sql_with_ids!(
        c,
        concat!(
            row_sql!("CAST(null AS BIGINT)", "where true"),
            said!(),
            "and m.id in"
        ),
        1,
        "order by m.seq desc limit $2"
    );
    let mut rows: Vec<Row> = c
        .q(sql)
        .bind(hexadecimal_ids(messages))
        .bind(FOUND_MAX)
        .all()
        .await?;
    rows.reverse();
    Ok(rows)
}

pub(super) use {row_sql, said};
