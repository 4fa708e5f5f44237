//! Subscriptions of bots to events: settings, and the position in the event log. `outgoing` reads the log and sends the events.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    error::HookError,
    events::{
        BotDelivery, BotDeliveryState, BotEventFormat, BotEventKind, BotSubscription,
        BotSubscriptionForm, BotSubscriptionWithSecret, BotTransport, SubscriptionStatus,
    },
    pause::{
        find_shown_subscription, find_subscription, previous_secret_owner, remove_subscription,
        resume_subscription, secret_owner,
    },
    row::{check_channel, get_bot, with_hidden},
};
use crate::{
    auth::{Actor, AuditAction, Scope, record_audit},
    db::{Conn, DbError, Json, dialect, now},
    ids::{BotDeliveryId, BotId, ChannelId, WorkspaceId},
    outbound::Url,
    realtime::log,
    secrets::{self, Sealed},
    time::Timestamp,
};

/// Maximum number of channels to which a subscription can be limited.
const CHANNELS_MAX: usize = 100;
const URL_BYTES_MAX: usize = 2000;
/// Time for which the previous secret still signs.
const PREVIOUS_FOR: Duration = Duration::from_hours(24);

/// Checked settings of a subscription.
#[derive(Debug, Clone)]
pub struct SubscriptionSettings {
    pub transport: BotTransport,
    pub url: Option<Url>,
    pub format: BotEventFormat,
    events: Vec<BotEventKind>,
    channels: Option<Vec<ChannelId>>,
    with_bots: bool,
}

impl BotSubscriptionForm {
    /// # Errors
    /// `Invalid`.
    pub fn parse(&self) -> Result<SubscriptionSettings, HookError> {
        let transport = self.transport.unwrap_or(BotTransport::Http);
        let url = match (transport, &self.url) {
            (BotTransport::Http, Some(text)) => Some(parse_url(text)?),
            (BotTransport::Socket, None) => None,
            (BotTransport::Http, None) => {
                let problem = "send `url`, the address of the program";
                return Err(HookError::Invalid(problem.to_owned(), "url"));
            }
            (BotTransport::Socket, Some(_)) => {
                let problem = "the program opens the socket: leave out `url`";
                return Err(HookError::Invalid(problem.to_owned(), "url"));
            }
        };
        let mut events = match &self.events {
            None => BotEventKind::ALL.to_vec(),
            Some(events) => events.clone(),
        };
        events.sort_unstable();
        events.dedup();
        if events.is_empty() {
            let problem = "name at least one event, or leave out `events` for all";
            return Err(HookError::Invalid(problem.to_owned(), "events"));
        }
        Ok(SubscriptionSettings {
            transport,
            url,
            format: self.format.unwrap_or(BotEventFormat::Standard),
            events,
            channels: self.channel_ids.clone(),
            with_bots: self.bots,
        })
    }
}

fn parse_url(text: &str) -> Result<Url, HookError> {
    let url = Url::parse(text).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
    });
    let url = url.filter(|url| text.len() <= URL_BYTES_MAX && url.as_str().len() <= URL_BYTES_MAX);
    url.ok_or_else(|| {
        let problem = format!(
            "`url` must be an address such as https://bot.example.com/events, without a password, of at most {URL_BYTES_MAX} bytes"
        );
        HookError::Invalid(problem, "url")
    })
}

/// A new secret, in the format of Standard Webhooks.
pub fn new_signing_secret() -> String {
    format!("whsec_{}", STANDARD.encode(rand::random::<[u8; 24]>()))
}

/// Records a change of a subscription as one of the bot.
async fn record(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: BotId,
    subscription: serde_json::Value,
) -> Result<(), HookError> {
    let bot = get_bot(c, actor.workspace, id).await?;
    let mut data = serde_json::json!({"name": bot.name});
    data["subscription"] = subscription;
    record_audit(c, actor, AuditAction::BotUpdated, id.to_string(), data).await?;
    Ok(())
}

/// The subscription of a bot, for an admin.
///
/// # Errors
/// `BotNotFound`, `NoSubscription`, or an error from `Actor::require`.
async fn get_subscription(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: BotId,
) -> Result<BotSubscription, HookError> {
    check_subscriber(c, actor, id).await?;
    let found = find_shown_subscription(c, actor, id).await?;
    found.ok_or(HookError::NoSubscription)
}

