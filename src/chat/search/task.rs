//! Search by an agent's task, limited to messages that the requester and every reader of the conversation can read.

use std::collections::HashMap;

use uuid::Uuid;

use super::{any, highlight, index};
use crate::{
    chat::rows::{
        message::{AuthorKind, MessageKind, MessageSource},
        variant::find_base,
    },
    db::{
        Conn, DbError, Json,
        dialect::{
            hexadecimal_ids,
            search::{Match, Order, Phrase, Scope, Texts, is_source},
        },
        is_shared_channel, now,
    },
    files::Attachment,
    ids::{BEFORE_ALL_SEQS, ChannelId, ForkId, MessageId, ThreadId, UserId, WorkspaceId},
    realtime::hub::Conversation,
    sql_with_ids, sql_with_seqs,
    time::Timestamp,
};

/// Maximum number of characters of a hit that are shown around its first match.
const PASSAGE_CHARS_MAX: usize = 700;
/// Maximum number of characters of a neighboring message that are shown.
const NEIGHBOR_CHARS_MAX: usize = 200;

/// Search by a task: its words, filters, and rights.
#[derive(Debug, Clone)]
pub struct TaskSearch<'a> {
    pub workspace: WorkspaceId,
    pub requester: UserId,
    /// Channel whose readers must be able to read the hits; `None` if only the requester reads the conversation.
    pub shared_in: Option<Uuid>,
    pub query: &'a str,
    /// Channels to search; all channels if empty.
    pub channels: Vec<ChannelId>,
    /// ID of the person or agent whose messages are searched.
    pub author: Option<Uuid>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub limit: usize,
    /// Hits below this fraction of the best score are dropped.
    pub score_share: f64,
    /// The question itself, which is neither a hit nor the neighbor of one.
    pub question: MessageId,
}

/// A message with its author and its location.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct TaskMessage {
    pub id: MessageId,
    pub seq: i64,
    pub thread_id: ThreadId,
    pub channel_id: ChannelId,
    pub conversation_id: Uuid,
    pub author_type: AuthorKind,
    pub author_id: Option<Uuid>,
    pub author_name: Option<String>,
    pub kind: MessageKind,
    pub content_plain: String,
    pub attachments: Json<Vec<Attachment>>,
    pub created_at: Timestamp,
    /// `None` for a direct channel.
    pub channel_name: Option<String>,
}

/// A message that matches, with its neighbors in the conversation.
#[derive(Debug, Clone)]
pub struct TaskHit {
    pub message: TaskMessage,
    /// Part of the message around the first match.
    pub passage: String,
    pub before: Option<TaskMessage>,
    pub after: Option<TaskMessage>,
}

impl TaskMessage {
    /// Checks whether an agent can cite the message, by the same rule as `is_source!`.
    pub fn is_source(&self) -> bool {
        self.author_type != AuthorKind::Agent || self.kind == MessageKind::Resolution
    }

    /// Returns the message as a source without its number.
    pub fn source(&self) -> MessageSource {
        let is_fork = self.conversation_id != self.thread_id.0;
        let fork = is_fork.then_some(ForkId(self.conversation_id));
        MessageSource::of(self.id, self.thread_id, fork, self.channel_id)
    }

    /// The beginning of the text, as shown for a neighbor.
    pub fn beginning(&self) -> String {
        highlight::passage(&self.content_plain, "", NEIGHBOR_CHARS_MAX)
    }
}

/// Selects messages as `m` with their channels as `ch`; the argument continues the query.
macro_rules! message_sql {
    ($tail:expr) => {
        concat!(
            "select m.id, m.seq, m.thread_id, m.channel_id, m.conversation_id, m.author_type, m.author_id, \
             coalesce(u.name, a.summary ->> 'display_name', a.name, \
             (select n.name from agent_names n where n.agent_id = m.author_id)) as author_name, m.kind, m.content_plain, m.attachments, \
             m.created_at, case when ch.kind = 'direct' then null else ch.name end as channel_name \
             from messages m join channels ch on ch.id = m.channel_id \
             left join users u on m.author_type in ('human', 'bot') and u.id = m.author_id \
             left join agents a on m.author_type = 'agent' and a.id = m.author_id \
             where m.deleted_at is null and m.kind <> 'notice' and m.state <> 'streaming' and ",
            $tail
        )
    };
}

