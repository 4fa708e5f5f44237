//! HTTP routes for ways of signing in other than an email address and password, for second factors, and for confirmations.

use axum::{
    Json,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

use super::{
    St, device_of,
    session::{Account, Browser, SignInMethod, counted, verify_current_password},
};
use crate::{
    auth::{
        AuthError, Caller,
        events::{self, AuthEventKind, Device},
        factors::{
            SecondFactor, passkeys,
            webauthn::{Assertion, Site},
        },
        flows::{self, FlowKind, NewFlow},
        oidc::provider,
        sessions::{self, SignInProof},
        users,
    },
    db::Conn,
    http::{
        ApiError,
        extract::{Body, NoFields, Query},
        routing::routes,
    },
    ids::{IdentityProviderId, SessionId, UserId},
    outbound::Url,
    server::{State, caller::Address},
    upkeep::choices::{Choices, PasswordSignIn},
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(sign_in_methods))
        .routes(routes!(second_factor))
        .routes(routes!(passkey_options))
        .routes(routes!(sign_in_with_passkey))
        .routes(routes!(confirm))
        .routes(routes!(open_sign_in_link))
}

/// Site to which passkeys are bound.
pub(super) fn site(state: &State) -> Site {
    let url = Url::parse(&state.public_url).ok();
    let host = url.as_ref().and_then(|url| url.host_str());
    Site {
        rp_id: host.unwrap_or("localhost").to_owned(),
        origin: url.as_ref().map_or_else(
            || state.public_url.clone(),
            |url| url.origin().ascii_serialization(),
        ),
    }
}

/// Ways to sign in.
#[derive(Serialize, utoipa::ToSchema)]
struct SignInMethods {
    /// False if only admins of the server sign in with a password.
    password: bool,
    /// False if browsers accept no passkeys for this server, because its address has no name.
    passkey: bool,
    /// Identity providers that are turned on.
    providers: Vec<SignInProvider>,
}

/// An identity provider with which people can sign in.
#[derive(Serialize, utoipa::ToSchema)]
struct SignInProvider {
    id: IdentityProviderId,
    name: String,
    /// True if the provider vouches for the domain of `email`.
    for_domain: bool,
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct MethodsQuery {
    /// Address of the person, of which only the domain counts.
    email: Option<String>,
}

/// Get the ways to sign in
///
/// They do not depend on the account.
#[utoipa::path(get, path = "/v1/auth/methods", tag = "accounts",
    security(()), params(MethodsQuery),
    responses((status = 200, body = SignInMethods)))]
async fn sign_in_methods(
    axum::extract::State(state): St,
    Query(query): Query<MethodsQuery>,
) -> Result<Json<SignInMethods>, ApiError> {
    let email = query.email.unwrap_or_default().trim().to_lowercase();
    let mut c = state.db.read().await?;
    let choices = Choices::read(&mut c).await?;
    let providers = provider::list(&mut c).await?;
    drop(c);
    let host = site(&state).rp_id;
    let is_address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    Ok(Json(SignInMethods {
        password: choices.password_sign_in == PasswordSignIn::Everyone,
        passkey: is_address.is_err(),
        providers: providers
            .into_iter()
            .filter(|provider| provider.enabled)
            .map(|provider| SignInProvider {
                for_domain: provider.settings.names_domain_of(&email),
                id: provider.id,
                name: provider.name,
            })
            .collect(),
    }))
}

/// Returns the only field that is set.
fn one_of<T>(fields: impl IntoIterator<Item = Option<T>>, names: &str) -> Result<T, AuthError> {
    let mut set = fields.into_iter().flatten();
    match (set.next(), set.next()) {
        (Some(field), None) => Ok(field),
        _ => Err(AuthError::Invalid(format!("send one of {names}"), "code")),
    }
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct SecondFactorForm {
    /// `error.flow` of `POST /v1/auth/login`.
    flow: String,
    /// Six digits of the authenticator app.
    code: Option<String>,
    /// Unused recovery code.
    recovery_code: Option<String>,
    /// `PublicKeyCredential.toJSON()` of a passkey, with the challenge of `POST /v1/auth/passkey/options`.
    #[schema(value_type = Option<Object>)]
    credential: Option<Value>,
}

/// Result of the second step of a sign-in.
enum SecondStep {
    /// Token of the new session.
    Session(String),
    Wrong,
}

/// Complete a sign-in with a second factor
///
/// A wrong factor is 401 `wrong_code`. Five of them end the sign-in, which is 401 `flow_expired` then. An account has 10 wrong factors,
/// and then one more each minute.
#[utoipa::path(post, path = "/v1/auth/second-factor", tag = "accounts",
    security(()),
    request_body(content = SecondFactorForm,
        example = json!({"flow": "q2Vq0cFzH0x1c9a5yT3m7K8nJ4sD6gL2bW0eR1uXoPI", "code": "123456"})),
    responses((status = 200, body = Account, description = "Signed in: the session cookie is set"),
        (status = 401, body = crate::http::error::ErrorBody, description = "The factor is wrong, or the sign-in has ended")))]
