//! Identity providers, for the server's admins.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use tracing::Instrument;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    auth::{
        Actor, AuthError, WorkspaceCaller, addresses,
        oidc::{
            SignInFault,
            client::Connection,
            dependents::{self, DependentPerson, PasswordUsers},
            provider::{
                self, IdentityProvider, PROVIDERS_MAX, ProviderForm, ProviderPatch, ProviderState,
                StoredProvider,
            },
            step::StepPurpose,
        },
        scim::token::{self, ScimToken, TOKENS_MAX},
    },
    db::Conn,
    http::{
        ApiError,
        error::ErrorBody,
        extract::{Body, IfMatch, NoFields, Path},
        page::{LIMIT_MAX, List},
        routing::routes,
    },
    ids::{IdentityProviderId, ScimTokenId},
    routes::{
        agents::tagged,
        auth::{ProviderUrl, Start, Starter},
        require_operator,
    },
    server::{State, caller::Outgoing},
    upkeep::choices::{Choices, PasswordSignIn},
};

type St = axum::extract::State<State>;

/// Maximum number of people to whom a request sends links.
const LINKS_MAX: i64 = 1000;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_providers, create_provider))
        .routes(routes!(get_provider, patch_provider, delete_provider))
        .routes(routes!(set_provider_secret))
        .routes(routes!(try_provider))
        .routes(routes!(list_dependents))
        .routes(routes!(send_links))
        .routes(routes!(list_scim_tokens, create_scim_token))
        .routes(routes!(delete_scim_token))
}

/// Checks that the caller is an admin of the server with a session.
async fn require_admin(c: &mut Conn, caller: &WorkspaceCaller) -> Result<(), ApiError> {
    require_operator(c, caller).await?;
    caller.caller.require_session()?;
    Ok(())
}

/// Makes a change as an admin of the server who has confirmed that it is them.
async fn change<T, F>(state: &State, caller: WorkspaceCaller, command: F) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: AsyncFn(&mut Conn, &Actor<'_>) -> Result<T, AuthError> + Send + 'static,
{
    require_admin(&mut state.db.read().await?, &caller).await?;
    let person = caller.caller.clone();
    Ok(caller
        .write(&state.db, async move |c: &mut Conn, actor| {
            person.require_confirmed(c).await?;
            command(c, actor).await
        })
        .await?)
}

async fn shown(state: &State, provider: StoredProvider) -> Result<IdentityProvider, ApiError> {
    let mut c = state.db.read().await?;
    let passwords = password_users(&mut c).await?;
    let only_way_of = dependents::count(&mut c, provider.id, passwords).await?;
    Ok(provider
        .shown(&mut c, &state.public_url, only_way_of)
        .await?)
}

async fn password_users(c: &mut Conn) -> Result<PasswordUsers, ApiError> {
    Ok(match Choices::read(c).await?.password_sign_in {
        PasswordSignIn::Everyone => PasswordUsers::Everyone,
        PasswordSignIn::ServerAdmins => PasswordUsers::ServerAdmins,
    })
}

async fn tagged_provider(
    state: &State,
    status: StatusCode,
    provider: StoredProvider,
) -> Result<Response, ApiError> {
    let provider = shown(state, provider).await?;
    Ok(tagged(status, provider.version, &provider))
}

/// Adds the current provider to the error for a stale version.
async fn with_current(state: &State, id: IdentityProviderId, error: ApiError) -> ApiError {
    if error.code() != crate::http::ErrorCode::VersionConflict {
        return error;
    }
    let current = async {
        let provider = provider::get(&mut state.db.read().await?, id).await?;
        shown(state, provider).await
    };
    match current.await {
        Ok(current) => error.with_current(&current),
        Err(_) => error,
    }
}

/// Reads what an issuer publishes. A provider that does not answer can be stored all the same.
///
/// # Errors
/// `IssuerMismatch`.
async fn check_issuer(
    state: &State,
    id: IdentityProviderId,
    issuer: &str,
) -> Result<ProviderState, AuthError> {
    let connection = Connection {
        id,
        issuer: issuer.trim().to_owned(),
        client_id: String::new(),
        secret: None,
    };
    match state.oidc.discover(&connection).await {
        Ok(_) => Ok(ProviderState::Ok),
        Err(SignInFault::Misconfigured(code)) if code == "issuer_mismatch" => {
            Err(AuthError::IssuerMismatch)
        }
        Err(SignInFault::Unreachable(_)) => Ok(ProviderState::Unreachable),
        Err(_) => Ok(ProviderState::Misconfigured),
    }
}

/// List the identity providers, oldest first
///
/// Only admins of the oldest workspace can use this route. Everyone else gets 404.
#[utoipa::path(get, path = "/v1/identity-providers", tag = "admin",
    security(("session" = ["admin"])),
    responses((status = 200, body = List<IdentityProvider>)))]
