//! Memory limit for responses that clients have not read yet, with a share for each person or anonymous address.

use std::{net::IpAddr, sync::Arc};

use axum::{body::HttpBody, http::header, response::Response};

use super::address::net_of;
use crate::{
    ids::UserId,
    share::{Permit, Pool, PoolBounds},
};

/// Maximum size of a response that is sent even if the share is used up, so that errors and writes always get a
/// response.
pub const SMALL_BYTES_MAX: u64 = 16 * 1024;
/// Memory reserved for a body of unknown size: hyper's buffer and one chunk of a file.
const STREAM_BYTES: u64 = 1024 * 1024;
/// Memory reserved for an event stream, whose events are small.
const EVENT_STREAM_BYTES: u64 = 128 * 1024;

/// Holder of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    Person(UserId),
    Address(IpAddr),
}

impl Holder {
    pub fn address(address: IpAddr) -> Self {
        Self::Address(net_of(address))
    }
}

/// Reservation that is held until the response is sent. It is wrapped in an `Arc` because it is passed on as a response extension.
pub type Reservation = Arc<Permit<Holder>>;

/// Response extension: the body is embedded in the binary and needs no memory of its own.
#[derive(Clone, Copy, Debug)]
pub struct InProgram;

/// Response extension: the POST request changed nothing, so the response can be replaced with an error.
#[derive(Clone, Copy, Debug)]
pub struct ReadOnly;

pub type Unsent = Arc<Pool<Holder>>;

pub const BOUNDS: PoolBounds = PoolBounds {
    total: 256 * 1024 * 1024,
    share: 32 * 1024 * 1024,
};

pub fn is_event_stream(response: &Response) -> bool {
    response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Memory, in bytes, that the response needs until it is sent.
pub fn bytes_of(response: &Response) -> u64 {
    if response.extensions().get::<InProgram>().is_some() {
        return 0;
    }
    if let Some(exact) = response.body().size_hint().exact() {
        return exact;
    }
    if is_event_stream(response) {
        return EVENT_STREAM_BYTES;
    }
    let declared = response.headers().get(header::CONTENT_LENGTH);
    declared
        .and_then(|text| text.to_str().ok()?.parse().ok())
        .map_or(STREAM_BYTES, |bytes: u64| bytes.min(STREAM_BYTES))
}