async fn second_factor(
    axum::extract::State(state): St,
    headers: HeaderMap,
    address: Address,
    Body(form): Body<SecondFactorForm>,
) -> Result<Response, ApiError> {
    let completed = Box::pin(complete(&state, &headers, &address, form)).await;
    counted(SignInMethod::SecondFactor, completed)
}

async fn complete(
    state: &State,
    headers: &HeaderMap,
    address: &Address,
    form: SecondFactorForm,
) -> Result<Response, ApiError> {
    let credential = form
        .credential
        .map(|credential| Assertion::parse(credential, &site(state)))
        .transpose()?;
    let factor = one_of(
        [
            form.code.map(SecondFactor::Code),
            form.recovery_code.map(SecondFactor::RecoveryCode),
            credential.map(SecondFactor::Passkey),
        ],
        "`code`, `recovery_code`, and `credential`",
    )?;
    let user = flows::find_second_factor(&mut state.db.read().await?, &form.flow).await?;
    let browser = Browser::of(headers, address);
    let (starting, device) = (browser.clone(), device_of(headers, address));
    let keyring = state.keyring.clone();
    state.limits.second_factor(user).await?;
    let step = state
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            if flows::count_second_factor(c, &form.flow).await? != user {
                return Err(AuthError::FlowExpired);
            }
            if !factor.try_use(c, &keyring, user, &device).await? {
                events::record(c, user, AuthEventKind::SignInFailed, None, &device).await?;
                return Ok(SecondStep::Wrong);
            }
            flows::end(c, &form.flow).await?;
            let token = starting
                .start_session(c, user, SignInProof::SecondFactor)
                .await?;
            Ok(SecondStep::Session(token))
        })
        .await;
    let token = match step {
        Ok(SecondStep::Session(token)) => Ok(token),
        Ok(SecondStep::Wrong) => Err(AuthError::WrongCode),
        Err(e) => Err(e),
    };
    state.limits.settle_second_factor(user, &token).await;
    browser.respond(state, StatusCode::OK, user, &token?).await
}

/// Options for `navigator.credentials.get()`, as `PublicKeyCredential.parseRequestOptionsFromJSON()` takes them.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct RequestOptions {
    challenge: String,
    rp_id: String,
    user_verification: &'static str,
    /// Milliseconds.
    timeout: u64,
}

/// Get a challenge for a passkey
///
/// It can be used once, within 5 minutes: to sign in, as a second factor, or to confirm that it is you.
#[utoipa::path(post, path = "/v1/auth/passkey/options", tag = "accounts",
    security(()),
    responses((status = 200, body = RequestOptions)))]
async fn passkey_options(
    axum::extract::State(state): St,
    _: NoFields,
) -> Result<Json<RequestOptions>, ApiError> {
    let flow = NewFlow::new(FlowKind::Passkey, None);
    let challenge = flow.secret.clone();
    state
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| flow.store(c).await)
        .await?;
    Ok(Json(RequestOptions {
        challenge,
        rp_id: site(&state).rp_id,
        user_verification: "required",
        timeout: flows::PASSKEY_WITHIN_MS,
    }))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct PasskeyForm {
    /// `PublicKeyCredential.toJSON()` of a passkey.
    #[schema(value_type = Object)]
    credential: Value,
}

/// Sign in with a passkey
///
/// 401 `passkey_rejected` if it is not registered here or does not fit, `passkey_copied` if its counter did not rise, and `flow_expired` if
/// its challenge was used or is older than 5 minutes.
#[utoipa::path(post, path = "/v1/auth/passkey", tag = "accounts",
    security(()),
    request_body(content = PasskeyForm, example = json!({"credential": {"id": "…", "rawId": "…", "type": "public-key",
        "response": {"clientDataJSON": "…", "authenticatorData": "…", "signature": "…", "userHandle": "…"}}})),
    responses((status = 200, body = Account, description = "Signed in: the session cookie is set"),
        (status = 401, body = crate::http::error::ErrorBody, description = "The passkey cannot be used")))]
async fn sign_in_with_passkey(
    axum::extract::State(state): St,
    headers: HeaderMap,
    address: Address,
    Body(form): Body<PasskeyForm>,
) -> Result<Response, ApiError> {
    let signed_in = Box::pin(use_passkey(&state, &headers, &address, form)).await;
    counted(SignInMethod::Passkey, signed_in)
}

