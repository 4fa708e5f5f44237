//! HTTP routes for sign-in with identity providers: the way there and back, connections of accounts, and sessions that a provider ends.

use axum::{
    Json, Router,
    extract::RawForm,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{AppendHeaders, IntoResponse, Response},
    routing::{get, post},
};
use axum_extra::extract::CookieJar;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

use super::{
    St, device_of,
    factors::can_use_password,
    session::{Account, Browser, SignInMethod, cookie_at, count_sign_in},
};
use crate::{
    auth::{
        Attempt, AuditAction, AuthError, Caller, SecurityChange, SecurityMail,
        factors::SecondFactors,
        invites,
        oidc::{
            SignInFault,
            account::{self, AccountChange, Entered, LinkProof, Whose},
            answer::{self, Vouched},
            identity::{self, Identity},
            logout::Logout,
            membership, notices,
            provider::{
                self, PROVIDERS_MAX, ProviderState, SeenState, StoredProvider, redirect_uri,
            },
            step::{self, Begun, FLOW_COOKIE, FLOW_COOKIE_S, Step, StepPurpose, StepSecrets},
        },
        password::StoredPassword,
        record_audit_of,
        sessions::SignInProof,
        users, workspaces,
    },
    chat::channels,
    db::Conn,
    http::{
        ApiError,
        extract::{Body, Path},
        page::List,
        routing::routes,
    },
    ids::{IdentityId, IdentityProviderId, InviteId, SessionId, UserId},
    outbound::Url,
    server::{
        State,
        caller::{Address, Outgoing, caller_of, token_of},
    },
    time::Timestamp,
};

/// Path to which the cookie of a step belongs.
const COOKIE_PATH: &str = "/v1/auth/oidc";

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(start))
        .routes(routes!(link))
        .routes(routes!(list_identities))
        .routes(routes!(remove_identity))
}

/// Routes for providers, and for browsers that come from them. They are not part of the API document, because no client calls them.
pub fn receiver() -> Router<State> {
    Router::new()
        .route("/v1/auth/oidc/{id}/callback", get(callback))
        .route("/v1/auth/oidc/{id}/logout", post(logout))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct StartForm {
    /// Token of an invite link, for people without an account.
    invite: Option<String>,
    /// Path of this server that follows the sign-in; `/` by default.
    next: Option<String>,
    /// True to connect the provider to the account of the session. Needs a confirmation.
    #[serde(default)]
    connect: bool,
    /// True to confirm that it is you, with a new sign-in at the provider.
    #[serde(default)]
    confirm: bool,
}

/// Next page for the browser.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::routes) struct ProviderUrl {
    /// Address of the provider's page.
    url: String,
}

/// The person whom a step belongs to, except for one that signs in.
pub(in crate::routes) struct Starter {
    pub user: UserId,
    pub session: SessionId,
}

/// A step that is to be begun.
pub(in crate::routes) struct Start {
    pub purpose: StepPurpose,
    pub next: Option<String>,
    pub invite: Option<InviteId>,
    pub starter: Option<Starter>,
}

impl Start {
    /// Stores the step and responds with the address of the provider, and the cookie of the browser.
    pub(in crate::routes) async fn begin(
        self,
        state: &State,
        provider: StoredProvider,
    ) -> Result<Response, ApiError> {
        let next = self.next.as_deref().unwrap_or("/");
        let next = step::parse_next(next, &state.public_url)?;
        let mut c = state.db.read().await?;
        let connection = provider.connection(&mut c, &state.keyring).await?;
        drop(c);
        let discovery = state.oidc.discover(&connection).await;
        note_state(state, &provider, discovery.as_ref().err()).await?;
        let discovery = discovery.map_err(AuthError::from)?;
        let secrets = StepSecrets::new();
        let redirect = redirect_uri(&state.public_url, provider.id);
        let url = step::address(&connection, &discovery, &secrets, self.purpose, &redirect)
            .map_err(AuthError::from)?;
        let cookie = flow_cookie(state, &secrets.browser);
        let begun = Begun {
            step: Step {
                provider: provider.id,
                purpose: self.purpose,
                next,
                session: self.starter.as_ref().map(|starter| starter.session),
                version: provider.version,
                began_at: Timestamp::now().unix_s(),
            },
            user: self.starter.map(|starter| starter.user),
            invite: self.invite,
        };
        state
            .db
            .write(Uuid::nil(), async move |c: &mut Conn| {
                step::begin(c, &secrets, &begun).await
            })
            .await?;
        Ok(([(header::SET_COOKIE, cookie)], Json(ProviderUrl { url })).into_response())
    }
}

