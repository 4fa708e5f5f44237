//! Conversations that a person follows, and their chats, latest activity first.

use serde::Serialize;
use uuid::Uuid;

use super::{list::InboxListObject, position};
use crate::{
    auth::{Actor, Caller, Scope},
    chat::{
        ChatError, forks,
        my_forks::{self, MyFork},
        threads::{self, MyThread},
        variants,
    },
    db::Conn,
    ids::{ForkId, ThreadId},
    text_enum::text_enum,
};

/// Cursor kind of the list.
const LIST: &str = "following";
/// Maximum number of variants listed with a chat.
const VARIANTS_MAX: i64 = 10;

text_enum! {
    /// Kind of a followed conversation.
    pub enum FollowedKind {
        Thread = "thread",
        Fork = "fork",
        /// A thread in a direct channel without other people.
        Chat = "chat",
    }
}

/// A followed thread or fork, or an own chat.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct FollowedConversation {
    pub kind: FollowedKind,
    /// The thread, or the chat; null for a fork.
    pub thread: Option<MyThread>,
    /// The fork; null for a thread or a chat.
    pub fork: Option<MyFork>,
    /// Variants of a chat, latest activity first; at most 10.
    pub variants: Vec<MyThread>,
}

/// A page of followed conversations.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct FollowingPage {
    #[schema(inline)]
    pub object: InboxListObject,
    /// Latest activity first.
    pub data: Vec<FollowedConversation>,
    pub has_more: bool,
    /// Value to send as `cursor` to get the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// Part of the list to return.
#[derive(Debug, Clone, Default)]
pub struct FollowingFilter {
    pub kind: Option<FollowedKind>,
    /// True for conversations with unread messages only.
    pub unread: bool,
    /// Text in the title, or in the first message of a thread without a title.
    pub text: Option<String>,
    pub cursor: Option<String>,
}

#[derive(sqlx::FromRow)]
struct FollowedRow {
    kind: FollowedKind,
    id: Uuid,
    seq: i64,
}

/// Condition for a thread `t` in a direct channel without other people than `$1`.
macro_rules! is_chat {
    () => {
        "exists (select 1 from channels ch where ch.id = t.channel_id and ch.kind = 'direct') \
         and not exists (select 1 from channel_members o where o.channel_id = t.channel_id and o.user_id <> $1)"
    };
}

/// A `like` pattern for texts that contain `text`.
fn pattern(text: &str) -> String {
    let mut pattern = "%".to_owned();
    for c in text.trim().to_lowercase().chars() {
        if matches!(c, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

/// A page of the caller's followed conversations and chats.
///
/// # Errors
/// `Invalid` for a foreign cursor, or any error from `Actor::require`.
pub async fn page(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    filter: &FollowingFilter,
    limit: i64,
) -> Result<FollowingPage, ChatError> {
    actor.require(Scope::ChatRead)?;
    let before = position::parse(LIST, filter.cursor.as_deref())?;
    let mut rows: Vec<FollowedRow> = c
        .q(concat!(
            "select x.kind, x.id, x.seq from (\
             select 'thread' as kind, t.id, t.last_seq as seq, t.channel_id, coalesce(t.title, o.content_plain, '') as title, \
               CAST(null AS BIGINT) as read_from \
               from follows f join threads t on t.id = f.conversation_id left join messages o on o.id = t.root_message_id \
               where f.user_id = $1 and f.level = 'all' and t.workspace_id = $2 and not (",
            is_chat!(),
            ") union all \
             select 'fork', k.id, case when k.last_seq > 0 then k.last_seq else coalesce(o.seq, 0) end, k.channel_id, k.title, 0 \
               from follows f join forks k on k.id = f.conversation_id left join messages o on o.id = k.message_id \
               where f.user_id = $1 and f.level = 'all' and k.workspace_id = $2 union all \
             select 'chat', t.id, coalesce((select max(v.last_seq) from threads v where v.first_thread_id = t.id and v.last_seq > t.last_seq), \
               t.last_seq), t.channel_id, coalesce(t.title, o.content_plain, ''), CAST(null AS BIGINT) \
               from channel_members own join threads t on t.channel_id = own.channel_id left join messages o on o.id = t.root_message_id \
               where own.user_id = $1 and t.workspace_id = $2 and t.first_thread_id is null and ",
            is_chat!(),
            ") x join channel_members cm on cm.channel_id = x.channel_id and cm.user_id = $1 \
             left join reads r on r.conversation_id = x.id and r.user_id = $1 \
             where (x.seq < $3 or (x.seq = $3 and x.id < $4)) and ($5 is null or x.kind = $5) \
             and (lower(x.title) like $6 escape '!' or (x.kind = $9 and exists (select 1 from threads v \
               left join messages o on o.id = v.root_message_id where v.first_thread_id = x.id \
               and lower(coalesce(v.title, o.content_plain, '')) like $6 escape '!'))) \
             and (not $7 or exists (select 1 from messages m where m.conversation_id = x.id \
               and m.seq > coalesce(r.seq, x.read_from, cm.read_seq) and m.seq > cm.joined_seq \
               and m.kind <> 'notice' and m.deleted_at is null and m.author_id <> $1) \
               or (x.kind = $9 and exists (select 1 from threads v left join reads vr on vr.conversation_id = v.id and vr.user_id = $1 \
               join messages m on m.conversation_id = v.id and m.seq > coalesce(vr.seq, cm.read_seq) and m.seq > cm.joined_seq \
               where v.first_thread_id = x.id and m.kind <> 'notice' and m.deleted_at is null and m.author_id <> $1))) \
             order by x.seq desc, x.id desc limit $8"
        ))
        .bind(actor.user)
        .bind(actor.workspace)
        .bind(before.seq)
        .bind(before.id)
        .bind(filter.kind)
        .bind(pattern(filter.text.as_deref().unwrap_or_default()))
        .bind(filter.unread)
        .bind(limit + 1)
        .bind(FollowedKind::Chat)
        .all()
        .await?;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > most;
    rows.truncate(most);
    let next_cursor = rows
        .last()
        .filter(|_| has_more)
        .map(|row| position::cursor(LIST, row.seq, row.id));
    let mut data = Vec::with_capacity(rows.len());
    for row in rows {
        let (thread, fork) = if row.kind == FollowedKind::Fork {
            let fork = forks::get_fork(c, ForkId(row.id)).await?;
            let found = my_forks::with_marks(c, actor.user, vec![fork]).await?;
            (None, found.into_iter().next())
        } else {
            let thread = threads::get_mine(c, caller, ThreadId(row.id)).await?;
            (Some(thread), None)
        };
        let mut own = Vec::new();
        if row.kind == FollowedKind::Chat {
            for variant in variants::list_latest(c, ThreadId(row.id), VARIANTS_MAX).await? {
                own.push(threads::get_mine(c, caller, variant).await?);
            }
        }
        data.push(FollowedConversation {
            kind: row.kind,
            thread,
            fork,
            variants: own,
        });
    }
    Ok(FollowingPage {
        object: InboxListObject,
        data,
        has_more,
        next_cursor,
    })
}