async fn use_passkey(
    state: &State,
    headers: &HeaderMap,
    address: &Address,
    form: PasskeyForm,
) -> Result<Response, ApiError> {
    let assertion = Assertion::parse(form.credential, &site(state))?;
    if assertion.user_handle.is_none() {
        return Err(AuthError::PasskeyRejected("it does not name its account").into());
    }
    let browser = Browser::of(headers, address);
    let starting = browser.clone();
    let (user, token) = state
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            let user = passkeys::sign_in(c, &assertion).await?;
            let token = starting
                .start_session(c, user, SignInProof::SecondFactor)
                .await?;
            Ok::<_, AuthError>((user, token))
        })
        .await?;
    browser.respond(state, StatusCode::OK, user, &token).await
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ConfirmForm {
    password: Option<String>,
    /// Six digits of the authenticator app.
    code: Option<String>,
    /// `PublicKeyCredential.toJSON()` of a passkey, with the challenge of `POST /v1/auth/passkey/options`.
    #[schema(value_type = Option<Object>)]
    credential: Option<Value>,
}

/// Proof that it is still the same person.
enum Confirmation {
    Password(String),
    Factor(SecondFactor),
}

/// Confirm that it is you
///
/// A confirmation counts for 10 minutes in the same session, as signing in does. Changes to ways of signing in need one; without it,
/// they return 403 `confirmation_required`. Send one of `password`, `code`, and `credential`; a wrong one is 403 `wrong_password` or
/// `wrong_code`.
#[utoipa::path(post, path = "/v1/auth/confirm", tag = "accounts",
    security(("session" = ["viewer"])),
    request_body(content = ConfirmForm, example = json!({"password": "correct horse battery"})),
    responses((status = 204)))]
async fn confirm(
    axum::extract::State(state): St,
    caller: Caller,
    headers: HeaderMap,
    address: Address,
    Body(form): Body<ConfirmForm>,
) -> Result<StatusCode, ApiError> {
    let session = caller.require_session()?;
    let credential = form
        .credential
        .map(|credential| Assertion::parse(credential, &site(&state)))
        .transpose()
        .map_err(|_| AuthError::WrongCurrentCode)?;
    let proof = one_of(
        [
            form.password.map(Confirmation::Password),
            form.code
                .map(|code| Confirmation::Factor(SecondFactor::Code(code))),
            credential.map(|passkey| Confirmation::Factor(SecondFactor::Passkey(passkey))),
        ],
        "`password`, `code`, and `credential`",
    )?;
    match proof {
        Confirmation::Password(password) => {
            let in_this_form =
                |e: AuthError| ApiError::from(e).rename_param(|_| "password".to_owned());
            confirm_password(&state, caller, session, password)
                .await
                .map_err(in_this_form)?;
        }
        Confirmation::Factor(factor) => {
            let (user, device) = (caller.user, device_of(&headers, &address));
            state.limits.second_factor(user).await?;
            let confirmed = confirm_factor(&state, caller, session, factor, device).await;
            state.limits.settle_second_factor(user, &confirmed).await;
            confirmed?;
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn confirm_password(
    state: &State,
    caller: Caller,
    session: SessionId,
    password: String,
) -> Result<(), AuthError> {
    let email = users::get_user(&mut state.db.read().await?, caller.user)
        .await?
        .email;
    let stored = verify_current_password(state, session, &email, password).await?;
    caller
        .write(&state.db, async move |c: &mut Conn| {
            if !stored.is_current(c).await? {
                return Err(AuthError::WrongCurrentPassword);
            }
            sessions::confirm(c, session).await
        })
        .await
}

async fn confirm_factor(
    state: &State,
    caller: Caller,
    session: SessionId,
    factor: SecondFactor,
    device: Device,
) -> Result<(), AuthError> {
    let (user, keyring): (UserId, _) = (caller.user, state.keyring.clone());
    caller
        .write(&state.db, async move |c: &mut Conn| {
            if !factor.try_use(c, &keyring, user, &device).await? {
                return Err(AuthError::WrongCurrentCode);
            }
            sessions::prove_second_factor(c, session).await?;
            sessions::confirm(c, session).await
        })
        .await
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct LinkForm {
    /// Secret of a link from `openvibe user sign-in-link`.
    token: String,
}

/// Sign in with a link from the operator's command line
///
/// A link can be used once, within 10 minutes. Afterwards, this returns 401 `flow_expired`. For an hour, the session meets what workspaces
/// demand (`sign_in`).
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
            let user = user.ok_or(AuthError::FlowExpired)?;
            let token = starting
                .start_session(c, user, SignInProof::OperatorLink)
                .await?;
            Ok::<_, AuthError>((user, token))
        })
        .await?;
    browser.respond(&state, StatusCode::OK, user, &token).await
}
