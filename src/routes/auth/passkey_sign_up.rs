//! HTTP routes for invited people who begin with a passkey instead of a password.

use axum::{
    Json,
    http::{HeaderMap, StatusCode},
    response::{AppendHeaders, IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

use super::{
    St,
    factors::{CreationOptions, PasskeyUser},
    session::{Account, Browser, account},
    sign_in::site,
};
use crate::{
    auth::{
        AuthError,
        factors::{
            passkeys,
            sign_up::{self, Invited},
            webauthn::Registration,
        },
        sessions::SignInProof,
    },
    db::Conn,
    http::{ApiError, extract::Body, routing::routes},
    server::{State, caller::Address},
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(new_account_options))
        .routes(routes!(sign_up_with_passkey))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct NewAccountForm {
    email: String,
    name: String,
    /// Token of an invite link.
    invite: String,
}

/// Get the options for the passkey of a new account
///
/// Only invited people can begin with a passkey. The challenge can be used once, within 5 minutes, with `POST /v1/auth/signup/passkey`.
#[utoipa::path(post, path = "/v1/auth/signup/passkey/options", tag = "accounts",
    security(()),
    request_body(content = NewAccountForm,
        example = json!({"email": "ada@example.org", "name": "Ada", "invite": "…"})),
    responses((status = 200, body = CreationOptions)))]
async fn new_account_options(
    axum::extract::State(state): St,
    Body(form): Body<NewAccountForm>,
) -> Result<Json<CreationOptions>, ApiError> {
    let invited = Invited {
        email: form.email,
        name: form.name,
        invite: form.invite,
    };
    let (name, display_name) = (
        invited.email.trim().to_owned(),
        invited.name.trim().to_owned(),
    );
    let new = sign_up::begin(&state.db, invited).await?;
    let person = PasskeyUser {
        id: passkeys::handle_of(new.user),
        name,
        display_name,
    };
    Ok(Json(CreationOptions::new(
        site(&state).rp_id,
        new.challenge().to_owned(),
        person,
        Vec::new(),
    )))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct PasskeySignupForm {
    email: String,
    name: String,
    /// Token of an invite link.
    invite: String,
    /// Handle in the workspace of the invite; derived from the name, or else the email address, by default.
    handle: Option<String>,
    /// `PublicKeyCredential.toJSON()` of the new credential.
    #[schema(value_type = Object)]
    credential: Value,
}

/// A new account, with the codes that replace a lost passkey.
#[derive(Serialize, utoipa::ToSchema)]
struct PasskeyAccount {
    #[serde(flatten)]
    account: Account,
    recovery_codes: Vec<String>,
}

/// Create an account with a passkey instead of a password
///
/// The recovery codes are shown only once. Like sign-ups with a password, attempts are limited.
#[utoipa::path(post, path = "/v1/auth/signup/passkey", tag = "accounts",
    security(()),
    request_body(content = PasskeySignupForm,
        example = json!({"email": "ada@example.org", "name": "Ada", "invite": "…", "credential": {"id": "…", "rawId": "…",
            "type": "public-key", "response": {"clientDataJSON": "…", "authenticatorData": "…", "publicKey": "…", "publicKeyAlgorithm": -7}}})),
    responses((status = 201, body = PasskeyAccount, description = "Signed in: the session cookie is set")))]
async fn sign_up_with_passkey(
    axum::extract::State(state): St,
    headers: HeaderMap,
    address: Address,
    Body(form): Body<PasskeySignupForm>,
) -> Result<Response, ApiError> {
    let passkey = Registration::parse(form.credential, &site(&state)).map_err(about_passkey)?;
    let invited = Invited {
        email: form.email,
        name: form.name,
        invite: form.invite,
    };
    let email = invited.email.trim().to_lowercase();
    let browser = Browser::of(&headers, &address);
    let device = browser.device().clone();
    // Sign-up reveals whether an email address is taken, so attempts are limited like logins.
    let attempt = state.limits.log_in(&email, address.0).await?;
    let made = sign_up::finish(&state.db, invited, form.handle, passkey, device).await;
    state.limits.settle(&email, address.0, attempt, &made).await;
    let (user, recovery_codes) = made.map_err(about_passkey)?;
    let starting = browser.clone();
    let (token, account) = state
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            // A passkey verifies its user.
            let proof = SignInProof::SecondFactor;
            let token = starting.start_session(c, user, proof).await?;
            Ok::<_, AuthError>((token, account(c, user).await?))
        })
        .await?;
    let cookies = AppendHeaders(browser.cookies(&state, &token));
    let body = PasskeyAccount {
        account,
        recovery_codes,
    };
    Ok((StatusCode::CREATED, cookies, Json(body)).into_response())
}

/// Names the field of an error about a passkey.
fn about_passkey(error: AuthError) -> AuthError {
    match error {
        AuthError::PasskeyRejected(_) | AuthError::FlowExpired => {
            AuthError::Invalid(error.to_string(), "credential")
        }
        other => other,
    }
}
