//! HTTP routes for the events that bots get.

use axum::{Json, http::StatusCode};
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;

use super::hooks::{hide_bot, member_of_bot};
use crate::{
    auth::{AuthError, Caller, WorkspaceCaller},
    hooks::{
        self, BotDelivery, BotDeliveryState, BotSubscription, BotSubscriptionForm,
        BotSubscriptionWithSecret, HookError, NewSigningSecret,
    },
    http::{
        ApiError,
        error::ErrorBody,
        extract::{Body, NoFields, Path, Query},
        page::{Limit, List},
        routing::routes,
    },
    ids::{BotDeliveryId, BotId},
    outgoing::EventTestResult,
    secrets,
    server::{State, caller::Outgoing},
    time::Timestamp,
};

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(put_bot_subscription, delete_bot_subscription))
        .routes(routes!(rotate_bot_subscription_secret))
        .routes(routes!(test_bot_subscription))
        .routes(routes!(replay_bot_subscription))
        .routes(routes!(list_bot_deliveries))
        .routes(routes!(replay_bot_delivery))
}

/// Returns the caller as an admin of the bot's workspace, and the secret of its subscription, if it has one.
async fn subscriber(
    state: &State,
    caller: Caller,
    id: BotId,
) -> Result<(WorkspaceCaller, Option<String>), ApiError> {
    let member = member_of_bot(state, caller, id).await?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await.map_err(|e| hide_bot(e.into()))?;
    hooks::check_subscriber(&mut c, &actor, id).await?;
    let owner = hooks::secret_owner(id);
    let sealed = secrets::find(&mut c, &owner).await?;
    drop(actor);
    drop(c);
    let secret = sealed.map(|sealed| state.keyring.open(&owner, &sealed));
    let secret = secret.transpose().map_err(AuthError::from)?;
    Ok((member, secret))
}

/// Set the events that a bot gets
///
/// A new subscription begins with the next event, and its secret is shown once. Requests are signed after Standard Webhooks, or as by
/// Slack, whose `url_verification` the address must then answer.
#[utoipa::path(put, path = "/v1/bots/{id}/subscription", tag = "integrations",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = BotId, Path)),
    request_body(content = BotSubscriptionForm,
        example = json!({"url": "https://bot.example.com/events", "events": ["message.created"]})),
    responses((status = 200, body = BotSubscriptionWithSecret),
        (status = 422, description = "The address is not allowed, or did not answer the verification", body = ErrorBody)))]
async fn put_bot_subscription(
    axum::extract::State(state): St,
    caller: Caller,
    _: Outgoing,
    Path(id): Path<BotId>,
    Body(form): Body<BotSubscriptionForm>,
) -> Result<Json<BotSubscriptionWithSecret>, ApiError> {
    let settings = form.parse()?;
    let (member, known) = subscriber(&state, caller, id).await?;
    let new = if known.is_none() {
        let text = hooks::new_signing_secret();
        let sealed = state.keyring.seal(&hooks::secret_owner(id), &text);
        let sealed = sealed.map_err(AuthError::from)?;
        Some(NewSigningSecret { text, sealed })
    } else {
        None
    };
    let secret = known.or_else(|| new.as_ref().map(|new| new.text.clone()));
    let secret = secret.unwrap_or_default();
    state.events.check(&settings, &secret).await?;
    let put = member
        .write(&state.db, async move |c, actor| {
            hooks::put_subscription(c, actor, id, &settings, new.as_ref()).await
        })
        .await
        .map_err(hide_bot)?;
    state.events.wake();
    Ok(Json(put))
}

/// Stop sending events to a bot
///
/// Events that wait are deleted.
#[utoipa::path(delete, path = "/v1/bots/{id}/subscription", tag = "integrations",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = BotId, Path)), responses((status = 204)))]
async fn delete_bot_subscription(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<BotId>,
) -> Result<StatusCode, ApiError> {
    member_of_bot(&state, caller, id)
        .await?
        .write(&state.db, async move |c, actor| {
            hooks::delete_subscription(c, actor, id).await
        })
        .await
        .map_err(hide_bot)?;
    Ok(StatusCode::NO_CONTENT)
}

/// A new secret of a subscription.
#[derive(Debug, serde::Serialize, utoipa::ToSchema)]
struct NewSubscriptionSecret {
    /// `whsec_…`, which is shown only once.
    secret: String,
}