fn flow_cookie(state: &State, secret: &str) -> String {
    let max_age_s = if secret.is_empty() { 0 } else { FLOW_COOKIE_S };
    cookie_at(state, FLOW_COOKIE, secret, COOKIE_PATH, max_age_s)
}

/// Stores the outcome of a request to a provider, if it is news.
async fn note_state(
    state: &State,
    provider: &StoredProvider,
    fault: Option<&SignInFault>,
) -> Result<(), ApiError> {
    let is_known = fault.is_none() && provider.state == ProviderState::Ok;
    if is_known {
        return Ok(());
    }
    if let Some(fault) = fault {
        tracing::warn!(provider.id = %provider.id, error = %fault, "a sign-in with a provider failed");
    }
    let seen = fault.map_or(Some(SeenState::OK), SeenState::of);
    let (id, Some(seen)) = (provider.id, seen) else {
        return Ok(());
    };
    Ok(state
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            provider::set_state(c, id, &seen).await
        })
        .await?)
}

/// Begin to sign in with a provider
///
/// Send the browser to `url`. It comes back to `next`, or to `/sign-in` with `error`, `provider`, and `detail` in the query. With
/// `connect` or `confirm`, which need a session, errors are in the query of `next`.
#[utoipa::path(post, path = "/v1/auth/oidc/{id}/start", tag = "accounts",
    security(()),
    params(("id" = IdentityProviderId, Path)),
    request_body(content = StartForm, example = json!({"next": "/acme"})),
    responses((status = 200, body = ProviderUrl, description = "The cookie `openvibe_flow` is set"),
        (status = 401, body = crate::http::error::ErrorBody, description = "`connect` or `confirm` without a session"),
        (status = 503, body = crate::http::error::ErrorBody, description = "The provider does not answer")))]
async fn start(
    axum::extract::State(state): St,
    headers: HeaderMap,
    _: Outgoing,
    Path(id): Path<IdentityProviderId>,
    Body(form): Body<StartForm>,
) -> Result<Response, ApiError> {
    let purpose = match (form.connect, form.confirm) {
        (false, false) => StepPurpose::SignIn,
        (true, false) => StepPurpose::Connect,
        (false, true) => StepPurpose::Confirm,
        (true, true) => {
            let problem = "send either `connect` or `confirm`".to_owned();
            return Err(AuthError::Invalid(problem, "confirm").into());
        }
    };
    let starter = if purpose == StepPurpose::SignIn {
        None
    } else {
        let caller = caller_of(&state, token_of(&headers)).await?;
        let session = match purpose {
            StepPurpose::Connect => {
                caller
                    .require_confirmed(&mut state.db.read().await?)
                    .await?
            }
            _ => caller.require_session()?,
        };
        Some(Starter {
            user: caller.user,
            session,
        })
    };
    let mut c = state.db.read().await?;
    let provider = provider::get_enabled(&mut c, id).await?;
    let invite = match &form.invite {
        Some(token) => Some(invites::find_open(&mut c, token, None).await?.id),
        None => None,
    };
    drop(c);
    let start = Start {
        purpose,
        next: form.next,
        invite,
        starter,
    };
    start.begin(&state, provider).await
}

/// Query of the provider's answer.
#[derive(Default)]
struct Answer {
    state: String,
    code: Option<String>,
    issuer: Option<String>,
    error: Option<String>,
}

impl Answer {
    fn of(uri: &Uri) -> Self {
        let mut this = Self::default();
        let query = uri.query().unwrap_or_default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            match &*name {
                "state" => this.state = value,
                "code" => this.code = Some(value),
                "iss" => this.issuer = Some(value),
                "error" => this.error = Some(value),
                _ => {}
            }
        }
        this
    }
}

/// Page that follows the provider's answer, with cookies.
struct Arrival {
    location: String,
    cookies: Vec<String>,
}

impl IntoResponse for Arrival {
    fn into_response(self) -> Response {
        let cookies = self.cookies.into_iter();
        let cookies: Vec<_> = cookies.map(|cookie| (header::SET_COOKIE, cookie)).collect();
        let location = [(header::LOCATION, self.location)];
        (StatusCode::SEE_OTHER, location, AppendHeaders(cookies)).into_response()
    }
}

