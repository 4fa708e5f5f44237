//! Extractors whose rejections are `ApiError`s.

use std::{
    collections::HashSet,
    net::{IpAddr, SocketAddr},
};

use axum::{
    body::Bytes,
    extract::{ConnectInfo, FromRequest, FromRequestParts, Request},
    http::{Extensions, HeaderMap, Method, header, request::Parts},
};
use axum_extra::extract::CookieJar;
use serde::de::DeserializeOwned;
use tracing::Instrument;

use super::{ApiError, State};
use crate::{
    auth::{self, AuthError, Caller, Credential, RateClass, WorkspaceCaller},
    ids::{IdError, WorkspaceId},
};

/// A JSON body; an empty body counts as `{}`.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<State> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &State) -> Result<Self, ApiError> {
        let bytes = Bytes::from_request(request, state).await.map_err(|e| {
            if e.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE {
                ApiError::body_too_large(super::bodies::MEMBER_BYTES_MAX)
            } else {
                ApiError::invalid(
                    "invalid_body",
                    "could not read the request body".to_owned(),
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
/// 400 for invalid JSON or another shape, 422 for an ID of another kind.
pub fn parse_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, ApiError> {
    if holds_nul(text) {
        return Err(ApiError::invalid(
            "invalid_field",
            "a text contains a NUL character: remove it".to_owned(),
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

/// Checks whether a string in the JSON contains a NUL character, which `PostgreSQL` cannot store.
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
    // Only an escape can produce one: JSON does not allow a raw NUL.
    json.windows(6).any(|w| w == b"\\u0000")
        && serde_json::from_slice(json).is_ok_and(|value| inside(&value))
}

/// Path parameters.
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

/// Query parameters.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<State> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &State) -> Result<Self, ApiError> {
        let query = parts.uri.query().unwrap_or_default();
        // serde detects repeated parameters only in structs without flattened fields.
        let mut seen = HashSet::new();
        let mut given = form_urlencoded::Serializer::new(String::new());
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if !value.is_empty() || !counts_as_absent(&name) {
                given.append_pair(&name, &value);
            }
            if !seen.insert(name.clone()) {
                return Err(ApiError::invalid(
                    "invalid_query",
                    format!("the parameter `{name}` is repeated: send it once"),
                    name,
                ));
            }
        }
        let given = given.finish();
        let values = serde_urlencoded::Deserializer::new(form_urlencoded::parse(given.as_bytes()));
        serde_path_to_error::deserialize(values)
            .map(Self)
            .map_err(|e| invalid_parameter(&e.path().to_string(), e.inner()))
    }
}

/// Error code for an invalid value of a query parameter.
fn code_of_parameter(name: &str) -> &'static str {
    match name {
        "limit" => "invalid_limit",
        "order" => "invalid_order",
        "status" => "invalid_status",
        "cursor" => "invalid_cursor",
        "from" | "to" => "invalid_month",
        "after" | "before" | "around" => "invalid_id",
        name if name.ends_with("_id") => "invalid_id",
        _ => "invalid_query",
    }
}

/// Checks whether the parameter without a value is the same as no parameter. Limits and IDs need a value.
fn counts_as_absent(name: &str) -> bool {
    !matches!(code_of_parameter(name), "invalid_limit" | "invalid_id")
}

/// 400 for a query parameter that cannot be parsed, or is unknown (`name` is `?` or `.`).
fn invalid_parameter(name: &str, cause: &serde_urlencoded::de::Error) -> ApiError {
    let is_unknown = name.chars().all(|c| matches!(c, '?' | '.'));
    let (code, param) = if is_unknown {
        ("invalid_query", "query")
    } else {
        (code_of_parameter(name), name)
    };
    let message = match code {
        "invalid_query" | "invalid_order" | "invalid_status" if !is_unknown => {
            format!("{name}: {cause}")
        }
        _ => cause.to_string(),
    };
    ApiError::invalid(code, message, param)
}

/// Bearer key or session cookie of a request.
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

/// Looks up the caller by token, and occasionally updates the time of its last use.
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
                tracing::warn!(error = %e, "could not update the last use of a session");
            }
        };
        state.tracker.spawn(note.in_current_span());
    }
    Ok(found.caller)
}

/// Request extension: the session or key was found to be invalid before the body was read.
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
        let caller = match caller_of(state, token).await {
            Err(AuthError::NotAuthenticated) if shown => {
                // An invalid token counts as anonymous. Requests without a token were counted by `count_address`.
                let Address(address) = Address::from_request_parts(parts, state).await?;
                state.limits.anonymous(address)?;
                return Err(AuthError::NotAuthenticated.into());
            }
            found => found?,
        };
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
fn doing(method: &Method, path: &str) -> RateClass {
    match *method {
        Method::GET | Method::HEAD | Method::OPTIONS => RateClass::Reading,
        Method::POST if path == "/v1/files" => RateClass::Uploading,
        _ => RateClass::Writing,
    }
}

