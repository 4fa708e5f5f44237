//! Requests that carry the cookie must come from our own pages (`PROTOCOL.md` §1, same origin).

use axum::{
    extract::{Request, State as FromState},
    http::{HeaderMap, Method, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{ApiError, State};

/// Host and port; every name of this machine's loopback is one host.
fn authority(text: &str, default_port: u16) -> Option<(String, u16)> {
    let text = text.to_ascii_lowercase();
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host.to_owned(), port.parse().ok()?),
        _ => (text, default_port),
    };
    let host = if matches!(host.as_str(), "127.0.0.1" | "[::1]") {
        "localhost".to_owned()
    } else {
        host
    };
    (!host.is_empty()).then_some((host, port))
}

fn origin_authority(origin: &str) -> Option<((String, u16), u16)> {
    let (scheme, rest) = origin.split_once("://")?;
    let default_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let rest = rest.split('/').next()?;
    Some((authority(rest, default_port)?, default_port))
}

/// Whether the headers say that one of our own pages made the request.
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

/// Refuses (403) what a foreign page could have made a browser send.
pub async fn guard(FromState(state): FromState<State>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let with_key = headers.contains_key(header::AUTHORIZATION);
    let with_cookie = !with_key
        && axum_extra::extract::CookieJar::from_headers(headers)
            .get(crate::auth::SESSION_COOKIE)
            .is_some();
    let path = request.uri().path();
    let changes = !matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    );
    let opens = path == "/v1/ws";
    let begins_session = changes && matches!(path, "/v1/auth/login" | "/v1/auth/signup");
    let guarded = begins_session || (with_cookie && (changes || opens));
    if guarded && !is_same_origin(headers, &state.public_url) {
        return ApiError::cross_origin().into_response();
    }
    next.run(request).await
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
    fn only_our_own_pages_count() {
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