fn with_query(state: &State, path: &str, pairs: &[(&str, &str)]) -> String {
    let joined = Url::parse(&state.public_url)
        .ok()
        .and_then(|base| base.join(path).ok());
    let Some(mut url) = joined else {
        return "/".to_owned();
    };
    url.query_pairs_mut().extend_pairs(pairs);
    let fragment = url.fragment().map(|text| format!("#{text}"));
    format!(
        "{}?{}{}",
        url.path(),
        url.query().unwrap_or_default(),
        fragment.unwrap_or_default()
    )
}

/// Path with the reason of a failure.
fn failure_path(
    state: &State,
    path: &str,
    provider: IdentityProviderId,
    fault: &SignInFault,
) -> String {
    let (provider, detail) = (provider.to_string(), fault.detail());
    let mut pairs = vec![("error", fault.code()), ("provider", provider.as_str())];
    if let Some(detail) = &detail {
        pairs.push(("detail", detail));
    }
    with_query(state, path, &pairs)
}

/// `GET /v1/auth/oidc/{id}/callback`: the browser comes back from the provider.
async fn callback(
    axum::extract::State(state): St,
    Path(id): Path<IdentityProviderId>,
    headers: HeaderMap,
    address: Address,
    uri: Uri,
) -> Response {
    let answer = Answer::of(&uri);
    let browser = CookieJar::from_headers(&headers)
        .get(FLOW_COOKIE)
        .map(|cookie| cookie.value().to_owned());
    let secrets = StepSecrets {
        state: answer.state.clone(),
        browser: browser.unwrap_or_default(),
    };
    let mut page = "/sign-in".to_owned();
    let arrived = Box::pin(async {
        let taken = secrets.clone();
        let begun = state
            .db
            .write(Uuid::nil(), async move |c: &mut Conn| {
                step::take(c, &taken, id).await
            })
            .await?;
        if begun.step.purpose != StepPurpose::SignIn {
            page.clone_from(&begun.step.next);
        }
        let browser = Browser::of(&headers, &address);
        arrive(&state, begun, &secrets, answer, browser).await
    })
    .await;
    match arrived {
        Ok(arrival) => {
            count_sign_in(SignInMethod::Provider, "ok");
            arrival.into_response()
        }
        Err(fault) => {
            count_sign_in(SignInMethod::Provider, fault.code());
            if let SignInFault::Auth(AuthError::Db(error)) = &fault {
                tracing::error!(%error, "a sign-in with a provider failed");
            }
            let arrival = Arrival {
                location: failure_path(&state, &page, id, &fault),
                cookies: vec![flow_cookie(&state, "")],
            };
            arrival.into_response()
        }
    }
}

/// Checks the provider's answer and does what the step is for.
async fn arrive(
    state: &State,
    begun: Begun,
    secrets: &StepSecrets,
    given: Answer,
    browser: Browser,
) -> Result<Arrival, SignInFault> {
    let mut c = state.db.read().await?;
    let provider = provider::get(&mut c, begun.step.provider).await?;
    if !provider.enabled && begun.step.purpose != StepPurpose::Try {
        return Err(SignInFault::Expired);
    }
    let connection = provider.connection(&mut c, &state.keyring).await?;
    drop(c);
    let read = async {
        let discovery = state.oidc.discover(&connection).await?;
        let must_name = discovery.authorization_response_iss_parameter_supported;
        let is_from_here = match &given.issuer {
            Some(issuer) => *issuer == connection.issuer,
            None => !must_name,
        };
        if !is_from_here {
            return Err(SignInFault::Refused("wrong_issuer".to_owned()));
        }
        if let Some(error) = &given.error {
            return Err(SignInFault::refused(error));
        }
        let code = given.code.as_deref();
        let code = code.ok_or_else(|| SignInFault::Refused("no_code".to_owned()))?;
        let redirect = redirect_uri(&state.public_url, provider.id);
        let settings = &provider.settings.0;
        answer::read(
            &state.oidc,
            &connection,
            settings,
            &begun.step,
            secrets,
            code,
            &redirect,
        )
        .await
    };
    let vouched = Box::pin(read).await;
    if let Err(error) = note_state(state, &provider, vouched.as_ref().err()).await {
        tracing::warn!(
            code = error.code().as_str(),
            "the state of a provider could not be stored"
        );
    }
    let vouched = vouched?;
    match begun.step.purpose {
        StepPurpose::SignIn | StepPurpose::Connect => {
            Box::pin(enter(state, provider, begun, vouched, browser)).await
        }
        StepPurpose::Confirm => {
            let next = begun.step.next.clone();
            state
                .db
                .write(Uuid::nil(), async move |c: &mut Conn| {
                    account::confirm(c, &provider, &begun, &vouched).await
                })
                .await?;
            Ok(Arrival {
                location: next,
                cookies: vec![flow_cookie(state, "")],
            })
        }
        StepPurpose::Try => record_try(state, provider, begun, vouched).await,
    }
}

