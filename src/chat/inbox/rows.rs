//! Rows of an inbox from its three sources: items of the person, items of their channels, and replies in conversations that they
//! follow. All of them check at each read whether the person can see the channel.

use uuid::Uuid;

use super::position::Position;
use crate::{
    chat::follows::{FollowCause, FollowLevel},
    db::{Conn, DbError, dialect::hexadecimal_ids, is_in_visible_channel},
    ids::{ChannelId, InboxItemId, MessageId, ThreadId, UserId, WorkspaceId},
    inbox::{InboxReason, InboxState, InboxSubjectKind},
    sql_with_ids,
    time::Timestamp,
};

#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct Row {
    pub(super) id: InboxItemId,
    pub(super) reason: InboxReason,
    pub(super) state: InboxState,
    pub(super) until: Option<Timestamp>,
    pub(super) seq: i64,
    pub(super) changed_seq: i64,
    pub(super) channel_id: Option<ChannelId>,
    pub(super) thread_id: Option<ThreadId>,
    pub(super) conversation_id: Option<Uuid>,
    pub(super) message_id: Option<MessageId>,
    pub(super) subject_type: InboxSubjectKind,
    pub(super) subject_id: Uuid,
    pub(super) actor_id: Option<Uuid>,
    pub(super) is_quiet: bool,
    pub(super) created_at: Timestamp,
    pub(super) level: Option<FollowLevel>,
    pub(super) cause: Option<FollowCause>,
    pub(super) channel_level: Option<FollowLevel>,
    pub(super) read_seq: i64,
    /// Everything up to this number was marked as done; only for replies.
    pub(super) done_seq: i64,
    pub(super) joined_seq: i64,
}

/// Whose inbox is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader {
    pub(super) workspace: WorkspaceId,
    pub(super) user: UserId,
}

/// Columns of an item `i`, with the reader's level `f`, marker `r`, and membership `cm`.
macro_rules! item_columns {
    () => {
        "select i.id, i.reason, i.state, i.until, i.seq, i.changed_seq, i.channel_id, i.thread_id, i.conversation_id, i.message_id, \
         i.subject_type, i.subject_id, i.actor_id, i.is_quiet, i.created_at, f.level, f.cause, cm.level as channel_level, \
         coalesce(r.seq, case when i.conversation_id = i.thread_id then cm.read_seq end, 0) as read_seq, \
         cast(0 as bigint) as done_seq, coalesce(cm.joined_seq, 0) as joined_seq "
    };
}

/// Items of the person `$1` in the workspace `$2`. Only admins see notices about what they manage, and guests see none. Someone who is
/// no longer an admin sees the approvals of others only if they can still decide them.
macro_rules! own_sql {
    ($tail:literal) => {
        concat!(
            item_columns!(),
            "from inbox_items i left join channel_members cm on cm.channel_id = i.channel_id and cm.user_id = $1 \
             left join reads r on r.conversation_id = i.conversation_id and r.user_id = $1 \
             left join follows f on f.conversation_id = i.conversation_id and f.user_id = $1 \
             where i.recipient_id = $1 and i.workspace_id = $2 and (i.channel_id is null or ",
            is_in_visible_channel!("i.channel_id", "$1"),
            ") and (i.reason <> 'notice' or exists (select 1 from members ma where ma.workspace_id = $2 and ma.user_id = $1 \
               and (ma.role = 'admin' or ma.role <> 'guest' and i.subject_type not in ('tool', 'budget', 'workflow', 'schedule', 'member', 'server', \
                 'role', 'identity', 'identity_provider')))) \
             and (i.reason <> 'approval' or exists (select 1 from members ma where ma.workspace_id = $2 and ma.user_id = $1 and ma.role = 'admin') \
               or exists (select 1 from actions a join tasks t on t.id = a.task_id where a.id = i.subject_id and t.requested_by = $1) \
               or exists (select 1 from action_needs n where n.action_id = i.subject_id and (n.who = 'any_member' or n.user_id = $1))) ",
            $tail
        )
    };
}

/// Condition under which the item `i` of a channel is open for the member `$1`: it is unread, the level of the conversation (if a
/// person chose it) or of the channel includes it, and no item of their own replaces it.
macro_rules! is_open_for_member {
    () => {
        "i.seq > cm.joined_seq and i.seq > coalesce(r.seq, case when i.conversation_id = i.thread_id then cm.read_seq end, 0) \
         and i.actor_id <> $1 and (i.reason = 'group' and (case when f.cause = 'manual' then f.level else cm.level end) <> 'none' \
           or i.reason = 'thread' and (case when f.cause = 'manual' then f.level else cm.level end) = 'all') \
         and not exists (select 1 from inbox_items o where o.recipient_id = $1 \
           and o.reason in ('mention', 'direct', 'group', 'thread') and o.subject_id in (i.subject_id, i.message_id))"
    };
}

pub(super) use is_open_for_member;

