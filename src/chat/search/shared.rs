//! Search for an agent's reply: within what the requester and everyone in the conversation can read.

use std::collections::HashMap;

use crate::{
    chat::messages::{AuthorKind, Mention, MentionKind},
    db::{
        Conn, DbError, Json,
        dialect::search::{self as store, Match, Order, Phrase, Scope},
    },
    ids::{ApiKeyId, ChannelId, ForkId, MessageId, ThreadId, UserId, WorkspaceId},
    sql_with_numbers,
    time::Timestamp,
};

use super::words::words;

/// Maximum number of words searched for.
const WORDS_MAX: usize = 8;
/// Number of the newest messages considered for each word.
const FOUND_MAX: i64 = 100;
/// Maximum number of hits, without replies.
const HITS_MAX: usize = 60;
/// Maximum number of questions whose replies are hits.
const QUESTIONS_MAX: usize = 8;
/// Number of messages after a question that can answer it.
const REPLIES_MAX: i64 = 4;

/// The conversation in which the hits are quoted.
#[derive(Debug, Clone, Copy)]
pub struct Readers {
    pub workspace: WorkspaceId,
    pub requester: UserId,
    /// Key that posted the question; it needs `chat:read`.
    pub api_key: Option<ApiKeyId>,
    pub channel: ChannelId,
    /// The question itself is no hit.
    pub question: MessageId,
}

/// A person's message.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct SharedHit {
    pub message_id: MessageId,
    pub thread_id: ThreadId,
    pub fork_id: Option<ForkId>,
    pub channel_id: ChannelId,
    /// `None` for a direct channel.
    pub channel_name: Option<String>,
    pub author_name: Option<String>,
    pub content: String,
    pub created_at: Timestamp,
    seq: i64,
    author_type: AuthorKind,
    mentions: Json<Vec<Mention>>,
    /// The message caused an agent's reply.
    asks_agent: bool,
    /// Position of the hit that this one follows.
    #[sqlx(skip)]
    pub replies_to: Option<usize>,
}

impl SharedHit {
    fn is_question(&self) -> bool {
        self.content.trim_end().ends_with(['?', '？'])
    }

    /// Messages of agents, and those that address one, are not quoted.
    fn can_be_quoted(&self) -> bool {
        let mentions_agent = self
            .mentions
            .0
            .iter()
            .any(|mention| mention.kind == MentionKind::Agent);
        self.author_type == AuthorKind::Human
            && !mentions_agent
            && !(self.asks_agent && self.is_question())
    }
}

macro_rules! hit_sql {
    ($tail:literal) => {
        concat!(
            "select m.id as message_id, m.thread_id, nullif(m.conversation_id, m.thread_id) as fork_id, m.channel_id, case when ch.kind = 'direct' then null else ch.name end \
             as channel_name, u.name as author_name, m.content, m.created_at, m.seq, m.author_type, m.mentions, \
             exists (select 1 from tasks k where k.trigger_message_id = m.id and k.kind = 'reply') as asks_agent \
             from messages m join channels ch on ch.id = m.channel_id left join users u on m.author_type = 'human' and u.id = m.author_id ",
            $tail
        )
    };
}