/// Stores what a try has shown.
async fn record_try(
    state: &State,
    provider: StoredProvider,
    begun: Begun,
    vouched: Vouched,
) -> Result<Arrival, SignInFault> {
    let next = begun.step.next.clone();
    let id = provider.id.to_string();
    state
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            let user = account::check_session(c, &begun).await?;
            let oldest = workspaces::find_oldest(c).await?;
            let (true, Some(oldest)) = (workspaces::is_server_admin(c, user).await?, oldest) else {
                return Err(SignInFault::Expired);
            };
            let seen = account::foresee(c, &provider, &vouched).await?;
            if !provider::record_try(c, provider.id, begun.step.version, seen).await? {
                return Err(SignInFault::Expired);
            }
            let data = serde_json::json!({"name": provider.name});
            let (action, target) = (AuditAction::ProviderTried, provider.id.to_string());
            record_audit_of(c, oldest, user, action, target, data).await?;
            Ok(())
        })
        .await?;
    Ok(Arrival {
        location: with_query(state, &next, &[("tried", &id)]),
        cookies: vec![flow_cookie(state, "")],
    })
}

/// Result of the transaction that decides whose account it is.
enum Decided {
    /// With the token of the new session, unless a provider was connected to an account.
    In(Entered, Option<String>),
    /// With the secret of the step that waits for the password.
    Waits(String),
}

async fn enter(
    state: &State,
    provider: StoredProvider,
    begun: Begun,
    vouched: Vouched,
    browser: Browser,
) -> Result<Arrival, SignInFault> {
    let (writing, starting) = (state.clone(), browser.clone());
    let (by, step, said) = (provider.clone(), begun.clone(), vouched.clone());
    let decided = state
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            let device = starting.device();
            match account::find_or_create(c, &by, &step, &said, device).await? {
                Whose::Account(entered) => {
                    let token = if step.step.purpose == StepPurpose::Connect {
                        tell(&writing, c, &entered).await?;
                        None
                    } else {
                        let by = ProviderSession {
                            id: said.session.clone(),
                            proof: said.proof,
                        };
                        Some(admit(&writing, c, &starting, &entered, by).await?)
                    };
                    Ok(Decided::In(entered, token))
                }
                Whose::Unconfirmed(user, pending) => {
                    let secret = account::store_pending(c, user, &pending).await?;
                    Ok::<_, SignInFault>(Decided::Waits(secret))
                }
            }
        })
        .await?;
    state.mailer.wake();
    match decided {
        Decided::In(entered, token) => {
            settle(state, &provider, &entered, vouched.groups.as_deref()).await;
            let mut cookies = vec![flow_cookie(state, "")];
            if let Some(token) = token {
                let started = browser.cookies(state, &token);
                cookies.extend(started.into_iter().map(|(_, cookie)| cookie));
            }
            Ok(Arrival {
                location: begun.step.next,
                cookies,
            })
        }
        Decided::Waits(secret) => {
            let id = provider.id.to_string();
            let pairs = [("link", id.as_str()), ("next", &begun.step.next)];
            Ok(Arrival {
                location: with_query(state, "/sign-in", &pairs),
                cookies: vec![flow_cookie(state, &secret)],
            })
        }
    }
}

/// Session of a provider, and what the person proved there.
struct ProviderSession {
    id: Option<String>,
    proof: SignInProof,
}

/// Starts a session for an account, and tells its owner about changes.
async fn admit(
    state: &State,
    c: &mut Conn,
    browser: &Browser,
    entered: &Entered,
    by: ProviderSession,
) -> Result<String, AuthError> {
    tell(state, c, entered).await?;
    let token = browser.start_session(c, entered.owner.id, by.proof).await?;
    identity::mark_session(c, &token, entered.identity, by.id).await?;
    Ok(token)
}

