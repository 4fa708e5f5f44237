//! Pauses, and the end, of subscriptions.

use std::collections::HashMap;

use super::{
    events::{BotDeliveryState, BotSubscription, SubscriptionPause, SubscriptionStatus},
    object::Bot,
};
use crate::{
    auth::{Actor, Scope, readable_channels},
    db::{Conn, DbError, now},
    ids::{BotId, ChannelId, UserId, WorkspaceId},
    inbox::{
        InboxSubject, InboxSubjectKind,
        notice::{self, Notice},
    },
    secrets,
};

/// Owner of a subscription's secret in `secrets`.
pub fn secret_owner(id: BotId) -> String {
    id.to_string()
}

/// Owner of the secret before the last rotation.
pub fn previous_secret_owner(id: BotId) -> String {
    format!("{id}:previous")
}

macro_rules! subscription_sql {
    ($tail:literal) => {
        concat!(
            "select bot_id, transport, url, format, events, channel_ids, with_bots, cursor_seq, status, paused_reason, missed, created_at \
             from bot_subscriptions ",
            $tail
        )
    };
}

/// A subscription, and the bot that has it.
#[derive(sqlx::FromRow)]
struct OwnedSubscription {
    bot_id: BotId,
    #[sqlx(flatten)]
    subscription: BotSubscription,
}

/// Sets the subscriptions of bots for an admin, with those of their channels that the admin can read.
///
/// # Errors
/// Only database errors.
pub(super) async fn add_subscriptions(
    c: &mut Conn,
    actor: &Actor<'_>,
    bots: &mut [Bot],
) -> Result<(), DbError> {
    if !actor.scopes.has(Scope::WorkspaceAdmin) {
        return Ok(());
    }
    let rows: Vec<OwnedSubscription> = c
        .q(subscription_sql!("where workspace_id = $1"))
        .bind(actor.workspace)
        .all()
        .await?;
    let limits = rows
        .iter()
        .filter_map(|row| row.subscription.channel_ids.as_ref());
    let named: Vec<ChannelId> = limits
        .flat_map(|channels| channels.0.iter().copied())
        .collect();
    let readable = readable_channels(c, actor.user, &named).await?;
    let mut by_bot = HashMap::new();
    for OwnedSubscription {
        bot_id,
        mut subscription,
    } in rows
    {
        if let Some(channels) = &mut subscription.channel_ids {
            channels.0.retain(|channel| readable.contains(channel));
        }
        by_bot.insert(bot_id, subscription);
    }
    for bot in bots {
        bot.subscription = by_bot.remove(&bot.id);
    }
    Ok(())
}

/// The subscription of a bot, if it has one.
///
/// # Errors
/// Only database errors.
pub(super) async fn find_subscription(
    c: &mut Conn,
    id: BotId,
) -> Result<Option<BotSubscription>, DbError> {
    c.q(subscription_sql!("where bot_id = $1"))
        .bind(id)
        .opt()
        .await
}

/// The subscription of a bot, if it has one, with those of its channels that the actor can read.
///
/// # Errors
/// Only database errors.
pub(super) async fn find_shown_subscription(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: BotId,
) -> Result<Option<BotSubscription>, DbError> {
    let mut found = find_subscription(c, id).await?;
    let channels = found.as_mut().and_then(|found| found.channel_ids.as_mut());
    if let Some(channels) = channels {
        let readable = readable_channels(c, actor.user, &channels.0).await?;
        channels.0.retain(|channel| readable.contains(channel));
    }
    Ok(found)
}

async fn delete_secrets(c: &mut Conn, id: BotId) -> Result<(), DbError> {
    secrets::delete(c, &secret_owner(id)).await?;
    secrets::delete(c, &previous_secret_owner(id)).await
}

/// Deletes the subscription of a bot, if it has one.
///
/// # Errors
/// Only database errors.
pub(super) async fn remove_subscription(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: BotId,
) -> Result<(), DbError> {
    notice::close_notice(c, workspace, id.0, None).await?;
    delete_secrets(c, id).await?;
    c.q("delete from bot_subscriptions where bot_id = $1")
        .bind(id)
        .run()
        .await?;
    Ok(())
}

/// Ends the pause of a subscription. What waits, and what had failed for good, is sent at once.
///
/// # Errors
/// Only database errors.
pub(super) async fn resume_subscription(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: BotId,
) -> Result<(), DbError> {
    let resumed = c
        .q("update bot_subscriptions set status = $2, paused_reason = null, failing_since = null, version = version + 1 \
            where bot_id = $1 and status <> $2")
        .bind(id)
        .bind(SubscriptionStatus::Active)
        .run()
        .await?;
    if resumed > 0 {
        c.q("update bot_deliveries set state = $2, attempt = 0, due_at = $3 where bot_id = $1 and (due_at is not null or state = $4)")
            .bind(id)
            .bind(BotDeliveryState::Queued)
            .bind(now())
            .bind(BotDeliveryState::Dead)
            .run()
            .await?;
        notice::close_notice(c, workspace, id.0, None).await?;
    }
    Ok(())
}

/// Pauses a subscription, and opens notices for the bot's creator and the admins.
///
/// # Errors
/// Only database errors.
pub async fn pause_subscription(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: BotId,
    reason: SubscriptionPause,
) -> Result<(), DbError> {
    let paused = c
        .q("update bot_subscriptions set status = $2, paused_reason = $3, version = version + 1 where bot_id = $1 and status <> $2")
        .bind(id)
        .bind(SubscriptionStatus::Paused)
        .bind(reason)
        .run()
        .await?;
    if paused == 0 {
        return Ok(());
    }
    let notice = Notice {
        workspace,
        subject: InboxSubject::new(InboxSubjectKind::Bot, id.0),
        actor: None,
        channel: None,
    };
    notice::open_for_admins(c, &notice).await?;
    let creator: Option<(UserId,)> = c
        .q("select m.user_id from bots b join members m on m.workspace_id = b.workspace_id and m.user_id = b.created_by where b.id = $1")
        .bind(id)
        .opt()
        .await?;
    if let Some((creator,)) = creator {
        notice::open_notice(c, creator, &notice).await?;
    }
    Ok(())
}
