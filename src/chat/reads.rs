//! Read markers and unread counts.
//!
//! A thread is read up to its own marker in `reads`, or up to the marker of its channel in `channel_members` if it has none; messages
//! from before a person joined do not count. Messages of muted threads (`follows`) do not count, but mentions in them do. When a
//! channel has no unread messages, the markers of its threads are merged into the channel's marker, to limit the number of markers.

use std::collections::HashMap;

use serde::Serialize;
use uuid::Uuid;

use super::{
    ChatError,
    access::{self, ChannelAccess, ThreadAccess},
    follows::{Follow, FollowCause, FollowLevel},
};
use crate::{
    auth::Caller,
    db::{Conn, DbError, dialect::hexadecimal_ids},
    ids::{BEFORE_ALL_SEQS, ChannelId, ForkId, MessageId, ThreadId, UserId, WorkspaceId},
    inbox::close::{close_read, close_read_channel},
    realtime::log,
    sql_with_ids,
};

/// Maximum count for a channel or a thread, which limits the cost of counting.
pub const COUNTED_MAX: i64 = 1000;
/// Maximum number of threads, and of messages in each, that are read to check whether a channel is read.
const CHECKED_THREADS_MAX: i64 = 100;
const CHECKED_MESSAGES_MAX: i64 = 50;

/// Query that counts rows, up to `$3`, for each channel `cm` of the person `$1`, or only for channel `$2`.
macro_rules! counted_sql {
    ($from:literal) => {
        concat!(
            "select cm.channel_id, (select count(*) from (select 1 ",
            $from,
            " limit $3) x) from channel_members cm where cm.user_id = $1 and (cm.channel_id = $2 or $2 is null)"
        )
    };
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub unread_count: i64,
    pub mention_count: i64,
}

pub type ByChannel = HashMap<ChannelId, Counts>;

/// Response of `PUT /v1/threads/{id}/read`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ReadMark {
    pub thread_id: ThreadId,
    pub seq: i64,
    /// Number of unread messages; at most 1,000.
    pub unread_count: i64,
    /// Number of unread mentions; at most 1,000.
    pub mention_count: i64,
}

/// Numbers of unread messages and mentions in each channel of the person, or only in the channel `only`. Channels without any are
/// omitted.
pub async fn of_channels(
    c: &mut Conn,
    user: UserId,
    only: Option<ChannelId>,
) -> Result<ByChannel, DbError> {
    // Messages after the channel's marker, unless the thread's own marker is later.
    let unread = counted_sql!(
        "from threads t left join reads r on r.conversation_id = t.id and r.user_id = cm.user_id \
         join messages m on m.conversation_id = t.id \
           and m.seq > coalesce(r.seq, cm.read_seq) and m.seq > cm.joined_seq \
         where t.channel_id = cm.channel_id and t.last_seq > cm.read_seq and t.last_seq > coalesce(r.seq, cm.read_seq) \
           and m.kind <> 'notice' and m.deleted_at is null and m.author_id <> cm.user_id \
           and not exists (select 1 from follows f where f.user_id = cm.user_id and f.conversation_id = t.id and f.level = 'none')"
    );
    // Messages before the channel's marker, in threads whose own marker was moved back.
    let unread_again = counted_sql!(
        "from reads r join threads t on t.id = r.conversation_id and t.last_seq > r.seq and t.last_seq <= cm.read_seq \
         join messages m on m.conversation_id = t.id and m.seq > r.seq and m.seq > cm.joined_seq \
         where r.channel_id = cm.channel_id and r.user_id = cm.user_id and r.seq < cm.read_seq \
           and m.kind <> 'notice' and m.deleted_at is null and m.author_id <> cm.user_id \
           and not exists (select 1 from follows f where f.user_id = cm.user_id and f.conversation_id = t.id and f.level = 'none')"
    );
    let mentions = counted_sql!(
        "from message_mentions mm left join reads r on r.conversation_id = mm.thread_id and r.user_id = cm.user_id \
         join messages m on m.id = mm.message_id \
         where mm.channel_id = cm.channel_id and mm.target_id in (cm.user_id, cm.channel_id) \
           and mm.seq > cm.read_seq and mm.seq > cm.joined_seq and mm.seq > coalesce(r.seq, cm.read_seq) \
           and m.deleted_at is null and m.author_id <> cm.user_id"
    );
    let mentions_again = counted_sql!(
        "from reads r join message_mentions mm on mm.thread_id = r.conversation_id and mm.target_id in (cm.user_id, cm.channel_id) \
           and mm.seq > r.seq and mm.seq <= cm.read_seq and mm.seq > cm.joined_seq \
         join messages m on m.id = mm.message_id \
         where r.channel_id = cm.channel_id and r.user_id = cm.user_id and r.seq < cm.read_seq \
           and m.deleted_at is null and m.author_id <> cm.user_id"
    );
    let mut found: [Vec<(ChannelId, i64)>; 4] = Default::default();
    for (sql, found) in [unread, unread_again, mentions, mentions_again]
        .into_iter()
        .zip(&mut found)
    {
        *found = c
            .q(sql)
            .bind(user)
            .bind(only)
            .bind(COUNTED_MAX)
            .all()
            .await?;
    }
    let [unread, unread_again, mentions, mentions_again] = found;
    let mut counts = ByChannel::new();
    let some = |(_, n): &(ChannelId, i64)| *n > 0;
    for (channel, n) in unread.into_iter().chain(unread_again).filter(some) {
        let count = &mut counts.entry(channel).or_default().unread_count;
        *count = COUNTED_MAX.min(*count + n);
    }
    for (channel, n) in mentions.into_iter().chain(mentions_again).filter(some) {
        let count = &mut counts.entry(channel).or_default().mention_count;
        *count = COUNTED_MAX.min(*count + n);
    }
    Ok(counts)
}