/// Finds messages with words of the query, best first.
pub async fn find_messages(c: &mut Conn, search: &TaskSearch<'_>) -> Result<Vec<TaskHit>, DbError> {
    let scope = Scope {
        workspace: search.workspace.0,
        user: search.requester.0,
        shared_in: search.shared_in,
        texts: Texts::Sources,
        except: Some(search.question.0),
        part: None,
        above: BEFORE_ALL_SEQS,
        below: i64::MAX,
        since: search.since,
        until: search.until,
        order: Order::Newest,
    };
    let mut what = Match::default();
    if !search.channels.is_empty() {
        let channels = search.channels.iter();
        what.all.push(
            channels
                .map(|id| Phrase::word(index::channel_term(&id.to_string())))
                .collect(),
        );
    }
    if let Some(author) = search.author {
        // IDs of people and agents never collide, so both use the same kind of term.
        let author = index::author_term(&UserId(author).to_string());
        what.all.push(vec![Phrase::word(author)]);
    }
    let ranking = any::rank(c, &scope, &what, search.query, now()).await?;
    let best = ranking.best.first().map_or(0.0, |best| best.score);
    let seqs: Vec<i64> = ranking
        .best
        .iter()
        .filter(|ranked| ranked.score >= best * search.score_share)
        .map(|ranked| ranked.found.seq)
        .take(search.limit)
        .collect();
    let sql = sql_with_seqs!(
        c,
        message_sql!(concat!(
            is_shared_channel!("m.channel_id", "$2", "$3"),
            " and"
        )),
        "workspace_id" = 1,
        4,
        "order by m.seq limit 100"
    );
    let rows: Vec<TaskMessage> = c
        .q(sql)
        .bind(search.workspace)
        .bind(search.requester)
        .bind(search.shared_in)
        .bind(Json(seqs.clone()))
        .all()
        .await?;
    let mut rows: HashMap<i64, TaskMessage> = rows.into_iter().map(|row| (row.seq, row)).collect();
    let found = seqs.iter().filter_map(|seq| rows.remove(seq));
    let found: Vec<TaskMessage> = found.collect();
    let mut neighbors = neighbors(c, (search.workspace, search.question), &found).await?;
    let hits = found.into_iter().map(|message| {
        let [before, after] = neighbors.remove(&message.seq).unwrap_or_default();
        TaskHit {
            passage: highlight::passage(&message.content_plain, search.query, PASSAGE_CHARS_MAX),
            before,
            after,
            message,
        }
    });
    Ok(hits.collect())
}

/// Finds messages by ID that the user and everyone who can read `shared_in` can read, in no particular order.
pub async fn find_readable(
    c: &mut Conn,
    (workspace, user, shared_in): (WorkspaceId, UserId, Option<Uuid>),
    ids: &[MessageId],
) -> Result<Vec<TaskMessage>, DbError> {
    let sql = sql_with_ids!(
        c,
        message_sql!(concat!(
            "m.workspace_id = $1 and ",
            is_shared_channel!("m.channel_id", "$2", "$3"),
            " and m.id in"
        )),
        4,
        ""
    );
    c.q(sql)
        .bind(workspace)
        .bind(user)
        .bind(shared_in)
        .bind(hexadecimal_ids(ids.iter().map(|id| id.0)))
        .all()
        .await
}

/// Selects the sequence number of the citable message next to `m` in its conversation, ignoring the message `$3`.
macro_rules! beside {
    ($side:literal) => {
        concat!(
            "(select p.seq from messages p where p.conversation_id = m.conversation_id and p.deleted_at is null and p.kind <> 'notice' \
             and p.state <> 'streaming' and p.id <> $3 and ",
            is_source!("p"),
            " and p.seq ",
            $side,
            " limit 1)"
        )
    };
}

/// Messages directly before and after the given ones, by sequence number. They are in the same conversations, so the same
/// people can read them.
async fn neighbors(
    c: &mut Conn,
    (workspace, question): (WorkspaceId, MessageId),
    of: &[TaskMessage],
) -> Result<HashMap<i64, [Option<TaskMessage>; 2]>, DbError> {
    if of.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = sql_with_seqs!(
        c,
        concat!(
            "select m.seq, ",
            beside!("< m.seq order by p.seq desc"),
            ", ",
            beside!("> m.seq order by p.seq"),
            " from messages m where"
        ),
        "workspace_id" = 1,
        2,
        ""
    );
    let seqs: Vec<i64> = of.iter().map(|message| message.seq).collect();
    let sides: Vec<(i64, Option<i64>, Option<i64>)> = c
        .q(sql)
        .bind(workspace)
        .bind(Json(seqs))
        .bind(question)
        .all()
        .await?;
    let wanted = sides
        .iter()
        .flat_map(|(_, before, after)| [*before, *after]);
    let wanted: Vec<i64> = wanted.flatten().collect();
    let sql = sql_with_seqs!(
        c,
        message_sql!(""),
        "workspace_id" = 1,
        2,
        "order by m.seq limit 100"
    );
    let rows: Vec<TaskMessage> = c.q(sql).bind(workspace).bind(Json(wanted)).all().await?;
    let rows: HashMap<i64, TaskMessage> = rows.into_iter().map(|row| (row.seq, row)).collect();
    let at = |seq: Option<i64>| seq.and_then(|seq| rows.get(&seq)).cloned();
    let sides = sides
        .into_iter()
        .map(|(seq, before, after)| (seq, [at(before), at(after)]));
    Ok(sides.collect())
}

/// The newest messages of a conversation before a sequence number, oldest first; for a variant of a chat, with those of the first chat
/// with which it begins. The caller must have checked access to the conversation.
pub async fn list_messages(
    c: &mut Conn,
    conversation: Uuid,
    below: i64,
    limit: i64,
) -> Result<Vec<TaskMessage>, DbError> {
    let mut rows = own_before(c, conversation, below, limit).await?;
    let room = limit - i64::try_from(rows.len()).unwrap_or(limit);
    // No fork has the ID of a thread.
    let thread = Conversation::Thread(ThreadId(conversation));
    if room > 0
        && let Some(base) = find_base(c, thread).await?
    {
        rows.extend(own_before(c, base.thread.0, below.min(base.seq), room).await?);
    }
    rows.reverse();
    Ok(rows)
}

/// Messages before a sequence number, newest first.
async fn own_before(
    c: &mut Conn,
    conversation: Uuid,
    below: i64,
    limit: i64,
) -> Result<Vec<TaskMessage>, DbError> {
    c.q(message_sql!(
        "m.conversation_id = $1 and m.seq < $2 order by m.seq desc limit $3"
    ))
    .bind(conversation)
    .bind(below)
    .bind(limit)
    .all()
    .await
}
