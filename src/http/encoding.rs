//! Compressed responses: checks which encodings a client accepts, and compresses JSON with gzip.
//!
//! Uses flate2 instead of tower-http's layer. If a client rejects every encoding, that layer replaces the status with 406 even after
//! the request has been executed. It also keeps the text and its compressor in memory until a slow client has read the response. Here
//! the compressed body replaces the original before it is sent, with a content length.

use std::{io::Write, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use flate2::{Compression, write::GzEncoder};
use serde::Serialize;

use super::unsent::Holder;
use crate::{blocking::blocking, share::Turns};

/// Minimum size of a body that is compressed; smaller ones fit into one or two packets anyway.
const GZIP_BYTES_MIN: usize = 1024;
/// Maximum size of a body that is compressed on the current thread; larger ones are compressed on a blocking thread.
const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of large bodies of one holder that wait for compression; further ones are sent as they are.
const WAITING_MAX: usize = 16;
/// Maximum time that a large body waits for compression before it is sent as it is.
const TURN_WITHIN: Duration = Duration::from_secs(5);

/// Response extension: size of the body before compression.
#[derive(Clone, Copy, Debug)]
pub struct BuiltBytes(pub u64);

/// Turns for compressing large bodies, one at a time for each holder.
#[derive(Debug, Clone)]
pub struct CompressionTurns(Arc<Turns<Holder>>);

impl Default for CompressionTurns {
    fn default() -> Self {
        Self(Arc::new(Turns::new(1, 1 + WAITING_MAX)))
    }
}

impl CompressionTurns {
    pub fn of(&self, holder: Holder) -> Compressor {
        Compressor {
            turns: self.clone(),
            holder,
        }
    }
}

/// Compresses the bodies of one holder; a request extension.
#[derive(Debug, Clone)]
pub struct Compressor {
    turns: CompressionTurns,
    holder: Holder,
}

impl Compressor {
    /// Compresses a body, on another thread if it is large. Returns `None` if that fails or takes too long to begin.
    async fn gzip(&self, text: &Bytes) -> Option<Vec<u8>> {
        if text.len() <= INLINE_BYTES_MAX {
            return gzip(text).ok();
        }
        let turn = self.turns.0.take_within(self.holder, TURN_WITHIN).await?;
        let copy = text.clone();
        blocking(turn, move || gzip(&copy)).await.ok()?.ok()
    }
}

/// Checks whether the client accepts this encoding (RFC 9110 §12.5.3).
pub fn accepts(headers: &HeaderMap, encoding: &str) -> bool {
    let offers = headers.get_all(header::ACCEPT_ENCODING).iter();
    let offers = offers.filter_map(|value| value.to_str().ok());
    let mut any = false;
    for offer in offers.flat_map(|text| text.split(',')) {
        let mut parts = offer.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let is_refused = parts
            .filter_map(|parameter| parameter.strip_prefix("q="))
            .any(|weight| {
                weight
                    .trim()
                    .parse::<f32>()
                    .is_ok_and(|weight| weight <= 0.0)
            });
        if name.eq_ignore_ascii_case(encoding) {
            return !is_refused;
        }
        if name == "*" {
            any = !is_refused;
        }
    }
    any
}

/// Checks whether gzip is likely to make the response smaller. Event streams and files are sent uncompressed.
fn is_worth_it(response: &Response) -> bool {
    let headers = response.headers();
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
        // With a `Vary` header, the response is already compressed or available in several encodings.
        && !headers.contains_key(header::VARY)
        && !headers.contains_key(header::CONTENT_RANGE)
        && response.status() != StatusCode::PARTIAL_CONTENT
        && response.body().size_hint().exact() >= Some(GZIP_BYTES_MIN as u64)
}

/// Compresses the text at the fastest level.
pub fn gzip(text: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 4), Compression::fast());
    encoder.write_all(text)?;
    encoder.finish()
}

/// A JSON body that is kept for several responses, in the encoding in which they are sent.
#[derive(Debug, Clone)]
pub struct EncodedJson {
    pub bytes: Bytes,
    /// True if the body is compressed; false if it is too small or the client does not accept gzip.
    pub is_gzip: bool,
    /// Size before compression.
    pub built: BuiltBytes,
}

