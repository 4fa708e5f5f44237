//! HTTP client for a certificate authority.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use hyper::{Request, Response, header::RETRY_AFTER};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};

use crate::{time::Timestamp, trust};

const CONNECT_WITHIN: Duration = Duration::from_secs(10);
const REQUEST_WITHIN: Duration = Duration::from_secs(30);
/// Longest delay that an authority can ask for.
const RETRY_MAX: Duration = Duration::from_hours(24 * 7);

/// A client that remembers when the authority wants to be asked again.
#[derive(Debug, Clone)]
pub(super) struct AcmeClient {
    http: reqwest::Client,
    retry_at: Arc<Mutex<Option<Timestamp>>>,
}

impl AcmeClient {
    pub(super) fn new() -> reqwest::Result<Self> {
        let http = trust::client_builder()
            .user_agent(concat!("openvibe/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_WITHIN)
            .timeout(REQUEST_WITHIN)
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self {
            http,
            retry_at: Arc::default(),
        })
    }

    /// The time of the last refusal's `Retry-After`, which is then forgotten.
    pub(super) fn take_retry_at(&self) -> Option<Timestamp> {
        let mut at = self.retry_at.lock().unwrap_or_else(PoisonError::into_inner);
        at.take()
    }

    fn note_retry(&self, response: &reqwest::Response) {
        if response.status().is_success() {
            return;
        }
        let after = response.headers().get(RETRY_AFTER);
        let Some(after) = after.and_then(|after| after.to_str().ok()) else {
            return;
        };
        let delay = after.parse().map(Duration::from_secs).ok().or_else(|| {
            let at = httpdate::parse_http_date(after).ok()?;
            at.duration_since(std::time::SystemTime::now()).ok()
        });
        if let Some(delay) = delay {
            let mut at = self.retry_at.lock().unwrap_or_else(PoisonError::into_inner);
            *at = Some(Timestamp::now() + delay.min(RETRY_MAX));
        }
    }
}

impl HttpClient for AcmeClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let this = self.clone();
        Box::pin(async move {
            let request = reqwest::Request::try_from(request.map(reqwest::Body::wrap));
            let failed = |e: reqwest::Error| Error::Other(Box::new(e));
            let response = this.http.execute(request.map_err(failed)?).await;
            let response = response.map_err(failed)?;
            this.note_retry(&response);
            Ok(BytesResponse::from(Response::<reqwest::Body>::from(
                response,
            )))
        })
    }
}
