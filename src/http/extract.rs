//! Extractors that answer in the one shape of errors.

use std::net::{IpAddr, SocketAddr};

use axum::{
    body::Bytes,
    extract::{ConnectInfo, FromRequest, FromRequestParts, Request},
    http::{HeaderMap, Method, header, request::Parts},
};
use axum_extra::extract::CookieJar;
use serde::de::DeserializeOwned;
use tracing::Instrument;

use super::{ApiError, State};
use crate::{
    auth::{self, AuthError, Caller, Credential, Doing, WorkspaceCaller},
    ids::{IdError, WorkspaceId},
};

/// A JSON body; none counts as `{}`.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<State> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &State) -> Result<Self, ApiError> {
        let bytes = Bytes::from_request(request, state).await.map_err(|e| {
            if e.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE {
                ApiError::body_too_large()
            } else {
                ApiError::invalid(
                    "invalid_body",
                    "the request's body could not be read".to_owned(),
                    "",
                )
            }
        })?;
        let text: &[u8] = if bytes.iter().all(u8::is_ascii_whitespace) {
            b"{}"
        } else {
            &bytes
        };
        parse_json(text).map(Self)
    }
}

/// # Errors
/// 400 for what is no JSON or of another shape, 422 for an id of another kind.
pub fn parse_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, ApiError> {
    if holds_nul(text) {
        return Err(ApiError::invalid(
            "invalid_field",
            "a text holds a NUL character: remove it".to_owned(),
            "",
        ));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|e| {
        let path = e.path().to_string();
        let is_whole = path == "." || path == "?";
        let param = if is_whole { String::new() } else { path };
        let inner = e.into_inner();
        let message = inner.to_string();
        if inner.is_data() {
            ApiError::malformed_field(message, param)
        } else {
            ApiError::invalid(
                "invalid_json",
                format!("the body is not JSON: {message}"),
                param,
            )
        }
    })?;
    deserializer
        .end()
        .map_err(|e| ApiError::invalid("invalid_json", format!("the body is not JSON: {e}"), ""))?;
    Ok(value)
}

/// Whether a string in the JSON holds the character NUL, which `PostgreSQL` cannot store and nobody means.
fn holds_nul(json: &[u8]) -> bool {
    fn inside(value: &serde_json::Value) -> bool {
        match value {
            serde_json::Value::String(text) => text.contains('\0'),
            serde_json::Value::Array(list) => list.iter().any(inside),
            serde_json::Value::Object(map) => map
                .iter()
                .any(|(key, value)| key.contains('\0') || inside(value)),
            _ => false,
        }
    }
    // Only an escape can make one: a bare NUL is no JSON.
    json.windows(6).any(|w| w == b"\\u0000")
        && serde_json::from_slice(json).is_ok_and(|value| inside(&value))
}

/// The parameters of a path.
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<State> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, ApiError> {
        axum::extract::Path::<T>::from_request_parts(parts, state)
            .await
            .map(|path| Self(path.0))
            .map_err(|e| ApiError::invalid("invalid_id", e.body_text(), "path"))
    }
}

/// The query of a URL.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<State> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, ApiError> {
        axum::extract::Query::<T>::from_request_parts(parts, state)
            .await
            .map(|query| Self(query.0))
            .map_err(|e| ApiError::invalid("invalid_query", e.body_text(), "query"))
    }
}

/// The session's cookie or the bearer's key.
pub fn token_of(headers: &HeaderMap) -> Option<String> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let text = value.to_str().ok()?;
        let (scheme, token) = text.split_once(' ')?;
        return scheme
            .eq_ignore_ascii_case("bearer")
            .then(|| token.trim().to_owned())
            .filter(|t| t.starts_with("ov_"));
    }
    let cookie = CookieJar::from_headers(headers)
        .get(auth::SESSION_COOKIE)?
        .value()
        .to_owned();
    (!cookie.is_empty() && !cookie.starts_with("ov_")).then_some(cookie)
}

