//! Addresses at which programs answer commands and presses of buttons later, as with Slack's `response_url`.

use std::time::Duration;

use super::events::BotEventFormat;
use crate::{
    auth::{hash_token, new_token},
    db::{Conn, Db, DbError, is_in_visible_channel, now},
    ids::{BotId, ChannelId, MessageId, ThreadId, UserId, WorkspaceId},
};

/// Time for which an address is valid.
const VALID: Duration = Duration::from_mins(30);
/// Number of answers to one address.
const USES_MAX: i64 = 5;

/// Place and person of an answer that a program can give later.
#[derive(Debug, Clone, Copy)]
pub struct NewBotResponse {
    pub workspace: WorkspaceId,
    pub bot: BotId,
    /// The person who ran the command or pressed the button.
    pub user: UserId,
    pub channel: ChannelId,
    pub thread: Option<ThreadId>,
    /// Message with the button.
    pub message: Option<MessageId>,
}

/// An address that is valid.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct BotResponse {
    pub workspace_id: WorkspaceId,
    pub bot_id: BotId,
    pub bot_name: String,
    pub created_by: UserId,
    pub user_id: UserId,
    pub channel_id: ChannelId,
    pub thread_id: Option<ThreadId>,
    pub message_id: Option<MessageId>,
    pub format: BotEventFormat,
}

/// Creates an address, and returns its secret part.
///
/// # Errors
/// Only database errors.
pub async fn create_response(c: &mut Conn, new: NewBotResponse) -> Result<String, DbError> {
    let token = new_token();
    c.q("insert into bot_responses (token_hash, workspace_id, bot_id, user_id, channel_id, thread_id, message_id, uses, created_at) \
         values ($1, $2, $3, $4, $5, $6, $7, 0, $8)")
        .bind(hash_token(&token))
        .bind(new.workspace)
        .bind(new.bot)
        .bind(new.user)
        .bind(new.channel)
        .bind(new.thread)
        .bind(new.message)
        .bind(now())
        .run()
        .await?;
    Ok(token)
}

/// Checks whether a bot may post in a channel: it is in the channel, or has a webhook for it.
pub(super) async fn can_post_in(
    c: &mut Conn,
    bot: BotId,
    channel: ChannelId,
) -> Result<bool, DbError> {
    c.q("select exists (select 1 from bot_channels where bot_id = $1 and channel_id = $2) \
         or exists (select 1 from hooks h where h.bot_id = $1 and (h.channel_id = $2 or CAST(h.other_channel_ids AS TEXT) like $3))")
        .bind(bot)
        .bind(channel)
        .bind(format!("%{channel}%"))
        .value()
        .await
}

/// Finds an address that can still be used, of an active bot that may still post in the channel, and of a person who can still read it.
///
/// # Errors
/// Only database errors.
pub async fn find_response(c: &mut Conn, token: &str) -> Result<Option<BotResponse>, DbError> {
    let found: Option<BotResponse> = c
        .q(concat!(
            "select r.workspace_id, r.bot_id, u.name as bot_name, b.created_by, r.user_id, r.channel_id, r.thread_id, r.message_id, s.format \
             from bot_responses r join bots b on b.id = r.bot_id join users u on u.id = b.id join bot_subscriptions s on s.bot_id = b.id \
             join members m on m.workspace_id = r.workspace_id and m.user_id = r.user_id and m.status = 'active' \
             where r.token_hash = $1 and r.uses < $2 and r.created_at > $3 and b.status = 'active' and ",
            is_in_visible_channel!("r.channel_id", "r.user_id")
        ))
        .bind(hash_token(token))
        .bind(USES_MAX)
        .bind(now() - VALID)
        .opt()
        .await?;
    let Some(found) = found else {
        return Ok(None);
    };
    let can_post = can_post_in(c, found.bot_id, found.channel_id).await?;
    Ok(can_post.then_some(found))
}

/// Counts an answer. Returns false if the address can no longer be used.
///
/// # Errors
/// Only database errors.
pub async fn count_response(c: &mut Conn, token: &str) -> Result<bool, DbError> {
    let n = c
        .q("update bot_responses set uses = uses + 1 where token_hash = $1 and uses < $2 and created_at > $3")
        .bind(hash_token(token))
        .bind(USES_MAX)
        .bind(now() - VALID)
        .run()
        .await?;
    Ok(n == 1)
}

/// Makes a message the one that later answers replace or delete.
///
/// # Errors
/// Only database errors.
pub async fn store_response_message(
    c: &mut Conn,
    token: &str,
    message: MessageId,
) -> Result<(), DbError> {
    c.q("update bot_responses set message_id = $2 where token_hash = $1")
        .bind(hash_token(token))
        .bind(message)
        .run()
        .await?;
    Ok(())
}

/// Deletes addresses that can no longer be used.
///
/// # Errors
/// Only database errors.
pub async fn delete_old_responses(db: &Db) -> Result<(), DbError> {
    db.delete_expired(
        now() - VALID,
        "select exists (select 1 from bot_responses where created_at < $1)",
        "delete from bot_responses where token_hash in (select token_hash from bot_responses where created_at < $1 \
         order by created_at, token_hash limit $2)",
    )
    .await?;
    Ok(())
}
