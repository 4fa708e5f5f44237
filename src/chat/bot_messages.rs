//! Changes of a bot's messages by its program, which acts without a key when it answers a command or the press of a button.

use super::{
    ChatError,
    messages::store_edit,
    post::mentioned::{KEY_MENTIONS, resolve_mentions},
    rows::message::{AuthorKind, Message, MessageKind, MessageMetadata, find_message},
    text::Text,
};
use crate::{
    auth::{Actor, Role, Scopes},
    db::Conn,
    ids::{BotId, MessageId, UserId},
    tasks::queue,
};

/// Finds a message that a bot wrote, unless it was deleted.
///
/// # Errors
/// `MessageNotFound`, or `MessageDeleted`.
pub async fn get_own_of_bot(c: &mut Conn, bot: BotId, id: MessageId) -> Result<Message, ChatError> {
    let author = bot.to_string();
    let found = find_message(c, id).await?.filter(|message| {
        message.author.kind == AuthorKind::Bot
            && message.author.id.as_ref() == Some(&author)
            && message.kind == MessageKind::Text
    });
    let message = found.ok_or(ChatError::MessageNotFound)?;
    if message.deleted_at.is_some() {
        return Err(ChatError::MessageDeleted);
    }
    Ok(message)
}

/// Replaces the text, color, and buttons of a bot's message. The workspace must be locked, and the caller must have checked
/// that the bot may post in the channel.
///
/// # Errors
/// `MessageNotFound`, `MessageDeleted`, `QuotaExceeded`.
pub async fn replace_as_bot(
    c: &mut Conn,
    bot: BotId,
    id: MessageId,
    text: &Text,
    new: MessageMetadata,
) -> Result<Message, ChatError> {
    let message = get_own_of_bot(c, bot, id).await?;
    let actor = Actor {
        user: UserId(bot.0),
        name: "",
        workspace: message.workspace_id,
        role: Role::Viewer,
        scopes: Scopes::default(),
        key: None,
    };
    let mut found = resolve_mentions(c, &actor, message.channel_id, text, None).await?;
    found.limit_to(KEY_MENTIONS);
    let audience = queue::audience_of(c, message.channel_id).await?;
    let metadata = MessageMetadata {
        color: new.color,
        buttons: new.buttons,
        ..message.metadata.clone()
    };
    store_edit(c, &message, text, &found, metadata, audience).await
}