/// The person behind a token; notes now and then that it is in use.
///
/// # Errors
/// `NotAuthenticated`.
pub async fn caller_of(state: &State, token: Option<String>) -> Result<Caller, AuthError> {
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
                tracing::warn!(error = %e, "the use of a session could not be noted");
            }
        };
        state.tracker.spawn(note.in_current_span());
    }
    Ok(found.caller)
}

impl FromRequestParts<State> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, ApiError> {
        // Asked for twice, by an actor and on its own, it is one request all the same.
        if let Some(caller) = parts.extensions.get::<Self>() {
            return Ok(caller.clone());
        }
        let token = token_of(&parts.headers);
        let shown = token.is_some();
        let caller = match caller_of(state, token).await {
            Err(AuthError::NotAuthenticated) if shown => {
                // Who shows nothing was counted before; who shows something that is worth nothing counts the same.
                let Address(address) = Address::from_request_parts(parts, state).await?;
                state.limits.stranger(address)?;
                return Err(AuthError::NotAuthenticated.into());
            }
            found => found?,
        };
        // Empty only in the span of a request.
        tracing::Span::current().record("user.id", tracing::field::display(caller.user));
        state
            .limits
            .act(&caller, doing(&parts.method, parts.uri.path()))?;
        parts.extensions.insert(caller.clone());
        Ok(caller)
    }
}

/// What a request does, as far as it matters to how often there may be one.
fn doing(method: &Method, path: &str) -> Doing {
    match *method {
        Method::GET | Method::HEAD | Method::OPTIONS => Doing::Reading,
        Method::POST if path == "/v1/files" => Doing::Uploading,
        _ => Doing::Writing,
    }
}

/// The workspace that a collection route acts in: the key's, the header's, or the only one.
///
/// # Errors
/// `WorkspaceRequired`, `NoWorkspace`, `WorkspaceNotFound`; 400 for a header that is no id.
pub async fn workspace_of(
    state: &State,
    headers: &HeaderMap,
    caller: &Caller,
) -> Result<WorkspaceId, ApiError> {
    let named = match headers.get("x-workspace-id") {
        Some(value) => {
            let text = value.to_str().unwrap_or_default();
            let id = text.parse().map_err(|e: IdError| {
                ApiError::invalid("invalid_id", e.to_string(), "X-Workspace-Id")
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
        let workspace = workspace_of(state, &parts.headers, &caller).await?;
        Ok(Self { caller, workspace })
    }
}

/// The address that a request comes from; a trusted proxy's word counts.
pub struct Address(pub IpAddr);

impl FromRequestParts<State> for Address {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, ApiError> {
        let peer = parts
            .extensions
            .get::<ConnectInfo<SocketAddr>>()
            .map_or(IpAddr::from([127, 0, 0, 1]), |info| info.0.ip());
        if !state.config.trusted_proxies.contains(&peer) {
            return Ok(Self(peer));
        }
        // The nearest hop that is not one of ours.
        let forwarded = parts
            .headers
            .get("x-forwarded-for")
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default();
        let hop = forwarded
            .rsplit(',')
            .filter_map(|hop| hop.trim().parse::<IpAddr>().ok())
            .find(|hop| !state.config.trusted_proxies.contains(hop));
        Ok(Self(hop.unwrap_or(peer)))
    }
}

/// The version that `If-Match` names: `"N"` or `N`.
pub struct IfMatch(pub Option<i64>);

impl FromRequestParts<State> for IfMatch {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &State) -> Result<Self, ApiError> {
        let Some(value) = parts.headers.get(header::IF_MATCH) else {
            return Ok(Self(None));
        };
        let text = value.to_str().unwrap_or_default().trim();
        let number = text
            .strip_prefix('"')
            .and_then(|t| t.strip_suffix('"'))
            .unwrap_or(text);
        match number.parse::<i64>() {
            Ok(n) if n >= 0 => Ok(Self(Some(n))),
            _ => Err(ApiError::invalid(
                "invalid_if_match",
                format!("If-Match takes a version such as \"3\", not `{text}`"),
                "If-Match",
            )),
        }
    }
}
