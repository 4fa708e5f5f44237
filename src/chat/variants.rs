//! Variants of a chat, each of which runs one of its messages again.

use serde::Serialize;

use super::{ChatError, channels::is_chat_channel};
use crate::{
    db::{Conn, DbError},
    ids::{ChannelId, MessageId, ThreadId},
};

pub use super::rows::variant::{VariantBase, VariantOf, find_base};

/// Maximum number of variants of one message.
const OF_MESSAGE_MAX: i64 = 10;
/// Maximum number of variants of a chat. They are deleted together with it in one transaction.
const OF_CHAT_MAX: i64 = 200;

/// A variant of a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct ChatVariant {
    #[sqlx(rename = "id")]
    pub thread_id: ThreadId,
    /// The message of the first chat that the variant runs again.
    #[sqlx(rename = "variant_message_id")]
    pub message_id: MessageId,
}

/// Variants of a chat, oldest first.
///
/// # Errors
/// Only database errors.
pub async fn list(c: &mut Conn, chat: ThreadId) -> Result<Vec<ChatVariant>, DbError> {
    c.q("select id, variant_message_id from threads where first_thread_id = $1 order by id limit $2")
        .bind(chat)
        .bind(OF_CHAT_MAX)
        .all()
        .await
}

/// Variants of a chat, latest activity first.
///
/// # Errors
/// Only database errors.
pub async fn list_latest(
    c: &mut Conn,
    chat: ThreadId,
    limit: i64,
) -> Result<Vec<ThreadId>, DbError> {
    let found: Vec<(ThreadId,)> = c
        .q("select id from threads where first_thread_id = $1 order by last_seq desc limit $2")
        .bind(chat)
        .bind(limit)
        .all()
        .await?;
    Ok(found.into_iter().map(|(id,)| id).collect())
}

/// Checks that the threads of a channel are chats of one person with an agent.
///
/// # Errors
/// `NotAChat`.
pub(super) async fn check_is_chat(c: &mut Conn, channel: ChannelId) -> Result<(), ChatError> {
    let is_chat: bool = c
        .q(concat!(
            "select exists (select 1 from channels ch where ch.id = $1 and ",
            is_chat_channel!(),
            ")"
        ))
        .bind(channel)
        .value()
        .await?;
    if is_chat {
        Ok(())
    } else {
        Err(ChatError::NotAChat)
    }
}

/// Checks that a message of a chat can be run once more.
///
/// # Errors
/// `TooManyVariants`, `TooManyVariantsOfChat`.
pub(super) async fn check_room(
    c: &mut Conn,
    chat: ThreadId,
    message: MessageId,
) -> Result<(), ChatError> {
    let (of_message, of_chat): (i64, i64) = c
        .q(
            "select (select count(*) from threads where variant_message_id = $1), \
            (select count(*) from threads where first_thread_id = $2)",
        )
        .bind(message)
        .bind(chat)
        .one()
        .await?;
    if of_message >= OF_MESSAGE_MAX {
        return Err(ChatError::TooManyVariants(OF_MESSAGE_MAX));
    }
    if of_chat >= OF_CHAT_MAX {
        return Err(ChatError::TooManyVariantsOfChat(OF_CHAT_MAX));
    }
    Ok(())
}
