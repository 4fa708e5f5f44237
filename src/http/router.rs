//! Joins the routes of every capability.

use std::time::Duration;

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Request, WebSocketUpgrade},
    http::{HeaderMap, HeaderName, HeaderValue},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::BytesMut;
use futures::StreamExt;
use tower::util::option_layer;
use tower_http::{
    catch_panic::CatchPanicLayer,
    set_header::SetResponseHeaderLayer,
    trace::{DefaultOnFailure, TraceLayer},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{ApiError, State, assets, error, health, openapi, origin};
use crate::{agents, auth, auth::Caller, chat, forks, realtime::socket, responses};

/// A request's body (PROTOCOL §1).
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// How much of a body that is too large is read and thrown away.
const BODY_DRAINED_MAX: usize = 32 * 1024 * 1024;
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// Every route that the document shows.
pub(super) fn routes() -> OpenApiRouter<State> {
    OpenApiRouter::with_openapi(openapi::empty())
        .merge(health::router())
        .merge(auth::routes::router())
        .merge(chat::routes::router())
        .merge(forks::routes::router())
        .merge(agents::routes::router())
        .merge(responses::routes::router())
        .routes(routes!(open_socket))
}

/// Live events: a WebSocket
#[utoipa::path(get, path = "/v1/ws", tag = "boot", responses((status = 101, description = "The connection is now a WebSocket")))]
async fn open_socket(
    axum::extract::State(state): axum::extract::State<State>,
    headers: HeaderMap,
    caller: Result<Caller, ApiError>,
    ws: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let ws = ws.map_err(|e| {
        ApiError::invalid(
            "upgrade_required",
            format!("this address takes WebSockets only: {e}"),
            "",
        )
    })?;
    // A browser sees no status of a refused upgrade, so who is not signed in is told by the close code.
    Ok(match caller {
        Ok(caller) => socket::upgrade(ws, state, headers, caller),
        Err(_) => socket::refuse(ws, state),
    })
}

pub fn build(state: State) -> Router {
    let (router, _) = routes().split_for_parts();
    let header = |name: &'static str, value: &'static str| {
        SetResponseHeaderLayer::if_not_present(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    };
    // Browsers take this header over https only and complain of it elsewhere.
    let opener_policy = state
        .is_https()
        .then(|| header("cross-origin-opener-policy", "same-origin"));
    router
        .route("/openapi.json", get(openapi::serve))
        .fallback(assets::serve)
        .method_not_allowed_fallback(async || ApiError::wrong_method())
        .layer(middleware::from_fn_with_state(state.clone(), origin::guard))
        .layer(middleware::from_fn(refuse_nul))
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn(read_body))
        .layer(CatchPanicLayer::custom(
            |_: Box<dyn std::any::Any + Send>| ApiError::internal().into_response(),
        ))
        .layer(middleware::from_fn(error::speak_openai))
        .layer(header("x-content-type-options", "nosniff"))
        .layer(header("referrer-policy", "same-origin"))
        .layer(option_layer(opener_policy))
        .layer(header("cache-control", "no-store"))
        .layer(
            TraceLayer::new_for_http()
                .make_span_with(span)
                .on_failure(DefaultOnFailure::new().level(tracing::Level::DEBUG)),
        )
        .with_state(state)
}

/// The path names objects only, never secrets but an invite's token, which is left out with the rest of the address.
fn span(request: &Request) -> tracing::Span {
    let route = request
        .extensions()
        .get::<axum::extract::MatchedPath>()
        .map_or("", |path| path.as_str());
    tracing::debug_span!("request", method = %request.method(), route, id = %uuid::Uuid::now_v7())
}

/// Reads the body before anyone looks at the request. A refusal that left it unread would cost the client its connection.
async fn read_body(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match tokio::time::timeout(BODY_WITHIN, collect(body)).await {
        Ok(Ok(bytes)) => {
            next.run(Request::from_parts(parts, Body::from(bytes)))
                .await
        }
        Ok(Err(error)) => error.into_response(),
        Err(_) => ApiError::invalid(
            "body_too_slow",
            "the request's body did not arrive in time".to_owned(),
            "",
        )
        .into_response(),
    }
}

/// A body as far as it is allowed to go. What is too large is read to its end all the same, up to a point, so that the
/// client gets to see the answer.
async fn collect(body: Body) -> Result<Bytes, ApiError> {
    let mut stream = body.into_data_stream();
    let (mut bytes, mut read) = (BytesMut::new(), 0);
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|_| {
            ApiError::invalid(
                "invalid_body",
                "the request's body could not be read".to_owned(),
                "",
            )
        })?;
        read += piece.len();
        if read <= BODY_BYTES_MAX {
            bytes.extend_from_slice(&piece);
        } else if read > BODY_DRAINED_MAX {
            break;
        }
    }
    if read > BODY_BYTES_MAX {
        Err(ApiError::body_too_large())
    } else {
        Ok(bytes.freeze())
    }
}

/// A NUL in an address can be stored nowhere.
async fn refuse_nul(request: Request, next: Next) -> Response {
    if request.uri().to_string().contains("%00") {
        return ApiError::invalid(
            "invalid_address",
            "the address holds a NUL character".to_owned(),
            "",
        )
        .into_response();
    }
    next.run(request).await
}