/// Messages with these beginnings of words, those with most of them first, and the replies to questions among them.
/// Empty if the requester may not read the conversation.
pub async fn find_shared(
    c: &mut Conn,
    readers: &Readers,
    beginnings: &[String],
) -> Result<Vec<SharedHit>, DbError> {
    let Some(shared_in) = shared_in(c, readers).await? else {
        return Ok(Vec::new());
    };
    let scope = Scope {
        workspace: readers.workspace.0,
        user: readers.requester.0,
        shared_in,
        above: -1,
        below: i64::MAX,
        since: None,
        until: None,
        order: Order::Newest,
    };
    let mut counts: HashMap<i64, usize> = HashMap::new();
    for beginning in beginnings.iter().take(WORDS_MAX) {
        let found = words(beginning);
        let Some(last) = found.last() else { continue };
        let phrase = Phrase {
            is_prefix: !last.is_alone && last.text.chars().count() > 2,
            words: found.iter().map(|word| word.text.clone()).collect(),
        };
        let what = Match {
            all: vec![vec![phrase]],
            none: Vec::new(),
        };
        for seq in store::find_documents(c, &scope, &what, FOUND_MAX).await? {
            *counts.entry(seq).or_default() += 1;
        }
    }
    let mut seqs: Vec<(usize, i64)> = counts.into_iter().map(|(seq, n)| (n, seq)).collect();
    seqs.sort_unstable_by(|a, b| b.cmp(a));
    seqs.truncate(HITS_MAX);
    let seqs: Vec<i64> = seqs.into_iter().map(|(_, seq)| seq).collect();
    let sql = sql_with_numbers!(
        c,
        hit_sql!("where m.workspace_id = $1 and m.seq in"),
        2,
        "order by m.seq desc"
    );
    let mut hits: Vec<SharedHit> = c
        .q(sql)
        .bind(readers.workspace)
        .bind(Json(seqs))
        .all()
        .await?;
    hits.retain(|hit| hit.can_be_quoted() && hit.message_id != readers.question);
    let questions: Vec<(usize, SharedHit)> = hits
        .iter()
        .enumerate()
        .filter(|(_, hit)| hit.is_question())
        .take(QUESTIONS_MAX)
        .map(|(at, hit)| (at, hit.clone()))
        .collect();
    for (at, question) in questions {
        let replies = replies(c, &question).await?;
        hits.extend(
            replies
                .into_iter()
                .filter(SharedHit::can_be_quoted)
                .map(|hit| SharedHit {
                    replies_to: Some(at),
                    ..hit
                }),
        );
    }
    Ok(hits)
}

/// The messages after a question in its conversation. They have the readers of the question.
async fn replies(c: &mut Conn, question: &SharedHit) -> Result<Vec<SharedHit>, DbError> {
    c.q(hit_sql!(
        "where m.conversation_id = $1 and m.seq > $2 and m.deleted_at is null and m.kind <> 'notice' and m.state <> 'streaming' \
         order by m.seq limit $3"
    ))
    .bind(question.fork_id.map_or(question.thread_id.0, |fork| fork.0))
    .bind(question.seq)
    .bind(REPLIES_MAX)
    .all()
    .await
}

/// The channel whose readers must be able to read each hit; `Some(None)` if only the requester reads the conversation.
/// `None` if the requester may not read it.
async fn shared_in(c: &mut Conn, readers: &Readers) -> Result<Option<Option<uuid::Uuid>>, DbError> {
    let row: Option<(String, bool, i64)> = c
        .q("select ch.kind, exists (select 1 from channel_members cm where cm.channel_id = ch.id and cm.user_id = $3), \
            (select count(*) from channel_members cm where cm.channel_id = ch.id) \
            from channels ch join members m on m.workspace_id = ch.workspace_id and m.user_id = $3 \
            where ch.id = $1 and ch.workspace_id = $2")
        .bind(readers.channel)
        .bind(readers.workspace)
        .bind(readers.requester)
        .opt()
        .await?;
    let Some((kind, is_in_it, people)) = row else {
        return Ok(None);
    };
    if kind != "public" && !is_in_it {
        return Ok(None);
    }
    if let Some(key) = readers.api_key {
        let scopes: Option<(Json<Vec<String>>,)> = c
            .q("select scopes from api_keys where id = $1 and user_id = $2 and workspace_id = $3")
            .bind(key)
            .bind(readers.requester)
            .bind(readers.workspace)
            .opt()
            .await?;
        if !scopes.is_some_and(|(scopes,)| scopes.0.iter().any(|scope| scope == "chat:read")) {
            return Ok(None);
        }
    }
    let is_alone = kind == "direct" && is_in_it && people == 1;
    Ok(Some((!is_alone).then_some(readers.channel.0)))
}
