//! HTTP routes for a person's own second factors: authenticator apps, recovery codes, and passkeys.

use axum::{
    Json,
    http::{HeaderMap, StatusCode},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;

use super::{St, device_of, sign_in::site};
use crate::{
    auth::{
        AuthError, Caller, SecurityChange, SecurityMail,
        factors::{
            SecondFactors,
            passkeys::{self, OtherWay, Passkey},
            recovery,
            totp::{self, NewSecret},
            webauthn::{PasskeyAlgorithm, Registration},
        },
        flows::{self, FlowKind, NewFlow},
        oidc::identity,
        sessions, users, workspaces,
    },
    db::Conn,
    http::{
        ApiError,
        extract::{Body, NoFields, Path},
        page::List,
        routing::routes,
    },
    ids::{PasskeyId, UserId},
    server::{State, caller::Address},
    upkeep::choices::{Choices, PasswordSignIn},
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(get_factors))
        .routes(routes!(start_app, remove_app))
        .routes(routes!(confirm_app))
        .routes(routes!(renew_recovery_codes))
        .routes(routes!(list_passkeys, add_passkey))
        .routes(routes!(passkey_creation_options))
        .routes(routes!(rename_passkey, remove_passkey))
}

/// Checks whether a person has a password, and can sign in with it.
pub(super) async fn can_use_password(c: &mut Conn, user: UserId) -> Result<bool, AuthError> {
    Ok(identity::has_password(c, user).await?
        && (Choices::read(c).await?.password_sign_in == PasswordSignIn::Everyone
            || workspaces::is_server_admin(c, user).await?))
}

/// Makes a change to the person's factors, and tells them by email.
async fn change<T, F>(
    state: &State,
    caller: &Caller,
    change: SecurityChange,
    command: F,
) -> Result<T, AuthError>
where
    T: Send + 'static,
    F: AsyncFn(&mut Conn) -> Result<T, AuthError> + Send + 'static,
{
    let owner = users::get_user(&mut state.db.read().await?, caller.user).await?;
    let mail = SecurityMail::write(&state.mailer, &owner, &state.public_url, change);
    let changed = caller
        .write_confirmed(&state.db, async move |c: &mut Conn| {
            let changed = command(c).await?;
            mail.queue(c).await?;
            Ok::<_, AuthError>(changed)
        })
        .await?;
    state.mailer.wake();
    Ok(changed)
}

/// Get your second factors
///
/// An account with an app or a passkey has a second factor: its password alone does not sign in.
#[utoipa::path(get, path = "/v1/auth/factors", tag = "accounts",
    security(("session" = ["viewer"])),
    responses((status = 200, body = SecondFactors)))]
async fn get_factors(
    axum::extract::State(state): St,
    caller: Caller,
) -> Result<Json<SecondFactors>, ApiError> {
    caller.require_session()?;
    let mut c = state.db.read().await?;
    Ok(Json(SecondFactors::of(&mut c, caller.user).await?))
}

/// Secret of a new authenticator app.
#[derive(Serialize, utoipa::ToSchema)]
struct AppSecret {
    /// The secret in base 32, to be typed.
    secret: String,
    /// `otpauth://` address, to be shown as a picture.
    url: String,
}

/// Begin to set up an authenticator app
///
/// The app counts as a second factor after its first code (`POST /v1/auth/totp/confirm`). Until then, another call replaces the secret.
/// Needs a confirmation; 409 `app_exists` if the account has an app.
#[utoipa::path(post, path = "/v1/auth/totp", tag = "accounts",
    security(("session" = ["viewer"])),
    responses((status = 200, body = AppSecret)))]
