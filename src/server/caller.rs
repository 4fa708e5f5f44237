//! Extractors that need the state of the server: the caller of a request, its address, and its workspace.

use std::net::IpAddr;

use axum::{
    extract::{FromRequestParts, MatchedPath},
    http::{HeaderMap, Method, StatusCode, header, request::Parts},
};
use axum_extra::extract::CookieJar;
use futures::FutureExt;
use tracing::Instrument;

use super::{MCP_PATH, MCP_PATH_WITH_SLASH, State, is_collection_upload, is_mcp, is_sync};
use crate::{
    auth::{
        self, AuthError, Caller, Credential, RateClass, RouteReach, TURN_KEY, Token,
        WorkspaceCaller, guests,
    },
    code::{self, RunnerIdentity},
    http::{ApiError, ErrorCode, address::client_of},
    ids::{IdError, WorkspaceId},
};

/// Bearer key or session cookie of a request.
pub fn token_of(headers: &HeaderMap) -> Option<Token> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let text = value.to_str().ok()?;
        let (scheme, token) = text.split_once(' ')?;
        return scheme
            .eq_ignore_ascii_case("bearer")
            .then(|| token.trim().to_owned())
            .filter(|t| t.starts_with("ov_") || t.starts_with(TURN_KEY))
            .map(Token::Key);
    }
    let cookie = CookieJar::from_headers(headers)
        .get(auth::SESSION_COOKIE)?
        .value()
        .to_owned();
    (!cookie.is_empty()).then_some(Token::Session(cookie))
}

/// Identifies the runner of a request by its key. A wrong key counts as an anonymous request.
///
/// # Errors
/// 401, or 429 after too many wrong keys.
pub async fn runner_of(
    state: &State,
    headers: &HeaderMap,
    address: IpAddr,
) -> Result<RunnerIdentity, ApiError> {
    let header = headers.get(header::AUTHORIZATION);
    let header = header.and_then(|value| value.to_str().ok()?.split_once(' '));
    let key = header.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let key = key.map(|(_, key)| key.trim());
    if let Some(key) = key.filter(|key| key.starts_with("ovr_"))
        && let Some(runner) = code::find_by_key(&mut state.db.read().await?, key).await?
    {
        return Ok(runner);
    }
    state.limits.anonymous(address)?;
    Err(AuthError::NotAuthenticated.into())
}

/// Routes that accept the keys of bots; all others refuse them. Their handlers check access with `chat::access` or `Caller::enter`.
const BOT_ROUTES: &[(Method, &str)] = &[
    (Method::GET, "/v1/channels/{id}/threads"),
    (Method::POST, "/v1/channels/{id}/threads"),
    (Method::GET, "/v1/threads/{id}/messages"),
    (Method::POST, "/v1/threads/{id}/messages"),
    (Method::GET, "/v1/messages/{id}"),
    (Method::PATCH, "/v1/messages/{id}"),
    (Method::DELETE, "/v1/messages/{id}"),
    (Method::PUT, "/v1/messages/{id}/reactions/{emoji}"),
    (Method::DELETE, "/v1/messages/{id}/reactions/{emoji}"),
    (Method::POST, "/v1/files"),
    (Method::GET, "/v1/files/{id}"),
];

/// Looks up the person or bot with a key, which must have the beginning `ov_`, and counts the request.
///
/// # Errors
/// `NotAuthenticated`, `BotPaused`, or `RateLimited`.
pub async fn caller_with_key(
    state: &State,
    key: String,
    doing: RateClass,
) -> Result<Caller, AuthError> {
    let caller = person_or_bot(state, Some(Token::Key(key))).await?;
    tracing::Span::current().record("user.id", tracing::field::display(caller.user));
    state.limits.act(&caller, doing)?;
    Ok(caller)
}

