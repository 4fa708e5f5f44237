//! Joins the routes of every capability.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, BodyDataStream, Bytes},
    extract::{DefaultBodyLimit, Request, WebSocketUpgrade},
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::BytesMut;
use futures::{Stream, StreamExt};
use tokio::sync::{Semaphore, SemaphorePermit};
use tower::util::option_layer;
use tower_http::{catch_panic::CatchPanicLayer, set_header::SetResponseHeaderLayer};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    ApiError, State, assets, error,
    extract::{Address, token_of},
    health, openapi, origin,
    requests::{self, RequestId},
};
use crate::{
    agents, auth, auth::Caller, chat, files, forks, personal, realtime::socket, responses,
};

/// A request's body (PROTOCOL §1).
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// How much of a body that is too large is read and thrown away.
const BODY_DRAINED_MAX: usize = 32 * 1024 * 1024;
/// Of all bodies that are held at once, in KiB: 256 MiB.
const BODIES_KIB_MAX: usize = 256 * 1024;
const API_CSP: &str = "default-src 'none'; frame-ancestors 'none'";
const BODY_WITHIN: Duration = Duration::from_secs(30);
/// Requests that are worked on at once, and how long a further one waits for its turn.
const HANDLED_MAX: usize = 1024;
const HANDLED_WITHIN: Duration = Duration::from_secs(10);

/// Every route that the document shows.
pub(super) fn routes() -> OpenApiRouter<State> {
    OpenApiRouter::with_openapi(openapi::empty())
        .merge(health::router())
        .merge(auth::routes::router())
        .merge(chat::routes::router())
        .merge(files::routes::router())
        .merge(forks::routes::router())
        .merge(agents::routes::router())
        .merge(responses::routes::router())
        .merge(personal::routes::router())
        .routes(routes!(open_socket))
}

/// Live events: a WebSocket
#[utoipa::path(get, path = "/v1/ws", tag = "boot", responses((status = 101, description = "The connection is now a WebSocket")))]
async fn open_socket(
    axum::extract::State(state): axum::extract::State<State>,
    headers: HeaderMap,
    axum::Extension(request): axum::Extension<RequestId>,
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
    match caller {
        Ok(caller) => {
            let place = state.limits.open_socket(Some(caller.user))?;
            Ok(socket::upgrade(ws, state, headers, request, caller, place))
        }
        Err(e) if e.is_unauthenticated() => {
            let place = state.limits.open_socket(None)?;
            Ok(socket::refuse(ws, state, place))
        }
        Err(e) => Err(e),
    }
}

pub fn build(state: State) -> Router {
    let (router, _) = routes().split_for_parts();
    let set_header = |name: &'static str, value: &'static str| {
        SetResponseHeaderLayer::if_not_present(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    };
    // Browsers take this header over https only and complain of it elsewhere.
    let opener_policy = state
        .is_https()
        .then(|| set_header("cross-origin-opener-policy", "same-origin"));
    router
        .route("/openapi.json", get(openapi::serve))
        .fallback(assets::serve)
        .method_not_allowed_fallback(async || ApiError::wrong_method())
        .layer(middleware::from_fn_with_state(state.clone(), origin::guard))
        .layer(middleware::from_fn(refuse_nul))
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(
            Arc::new(Semaphore::new(HANDLED_MAX)),
            take_turns,
        ))
        .layer(middleware::from_fn_with_state(
            Arc::new(Semaphore::new(BODIES_KIB_MAX)),
            read_body,
        ))
        .layer(middleware::from_fn_with_state(state.clone(), count_address))
        .layer(CatchPanicLayer::custom(
            |_: Box<dyn std::any::Any + Send>| ApiError::panicked().into_response(),
        ))
        .layer(middleware::from_fn(error::speak_openai))
        .layer(set_header("x-content-type-options", "nosniff"))
        .layer(set_header("referrer-policy", "same-origin"))
        // Pages say more; an answer of the API that a browser is made to show does nothing.
        .layer(set_header("content-security-policy", API_CSP))
        .layer(option_layer(opener_policy))
        .layer(set_header("cache-control", "no-store"))
        .layer(middleware::from_fn(requests::accompany))
        .with_state(state)
}

/// Addresses that are made for those who are not signed in, whatever a request to them shows.
fn is_for_strangers(path: &str) -> bool {
    matches!(
        path,
        "/v1/auth/setup" | "/v1/auth/signup" | "/v1/auth/login"
    ) || path.starts_with("/v1/invites/")
}

/// Refuses what comes too often from one address, before anything else is done with it.
async fn count_address(
    axum::extract::State(state): axum::extract::State<State>,
    Address(address): Address,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let is_stranger = path.starts_with("/v1/")
        && (is_for_strangers(path) || token_of(request.headers()).is_none());
    let counted = state.limits.request(address).and_then(|()| {
        if is_stranger {
            state.limits.stranger(address)
        } else {
            Ok(())
        }
    });
    match counted {
        Ok(()) => next.run(request).await,
        Err(e) => ApiError::from(e).into_response(),
    }
}

