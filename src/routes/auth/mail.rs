//! HTTP routes for confirmed addresses, and for passwords that are reset by email.

use axum::{
    Json,
    http::{HeaderMap, StatusCode},
};
use serde::{Deserialize, Serialize};
use tracing::Instrument;
use utoipa_axum::router::OpenApiRouter;

use super::{St, device_of};
use crate::{
    auth::{Caller, WorkspaceCaller, addresses, flows::RESET_WITHIN},
    http::{
        ApiError,
        error::ErrorBody,
        extract::{Body, NoFields, Path},
        routing::routes,
    },
    ids::UserId,
    server::{
        State,
        caller::{Address, Outgoing},
        origin::LinkBase,
    },
    time::Timestamp,
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(send_confirmation))
        .routes(routes!(confirm_address))
        .routes(routes!(send_reset))
        .routes(routes!(reset_password))
        .routes(routes!(create_reset_link))
}

/// Send a link that confirms your email address
///
/// At most three a day.
#[utoipa::path(post, path = "/v1/mail/confirmation", tag = "accounts",
    security(("session" = ["viewer"])),
    responses((status = 202, description = "The email is queued"),
        (status = 409, description = "The address is confirmed", body = ErrorBody),
        (status = 422, description = "Email is off", body = ErrorBody)))]
async fn send_confirmation(
    axum::extract::State(state): St,
    caller: Caller,
    _: Outgoing,
    _: NoFields,
) -> Result<StatusCode, ApiError> {
    caller.require_session()?;
    let url = &state.public_url;
    addresses::send_confirmation(&state.db, &state.mailer, caller.user, url).await?;
    Ok(StatusCode::ACCEPTED)
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ConfirmAddressForm {
    /// Token from the link.
    token: String,
}

/// Confirm an email address with the link that was sent to it
#[utoipa::path(post, path = "/v1/mail/confirm", tag = "accounts",
    security(()),
    request_body(content = ConfirmAddressForm, example = json!({"token": "Zm9yIGV4YW1wbGU"})),
    responses((status = 204),
        (status = 404, description = "The link was used, or has expired", body = ErrorBody)))]
async fn confirm_address(
    axum::extract::State(state): St,
    Body(form): Body<ConfirmAddressForm>,
) -> Result<StatusCode, ApiError> {
    addresses::confirm(&state.db, form.token).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ResetForm {
    email: String,
}

/// Send a link that sets a new password
///
/// The response is the same whether an account has this address. At most three an hour are sent.
#[utoipa::path(post, path = "/v1/auth/reset", tag = "accounts",
    security(()),
    request_body(content = ResetForm, example = json!({"email": "ada@example.org"})),
    responses((status = 202, description = "If the account exists, the email is queued"),
        (status = 422, description = "Email is off", body = ErrorBody)))]
async fn send_reset(
    axum::extract::State(state): St,
    _: Outgoing,
    Body(form): Body<ResetForm>,
) -> Result<StatusCode, ApiError> {
    state
        .mailer
        .sending()
        .map_err(crate::auth::AuthError::from)?;
    let sender = state.clone();
    // Nobody learns from the time of the response whether the account exists.
    let sending = async move {
        let (db, mailer, url) = (&sender.db, &sender.mailer, &sender.public_url);
        if let Err(e) = addresses::send_reset(db, mailer, &form.email, url).await {
            tracing::warn!(error = %e, "a link that sets a new password could not be queued");
        }
    };
    state.tracker.spawn(sending.in_current_span());
    Ok(StatusCode::ACCEPTED)
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct NewPasswordForm {
    /// Token from the link.
    token: String,
    /// At least 8 characters.
    password: String,
    /// `false` keeps the API keys of the account.
    #[serde(default = "yes")]
    revoke_keys: bool,
}

fn yes() -> bool {
    true
}

/// Set a new password with a link, and end all sessions of the account
#[utoipa::path(post, path = "/v1/auth/reset/confirm", tag = "accounts",
    security(()),
    request_body(content = NewPasswordForm,
        example = json!({"token": "Zm9yIGV4YW1wbGU", "password": "another horse battery"})),
    responses((status = 204),
        (status = 404, description = "The link was used, or has expired", body = ErrorBody)))]
async fn reset_password(
    axum::extract::State(state): St,
    headers: HeaderMap,
    address: Address,
    Body(form): Body<NewPasswordForm>,
) -> Result<StatusCode, ApiError> {
    let reset = addresses::Reset {
        token: form.token,
        password: form.password,
        revoke_keys: form.revoke_keys,
        device: device_of(&headers, &address),
    };
    addresses::reset(
        &state.db,
        &state.hasher,
        &state.mailer,
        &state.public_url,
        reset,
    )
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A link with which a person sets a new password. It is shown only once.
#[derive(Serialize, utoipa::ToSchema)]
struct ResetLink {
    url: String,
    expires_at: Timestamp,
}

/// Create a link with which a member sets a new password
///
/// It works once, for half an hour. The caller must be an admin of every workspace of the member, or of the server.
#[utoipa::path(post, path = "/v1/members/{user_id}/reset-link", tag = "people",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("user_id" = UserId, Path)),
    responses((status = 201, body = ResetLink),
        (status = 403, description = "The member is in other workspaces", body = ErrorBody)))]
async fn create_reset_link(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    base: LinkBase,
    Path(user): Path<UserId>,
    _: NoFields,
) -> Result<(StatusCode, Json<ResetLink>), ApiError> {
    let expires_at = Timestamp::now() + RESET_WITHIN;
    let link = caller
        .write(&state.db, async move |c, actor| {
            addresses::make_reset_link(c, actor, user).await
        })
        .await?;
    let url = format!("{}/reset/{}", base.0, link.secret);
    Ok((StatusCode::CREATED, Json(ResetLink { url, expires_at })))
}
