//! Search on behalf of an agent's reply, limited to what the requester and every reader of the conversation can read.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use crate::{
    auth::{Scope as KeyScope, Scopes},
    chat::rows::message::{AuthorKind, Mention, MentionKind},
    db::{
        Conn, DbError, Json,
        dialect::search::{Match, Order, Scope, Texts},
        is_visible_channel, now,
    },
    ids::{ApiKeyId, BEFORE_ALL_SEQS, ChannelId, ForkId, MessageId, ThreadId, UserId, WorkspaceId},
    sql_with_seqs,
    time::Timestamp,
};

use super::any;

/// Maximum number of excerpts per search.
const EXCERPTS_MAX: usize = 6;
/// Number of best-matching messages from which excerpts are made.
const HITS_MAX: usize = 60;
/// Maximum numbers of messages in an excerpt: before the hit, and from the hit onward.
const BEFORE_MAX: i64 = 20;
const AFTER_MAX: i64 = 40;

/// Channel of a call through the API, which has no conversation and only its requester as a reader. No channel has this ID.
pub const NO_CHANNEL: ChannelId = ChannelId(Uuid::nil());

/// The conversation in which the hits are quoted, with its requester and the question.
#[derive(Debug, Clone, Copy)]
pub struct Readers {
    pub workspace: WorkspaceId,
    pub requester: UserId,
    /// API key that posted the question; must have the scope `chat:read`.
    pub api_key: Option<ApiKeyId>,
    pub channel: ChannelId,
    /// The question itself, which is never quoted.
    pub question: MessageId,
}

/// Part of a conversation around a hit.
#[derive(Debug, Clone)]
pub struct Excerpt {
    pub thread_id: ThreadId,
    pub fork_id: Option<ForkId>,
    pub channel_id: ChannelId,
    /// `None` for a direct channel.
    pub channel_name: Option<String>,
    pub title: String,
    /// People's messages that can be quoted, oldest first.
    pub messages: Vec<SharedMessage>,
}

/// A person's message.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct SharedMessage {
    pub message_id: MessageId,
    pub author_name: Option<String>,
    pub author_handle: Option<String>,
    pub content: String,
    pub created_at: Timestamp,
    seq: i64,
    author_type: AuthorKind,
    mentions: Json<Vec<Mention>>,
    /// True if the message invoked an agent.
    asks_agent: bool,
}

impl SharedMessage {
    /// Checks whether the message can be quoted. Messages by agents, messages that mention an agent, and questions that invoked an
    /// agent cannot be quoted.
    fn can_be_quoted(&self) -> bool {
        let mentions_agent = self
            .mentions
            .0
            .iter()
            .any(|mention| mention.kind == MentionKind::Agent);
        let is_question = openvibe_responder::is_question(&self.content);
        self.author_type == AuthorKind::Human
            && !mentions_agent
            && !(self.asks_agent && is_question)
    }
}

/// A message that a search found, and its conversation.
#[derive(sqlx::FromRow)]
struct Hit {
    seq: i64,
    conversation_id: Uuid,
    thread_id: ThreadId,
    channel_id: ChannelId,
    channel_name: Option<String>,
    /// Title of the fork or thread, or the beginning of an untitled thread's first message.
    title: Option<String>,
}

/// Excerpts around the messages that match a question best, ranked as by `search_messages`. Empty if the requester cannot read the
/// conversation.
pub async fn find_shared(
    c: &mut Conn,
    readers: &Readers,
    question: &str,
) -> Result<Vec<Excerpt>, DbError> {
    let Some(shared_in) = shared_in(c, readers).await? else {
        return Ok(Vec::new());
    };
    let scope = Scope {
        workspace: readers.workspace.0,
        user: readers.requester.0,
        shared_in,
        texts: Texts::Sources,
        except: Some(readers.question.0),
        part: None,
        above: BEFORE_ALL_SEQS,
        below: i64::MAX,
        since: None,
        until: None,
        order: Order::Newest,
    };
    let ranking = any::rank(c, &scope, &Match::default(), question, now()).await?;
    let best = ranking.best.iter().take(HITS_MAX);
    let seqs: Vec<i64> = best.map(|ranked| ranked.found.seq).collect();
    let hits = hits(c, readers, &seqs).await?;
    let mut found: Vec<Excerpt> = Vec::new();
    let mut read: HashSet<i64> = HashSet::new();
    for hit in seqs.iter().filter_map(|seq| hits.get(seq)) {
        if found.len() == EXCERPTS_MAX {
            break;
        }
        if read.contains(&hit.seq) {
            continue;
        }
        let mut messages = around(c, hit).await?;
        messages.retain(|message| read.insert(message.seq));
        messages
            .retain(|message| message.can_be_quoted() && message.message_id != readers.question);
        if messages.is_empty() {
            continue;
        }
        let is_fork = hit.conversation_id != hit.thread_id.0;
        found.push(Excerpt {
            thread_id: hit.thread_id,
            fork_id: is_fork.then_some(ForkId(hit.conversation_id)),
            channel_id: hit.channel_id,
            channel_name: hit.channel_name.clone(),
            title: hit.title.clone().unwrap_or_default(),
            messages,
        });
    }
    Ok(found)
}