/// Replace the secret with which events are signed
///
/// For a day, events in the standard format are also signed with the previous one.
#[utoipa::path(post, path = "/v1/bots/{id}/subscription/secret", tag = "integrations",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = BotId, Path)), responses((status = 200, body = NewSubscriptionSecret)))]
async fn rotate_bot_subscription_secret(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<BotId>,
    Body(_): NoFields,
) -> Result<Json<NewSubscriptionSecret>, ApiError> {
    let (member, known) = subscriber(&state, caller, id).await?;
    let known = known.ok_or(HookError::NoSubscription)?;
    let secret = hooks::new_signing_secret();
    let seal = |owner: String, secret: &str| {
        let sealed = state.keyring.seal(&owner, secret);
        sealed.map_err(AuthError::from)
    };
    let new = seal(hooks::secret_owner(id), &secret)?;
    let previous = seal(hooks::previous_secret_owner(id), &known)?;
    member
        .write(&state.db, async move |c, actor| {
            hooks::rotate_signing_secret(c, actor, id, &new, &previous).await
        })
        .await
        .map_err(hide_bot)?;
    Ok(Json(NewSubscriptionSecret { secret }))
}

/// Send a test to a bot's address
///
/// In the standard format, it is an event of the type `test`, otherwise Slack's `url_verification`.
#[utoipa::path(post, path = "/v1/bots/{id}/subscription/test", tag = "integrations",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = BotId, Path)), responses((status = 200, body = EventTestResult)))]
async fn test_bot_subscription(
    axum::extract::State(state): St,
    caller: Caller,
    _: Outgoing,
    Path(id): Path<BotId>,
    Body(_): NoFields,
) -> Result<Json<EventTestResult>, ApiError> {
    subscriber(&state, caller, id).await?;
    Ok(Json(state.events.test(&state.db, id).await?))
}

/// First event that is sent again.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct BotReplayForm {
    since: Timestamp,
}

/// Send a bot the events since a time again
///
/// Events that are no longer in the log are left out. Each is a new delivery, unless it still waits.
#[utoipa::path(post, path = "/v1/bots/{id}/subscription/replay", tag = "integrations",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = BotId, Path)),
    request_body(content = BotReplayForm, example = json!({"since": "2026-11-29T08:00:00.000Z"})),
    responses((status = 200, body = BotSubscription)))]
async fn replay_bot_subscription(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<BotId>,
    Body(form): Body<BotReplayForm>,
) -> Result<Json<BotSubscription>, ApiError> {
    let subscription = member_of_bot(&state, caller, id)
        .await?
        .write(&state.db, async move |c, actor| {
            hooks::replay_subscription(c, actor, id, form.since).await
        })
        .await
        .map_err(hide_bot)?;
    Ok(Json(subscription))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct BotDeliveriesQuery {
    /// Only deliveries in this state.
    state: Option<BotDeliveryState>,
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// `next_cursor` from the previous page.
    #[param(value_type = Option<String>)]
    cursor: Option<BotDeliveryId>,
}

/// List the events that were sent to a bot or wait, newest first
///
/// They are kept for a week.
#[utoipa::path(get, path = "/v1/bots/{id}/subscription/deliveries", tag = "integrations",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = BotId, Path), BotDeliveriesQuery),
    responses((status = 200, body = List<BotDelivery>)))]
async fn list_bot_deliveries(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<BotId>,
    Query(query): Query<BotDeliveriesQuery>,
) -> Result<Json<List<BotDelivery>>, ApiError> {
    let limit = Limit::or(query.limit, 20);
    let member = member_of_bot(&state, caller, id).await?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await.map_err(|e| hide_bot(e.into()))?;
    let rows =
        hooks::list_deliveries(&mut c, &actor, id, query.state, query.cursor, limit + 1).await?;
    let list = List::new(rows, limit, false, |delivery| delivery.id.to_string());
    let next = list.last_id.clone().filter(|_| list.has_more);
    Ok(Json(list.continued_at(next)))
}

/// Send an event to a bot again
#[utoipa::path(post, path = "/v1/bots/{id}/subscription/deliveries/{delivery_id}/replay", tag = "integrations",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = BotId, Path), ("delivery_id" = BotDeliveryId, Path)),
    responses((status = 200, body = BotDelivery)))]
async fn replay_bot_delivery(
    axum::extract::State(state): St,
    caller: Caller,
    Path((id, delivery)): Path<(BotId, BotDeliveryId)>,
    Body(_): NoFields,
) -> Result<Json<BotDelivery>, ApiError> {
    let again = member_of_bot(&state, caller, id)
        .await?
        .write(&state.db, async move |c, actor| {
            hooks::replay_delivery(c, actor, id, delivery).await
        })
        .await
        .map_err(hide_bot)?;
    state.events.wake();
    Ok(Json(again))
}
