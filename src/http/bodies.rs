//! Request bodies: the sender is identified before the body is read, and each person or address has a share of the
//! memory for bodies.
//!
//! Without a valid session or key, only the public routes accept a body. Other requests are rejected with the body
//! unread, and the connection closes after the response.

use std::{
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream, Bytes, HttpBody},
    extract::{FromRequestParts, Request, State as FromState},
    http::{Method, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use bytes::BytesMut;
use futures::{Stream, StreamExt};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    ApiError, State,
    extract::{Unidentified, client_of, token_of},
    unsent::{Holder, Unsent},
};
use crate::{
    auth::{AuthError, Caller, net_of},
    files,
    ids::UserId,
    share::{Exhausted, Permit, Pool, PoolBounds},
};

/// Maximum body size with a session or key.
pub const MEMBER_BYTES_MAX: usize = 1024 * 1024;
/// Maximum body size without a session or key.
pub const ANONYMOUS_BYTES_MAX: usize = 16 * 1024;
/// Maximum part of an oversized body that is read and discarded, so that the client can read the response.
const DRAINED_BYTES_MAX: usize = 32 * 1024 * 1024;
const UNLIMITED: u64 = u64::MAX;

/// Longest time for each 64 KiB of an upload, for its handler.
#[derive(Clone, Copy, Debug)]
pub struct UploadPace(pub Duration);

/// Bounds of the bodies that are held at the same time.
#[derive(Clone, Copy, Debug)]
pub struct BodyBounds {
    /// Bytes of bodies with a session or key, in total and per member.
    pub member_bytes: PoolBounds,
    pub member_within: Duration,
    /// Concurrent uploads per member; their bytes go to disk.
    pub uploads: PoolBounds,
    /// Longest time for each 64 KiB of an upload.
    pub upload_pace: UploadPace,
    /// Bytes of bodies without a session or key, in total and per address.
    pub anonymous_bytes: PoolBounds,
    /// Concurrent reads of bodies without a session or key, per address.
    pub anonymous_bodies: PoolBounds,
    pub anonymous_within: Duration,
    /// Maximum number of requests that are handled concurrently.
    pub handled_max: usize,
    /// Maximum time that a further request waits.
    pub handled_within: Duration,
}

impl Default for BodyBounds {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            member_bytes: PoolBounds {
                total: 256 * MIB,
                share: 8 * MIB,
            },
            member_within: Duration::from_secs(30),
            uploads: PoolBounds {
                total: 1024,
                // The burst of the rate limit.
                share: 64,
            },
            upload_pace: UploadPace(files::PACE_WITHIN),
            anonymous_bytes: PoolBounds {
                total: 4 * MIB,
                share: UNLIMITED,
            },
            anonymous_bodies: PoolBounds {
                total: UNLIMITED,
                share: 8,
            },
            anonymous_within: Duration::from_secs(10),
            handled_max: 1024,
            handled_within: Duration::from_secs(10),
        }
    }
}

/// State that requests share while they are received and handled.
pub struct Intake {
    state: State,
    unsent: Unsent,
    bounds: BodyBounds,
    turns: Semaphore,
    member_bytes: Arc<Pool<UserId>>,
    uploads: Arc<Pool<UserId>>,
    anonymous_bytes: Arc<Pool<IpAddr>>,
    anonymous_bodies: Arc<Pool<IpAddr>>,
}

impl Intake {
    pub fn new(state: State, unsent: Unsent, bounds: BodyBounds) -> Arc<Self> {
        Arc::new(Self {
            state,
            unsent,
            turns: Semaphore::new(bounds.handled_max),
            member_bytes: Pool::new(bounds.member_bytes),
            uploads: Pool::new(bounds.uploads),
            anonymous_bytes: Pool::new(bounds.anonymous_bytes),
            anonymous_bodies: Pool::new(bounds.anonymous_bodies),
            bounds,
        })
    }

    /// Client address of a request.
    pub fn client(&self, request: &Request) -> IpAddr {
        let trusted = &self.state.config.trusted_proxies;
        client_of(request.extensions(), request.headers(), trusted)
    }

