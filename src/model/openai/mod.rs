//! Client for any server with the chat-completions protocol.
//!
//! Requests have the types of `async-openai` 0.43. The parser of event streams (`answer`) is our own, because the
//! crate's client reads ahead into an unbounded channel (a server that sends faster than the database stores would
//! exhaust the memory), does not limit lines, hides comments, and drops `[DONE]`, so that a complete response looks like
//! one that failed. Here, data is only read on demand, and dropping the stream closes the connection.
//!
//! Calls are not retried, with one exception: if the server rejects an optional field, the request is repeated without
//! it (or with its other name), and this is remembered for the model. Callers limit the wait; only connecting has its
//! own timeout.

mod answer;
mod calls;
mod refusal;
mod request;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::{FutureExt, StreamExt, future::BoxFuture};
use reqwest::{
    Response, Url,
    dns::Resolve,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use serde_json::Value;

pub use self::calls::CALLS_MAX;
use self::{
    answer::{Answer, LINE_BYTES_MAX},
    refusal::{Refusal, clean, read_capped, root_cause},
    request::Quirks,
};
use super::{
    ChatRequest, DeltaStream, ModelError, Provider, SetupError, Usage,
    table::{CONTEXT_WINDOW_DEFAULT, Model, Table, Vendor},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for `GET /models`, and for the body of an error response.
const SHORT_TIMEOUT: Duration = Duration::from_secs(5);
/// Lifetime of a server's model list, and the delay after a failed attempt to get one.
const MODELS_FRESH: Duration = Duration::from_mins(5);
const MODELS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Model name for servers without a model list if the agent requests none: servers with a single model accept any name.
const MODEL_UNKNOWN: &str = "default";

/// Address and settings of a provider.
pub struct Endpoint {
    /// `http` or `https` URL with a host; `chat/completions` is appended to its path.
    pub base_url: Url,
    pub api_key: Option<String>,
    /// Model that is always used (`OPENVIBE_MODEL`).
    pub model: Option<String>,
    pub utility_model: Option<String>,
    /// Resolves the host, instead of the system.
    pub resolver: Option<Arc<dyn Resolve>>,
    pub table: Table,
}

/// Provider for a server with the chat-completions protocol.
pub struct OpenAi {
    http: reqwest::Client,
    endpoint: Endpoint,
    name: String,
    /// Fields that models have rejected.
    quirks: Mutex<HashMap<String, Quirks>>,
    listed: Mutex<ModelCache>,
}

/// The last known list of the server's models.
#[derive(Default)]
struct ModelCache {
    listed: Option<Arc<[Listed]>>,
    /// Time at which the list was received.
    listed_at: Option<Instant>,
    /// Time of the last failed attempt to get a list.
    failed_at: Option<Instant>,
}

impl ModelCache {
    /// The cached list, if it can be used without asking the server: it is not older than `fresh`, or the last
    /// attempt failed recently (then it may be stale or empty).
    fn usable(&self, fresh: Duration, now: Instant) -> Option<Arc<[Listed]>> {
        let within = |at: Option<Instant>, limit: Duration| {
            at.is_some_and(|at| now.saturating_duration_since(at) < limit)
        };
        if within(self.listed_at, fresh) || within(self.failed_at, MODELS_FRESH) {
            return Some(self.listed.clone().unwrap_or_default());
        }
        None
    }
}

/// Model in the response to `GET /models`.
#[derive(Debug, Clone, PartialEq)]
struct Listed {
    id: String,
    context_window: Option<u64>,
}

impl OpenAi {
    /// Creates the client. Requires an installed default crypto provider of rustls.
    ///
    /// # Errors
    /// `SetupError::ApiKey` for a key that is not a valid header value, `SetupError::Client` if TLS is not available.
    pub fn new(endpoint: Endpoint) -> Result<Self, SetupError> {
        let url = &endpoint.base_url;
        let host = url.host_str().unwrap_or_default();
        let name = url
            .port()
            .map_or(host.to_owned(), |port| format!("{host}:{port}"));
        let mut headers = HeaderMap::new();
        if let Some(key) = &endpoint.api_key {
            let mut value = HeaderValue::try_from(format!("Bearer {key}"))
                .map_err(|_| SetupError::ApiKey(name.clone()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut http = reqwest::Client::builder()
            .user_agent(concat!("openvibe/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_keepalive(Duration::from_secs(30))
            .redirect(reqwest::redirect::Policy::none());
        if let Some(resolver) = &endpoint.resolver {
            // A proxy would resolve the name itself.
            http = http.dns_resolver(Arc::clone(resolver)).no_proxy();
        }
        if is_loopback(host) {
            http = http.no_proxy();
        }
        let http = http.build().map_err(SetupError::Client)?;
        let (quirks, listed) = (Mutex::default(), Mutex::default());
        Ok(Self {
            http,
            endpoint,
            name,
            quirks,
            listed,
        })
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.endpoint.base_url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    fn vendor(&self) -> Option<(&str, &Vendor)> {
        self.endpoint.table.vendor_at(&self.endpoint.base_url)
    }

    fn entry(&self, model: &str) -> Option<&Model> {
        self.endpoint.table.model(model)
    }

    /// Chooses a model. `fresh` is the maximum age of the cached model list.
    async fn choose(&self, wanted: Option<&str>, fresh: Duration) -> String {
        if let Some(model) = &self.endpoint.model {
            return model.clone();
        }
        let vendor = self.vendor();
        match (wanted, vendor) {
            (Some(wanted), Some((name, _))) if self.endpoint.table.has(name, wanted) => {
                return wanted.to_owned();
            }
            (None, Some((_, vendor))) => return vendor.model.clone(),
            _ => {}
        }
        let listed = self.listed(fresh).await;
        if let Some(wanted) = wanted.filter(|wanted| listed.iter().any(|model| model.id == *wanted))
        {
            return wanted.to_owned();
        }
        let first = listed
            .iter()
            .find(|model| self.may_chat(&model.id))
            .or(listed.first());
        vendor
            .map(|(_, vendor)| vendor.model.as_str())
            .or(first.map(|model| model.id.as_str()))
            .or(wanted)
            .unwrap_or(MODEL_UNKNOWN)
            .to_owned()
    }

    fn may_chat(&self, model: &str) -> bool {
        let lower = model.to_lowercase();
        !self.entry(model).is_some_and(|entry| entry.embeddings)
            && !["embed", "rerank", "whisper", "tts"]
                .iter()
                .any(|word| lower.contains(word))
    }

    fn model_cache(&self) -> MutexGuard<'_, ModelCache> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server's models: requests the list if the cached one is older than `fresh`, and falls back to the cached
    /// one on failure.
    async fn listed(&self, fresh: Duration) -> Arc<[Listed]> {
        let usable = self.model_cache().usable(fresh, Instant::now());
        if let Some(listed) = usable {
            return listed;
        }
        let asked = tokio::time::timeout(SHORT_TIMEOUT, self.ask_for_models()).await;
        let mut cache = self.model_cache();
        match asked.ok().flatten() {
            Some(listed) => {
                cache.listed = Some(listed.into());
                cache.listed_at = Some(Instant::now());
                cache.failed_at = None;
            }
            None => cache.failed_at = Some(Instant::now()),
        }
        cache.listed.clone().unwrap_or_default()
    }

    async fn ask_for_models(&self) -> Option<Vec<Listed>> {
        let response = self.http.get(self.url(&["models"])).send().await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        let body = read_capped(response, MODELS_BYTES_MAX).await;
        let answer: Value = serde_json::from_str(&body).ok()?;
        let listed = |model: &Value| {
            let window = [
                "max_model_len",
                "context_length",
                "context_window",
                "max_context_length",
            ];
            Some(Listed {
                id: model["id"].as_str()?.to_owned(),
                context_window: window.iter().find_map(|name| model[name].as_u64()),
            })
        };
        Some(
            answer["data"]
                .as_array()?
                .iter()
                .filter_map(listed)
                .collect(),
        )
    }

    fn quirks_of(&self, model: &str) -> Quirks {
        let known = self.quirks.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(model).copied().unwrap_or_default()
    }

    fn remember(&self, model: &str, quirks: Quirks) {
        if let Some(quirks) = quirks.worth_keeping() {
            let mut known = self.quirks.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(model.to_owned(), quirks);
        }
    }

    async fn open(&self, request: ChatRequest) -> Result<DeltaStream, ModelError> {
        let entry = self.entry(&request.model);
        let mut request = request::create(request, entry);
        let mut quirks = self.quirks_of(&request.model);
        loop {
            quirks.apply(&mut request);
            let sent = self
                .http
                .post(self.url(&["chat", "completions"]))
                .json(&request::body(&request))
                .send()
                .await;
            let response = sent.map_err(|error| self.unreachable(error))?;
            if response.status().is_success() {
                self.remember(&request.model, quirks);
                return self.answer(response).await;
            }
            let refusal = Refusal::read(response).await;
            match refusal.avoided_by(&request, quirks) {
                Some(other) => quirks = other,
                None => return Err(refusal.error(self.endpoint.api_key.as_deref())),
            }
        }
    }

    async fn answer(&self, response: Response) -> Result<DeltaStream, ModelError> {
        let header = |name| response.headers().get(name).and_then(|v| v.to_str().ok());
        let content_type = header(CONTENT_TYPE).unwrap_or_default().to_lowercase();
        let key = self.endpoint.api_key.clone();
        if content_type.contains("text/html") {
            let detail = format!("{} returned a web page: check the base URL", self.name);
            return Err(ModelError::BadRequest(detail));
        }
        if content_type.contains("application/json") {
            // A server without streaming sends the complete response at once.
            let body = read_capped(response, LINE_BYTES_MAX).await;
            let mut answer = Answer::new(futures::stream::empty().boxed(), key);
            answer.take(&body);
            answer.end();
            return Ok(answer.into_stream());
        }
        Ok(Answer::new(response.bytes_stream().boxed(), key).into_stream())
    }

    fn unreachable(&self, error: reqwest::Error) -> ModelError {
        let cause = root_cause(error);
        let cause = clean(&cause, self.endpoint.api_key.as_deref());
        ModelError::Unavailable(format!("could not reach {}: {cause}", self.name))
    }
}

impl Provider for OpenAi {
    fn name(&self) -> &str {
        &self.name
    }

    fn choose_model<'a>(&'a self, wanted: Option<&'a str>) -> BoxFuture<'a, String> {
        self.choose(wanted, MODELS_FRESH).boxed()
    }

    fn effective_model<'a>(&'a self, wanted: Option<&'a str>) -> BoxFuture<'a, Option<String>> {
        self.choose(wanted, Duration::MAX).map(Some).boxed()
    }

    fn override_model(&self) -> Option<&str> {
        self.endpoint.model.as_deref()
    }

    fn utility_model<'a>(&'a self, main: &'a str) -> BoxFuture<'a, String> {
        let vendors = || {
            self.vendor()
                .map(|(_, vendor)| vendor.utility_model.as_str())
        };
        let model = self
            .endpoint
            .utility_model
            .as_deref()
            .or_else(vendors)
            .unwrap_or(main);
        std::future::ready(model.to_owned()).boxed()
    }

    fn context_window(&self, model: &str) -> u64 {
        let listed = self.model_cache().listed.clone().unwrap_or_default();
        let served = listed
            .iter()
            .find(|entry| entry.id == model)
            .and_then(|entry| entry.context_window);
        served
            .or(self.entry(model).map(|entry| entry.context_window))
            .unwrap_or(CONTEXT_WINDOW_DEFAULT)
    }

    fn takes_tools(&self, model: &str) -> bool {
        self.entry(model).is_none_or(|entry| entry.tools)
    }

    fn cost_usd(&self, model: &str, usage: Usage) -> Option<f64> {
        self.endpoint
            .table
            .cost_usd(self.vendor().map(|(name, _)| name), model, usage)
    }

    fn stream(&self, request: ChatRequest) -> BoxFuture<'_, Result<DeltaStream, ModelError>> {
        self.open(request).boxed()
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
}