/// Queues an email about a change, to the address from before it.
async fn tell(state: &State, c: &mut Conn, entered: &Entered) -> Result<(), AuthError> {
    let change = match entered.change {
        AccountChange::None | AccountChange::AddressKept => return Ok(()),
        AccountChange::Connected => SecurityChange::IdentityAdded,
        AccountChange::NewAddress => SecurityChange::Address,
    };
    let mail = SecurityMail::write(&state.mailer, &entered.owner, &state.public_url, change);
    mail.queue(c).await
}

/// Brings memberships up to date, each in the write queue of its workspace. A workspace that cannot be joined stops nobody.
async fn settle(
    state: &State,
    provider: &StoredProvider,
    entered: &Entered,
    groups: Option<&[String]>,
) {
    let user = entered.owner.id;
    for entry in provider.settings.0.workspaces.clone() {
        let workspace = entry.workspace_id;
        let (by, groups) = (provider.clone(), groups.map(<[String]>::to_vec));
        let updated = state
            .db
            .write(workspace.0, async move |c: &mut Conn| {
                let change = membership::update(c, &by, &entry, user, groups.as_deref()).await?;
                channels::follow_rules(c, workspace, user, &change).await?;
                Ok::<_, ApiError>(())
            })
            .await;
        if let Err(error) = updated {
            let code = error.code().as_str();
            tracing::warn!(workspace.id = %workspace, user.id = %user, code, "a membership could not follow the provider");
        }
    }
    let (change, identity) = (entered.change, entered.identity);
    if matches!(
        change,
        AccountChange::NewAddress | AccountChange::AddressKept
    ) {
        let announced = async {
            let mine = workspaces::ids_of(&mut state.db.read().await?, user).await?;
            for workspace in mine {
                state
                    .db
                    .write(workspace.0, async move |c: &mut Conn| match change {
                        AccountChange::AddressKept => {
                            notices::address_kept(c, workspace, identity).await
                        }
                        _ => account::announce_address(c, workspace, user).await,
                    })
                    .await?;
            }
            Ok::<_, AuthError>(())
        };
        if let Err(error) = announced.await {
            tracing::warn!(user.id = %user, %error, "a new address could not be announced");
        }
    }
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct LinkIdentityForm {
    /// Password of the account that has the address.
    password: Option<String>,
    /// True if the person does not know it. This removes the password, the second factors, the sessions, and the keys of the account, so
    /// that whoever registered it first cannot use it anymore.
    #[serde(default)]
    unknown: bool,
}

/// Connect a provider to the account that has its address
///
/// Follows a sign-in that came back to `/sign-in?link=…`, because nobody had confirmed the address of the account.
#[utoipa::path(post, path = "/v1/auth/oidc/link", tag = "accounts",
    security(()),
    request_body(content = LinkIdentityForm, example = json!({"password": "correct horse battery"})),
    responses((status = 200, body = Account, description = "Signed in: the session cookie is set"),
        (status = 401, body = crate::http::error::ErrorBody, description = "The password is wrong, or the sign-in has expired")))]
async fn link(
    axum::extract::State(state): St,
    headers: HeaderMap,
    address: Address,
    Body(form): Body<LinkIdentityForm>,
) -> Result<Response, ApiError> {
    let cookie = CookieJar::from_headers(&headers)
        .get(FLOW_COOKIE)
        .map(|cookie| cookie.value().to_owned());
    let secret = cookie.ok_or(AuthError::FlowExpired)?;
    let mut c = state.db.read().await?;
    let (user, pending) = account::find_pending(&mut c, &secret).await?;
    let provider = provider::get_enabled(&mut c, pending.provider).await?;
    let owner = users::get_user(&mut c, user).await?;
    drop(c);
    let proof = match (form.password, form.unknown) {
        (Some(password), false) => {
            verify_password(&state, &owner.email, password, &address).await?;
            LinkProof::Password
        }
        (None, true) => LinkProof::Unknown,
        _ => {
            let problem = "send either `password` or `unknown`".to_owned();
            return Err(AuthError::Invalid(problem, "password").into());
        }
    };
    let browser = Browser::of(&headers, &address);
    let (writing, starting, by) = (state.clone(), browser.clone(), provider.clone());
    let connected = state
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            let (user, pending) = account::take_pending(c, &secret).await?;
            let device = starting.device();
            let entered = account::connect_pending(c, &by, user, &pending, proof, device).await?;
            let by = ProviderSession {
                id: pending.session,
                proof: pending.proof,
            };
            let token = admit(&writing, c, &starting, &entered, by).await?;
            Ok::<_, SignInFault>((entered, token))
        })
        .await;
    let (entered, token) = connected.map_err(|fault| match fault {
        SignInFault::AddressInUse(_) => AuthError::EmailTaken,
        other => other.into(),
    })?;
    state.mailer.wake();
    settle(&state, &provider, &entered, None).await;
    let mut response = browser
        .respond(&state, StatusCode::OK, entered.owner.id, &token)
        .await?;
    if let Ok(cleared) = flow_cookie(&state, "").parse() {
        response.headers_mut().append(header::SET_COOKIE, cleared);
    }
    Ok(response)
}

