//! Probes: requests with which checks find out how the server is reached. They are 404 without a nonce that a check announced, and are
//! not part of the API document.

use std::{convert::Infallible, net::SocketAddr};

use axum::{
    Json, Router,
    extract::{ConnectInfo, Request, WebSocketUpgrade, ws::Message},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{
        IntoResponse, Response,
        sse::{Event, Sse},
    },
    routing::{get, post},
};
use futures::StreamExt;

use crate::{
    doctor::probe::{self, Echo, SOCKET_TEXT, STREAM_EVERY, STREAM_PARTS},
    http::{ApiError, ErrorCode, address::client_of, extract::Path},
    server::State,
};

type St = axum::extract::State<State>;

/// Maximum size of a probe's upload.
const UPLOAD_BYTES_MAX: usize = 32 << 20;

pub fn router() -> Router<State> {
    Router::new()
        .route("/v1/server/probe/{nonce}", get(echo))
        .route("/v1/server/probe/{nonce}/ws", get(open_socket))
        .route("/v1/server/probe/{nonce}/stream", get(stream))
        .route("/v1/server/probe/{nonce}/upload", post(upload))
}

/// # Errors
/// 404 unless a check announced the nonce and it is unused.
async fn admit(state: &State, nonce: &str) -> Result<(), ApiError> {
    if probe::take(&state.db, nonce).await? {
        Ok(())
    } else {
        Err(ApiError::no_route())
    }
}

async fn echo(
    axum::extract::State(state): St,
    Path(nonce): Path<String>,
    peer: ConnectInfo<SocketAddr>,
    request: Request,
) -> Result<Json<Echo>, ApiError> {
    admit(&state, &nonce).await?;
    let (headers, trusted) = (request.headers(), &state.config.trusted_proxies);
    let host = headers.get(header::HOST);
    let peer = peer.0.ip().to_canonical();
    Ok(Json(Echo {
        nonce,
        host: host.and_then(|host| Some(host.to_str().ok()?.to_owned())),
        peer,
        is_trusted: trusted.contains(peer),
        has_forwarded_for: headers.contains_key("x-forwarded-for"),
        client: client_of(request.extensions(), headers, trusted),
    }))
}

async fn open_socket(
    axum::extract::State(state): St,
    Path(nonce): Path<String>,
    ws: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    admit(&state, &nonce).await?;
    let ws = ws.map_err(|e| {
        ApiError::invalid(
            ErrorCode::UpgradeRequired,
            format!("this path only accepts WebSocket connections: {e}"),
            "",
        )
    })?;
    let tracker = state.tracker.clone();
    Ok(ws.on_upgrade(move |mut socket| {
        tracker.track_future(async move {
            // Fails only if the client is gone.
            drop(socket.send(Message::text(SOCKET_TEXT)).await);
        })
    }))
}

/// Sends parts at a fixed pace, in the form of streamed replies.
async fn stream(
    axum::extract::State(state): St,
    Path(nonce): Path<String>,
) -> Result<Response, ApiError> {
    admit(&state, &nonce).await?;
    let parts = futures::stream::iter(0..STREAM_PARTS).then(|n| async move {
        if n > 0 {
            tokio::time::sleep(STREAM_EVERY).await;
        }
        Ok::<_, Infallible>(Event::default().data(n.to_string()))
    });
    let mut response = Sse::new(parts).into_response();
    response
        .headers_mut()
        .insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// Reads and discards a body.
async fn upload(
    axum::extract::State(state): St,
    Path(nonce): Path<String>,
    headers: HeaderMap,
    request: Request,
) -> Result<StatusCode, ApiError> {
    admit(&state, &nonce).await?;
    let declared = headers.get(header::CONTENT_LENGTH);
    let declared = declared.and_then(|text| text.to_str().ok()?.parse::<usize>().ok());
    let too_large = || ApiError::body_too_large(UPLOAD_BYTES_MAX);
    if declared.is_some_and(|bytes| bytes > UPLOAD_BYTES_MAX) {
        return Err(too_large());
    }
    let (mut body, mut read) = (request.into_body().into_data_stream(), 0);
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(|_| {
            ApiError::invalid(
                ErrorCode::InvalidBody,
                "could not read the request body".to_owned(),
                "",
            )
        })?;
        read += piece.len();
        if read > UPLOAD_BYTES_MAX {
            return Err(too_large());
        }
    }
    Ok(StatusCode::NO_CONTENT)
}