async fn start_app(
    axum::extract::State(state): St,
    caller: Caller,
    _: NoFields,
) -> Result<Json<AppSecret>, ApiError> {
    caller.require_session()?;
    let user = caller.user;
    let email = users::get_user(&mut state.db.read().await?, user)
        .await?
        .email;
    let secret = NewSecret::generate(&state.keyring, user)?;
    let made = AppSecret {
        url: secret.url(&site(&state).rp_id, &email),
        secret: secret.text.clone(),
    };
    caller
        .write_confirmed(&state.db, async move |c: &mut Conn| {
            secret.store(c, user).await
        })
        .await?;
    Ok(Json(made))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct CodeForm {
    /// Six digits.
    code: String,
}

/// New recovery codes, which are shown only once.
#[derive(Serialize, utoipa::ToSchema)]
struct RecoveryCodes {
    /// Each code replaces a second factor once. Null if the account already had a second factor, whose codes stay valid.
    recovery_codes: Option<Vec<String>>,
}

/// Turn on an authenticator app with its first code
///
/// A wrong code is 403 `wrong_code`. Needs a confirmation.
#[utoipa::path(post, path = "/v1/auth/totp/confirm", tag = "accounts",
    security(("session" = ["viewer"])),
    request_body(content = CodeForm, example = json!({"code": "123456"})),
    responses((status = 200, body = RecoveryCodes)))]
async fn confirm_app(
    axum::extract::State(state): St,
    caller: Caller,
    headers: HeaderMap,
    address: Address,
    Body(form): Body<CodeForm>,
) -> Result<Json<RecoveryCodes>, ApiError> {
    let session = caller.require_session()?;
    let (user, device) = (caller.user, device_of(&headers, &address));
    state.limits.second_factor(user).await?;
    let keyring = state.keyring.clone();
    let confirmed = change(
        &state,
        &caller,
        SecurityChange::AppAdded,
        async move |c: &mut Conn| {
            let codes = totp::confirm(c, &keyring, user, &form.code, &device).await?;
            sessions::prove_second_factor(c, session).await?;
            Ok(codes)
        },
    )
    .await;
    state.limits.settle_second_factor(user, &confirmed).await;
    Ok(Json(RecoveryCodes {
        recovery_codes: confirmed?,
    }))
}

/// Remove the authenticator app
///
/// Needs a confirmation. The recovery codes go with the last second factor.
#[utoipa::path(delete, path = "/v1/auth/totp", tag = "accounts",
    security(("session" = ["viewer"])),
    responses((status = 204)))]
async fn remove_app(
    axum::extract::State(state): St,
    caller: Caller,
    headers: HeaderMap,
    address: Address,
) -> Result<StatusCode, ApiError> {
    let (user, device) = (caller.user, device_of(&headers, &address));
    change(
        &state,
        &caller,
        SecurityChange::AppRemoved,
        async move |c: &mut Conn| totp::remove(c, user, &device).await,
    )
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Replace your recovery codes
///
/// Needs a confirmation; 409 `no_second_factor` without an app or a passkey.
#[utoipa::path(post, path = "/v1/auth/recovery-codes", tag = "accounts",
    security(("session" = ["viewer"])),
    responses((status = 200, body = RecoveryCodes)))]
async fn renew_recovery_codes(
    axum::extract::State(state): St,
    caller: Caller,
    headers: HeaderMap,
    address: Address,
    _: NoFields,
) -> Result<Json<RecoveryCodes>, ApiError> {
    let (user, device) = (caller.user, device_of(&headers, &address));
    let codes = change(
        &state,
        &caller,
        SecurityChange::RecoveryCodes,
        async move |c: &mut Conn| recovery::renew(c, user, &device).await,
    )
    .await?;
    Ok(Json(RecoveryCodes {
        recovery_codes: Some(codes),
    }))
}

/// List your passkeys
#[utoipa::path(get, path = "/v1/auth/passkeys", tag = "accounts",
    security(("session" = ["viewer"])),
    responses((status = 200, body = List<Passkey>)))]
