//! How closely a person follows a thread.
//!
//! Taking part in a thread follows it (`all`); a level that the person chose is never changed by the server. The messages of a
//! muted thread (`none`) do not count as unread; mentions in it still do.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{
    ChatError,
    access::{self, ChannelAccess},
};
use crate::{
    auth::{Actor, Caller, Scope},
    db::{Conn, DbError, now},
    ids::{ChannelId, MessageId, ThreadId, UserId, WorkspaceId},
};

/// Followers of one thread: later features write one row for each of them.
const FOLLOWERS_MAX: i64 = 500;
/// Muted threads that a snapshot names.
const MUTED_MAX: i64 = 1000;

/// What a person wants to know of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FollowLevel {
    /// Every message.
    All,
    /// Mentions only.
    #[default]
    Mentions,
    /// Muted: its messages do not count as unread, mentions still do.
    None,
}

impl FollowLevel {
    fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Mentions => "mentions",
            Self::None => "none",
        }
    }

    fn from_stored(text: &str) -> Self {
        match text {
            "all" => Self::All,
            "none" => Self::None,
            _ => Self::Mentions,
        }
    }
}

/// Why a person has a level in a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FollowCause {
    Started,
    Wrote,
    Mentioned,
    /// The person chose it.
    Manual,
}

impl FollowCause {
    fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Wrote => "wrote",
            Self::Mentioned => "mentioned",
            Self::Manual => "manual",
        }
    }

    fn from_stored(text: &str) -> Self {
        match text {
            "started" => Self::Started,
            "wrote" => Self::Wrote,
            "mentioned" => Self::Mentioned,
            _ => Self::Manual,
        }
    }
}

/// A person's level in a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, utoipa::ToSchema)]
pub struct Follow {
    pub level: FollowLevel,
    /// Null while the level is the default, `mentions`.
    pub cause: Option<FollowCause>,
}

fn follow(level: &str, cause: &str) -> Follow {
    Follow {
        level: FollowLevel::from_stored(level),
        cause: Some(FollowCause::from_stored(cause)),
    }
}

/// Levels of one person in the threads of a channel whose `last_seq` lies between two numbers; a thread without one is absent.
pub(super) async fn of_threads(
    c: &mut Conn,
    user: UserId,
    channel: ChannelId,
    (low, high): (i64, i64),
) -> Result<HashMap<ThreadId, Follow>, DbError> {
    let rows: Vec<(ThreadId, String, String)> = c
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
        .map(|(thread, level, cause)| (thread, follow(&level, &cause)))
        .collect())
}

/// Threads of a workspace that a person muted, the newest first.
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

/// Sets the caller's level in a thread, by hand.
///
/// # Errors
/// `ThreadNotFound`, `NotJoined`, `TooManyFollowers`, or what `Actor::require` says.
pub async fn set(
    c: &mut Conn,
    caller: &Caller,
    thread: ThreadId,
    level: FollowLevel,
) -> Result<(Follow, WorkspaceId), ChatError> {
    let access = access::thread(c, caller, thread).await?;
    let actor = &access.place.actor;
    // A level is the person's own, so viewers can change theirs; a key needs the right to write.
    actor.require(if actor.key.is_some() {
        Scope::ChatWrite
    } else {
        Scope::ChatRead
    })?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    if !access.place.joined {
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
    .bind(access.place.channel)
    .bind(level.as_str())
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

/// Lets the author of a message follow its thread, unless they have a level there or the thread has all the followers it can
/// have.
pub(super) async fn follow_as_author(
    c: &mut Conn,
    place: &ChannelAccess<'_>,
    thread: ThreadId,
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
    .bind(place.channel)
    .bind(place.actor.user)
    .bind(cause.as_str())
    .bind(now())
    .bind(FOLLOWERS_MAX)
    .run()
    .await?;
    Ok(())
}

/// Lets the members of the channel whom a message names follow its thread, as `follow_as_author`. Its mentions are stored.
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
