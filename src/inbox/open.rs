//! Opening items.

use uuid::Uuid;

use super::{
    event::ItemOpened,
    item::{InboxReason, InboxState, InboxSubject, Place},
};
use crate::{
    db::{Conn, DbError, is_example, is_visible_channel, now},
    failpoint,
    ids::{ChannelId, InboxItemId, MessageId, UserId, WorkspaceId},
};

/// An item to open.
#[derive(Debug, Clone, Copy)]
pub struct NewItem {
    pub workspace: WorkspaceId,
    pub reason: InboxReason,
    pub subject: InboxSubject,
    /// The person or agent who caused the item.
    pub actor: Option<Uuid>,
    pub place: Option<Place>,
    /// Channel of an item without a conversation, such as that of a schedule.
    pub channel: Option<ChannelId>,
    pub message: Option<MessageId>,
    /// Number of the message or the event that the item follows; items are sorted by it.
    pub seq: i64,
    /// Number of the workspace's newest event.
    pub changed_seq: i64,
    /// True if nobody is notified.
    pub is_quiet: bool,
}

/// Treatment of an existing item with the same recipient, reason, and subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It opens again.
    Reopen,
    /// It opens again only if it is done.
    ReopenDone,
    /// It stays as it is.
    Keep,
}

/// Inserts an item, or opens the existing one if `$which` holds for it, if `$condition` holds; `$3` is the recipient, `$8` the
/// channel, and `$9` the thread. An example makes no items.
macro_rules! open_sql {
    ($condition:expr, $which:literal) => {
        concat!(
            "insert into inbox_items (id, workspace_id, recipient_id, reason, subject_type, subject_id, actor_id, channel_id, thread_id, \
             conversation_id, message_id, seq, changed_seq, state, until, is_quiet, created_at, changed_at) \
             select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $16, $13, null, $14, $15, $15 where not ",
            is_example!("$9"),
            " and ",
            $condition,
            " on conflict (recipient_id, reason, subject_id) do update set workspace_id = excluded.workspace_id, \
             subject_type = excluded.subject_type, state = excluded.state, until = null, seq = excluded.seq, \
             changed_seq = excluded.changed_seq, actor_id = excluded.actor_id, message_id = excluded.message_id, \
             is_quiet = excluded.is_quiet, created_at = excluded.created_at, changed_at = excluded.changed_at where ",
            $which
        )
    };
}

/// Condition under which a person gets an item: they are a member and can read its channel.
macro_rules! is_recipient {
    ($more:literal) => {
        concat!(
            "exists (select 1 from members mr where mr.workspace_id = $2 and mr.user_id = $3 and mr.status <> 'placeholder') \
             and ($8 is null or exists (select 1 from channels vc where vc.id = $8 and ",
            is_visible_channel!("vc", "$3"),
            "))",
            $more
        )
    };
}

async fn insert(
    c: &mut Conn,
    sql: &'static str,
    recipient: Uuid,
    item: &NewItem,
) -> Result<bool, DbError> {
    failpoint!("inbox_open");
    let n = c
        .q(sql)
        .bind(InboxItemId::new())
        .bind(item.workspace)
        .bind(recipient)
        .bind(item.reason)
        .bind(item.subject.kind)
        .bind(item.subject.id)
        .bind(item.actor)
        .bind(item.place.map(|place| place.channel).or(item.channel))
        .bind(item.place.map(|place| place.thread))
        .bind(item.place.map(Place::conversation))
        .bind(item.message)
        .bind(item.seq)
        .bind(InboxState::Open)
        .bind(item.is_quiet)
        .bind(now())
        .bind(item.changed_seq)
        .run()
        .await?;
    Ok(n == 1)
}

/// Opens an item of a person, unless they are its actor or cannot read its channel. Returns true if it was opened.
pub async fn open(c: &mut Conn, user: UserId, item: &NewItem) -> Result<bool, DbError> {
    open_with(c, user, item, Existing::Reopen).await
}

/// Like `open`, but an existing item opens again only in this case.
pub async fn open_with(
    c: &mut Conn,
    user: UserId,
    item: &NewItem,
    existing: Existing,
) -> Result<bool, DbError> {
    let sql = match existing {
        Existing::Reopen => open_sql!(is_recipient!(""), "TRUE"),
        Existing::ReopenDone => open_sql!(is_recipient!(""), "inbox_items.state = 'done'"),
        Existing::Keep => open_sql!(is_recipient!(""), "FALSE"),
    };
    open_by(c, sql, user, item).await
}

/// Like `open`, unless the person has already read the item's message.
pub async fn open_unread(c: &mut Conn, user: UserId, item: &NewItem) -> Result<bool, DbError> {
    let sql = open_sql!(
        is_recipient!(
            " and coalesce((select r.seq from reads r where r.user_id = $3 and r.conversation_id = $10), \
             (select cm.read_seq from channel_members cm where cm.user_id = $3 and cm.channel_id = $8 and $10 = $9), 0) < $12"
        ),
        "TRUE"
    );
    open_by(c, sql, user, item).await
}

async fn open_by(
    c: &mut Conn,
    sql: &'static str,
    user: UserId,
    item: &NewItem,
) -> Result<bool, DbError> {
    if item.actor == Some(user.0) {
        return Ok(false);
    }
    let is_open = insert(c, sql, user.0, item).await?;
    if is_open {
        c.notify(Box::new(ItemOpened {
            workspace: item.workspace,
            user,
            seq: item.changed_seq,
        }));
    }
    Ok(is_open)
}

/// Opens an item of all members of a channel.
pub async fn open_for_channel(
    c: &mut Conn,
    channel: ChannelId,
    item: &NewItem,
) -> Result<(), DbError> {
    insert(c, open_sql!("$8 = $3", "TRUE"), channel.0, item).await?;
    Ok(())
}

/// Opens an item of all members of a channel if one of them, other than its actor, has the level `all` there.
pub async fn open_for_subscribers(
    c: &mut Conn,
    channel: ChannelId,
    item: &NewItem,
) -> Result<(), DbError> {
    let sql = open_sql!(
        "exists (select 1 from channel_members cm where cm.channel_id = $8 and cm.channel_id = $3 and cm.level = 'all' \
         and cm.user_id <> $7)",
        "TRUE"
    );
    insert(c, sql, channel.0, item).await?;
    Ok(())
}
