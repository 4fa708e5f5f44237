//! HTTP routes for notifications: devices, and settings.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;

use super::agents::tagged;
use crate::{
    auth::Caller,
    db::Conn,
    http::{
        ApiError,
        error::ErrorBody,
        extract::{Body, IfMatch, NoFields, Path, Query, RawBody},
        routing::routes,
    },
    ids::DeviceId,
    push::{
        PushError, PushStatus, PushTestResult, answers,
        device::{self, PushDevice, PushDeviceForm},
        settings::{self, NotificationSettings, NotificationSettingsForm},
    },
    server::{State, caller::Outgoing},
};

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(get_push))
        .routes(routes!(add_push_device))
        .routes(routes!(delete_push_device))
        .routes(routes!(test_push_device))
        .routes(routes!(
            get_notification_settings,
            put_notification_settings
        ))
        .routes(routes!(unsubscribe_from_mail))
}

/// Get the key for push subscriptions, your devices, and your last notifications
#[utoipa::path(get, path = "/v1/push", tag = "inbox",
    security(("session" = ["viewer"])),
    responses((status = 200, body = PushStatus)))]
async fn get_push(
    axum::extract::State(state): St,
    caller: Caller,
) -> Result<Json<PushStatus>, ApiError> {
    let session = caller.require_session()?;
    let key = state.pusher.public_key(&state.db).await?;
    let mut c = state.db.read().await?;
    Ok(Json(PushStatus {
        available: key.is_ok(),
        reason: key.as_ref().err().copied(),
        public_key: key.ok(),
        subject_ok: state.pusher.has_accepted_subject(),
        devices: device::list(&mut c, caller.user, session).await?,
        recent: device::recent(&mut c, caller.user).await?,
        answers: answers::list(&mut c, caller.user).await?,
        mail_problem: settings::mail_problem(&mut c, caller.user).await?,
    }))
}

/// Add the push subscription of this session's browser
///
/// A known subscription moves to this session. A device is removed with its session.
#[utoipa::path(post, path = "/v1/push/devices", tag = "inbox",
    security(("session" = ["viewer"])),
    request_body(content = PushDeviceForm, example = json!({
        "endpoint": "https://updates.push.services.mozilla.com/wpush/v2/gAAAAABk",
        "keys": {"p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            "auth": "BTBZMqHH6r4Tts7J_aSIgg"},
        "label": "Firefox on Linux"})),
    responses((status = 201, body = PushDevice),
        (status = 200, description = "The subscription was known", body = PushDevice),
        (status = 409, description = "There are ten devices", body = ErrorBody),
        (status = 422, description = "The address is not allowed, or a key is not valid", body = ErrorBody)))]
async fn add_push_device(
    axum::extract::State(state): St,
    caller: Caller,
    _: Outgoing,
    Body(form): Body<PushDeviceForm>,
) -> Result<Response, ApiError> {
    let session = caller.require_session()?;
    let subscription = form.parse()?;
    state.pusher.check(&subscription).await?;
    let user = caller.user;
    let stored = caller
        .write(&state.db, async move |c| {
            device::put(c, user, session, &subscription).await
        })
        .await?;
    let status = if stored.is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(stored.device)).into_response())
}

/// Remove a device
#[utoipa::path(delete, path = "/v1/push/devices/{id}", tag = "inbox",
    security(("session" = ["viewer"])),
    params(("id" = DeviceId, Path)), responses((status = 204)))]
async fn delete_push_device(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<DeviceId>,
) -> Result<StatusCode, ApiError> {
    caller.require_session()?;
    let user = caller.user;
    caller
        .write(&state.db, async move |c| device::delete(c, user, id).await)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Send a test to a device
#[utoipa::path(post, path = "/v1/push/devices/{id}/test", tag = "inbox",
    security(("session" = ["viewer"])),
    params(("id" = DeviceId, Path)), responses((status = 200, body = PushTestResult)))]
async fn test_push_device(
    axum::extract::State(state): St,
    caller: Caller,
    _: Outgoing,
    Path(id): Path<DeviceId>,
    _: NoFields,
) -> Result<Json<PushTestResult>, ApiError> {
    caller.require_session()?;
    let result = state.pusher.test(&state.db, caller.user, id).await?;
    Ok(Json(result))
}

/// Get your notification settings
#[utoipa::path(get, path = "/v1/notification-settings", tag = "inbox",
    security(("session" = ["viewer"])),
    responses((status = 200, body = NotificationSettings)))]
async fn get_notification_settings(
    axum::extract::State(state): St,
    caller: Caller,
) -> Result<Response, ApiError> {
    caller.require_session()?;
    let stored = settings::read(&mut state.db.read().await?, caller.user).await?;
    Ok(tagged(StatusCode::OK, stored.version, &stored))
}

/// Replace your notification settings
#[utoipa::path(put, path = "/v1/notification-settings", tag = "inbox",
    security(("session" = ["viewer"])),
    params(("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = NotificationSettingsForm, example = json!({"push": true, "preview": "full",
        "quiet": {"from": "22:00", "to": "07:00", "days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]},
        "paused_until": null, "timezone": "Europe/Berlin", "mail": "off"})),
    responses((status = 200, body = NotificationSettings),
        (status = 422, description = "`missed` needs a confirmed address", body = ErrorBody)))]
async fn put_notification_settings(
    axum::extract::State(state): St,
    caller: Caller,
    IfMatch(expected): IfMatch,
    Body(form): Body<NotificationSettingsForm>,
) -> Result<Response, ApiError> {
    caller.require_session()?;
    let user = caller.user;
    let changed = caller
        .write(&state.db, async move |c| {
            settings::replace(c, user, &form, expected).await
        })
        .await
        .map_err(|e: PushError| e)?;
    Ok(tagged(StatusCode::OK, changed.version, &changed))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct UnsubscribeQuery {
    /// Secret of the link in an email.
    token: String,
}

/// Turn off emails about missed items with the link in one of them
///
/// Mail programs call this for `List-Unsubscribe` (RFC 8058). The body is ignored.
#[utoipa::path(post, path = "/v1/mail/unsubscribe", tag = "inbox",
    security(()), params(UnsubscribeQuery),
    responses((status = 204),
        (status = 404, description = "The link is not valid", body = ErrorBody)))]
async fn unsubscribe_from_mail(
    axum::extract::State(state): St,
    Query(query): Query<UnsubscribeQuery>,
    _: RawBody,
) -> Result<StatusCode, ApiError> {
    let token = query.token;
    state
        .db
        .write(uuid::Uuid::nil(), async move |c: &mut Conn| {
            settings::unsubscribe(c, &token).await
        })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
