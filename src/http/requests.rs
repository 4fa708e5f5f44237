//! Request IDs, log spans, and metrics of requests.

use axum::{
    body::Body,
    extract::{MatchedPath, Request},
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
    middleware::Next,
    response::Response,
};
use tracing::{Instrument, field};
use uuid::Uuid;

use super::ApiError;
use crate::{
    db::Engine,
    telemetry::{
        self,
        requests::{Open, UNMATCHED, method_label},
    },
};

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const ID_CHARS_MAX: usize = 64;

/// ID of a request, sent in its response and included in each of its log lines.
#[derive(Debug, Clone)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// Uses the ID from a proxy or client if it is well-formed; otherwise creates one.
    fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(&REQUEST_ID).filter(|value| {
            let bytes = value.as_bytes();
            let is_plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
            (1..=ID_CHARS_MAX).contains(&bytes.len()) && bytes.iter().all(is_plain)
        });
        Self(given.cloned().unwrap_or_else(|| {
            let own = format!("req_{}", Uuid::now_v7().simple());
            HeaderValue::try_from(own).unwrap_or(HeaderValue::from_static("req"))
        }))
    }

    pub fn as_str(&self) -> &str {
        // Cannot fail, because IDs are ASCII.
        self.0.to_str().unwrap_or_default()
    }
}

/// The outermost layer: assigns the request ID, and measures, counts, and logs the request.
pub async fn accompany(mut request: Request, next: Next) -> Response {
    let id = RequestId::of(request.headers());
    let method = method_label(request.method().as_str());
    let path = request.extensions().get::<MatchedPath>().cloned();
    // The path itself is never logged, because it may contain an invite token.
    let route = path.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
    // A node that drains is not ready for as long as that takes.
    let is_probe = matches!(route, "/healthz" | "/readyz");
    let open = Open::new(method, route);
    let span = tracing::info_span!(
        "request",
        request.id = id.as_str(),
        method,
        route,
        user.id = field::Empty,
        workspace.id = field::Empty,
    );
    request.extensions_mut().insert(id.clone());
    let mut response = next.run(request).instrument(span.clone()).await;
    let status = response.status();
    let duration_ms = telemetry::ms(open.answered(status.as_u16()));
    let error = response.extensions().get::<ApiError>();
    span.in_scope(|| {
        if status.is_server_error() && !is_probe && !error.is_some_and(ApiError::is_logged) {
            let code = error.map_or("", |error| error.code().as_str());
            tracing::warn!(
                status = status.as_u16(),
                code,
                duration_ms,
                "a request failed"
            );
        } else {
            tracing::debug!(status = status.as_u16(), duration_ms, "request completed");
        }
    });
    response.headers_mut().insert(REQUEST_ID, id.0);
    response
}

/// Repeats a read request once if it lost its database connection between two statements of one snapshot. The connection
/// itself repeats single statements.
pub async fn repeat_lost_read(
    axum::extract::State(engine): axum::extract::State<Engine>,
    request: Request,
    next: Next,
) -> Response {
    let is_read =
        request.method() == Method::GET && !request.headers().contains_key(header::UPGRADE);
    // `SQLite` has no connections that can be lost.
    if !is_read || engine == Engine::Sqlite {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let again = Request::from_parts(parts.clone(), Body::empty());
    let response = next.clone().run(Request::from_parts(parts, body)).await;
    let error = response.extensions().get::<ApiError>();
    if error.is_some_and(ApiError::has_lost_connection) {
        next.run(again).await
    } else {
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_for(given: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::try_from(given).unwrap());
        RequestId::of(&headers).as_str().to_owned()
    }

    #[test]
    fn a_single_valid_incoming_request_id_is_kept() {
        for good in ["4bf92f3577b34da6a3ce929d0e0e4736", "proxy-1.a_B", "7"] {
            assert_eq!(id_for(good), good);
        }
        let long = "a".repeat(ID_CHARS_MAX + 1);
        for bad in ["", " ", "a b", "a\"b", "a,b", "é", long.as_str()] {
            assert!(id_for(bad).starts_with("req_"), "{bad}");
        }
        let none = RequestId::of(&HeaderMap::new());
        assert_eq!(none.as_str().len(), "req_".len() + 32);
    }
}
