//! Request bodies: read within limits of size, time, and memory.

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
    body::{Body, BodyDataStream, Bytes},
    extract::Request,
    http::header,
    middleware::Next,
    response::Response,
};
use bytes::BytesMut;
use futures::{Stream, StreamExt};

use super::error::{ApiError, ErrorCode};
use crate::share::{Permit, Pool, PoolBounds};

/// Maximum body size with a session or key.
pub const MEMBER_BYTES_MAX: usize = 1024 * 1024;
/// Maximum size of a body that can contain pictures and files.
pub const MEDIA_BYTES_MAX: usize = 20 * 1024 * 1024;
/// Maximum body size without a session or key.
pub const ANONYMOUS_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of bytes of an oversized body that are read and discarded, so that the client can read the response.
const DRAINED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Maximum time for each 64 KiB of an upload.
pub const UPLOAD_PACE_WITHIN: Duration = Duration::from_secs(30);
const UNLIMITED: u64 = u64::MAX;

/// Maximum time for each 64 KiB of an upload, as a request extension for the handler.
#[derive(Clone, Copy, Debug)]
pub struct UploadPace(pub Duration);

/// Limits for request bodies that are held at the same time, and for requests that are handled concurrently.
#[derive(Clone, Copy, Debug)]
pub struct BodyBounds {
    /// Limits for the bytes of request bodies sent with a session or key, in total and per member.
    pub member_bytes: PoolBounds,
    /// Same for the bodies of requests to models, which can contain pictures and files. Parsed and decoded, they take up to three times as
    /// much memory.
    pub media_bytes: PoolBounds,
    pub member_within: Duration,
    /// Limits for the bytes of messages to incoming webhooks, in total and per workspace.
    pub hook_bytes: PoolBounds,
    /// Limits for the bytes of SCIM requests, in total and per identity provider.
    pub scim_bytes: PoolBounds,
    /// Limits for concurrent uploads, in total and per member. Their bytes go to disk.
    pub uploads: PoolBounds,
    /// Limits for the bytes of uploads that are not committed yet, in total and per member.
    pub upload_bytes: PoolBounds,
    /// Maximum time for each 64 KiB of an upload.
    pub upload_pace: UploadPace,
    /// Limits for the bytes of request bodies sent without a session or key, in total and per address.
    pub anonymous_bytes: PoolBounds,
    /// Maximum number of requests with a body but without a session or key that are received or handled concurrently, in total and
    /// per network.
    pub anonymous_max: usize,
    pub anonymous_per_network: usize,
    pub anonymous_within: Duration,
    /// Maximum number of requests that are handled concurrently.
    pub handled_max: usize,
    /// Maximum number of one person's read requests that are handled concurrently.
    pub handled_reads: usize,
    /// Maximum number of one person's writes, excluding uploads, that are handled concurrently.
    pub handled_writes: usize,
    /// Maximum time that a request beyond these limits waits.
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
            // One body with pictures, and others at the same time.
            media_bytes: PoolBounds {
                total: 96 * MIB,
                share: 24 * MIB,
            },
            member_within: Duration::from_secs(30),
            // A body has at most 1 MiB.
            hook_bytes: PoolBounds {
                total: 32 * MIB,
                share: 8 * MIB,
            },
            scim_bytes: PoolBounds {
                total: 32 * MIB,
                share: 8 * MIB,
            },
            uploads: PoolBounds {
                total: 1024,
                // Equal to the burst of the rate limit.
                share: 64,
            },
            upload_bytes: PoolBounds {
                total: 4096 * MIB,
                share: 256 * MIB,
            },
            upload_pace: UploadPace(UPLOAD_PACE_WITHIN),
            anonymous_bytes: PoolBounds {
                total: 4 * MIB,
                share: UNLIMITED,
            },
            anonymous_max: 64,
            anonymous_per_network: 4,
            anonymous_within: Duration::from_secs(10),
            handled_max: 1024,
            handled_reads: 4,
            handled_writes: 32,
            handled_within: Duration::from_secs(10),
        }
    }
}

pub fn take<K: std::hash::Hash + Eq + Clone>(
    pool: &Arc<Pool<K>>,
    holder: K,
    amount: u64,
) -> Result<Permit<K>, ApiError> {
    pool.take(holder, amount)
        .map_err(|exhausted| ApiError::exhausted(exhausted, "bodies"))
}

/// Reads the body into memory. Returns the request and the permit for that memory.
pub async fn read<K: std::hash::Hash + Eq + Clone>(
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

/// Collects a body up to its size limit. If the request has a session or key, the rest of an oversized body is read and discarded up
/// to `DRAINED_BYTES_MAX`, so that the client can read the response.
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
                ErrorCode::InvalidBody,
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

/// Passes the body to the handler unread, and drains the rest, within limits, when the response is ready.
pub async fn pass_body(request: Request, next: Next, within: Duration) -> Response {
    // If the client waits for `100 Continue`, reading the body would send it.
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
    use axum::response::IntoResponse;

    use super::*;

    #[test]
    fn parsed_pictures_fit_into_the_memory_of_a_small_server() {
        let bounds = BodyBounds::default();
        let body = MEDIA_BYTES_MAX as u64;
        assert!(bounds.media_bytes.share >= body + MEMBER_BYTES_MAX as u64);
        // Parsed and decoded.
        assert!(bounds.media_bytes.total * 3 < 300 * 1024 * 1024);
        assert!(bounds.member_bytes.share < body);
    }

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
