//! Origin checks: requests with the session cookie must come from the server's own pages (same origin), and requests to
//! a server on loopback must use one of its own host names. Pages of sites that the operator permits can use the API with a key.

use std::convert::Infallible;

use axum::{
    extract::{FromRequestParts, Request, State as FromState},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{
    PROBE_PATH, State,
    hosts::{authority, is_loopback_name, is_loopback_url, origin_authority},
    intake::is_api,
    is_mcp,
};
use crate::{http::ApiError, networks::ApiOrigins, outbound::Url};

/// Page for people who open the server under a name that it does not accept.
const UNKNOWN_HOST_PAGE: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Unknown address</title>\
    <h1>This OpenVibe server has another address</h1><p>Ask whoever runs it for the address, or set OPENVIBE_PUBLIC_URL to the one in your \
    browser and restart the server.</p></html>";

/// Checks from the headers whether one of the server's own pages sent the request.
pub fn is_same_origin(headers: &HeaderMap, public_url: &str) -> bool {
    let text = |name| {
        headers
            .get(name)
            .and_then(|v: &axum::http::HeaderValue| v.to_str().ok())
    };
    if let Some(origin) = text(header::ORIGIN) {
        let Some((from, default_port)) = origin_authority(origin) else {
            return false;
        };
        let host = text(header::HOST).and_then(|host| authority(host, default_port));
        return host.as_ref() == Some(&from)
            || origin_authority(public_url).is_some_and(|(own, _)| own == from);
    }
    text(header::HeaderName::from_static("sec-fetch-site")) == Some("same-origin")
}

/// Checks whether a server on loopback accepts the name in `Host`. Any website can point its own name to 127.0.0.1 (DNS rebinding);
/// its requests then look like those of the server's own pages, except for the name.
fn is_known_host(headers: &HeaderMap, public_url: &str) -> bool {
    is_loopback_host(headers)
        || host_of(headers).is_some_and(|host| {
            origin_authority(public_url).is_some_and(|((own, _), _)| own == host)
        })
}

/// Base of links in a response, without a trailing slash: `OPENVIBE_PUBLIC_URL`, or else the address that the client uses.
pub struct LinkBase(pub String);

impl LinkBase {
    fn of(state: &State, headers: &HeaderMap) -> Self {
        let text = |name| {
            headers
                .get(name)
                .and_then(|v: &HeaderValue| v.to_str().ok())
        };
        let is_page = !headers.contains_key(header::AUTHORIZATION)
            && is_same_origin(headers, &state.public_url);
        let origin = text(header::ORIGIN).filter(|_| is_page).map(str::to_owned);
        let base = origin.or_else(|| Some(format!("http://{}", text(header::HOST)?)));
        let base = base
            .filter(|_| state.config.public_url.is_none())
            .and_then(|base| Url::parse(&base).ok())
            .filter(Url::has_host);
        Self(base.map_or_else(
            || state.public_url.clone(),
            |base| base.origin().ascii_serialization(),
        ))
    }

    /// True if links work only on the server's own machine, although others can connect to it.
    pub fn is_local_only(&self, state: &State) -> bool {
        !state.is_on_loopback && is_loopback_url(&self.0)
    }
}

impl FromRequestParts<State> for LinkBase {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Infallible> {
        Ok(Self::of(state, &parts.headers))
    }
}

/// Checks whether `Host` is a loopback name or address.
pub fn is_loopback_host(headers: &HeaderMap) -> bool {
    host_of(headers).is_some_and(|host| is_loopback_name(&host))
}

/// Returns the name or address in `Host`, without the port, because a proxy may omit it.
fn host_of(headers: &HeaderMap) -> Option<String> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    authority(host, 0).map(|(host, _)| host)
}

/// Rejects host names that another site may have pointed at this server (400), and requests that another site may have
/// made the browser send (403).
pub async fn guard(FromState(state): FromState<State>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let with_key = headers.contains_key(header::AUTHORIZATION);
    let with_cookie = !with_key
        && axum_extra::extract::CookieJar::from_headers(headers)
            .get(crate::auth::SESSION_COOKIE)
            .is_some();
    let path = request.uri().path();
    if state.is_on_loopback
        && !matches!(path, "/healthz" | "/readyz")
        // Probes find out whether a proxy passes the name on, and are nothing to other sites without a nonce.
        && !path.starts_with(PROBE_PATH)
        && !is_known_host(headers, &state.public_url)
    {
        return unknown_host(headers);
    }
    let changes = !matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    );
    let opens = path == "/v1/ws";
    let begins_oidc = path.starts_with("/v1/auth/oidc/") && path.ends_with("/start");
    let begins_session = changes
        && (begins_oidc
            || matches!(
                path,
                "/v1/auth/login"
                    | "/v1/auth/signup"
                    | "/v1/auth/signup/passkey"
                    | "/v1/auth/sign-in-link"
                    | "/v1/auth/second-factor"
                    | "/v1/auth/passkey"
                    | "/v1/auth/oidc/link"
            ));
    // MCP requires a check of every `Origin`; clients that are not browsers send none.
    let is_permitted = with_key && permitted(&state.config.api_origins, headers).is_some();
    let is_mcp_page = is_mcp(path) && headers.contains_key(header::ORIGIN) && !is_permitted;
    let guarded = begins_session || is_mcp_page || (with_cookie && (changes || opens));
    if guarded && !is_same_origin(headers, &state.public_url) {
        return ApiError::cross_origin().into_response();
    }
    next.run(request).await
}