/// Lets a bounded number of requests be worked on at once; the others wait, but not for ever.
async fn take_turns(
    axum::extract::State(places): axum::extract::State<Arc<Semaphore>>,
    request: Request,
    next: Next,
) -> Response {
    // An upload takes as long as its sender does; how many there are is bounded by person.
    if is_upload(&request) {
        return next.run(request).await;
    }
    let Ok(Ok(_place)) = tokio::time::timeout(HANDLED_WITHIN, places.acquire()).await else {
        return ApiError::overloaded().into_response();
    };
    next.run(request).await
}

/// Reads the body before anyone looks at the request. A refusal that left it unread would cost the client its connection.
async fn read_body(
    axum::extract::State(room): axum::extract::State<Arc<Semaphore>>,
    request: Request,
    next: Next,
) -> Response {
    if is_upload(&request) {
        return pass_body(request, next).await;
    }
    let (parts, body) = request.into_parts();
    match tokio::time::timeout(BODY_WITHIN, collect(body, &room)).await {
        Ok(Ok((bytes, _room))) => {
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

/// Uploads are too large to be held, so their handler reads them as they come.
fn is_upload(request: &Request) -> bool {
    request.method() == Method::POST && request.uri().path() == "/v1/files"
}

/// A body that is read by whoever has a part in it.
#[derive(Clone)]
struct Shared(Arc<Mutex<BodyDataStream>>, Arc<AtomicBool>);

impl Stream for Shared {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.1.store(true, Ordering::Relaxed);
        let mut body = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        body.poll_next_unpin(cx)
    }
}

/// Hands the body on unread, and once the answer is known throws away what is left of it, up to a point.
async fn pass_body(request: Request, next: Next) -> Response {
    // Such a client sends nothing before it is told to, and reading would tell it.
    let waits = request.headers().contains_key(header::EXPECT);
    let (parts, body) = request.into_parts();
    let is_read = Arc::new(AtomicBool::new(false));
    let body = Arc::new(Mutex::new(body.into_data_stream()));
    let mut rest = Shared(body, Arc::clone(&is_read));
    let handed = Body::from_stream(rest.clone());
    let response = next.run(Request::from_parts(parts, handed)).await;
    if !waits || is_read.load(Ordering::Relaxed) {
        let drain = async {
            let mut read = 0;
            while let Some(Ok(piece)) = rest.next().await {
                read += piece.len();
                if read > BODY_DRAINED_MAX {
                    break;
                }
            }
        };
        // The connection closes with the rest unread; the answer may be lost with it.
        drop(tokio::time::timeout(BODY_WITHIN, drain).await);
    }
    response
}

/// A body as far as it is allowed to go. What is too large is read to its end all the same, up to a point, so that the
/// client gets to see the answer. What it takes of the room for all bodies is given back with the permit.
async fn collect(
    body: Body,
    room: &Semaphore,
) -> Result<(Bytes, Option<SemaphorePermit<'_>>), ApiError> {
    let mut stream = body.into_data_stream();
    let (mut bytes, mut read) = (BytesMut::new(), 0);
    let mut taken: Option<SemaphorePermit<'_>> = None;
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
            let wanted =
                read.div_ceil(1024) - taken.as_ref().map_or(0, SemaphorePermit::num_permits);
            let more = u32::try_from(wanted)
                .ok()
                .and_then(|wanted| room.try_acquire_many(wanted).ok())
                .ok_or_else(ApiError::overloaded)?;
            match &mut taken {
                Some(taken) => taken.merge(more),
                None => taken = Some(more),
            }
            bytes.extend_from_slice(&piece);
        } else if read > BODY_DRAINED_MAX {
            break;
        }
    }
    if read > BODY_BYTES_MAX {
        Err(ApiError::body_too_large())
    } else {
        Ok((bytes.freeze(), taken))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bodies_share_the_room_there_is_and_give_it_back() {
        let room = Semaphore::new(4);
        let body = |kib: usize| Body::from(vec![b'x'; kib * 1024]);
        let (bytes, held) = collect(body(3), &room).await.unwrap();
        assert_eq!((bytes.len(), room.available_permits()), (3 * 1024, 1));
        let refused = collect(body(2), &room).await.unwrap_err().into_response();
        assert_eq!(
            refused.status(),
            axum::http::StatusCode::SERVICE_UNAVAILABLE
        );
        assert_eq!(room.available_permits(), 1);
        drop(held);
        let (_, held) = collect(body(4), &room).await.unwrap();
        assert_eq!(room.available_permits(), 0);
        drop(held);
        let (bytes, held) = collect(Body::empty(), &room).await.unwrap();
        assert!(bytes.is_empty() && held.is_none());
        assert_eq!(room.available_permits(), 4);
    }

    #[test]
    fn every_address_that_needs_no_session_is_counted_for_strangers() {
        let (_, api) = routes().split_for_parts();
        let api = serde_json::to_value(api).unwrap();
        let mut seen = 0;
        for (path, operations) in api["paths"].as_object().unwrap() {
            for (method, operation) in operations.as_object().unwrap() {
                let is_open = operation["security"] == serde_json::json!([{}]);
                if is_open && path.starts_with("/v1/") {
                    seen += 1;
                    assert!(is_for_strangers(path), "{method} {path}");
                }
            }
        }
        assert!(seen >= 4, "{seen}");
    }
}