/// Numbers of unread messages and mentions, and the read marker, for each thread of a channel. Returns only threads whose `last_seq`
/// is between `low` and `high`.
pub async fn of_threads(
    c: &mut Conn,
    user: UserId,
    channel: ChannelId,
    low: i64,
    high: i64,
) -> Result<HashMap<ThreadId, (Counts, i64)>, DbError> {
    let marks: Vec<(ThreadId, i64, i64, i64)> = c
        .q("select t.id, coalesce(r.seq, cm.read_seq), \
            (select count(*) from (select 1 from messages m where m.conversation_id = t.id \
               and m.seq > coalesce(r.seq, cm.read_seq) and m.seq > cm.joined_seq \
               and m.kind <> 'notice' and m.deleted_at is null and m.author_id <> cm.user_id \
               and not exists (select 1 from follows f where f.user_id = $1 and f.conversation_id = t.id and f.level = 'none') limit $5) u), \
            (select count(*) from (select 1 from message_mentions mm join messages m on m.id = mm.message_id \
               where mm.thread_id = t.id and mm.target_id in (cm.user_id, cm.channel_id) \
               and mm.seq > coalesce(r.seq, cm.read_seq) and mm.seq > cm.joined_seq \
               and m.deleted_at is null and m.author_id <> cm.user_id limit $5) w) \
            from threads t join channel_members cm on cm.channel_id = t.channel_id and cm.user_id = $1 \
            left join reads r on r.conversation_id = t.id and r.user_id = $1 \
            where t.channel_id = $2 and t.last_seq between $3 and $4")
        .bind(user)
        .bind(channel)
        .bind(low)
        .bind(high)
        .bind(COUNTED_MAX)
        .all()
        .await?;
    Ok(marks
        .into_iter()
        .map(|(thread, mark, unread_count, mention_count)| {
            let counts = Counts {
                unread_count,
                mention_count,
            };
            (thread, (counts, mark))
        })
        .collect())
}