/// Routes that accept the keys of turns on runners; all others refuse them.
const TURN_ROUTES: &[&str] = &[
    "/v1/chat/completions",
    "/v1/responses",
    MCP_PATH,
    MCP_PATH_WITH_SLASH,
];

/// Checks whether a route accepts the keys of turns.
fn is_for_turns(parts: &Parts) -> bool {
    let path = parts.extensions.get::<MatchedPath>();
    parts.method == Method::POST && path.is_some_and(|path| TURN_ROUTES.contains(&path.as_str()))
}

/// Checks whether a route accepts the keys of bots.
fn is_for_bots(parts: &Parts) -> bool {
    let method = match parts.method {
        Method::HEAD => &Method::GET,
        ref other => other,
    };
    let path = parts.extensions.get::<MatchedPath>();
    path.is_some_and(|path| {
        let known = BOT_ROUTES.iter();
        let mut known = known.filter(|(allowed, _)| allowed == method);
        known.any(|(_, route)| *route == path.as_str())
    })
}

/// Reach of a request's route.
fn reach_of(parts: &Parts) -> RouteReach {
    let path = parts.extensions.get::<MatchedPath>();
    path.map_or(RouteReach::Members, |path| {
        guests::reach_of(parts.method.as_str(), path.as_str())
    })
}

/// Looks up the person by token, and occasionally updates the time of the token's last use.
///
/// # Errors
/// `NotAuthenticated`, `NotForBots`, or `NotForTurns`.
pub async fn caller_of(state: &State, token: Option<Token>) -> Result<Caller, AuthError> {
    let caller = person_or_bot(state, token).await?;
    if caller.bot().is_some() {
        return Err(AuthError::NotForBots);
    }
    if caller.turn.is_some() {
        return Err(AuthError::NotForTurns);
    }
    Ok(caller)
}

/// Like `caller_of`, for routes that check what a bot can do.
///
/// # Errors
/// `NotAuthenticated`, or `BotPaused`.
pub async fn person_or_bot(state: &State, token: Option<Token>) -> Result<Caller, AuthError> {
    let token = token.ok_or(AuthError::NotAuthenticated)?;
    let mut c = state.db.read().await?;
    let found = auth::find_caller(&mut c, &token).await?;
    drop(c);
    if found.stale {
        let credential = found.caller.credential.clone();
        let db = state.db.clone();
        let note = async move {
            let noted = db
                .write(uuid::Uuid::nil(), async move |c: &mut crate::db::Conn| {
                    auth::touch(c, &credential).await
                })
                .await;
            if let Err(e) = noted {
                tracing::warn!(error = %e, "could not update the last use of a session");
            }
        };
        state.tracker.spawn(note.in_current_span());
    }
    Ok(found.caller)
}

/// Request extension that marks a request without a valid session or key. It is set before the body is read.
#[derive(Clone, Copy)]
pub struct Unidentified;

impl FromRequestParts<State> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, ApiError> {
        // A handler may extract the caller twice (in `Actor` and on its own), which counts as one request.
        if let Some(caller) = parts.extensions.get::<Self>() {
            return Ok(caller.clone());
        }
        if parts.extensions.get::<Unidentified>().is_some() {
            return Err(AuthError::NotAuthenticated.into());
        }
        let token = token_of(&parts.headers);
        let shown = token.is_some();
        let found = match person_or_bot(state, token).boxed().await {
            Ok(caller) if caller.bot().is_some() && !is_for_bots(parts) => {
                Err(AuthError::NotForBots)
            }
            Ok(caller) if caller.turn.is_some() && !is_for_turns(parts) => {
                Err(AuthError::NotForTurns)
            }
            found => found,
        };
        let mut caller = match found {
            Err(AuthError::NotAuthenticated) if shown => {
                // A request with an invalid token counts as anonymous. Requests without a token have already been counted by
                // `count_address`.
                let Address(address) = Address::from_request_parts(parts, state).await?;
                state.limits.anonymous(address)?;
                return Err(AuthError::NotAuthenticated.into());
            }
            found => found?,
        };
        caller.reach = reach_of(parts);
        // Has no effect outside of a request span.
        tracing::Span::current().record("user.id", tracing::field::display(caller.user));
        state
            .limits
            .act(&caller, doing(&parts.method, parts.uri.path()))?;
        parts.extensions.insert(caller.clone());
        Ok(caller)
    }
}

