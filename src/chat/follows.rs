//! Follow levels of conversations.
//!
//! Participating in a thread or a fork, or being assigned one of its action items, sets the level `all`; the server never changes a
//! level that a person has chosen. Messages of a muted thread (`none`) do not count as unread, but mentions in it do. A follower
//! has an inbox item while messages of others are neither read nor done.

use std::collections::HashMap;

use serde::Serialize;

use super::{ChatError, access};
use crate::{
    auth::{Actor, Caller, Scope},
    db::{Conn, DbError, dialect::hexadecimal_ids, is_example, now},
    ids::{ChannelId, ThreadId, UserId, WorkspaceId},
    inbox::Place,
    realtime::hub::Conversation,
    sql_with_ids,
    text_enum::text_enum,
};

/// Maximum number of followers of one conversation, which bounds the cost of notifying them.
const FOLLOWERS_MAX: i64 = 500;
/// Maximum number of muted threads in a snapshot.
const MUTED_MAX: i64 = 1000;

text_enum! {
    /// Notification level of a person for a conversation or a channel.
    pub enum FollowLevel {
        /// Every message; in a channel, every new thread.
        All = "all",
        /// Mentions only.
        Mentions = "mentions",
        /// Muted: its messages do not count as unread, but mentions do.
        None = "none",
    }
}

text_enum! {
    /// Reason for a follow level.
    pub enum FollowCause {
        Started = "started",
        /// Started the fork.
        Fork = "fork",
        Wrote = "wrote",
        Mentioned = "mentioned",
        /// Was assigned an action item of a resolution in the thread.
        Assigned = "assigned",
        /// Chosen by the person.
        Manual = "manual",
    }
}

/// A person's follow level in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Follow {
    pub level: FollowLevel,
    /// Null for the default level, `mentions`.
    pub cause: Option<FollowCause>,
}

impl Default for Follow {
    fn default() -> Self {
        Self {
            level: FollowLevel::Mentions,
            cause: None,
        }
    }
}

fn follow(level: FollowLevel, cause: FollowCause) -> Follow {
    Follow {
        level,
        cause: Some(cause),
    }
}

/// One person's follow levels in the threads of a channel that have a `last_seq` between `low` and `high`. Threads with the default
/// level are omitted.
pub(super) async fn of_threads(
    c: &mut Conn,
    user: UserId,
    channel: ChannelId,
    low: i64,
    high: i64,
) -> Result<HashMap<ThreadId, Follow>, DbError> {
    let rows: Vec<(ThreadId, FollowLevel, FollowCause)> = c
        .q("select f.conversation_id, f.level, f.cause from threads t join follows f on f.conversation_id = t.id and f.user_id = $1 \
            where t.channel_id = $2 and t.last_seq between $3 and $4")
        .bind(user)
        .bind(channel)
        .bind(low)
        .bind(high)
        .all()
        .await?;
    Ok(rows
        .into_iter()
        .map(|(thread, level, cause)| (thread, follow(level, cause)))
        .collect())
}

