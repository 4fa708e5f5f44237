//! Opening items.

use uuid::Uuid;

use super::{
    event::ItemOpened,
    item::{InboxReason, InboxState, InboxSubject, Place},
};
use crate::{
    db::{Conn, DbError, is_visible_channel, now},
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
    pub message: Option<MessageId>,
    /// Number of the event that the item follows.
    pub seq: i64,
    /// True if nobody is notified.
    pub is_quiet: bool,
}

/// Inserts an item, or opens the existing one, if `$condition` holds; `$3` is the recipient and `$8` the channel.
macro_rules! open_sql {
    ($condition:expr) => {
        concat!(
            "insert into inbox_items (id, workspace_id, recipient_id, reason, subject_type, subject_id, actor_id, channel_id, thread_id, \
             conversation_id, message_id, seq, changed_seq, state, until, is_quiet, created_at, changed_at) \
             select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12, $13, null, $14, $15, $15 where ",
            $condition,
            " on conflict (recipient_id, reason, subject_id) do update set state = excluded.state, until = null, seq = excluded.seq, \
             changed_seq = excluded.changed_seq, actor_id = excluded.actor_id, message_id = excluded.message_id, \
             is_quiet = excluded.is_quiet, created_at = excluded.created_at, changed_at = excluded.changed_at"
        )
    };
}

async fn insert(
    c: &mut Conn,
    sql: &'static str,
    recipient: Uuid,
    item: &NewItem,
) -> Result<bool, DbError> {
    let n = c
        .q(sql)
        .bind(InboxItemId::new())
        .bind(item.workspace)
        .bind(recipient)
        .bind(item.reason)
        .bind(item.subject.kind)
        .bind(item.subject.id)
        .bind(item.actor)
        .bind(item.place.map(|place| place.channel))
        .bind(item.place.map(|place| place.thread))
        .bind(item.place.map(Place::conversation))
        .bind(item.message)
        .bind(item.seq)
        .bind(InboxState::Open)
        .bind(item.is_quiet)
        .bind(now())
        .run()
        .await?;
    Ok(n == 1)
}

/// Opens an item of a person, unless they are its actor or cannot read its channel. Returns true if it was opened.
pub async fn open(c: &mut Conn, user: UserId, item: &NewItem) -> Result<bool, DbError> {
    if item.actor == Some(user.0) {
        return Ok(false);
    }
    let sql = open_sql!(concat!(
        "exists (select 1 from members mr where mr.workspace_id = $2 and mr.user_id = $3) \
         and ($8 is null or exists (select 1 from channels vc where vc.id = $8 and ",
        is_visible_channel!("vc", "$3"),
        "))"
    ));
    let is_open = insert(c, sql, user.0, item).await?;
    if is_open {
        c.notify(Box::new(ItemOpened {
            workspace: item.workspace,
            user,
            seq: item.seq,
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
    insert(c, open_sql!("$8 = $3"), channel.0, item).await?;
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
         and cm.user_id <> $7)"
    );
    insert(c, sql, channel.0, item).await?;
    Ok(())
}