    pub fn unsent(&self) -> &Unsent {
        &self.unsent
    }

    async fn turn(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        let turn = tokio::time::timeout(self.bounds.handled_within, self.turns.acquire());
        match turn.await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(ApiError::overloaded()),
        }
    }
}

/// Public routes, which need no session and ignore any credentials.
pub fn is_for_anonymous(path: &str) -> bool {
    matches!(
        path,
        "/v1/auth/setup" | "/v1/auth/signup" | "/v1/auth/login"
    ) || path.starts_with("/v1/invites/")
}

/// Uploads are too large for memory, so their handler streams them.
fn is_upload(request: &Request) -> bool {
    request.method() == Method::POST && request.uri().path() == "/v1/files"
}

/// Limits the number of requests that are handled concurrently; further ones wait for a limited time.
pub async fn limit_concurrency(
    FromState(intake): FromState<Arc<Intake>>,
    request: Request,
    next: Next,
) -> Response {
    // An upload takes as long as its sender needs; uploads have their own limit per person.
    if is_upload(&request) {
        return next.run(request).await;
    }
    match intake.turn().await {
        Ok(_turn) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Identifies the sender of a request, then reads the body.
pub async fn receive(
    FromState(intake): FromState<Arc<Intake>>,
    request: Request,
    next: Next,
) -> Response {
    let address = intake.client(&request);
    let mut holder = Holder::address(address);
    let received = intake.receive(&mut holder, address, request, next).await;
    let mut response = received.unwrap_or_else(IntoResponse::into_response);
    response.extensions_mut().insert(holder);
    response
}

impl Intake {
    async fn receive(
        &self,
        holder: &mut Holder,
        address: IpAddr,
        request: Request,
        next: Next,
    ) -> Result<Response, ApiError> {
        let path = request.uri().path();
        if !path.starts_with("/v1/") {
            // These routes accept no body.
            return Ok(next.run(request).await);
        }
        let for_anonymous = is_for_anonymous(path);
        let (mut parts, body) = request.into_parts();
        let caller = if for_anonymous || token_of(&parts.headers).is_none() {
            Err(AuthError::NotAuthenticated.into())
        } else {
            let _turn = self.turn().await?;
            Caller::from_request_parts(&mut parts, &self.state).await
        };
        let caller = match caller {
            Ok(caller) => Some(caller.user),
            Err(error) if !error.is_unauthenticated() => return Err(error),
            // Handlers that need a caller reject the request themselves; WebSockets use a close code.
            Err(_) if body.is_end_stream() || for_anonymous => {
                if !for_anonymous {
                    parts.extensions.insert(Unidentified);
                }
                None
            }
            Err(error) => return Err(error),
        };
        *holder = caller.map_or(*holder, Holder::Person);
        if self.unsent.has_used_up(holder) {
            return Err(ApiError::exhausted(Exhausted::Share, "unsent"));
        }
        let request = Request::from_parts(parts, body);
        if request.body().is_end_stream() {
            return Ok(next.run(request).await);
        }
        match caller {
            Some(user) if is_upload(&request) => {
                let _upload = take(&self.uploads, user, 1)?;
                Ok(pass_body(request, next, self.bounds.member_within).await)
            }
            Some(user) => {
                let room = take(&self.member_bytes, user, 0)?;
                let within = self.bounds.member_within;
                let (request, _room) = read(request, room, MEMBER_BYTES_MAX, within).await?;
                Ok(next.run(request).await)
            }
            None => {
                let address = net_of(address);
                let reading = take(&self.anonymous_bodies, address, 1)?;
                let room = take(&self.anonymous_bytes, address, 0)?;
                let within = self.bounds.anonymous_within;
                let (request, _room) = read(request, room, ANONYMOUS_BYTES_MAX, within).await?;
                drop(reading);
                Ok(next.run(request).await)
            }
        }
    }
}

fn take<K: std::hash::Hash + Eq + Clone>(
    pool: &Arc<Pool<K>>,
    holder: K,
    amount: u64,
) -> Result<Permit<K>, ApiError> {
    pool.take(holder, amount)
        .map_err(|exhausted| ApiError::exhausted(exhausted, "bodies"))
}

/// Reads the body into memory; returns the request and the permit for that memory.
async fn read<K: std::hash::Hash + Eq + Clone>(
    request: Request,
    mut room: Permit<K>,
    bytes_max: usize,
    within: Duration,
) -> Result<(Request, Permit<K>), ApiError> {
    let (parts, body) = request.into_parts();
    let collected = tokio::time::timeout(within, collect(body, &mut room, bytes_max)).await;
    let bytes = collected.unwrap_or_else(|_| Err(ApiError::body_too_slow()))?;
    Ok((Request::from_parts(parts, Body::from(bytes)), room))
}

/// Collects a body up to its size limit. The rest of an oversized body is read and discarded up to `DRAINED_BYTES_MAX`
/// if it has a session or key, so that the client can read the response.
async fn collect<K: std::hash::Hash + Eq + Clone>(
    body: Body,
    room: &mut Permit<K>,
    bytes_max: usize,
) -> Result<Bytes, ApiError> {
    let drained_max = if bytes_max < MEMBER_BYTES_MAX {
        bytes_max
    } else {
        DRAINED_BYTES_MAX
    };
    let mut stream = body.into_data_stream();
    let (mut bytes, mut read) = (BytesMut::new(), 0);
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|_| {
            ApiError::invalid(
                "invalid_body",
                "could not read the request body".to_owned(),
                "",
            )
        })?;
        read += piece.len();
        if read <= bytes_max {
            room.grow(piece.len() as u64)
                .map_err(|exhausted| ApiError::exhausted(exhausted, "bodies"))?;
            bytes.extend_from_slice(&piece);
        } else if read > drained_max {
            break;
        }
    }
    if read > bytes_max {
        Err(ApiError::body_too_large(bytes_max))
    } else {
        Ok(bytes.freeze())
    }
}

