//! Client for any server with the chat-completions protocol.
//!
//! Requests use the types of `async-openai` 0.43. Event streams are parsed in `answer` and not by the crate, whose client reads ahead
//! into an unbounded channel (a server that sends faster than the database stores would exhaust the memory), does not limit lines,
//! hides comments, and drops `[DONE]`, so that a complete response looks like a failed one. Here, data is read only on demand, and
//! dropping the stream closes the connection.
//!
//! Calls are not retried, with two exceptions. If the server rejects an optional field, the request is repeated without it (or with
//! its other name), and the rejection is remembered for the model. If the server has closed a kept-alive connection in the meantime,
//! the request is repeated on a fresh one. Callers limit the wait; only connecting has its own timeout.
//!
//! ```text
//! answer      the stream of a response: reasoning removes thoughts from the text, calls and text_calls find tool calls,
//!             vendor collects the members that the server wants back
//! embeddings  vectors of texts
//! list        models and windows that the server reports
//! learned     stored facts: fields that it rejected, windows in its errors, its token counts
//! pictures    adds pictures to messages, or the text that replaces them
//! places      limits concurrent calls if the server has a single slot
//! ```

mod answer;
mod calls;
mod embeddings;
mod learned;
mod list;
mod overflow;
mod pictures;
mod places;
mod reasoning;
mod refusal;
mod request;
mod schema;
#[cfg(test)]
mod tests;
mod text_calls;
mod vendor;