async fn list_providers(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
) -> Result<Json<List<IdentityProvider>>, ApiError> {
    let mut c = state.db.read().await?;
    require_admin(&mut c, &caller).await?;
    let stored = provider::list(&mut c).await?;
    drop(c);
    let mut all = Vec::new();
    for provider in stored {
        all.push(shown(&state, provider).await?);
    }
    Ok(Json(List::new(
        all,
        PROVIDERS_MAX,
        false,
        |provider: &IdentityProvider| provider.id.to_string(),
    )))
}

/// Add an identity provider
///
/// It is off until a try was successful. Only admins of the oldest workspace can use this route, after a confirmation. Everyone else gets 404.
#[utoipa::path(post, path = "/v1/identity-providers", tag = "admin",
    security(("session" = ["admin"])),
    request_body(content = ProviderForm, example = json!({"name": "Corp", "issuer": "https://id.example.org", "client_id": "openvibe",
        "domains": ["example.org"]})),
    responses((status = 201, body = IdentityProvider)))]
async fn create_provider(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    _: Outgoing,
    Body(form): Body<ProviderForm>,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    require_admin(&mut c, &caller).await?;
    caller.caller.require_confirmed(&mut c).await?;
    drop(c);
    provider::check_issuer_form(&form.issuer)?;
    let id = IdentityProviderId::new();
    let found = check_issuer(&state, id, &form.issuer).await?;
    let created = change(
        &state,
        caller,
        async move |c: &mut Conn, actor: &Actor<'_>| {
            provider::create(c, actor, id, &form, found).await
        },
    )
    .await?;
    tagged_provider(&state, StatusCode::CREATED, created).await
}

/// Get an identity provider
#[utoipa::path(get, path = "/v1/identity-providers/{id}", tag = "admin",
    security(("session" = ["admin"])),
    params(("id" = IdentityProviderId, Path)),
    responses((status = 200, body = IdentityProvider)))]
async fn get_provider(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    Path(id): Path<IdentityProviderId>,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    require_admin(&mut c, &caller).await?;
    let stored = provider::get(&mut c, id).await?;
    drop(c);
    tagged_provider(&state, StatusCode::OK, stored).await
}

/// Change an identity provider, or turn it on or off
///
/// Turning it on needs a successful try with the present issuer, client ID, and secret (422 `not_tried`). Before you turn it off, see
/// `only_way_of`. Needs a confirmation.
#[utoipa::path(patch, path = "/v1/identity-providers/{id}", tag = "admin",
    security(("session" = ["admin"])),
    params(("id" = IdentityProviderId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = ProviderPatch, example = json!({"name": "Corp"})),
    responses((status = 200, body = IdentityProvider)))]
async fn patch_provider(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    Path(id): Path<IdentityProviderId>,
    IfMatch(expected): IfMatch,
    Body(patch): Body<ProviderPatch>,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    require_admin(&mut c, &caller).await?;
    caller.caller.require_confirmed(&mut c).await?;
    let before = provider::get(&mut c, id).await?;
    drop(c);
    if let Some(issuer) = patch
        .issuer
        .as_ref()
        .filter(|issuer| **issuer != before.issuer)
    {
        provider::check_issuer_form(issuer)?;
        check_issuer(&state, id, issuer).await?;
    }
    let changed = change(
        &state,
        caller,
        async move |c: &mut Conn, actor: &Actor<'_>| {
            provider::patch(c, actor, id, &patch, expected).await
        },
    )
    .await;
    match changed {
        Ok(changed) => tagged_provider(&state, StatusCode::OK, changed).await,
        Err(error) => Err(with_current(&state, id, error).await),
    }
}

/// Delete an identity provider
///
/// Its connections with accounts go with it. Accounts, memberships, and sessions stay. Needs a confirmation.
#[utoipa::path(delete, path = "/v1/identity-providers/{id}", tag = "admin",
    security(("session" = ["admin"])),
    params(("id" = IdentityProviderId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    responses((status = 204)))]
