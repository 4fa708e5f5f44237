//! HTTP routes for accounts and sessions.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

use tracing::Instrument;

use super::{
    St, device_of,
    session::{Account, Browser, SignInMethod, account, cookie, counted, verify_current_password},
};
use crate::{
    agents::seeds,
    auth::{
        Attempt, AuthError, AuthEvent, Caller, Credential, SecurityChange, SecurityMail, Session,
        clients,
        events::{self, AuthEventKind, Device},
        factors::{SecondFactorMethod, SecondFactors},
        flows::{FlowKind, NewFlow},
        handles, invites, keys,
        oidc::{identity, provider},
        password::{StoredPassword, check_password},
        sessions::{self, SignInProof},
        users::{self, ClientParts},
        workspaces,
    },
    config::Signup,
    db::Conn,
    failpoint,
    http::{
        ApiError, ErrorCode,
        extract::{Body, NoFields, Path, Query},
        page::{Limit, List, PageQuery},
        routing::routes,
    },
    ids::{AuthEventId, IdentityProviderId, SessionId, UserId},
    patch::present,
    server::{State, caller::Address},
    upkeep::choices::{Choices, PasswordSignIn},
};

/// Time for which signing out waits for what the provider publishes.
const DISCOVERED_WITHIN: Duration = Duration::from_secs(2);

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(setup))
        .routes(routes!(signup))
        .routes(routes!(suggest_handle))
        .routes(routes!(login))
        .routes(routes!(logout))
        .routes(routes!(me, update_me))
        .routes(routes!(password))
        .routes(routes!(list_sessions, end_other_sessions))
        .routes(routes!(end_session))
        .routes(routes!(list_auth_events))
}

/// Server settings that clients need before sign-in.
#[derive(Serialize, utoipa::ToSchema)]
struct Setup {
    /// True if no account exists yet.
    needs_setup: bool,
    /// `first`, `open`, or `invite`.
    signup: Signup,
    /// True if creating the first account requires the token from the setup link.
    setup_token_required: bool,
    /// True if the server sends email, so that a forgotten password can be reset.
    mail: bool,
}

/// Get the setup and sign-up status
#[utoipa::path(get, path = "/v1/auth/setup", tag = "accounts",
    security(()),
    responses((status = 200, body = Setup)))]
async fn setup(
    axum::extract::State(state): St,
    headers: HeaderMap,
) -> Result<Json<Setup>, ApiError> {
    let needs_setup = !users::any_account(&mut state.db.read().await?).await?;
    Ok(Json(Setup {
        needs_setup,
        signup: state.config.signup,
        setup_token_required: needs_setup && state.first_account.token_for(&headers).is_some(),
        mail: state.mailer.is_on(),
    }))
}

/// Way in which a person signed in, with the account.
enum SignIn {
    /// The account was just created.
    New(UserId),
    /// The account's password was verified.
    Verified(StoredPassword),
}

/// Result of a sign-in's first step.
enum Start {
    /// Token of the new session.
    Session(String),
    /// The sign-in needs one of these second factors.
    Asked(Vec<SecondFactorMethod>),
}