use std::{
    net::SocketAddr,
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_openai::types::chat::CreateChatCompletionRequest;
use bytes::Bytes;
use futures::{FutureExt, StreamExt, future::BoxFuture};
use reqwest::{
    Response, Url,
    dns::Resolve,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

pub use self::calls::CALLS_MAX;
use self::{
    answer::{Answer, Ending, Expected, LINE_BYTES_MAX, Seen},
    learned::Learned,
    list::{Age, Listed, ModelList},
    overflow::Overflow,
    pictures::{PictureRefusal, Pictures},
    places::{Places, Taken},
    refusal::{Quotes, Refusal, SHORT_TIMEOUT, read_capped},
    request::{FormatSupport, Quirks},
};
use super::{
    chat::{
        ChatRequest, Delta, DeltaStream, FactStore, FunctionTool, ModelError, PictureUse, Place,
        Provider, Refused, RefusedFunction, RequiredFormat, Role, Usage, VendorMembers,
    },
    embedded::{EmbedRequest, Embedded},
    error_texts::ErrorTexts,
    setup::SetupError,
    table::{Model, Table, Vendor},
    tokens::estimate_tokens,
    window::{WINDOW_ASSUMED, Window, WindowSource},
};
use crate::trust;

/// Path of chat completions below the base URL.
const CHAT: &[&str] = &["chat", "completions"];
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which connections are kept alive.
const IDLE_MAX: Duration = Duration::from_secs(90);
/// Minimum estimated prompt size at which an empty reply from a model with an assumed window may mean that the prompt was too large.
const SUSPICIOUS_TOKENS: u64 = 1_000;
/// Minimum age at which a list that does not contain a requested model is requested again.
const LIST_AGE_MIN: Duration = Duration::from_secs(5);
/// Tokens that a model that was seen to reason gets in addition to a default output limit.
const REASONING_TOKENS: u32 = 4_000;
/// Maximum number of times that a request is repeated because the server could not parse the calls of its model.
const FAILED_CALLS_MAX: usize = 2;
/// Model name that is used if the server has no model list and the agent requests no model. Servers with a single model accept any
/// name.
const MODEL_UNKNOWN: &str = "default";

/// Words in the names of models that cannot chat.
const OTHER_MODELS: [&str; 13] = [
    "embed",
    "rerank",
    "whisper",
    "tts",
    "ocr",
    "moderation",
    "guard",
    "image",
    "dall-e",
    "sora",
    "realtime",
    "audio",
    "transcribe",
];

/// Address and settings of a provider.
pub struct Endpoint {
    /// `http` or `https` URL with a host; `chat/completions` is appended to its path.
    pub base_url: Url,
    pub api_key: Option<String>,
    /// Model that is always used (`OPENVIBE_MODEL`).
    pub model: Option<String>,
    pub utility_model: Option<String>,
    /// Resolver for the host, used instead of the system's.
    pub resolver: Option<Arc<dyn Resolve>>,
    pub errors: ErrorTexts,
    /// Context window of models that are not in the table.
    pub context_window: Option<u64>,
    pub table: Table,
    pub store: Arc<dyn FactStore>,
}

/// Provider for a server with the chat-completions protocol.
pub struct OpenAi(Arc<Server>);

impl Deref for OpenAi {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

/// A server and the facts known about it.
pub struct Server {
    http: reqwest::Client,
    /// Client that opens a new connection for each request.
    fresh: reqwest::Client,
    endpoint: Endpoint,
    name: String,
    list: ModelList,
    learned: Learned,
    places: Arc<Places>,
    /// Time of the last response. Its connection may have been kept alive.
    answered_at: Mutex<Option<Instant>>,
}

/// A call whose response is being received.
struct Call {
    model: String,
    /// Estimated size of the prompt in tokens.
    estimate: u64,
    place: Place,
    /// Facts about the model that are known already.
    seen: Seen,
    /// The members of its assistant messages.
    vendor: Vec<VendorMembers>,
    pictures: Pictures,
    /// The request, kept if the window of the model is not configured, because it may have to be repeated to explain an empty
    /// response.
    request: Option<Box<CreateChatCompletionRequest>>,
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
        let client = || {
            let http = trust::client_builder()
                .user_agent(concat!("openvibe/", env!("CARGO_PKG_VERSION")))
                .default_headers(headers.clone())
                .connect_timeout(CONNECT_TIMEOUT)
                .tcp_keepalive(Duration::from_secs(30))
                .pool_idle_timeout(IDLE_MAX)
                .redirect(reqwest::redirect::Policy::none());
            let http = match &endpoint.resolver {
                // A proxy would resolve the name itself.
                Some(resolver) => http.dns_resolver(Arc::clone(resolver)).no_proxy(),
                None if is_loopback(host) => http.no_proxy(),
                None => return http,
            };
            if url.scheme() == "http" {
                trust::without_tls(http)
            } else {
                http
            }
        };
        let http = client().build().map_err(SetupError::Client)?;
        let fresh = client().pool_max_idle_per_host(0).build();
        let fresh = fresh.map_err(SetupError::Client)?;
        let learned = Learned::new(shown(url), Arc::clone(&endpoint.store));
        Ok(Self(Arc::new(Server {
            http,
            fresh,
            endpoint,
            name,
            list: ModelList::default(),
            learned,
            places: Arc::default(),
            answered_at: Mutex::default(),
        })))
    }
}

impl Server {
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

    async fn listed(&self, age: Age) -> Arc<[Listed]> {
        self.list
            .get(&self.http, &self.endpoint.base_url, age)
            .await
    }

    async fn listed_since(&self, since: Instant) -> Arc<[Listed]> {
        let base = &self.endpoint.base_url;
        self.list.get_since(&self.http, base, since).await
    }

    /// Chooses a model, and loads the facts about it, which `takes_tools` needs. `age` is the permitted age of the
    /// cached model list.
    async fn choose(&self, wanted: Option<&str>, age: Age) -> String {
        let model = self.chosen(wanted, age).await;
        self.learned.of(&model).await;
        model
    }

    async fn chosen(&self, wanted: Option<&str>, age: Age) -> String {
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
        let listed = self.listed(age).await;
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

    async fn knows(&self, model: &str) -> bool {
        let vendor = self.vendor();
        let is_set = [&self.endpoint.model, &self.endpoint.utility_model]
            .iter()
            .any(|set| set.as_deref() == Some(model));
        if is_set || vendor.is_some_and(|(name, _)| self.endpoint.table.has(name, model)) {
            return true;
        }
        let lists = |listed: &[Listed]| listed.iter().any(|entry| entry.id == model);
        let listed = self.listed(Age::Fresh).await;
        if listed.is_empty() || lists(&listed) {
            return true;
        }
        let now = Instant::now();
        let since = now.checked_sub(LIST_AGE_MIN).unwrap_or(now);
        lists(&self.listed_since(since).await)
    }

    async fn window_of(&self, model: &str) -> Window {
        let facts = self.learned.of(model).await;
        let table = self.entry(model);
        let is_fixed = table.is_some_and(|entry| !self.endpoint.table.has_host_window(entry));
        let set = match self.endpoint.context_window.filter(|_| !is_fixed) {
            Some(tokens) => Some((tokens, WindowSource::Setting)),
            None if is_fixed => None,
            None => self
                .reported_window(model)
                .await
                .map(|tokens| (tokens, WindowSource::Provider)),
        };
        let learned = if facts.seen().reasons {
            REASONING_TOKENS
        } else {
            0
        };
        let reasoning_tokens = table.map_or(0, |entry| entry.reasoning_tokens).max(learned);
        let table = table.map(|entry| (entry.context_window, WindowSource::Table));
        let (tokens, source) = match (table, set) {
            (Some(table), Some(set)) if set.0 < table.0 => set,
            (Some(known), _) | (None, Some(known)) => known,
            (None, None) => (WINDOW_ASSUMED, WindowSource::Assumed),
        };
        let (tokens, source) = match facts.window() {
            Some(stated) if stated < tokens || source == WindowSource::Assumed => {
                (stated, WindowSource::Error)
            }
            _ => (tokens, source),
        };
        Window {
            tokens,
            source,
            reasoning_tokens,
            correction: facts.correction(),
        }
    }

    async fn reported_window(&self, model: &str) -> Option<u64> {
        let listed = self.listed(Age::Fresh).await;
        let entry = listed.iter().find(|entry| entry.id == model);
        entry.and_then(|entry| entry.context_window)
    }

    fn may_chat(&self, model: &str) -> bool {
        let lower = model.to_lowercase();
        !self.entry(model).is_some_and(|entry| entry.embeddings)
            && !OTHER_MODELS.iter().any(|word| lower.contains(word))
    }

    /// Sends a request. If a kept-alive connection turns out to be closed, sends the request again on a fresh one. Pictures make a body
    /// large, and its server may read it for minutes, so the JSON is the only copy.
    async fn post(&self, path: &[&str], body: Value) -> reqwest::Result<Response> {
        let url = self.url(path);
        let json = Bytes::from(body.to_string());
        drop(body);
        let send = |http: &reqwest::Client| {
            let request = http.post(url.clone()).body(json.clone());
            request.header(CONTENT_TYPE, "application/json").send()
        };
        let answered_at = || {
            self.answered_at
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let was_kept_alive = answered_at().is_some_and(|at| at.elapsed() < IDLE_MAX);
        let sent = match send(&self.http).await {
            Err(e) if was_kept_alive && !e.is_connect() && !e.is_timeout() => {
                send(&self.fresh).await
            }
            sent => sent,
        };
        if sent.is_ok() {
            *answered_at() = Some(Instant::now());
        }
        sent
    }

    async fn learn_overflow(&self, model: &str, overflow: Overflow, estimate: u64) {
        self.learned
            .learn(model, |facts| {
                let has_window = overflow
                    .window
                    .is_some_and(|tokens| facts.set_window(tokens));
                let has_count = overflow
                    .prompt
                    .is_some_and(|tokens| facts.add_count(tokens, estimate));
                has_window || has_count
            })
            .await;
    }

    async fn open(self: Arc<Self>, request: ChatRequest) -> Result<DeltaStream, ModelError> {
        let started = Instant::now();
        let mut pictures = Pictures::of(&request.turns);
        let picture_use = request.pictures;
        let estimate = estimate_of(&request);
        let (model, place) = (request.model.clone(), request.place.clone());
        let must_have_tools = request.tools_required && !request.tools.is_empty();
        let must_have_format = request.required_format.is_some();
        let is_test = request.is_test;
        let facts = self.learned.of(&model).await;
        let expected = Expected::of(&request, facts.seen());
        let mut vendor = members_of(&request);
        let definitions: Vec<String> = request.tools.iter().map(definition_hash).collect();
        let mut request = request::create(request, self.entry(&model));
        let simplest: Vec<bool> = definitions
            .iter()
            .map(|definition| facts.needs_simplest(definition))
            .collect();
        request::simplify(&mut request, &simplest);
        let all_simple = vec![true; definitions.len()];
        let mut has_simplified = false;
        let mut quirks = facts.quirks();
        quirks.no_tools &= !must_have_tools;
        let learned_format = quirks.format;
        if must_have_format {
            quirks.format = FormatSupport::default();
        }
        let mut failed_calls = 0;
        // All attempts with pictures have failed with errors that named nothing.
        let mut unseen = (picture_use == PictureUse::LeftOut).then_some(PictureRefusal::Unclear);
        let has_pictures = !pictures.is_empty();
        // A request that needs its pictures gets the server's error.
        let may_see = picture_use == PictureUse::Required || self.may_see_pictures(&model);
        pictures.are_sent = has_pictures && unseen.is_none() && may_see;
        let (answer, place) = loop {
            quirks.apply(&mut request);
            if quirks.no_vendor_members {
                vendor.clear();
            }
            let mut body = request::body(&request, &vendor);
            pictures.add_to(&mut body);
            let sent = self.post(CHAT, body).await;
            let response = match sent {
                Ok(response) => response,
                Err(error) => {
                    if !error.is_connect() {
                        self.note_cut_off(&place);
                    }
                    return Err(self.unreachable(error, is_test));
                }
            };
            let quotes = self.quotes(response.remote_addr(), is_test);
            if response.status().is_success() {
                let mut kept = quirks.worth_keeping();
                if must_have_format {
                    kept.format = learned_format;
                }
                self.learn_quirks(&model, kept).await;
                if pictures.are_sent || (has_pictures && unseen.is_some()) {
                    self.learned
                        .learn(&model, |facts| facts.add_pictures(unseen))
                        .await;
                }
                if has_simplified {
                    let simple = definitions.into_iter().map(|definition| (definition, None));
                    let learned = self
                        .learned
                        .learn(&model, |facts| facts.add_rejected(simple));
                    learned.await;
                }
                break (self.answer(response, quotes, expected).await?, place);
            }
            let refusal = Refusal::read(response).await;
            if let Some(body) = refusal.failed_calls() {
                if let Some(answer) = Answer::of_failed_calls(body, &quotes, &expected) {
                    break (answer, place);
                }
                failed_calls += 1;
                if failed_calls <= FAILED_CALLS_MAX {
                    continue;
                }
            }
            let can_leave_out = pictures.are_sent && picture_use != PictureUse::Required;
            let is_about_pictures = pictures.are_sent && !refusal.is_about_functions(&request);
            let reason = refusal.about_pictures(&model).filter(|_| is_about_pictures);
            if can_leave_out && reason.is_some() {
                pictures.are_sent = false;
                unseen = reason;
                continue;
            }
            if reason == Some(PictureRefusal::Unsupported) {
                let learned = self
                    .learned
                    .learn(&model, |facts| facts.add_pictures(reason));
                learned.await;
            }
            let avoided = refusal.avoided_by(&request, &names_of(&vendor), quirks);
            if avoided.is_none()
                && refusal.is_about_functions(&request)
                && request::simplify(&mut request, &all_simple)
            {
                has_simplified = true;
                continue;
            }
            let refused = match avoided {
                Some(other) if other.no_tools && !quirks.no_tools && must_have_tools => {
                    self.learn_quirks(&model, other.worth_keeping()).await;
                    true
                }
                // The client's own schema may be invalid, so the rejection is not a fact about the model.
                Some(other) if must_have_format && other.format != quirks.format => true,
                Some(other) => {
                    quirks = other;
                    false
                }
                None => true,
            };
            if refused && can_leave_out && refusal.may_be_about_pictures() {
                pictures.are_sent = false;
                unseen = Some(refusal.unnamed());
                continue;
            }
            if refused {
                if let Some(overflow) = refusal.overflow() {
                    self.learn_overflow(&model, overflow, estimate).await;
                }
                let refuses_tools = must_have_tools && refusal.refuses_tools(&request);
                let error = match refusal.error(&quotes) {
                    ModelError::BadRequest(detail) | ModelError::Unavailable(detail)
                        if refuses_tools && refusal.overflow().is_none() =>
                    {
                        let function = refusal.named_function(&request);
                        return Err(ModelError::ToolsRefused { detail, function });
                    }
                    error => error,
                };
                return Err(self.error_of(error, &refusal, &model, started).await);
            }
        };
        let is_known = self.endpoint.context_window.is_some() || self.entry(&model).is_some();
        let call = Call {
            model,
            estimate: estimate + pictures.tokens(),
            place,
            seen: facts.seen(),
            vendor,
            pictures,
            request: (!is_known).then(|| Box::new(request)),
        };
        Ok(self.followed(answer, call))
    }

    /// Checks whether the model may be able to see pictures.
    fn may_see_pictures(&self, model: &str) -> bool {
        if self.learned.loaded(model).refuses_pictures() {
            return false;
        }
        let listed = || {
            let known = self.list.known();
            let entry = known.iter().find(|entry| entry.id == model);
            entry.and_then(|entry| entry.images)
        };
        let table = self.entry(model).and_then(|entry| entry.images);
        table.or_else(listed).unwrap_or(true)
    }

    async fn learn_quirks(&self, model: &str, quirks: Quirks) {
        self.learned
            .learn(model, |facts| facts.set_quirks(quirks))
            .await;
    }

    /// Error for a request that the server rejected.
    async fn error_of(
        &self,
        error: ModelError,
        refusal: &Refusal,
        model: &str,
        started: Instant,
    ) -> ModelError {
        if refusal.overflow().is_some() {
            return error;
        }
        match error {
            ModelError::BadRequest(detail) if refusal.names_model(model) => {
                self.listed_since(started).await;
                ModelError::ModelMissing(detail)
            }
            ModelError::BadRequest(_) if refusal.is_missing_path() => {
                ModelError::BadRequest(self.missing_path())
            }
            error => error,
        }
    }

    /// Error message for a base URL that has no chat-completions route.
    fn missing_path(&self) -> String {
        let url = shown(&self.endpoint.base_url);
        if url.ends_with("/v1") {
            format!("no chat completions at {url}: check the base URL")
        } else {
            format!("no chat completions at {url}: most servers need {url}/v1")
        }
    }

    /// Passes on the deltas of a response, and learns facts about the model from them.
    fn followed(self: Arc<Self>, answer: Answer, call: Call) -> DeltaStream {
        futures::stream::unfold(
            (self, answer, call),
            |(server, mut answer, mut call)| async move {
                let next = answer.next().await?;
                let seen = answer.seen();
                if seen.is_news_to(call.seen) {
                    call.seen = seen;
                    let learned = server
                        .learned
                        .learn(&call.model, |facts| facts.add_seen(seen));
                    learned.await;
                }
                let delta = match next {
                    Ok(Delta::Usage(usage)) => {
                        let reported = u64::try_from(usage.input_tokens).unwrap_or_default();
                        let count = server.learned.learn(&call.model, |facts| {
                            facts.add_count(reported, call.estimate)
                        });
                        count.await;
                        Ok(Delta::Usage(usage))
                    }
                    Err(error) => {
                        let end = answer.ending();
                        Err(server.explained(error, end, &call).await)
                    }
                    delta => delta,
                };
                Some((delta, (server, answer, call)))
            },
        )
        .boxed()
    }

    /// Records that a call was cut off, unless the server belongs to a vendor, whose servers have many slots.
    fn note_cut_off(&self, place: &Place) {
        if let (None, Some(taken)) = (self.vendor(), place.get::<Taken>()) {
            taken.cut_off();
        }
    }

    /// Learns from a failed response, and determines whether an empty one was an overflow.
    async fn explained(&self, error: ModelError, end: Ending, call: &Call) -> ModelError {
        if end.is_cut_off {
            self.note_cut_off(&call.place);
        }
        if let (ModelError::ContextTooLarge, Some(overflow)) = (&error, end.overflow) {
            self.learn_overflow(&call.model, overflow, call.estimate)
                .await;
        }
        let is_empty = matches!(error, ModelError::Empty | ModelError::Broken(_))
            && end.is_clean
            && !end.has_output;
        let taken = call.place.get::<Taken>();
        let may_be_cut_off =
            matches!(error, ModelError::Broken(_)) && taken.is_some_and(Taken::ran_beside_another);
        if !is_empty || may_be_cut_off {
            return error;
        }
        let window = self.window_of(&call.model).await;
        // Proxies may end a stream normally although it is empty.
        let is_suspicious = !end.has_events || call.estimate >= SUSPICIOUS_TOKENS;
        if let (true, Some(request)) = (is_suspicious, &call.request)
            && window.source == WindowSource::Assumed
            && self.is_refused_whole(request, call).await
        {
            return ModelError::ContextTooLarge;
        }
        let is_large = window.corrected(call.estimate) > window.tokens / 2;
        if is_large && window.source != WindowSource::Table {
            return ModelError::ContextTooLarge;
        }
        error
    }

    /// Repeats a request whose streamed response was empty, but without streaming and with an output limit of one token, because some
    /// servers report an overflow only then. Returns true if the prompt was too large.
    async fn is_refused_whole(&self, request: &CreateChatCompletionRequest, call: &Call) -> bool {
        let mut body = request::body(request, &call.vendor);
        call.pictures.add_to(&mut body);
        for field in ["stream", "stream_options"] {
            body.as_object_mut().map(|body| body.remove(field));
        }
        for field in ["max_tokens", "max_completion_tokens"] {
            if let Some(limit) = body.get_mut(field) {
                *limit = 1.into();
            }
        }
        let asked = async {
            let response = self.post(CHAT, body).await.ok()?;
            if response.status().is_success() {
                return None;
            }
            Refusal::read(response).await.overflow()
        };
        let found = tokio::time::timeout(SHORT_TIMEOUT, asked).await;
        let Some(overflow) = found.ok().flatten() else {
            return false;
        };
        self.learn_overflow(&call.model, overflow, call.estimate)
            .await;
        true
    }

    async fn answer(
        &self,
        response: Response,
        quotes: Quotes,
        expected: Expected,
    ) -> Result<Answer, ModelError> {
        let header = |name| response.headers().get(name).and_then(|v| v.to_str().ok());
        let content_type = header(CONTENT_TYPE).unwrap_or_default().to_lowercase();
        if content_type.contains("text/html") {
            return Err(ModelError::BadRequest(self.missing_path()));
        }
        if content_type.contains("application/json") {
            // A server without streaming sends the complete response in one piece.
            let body = read_capped(response, LINE_BYTES_MAX).await;
            if let Some((first, _)) = body.trim().split_once('\n')
                && serde_json::from_str::<Value>(first).is_ok()
            {
                // One object per line.
                let bytes = futures::stream::iter([Ok(body.into())]);
                return Ok(Answer::new(bytes.boxed(), quotes, expected));
            }
            let mut answer = Answer::new(futures::stream::empty().boxed(), quotes, expected);
            answer.take(&body);
            answer.end();
            return Ok(answer);
        }
        Ok(Answer::new(
            response.bytes_stream().boxed(),
            quotes,
            expected,
        ))
    }

    /// Rules for texts of a server at this address, which is `None` if no connection was made.
    fn quotes(&self, address: Option<SocketAddr>, is_test: bool) -> Quotes {
        let errors = self.endpoint.errors;
        let is_public = address.is_some_and(|address| (errors.is_public)(address.ip()));
        Quotes {
            api_key: self.endpoint.api_key.clone(),
            are_hidden: !is_public && (is_test || errors.are_local_hidden),
        }
    }

    fn unreachable(&self, error: reqwest::Error, is_test: bool) -> ModelError {
        let cause = self.quotes(None, is_test).cause(error);
        ModelError::Unavailable(format!("could not reach {}: {cause}", self.name))
    }
}

impl Provider for OpenAi {
    fn name(&self) -> &str {
        &self.name
    }

    fn choose_model<'a>(&'a self, wanted: Option<&'a str>) -> BoxFuture<'a, String> {
        self.choose(wanted, Age::Fresh).boxed()
    }

    fn effective_model<'a>(&'a self, wanted: Option<&'a str>) -> BoxFuture<'a, Option<String>> {
        self.choose(wanted, Age::Any).map(Some).boxed()
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

    fn has_model<'a>(&'a self, model: &'a str) -> BoxFuture<'a, bool> {
        self.knows(model).boxed()
    }

    fn lists_model<'a>(&'a self, model: &'a str) -> BoxFuture<'a, bool> {
        async move {
            let listed = self.listed(Age::Any).await;
            listed.iter().any(|entry| entry.id == model)
        }
        .boxed()
    }

    fn window<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Window> {
        self.window_of(model).boxed()
    }

    fn place(&self) -> BoxFuture<'_, Place> {
        self.places.take().map(Place::of).boxed()
    }

    fn takes_tools(&self, model: &str) -> bool {
        self.entry(model).is_none_or(|entry| entry.tools)
            && !self.learned.loaded(model).quirks().no_tools
    }

    fn takes_pictures(&self, model: &str) -> bool {
        self.may_see_pictures(model)
    }

    fn undecided(&self) -> BoxFuture<'_, Option<usize>> {
        async move {
            if self.endpoint.model.is_some() || self.vendor().is_some() {
                return None;
            }
            let listed = self.listed(Age::Fresh).await;
            let chatting = listed.iter().filter(|model| self.may_chat(&model.id));
            Some(chatting.count()).filter(|count| *count > 1)
        }
        .boxed()
    }

    fn leaves_calls_in_text(&self, model: &str) -> bool {
        self.learned.loaded(model).seen().calls_in_text
    }

    fn refused_functions(&self, model: &str, tools: &[FunctionTool]) -> Vec<RefusedFunction> {
        let facts = self.learned.loaded(model);
        let refused = tools.iter().filter_map(|tool| {
            let reason = facts.rejection(&definition_hash(tool))?;
            Some(RefusedFunction {
                name: tool.name.clone(),
                reason: reason.to_owned(),
            })
        });
        refused.collect()
    }

    fn note_refused<'a>(&'a self, model: &'a str, refused: &'a [Refused]) -> BoxFuture<'a, ()> {
        let rejected = refused.iter().map(|refused| {
            let reason = Some(refused.reason.clone());
            (definition_hash(&refused.definition), reason)
        });
        self.learned
            .learn(model, move |facts| facts.add_rejected(rejected))
            .boxed()
    }

    fn takes_json(&self, model: &str) -> bool {
        self.entry(model).is_none_or(|entry| entry.json_schema)
    }

    fn unsent(&self, request: &ChatRequest) -> Vec<&'static str> {
        let quirks = self.learned.loaded(&request.model).quirks();
        request::unsent(request, self.entry(&request.model), quirks)
    }

    fn cost_usd(&self, model: &str, usage: Usage) -> Option<f64> {
        self.endpoint
            .table
            .cost_usd(self.vendor().map(|(name, _)| name), model, usage)
    }

    fn stream(&self, request: ChatRequest) -> BoxFuture<'_, Result<DeltaStream, ModelError>> {
        Arc::clone(&self.0).open(request).boxed()
    }

    fn embed(&self, request: EmbedRequest) -> BoxFuture<'_, Result<Embedded, ModelError>> {
        self.embedded(request).boxed()
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
}

