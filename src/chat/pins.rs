//! Messages that people pinned in a channel.

use super::{
    ChatError, access,
    messages::announce_update,
    rows::message::{Message, MessageKind, get_message, list_by_ids, update_metadata},
};
use crate::{
    auth::Caller,
    db::{Conn, DbError, dialect, now},
    ids::{ChannelId, MessageId, UserId},
    time::Timestamp,
};

/// Maximum number of pinned messages of a channel.
pub const PINS_MAX: i64 = 100;

async fn insert(
    c: &mut Conn,
    channel: ChannelId,
    id: MessageId,
    at: Timestamp,
) -> Result<bool, DbError> {
    let count: i64 = c
        .q("select count(*) from pins where channel_id = $1")
        .bind(channel)
        .value()
        .await?;
    if count >= PINS_MAX {
        return Ok(false);
    }
    c.q("insert into pins (message_id, channel_id, pinned_at) values ($1, $2, $3) on conflict (message_id) do nothing")
        .bind(id)
        .bind(channel)
        .bind(at)
        .run()
        .await?;
    Ok(true)
}

/// Pins a message of the main line of a thread; idempotent. Appends `message.updated`.
///
/// # Errors
/// `MessageNotFound`, `MessageDeleted`, `NotEditable` for notices and messages of deep dives, `Invalid` for too many pins, or any error from
/// `writing`.
pub async fn pin(c: &mut Conn, caller: &Caller, id: MessageId) -> Result<Message, ChatError> {
    let access = access::message(c, caller, id).await?.writing()?;
    dialect::lock_workspace(c, access.channel_access.actor.workspace.0).await?;
    let mut message = get_message(c, id).await?;
    if message.deleted_at.is_some() {
        return Err(ChatError::MessageDeleted);
    }
    if message.fork_id.is_some() || message.kind == MessageKind::Notice {
        return Err(ChatError::NotEditable);
    }
    if message.metadata.pinned_by.is_some() {
        return Ok(message);
    }
    if !insert(c, message.channel_id, id, now()).await? {
        let text = format!("a channel can have at most {PINS_MAX} pinned messages: unpin one");
        return Err(ChatError::Invalid(text, "id"));
    }
    message.metadata.pinned_by = Some(caller.user);
    update_metadata(c, id, message.metadata.clone()).await?;
    announce_update(c, &message, access.channel_access.audience()).await?;
    Ok(message)
}

/// Unpins a message; idempotent. Appends `message.updated`.
///
/// # Errors
/// `MessageNotFound`, or any error from `writing`.
pub async fn unpin(c: &mut Conn, caller: &Caller, id: MessageId) -> Result<Message, ChatError> {
    let access = access::message(c, caller, id).await?.writing()?;
    dialect::lock_workspace(c, access.channel_access.actor.workspace.0).await?;
    let mut message = get_message(c, id).await?;
    if message.metadata.pinned_by.is_none() {
        return Ok(message);
    }
    delete(c, id).await?;
    message.metadata.pinned_by = None;
    update_metadata(c, id, message.metadata.clone()).await?;
    announce_update(c, &message, access.channel_access.audience()).await?;
    Ok(message)
}

pub(super) async fn delete(c: &mut Conn, id: MessageId) -> Result<(), DbError> {
    c.q("delete from pins where message_id = $1")
        .bind(id)
        .run()
        .await?;
    Ok(())
}

/// The pinned messages of a channel that the caller can read, pinned last first.
///
/// # Errors
/// `ChannelNotFound`, or an error from `Actor::require`.
pub async fn list_pins(
    c: &mut Conn,
    caller: &Caller,
    channel: ChannelId,
) -> Result<Vec<Message>, ChatError> {
    access::channel(c, caller, channel).await?.reading()?;
    let ids: Vec<(MessageId,)> = c
        .q("select message_id from pins where channel_id = $1 order by pinned_at desc, message_id desc limit $2")
        .bind(channel)
        .bind(PINS_MAX)
        .all()
        .await?;
    let ids: Vec<MessageId> = ids.into_iter().map(|row| row.0).collect();
    let mut messages = list_by_ids(c, ids.clone()).await?;
    messages.sort_by_key(|message| ids.iter().position(|id| *id == message.id));
    Ok(messages)
}

/// Pins an imported message, unless the channel has too many pins. Appends no event. The workspace must be locked.
///
/// # Errors
/// Only database errors.
pub async fn pin_imported(c: &mut Conn, id: MessageId, by: UserId) -> Result<(), ChatError> {
    let mut message = get_message(c, id).await?;
    if message.metadata.pinned_by.is_some() || message.deleted_at.is_some() {
        return Ok(());
    }
    if insert(c, message.channel_id, id, message.created_at).await? {
        message.metadata.pinned_by = Some(by);
        update_metadata(c, id, message.metadata).await?;
    }
    Ok(())
}