/// Starts a session and responds with its cookie, or asks for a second factor.
///
/// # Errors
/// `WrongPassword` if the password has been changed since it was verified, `PasswordSignInOff` if this person cannot use it.
async fn signed_in(
    state: &State,
    status: StatusCode,
    sign_in: SignIn,
    headers: &HeaderMap,
    address: &Address,
) -> Result<Response, ApiError> {
    let browser = Browser::of(headers, address);
    let user = match &sign_in {
        SignIn::New(user) => *user,
        SignIn::Verified(password) => password.user_id,
    };
    let starting = browser.clone();
    let flow = NewFlow::new(FlowKind::SecondFactor, Some(user));
    let secret = flow.secret.clone();
    let result = state
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            if let SignIn::Verified(password) = &sign_in {
                if !password.is_current(c).await? {
                    return Err(AuthError::WrongPassword);
                }
                if Choices::read(c).await?.password_sign_in == PasswordSignIn::ServerAdmins
                    && !workspaces::is_server_admin(c, user).await?
                {
                    return Err(AuthError::PasswordSignInOff);
                }
                let methods = SecondFactors::of(c, user).await?.methods();
                if !methods.is_empty() {
                    flow.store(c).await?;
                    return Ok(Start::Asked(methods));
                }
            }
            let proof = SignInProof::OneFactor;
            let token = starting.start_session(c, user, proof).await?;
            Ok(Start::Session(token))
        })
        .await?;
    match result {
        Start::Session(token) => browser.respond(state, status, user, &token).await,
        Start::Asked(methods) => {
            let text = "a second factor is needed: enter a code, or use a passkey".to_owned();
            let error = ApiError::new(
                StatusCode::UNAUTHORIZED,
                ErrorCode::SecondFactorRequired,
                text,
            );
            let methods = methods.into_iter().map(SecondFactorMethod::as_str);
            Err(error.with_next_step(secret, methods.collect()))
        }
    }
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct SignupForm {
    email: String,
    /// At least 8 characters.
    password: String,
    name: String,
    /// Token of an invite link.
    invite: Option<String>,
    /// Handle in the workspace of the invite; derived from the name, or else the email address, by default.
    handle: Option<String>,
    /// Token from the setup link, if the server requires one.
    setup_token: Option<String>,
}

/// Create an account
#[utoipa::path(post, path = "/v1/auth/signup", tag = "accounts",
    security(()),
    request_body(content = SignupForm,
        example = json!({"email": "ada@example.org", "password": "correct horse battery", "name": "Ada"})),
    responses((status = 201, body = Account, description = "Signed in: the session cookie is set")))]
async fn signup(
    axum::extract::State(state): St,
    headers: HeaderMap,
    address: Address,
    Body(form): Body<SignupForm>,
) -> Result<Response, ApiError> {
    let form = users::SignUp {
        email: form.email,
        name: form.name,
        password: form.password,
        invite: form.invite,
        handle: form.handle,
        setup_token: form.setup_token,
    };
    let email = form.email.trim().to_lowercase();
    let mut c = state.db.read().await?;
    if Choices::read(&mut c).await?.password_sign_in == PasswordSignIn::ServerAdmins
        && users::any_account(&mut c).await?
    {
        return Err(AuthError::PasswordSignInOff.into());
    }
    drop(c);
    // Sign-up reveals whether an email address is taken, so attempts are limited like logins.
    let attempt = state.limits.log_in(&email, address.0).await?;
    let new = async {
        if form.invite.is_none() {
            // The person may create a workspace, which begins with these agents.
            seeds::check_person(&mut state.db.read().await?, &form.name).await?;
        }
        users::sign_up(
            &state.db,
            &state.hasher,
            state.config.signup,
            state.first_account.token_for(&headers).map(str::to_owned),
            form,
        )
        .await
    }
    .await;
    state.limits.settle(&email, address.0, attempt, &new).await;
    let sign_in = SignIn::New(new?.user.id);
    signed_in(&state, StatusCode::CREATED, sign_in, &headers, &address).await
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct HandleForm {
    name: String,
    /// Used if no character of the name can be part of a handle.
    #[serde(default)]
    email: String,
    /// Token of an invite link. Without it, the handle is for a new workspace.
    invite: Option<String>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct SuggestedHandle {
    handle: String,
}

/// Get the handle that a new member would get
///
/// The handle is not reserved: `POST /v1/auth/signup` with it can still return 409 `handle_taken`.
#[utoipa::path(post, path = "/v1/auth/handle", tag = "accounts",
    security(()),
    request_body(content = HandleForm,
        example = json!({"name": "李小龍", "email": "li.xiaolong@example.org"})),
    responses((status = 200, body = SuggestedHandle)))]