/// Body shared by the handler and the code that drains it.
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

/// Passes the body on unread, and drains the rest, within limits, when the response is ready.
async fn pass_body(request: Request, next: Next, within: Duration) -> Response {
    // The client waits for `100 Continue`, and reading the body would send it.
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
                if read > DRAINED_BYTES_MAX {
                    break;
                }
            }
        };
        // If draining takes too long, the connection closes with the rest unread, and the response may be lost.
        drop(tokio::time::timeout(within, drain).await);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bodies_use_the_memory_budget_while_they_are_held() {
        let bounds = PoolBounds {
            total: 4 * 1024,
            share: 3 * 1024,
        };
        let pool = Pool::new(bounds);
        let body = |kib: usize| Body::from(vec![b'x'; kib * 1024]);
        let mut ada = pool.take("ada", 0).unwrap();
        let bytes = collect(body(3), &mut ada, MEMBER_BYTES_MAX).await.unwrap();
        assert_eq!((bytes.len(), ada.amount()), (3 * 1024, 3 * 1024));
        for (holder, kib) in [("ada", 1), ("bo", 2)] {
            let mut room = pool.take(holder, 0).unwrap();
            let refused = collect(body(kib), &mut room, MEMBER_BYTES_MAX).await;
            let status = refused.unwrap_err().into_response().status();
            assert_eq!(status, axum::http::StatusCode::SERVICE_UNAVAILABLE);
        }
        let mut bo = pool.take("bo", 0).unwrap();
        collect(body(1), &mut bo, MEMBER_BYTES_MAX).await.unwrap();
        drop(ada);
        let mut cy = pool.take("cy", 0).unwrap();
        collect(body(3), &mut cy, MEMBER_BYTES_MAX).await.unwrap();
        let mut none = pool.take("ada", 0).unwrap();
        let empty = collect(Body::empty(), &mut none, MEMBER_BYTES_MAX).await;
        assert!(empty.unwrap().is_empty() && none.amount() == 0);
    }
}