/// Checks the channels to which a subscription is limited, and adds the hidden ones of the known channels. `None` stands for all
/// channels of the bot.
async fn check_channels(
    c: &mut Conn,
    actor: &Actor<'_>,
    wanted: Option<&[ChannelId]>,
    known: Option<&BotSubscription>,
) -> Result<Option<Vec<ChannelId>>, HookError> {
    let Some(wanted) = wanted else {
        return Ok(None);
    };
    let known = known.and_then(|known| known.channel_ids.as_ref());
    let known = known.map(|known| known.0.as_slice()).unwrap_or_default();
    let all = with_hidden(c, actor, wanted, known).await?;
    if all.is_empty() || all.len() > CHANNELS_MAX {
        let problem = format!(
            "name 1 to {CHANNELS_MAX} channels, or leave out `channel_ids` for all channels of the bot"
        );
        return Err(HookError::Invalid(problem, "channel_ids"));
    }
    for channel in wanted {
        check_channel(c, actor, *channel).await?;
    }
    Ok(Some(all))
}

/// Checks that the actor can set the subscription of a bot.
///
/// # Errors
/// `BotNotFound`, or an error from `Actor::require`.
pub async fn check_subscriber(c: &mut Conn, actor: &Actor<'_>, id: BotId) -> Result<(), HookError> {
    actor.require(Scope::WorkspaceAdmin)?;
    get_bot(c, actor.workspace, id).await?;
    Ok(())
}

/// A secret that is not stored yet.
pub struct NewSigningSecret {
    pub text: String,
    pub sealed: Sealed,
}

/// Creates or changes the subscription of a bot, and ends its pause. A new one begins with the next event and needs a secret, which is
/// returned only if it was stored: another request can have created the subscription in the meantime.
///
/// # Errors
/// `BotNotFound`, `NoSubscription` if there is neither a subscription nor a secret, `ChannelNotFound`, `ChannelArchived`, `Invalid`, or an
/// error from `Actor::require`.
pub async fn put_subscription(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: BotId,
    settings: &SubscriptionSettings,
    secret: Option<&NewSigningSecret>,
) -> Result<BotSubscriptionWithSecret, HookError> {
    check_subscriber(c, actor, id).await?;
    dialect::lock_workspace(c, actor.workspace.0).await?;
    let known = find_subscription(c, id).await?;
    let channels = check_channels(c, actor, settings.channels.as_deref(), known.as_ref()).await?;
    let mut shown = None;
    if known.is_none() {
        let secret = secret.ok_or(HookError::NoSubscription)?;
        shown = Some(secret.text.clone());
        secrets::put(c, &secret_owner(id), &secret.sealed).await?;
        let (cursor, _) = log::head(c, actor.workspace).await?;
        c.q("insert into bot_subscriptions (bot_id, workspace_id, transport, format, events, with_bots, cursor_seq, missed, version, status, \
             created_at) values ($1, $2, $3, $4, $5, $6, $7, 0, 1, $8, $9)")
            .bind(id)
            .bind(actor.workspace)
            .bind(settings.transport)
            .bind(settings.format)
            .bind(Json(settings.events.clone()))
            .bind(settings.with_bots)
            .bind(cursor)
            .bind(SubscriptionStatus::Active)
            .bind(now())
            .run()
            .await?;
    }
    let origin = settings.url.as_ref();
    c.q("update bot_subscriptions set transport = $2, url = $3, origin = $4, format = $5, events = $6, channel_ids = $7, with_bots = $8, \
         failing_since = null, version = version + 1 where bot_id = $1")
        .bind(id)
        .bind(settings.transport)
        .bind(settings.url.as_ref().map(|url| url.as_str().to_owned()))
        .bind(origin.map(|url| url.origin().ascii_serialization()))
        .bind(settings.format)
        .bind(Json(settings.events.clone()))
        .bind(channels.map(Json))
        .bind(settings.with_bots)
        .run()
        .await?;
    resume_subscription(c, actor.workspace, id).await?;
    // A corrected address gets what waits for its next attempt.
    c.q("update bot_deliveries set due_at = $2 where bot_id = $1 and state = $3")
        .bind(id)
        .bind(now())
        .bind(BotDeliveryState::Queued)
        .run()
        .await?;
    let changed = find_shown_subscription(c, actor, id).await?;
    let changed = changed.ok_or(HookError::NoSubscription)?;
    let data = serde_json::json!({
        "transport": changed.transport, "format": changed.format, "events": changed.events, "channel_ids": changed.channel_ids,
        "bots": changed.bots, "origin": origin.map(|url| url.origin().ascii_serialization()),
    });
    record(c, actor, id, data).await?;
    Ok(BotSubscriptionWithSecret {
        subscription: changed,
        secret: shown,
    })
}