async fn suggest_handle(
    axum::extract::State(state): St,
    Body(form): Body<HandleForm>,
) -> Result<Json<SuggestedHandle>, ApiError> {
    let mut c = state.db.read().await?;
    let workspace = match &form.invite {
        Some(token) => Some(invites::find_open(&mut c, token, None).await?.workspace_id),
        None => None,
    };
    let handle = handles::suggest(&mut c, workspace, &form.name, &form.email).await?;
    Ok(Json(SuggestedHandle { handle }))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct LoginForm {
    email: String,
    password: String,
}

/// Log in
#[utoipa::path(post, path = "/v1/auth/login", tag = "accounts",
    security(()),
    request_body(content = LoginForm,
        example = json!({"email": "ada@example.org", "password": "correct horse battery"})),
    responses((status = 200, body = Account, description = "Signed in: the session cookie is set"),
        (status = 401, body = crate::http::error::ErrorBody, description = "The email address or password is wrong, or \
            `second_factor_required`: complete the sign-in with `flow` and one of `methods`")))]
async fn login(
    axum::extract::State(state): St,
    headers: HeaderMap,
    address: Address,
    Body(form): Body<LoginForm>,
) -> Result<Response, ApiError> {
    let signed_in = Box::pin(log_in(&state, &headers, &address, form)).await;
    counted(SignInMethod::Password, signed_in)
}

async fn log_in(
    state: &State,
    headers: &HeaderMap,
    address: &Address,
    form: LoginForm,
) -> Result<Response, ApiError> {
    let email = form.email.trim().to_lowercase();
    let mut attempt = state.limits.log_in(&email, address.0).await?;
    let mut c = state.db.read().await?;
    let stored = StoredPassword::find(&mut c, &email).await?;
    let is_unknown = attempt == Attempt::Guarded
        && match &stored {
            Some(stored) => {
                let client = Browser::of(headers, address).client;
                !clients::is_known(&mut c, stored.user_id, &client).await?
            }
            None => true,
        };
    drop(c);
    if is_unknown {
        attempt = state.limits.unknown_client(&email, address.0).await?;
    }
    let verified = state.hasher.verify(form.password, stored.clone()).await;
    failpoint!("login_verified");
    let verified = match verified {
        Ok(true) => stored.clone().ok_or(AuthError::WrongPassword),
        Ok(false) => Err(AuthError::WrongPassword),
        Err(e) => Err(e),
    };
    let limits = &state.limits;
    limits.settle(&email, address.0, attempt, &verified).await;
    if matches!(verified, Err(AuthError::WrongPassword)) {
        tracing::warn!(client.address = %address.0, "a sign-in failed");
    }
    if let (Err(AuthError::WrongPassword), Some(stored)) = (&verified, stored) {
        note_failure(state, stored.user_id, device_of(headers, address));
    }
    let password = verified?;
    let sign_in = SignIn::Verified(password);
    signed_in(state, StatusCode::OK, sign_in, headers, address).await
}

/// Records a failed sign-in in the background, so that the response takes no longer than for an unknown address.
fn note_failure(state: &State, user: UserId, device: Device) {
    let db = state.db.clone();
    let note = async move {
        let noted = db
            .write(Uuid::nil(), async move |c: &mut Conn| {
                events::record(c, user, AuthEventKind::SignInFailed, None, &device).await
            })
            .await;
        if let Err(e) = noted {
            tracing::warn!(error = %e, "could not record a failed sign-in");
        }
    };
    state.tracker.spawn(note.in_current_span());
}

/// The provider with which the ended session began, at which the person may still be signed in.
#[derive(Serialize, utoipa::ToSchema)]
struct LeftProvider {
    name: String,
    /// Page on which the person can sign out there.
    url: String,
}

/// An ended session of a provider.
#[derive(Serialize, utoipa::ToSchema)]
struct LoggedOut {
    provider: LeftProvider,
}

/// End the current session
///
/// Status 200 if the session began with an identity provider that has a page for signing out.
#[utoipa::path(post, path = "/v1/auth/logout", tag = "accounts",
    security(("session" = ["viewer"])),
    responses((status = 204), (status = 200, body = LoggedOut)))]