/// The sequence number up to which a thread counts as read for a person, including messages from before they joined the channel;
/// `None` if the person is not in the channel.
pub async fn read_until(
    c: &mut Conn,
    user: UserId,
    thread: ThreadId,
) -> Result<Option<i64>, DbError> {
    let mark: Option<(i64, i64)> = c
        .q(
            "select coalesce(r.seq, cm.read_seq), cm.joined_seq from threads t \
            join channel_members cm on cm.channel_id = t.channel_id and cm.user_id = $1 \
            left join reads r on r.conversation_id = t.id and r.user_id = $1 where t.id = $2",
        )
        .bind(user)
        .bind(thread)
        .opt()
        .await?;
    Ok(mark.map(|(read, joined)| read.max(joined)))
}

/// The oldest unread message of a thread; `None` if everything is read or the person is not in the channel.
pub async fn first_unread(
    c: &mut Conn,
    user: UserId,
    thread: ThreadId,
) -> Result<Option<MessageId>, DbError> {
    let Some(read) = read_until(c, user, thread).await? else {
        return Ok(None);
    };
    let first: Option<(MessageId,)> = c
        .q("select m.id from messages m where m.conversation_id = $1 and m.seq > $2 \
            and m.kind <> 'notice' and m.deleted_at is null and m.author_id <> $3 order by m.seq limit 1")
        .bind(thread)
        .bind(read)
        .bind(user)
        .opt()
        .await?;
    Ok(first.map(|(id,)| id))
}

fn check_seq(seq: i64) -> Result<(), ChatError> {
    if seq < BEFORE_ALL_SEQS {
        return Err(ChatError::Invalid(
            "seq is lower than that of any message: use the seq of a message, or 0 to mark all as unread".to_owned(),
            "seq",
        ));
    }
    Ok(())
}

/// Moves a person's read marker in a thread forward or back, but not past the newest event.
///
/// # Errors
/// `ThreadNotFound`, `Invalid` for a number lower than that of any message, or any error from `reading`.
pub async fn mark_thread(
    c: &mut Conn,
    caller: &Caller,
    thread: ThreadId,
    seq: i64,
) -> Result<(ReadMark, WorkspaceId), ChatError> {
    check_seq(seq)?;
    let access = access::thread(c, caller, thread).await?.reading()?;
    let workspace = access.channel_access.actor.workspace;
    let channel = access.channel_access.channel;
    let seq = store_mark(c, &access, thread.0, seq).await?;
    let (last_seq,): (i64,) = c
        .q("select last_seq from threads where id = $1")
        .bind(thread)
        .one()
        .await?;
    let of_thread = of_threads(c, caller.user, channel, last_seq, last_seq).await?;
    let counts = of_thread
        .get(&thread)
        .map(|found| found.0)
        .unwrap_or_default();
    // If the whole channel is read, one marker for the channel suffices.
    if counts.unread_count == 0
        && access.channel_access.joined
        && seq >= last_seq
        && is_read(c, caller.user, channel).await?
    {
        mark_channel(c, workspace, caller.user, channel).await?;
    }
    let mark = ReadMark {
        thread_id: thread,
        seq,
        unread_count: counts.unread_count,
        mention_count: counts.mention_count,
    };
    Ok((mark, workspace))
}

/// Stores the marker of a conversation for a person who has joined its channel, and closes the items that it covers. Returns the
/// marker, which is not past the newest event.
async fn store_mark(
    c: &mut Conn,
    access: &ThreadAccess<'_>,
    conversation: Uuid,
    seq: i64,
) -> Result<i64, DbError> {
    let ChannelAccess {
        actor,
        channel,
        joined,
        ..
    } = &access.channel_access;
    let (head, _) = log::head(c, actor.workspace).await?;
    let seq = seq.min(head);
    if *joined {
        c.q(
            "insert into reads (user_id, conversation_id, thread_id, channel_id, seq) values ($1, $2, $3, $4, $5) \
             on conflict (user_id, conversation_id) do update set seq = excluded.seq",
        )
        .bind(actor.user)
        .bind(conversation)
        .bind(access.thread)
        .bind(*channel)
        .bind(seq)
        .run()
        .await?;
        close_read(c, actor.workspace, actor.user, conversation, seq).await?;
        note_read(c, actor.user, conversation, head).await?;
    }
    Ok(seq)
}