impl EncodedJson {
    /// Encodes a value as `compress` would, with `compressor` if the client accepts gzip. If compression fails, the body is left
    /// uncompressed.
    ///
    /// # Errors
    /// If the value cannot be encoded as JSON.
    pub async fn new(
        value: &impl Serialize,
        compressor: Option<&Compressor>,
    ) -> serde_json::Result<Self> {
        let bytes = Bytes::from(serde_json::to_vec(value)?);
        let built = BuiltBytes(bytes.len() as u64);
        let packed = match compressor.filter(|_| bytes.len() >= GZIP_BYTES_MIN) {
            Some(compressor) => compressor.gzip(&bytes).await,
            None => None,
        };
        Ok(Self {
            is_gzip: packed.is_some(),
            bytes: packed.map_or(bytes, Bytes::from),
            built,
        })
    }
}

impl IntoResponse for EncodedJson {
    fn into_response(self) -> Response {
        let is_varied = self.is_gzip || self.bytes.len() >= GZIP_BYTES_MIN;
        let mut response = self.bytes.into_response();
        response.extensions_mut().insert(self.built);
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        if is_varied {
            // With this header, `compress` leaves the response unchanged.
            headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        }
        if self.is_gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

/// Compresses JSON for clients that accept gzip.
pub async fn compress(request: Request, next: Next) -> Response {
    let accepts_gzip = accepts(request.headers(), "gzip");
    let is_head = request.method() == Method::HEAD;
    let compressor = request.extensions().get::<Compressor>().cloned();
    let response = next.run(request).await;
    if !is_worth_it(&response) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts
        .headers
        .append(header::VARY, HeaderValue::from_static("accept-encoding"));
    let Some(compressor) = compressor.filter(|_| accepts_gzip && !is_head) else {
        return Response::from_parts(parts, body);
    };
    // A body of known size is already completely in memory.
    let Ok(text) = axum::body::to_bytes(body, usize::MAX).await else {
        return super::ApiError::internal().into_response();
    };
    let built = BuiltBytes(text.len() as u64);
    let Some(packed) = compressor.gzip(&text).await else {
        return Response::from_parts(parts, Body::from(text));
    };
    parts.extensions.insert(built);
    parts
        .headers
        .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(packed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_is_accepted_by_name_or_wildcard_unless_its_weight_is_zero() {
        for (text, gzip, br) in [
            ("gzip, deflate, br", true, true),
            ("GZIP;q=0.5", true, false),
            ("gzip;q=0, *", false, true),
            ("*;q=0", false, false),
            ("br;q=1.0, gzip; q=0.000", false, true),
            ("identity", false, false),
            ("", false, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, text.parse().unwrap());
            assert_eq!(accepts(&headers, "gzip"), gzip, "{text}");
            assert_eq!(accepts(&headers, "br"), br, "{text}");
        }
        assert!(!accepts(&HeaderMap::new(), "gzip"));
    }

    #[tokio::test]
    async fn one_large_body_of_a_holder_is_compressed_at_a_time() {
        let turns = CompressionTurns::default();
        let [ada, bo] = [1, 2].map(|n| turns.of(Holder::address([203, 0, 113, n].into())));
        // Large enough that no compression ends while it is being started.
        let large = Bytes::from(vec![b' '; 256 * INLINE_BYTES_MAX]);
        let other = turns.0.take(ada.holder).await;
        let mut waiting = Box::pin(ada.gzip(&large));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        assert!(
            ada.gzip(&large.slice(..INLINE_BYTES_MAX)).await.is_some(),
            "small"
        );
        assert!(bo.gzip(&large).await.is_some());
        // The turn of a compression that nobody waits for ends with the work.
        drop(waiting);
        drop(other);
        let mut begun = Box::pin(ada.gzip(&large));
        assert!(futures::poll!(begun.as_mut()).is_pending());
        drop(begun);
        assert!(ada.gzip(&large).await.is_some());
    }
}