/// Workspace of a collection route: from the key, from the header, or the caller's only one.
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

/// Client address, as reported by trusted proxies.
pub struct Address(pub IpAddr);

impl FromRequestParts<State> for Address {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, ApiError> {
        let trusted = &state.config.trusted_proxies;
        Ok(Self(client_of(&parts.extensions, &parts.headers, trusted)))
    }
}

/// Client address of a request. Each proxy appends the address of its peer, so the list is read backwards over all
/// lines of the header: the first address that is not a trusted proxy is the client. An entry that is not an address
/// ends the search at the proxy that wrote it, because everything before it may be forged.
pub fn client_of(extensions: &Extensions, headers: &HeaderMap, trusted: &[IpAddr]) -> IpAddr {
    let peer = extensions
        .get::<ConnectInfo<SocketAddr>>()
        .map_or(IpAddr::from([127, 0, 0, 1]), |info| info.0.ip());
    let mut nearest = peer.to_canonical();
    if !trusted.contains(&nearest) {
        return nearest;
    }
    let lines = headers.get_all("x-forwarded-for").iter().rev();
    for line in lines {
        // A line with non-ASCII bytes counts as an invalid entry.
        let line = line.to_str().unwrap_or("?");
        for entry in line.rsplit(',') {
            let Some(hop) = forwarded_address(entry.trim()) else {
                return nearest;
            };
            nearest = hop;
            if !trusted.contains(&hop) {
                return hop;
            }
        }
    }
    nearest
}

/// Parses `192.0.2.1`, `2001:db8::1`, or with a port: `192.0.2.1:56`, `[2001:db8::1]:56`.
fn forwarded_address(entry: &str) -> Option<IpAddr> {
    let bracketed = |entry: &str| entry.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    entry
        .parse::<IpAddr>()
        .ok()
        .or_else(|| entry.parse::<SocketAddr>().ok().map(|address| address.ip()))
        .or_else(|| bracketed(entry))
        .map(|address| address.to_canonical())
}

/// Rejects a request that stores an agent version or an agent's file while the disk has little free space.
pub struct FreeDiskSpace;

impl FromRequestParts<State> for FreeDiskSpace {
    type Rejection = ApiError;

    async fn from_request_parts(_: &mut Parts, state: &State) -> Result<Self, ApiError> {
        Ok(state.disk.check().await.map(|()| Self)?)
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
                format!("If-Match must be a version such as \"3\", not `{text}`"),
                "If-Match",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_is_the_last_forwarded_address_that_is_not_a_trusted_proxy() {
        let trusted: Vec<IpAddr> = ["127.0.0.1", "10.0.0.2"]
            .map(|address| address.parse().unwrap())
            .to_vec();
        for (peer, lines, client) in [
            ("127.0.0.1", &[][..], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.7"], "203.0.113.7"),
            ("203.0.113.9", &["203.0.113.7"], "203.0.113.9"),
            // Entries sent by the client come first, on any line.
            ("127.0.0.1", &["192.0.2.1, 203.0.113.7"], "203.0.113.7"),
            ("127.0.0.1", &["192.0.2.1", "203.0.113.7"], "203.0.113.7"),
            ("127.0.0.1", &["203.0.113.7, 10.0.0.2"], "203.0.113.7"),
            ("127.0.0.1", &["203.0.113.7", "10.0.0.2"], "203.0.113.7"),
            // Some proxies include the port.
            ("127.0.0.1", &["203.0.113.7:4711"], "203.0.113.7"),
            ("127.0.0.1", &["[2001:db8::1]:4711"], "2001:db8::1"),
            ("127.0.0.1", &["[2001:db8::1]"], "2001:db8::1"),
            ("127.0.0.1", &["203.0.113.7, 10.0.0.2:80"], "203.0.113.7"),
            ("127.0.0.1", &["::ffff:203.0.113.7"], "203.0.113.7"),
            ("::ffff:127.0.0.1", &["203.0.113.7"], "203.0.113.7"),
            // Entries before one that is not an address are ignored.
            ("127.0.0.1", &["203.0.113.7, unknown"], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.7, ?, 10.0.0.2"], "10.0.0.2"),
            ("127.0.0.1", &["203.0.113.7", ""], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.7:x"], "127.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-for", line.parse().unwrap());
            }
            let mut extensions = Extensions::new();
            let peer: IpAddr = peer.parse().unwrap();
            extensions.insert(ConnectInfo(SocketAddr::new(peer, 1)));
            let found = client_of(&extensions, &headers, &trusted);
            assert_eq!(found, client.parse::<IpAddr>().unwrap(), "{lines:?}");
        }
    }
}