/// A URL without credentials, query, or trailing slash.
fn shown(url: &Url) -> String {
    let origin = url.origin().ascii_serialization();
    format!("{origin}{}", url.path().trim_end_matches('/'))
}

/// Identifies a definition in learned facts.
fn definition_hash(tool: &FunctionTool) -> String {
    let definition = json!([tool.name, tool.description, tool.parameters]);
    hex::encode(&Sha256::digest(definition.to_string())[..16])
}

/// Vendor's members of each assistant message in a request.
fn members_of(request: &ChatRequest) -> Vec<VendorMembers> {
    let turns = request.turns.iter();
    let turns = turns.filter(|turn| turn.role == Role::Assistant);
    turns.map(|turn| turn.vendor.clone()).collect()
}

/// Names of all members in these messages.
fn names_of(vendor: &[VendorMembers]) -> Vec<String> {
    let members = |members: &VendorMembers| {
        let all = members.calls.iter().chain([&members.message]);
        all.flat_map(|members| members.keys().cloned())
            .collect::<Vec<_>>()
    };
    vendor.iter().flat_map(members).collect()
}

/// Estimated tokens of a prompt, to be compared with the tokens that the server reports.
fn estimate_of(request: &ChatRequest) -> u64 {
    let turns = request.turns.iter().map(|turn| {
        let calls = turn
            .calls
            .iter()
            .map(|call| estimate_tokens(&call.name) + estimate_tokens(&call.arguments));
        let results = turn.results.iter().map(|r| estimate_tokens(&r.content));
        estimate_tokens(&turn.content)
            + calls.sum::<u64>()
            + results.sum::<u64>()
            + turn.vendor.tokens()
    });
    let tools = request.tools.iter().map(|tool| {
        let parameters = tool.parameters.as_ref().map(ToString::to_string);
        estimate_tokens(tool.description.as_deref().unwrap_or_default())
            + estimate_tokens(&parameters.unwrap_or_default())
    });
    let format = request.required_format.as_ref();
    estimate_tokens(&request.system)
        + turns.sum::<u64>()
        + tools.sum::<u64>()
        + format.map_or(0, RequiredFormat::prompt_tokens)
}