/// Response of `PUT /v1/forks/{id}/read`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ForkReadMark {
    pub fork_id: ForkId,
    pub seq: i64,
    /// Number of unread messages; at most 1,000, and 0 for people who do not follow the fork.
    pub unread_count: i64,
}

/// Moves a person's read marker in a fork forward or back, but not past the newest event.
///
/// # Errors
/// `ForkNotFound` also for people who have not joined the channel, `Invalid` for a number lower than that of any message, or any error
/// from `reading`.
pub async fn mark_fork(
    c: &mut Conn,
    caller: &Caller,
    fork: ForkId,
    seq: i64,
) -> Result<(ForkReadMark, WorkspaceId), ChatError> {
    check_seq(seq)?;
    let access = access::fork(c, caller, fork).await?.reading()?;
    if !access.channel_access.joined {
        return Err(ChatError::ForkNotFound);
    }
    let workspace = access.channel_access.actor.workspace;
    let seq = store_mark(c, &access, fork.0, seq).await?;
    let marks = of_forks(c, caller.user, &[fork]).await?;
    let mark = ForkReadMark {
        fork_id: fork,
        seq,
        unread_count: marks.get(&fork).map_or(0, |mark| mark.unread_count),
    };
    Ok((mark, workspace))
}

/// A person's marker and level in a fork.
#[derive(Debug, Clone, Copy, Default)]
pub struct ForkMark {
    pub follow: Follow,
    pub read_seq: i64,
    pub unread_count: i64,
    pub first_unread_id: Option<MessageId>,
}

#[derive(sqlx::FromRow)]
struct ForkMarkRow {
    id: ForkId,
    level: Option<FollowLevel>,
    cause: Option<FollowCause>,
    read_seq: i64,
    unread_count: i64,
    first_unread_id: Option<MessageId>,
}

/// A person's markers and levels in forks. Only followers have unread messages.
pub async fn of_forks(
    c: &mut Conn,
    user: UserId,
    forks: &[ForkId],
) -> Result<HashMap<ForkId, ForkMark>, DbError> {
    macro_rules! unread {
        ($columns:literal, $tail:literal) => {
            concat!(
                "(select ",
                $columns,
                " from messages m where m.conversation_id = k.id and fo.level = 'all' and m.seq > coalesce(r.seq, 0) and m.seq > cm.joined_seq \
                 and m.kind <> 'notice' and m.deleted_at is null and m.author_id <> $1 ",
                $tail,
                ")"
            )
        };
    }
    let sql = sql_with_ids!(
        c,
        concat!(
            "select k.id, fo.level, fo.cause, coalesce(r.seq, 0) as read_seq, (select count(*) from ",
            unread!("1", "limit $3"),
            " u) as unread_count, ",
            unread!("m.id", "order by m.seq limit 1"),
            " as first_unread_id from forks k \
             left join channel_members cm on cm.channel_id = k.channel_id and cm.user_id = $1 \
             left join reads r on r.conversation_id = k.id and r.user_id = $1 \
             left join follows fo on fo.conversation_id = k.id and fo.user_id = $1 where k.id in"
        ),
        2,
        ""
    );
    let rows: Vec<ForkMarkRow> = c
        .q(sql)
        .bind(user)
        .bind(hexadecimal_ids(forks.iter().map(|fork| fork.0)))
        .bind(COUNTED_MAX)
        .all()
        .await?;
    let marks = rows.into_iter().map(|row| {
        let follow = row.level.map(|level| Follow {
            level,
            cause: row.cause,
        });
        let mark = ForkMark {
            follow: follow.unwrap_or_default(),
            read_seq: row.read_seq,
            unread_count: row.unread_count,
            first_unread_id: row.first_unread_id,
        };
        (row.id, mark)
    });
    Ok(marks.collect())
}