/// Items of the channels of the person `$1` in the workspace `$2`.
macro_rules! channel_sql {
    ($tail:literal) => {
        concat!(
            item_columns!(),
            "from channel_members cm join inbox_items i on i.recipient_id = cm.channel_id \
             left join reads r on r.conversation_id = i.conversation_id and r.user_id = $1 \
             left join follows f on f.conversation_id = i.conversation_id and f.user_id = $1 \
             where cm.user_id = $1 and i.workspace_id = $2 and i.state = 'open' and ",
            is_open_for_member!(),
            " ",
            $tail
        )
    };
}

/// Replies in the conversations that the person `$1` follows in the workspace `$2`. The first argument selects messages of others
/// as `n`, of which the newest is the item's; the second one is a condition for the level `f`, the thread `t`, and the fork `k`.
macro_rules! reply_sql {
    ($messages:literal, $follows:literal, $tail:literal) => {
        concat!(
            "select * from (select f.conversation_id as id, 'reply' as reason, \
             case when m.seq <= f.done_seq or m.seq <= coalesce(r.seq, case when f.conversation_id = f.thread_id then cm.read_seq end, 0) \
               or f.level <> 'all' or (cm.level = 'none' and f.cause <> 'manual') \
               or exists (select 1 from inbox_items o where o.recipient_id = $1 and o.conversation_id = f.conversation_id \
                 and (o.state = 'open' or o.state = 'later' and o.reason <> 'saved' and o.seq >= m.seq)) \
               or exists (select 1 from inbox_items i where i.recipient_id = f.channel_id and i.conversation_id = f.conversation_id \
                 and i.state = 'open' and ",
            is_open_for_member!(),
            ") then 'done' when f.until is not null then 'later' else 'open' end as state, f.until, m.seq, \
             case when f.changed_seq > m.seq then f.changed_seq else m.seq end as changed_seq, f.channel_id, f.thread_id, f.conversation_id, \
             m.id as message_id, case when f.conversation_id = f.thread_id then 'thread' else 'fork' end as subject_type, \
             f.conversation_id as subject_id, m.author_id as actor_id, FALSE as is_quiet, m.created_at, f.level, f.cause, \
             cm.level as channel_level, coalesce(r.seq, case when f.conversation_id = f.thread_id then cm.read_seq end, 0) as read_seq, \
             f.done_seq, cm.joined_seq \
             from follows f join threads t on t.id = f.thread_id \
             join channel_members cm on cm.channel_id = f.channel_id and cm.user_id = f.user_id \
             left join forks k on k.id = f.conversation_id \
             left join reads r on r.conversation_id = f.conversation_id and r.user_id = f.user_id \
             join messages m on m.id = (select n.id from messages n where n.conversation_id = f.conversation_id \
               and n.seq > cm.joined_seq and n.author_type = 'human' and n.author_id <> $1 and n.kind <> 'notice' \
               and n.deleted_at is null ",
            $messages,
            " order by n.seq desc limit 1) \
             where f.user_id = $1 and t.workspace_id = $2 ",
            $follows,
            ") i ",
            $tail
        )
    };
}

/// Filter of a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filter {
    pub(super) state: InboxState,
    pub(super) reason: Option<InboxReason>,
    pub(super) channel: Option<ChannelId>,
}

/// A page of rows, newest first.
pub(super) async fn list(
    c: &mut Conn,
    reader: Reader,
    filter: Filter,
    before: Position,
    limit: i64,
) -> Result<Vec<Row>, DbError> {
    let own = own_sql!(
        "and i.state = $3 and (i.seq < $4 or (i.seq = $4 and i.id < $5)) and ($6 is null or i.reason = $6) \
         and ($7 is null or i.channel_id = $7) order by i.seq desc, i.id desc limit $8"
    );
    let channel = channel_sql!(
        "and i.state = $3 and (i.seq < $4 or (i.seq = $4 and i.id < $5)) and ($6 is null or i.reason = $6) \
         and ($7 is null or i.channel_id = $7) order by i.seq desc, i.id desc limit $8"
    );
    let reply = reply_sql!(
        "and n.seq > f.done_seq and n.seq > coalesce(r.seq, case when f.conversation_id = f.thread_id then cm.read_seq end, 0)",
        "and f.level = 'all' and coalesce(k.last_seq, t.last_seq) > f.done_seq \
         and coalesce(k.last_seq, t.last_seq) > coalesce(r.seq, case when f.conversation_id = f.thread_id then cm.read_seq end, 0)",
        "where i.state = $3 and (i.seq < $4 or (i.seq = $4 and i.id < $5)) and ($6 is null or i.reason = $6) \
         and ($7 is null or i.channel_id = $7) order by i.seq desc, i.id desc limit $8"
    );
    // A reply that was read, or is left out, counts as done, but only one that the person marked as done is listed: up to its message,
    // which no other item is about.
    let done_reply = reply_sql!(
        "",
        "and f.level = 'all' and f.done_seq > 0",
        "where i.state = $3 and i.seq = i.done_seq \
         and not exists (select 1 from inbox_items o where o.recipient_id = $1 and o.message_id = i.message_id) \
         and (i.seq < $4 or (i.seq = $4 and i.id < $5)) and ($6 is null or i.reason = $6) \
         and ($7 is null or i.channel_id = $7) order by i.seq desc, i.id desc limit $8"
    );
    let reply = if filter.state == InboxState::Done {
        done_reply
    } else {
        reply
    };
    let mut rows = Vec::new();
    for sql in [own, channel, reply] {
        let found: Vec<Row> = c
            .q(sql)
            .bind(reader.user)
            .bind(reader.workspace)
            .bind(filter.state)
            .bind(before.seq)
            .bind(before.id)
            .bind(filter.reason)
            .bind(filter.channel)
            .bind(limit)
            .all()
            .await?;
        rows.extend(found);
    }
    rows.sort_unstable_by_key(|row| std::cmp::Reverse((row.seq, row.id)));
    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(rows)
}