async fn logout(
    axum::extract::State(state): St,
    caller: Caller,
    _: NoFields,
) -> Result<Response, ApiError> {
    let (user, id) = (caller.user, caller.require_session()?);
    let provider = identity::provider_of(&mut state.db.read().await?, id).await?;
    caller
        .write(&state.db, async move |c: &mut Conn| {
            sessions::end(c, user, id).await
        })
        .await?;
    let cleared = [(header::SET_COOKIE, cookie(&state, "", 0))];
    let left = match provider {
        Some(provider) => Box::pin(left_provider(&state, provider)).await,
        None => None,
    };
    Ok(match left {
        Some(provider) => (cleared, Json(LoggedOut { provider })).into_response(),
        None => (StatusCode::NO_CONTENT, cleared).into_response(),
    })
}

/// A provider that has a page for signing out. The session has ended, so a provider that is slow, down, or off is left out.
async fn left_provider(state: &State, id: IdentityProviderId) -> Option<LeftProvider> {
    if state.config.is_quiet {
        return None;
    }
    let mut c = state.db.read().await.ok()?;
    let provider = provider::get_enabled(&mut c, id).await.ok()?;
    let connection = provider.connection(&mut c, &state.keyring).await.ok()?;
    drop(c);
    let reading = state.oidc.discover(&connection);
    let discovery = tokio::time::timeout(DISCOVERED_WITHIN, reading)
        .await
        .ok()?
        .ok()?;
    Some(LeftProvider {
        url: discovery.end_session_url(&provider.client_id)?.to_string(),
        name: provider.name,
    })
}

/// Get the signed-in person; a key gets `id`, `name`, and its own workspace
#[utoipa::path(get, path = "/v1/auth/me", tag = "accounts",
    security(("session" = ["viewer"]), ("key" = [])),
    responses((status = 200, body = Account)))]
async fn me(axum::extract::State(state): St, caller: Caller) -> Result<Json<Account>, ApiError> {
    let mut account = account(&mut state.db.read().await?, caller.user).await?;
    if let Credential::Key { workspace, .. } = &caller.credential {
        account.user.email = None;
        account.user.created_at = None;
        account.user.suggestions = None;
        account.user.email_confirmed = None;
        account.workspaces.retain(|own| own.id == *workspace);
    }
    Ok(Json(account))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct MePatch {
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    suggestions: Option<bool>,
    /// `false` hides the first steps in all workspaces.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    checklist: Option<bool>,
}

/// Change your own name, turn the client's suggestions on or off, or hide the first steps
#[utoipa::path(patch, path = "/v1/auth/me", tag = "accounts",
    security(("session" = ["viewer"])),
    request_body(content = MePatch,
        example = json!({"name": "Ada Lindholm"})),
    responses((status = 200, body = Account)))]
async fn update_me(
    axum::extract::State(state): St,
    caller: Caller,
    Body(patch): Body<MePatch>,
) -> Result<Json<Account>, ApiError> {
    caller.require_session()?;
    let user = caller.user;
    if let Some(name) = patch.name {
        users::rename(&state.db, &caller, name).await?;
    }
    let parts = ClientParts {
        suggestions: patch.suggestions,
        checklist: patch.checklist,
    };
    if parts.suggestions.is_some() || parts.checklist.is_some() {
        users::set_client_parts(&state.db, &caller, parts).await?;
    }
    Ok(Json(account(&mut state.db.read().await?, user).await?))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct PasswordForm {
    current_password: String,
    /// At least 8 characters.
    new_password: String,
    /// `true` also deletes all API keys of the account.
    #[serde(default)]
    revoke_keys: bool,
}

/// Change your password and end all other sessions
#[utoipa::path(post, path = "/v1/auth/password", tag = "accounts",
    security(("session" = ["viewer"])),
    request_body(content = PasswordForm,
        example = json!({"current_password": "correct horse battery", "new_password": "another horse battery"})),
    responses((status = 204)))]