/// Error for a host name that this server does not accept; a page if a browser shows it.
fn unknown_host(headers: &HeaderMap) -> Response {
    let accepted = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok());
    if !accepted.is_some_and(|accepted| accepted.contains("text/html")) {
        return ApiError::unknown_host().into_response();
    }
    let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (StatusCode::BAD_REQUEST, kind, UNKNOWN_HOST_PAGE).into_response()
}

/// Returns the origin of a request if the operator permitted it.
fn permitted<'a>(origins: &ApiOrigins, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    origins.contains(origin.to_str().ok()?).then_some(origin)
}

/// Lets pages of permitted sites use the API with a key: answers preflight requests, and adds the headers of Cross-Origin Resource
/// Sharing to responses. Cookies are never permitted.
pub async fn share_with_sites(
    FromState(state): FromState<State>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let origin = permitted(&state.config.api_origins, headers);
    let Some(origin) = origin.filter(|_| is_api(request.uri().path())).cloned() else {
        return next.run(request).await;
    };
    let asked = headers.get(header::ACCESS_CONTROL_REQUEST_METHOD);
    let is_preflight = *request.method() == Method::OPTIONS && asked.is_some();
    if !is_preflight && !headers.contains_key(header::AUTHORIZATION) {
        return next.run(request).await;
    }
    let names = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let mut response = if is_preflight {
        StatusCode::NO_CONTENT.into_response()
    } else {
        next.run(request).await
    };
    let shared = response.headers_mut();
    if is_preflight {
        let methods = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");
        shared.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        shared.insert(
            header::ACCESS_CONTROL_MAX_AGE,
            HeaderValue::from_static("600"),
        );
        if let Some(names) = names {
            shared.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names);
        }
    }
    shared.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let all = HeaderValue::from_static("*");
    shared.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, all);
    shared.append(header::VARY, HeaderValue::from_static("origin"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(k, v)| (header::HeaderName::from_static(k), v.parse().unwrap()))
            .collect()
    }

    #[test]
    fn only_loopback_names_and_the_public_name_are_known_hosts() {
        for (host, is_known) in [
            ("localhost", true),
            ("LOCALHOST:8080", true),
            ("team.localhost:8080", true),
            ("127.0.0.1:8080", true),
            ("127.0.0.2", true),
            ("[::1]:8080", true),
            ("[::ffff:127.0.0.1]", true),
            ("chat.example", true),
            ("Chat.example:443", true),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example:8080", false),
            ("notlocalhost", false),
            ("chat.example.evil.example", false),
            ("192.0.2.1", false),
            ("0.0.0.0", false),
            ("", false),
        ] {
            let headers = headers(&[("host", host)]);
            let known = is_known_host(&headers, "https://chat.example");
            assert_eq!(known, is_known, "{host:?}");
        }
        assert!(!is_known_host(&HeaderMap::new(), "https://chat.example"));
    }

    #[test]
    fn only_the_servers_own_pages_are_accepted() {
        let cases: &[(&[(&str, &str)], bool)] = &[
            (
                &[
                    ("host", "127.0.0.1:8080"),
                    ("origin", "http://localhost:8080"),
                ],
                true,
            ),
            (
                &[("host", "[::1]:8080"), ("origin", "http://127.0.0.1:8080")],
                true,
            ),
            (
                &[("host", "inner:8080"), ("origin", "https://chat.example")],
                true,
            ),
            (
                &[
                    ("host", "chat.example"),
                    ("origin", "https://chat.example:443"),
                ],
                true,
            ),
            (
                &[
                    ("host", "127.0.0.1:8080"),
                    ("origin", "http://localhost:8081"),
                ],
                false,
            ),
            (
                &[
                    ("host", "127.0.0.1:8080"),
                    ("origin", "http://evil.example"),
                ],
                false,
            ),
            (&[("host", "127.0.0.1:8080"), ("origin", "null")], false),
            (&[("host", "127.0.0.1:8080")], false),
            (
                &[
                    ("host", "127.0.0.1:8080"),
                    ("sec-fetch-site", "same-origin"),
                ],
                true,
            ),
            (
                &[("host", "127.0.0.1:8080"), ("sec-fetch-site", "same-site")],
                false,
            ),
            (
                &[
                    ("host", "127.0.0.1:8080"),
                    ("sec-fetch-site", "same-origin"),
                    ("origin", "http://evil.example"),
                ],
                false,
            ),
        ];
        for (pairs, expected) in cases {
            assert_eq!(
                is_same_origin(&headers(pairs), "https://chat.example"),
                *expected,
                "{pairs:?}"
            );
        }
    }
}