/// Rate limit class of a request.
pub(super) fn doing(method: &Method, path: &str) -> RateClass {
    match *method {
        Method::GET | Method::HEAD | Method::OPTIONS => RateClass::Reading,
        Method::POST if path == "/v1/files" => RateClass::Uploading,
        Method::PUT if is_collection_upload(path) => RateClass::Uploading,
        // A comparison of long lists. The handler counts deletions as a write.
        Method::POST if is_sync(path) => RateClass::Reading,
        // Tools that write are counted as writes when they are called.
        Method::POST if is_mcp(path) => RateClass::Reading,
        _ => RateClass::Writing,
    }
}

/// Workspace of a collection route: for an API key, its workspace; for a session, the one in the header, or the caller's only
/// workspace if there is no header.
///
/// # Errors
/// `WorkspaceRequired`, `NoWorkspace`, `WorkspaceNotFound`; 400 if the header is not an ID.
pub async fn workspace_of(
    state: &State,
    headers: &HeaderMap,
    caller: &Caller,
) -> Result<WorkspaceId, ApiError> {
    let named = match headers.get("x-workspace-id") {
        Some(value) => {
            let text = value.to_str().unwrap_or_default();
            let id = text.parse().map_err(|e: IdError| {
                ApiError::invalid(ErrorCode::InvalidId, e.to_string(), "X-Workspace-Id")
            })?;
            Some(id)
        }
        None => None,
    };
    if let Credential::Key { workspace, .. } = &caller.credential {
        return match named {
            Some(other) if other != *workspace => Err(AuthError::WorkspaceNotFound.into()),
            _ => Ok(*workspace),
        };
    }
    if let Some(id) = named {
        return Ok(id);
    }
    let mut c = state.db.read().await?;
    let mine = auth::workspaces_of(&mut c, caller.user).await?;
    match mine.as_slice() {
        [only] => Ok(*only),
        [] => Err(AuthError::NoWorkspace.into()),
        _ => Err(AuthError::WorkspaceRequired.into()),
    }
}

impl FromRequestParts<State> for WorkspaceCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let workspace = workspace_of(state, &parts.headers, &caller).boxed().await?;
        Ok(Self { caller, workspace })
    }
}

/// Client address, as reported by trusted proxies.
pub struct Address(pub IpAddr);

impl FromRequestParts<State> for Address {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, ApiError> {
        let trusted = &state.config.trusted_proxies;
        Ok(Self(client_of(&parts.extensions, &parts.headers, trusted)))
    }
}

/// Rejects a request that would use a model or another server if this is a quiet copy.
pub struct Outgoing;

impl FromRequestParts<State> for Outgoing {
    type Rejection = ApiError;

    async fn from_request_parts(_: &mut Parts, state: &State) -> Result<Self, ApiError> {
        if state.config.is_quiet {
            let text = "this is a quiet copy (OPENVIBE_QUIET=on): it uses no models and connects to no other servers";
            return Err(ApiError::new(
                StatusCode::CONFLICT,
                ErrorCode::Quiet,
                text.to_owned(),
            ));
        }
        Ok(Self)
    }
}

/// Rejects a request that stores an agent version or an agent's file while the disk has little free space.
pub struct FreeDiskSpace;

impl FromRequestParts<State> for FreeDiskSpace {
    type Rejection = ApiError;

    async fn from_request_parts(_: &mut Parts, state: &State) -> Result<Self, ApiError> {
        Ok(state.disk.check().await.map(|()| Self)?)
    }
}