async fn password(
    axum::extract::State(state): St,
    caller: Caller,
    headers: HeaderMap,
    address: Address,
    Body(form): Body<PasswordForm>,
) -> Result<StatusCode, ApiError> {
    let (user, session) = (caller.user, caller.require_session()?);
    let owner = users::get_user(&mut state.db.read().await?, user).await?;
    check_password(&form.new_password, &owner.name, &owner.email)?;
    let stored =
        verify_current_password(&state, session, &owner.email, form.current_password).await?;
    let mail = SecurityMail::write(
        &state.mailer,
        &owner,
        &state.public_url,
        SecurityChange::Password,
    );
    let hash = state.hasher.hash(form.new_password).await?;
    let (revoke_keys, device) = (form.revoke_keys, device_of(&headers, &address));
    caller
        .write(&state.db, async move |c: &mut Conn| {
            if !stored.is_current(c).await? {
                return Err(AuthError::WrongCurrentPassword);
            }
            users::set_password(c, user, &hash).await?;
            events::record(c, user, AuthEventKind::PasswordChanged, None, &device).await?;
            if revoke_keys {
                keys::revoke_all(c, user).await?;
            }
            mail.queue(c).await?;
            sessions::end_all(c, user, Some(session)).await
        })
        .await?;
    state.mailer.wake();
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EventsQuery {
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// `next_cursor` of the previous page.
    cursor: Option<AuthEventId>,
}

/// List sign-ins, failed sign-ins, password changes, and new keys of your account in the last 90 days, newest first
#[utoipa::path(get, path = "/v1/auth/events", tag = "accounts",
    security(("session" = ["viewer"])),
    params(EventsQuery), responses((status = 200, body = List<AuthEvent>)))]
async fn list_auth_events(
    axum::extract::State(state): St,
    caller: Caller,
    Query(query): Query<EventsQuery>,
) -> Result<Json<List<AuthEvent>>, ApiError> {
    caller.require_session()?;
    let limit = Limit::or(query.limit, 20);
    let mut c = state.db.read().await?;
    let rows = events::list(&mut c, caller.user, query.cursor, limit + 1).await?;
    let list = List::new(rows, limit, false, |event: &AuthEvent| event.id.to_string());
    let next = list.last_id.clone().filter(|_| list.has_more);
    Ok(Json(list.continued_at(next)))
}

/// One of the caller's own sessions.
#[derive(Serialize, utoipa::ToSchema)]
struct MySession {
    #[serde(flatten)]
    session: Session,
    /// True for the session of this request.
    current: bool,
}

/// List your sessions
#[utoipa::path(get, path = "/v1/auth/sessions", tag = "accounts",
    security(("session" = ["viewer"])),
    params(PageQuery<SessionId>), responses((status = 200, body = List<MySession>)))]
async fn list_sessions(
    axum::extract::State(state): St,
    caller: Caller,
    Query(query): Query<PageQuery<SessionId>>,
) -> Result<Json<List<MySession>>, ApiError> {
    let current = caller.require_session()?;
    let page = query.page(20)?;
    let sessions = sessions::list(&mut state.db.read().await?, caller.user).await?;
    let rows = sessions
        .into_iter()
        .map(|session| MySession {
            current: session.id == current,
            session,
        })
        .collect();
    Ok(Json(page.cut(rows, |row: &MySession| row.session.id)?))
}

/// End all of your other sessions
///
/// API keys stay valid.
#[utoipa::path(delete, path = "/v1/auth/sessions", tag = "accounts",
    security(("session" = ["viewer"])), responses((status = 204)))]
async fn end_other_sessions(
    axum::extract::State(state): St,
    caller: Caller,
) -> Result<StatusCode, ApiError> {
    let current = caller.require_session()?;
    let user = caller.user;
    caller
        .write(&state.db, async move |c: &mut Conn| {
            sessions::end_all(c, user, Some(current)).await
        })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// End one of your sessions
#[utoipa::path(delete, path = "/v1/auth/sessions/{id}", tag = "accounts",
    security(("session" = ["viewer"])),
    params(("id" = SessionId, Path)), responses((status = 204)))]
async fn end_session(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<SessionId>,
) -> Result<StatusCode, ApiError> {
    caller.require_session()?;
    let user = caller.user;
    if !caller
        .write(&state.db, async move |c: &mut Conn| {
            sessions::end(c, user, id).await
        })
        .await?
    {
        return Err(AuthError::NotFound("session").into());
    }
    Ok(StatusCode::NO_CONTENT)
}