async fn list_passkeys(
    axum::extract::State(state): St,
    caller: Caller,
) -> Result<Json<List<Passkey>>, ApiError> {
    caller.require_session()?;
    let mut c = state.db.read().await?;
    let passkeys = passkeys::list(&mut c, caller.user).await?;
    Ok(Json(List::new(
        passkeys,
        passkeys::PASSKEYS_MAX,
        false,
        |passkey: &Passkey| passkey.id.to_string(),
    )))
}

/// Options for `navigator.credentials.create()`, as `PublicKeyCredential.parseCreationOptionsFromJSON()` takes them.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreationOptions {
    challenge: String,
    rp: RelyingParty,
    user: PasskeyUser,
    pub_key_cred_params: Vec<KeyParameters>,
    exclude_credentials: Vec<KnownCredential>,
    authenticator_selection: AuthenticatorSelection,
    attestation: &'static str,
    /// Milliseconds.
    timeout: u64,
}

#[derive(Serialize, utoipa::ToSchema)]
struct RelyingParty {
    id: String,
    name: &'static str,
}

#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PasskeyUser {
    pub id: String,
    pub name: String,
    pub display_name: String,
}

#[derive(Serialize, utoipa::ToSchema)]
struct KeyParameters {
    #[serde(rename = "type")]
    kind: &'static str,
    alg: i64,
}

#[derive(Serialize, utoipa::ToSchema)]
struct KnownCredential {
    #[serde(rename = "type")]
    kind: &'static str,
    id: String,
}

#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct AuthenticatorSelection {
    resident_key: &'static str,
    require_resident_key: bool,
    user_verification: &'static str,
}

const PUBLIC_KEY: &str = "public-key";

impl CreationOptions {
    /// Options for a passkey of a person on this host, none of whose known credentials the authenticator may have.
    pub(super) fn new(
        host: String,
        challenge: String,
        person: PasskeyUser,
        known: Vec<String>,
    ) -> Self {
        Self {
            challenge,
            rp: RelyingParty {
                id: host,
                name: "OpenVibe",
            },
            user: person,
            pub_key_cred_params: PasskeyAlgorithm::ALL
                .iter()
                .map(|algorithm| KeyParameters {
                    kind: PUBLIC_KEY,
                    alg: algorithm.cose(),
                })
                .collect(),
            exclude_credentials: known
                .into_iter()
                .map(|id| KnownCredential {
                    kind: PUBLIC_KEY,
                    id,
                })
                .collect(),
            authenticator_selection: AuthenticatorSelection {
                resident_key: "required",
                require_resident_key: true,
                user_verification: "required",
            },
            attestation: "none",
            timeout: flows::PASSKEY_WITHIN_MS,
        }
    }
}

/// Get the options for a new passkey
///
/// The challenge can be used once, within 5 minutes. Needs a confirmation.
#[utoipa::path(post, path = "/v1/auth/passkeys/options", tag = "accounts",
    security(("session" = ["viewer"])),
    responses((status = 200, body = CreationOptions)))]
async fn passkey_creation_options(
    axum::extract::State(state): St,
    caller: Caller,
    _: NoFields,
) -> Result<Json<CreationOptions>, ApiError> {
    caller.require_session()?;
    let user = caller.user;
    let mut c = state.db.read().await?;
    let account = users::get_user(&mut c, user).await?;
    let known = passkeys::credential_ids(&mut c, user).await?;
    drop(c);
    let flow = NewFlow::new(FlowKind::PasskeyCreation, Some(user));
    let challenge = flow.secret.clone();
    caller
        .write_confirmed(&state.db, async move |c: &mut Conn| flow.store(c).await)
        .await?;
    let person = PasskeyUser {
        id: passkeys::handle_of(user),
        name: account.email,
        display_name: account.name,
    };
    Ok(Json(CreationOptions::new(
        site(&state).rp_id,
        challenge,
        person,
        known,
    )))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct NewPasskeyForm {
    /// 1 to 80 characters; `Passkey` by default.
    name: Option<String>,
    /// `PublicKeyCredential.toJSON()` of the new credential.
    #[schema(value_type = Object)]
    credential: Value,
}

/// A new passkey.
#[derive(Serialize, utoipa::ToSchema)]
struct NewPasskey {
    #[serde(flatten)]
    passkey: Passkey,
    #[serde(flatten)]
    codes: RecoveryCodes,
}

/// Add a passkey
///
/// Needs a confirmation. Up to 10 passkeys are possible.
#[utoipa::path(post, path = "/v1/auth/passkeys", tag = "accounts",
    security(("session" = ["viewer"])),
    request_body(content = NewPasskeyForm, example = json!({"name": "Laptop", "credential": {"id": "…", "rawId": "…",
        "type": "public-key", "response": {"clientDataJSON": "…", "authenticatorData": "…", "publicKey": "…", "publicKeyAlgorithm": -7}}})),
    responses((status = 201, body = NewPasskey)))]