async fn delete_provider(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    Path(id): Path<IdentityProviderId>,
    IfMatch(expected): IfMatch,
) -> Result<StatusCode, ApiError> {
    let deleted = change(
        &state,
        caller,
        async move |c: &mut Conn, actor: &Actor<'_>| provider::delete(c, actor, id, expected).await,
    )
    .await;
    match deleted {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(error) => Err(with_current(&state, id, error).await),
    }
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ProviderSecretForm {
    /// The client secret. It is stored encrypted, and never shown.
    value: String,
}

/// Set the client secret of an identity provider
///
/// Needs a confirmation.
#[utoipa::path(put, path = "/v1/identity-providers/{id}/secret", tag = "admin",
    security(("session" = ["admin"])),
    params(("id" = IdentityProviderId, Path)),
    request_body(content = ProviderSecretForm, example = json!({"value": "s3cret"})),
    responses((status = 204)))]
async fn set_provider_secret(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    Path(id): Path<IdentityProviderId>,
    Body(form): Body<ProviderSecretForm>,
) -> Result<StatusCode, ApiError> {
    require_admin(&mut state.db.read().await?, &caller).await?;
    let sealed = provider::seal_secret(&state.keyring, id, &form.value)?;
    change(
        &state,
        caller,
        async move |c: &mut Conn, actor: &Actor<'_>| {
            provider::set_secret(c, actor, id, &sealed).await
        },
    )
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct TryForm {
    /// Path of this server that follows; `/` by default.
    next: Option<String>,
}

/// Try an identity provider with a real sign-in
///
/// Send the browser to `url`. It comes back to `next`, with `tried` or `error` in the query. Nothing changes except for `tried_at` and
/// `last_try`. Needs a confirmation.
#[utoipa::path(post, path = "/v1/identity-providers/{id}/try", tag = "admin",
    security(("session" = ["admin"])),
    params(("id" = IdentityProviderId, Path)),
    request_body(content = TryForm, example = json!({"next": "/"})),
    responses((status = 200, body = ProviderUrl, description = "The cookie `openvibe_flow` is set"),
        (status = 503, body = crate::http::error::ErrorBody, description = "The provider does not answer")))]
async fn try_provider(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    _: Outgoing,
    Path(id): Path<IdentityProviderId>,
    Body(form): Body<TryForm>,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    require_admin(&mut c, &caller).await?;
    let session = caller.caller.require_confirmed(&mut c).await?;
    let stored = provider::get(&mut c, id).await?;
    drop(c);
    let start = Start {
        purpose: StepPurpose::Try,
        next: form.next,
        invite: None,
        starter: Some(Starter {
            user: caller.caller.user,
            session,
        }),
    };
    Ok(start.begin(&state, stored).await?.into_response())
}

/// List the people who could not sign in without an identity provider
///
/// The first 100, in the order of their accounts; `only_way_of` of the provider is their number.
#[utoipa::path(get, path = "/v1/identity-providers/{id}/people", tag = "admin",
    security(("session" = ["admin"])),
    params(("id" = IdentityProviderId, Path)),
    responses((status = 200, body = List<DependentPerson>)))]
async fn list_dependents(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    Path(id): Path<IdentityProviderId>,
) -> Result<Json<List<DependentPerson>>, ApiError> {
    let mut c = state.db.read().await?;
    require_admin(&mut c, &caller).await?;
    provider::get(&mut c, id).await?;
    let passwords = password_users(&mut c).await?;
    let people = dependents::list(&mut c, id, passwords, LIMIT_MAX + 1).await?;
    Ok(Json(List::new(
        people,
        LIMIT_MAX,
        false,
        |person: &DependentPerson| person.user_id.to_string(),
    )))
}

/// Links on their way.
#[derive(Serialize, utoipa::ToSchema)]
struct SentLinks {
    /// Number of people who get a link.
    people: usize,
}

/// Send a link to each person who could not sign in without an identity provider
///
/// The link sets a password, once, within half an hour. The first 1,000 people get it, each at most three times an hour. Needs a
/// confirmation.
#[utoipa::path(post, path = "/v1/identity-providers/{id}/links", tag = "admin",
    security(("session" = ["admin"])),
    params(("id" = IdentityProviderId, Path)),
    responses((status = 202, body = SentLinks, description = "The emails are being queued"),
        (status = 403, body = ErrorBody, description = "Only admins of the server can use passwords"),
        (status = 422, body = ErrorBody, description = "Email is off")))]