/// Rows that changed at or after an event, at most `limit` of each source. Replies that are not open any longer are included.
pub(super) async fn changed(
    c: &mut Conn,
    reader: Reader,
    since: i64,
    limit: i64,
) -> Result<Vec<Row>, DbError> {
    let own = own_sql!("and i.changed_seq >= $3 order by i.changed_seq limit $4");
    let channel = channel_sql!("and i.changed_seq >= $3 order by i.changed_seq limit $4");
    let reply = reply_sql!(
        "",
        "and (f.changed_seq >= $3 or coalesce(k.last_seq, t.last_seq) >= $3)",
        "order by i.changed_seq limit $4"
    );
    let mut rows = Vec::new();
    for sql in [own, channel, reply] {
        let found: Vec<Row> = c
            .q(sql)
            .bind(reader.user)
            .bind(reader.workspace)
            .bind(since)
            .bind(limit)
            .all()
            .await?;
        rows.extend(found);
    }
    rows.sort_unstable_by_key(|row| (row.changed_seq, row.id));
    Ok(rows)
}

/// The rows with these IDs that the person can see, in no particular order. An own row replaces that of a channel.
pub(super) async fn find(
    c: &mut Conn,
    reader: Reader,
    ids: &[InboxItemId],
) -> Result<Vec<Row>, DbError> {
    let own = sql_with_ids!(c, own_sql!("and i.id in"), 3, "");
    let channel = sql_with_ids!(c, channel_sql!("and i.id in"), 3, "");
    let reply = sql_with_ids!(c, reply_sql!("", "", "where i.id in"), 3, "");
    let mut rows: Vec<Row> = Vec::new();
    for sql in [own, channel, reply] {
        let found: Vec<Row> = c
            .q(sql)
            .bind(reader.user)
            .bind(reader.workspace)
            .bind(hexadecimal_ids(ids.iter().map(|id| id.0)))
            .all()
            .await?;
        rows.extend(found);
    }
    Ok(rows)
}

/// Number of open items, up to a maximum for each source.
pub(super) async fn count_open(c: &mut Conn, reader: Reader, max: i64) -> Result<i64, DbError> {
    macro_rules! count {
        ($sql:expr) => {
            concat!("select count(*) from (", $sql, " limit $3) x")
        };
    }
    let own = count!(own_sql!("and i.state = 'open'"));
    let channel = count!(channel_sql!(""));
    let reply = count!(reply_sql!(
        "and n.seq > f.done_seq and n.seq > coalesce(r.seq, case when f.conversation_id = f.thread_id then cm.read_seq end, 0)",
        "and f.level = 'all' and coalesce(k.last_seq, t.last_seq) > f.done_seq \
         and coalesce(k.last_seq, t.last_seq) > coalesce(r.seq, case when f.conversation_id = f.thread_id then cm.read_seq end, 0)",
        "where i.state = 'open'"
    ));
    let mut sum = 0;
    for sql in [own, channel, reply] {
        let n: i64 = c
            .q(sql)
            .bind(reader.user)
            .bind(reader.workspace)
            .bind(max)
            .value()
            .await?;
        sum += n;
    }
    Ok(sum.min(max))
}

/// Number of messages behind a reply, up to a maximum.
pub(super) async fn count_messages(
    c: &mut Conn,
    user: UserId,
    row: &Row,
    max: i64,
) -> Result<i64, DbError> {
    c.q("select count(*) from (select 1 from messages n where n.conversation_id = $1 and n.seq > $2 and n.author_type = 'human' \
         and n.author_id <> $3 and n.kind <> 'notice' and n.deleted_at is null limit $4) x")
        .bind(row.conversation_id)
        .bind(row.read_seq.max(row.done_seq).max(row.joined_seq))
        .bind(user)
        .bind(max)
        .value()
        .await
}