async fn hits(c: &mut Conn, readers: &Readers, seqs: &[i64]) -> Result<HashMap<i64, Hit>, DbError> {
    let sql = sql_with_seqs!(
        c,
        "select m.seq, m.conversation_id, m.thread_id, m.channel_id, case when ch.kind = 'direct' then null else ch.name end as channel_name, \
         coalesce(f.title, t.title, substr(r.content, 1, 200)) as title from messages m join channels ch on ch.id = m.channel_id \
         join threads t on t.id = m.thread_id left join messages r on r.id = t.root_message_id \
         left join forks f on f.id = m.conversation_id where",
        "workspace_id" = 1,
        2,
        "order by m.seq"
    );
    let hits: Vec<Hit> = c
        .q(sql)
        .bind(readers.workspace)
        .bind(Json(seqs.to_vec()))
        .all()
        .await?;
    Ok(hits.into_iter().map(|hit| (hit.seq, hit)).collect())
}

macro_rules! around_sql {
    ($tail:literal) => {
        concat!(
            "select m.id as message_id, m.seq, u.name as author_name, h.handle as author_handle, m.content, m.created_at, m.author_type, m.mentions, \
             exists (select 1 from tasks k where k.trigger_message_id = m.id and k.kind = 'reply') as asks_agent \
             from messages m left join users u on m.author_type = 'human' and u.id = m.author_id \
             left join members h on m.author_type = 'human' and h.user_id = m.author_id and h.workspace_id = m.workspace_id \
             where m.conversation_id = $1 and m.deleted_at is null and m.kind = 'text' and m.state <> 'streaming' and ",
            $tail
        )
    };
}

/// Messages around a hit in the same conversation, which therefore have the same readers.
async fn around(c: &mut Conn, hit: &Hit) -> Result<Vec<SharedMessage>, DbError> {
    let mut messages: Vec<SharedMessage> = c
        .q(around_sql!("m.seq < $2 order by m.seq desc limit $3"))
        .bind(hit.conversation_id)
        .bind(hit.seq)
        .bind(BEFORE_MAX)
        .all()
        .await?;
    messages.reverse();
    let after: Vec<SharedMessage> = c
        .q(around_sql!("m.seq >= $2 order by m.seq limit $3"))
        .bind(hit.conversation_id)
        .bind(hit.seq)
        .bind(AFTER_MAX)
        .all()
        .await?;
    messages.extend(after);
    Ok(messages)
}

/// The channel whose readers must be able to read each hit; `Some(None)` if only the requester reads the conversation. `None` if the
/// requester cannot read it.
async fn shared_in(c: &mut Conn, readers: &Readers) -> Result<Option<Option<Uuid>>, DbError> {
    let is_alone = is_alone(c, readers).await?;
    Ok(is_alone.map(|is_alone| (!is_alone).then_some(readers.channel.0)))
}

/// Checks whether only the requester can ever read the conversation; `None` if the requester cannot read it.
pub async fn is_alone(c: &mut Conn, readers: &Readers) -> Result<Option<bool>, DbError> {
    let row: Option<(bool,)> = if readers.channel == NO_CHANNEL {
        c.q("select TRUE from members where workspace_id = $1 and user_id = $2")
            .bind(readers.workspace)
            .bind(readers.requester)
            .opt()
            .await?
    } else {
        c
        .q(concat!(
            "select ch.kind = 'direct' and not exists (select 1 from direct_members d where d.channel_id = ch.id and d.user_id <> $3) \
             and not exists (select 1 from channel_members cm where cm.channel_id = ch.id and cm.user_id <> $3) \
             and not exists (select 1 from bot_channels bc where bc.channel_id = ch.id) \
             from channels ch join members m on m.workspace_id = ch.workspace_id and m.user_id = $3 \
             where ch.id = $1 and ch.workspace_id = $2 and ",
            is_visible_channel!("ch", "$3")
        ))
        .bind(readers.channel)
        .bind(readers.workspace)
        .bind(readers.requester)
        .opt()
        .await?
    };
    let Some((is_alone,)) = row else {
        return Ok(None);
    };
    if let Some(key) = readers.api_key
        && !can_read_chats(c, key, (readers.workspace, readers.requester)).await?
    {
        return Ok(None);
    }
    Ok(Some(is_alone))
}

/// Checks whether a person's API key has the scope `chat:read`.
async fn can_read_chats(
    c: &mut Conn,
    key: ApiKeyId,
    (workspace, user): (WorkspaceId, UserId),
) -> Result<bool, DbError> {
    let scopes: Option<(Json<Scopes>,)> = c
        .q("select scopes from api_keys where id = $1 and user_id = $2 and workspace_id = $3")
        .bind(key)
        .bind(user)
        .bind(workspace)
        .opt()
        .await?;
    Ok(scopes.is_some_and(|(scopes,)| scopes.0.has(KeyScope::ChatRead)))
}