async fn send_links(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    _: Outgoing,
    Path(id): Path<IdentityProviderId>,
    _: NoFields,
) -> Result<(StatusCode, Json<SentLinks>), ApiError> {
    let mut c = state.db.read().await?;
    require_admin(&mut c, &caller).await?;
    caller.caller.require_confirmed(&mut c).await?;
    provider::get(&mut c, id).await?;
    state.mailer.sending().map_err(AuthError::from)?;
    let passwords = password_users(&mut c).await?;
    if passwords == PasswordUsers::ServerAdmins {
        return Err(AuthError::PasswordSignInOff.into());
    }
    let people = dependents::list(&mut c, id, passwords, LINKS_MAX).await?;
    drop(c);
    let count = people.len();
    let name = change(
        &state,
        caller,
        async move |c: &mut Conn, actor: &Actor<'_>| {
            dependents::record_links(c, actor, id, count).await
        },
    )
    .await?;
    let sender = state.clone();
    let sending = async move {
        let (db, mailer, url) = (&sender.db, &sender.mailer, &sender.public_url);
        for person in people {
            if sender.shutdown.is_cancelled() {
                break;
            }
            let user = person.user_id;
            if let Err(e) = addresses::send_link_for(db, mailer, user, &name, url).await {
                tracing::warn!(user.id = %user, error = %e, "a link that sets a password could not be queued");
            }
        }
    };
    state.tracker.spawn(sending.in_current_span());
    Ok((StatusCode::ACCEPTED, Json(SentLinks { people: count })))
}

/// A new SCIM token, with its secret.
#[derive(Serialize, utoipa::ToSchema)]
struct NewScimToken {
    #[serde(flatten)]
    scim_token: ScimToken,
    /// The bearer token. It is shown only once.
    token: String,
}

/// List the SCIM tokens of an identity provider, oldest first
#[utoipa::path(get, path = "/v1/identity-providers/{id}/scim-tokens", tag = "admin",
    security(("session" = ["admin"])),
    params(("id" = IdentityProviderId, Path)),
    responses((status = 200, body = List<ScimToken>)))]
async fn list_scim_tokens(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    Path(id): Path<IdentityProviderId>,
) -> Result<Json<List<ScimToken>>, ApiError> {
    let mut c = state.db.read().await?;
    require_admin(&mut c, &caller).await?;
    let all = token::list(&mut c, id).await?;
    Ok(Json(List::new(
        all,
        TOKENS_MAX,
        false,
        |token: &ScimToken| token.id.to_string(),
    )))
}

/// Create a SCIM token for an identity provider
///
/// The provider sends accounts and groups with it to `scim_url`. A provider can have two, so that one replaces the other. Needs a
/// confirmation.
#[utoipa::path(post, path = "/v1/identity-providers/{id}/scim-tokens", tag = "admin",
    security(("session" = ["admin"])),
    params(("id" = IdentityProviderId, Path)),
    responses((status = 201, body = NewScimToken)))]
async fn create_scim_token(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    Path(id): Path<IdentityProviderId>,
    Body(_): NoFields,
) -> Result<Response, ApiError> {
    let (scim_token, token) = change(
        &state,
        caller,
        async move |c: &mut Conn, actor: &Actor<'_>| token::create(c, actor, id).await,
    )
    .await?;
    let created = NewScimToken { scim_token, token };
    Ok((StatusCode::CREATED, Json(created)).into_response())
}

/// Delete a SCIM token of an identity provider
///
/// Needs a confirmation.
#[utoipa::path(delete, path = "/v1/identity-providers/{id}/scim-tokens/{token_id}", tag = "admin",
    security(("session" = ["admin"])),
    params(("id" = IdentityProviderId, Path), ("token_id" = ScimTokenId, Path)),
    responses((status = 204)))]
async fn delete_scim_token(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    Path((id, token)): Path<(IdentityProviderId, ScimTokenId)>,
) -> Result<StatusCode, ApiError> {
    change(
        &state,
        caller,
        async move |c: &mut Conn, actor: &Actor<'_>| token::delete(c, actor, id, token).await,
    )
    .await?;
    Ok(StatusCode::NO_CONTENT)
}
