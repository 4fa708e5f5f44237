//! Follow levels of threads.
//!
//! Participating in a thread, or being assigned one of its action items, sets the level `all`; the server never changes a
//! level that a person has chosen. Messages of a muted thread (`none`) do not count as unread, but mentions in it do.

use std::collections::HashMap;

use serde::Serialize;

use super::{ChatError, access};
use crate::{
    auth::{Actor, Caller, Scope},
    db::{Conn, DbError, now},
    ids::{ChannelId, MessageId, ThreadId, UserId, WorkspaceId},
    text_enum::text_enum,
};

/// Maximum number of followers of one thread, which bounds the cost of notifying them.
const FOLLOWERS_MAX: i64 = 500;
/// Maximum number of muted threads in a snapshot.
const MUTED_MAX: i64 = 1000;

text_enum! {
    /// Notification level of a person for a thread.
    pub enum FollowLevel {
        /// Every message.
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
        Wrote = "wrote",
        Mentioned = "mentioned",
        /// Was assigned an action item of a resolution in the thread.
        Assigned = "assigned",
        /// Chosen by the person.
        Manual = "manual",
    }
}

/// A person's follow level in a thread.
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
        .q("select f.thread_id, f.level, f.cause from threads t join follows f on f.thread_id = t.id and f.user_id = $1 \
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
        .q("select f.thread_id from follows f join threads t on t.id = f.thread_id \
            where f.user_id = $1 and f.level = 'none' and t.workspace_id = $2 order by f.thread_id desc limit $3")
        .bind(actor.user)
        .bind(actor.workspace)
        .bind(MUTED_MAX)
        .all()
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Sets the caller's follow level in a thread.
///
/// # Errors
/// `ThreadNotFound`, `NotJoined`, `TooManyFollowers`, or any error from `Actor::require`.
pub async fn set(
    c: &mut Conn,
    caller: &Caller,
    thread: ThreadId,
    level: FollowLevel,
) -> Result<(Follow, WorkspaceId), ChatError> {
    let access = access::thread(c, caller, thread).await?;
    let actor = &access.channel_access.actor;
    // The level is personal, so viewers can change it; an API key needs the scope for writing.
    actor.require(if actor.key.is_some() {
        Scope::ChatWrite
    } else {
        Scope::ChatRead
    })?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    if !access.channel_access.joined {
        return Err(ChatError::NotJoined);
    }
    if level == FollowLevel::All {
        let others: i64 = c
            .q("select count(*) from (select 1 from follows where thread_id = $1 and level = 'all' and user_id <> $2 limit $3) f")
            .bind(thread)
            .bind(caller.user)
            .bind(FOLLOWERS_MAX)
            .value()
            .await?;
        if others >= FOLLOWERS_MAX {
            return Err(ChatError::TooManyFollowers(FOLLOWERS_MAX));
        }
    }
    c.q(
        "insert into follows (thread_id, user_id, channel_id, level, cause, created_at) values ($1, $2, $3, $4, $5, $6) \
         on conflict (thread_id, user_id) do update set level = excluded.level, cause = excluded.cause",
    )
    .bind(thread)
    .bind(caller.user)
    .bind(access.channel_access.channel)
    .bind(level)
    .bind(FollowCause::Manual.as_str())
    .bind(now())
    .run()
    .await?;
    let set = Follow {
        level,
        cause: Some(FollowCause::Manual),
    };
    Ok((set, actor.workspace))
}

/// Sets a channel member's level to `all`, unless they already have a level or the thread has the maximum number of followers.
pub(crate) async fn follow_as_member(
    c: &mut Conn,
    channel: ChannelId,
    thread: ThreadId,
    user: UserId,
    cause: FollowCause,
) -> Result<(), DbError> {
    c.q(
        "insert into follows (thread_id, user_id, channel_id, level, cause, created_at) \
         select t.id, cm.user_id, cm.channel_id, 'all', $4, $5 from channel_members cm \
         join threads t on t.id = $1 where cm.channel_id = $2 and cm.user_id = $3 \
         and not exists (select 1 from follows f where f.thread_id = $1 and f.user_id = $3) \
         and (select count(*) from follows f where f.thread_id = $1 and f.level = 'all') < $6 \
         on conflict (thread_id, user_id) do nothing",
    )
    .bind(thread)
    .bind(channel)
    .bind(user)
    .bind(cause)
    .bind(now())
    .bind(FOLLOWERS_MAX)
    .run()
    .await?;
    Ok(())
}

/// Like `follow_as_member`, for the channel members that a message mentions. The mentions must be
/// stored first.
pub(super) async fn follow_as_mentioned(
    c: &mut Conn,
    channel: ChannelId,
    thread: ThreadId,
    message: MessageId,
) -> Result<(), DbError> {
    let followers: i64 = c
        .q("select count(*) from follows where thread_id = $1 and level = 'all'")
        .bind(thread)
        .value()
        .await?;
    c.q(
        "insert into follows (thread_id, user_id, channel_id, level, cause, created_at) \
         select mm.thread_id, cm.user_id, cm.channel_id, 'all', $4, $5 from message_mentions mm \
         join channel_members cm on cm.channel_id = mm.channel_id and cm.user_id = mm.target_id \
         where mm.message_id = $1 and mm.thread_id = $2 and mm.channel_id = $3 \
         and not exists (select 1 from follows f where f.thread_id = $2 and f.user_id = mm.target_id) \
         order by cm.joined_at, cm.user_id limit $6 on conflict (thread_id, user_id) do nothing",
    )
    .bind(message)
    .bind(thread)
    .bind(channel)
    .bind(FollowCause::Mentioned.as_str())
    .bind(now())
    .bind((FOLLOWERS_MAX - followers).max(0))
    .run()
    .await?;
    Ok(())
}