/// Threads of a workspace that a person muted, newest first.
pub(super) async fn list_muted(c: &mut Conn, actor: &Actor<'_>) -> Result<Vec<ThreadId>, DbError> {
    let rows: Vec<(ThreadId,)> = c
        .q("select f.conversation_id from follows f join threads t on t.id = f.conversation_id \
            where f.user_id = $1 and f.level = 'none' and t.workspace_id = $2 order by f.conversation_id desc limit $3")
        .bind(actor.user)
        .bind(actor.workspace)
        .bind(MUTED_MAX)
        .all()
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Sets the caller's follow level in a conversation.
///
/// # Errors
/// `ThreadNotFound` or `ForkNotFound`, also for people who have not joined the channel, `TooManyFollowers`, or any error from
/// `Actor::require`.
pub async fn set(
    c: &mut Conn,
    caller: &Caller,
    conversation: Conversation,
    level: FollowLevel,
) -> Result<(Follow, WorkspaceId), ChatError> {
    let access = access::find_conversation(c, caller, conversation).await?;
    let actor = &access.channel_access.actor;
    // The level is personal, so viewers can change it; an API key needs the scope for writing.
    actor.require(if actor.key.is_some() {
        Scope::ChatWrite
    } else {
        Scope::ChatRead
    })?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    if !access.channel_access.joined {
        return Err(match conversation {
            Conversation::Thread(_) => ChatError::ThreadNotFound,
            Conversation::Fork(_) => ChatError::ForkNotFound,
        });
    }
    let id = conversation.id();
    if level == FollowLevel::All {
        let others: i64 = c
            .q("select count(*) from (select 1 from follows where conversation_id = $1 and level = 'all' and user_id <> $2 limit $3) f")
            .bind(id)
            .bind(caller.user)
            .bind(FOLLOWERS_MAX)
            .value()
            .await?;
        if others >= FOLLOWERS_MAX {
            return Err(ChatError::TooManyFollowers(FOLLOWERS_MAX));
        }
    }
    let (seq, _) = crate::realtime::log::head(c, actor.workspace).await?;
    c.q(
        "insert into follows (conversation_id, thread_id, user_id, channel_id, level, cause, changed_seq, created_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (conversation_id, user_id) do update set level = excluded.level, \
         cause = excluded.cause, changed_seq = excluded.changed_seq",
    )
    .bind(id)
    .bind(access.thread)
    .bind(caller.user)
    .bind(access.channel_access.channel)
    .bind(level)
    .bind(FollowCause::Manual)
    .bind(seq)
    .bind(now())
    .run()
    .await?;
    let set = Follow {
        level,
        cause: Some(FollowCause::Manual),
    };
    Ok((set, actor.workspace))
}

/// Sets a channel member's level to `all`, unless they already have a level, the conversation has the maximum number of followers, or it is an
/// example, which makes no items.
/// `done_seq` is the number of the person's own message with which they begin to follow it, or 0.
pub(crate) async fn follow_as_member(
    c: &mut Conn,
    place: Place,
    user: UserId,
    cause: FollowCause,
    done_seq: i64,
) -> Result<(), DbError> {
    c.q(concat!(
        "insert into follows (conversation_id, thread_id, user_id, channel_id, level, cause, done_seq, created_at) \
         select $1, t.id, cm.user_id, cm.channel_id, 'all', $5, $6, $7 from channel_members cm \
         join threads t on t.id = $2 where cm.channel_id = $3 and cm.user_id = $4 \
         and not exists (select 1 from follows f where f.conversation_id = $1 and f.user_id = $4) \
         and (select count(*) from follows f where f.conversation_id = $1 and f.level = 'all') < $8 and not ",
        is_example!("t.id"),
        " on conflict (conversation_id, user_id) do nothing"
    ))
    .bind(place.conversation())
    .bind(place.thread)
    .bind(place.channel)
    .bind(user)
    .bind(cause)
    .bind(done_seq)
    .bind(now())
    .bind(FOLLOWERS_MAX)
    .run()
    .await?;
    Ok(())
}

/// Like `follow_as_member`, for the channel members that a message mentions by handle, in the order in which they joined.
pub(super) async fn follow_as_mentioned(
    c: &mut Conn,
    place: Place,
    people: &[UserId],
) -> Result<(), DbError> {
    let followers: i64 = c
        .q("select count(*) from follows where conversation_id = $1 and level = 'all'")
        .bind(place.conversation())
        .value()
        .await?;
    let sql = sql_with_ids!(
        c,
        "insert into follows (conversation_id, thread_id, user_id, channel_id, level, cause, created_at) \
         select $1, $2, cm.user_id, cm.channel_id, 'all', $4, $5 from channel_members cm where cm.channel_id = $3 \
         and not exists (select 1 from follows f where f.conversation_id = $1 and f.user_id = cm.user_id) and cm.user_id in",
        6,
        "order by cm.joined_at, cm.user_id limit $7 on conflict (conversation_id, user_id) do nothing"
    );
    c.q(sql)
        .bind(place.conversation())
        .bind(place.thread)
        .bind(place.channel)
        .bind(FollowCause::Mentioned)
        .bind(now())
        .bind(hexadecimal_ids(people.iter().map(|user| user.0)))
        .bind((FOLLOWERS_MAX - followers).max(0))
        .run()
        .await?;
    Ok(())
}
