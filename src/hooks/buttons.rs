//! Buttons below messages of bots. A press is sent to the bot's program, like a command.

use std::time::Duration;

use super::{body::ButtonUse, error::HookError, responses::can_post_in};
use crate::{
    auth::Caller,
    chat::{
        ChatError, access,
        messages::{AuthorKind, Message, MessageButton, get_message},
    },
    db::{Conn, Db, DbError, now},
    ids::{BotId, MessageId, UserId},
};

/// Time within which a person's second press of a button does not count.
pub const PRESSED_AGAIN_AFTER: Duration = Duration::from_secs(3);

/// Checks whether the program of a bot gets presses of buttons.
///
/// # Errors
/// Only database errors.
pub async fn button_use(c: &mut Conn, bot: BotId) -> Result<ButtonUse, DbError> {
    let gets_presses: bool = c
        .q("select exists (select 1 from bot_subscriptions where bot_id = $1)")
        .bind(bot)
        .value()
        .await?;
    Ok(ButtonUse::of(gets_presses))
}

/// A button that a person presses.
#[derive(Debug, Clone)]
pub struct FoundButton {
    pub bot: BotId,
    pub message: Message,
    pub button: MessageButton,
}

/// Finds a button of a message in a conversation in which the caller can post.
///
/// # Errors
/// `MessageNotFound`, `MessageDeleted`, `ButtonNotFound`, `NoAnswer` for a bot that is paused or deleted or has left the channel, or any
/// error from `writing`.
pub async fn find_button(
    c: &mut Conn,
    caller: &Caller,
    message: MessageId,
    id: &str,
) -> Result<FoundButton, HookError> {
    access::message(c, caller, message).await?.writing()?;
    let message = get_message(c, message).await?;
    if message.deleted_at.is_some() {
        return Err(ChatError::MessageDeleted.into());
    }
    let buttons = message.metadata.buttons.iter();
    let button = buttons
        .filter(|_| message.author.kind == AuthorKind::Bot)
        .find(|button| button.id == id && button.url.is_none())
        .cloned();
    let author = message.author.id.as_deref();
    let bot = author.and_then(|id| BotId::parse(id).ok());
    let (Some(button), Some(bot)) = (button, bot) else {
        return Err(HookError::ButtonNotFound);
    };
    let is_active: bool = c
        .q("select exists (select 1 from bots where id = $1 and workspace_id = $2 and status = 'active')")
        .bind(bot)
        .bind(message.workspace_id)
        .value()
        .await?;
    if !is_active || !can_post_in(c, bot, message.channel_id).await? {
        return Err(HookError::NoAnswer(message.author.name.clone()));
    }
    Ok(FoundButton {
        bot,
        message,
        button,
    })
}

/// Records a press. Returns false if the person has just pressed the button.
///
/// # Errors
/// Only database errors.
pub async fn record_press(
    c: &mut Conn,
    message: MessageId,
    user: UserId,
    button: &str,
) -> Result<bool, DbError> {
    let at = now();
    let n = c
        .q("insert into button_presses (message_id, user_id, button_id, pressed_at) values ($1, $2, $3, $4) \
            on conflict (message_id, user_id, button_id) do update set pressed_at = excluded.pressed_at \
            where button_presses.pressed_at < $5")
        .bind(message)
        .bind(user)
        .bind(button.to_owned())
        .bind(at)
        .bind(at - PRESSED_AGAIN_AFTER)
        .run()
        .await?;
    Ok(n == 1)
}

/// Deletes presses that no longer matter.
///
/// # Errors
/// Only database errors.
pub async fn delete_old_presses(db: &Db) -> Result<(), DbError> {
    db.delete_expired(
        now() - PRESSED_AGAIN_AFTER,
        "select exists (select 1 from button_presses where pressed_at < $1)",
        "delete from button_presses where (message_id, user_id, button_id) in (select message_id, user_id, button_id from button_presses \
         where pressed_at < $1 order by pressed_at, message_id, user_id limit $2)",
    )
    .await?;
    Ok(())
}