/// Deletes the subscription of a bot with what waits, and its secrets.
///
/// # Errors
/// `BotNotFound`, `NoSubscription`, or an error from `Actor::require`.
pub async fn delete_subscription(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: BotId,
) -> Result<(), HookError> {
    get_subscription(c, actor, id).await?;
    remove_subscription(c, actor.workspace, id).await?;
    record(c, actor, id, serde_json::Value::Null).await
}

/// Replaces the secret of a subscription. For a day, requests are also signed with the previous one.
///
/// # Errors
/// `BotNotFound`, `NoSubscription`, or an error from `Actor::require`.
pub async fn rotate_signing_secret(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: BotId,
    new: &Sealed,
    previous: &Sealed,
) -> Result<(), HookError> {
    get_subscription(c, actor, id).await?;
    secrets::put(c, &secret_owner(id), new).await?;
    secrets::put(c, &previous_secret_owner(id), previous).await?;
    c.q(
        "update bot_subscriptions set previous_until = $2, version = version + 1 where bot_id = $1",
    )
    .bind(id)
    .bind(now() + PREVIOUS_FOR)
    .run()
    .await?;
    record(c, actor, id, serde_json::json!({"secret": "rotated"})).await
}

/// Number of the first event of a workspace since a time. The times of events grow with their numbers, which have an index.
async fn first_since(
    c: &mut Conn,
    workspace: WorkspaceId,
    since: Timestamp,
) -> Result<Option<i64>, DbError> {
    let (head, pruned) = log::head(c, workspace).await?;
    let (mut low, mut high) = (pruned + 1, head + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let next: Option<(i64, Timestamp)> = c
            .q("select seq, ts from events where workspace_id = $1 and seq >= $2 order by seq limit 1")
            .bind(workspace)
            .bind(middle)
            .opt()
            .await?;
        match next {
            Some((seq, ts)) if ts < since => low = seq + 1,
            _ => high = middle,
        }
    }
    Ok((low <= head).then_some(low))
}

/// Moves a subscription back to the first event since a time, so that the bot gets these events again. What still waits is not sent twice.
///
/// # Errors
/// `BotNotFound`, `NoSubscription`, or an error from `Actor::require`.
pub async fn replay_subscription(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: BotId,
    since: Timestamp,
) -> Result<BotSubscription, HookError> {
    get_subscription(c, actor, id).await?;
    if let Some(first) = first_since(c, actor.workspace, since).await? {
        c.q("update bot_subscriptions set cursor_seq = $2, version = version + 1 where bot_id = $1 and cursor_seq >= $2")
            .bind(id)
            .bind(first - 1)
            .run()
            .await?;
    }
    record(c, actor, id, serde_json::json!({"replayed_since": since})).await?;
    get_subscription(c, actor, id).await
}

macro_rules! delivery_sql {
    ($tail:literal) => {
        concat!(
            "select d.id, d.event, d.seq, d.state, d.attempt, d.due_at, d.status, d.answer, d.created_at from bot_deliveries d ",
            $tail
        )
    };
}

/// Deliveries to a bot before `before`, newest first.
///
/// # Errors
/// `BotNotFound`, `NoSubscription`, or an error from `Actor::require`.
pub async fn list_deliveries(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: BotId,
    state: Option<BotDeliveryState>,
    before: Option<BotDeliveryId>,
    limit: i64,
) -> Result<Vec<BotDelivery>, HookError> {
    get_subscription(c, actor, id).await?;
    Ok(c.q(delivery_sql!(
        "where d.bot_id = $1 and ($2 is null or d.state = $2) and ($3 is null or d.id < $3) order by d.id desc limit $4"
    ))
    .bind(id)
    .bind(state)
    .bind(before)
    .bind(limit)
    .all()
    .await?)
}

/// Sends an event again: one that was sent or had failed for good, or one that waits for its next attempt.
///
/// # Errors
/// `BotNotFound`, `NoSubscription`, `DeliveryNotFound`, or an error from `Actor::require`.
pub async fn replay_delivery(
    c: &mut Conn,
    actor: &Actor<'_>,
    bot: BotId,
    id: BotDeliveryId,
) -> Result<BotDelivery, HookError> {
    get_subscription(c, actor, bot).await?;
    c.q("update bot_deliveries set state = $3, attempt = 0, due_at = $4 where id = $1 and bot_id = $2 and (due_at is null or state = $3)")
        .bind(id)
        .bind(bot)
        .bind(BotDeliveryState::Queued)
        .bind(now())
        .run()
        .await?;
    let found: Option<BotDelivery> = c
        .q(delivery_sql!("where d.id = $1 and d.bot_id = $2"))
        .bind(id)
        .bind(bot)
        .opt()
        .await?;
    found.ok_or(HookError::DeliveryNotFound)
}
