//! Variants of chats: a variant begins with the messages of the first chat before the one that it runs again, which stay in the first
//! chat, and continues with its own.

use serde::Serialize;

use crate::{
    db::{Conn, DbError},
    ids::{MessageId, ThreadId},
    realtime::hub::Conversation,
};

/// Chat and message that a variant runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct VariantOf {
    /// The first chat.
    pub thread_id: ThreadId,
    /// The message of the first chat that the variant runs again; the variant begins with the messages before it.
    pub message_id: MessageId,
}

impl VariantOf {
    pub(super) fn new(thread: Option<ThreadId>, message: Option<MessageId>) -> Option<Self> {
        let (thread_id, message_id) = thread.zip(message)?;
        Some(Self {
            thread_id,
            message_id,
        })
    }
}

/// Position in the first chat at which a variant continues with its own messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct VariantBase {
    #[sqlx(rename = "first_thread_id")]
    pub thread: ThreadId,
    #[sqlx(rename = "variant_message_id")]
    pub message: MessageId,
    /// The variant begins with the messages before this sequence number. All of its own messages are newer.
    #[sqlx(rename = "variant_seq")]
    pub seq: i64,
}

impl VariantBase {
    pub fn conversation(self) -> Conversation {
        Conversation::Thread(self.thread)
    }
}

/// Base of a variant of a chat; `None` for other conversations.
///
/// # Errors
/// Only database errors.
pub async fn find_base(
    c: &mut Conn,
    conversation: Conversation,
) -> Result<Option<VariantBase>, DbError> {
    let Conversation::Thread(thread) = conversation else {
        return Ok(None);
    };
    c.q("select first_thread_id, variant_message_id, variant_seq from threads where id = $1 and first_thread_id is not null")
        .bind(thread)
        .opt()
        .await
}