/// Verifies a password as a sign-in does, with its limits.
async fn verify_password(
    state: &State,
    email: &str,
    password: String,
    address: &Address,
) -> Result<(), AuthError> {
    let mut attempt = state.limits.log_in(email, address.0).await?;
    if attempt == Attempt::Guarded {
        attempt = state.limits.unknown_client(email, address.0).await?;
    }
    let stored = StoredPassword::find(&mut state.db.read().await?, email).await?;
    let verified = match state.hasher.verify(password, stored).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(AuthError::WrongPassword),
        Err(e) => Err(e),
    };
    state
        .limits
        .settle(email, address.0, attempt, &verified)
        .await;
    verified
}

/// List the providers that are connected to your account, oldest first
#[utoipa::path(get, path = "/v1/auth/identities", tag = "accounts",
    security(("session" = ["viewer"])),
    responses((status = 200, body = List<Identity>)))]
async fn list_identities(
    axum::extract::State(state): St,
    caller: Caller,
) -> Result<Json<List<Identity>>, ApiError> {
    caller.require_session()?;
    let rows = identity::list(&mut state.db.read().await?, caller.user).await?;
    Ok(Json(List::new(
        rows,
        PROVIDERS_MAX,
        false,
        |row: &Identity| row.id.to_string(),
    )))
}

/// Disconnect a provider from your account
///
/// Needs a confirmation; 409 `last_method` if you could not sign in anymore.
#[utoipa::path(delete, path = "/v1/auth/identities/{id}", tag = "accounts",
    security(("session" = ["viewer"])),
    params(("id" = IdentityId, Path)), responses((status = 204)))]
async fn remove_identity(
    axum::extract::State(state): St,
    caller: Caller,
    headers: HeaderMap,
    address: Address,
    Path(id): Path<IdentityId>,
) -> Result<StatusCode, ApiError> {
    let (user, device) = (caller.user, device_of(&headers, &address));
    let owner = users::get_user(&mut state.db.read().await?, user).await?;
    let change = SecurityChange::IdentityRemoved;
    let mail = SecurityMail::write(&state.mailer, &owner, &state.public_url, change);
    caller
        .write_confirmed(&state.db, async move |c: &mut Conn| {
            let has_other_way = async |c: &mut Conn| {
                Ok(can_use_password(c, user).await?
                    || SecondFactors::of(c, user).await?.passkeys > 0
                    || identity::has_usable(c, user).await?)
            };
            identity::remove(c, user, id, has_other_way, &device).await?;
            mail.queue(c).await
        })
        .await?;
    state.mailer.wake();
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /v1/auth/oidc/{id}/logout`: the provider ends its sessions.
async fn logout(
    axum::extract::State(state): St,
    Path(id): Path<IdentityProviderId>,
    RawForm(form): RawForm,
) -> Response {
    let token = form_urlencoded::parse(&form)
        .find(|(name, _)| name == "logout_token")
        .map(|(_, value)| value.into_owned());
    let ended = async {
        let mut c = state.db.read().await?;
        let provider = provider::get(&mut c, id).await?;
        let connection = provider.connection(&mut c, &state.keyring).await?;
        drop(c);
        let token = token.unwrap_or_default();
        let logout = Logout::read(&state.oidc, &connection, &token).await?;
        state
            .db
            .write(Uuid::nil(), async move |c: &mut Conn| {
                logout.apply(c, id).await
            })
            .await?;
        Ok::<_, SignInFault>(())
    };
    match Box::pin(ended).await {
        Ok(()) => StatusCode::OK.into_response(),
        Err(fault) => {
            tracing::warn!(provider.id = %id, error = %fault, "a logout token was rejected");
            let body = serde_json::json!({"error": "invalid_request"});
            (StatusCode::BAD_REQUEST, Json(body)).into_response()
        }
    }
}