/// Notes at a person's level in a conversation that their marker moved, which can close or open an inbox item.
async fn note_read(
    c: &mut Conn,
    user: UserId,
    conversation: Uuid,
    seq: i64,
) -> Result<(), DbError> {
    c.q("update follows set changed_seq = $3 where conversation_id = $1 and user_id = $2 and level = 'all'")
        .bind(conversation)
        .bind(user)
        .bind(seq)
        .run()
        .await?;
    Ok(())
}

/// Checks whether all threads of a channel are read, except for muted ones without unread mentions. Because this runs in a write, it
/// reads only some threads and messages, and returns false if there are more.
async fn is_read(c: &mut Conn, user: UserId, channel: ChannelId) -> Result<bool, DbError> {
    macro_rules! unread_sql {
        ($from:literal) => {
            concat!(
                "select t.id, cast(coalesce((select max(case when m.kind <> 'notice' and m.deleted_at is null and m.author_id <> $1 then 1 else 0 end) \
                   + case when count(*) = $4 then 1 else 0 end from (select m.kind, m.deleted_at, m.author_id from messages m \
                     where m.conversation_id = t.id and m.seq > t.mark order by m.seq limit $4) m), 0) as bigint) as unread from \
                 (select t.id, case when coalesce(r.seq, cm.read_seq) > cm.joined_seq then coalesce(r.seq, cm.read_seq) else cm.joined_seq end as mark \
                  from channel_members cm ",
                $from,
                " where cm.user_id = $1 and cm.channel_id = $2 and t.last_seq > cm.joined_seq and t.last_seq > coalesce(r.seq, cm.read_seq) \
                    and (not exists (select 1 from follows f where f.user_id = cm.user_id and f.conversation_id = t.id and f.level = 'none') \
                      or exists (select 1 from message_mentions mm where mm.thread_id = t.id and mm.target_id in (cm.user_id, cm.channel_id) \
                        and mm.seq > coalesce(r.seq, cm.read_seq) and mm.seq > cm.joined_seq)) limit $3) t"
            )
        };
    }
    let after_marker = unread_sql!(
        "join threads t on t.channel_id = cm.channel_id and t.last_seq > cm.read_seq \
         left join reads r on r.conversation_id = t.id and r.user_id = cm.user_id"
    );
    let before_marker = unread_sql!(
        "join reads r on r.channel_id = cm.channel_id and r.user_id = cm.user_id and r.seq < cm.read_seq \
         join threads t on t.id = r.conversation_id and t.last_seq <= cm.read_seq"
    );
    for sql in [after_marker, before_marker] {
        let threads: Vec<(ThreadId, i64)> = c
            .q(sql)
            .bind(user)
            .bind(channel)
            .bind(CHECKED_THREADS_MAX)
            .bind(CHECKED_MESSAGES_MAX)
            .all()
            .await?;
        let has_more = i64::try_from(threads.len()).is_ok_and(|n| n >= CHECKED_THREADS_MAX);
        if has_more || threads.iter().any(|(_, unread)| *unread > 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Marks every message of the channel as read.
pub async fn mark_channel(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    channel: ChannelId,
) -> Result<(), DbError> {
    let (head, _) = log::head(c, workspace).await?;
    // Replies in followed threads with messages after the old marker are now read.
    c.q(
        "update follows set changed_seq = $3 where channel_id = $1 and user_id = $2 and level = 'all' \
         and conversation_id in (select t.id from threads t join channel_members cm on cm.channel_id = t.channel_id and cm.user_id = $2 \
           where t.channel_id = $1 and t.last_seq > cm.read_seq)",
    )
    .bind(channel)
    .bind(user)
    .bind(head)
    .run()
    .await?;
    c.q("update channel_members set read_seq = $3 where channel_id = $1 and user_id = $2")
        .bind(channel)
        .bind(user)
        .bind(head)
        .run()
        .await?;
    c.q("delete from reads where channel_id = $1 and user_id = $2 and conversation_id = thread_id")
        .bind(channel)
        .bind(user)
        .run()
        .await?;
    close_read_channel(c, workspace, user, channel).await?;
    Ok(())
}
