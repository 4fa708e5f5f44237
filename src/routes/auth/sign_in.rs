//! HTTP routes for ways of signing in other than an email address and password, and for confirmations.

use axum::{
    http::{HeaderMap, StatusCode},
    response::Response,
};
use serde::Deserialize;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{
    St,
    session::{Account, Browser},
};
use crate::{
    auth::{
        AuthError, Caller,
        flows::{self, FlowKind},
        password::StoredPassword,
        sessions, users,
    },
    db::Conn,
    http::{ApiError, extract::Body},
    server::{State, caller::Address},
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(confirm))
        .routes(routes!(open_sign_in_link))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ConfirmForm {
    password: String,
}

/// Confirm that it is you
///
/// A confirmation counts for 10 minutes in the same session, as signing in does. Changes to ways of signing in need one; without it,
/// they return 403 `confirmation_required`.
#[utoipa::path(post, path = "/v1/auth/confirm", tag = "accounts",
    security(("session" = ["viewer"])),
    request_body(content = ConfirmForm, example = json!({"password": "correct horse battery"})),
    responses((status = 204)))]
async fn confirm(
    axum::extract::State(state): St,
    caller: Caller,
    Body(form): Body<ConfirmForm>,
) -> Result<StatusCode, ApiError> {
    let session = caller.require_session()?;
    state.limits.change_password(session).await?;
    let mut c = state.db.read().await?;
    let email = users::get_user(&mut c, caller.user).await?.email;
    let stored = StoredPassword::find(&mut c, &email).await?;
    drop(c);
    let verified = state.hasher.verify(form.password, stored.clone()).await;
    let verified = match verified {
        Ok(true) => stored.ok_or(AuthError::WrongCurrentPassword),
        Ok(false) => Err(AuthError::WrongCurrentPassword),
        Err(e) => Err(e),
    };
    state.limits.settle_change(session, &verified).await;
    let in_this_form = |e: AuthError| ApiError::from(e).rename_param(|_| "password".to_owned());
    let stored = verified.map_err(in_this_form)?;
    caller
        .write(&state.db, async move |c: &mut Conn| {
            if !stored.is_current(c).await? {
                return Err(AuthError::WrongCurrentPassword);
            }
            sessions::confirm(c, session).await
        })
        .await
        .map_err(in_this_form)?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct LinkForm {
    /// Secret of a link from `openvibe user sign-in-link`.
    token: String,
}

/// Sign in with a link from the operator's command line
///
/// A link can be used once, within 10 minutes. Afterwards, this returns 401 `flow_expired`.
#[utoipa::path(post, path = "/v1/auth/sign-in-link", tag = "accounts",
    security(()),
    request_body(content = LinkForm, example = json!({"token": "q2Vq0cFzH0x1c9a5yT3m7K8nJ4sD6gL2bW0eR1uXoPI"})),
    responses((status = 200, body = Account, description = "Signed in: the session cookie is set"),
        (status = 401, body = crate::http::error::ErrorBody, description = "The link has expired or was used")))]
async fn open_sign_in_link(
    axum::extract::State(state): St,
    headers: HeaderMap,
    address: Address,
    Body(form): Body<LinkForm>,
) -> Result<Response, ApiError> {
    let browser = Browser::of(&headers, &address);
    let starting = browser.clone();
    let (user, token) = state
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            let user = flows::take(c, &form.token, FlowKind::SignInLink).await?;
            let token = starting.start_session(c, user).await?;
            Ok::<_, AuthError>((user, token))
        })
        .await?;
    browser.respond(&state, StatusCode::OK, user, &token).await
}