async fn add_passkey(
    axum::extract::State(state): St,
    caller: Caller,
    headers: HeaderMap,
    address: Address,
    Body(form): Body<NewPasskeyForm>,
) -> Result<(StatusCode, Json<NewPasskey>), ApiError> {
    let session = caller.require_session()?;
    let new = Registration::parse(form.credential, &site(&state)).map_err(|e| match e {
        AuthError::PasskeyRejected(_) => AuthError::Invalid(e.to_string(), "credential"),
        other => other,
    })?;
    let (user, device) = (caller.user, device_of(&headers, &address));
    let added = change(
        &state,
        &caller,
        SecurityChange::PasskeyAdded,
        async move |c: &mut Conn| {
            let added = passkeys::add(c, user, form.name.as_deref(), &new, &device).await?;
            sessions::prove_second_factor(c, session).await?;
            Ok(added)
        },
    )
    .await;
    let (passkey, recovery_codes) = added.map_err(|e| match e {
        AuthError::FlowExpired => AuthError::Invalid(e.to_string(), "credential"),
        other => other,
    })?;
    let codes = RecoveryCodes { recovery_codes };
    Ok((StatusCode::CREATED, Json(NewPasskey { passkey, codes })))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct PasskeyPatch {
    /// 1 to 80 characters.
    name: String,
}

/// Rename a passkey
#[utoipa::path(patch, path = "/v1/auth/passkeys/{id}", tag = "accounts",
    security(("session" = ["viewer"])),
    params(("id" = PasskeyId, Path)),
    request_body(content = PasskeyPatch, example = json!({"name": "Laptop"})),
    responses((status = 200, body = Passkey)))]
async fn rename_passkey(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<PasskeyId>,
    Body(form): Body<PasskeyPatch>,
) -> Result<Json<Passkey>, ApiError> {
    caller.require_session()?;
    let user = caller.user;
    let passkey = caller
        .write(&state.db, async move |c: &mut Conn| {
            passkeys::rename(c, user, id, &form.name).await
        })
        .await?;
    Ok(Json(passkey))
}

/// Remove a passkey
///
/// Needs a confirmation; 409 `last_method` if you could not sign in anymore. The recovery codes go with the last second factor.
#[utoipa::path(delete, path = "/v1/auth/passkeys/{id}", tag = "accounts",
    security(("session" = ["viewer"])),
    params(("id" = PasskeyId, Path)), responses((status = 204)))]
async fn remove_passkey(
    axum::extract::State(state): St,
    caller: Caller,
    headers: HeaderMap,
    address: Address,
    Path(id): Path<PasskeyId>,
) -> Result<StatusCode, ApiError> {
    let (user, device) = (caller.user, device_of(&headers, &address));
    change(
        &state,
        &caller,
        SecurityChange::PasskeyRemoved,
        async move |c: &mut Conn| {
            let other_way =
                if can_use_password(c, user).await? || identity::has_usable(c, user).await? {
                    OtherWay::Other
                } else {
                    OtherWay::None
                };
            passkeys::remove(c, user, id, other_way, &device).await
        },
    )
    .await?;
    Ok(StatusCode::NO_CONTENT)
}
