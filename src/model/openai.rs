//! Any server that speaks the chat-completions protocol.
//!
//! Own reader of the event stream, 60 lines below, for what `async-openai` 0.43 cannot do: its client
//! reads ahead into an unbounded channel (a server that sends faster than the database stores would
//! fill the memory), puts no limit on a line, hides comments, and drops `[DONE]`, so that an answer
//! that ended cannot be told from one that broke. Here nothing is read before it is asked for, and
//! dropping the stream closes the connection.
//!
//! No call is retried here, with one exception: a refusal that names an optional field is answered by
//! the same request without it (or with the field's other name), and remembered for that model.
//! Waits are the caller's to limit; only connecting has a time limit of its own.

use std::{
    collections::{HashMap, VecDeque},
    error::Error as _,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use bytes::{Buf, Bytes, BytesMut};
use futures::{FutureExt, Stream, StreamExt, future::BoxFuture};
use reqwest::{
    Response, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER},
};
use serde::Serialize;
use serde_json::Value;

use super::{
    ChatRequest, Delta, DeltaStream, ModelError, Provider, Role, SetupError, StopReason, Usage,
    table::{CONTEXT_WINDOW_DEFAULT, Maker, Model, Table, TokenLimitField},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For `GET /models` as a whole, and for the body of a refusal.
const SHORT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the list of a server's models holds, also the fact that it has none.
const MODELS_FRESH: Duration = Duration::from_mins(5);
/// How long the usage may take after the answer has ended.
const USAGE_TIMEOUT: Duration = Duration::from_secs(3);
/// An answer above this is cut, as by the model's own limit.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
const LINE_BYTES_MAX: usize = 1024 * 1024;
const MODELS_BYTES_MAX: usize = 4 * 1024 * 1024;
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
const DETAIL_CHARS_MAX: usize = 200;
/// What to ask a server for that lists no models when no agent wants one: those that serve one model
/// take any name.
const MODEL_UNKNOWN: &str = "default";

/// Where a provider is and what was set for it.
pub struct Endpoint {
    /// `http` or `https`, with a host; `chat/completions` is appended to its path.
    pub base_url: Url,
    pub api_key: Option<String>,
    /// Runs always (`OPENVIBE_MODEL`).
    pub model: Option<String>,
    pub utility_model: Option<String>,
    pub table: Table,
}

/// A server that speaks the chat-completions protocol.
pub struct OpenAi {
    http: reqwest::Client,
    endpoint: Endpoint,
    name: String,
    /// What was learned about models that refused a field.
    quirks: Mutex<HashMap<String, Quirks>>,
    listed: Mutex<Option<(Instant, Arc<[Listed]>)>>,
}

/// A model in the answer to `GET /models`.
#[derive(Debug, Clone, PartialEq)]
struct Listed {
    id: String,
    context_window: Option<u64>,
}

impl OpenAi {
    /// A default crypto provider of rustls has to be installed before.
    ///
    /// # Errors
    /// `SetupError::ApiKey` for a key that no header can carry, `SetupError::Client` if TLS is not usable.
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
            .default_headers(headers)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_keepalive(Duration::from_secs(30))
            .redirect(reqwest::redirect::Policy::none());
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

    fn maker(&self) -> Option<(&str, &Maker)> {
        self.endpoint.table.maker_at(&self.endpoint.base_url)
    }

    fn entry(&self, model: &str) -> Option<&Model> {
        self.endpoint.table.model(model)
    }

    async fn choose(&self, wanted: Option<&str>) -> String {
        if let Some(model) = &self.endpoint.model {
            return model.clone();
        }
        let maker = self.maker();
        match (wanted, maker) {
            (Some(wanted), Some((name, _))) if self.endpoint.table.has(name, wanted) => {
                return wanted.to_owned();
            }
            (None, Some((_, maker))) => return maker.model.clone(),
            _ => {}
        }
        let listed = self.listed().await;
        if let Some(wanted) = wanted.filter(|wanted| listed.iter().any(|model| model.id == *wanted))
        {
            return wanted.to_owned();
        }
        let first = listed
            .iter()
            .find(|model| self.may_chat(&model.id))
            .or(listed.first());
        maker
            .map(|(_, maker)| maker.model.as_str())
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

    /// The server's models, asked for at most once in `MODELS_FRESH`; none if it does not say.
    async fn listed(&self) -> Arc<[Listed]> {
        if let Some((at, listed)) = self.cached_list()
            && at.elapsed() < MODELS_FRESH
        {
            return listed;
        }
        let asked = tokio::time::timeout(SHORT_TIMEOUT, self.ask_for_models()).await;
        let listed: Arc<[Listed]> = asked.ok().flatten().unwrap_or_default().into();
        let mut cache = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        *cache = Some((Instant::now(), Arc::clone(&listed)));
        listed
    }

    fn cached_list(&self) -> Option<(Instant, Arc<[Listed]>)> {
        self.listed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
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
        let mut quirks = self.quirks_of(&request.model);
        loop {
            let body = Body::new(&request, entry, quirks);
            let sent = self
                .http
                .post(self.url(&["chat", "completions"]))
                .json(&body)
                .send()
                .await;
            let response = sent.map_err(|error| self.unreachable(error))?;
            if response.status().is_success() {
                self.remember(&request.model, quirks);
                return self.answer(response).await;
            }
            let refusal = Refusal::read(response).await;
            match refusal.avoided_by(&body, quirks) {
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
            let detail = format!("{} answered with a web page; check the base URL", self.name);
            return Err(ModelError::BadRequest(detail));
        }
        if content_type.contains("application/json") {
            // A server that does not stream sends the whole completion at once.
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
        ModelError::Unavailable(format!("no answer from {}: {cause}", self.name))
    }
}

impl Provider for OpenAi {
    fn name(&self) -> &str {
        &self.name
    }

    fn choose_model<'a>(&'a self, wanted: Option<&'a str>) -> BoxFuture<'a, String> {
        self.choose(wanted).boxed()
    }

    fn utility_model<'a>(&'a self, main: &'a str) -> BoxFuture<'a, String> {
        let makers = || self.maker().map(|(_, maker)| maker.utility_model.as_str());
        let model = self
            .endpoint
            .utility_model
            .as_deref()
            .or_else(makers)
            .unwrap_or(main);
        std::future::ready(model.to_owned()).boxed()
    }

    fn context_window(&self, model: &str) -> u64 {
        let served = self.cached_list().and_then(|(_, listed)| {
            listed
                .iter()
                .find(|entry| entry.id == model)
                .and_then(|entry| entry.context_window)
        });
        served
            .or(self.entry(model).map(|entry| entry.context_window))
            .unwrap_or(CONTEXT_WINDOW_DEFAULT)
    }

    fn cost_usd(&self, model: &str, usage: Usage) -> Option<f64> {
        self.endpoint
            .table
            .cost_usd(self.maker().map(|(name, _)| name), model, usage)
    }

    fn stream(&self, request: ChatRequest) -> BoxFuture<'_, Result<DeltaStream, ModelError>> {
        self.open(request).boxed()
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
}

/// The innermost cause, without the address, which may hold a password.
fn root_cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        cause = inner.to_string();
        source = inner.source();
    }
    cause
}

/// At most `bytes_max` bytes of a body, and what came before it broke.
async fn read_capped(mut response: Response, bytes_max: usize) -> String {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk[..chunk.len().min(bytes_max - body.len())]);
        if body.len() == bytes_max {
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}

/// What a model turned out not to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Quirks {
    /// Other than the table says.
    limit: Option<Limit>,
    no_temperature: bool,
    no_top_p: bool,
    no_stream_options: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    As(TokenLimitField),
    Unsent,
}

impl Quirks {
    /// That a limit was too large for one prompt says nothing about the next.
    fn worth_keeping(self) -> Option<Self> {
        let limit = self.limit.filter(|limit| *limit != Limit::Unsent);
        let kept = Self { limit, ..self };
        (kept != Self::default()).then_some(kept)
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl<'a> Body<'a> {
    fn new(request: &'a ChatRequest, entry: Option<&Model>, quirks: Quirks) -> Self {
        let system = Message {
            role: "system",
            content: &request.system,
        };
        let turns = request.turns.iter().map(|turn| Message {
            role: match turn.role {
                Role::User => "user",
                Role::Assistant => "assistant",
            },
            content: &turn.content,
        });
        let has_system = !request.system.is_empty();
        let by_table = Limit::As(entry.map(|entry| entry.token_limit).unwrap_or_default());
        let limit = quirks.limit.unwrap_or(by_table);
        let limit_as = |field| (limit == Limit::As(field)).then_some(request.max_output_tokens);
        let samples = entry.is_none_or(|entry| entry.temperature);
        Self {
            model: &request.model,
            messages: has_system
                .then_some(system)
                .into_iter()
                .chain(turns)
                .collect(),
            stream: true,
            stream_options: (!quirks.no_stream_options).then_some(StreamOptions {
                include_usage: true,
            }),
            max_tokens: limit_as(TokenLimitField::MaxTokens),
            max_completion_tokens: limit_as(TokenLimitField::MaxCompletionTokens),
            temperature: request
                .temperature
                .filter(|_| samples && !quirks.no_temperature),
            top_p: request.top_p.filter(|_| samples && !quirks.no_top_p),
        }
    }
}

/// What a server complains about, in whichever of the usual forms it says so.
#[derive(Debug, Default, PartialEq)]
struct Complaint {
    message: String,
    /// `type` and `code`, in lower case.
    kind: String,
    /// A status inside the body, where the stream has already begun with 200.
    status: Option<u16>,
    param: Option<String>,
}

impl Complaint {
    /// `{"error":{…}}`, `{"error":"…"}`, `{"detail":…}`, `{"message":…}`, a list of these, a web page, text.
    fn read(body: &str) -> Self {
        if let Ok(value) = serde_json::from_str::<Value>(body) {
            return Self::of(&value);
        }
        let message = if body.trim_start().starts_with('<') {
            let title = body
                .split_once("<title>")
                .and_then(|(_, rest)| rest.split_once("</title>"));
            title.map_or("a web page", |(title, _)| title).to_owned()
        } else {
            body.to_owned()
        };
        Self {
            message,
            ..Self::default()
        }
    }

    fn of(value: &Value) -> Self {
        let value = value.get(0).unwrap_or(value);
        let inner = value
            .get("error")
            .filter(|error| !error.is_null())
            .unwrap_or(value);
        let text = |value: &Value| match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let message = ["message", "detail", "error", "title"]
            .iter()
            .filter_map(|name| inner.get(name))
            .map(text)
            .find(|message| !message.is_empty());
        let number = |name: &str| {
            let value = inner.get(name).or(value.get(name))?;
            let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
            u16::try_from(number)
                .ok()
                .filter(|number| (400..600).contains(number))
        };
        Self {
            message: message.unwrap_or_else(|| text(inner)),
            kind: ["type", "code", "status"]
                .map(|name| text(&inner[name]))
                .join(" ")
                .to_lowercase(),
            status: number("status")
                .or_else(|| number("code"))
                .or_else(|| number("status_code")),
            param: inner["param"].as_str().map(str::to_owned),
        }
    }

    fn is_about_context(&self) -> bool {
        const WORDS: [&str; 14] = [
            "context_length",
            "context length",
            "context window",
            "context size",
            "context_window",
            "exceed_context",
            "maximum context",
            "prompt is too long",
            "prompt too long",
            "input is too long",
            "input too long",
            "too many tokens",
            "too many input tokens",
            "reduce the length",
        ];
        let message = self.message.to_lowercase();
        WORDS
            .iter()
            .any(|words| message.contains(words) || self.kind.contains(words))
    }

    /// Whether the field is what the server complains about.
    fn names(&self, field: &str) -> bool {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let text = self.param.as_ref().unwrap_or(&self.message);
        text.split(|c| !is_word(c)).any(|word| word == field)
    }

    fn limit_is_too_large(&self) -> bool {
        ["max_tokens", "max_completion_tokens"]
            .iter()
            .any(|field| self.names(field))
            && self.message.to_lowercase().contains("too large")
    }

    fn error(
        &self,
        status: Option<u16>,
        retry_after: Option<Duration>,
        api_key: Option<&str>,
    ) -> ModelError {
        let detail = || {
            let message = clean(&self.message, api_key);
            match (status, message.as_str()) {
                (Some(status), "") => format!("status {status}"),
                (Some(status), message) => format!("status {status}, {message}"),
                (None, message) => message.to_owned(),
            }
        };
        let says = |words: &[&str]| words.iter().any(|word| self.kind.contains(word));
        match status.or(self.status) {
            Some(413) => ModelError::ContextTooLarge,
            Some(400 | 422 | 500) | None if self.is_about_context() => ModelError::ContextTooLarge,
            Some(429) => ModelError::RateLimited { retry_after },
            Some(401 | 403) => ModelError::Auth(detail()),
            Some(500..) => ModelError::Unavailable(detail()),
            Some(_) => ModelError::BadRequest(detail()),
            None if says(&["rate_limit", "too_many_requests", "resource_exhausted"]) => {
                ModelError::RateLimited { retry_after }
            }
            None if says(&[
                "overloaded",
                "unavailable",
                "server_error",
                "internal",
                "api_error",
            ]) =>
            {
                ModelError::Unavailable(detail())
            }
            None if says(&["authentication", "permission"]) => ModelError::Auth(detail()),
            None if says(&["invalid_request", "not_found"]) => ModelError::BadRequest(detail()),
            None => ModelError::Broken(detail()),
        }
    }
}

/// One line of at most `DETAIL_CHARS_MAX` characters that holds no key.
fn clean(text: &str, api_key: Option<&str>) -> String {
    let text = match api_key {
        Some(key) if !key.is_empty() => text.replace(key, "…"),
        _ => text.to_owned(),
    };
    // Servers repeat a wrong key in part, also one that was meant for somebody else.
    let secret = |word: &str| {
        word.trim_start_matches(['"', '\'', '`', '('])
            .to_lowercase()
            .starts_with("sk-")
    };
    let words = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .map(|word| if secret(word) { "…" } else { word });
    let mut line = String::new();
    for word in words {
        if line.len() > DETAIL_CHARS_MAX * 4 {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    match line.char_indices().nth(DETAIL_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// An answer with another status than 2xx.
struct Refusal {
    status: u16,
    retry_after: Option<Duration>,
    complaint: Complaint,
}

impl Refusal {
    async fn read(response: Response) -> Self {
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers(), SystemTime::now());
        let body = tokio::time::timeout(SHORT_TIMEOUT, read_capped(response, REFUSAL_BYTES_MAX));
        let complaint = Complaint::read(&body.await.unwrap_or_default());
        Self {
            status,
            retry_after,
            complaint,
        }
    }

    /// The quirks under which the same request may be taken: each names one more field than before.
    fn avoided_by(&self, body: &Body<'_>, quirks: Quirks) -> Option<Quirks> {
        if !matches!(self.status, 400 | 422) {
            return None;
        }
        let complaint = &self.complaint;
        let has_limit = body.max_tokens.is_some() || body.max_completion_tokens.is_some();
        if has_limit && complaint.limit_is_too_large() {
            return Some(Quirks {
                limit: Some(Limit::Unsent),
                ..quirks
            });
        }
        if complaint.is_about_context() {
            return None;
        }
        let renamed = |field| {
            Some(Quirks {
                limit: Some(Limit::As(field)),
                ..quirks
            })
        };
        if quirks.limit.is_none() {
            if body.max_tokens.is_some() && complaint.names("max_tokens") {
                return renamed(TokenLimitField::MaxCompletionTokens);
            }
            if body.max_completion_tokens.is_some() && complaint.names("max_completion_tokens") {
                return renamed(TokenLimitField::MaxTokens);
            }
        }
        if body.stream_options.is_some() && complaint.names("stream_options") {
            Some(Quirks {
                no_stream_options: true,
                ..quirks
            })
        } else if body.top_p.is_some() && complaint.names("top_p") {
            Some(Quirks {
                no_top_p: true,
                ..quirks
            })
        } else if body.temperature.is_some() && complaint.names("temperature") {
            Some(Quirks {
                no_temperature: true,
                ..quirks
            })
        } else {
            None
        }
    }

    fn error(&self, api_key: Option<&str>) -> ModelError {
        self.complaint
            .error(Some(self.status), self.retry_after, api_key)
    }
}

/// `Retry-After` in seconds or as a date (RFC 9110), or `retry-after-ms`; a date that has passed is no wait.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(ms) = text(HeaderName::from_static("retry-after-ms")).and_then(|t| t.parse().ok()) {
        return Some(Duration::from_millis(ms));
    }
    let text = text(RETRY_AFTER)?;
    text.parse()
        .ok()
        .and_then(|seconds: f64| Duration::try_from_secs_f64(seconds).ok())
        .or_else(|| {
            let at = httpdate::parse_http_date(text).ok()?;
            Some(at.duration_since(now).unwrap_or_default())
        })
}

/// Lines of an event stream, put together from pieces of any size.
#[derive(Default)]
struct EventReader {
    buffer: BytesMut,
    /// That many bytes at the beginning of `buffer` hold no line end.
    searched: usize,
    /// The last line ended with `\r`; a `\n` that follows belongs to it.
    after_cr: bool,
    data: Option<String>,
}

#[derive(Debug, PartialEq)]
enum StreamItem {
    Comment,
    Event(String),
}

/// A line or an event above `LINE_BYTES_MAX`.
#[derive(Debug, PartialEq)]
struct TooLong;

impl EventReader {
    fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole item, `None` when more bytes are needed.
    fn next(&mut self) -> Result<Option<StreamItem>, TooLong> {
        while let Some(line) = self.next_line() {
            let item = self.take_line(&String::from_utf8_lossy(&line));
            if line.len() > LINE_BYTES_MAX
                || self
                    .data
                    .as_ref()
                    .is_some_and(|data| data.len() > LINE_BYTES_MAX)
            {
                return Err(TooLong);
            }
            if item.is_some() {
                return Ok(item);
            }
        }
        if self.buffer.len() > LINE_BYTES_MAX {
            Err(TooLong)
        } else {
            Ok(None)
        }
    }

    fn next_line(&mut self) -> Option<BytesMut> {
        if let Some(first) = self.buffer.first() {
            if self.after_cr && *first == b'\n' {
                self.buffer.advance(1);
            }
            self.after_cr = false;
        }
        let end = self.buffer[self.searched..]
            .iter()
            .position(|b| matches!(b, b'\n' | b'\r'));
        let Some(offset) = end else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.searched + offset);
        self.after_cr = self.buffer.get_u8() == b'\r';
        self.searched = 0;
        Some(line)
    }

    fn take_line(&mut self, line: &str) -> Option<StreamItem> {
        let line = line.trim_start_matches('\u{feff}');
        if line.is_empty() {
            return self.data.take().map(StreamItem::Event);
        }
        if line.starts_with(':') {
            return Some(StreamItem::Comment);
        }
        if let Some(value) = line.strip_prefix("data:") {
            let value = value.strip_prefix(' ').unwrap_or(value);
            match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            }
        }
        None
    }

    /// What the stream ended with, though no blank line came.
    fn finish(&mut self) -> Option<StreamItem> {
        let line = self.buffer.split();
        let item = self.take_line(&String::from_utf8_lossy(&line));
        self.data.take().map(StreamItem::Event).or(item)
    }
}

type ByteStream = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

/// An answer on its way: bytes in, deltas out.
struct Answer {
    bytes: ByteStream,
    api_key: Option<String>,
    reader: EventReader,
    ready: VecDeque<Result<Delta, ModelError>>,
    text_bytes: usize,
    /// Some of the text is not white space.
    has_words: bool,
    /// An event that was not `[DONE]` came.
    has_events: bool,
    /// `Delta::Stop` was given; only usage counts now.
    has_stopped: bool,
    has_ended: bool,
}

impl Answer {
    fn new(bytes: ByteStream, api_key: Option<String>) -> Self {
        Self {
            bytes,
            api_key,
            reader: EventReader::default(),
            ready: VecDeque::new(),
            text_bytes: 0,
            has_words: false,
            has_events: false,
            has_stopped: false,
            has_ended: false,
        }
    }

    fn into_stream(self) -> DeltaStream {
        futures::stream::unfold(self, |mut answer| async move {
            let delta = answer.next().await?;
            Some((delta, answer))
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<Result<Delta, ModelError>> {
        loop {
            if let Some(delta) = self.ready.pop_front() {
                return Some(delta);
            }
            if self.has_ended {
                return None;
            }
            match self.reader.next() {
                Ok(Some(item)) => {
                    self.take_item(item);
                    continue;
                }
                Ok(None) => {}
                Err(TooLong) => {
                    self.fail(ModelError::Broken(format!(
                        "a line above {LINE_BYTES_MAX} bytes"
                    )));
                    continue;
                }
            }
            let read = if self.has_stopped {
                tokio::time::timeout(USAGE_TIMEOUT, self.bytes.next())
                    .await
                    .unwrap_or(None)
            } else {
                self.bytes.next().await
            };
            match read {
                Some(Ok(bytes)) => self.reader.feed(&bytes),
                Some(Err(error)) => {
                    let cause = clean(&root_cause(error), self.api_key.as_deref());
                    self.fail(ModelError::Broken(cause));
                }
                None => {
                    if let Some(item) = self.reader.finish() {
                        self.take_item(item);
                    }
                    self.end();
                }
            }
        }
    }

    fn take_item(&mut self, item: StreamItem) {
        match item {
            StreamItem::Comment => self.alive(),
            StreamItem::Event(data) if data.trim() == "[DONE]" => self.end(),
            StreamItem::Event(data) => self.take(&data),
        }
    }

    fn alive(&mut self) {
        if !self.has_stopped && !self.has_ended {
            self.ready.push_back(Ok(Delta::Alive));
        }
    }

    /// One event, or the whole completion of a server that does not stream.
    fn take(&mut self, data: &str) {
        if data.trim().is_empty() {
            return self.alive();
        }
        self.has_events = true;
        let Ok(chunk) = serde_json::from_str::<Value>(data) else {
            return self.fail(ModelError::Broken("an event that is not JSON".to_owned()));
        };
        let is_error = !chunk["error"].is_null()
            || [&chunk["type"], &chunk["object"]]
                .iter()
                .any(|kind| *kind == "error");
        if is_error {
            let error = Complaint::of(&chunk).error(None, None, self.api_key.as_deref());
            return self.fail(error);
        }
        let choices = chunk["choices"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let choice = choices
            .iter()
            .find(|choice| choice["index"].as_u64().unwrap_or(0) == 0);
        if let Some(choice) = choice.filter(|_| !self.has_stopped) {
            let said = choice.get("delta").filter(|delta| !delta.is_null());
            self.text(&text_of(&said.unwrap_or(&choice["message"])["content"]));
            if let Some(reason) = choice["finish_reason"].as_str().filter(|r| !r.is_empty()) {
                self.finish_reason(reason);
            }
        } else {
            self.alive();
        }
        if let Some(usage) = usage_of(&chunk["usage"])
            && (self.has_stopped || !self.has_ended)
        {
            self.ready.push_back(Ok(Delta::Usage(usage)));
        }
    }

    fn text(&mut self, text: &str) {
        if self.has_ended {
            return;
        }
        if text.is_empty() {
            return self.alive();
        }
        let kept = &text[..text.floor_char_boundary(ANSWER_BYTES_MAX - self.text_bytes)];
        self.text_bytes += kept.len();
        self.has_words |= kept.contains(|c: char| !c.is_whitespace());
        if !kept.is_empty() {
            self.ready.push_back(Ok(Delta::Text(kept.to_owned())));
        }
        if kept.len() < text.len() {
            self.stop(StopReason::Length);
            self.has_ended = true;
        }
    }

    fn finish_reason(&mut self, reason: &str) {
        match reason {
            "length" | "max_tokens" | "model_length" => self.stop(StopReason::Length),
            "error" => self.fail(ModelError::Broken(
                "the server ended it with an error".to_owned(),
            )),
            _ => self.stop(StopReason::Complete),
        }
    }

    fn stop(&mut self, reason: StopReason) {
        if self.has_stopped || self.has_ended {
            return;
        }
        if self.has_words {
            self.ready.push_back(Ok(Delta::Stop(reason)));
            self.has_stopped = true;
        } else {
            self.fail(ModelError::Empty);
        }
    }

    /// Nothing counts after an error; after `Delta::Stop` the answer is whole, whatever comes.
    fn fail(&mut self, error: ModelError) {
        if !self.has_stopped && !self.has_ended {
            self.ready.push_back(Err(error));
        }
        self.has_ended = true;
    }

    /// `[DONE]` or the end of the bytes.
    fn end(&mut self) {
        self.fail(if self.has_events {
            ModelError::Broken("it ended without a finish reason".to_owned())
        } else {
            ModelError::Empty
        });
    }
}

/// A text, or the texts among parts of several types.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter(|part| part["type"] == "text");
            texts.filter_map(|part| part["text"].as_str()).collect()
        }
        _ => String::new(),
    }
}

/// `None` where the server does not say, or says nothing but zeros.
fn usage_of(usage: &Value) -> Option<Usage> {
    let count = |names: [&str; 2]| names.iter().find_map(|name| usage[name].as_i64());
    let usage = Usage {
        input_tokens: count(["prompt_tokens", "input_tokens"])?,
        output_tokens: count(["completion_tokens", "output_tokens"]).unwrap_or(0),
    };
    (usage != Usage::default()).then_some(usage)
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
        task::JoinSet,
    };

    use super::{super::Turn, *};

    const KEY: &str = "sk-test-0123456789";

    /// A server that answers each connection with the next raw reply, then closes it.
    struct Script {
        url: String,
        requests: Arc<Mutex<Vec<String>>>,
        _tasks: JoinSet<()>,
    }

    impl Script {
        async fn new(replies: Vec<Vec<u8>>) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/v1/", listener.local_addr().unwrap());
            let requests = Arc::new(Mutex::new(Vec::new()));
            let seen = Arc::clone(&requests);
            let mut tasks = JoinSet::new();
            tasks.spawn(async move {
                for reply in replies {
                    let (mut socket, _) = listener.accept().await.unwrap();
                    let request = read_request(&mut socket).await;
                    seen.lock().unwrap().push(request);
                    socket.write_all(&reply).await.unwrap();
                    socket.shutdown().await.unwrap();
                }
            });
            Self {
                url,
                requests,
                _tasks: tasks,
            }
        }

        fn client(&self) -> OpenAi {
            client(&self.url, None)
        }

        fn bodies(&self) -> Vec<Value> {
            let requests = self.requests.lock().unwrap();
            let body = |request: &String| {
                let (_, body) = request.split_once("\r\n\r\n").unwrap();
                serde_json::from_str(body).unwrap()
            };
            requests.iter().map(body).collect()
        }
    }

    async fn read_request(socket: &mut TcpStream) -> String {
        let mut request = String::new();
        let mut piece = [0; 4096];
        loop {
            let length = socket.read(&mut piece).await.unwrap();
            request.push_str(std::str::from_utf8(&piece[..length]).unwrap());
            let Some((head, body)) = request.split_once("\r\n\r\n") else {
                continue;
            };
            let wanted = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
                .unwrap_or(0);
            if body.len() >= wanted || length == 0 {
                return request;
            }
        }
    }

    fn client(url: &str, model: Option<&str>) -> OpenAi {
        let _ = rustls::crypto::ring::default_provider().install_default();
        OpenAi::new(Endpoint {
            base_url: Url::parse(url).unwrap(),
            api_key: Some(KEY.to_owned()),
            model: model.map(str::to_owned),
            utility_model: None,
            table: Table::built_in().unwrap(),
        })
        .unwrap()
    }

    fn request() -> ChatRequest {
        ChatRequest {
            model: "m".to_owned(),
            system: "Be brief.".to_owned(),
            turns: vec![Turn {
                role: Role::User,
                content: "Hello".to_owned(),
            }],
            max_output_tokens: 100,
            temperature: Some(0.2),
            top_p: None,
        }
    }

    /// A reply without a length: it ends where the connection does.
    fn raw(status: &str, headers: &str, body: &str) -> Vec<u8> {
        format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n{body}").into_bytes()
    }

    fn events(body: &str) -> Vec<u8> {
        raw("200 OK", "content-type: text/event-stream\r\n", body)
    }

    fn said(text: &str) -> String {
        format!(
            "data: {}\n\n",
            serde_json::json!({"choices":[{"index":0,"delta":{"content":text}}]})
        )
    }

    fn finished(reason: &str) -> String {
        let chunk = serde_json::json!({"choices":[{"delta":{},"finish_reason":reason}]});
        format!("data: {chunk}\n\n")
    }

    async fn run(client: &OpenAi, request: ChatRequest) -> Result<Vec<Delta>, ModelError> {
        let mut stream = client.stream(request).await?;
        let mut deltas = Vec::new();
        while let Some(delta) = stream.next().await {
            deltas.push(delta?);
        }
        Ok(deltas)
    }

    async fn deltas_of(reply: Vec<u8>) -> Result<Vec<Delta>, ModelError> {
        run(&Script::new(vec![reply]).await.client(), request()).await
    }

    fn text(text: &str) -> Delta {
        Delta::Text(text.to_owned())
    }

    const COMPLETE: Delta = Delta::Stop(StopReason::Complete);

    #[tokio::test]
    async fn an_answer_comes_piece_by_piece_with_its_usage() {
        let usage =
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n";
        let body = [
            &said("Hel"),
            &said("lo"),
            &finished("stop"),
            usage,
            "data: [DONE]\n\n",
        ]
        .concat();
        let script = Script::new(vec![events(&body)]).await;
        let deltas = run(&script.client(), request()).await.unwrap();
        let usage = Usage {
            input_tokens: 7,
            output_tokens: 2,
        };
        assert_eq!(
            deltas,
            [
                text("Hel"),
                text("lo"),
                Delta::Alive,
                COMPLETE,
                Delta::Usage(usage)
            ]
        );
        assert_eq!(
            script.bodies(),
            [serde_json::json!({
                "model": "m",
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "Hello"},
                ],
                "stream": true,
                "stream_options": {"include_usage": true},
                "max_tokens": 100,
                "temperature": 0.2,
            })]
        );
        let head = script.requests.lock().unwrap()[0].to_lowercase();
        assert!(
            head.starts_with("post /v1/chat/completions http/1.1\r\n"),
            "{head}"
        );
        assert!(
            head.contains(&format!("authorization: bearer {KEY}")),
            "{head}"
        );
    }

    #[tokio::test]
    async fn servers_that_differ_from_the_standard_are_understood() {
        let ok = |body: &str| events(&format!("{body}{}", finished("stop")));
        let reasoning =
            "data: {\"choices\":[{\"delta\":{\"content\":null,\"reasoning_content\":\"hm\"}}]}\n\n";
        let parts = "data: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"thinking\"},{\"type\":\"text\",\"text\":\"Yes\"}]}}]}\n\n";
        let rows: Vec<(Vec<u8>, Vec<Delta>)> = vec![
            (
                events(&[said("Hi"), finished("eos"), "data: [DONE]\n\n".to_owned()].concat()),
                vec![text("Hi"), Delta::Alive, COMPLETE],
            ),
            (
                events(&[said("Hi"), finished("length")].concat()),
                vec![text("Hi"), Delta::Alive, Delta::Stop(StopReason::Length)],
            ),
            (
                events(&[said("Hi"), finished("max_tokens")].concat()),
                vec![text("Hi"), Delta::Alive, Delta::Stop(StopReason::Length)],
            ),
            (
                ok(&[": ROUTER IS PROCESSING\n\n", &said("Hi")].concat()),
                vec![Delta::Alive, text("Hi"), Delta::Alive, COMPLETE],
            ),
            (
                ok(&[reasoning, &said("Hi")].concat()),
                vec![Delta::Alive, text("Hi"), Delta::Alive, COMPLETE],
            ),
            (ok(parts), vec![text("Yes"), Delta::Alive, COMPLETE]),
            (
                ok(&said("Hi").replace("\n\n", "\r\n\r\n")),
                vec![text("Hi"), Delta::Alive, COMPLETE],
            ),
            (
                ok(&said("Hi").replace("data: ", "event: message\nid: 1\ndata:")),
                vec![text("Hi"), Delta::Alive, COMPLETE],
            ),
            // Text in the last chunk, and no blank line at the end.
            (
                events(
                    "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}],\"usage\":null}",
                ),
                vec![text("Hi"), COMPLETE],
            ),
            // What comes after the answer has ended does not undo it.
            (
                events(
                    &[
                        &said("Hi"),
                        &finished("stop"),
                        "data: {\"error\":{\"message\":\"x\"}}\n\n",
                    ]
                    .concat(),
                ),
                vec![text("Hi"), Delta::Alive, COMPLETE],
            ),
            // A server that does not stream.
            (
                raw(
                    "200 OK",
                    "content-type: application/json\r\n",
                    "{\"choices\":[{\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}",
                ),
                vec![
                    text("Hi"),
                    COMPLETE,
                    Delta::Usage(Usage {
                        input_tokens: 3,
                        output_tokens: 1,
                    }),
                ],
            ),
        ];
        for (reply, wanted) in rows {
            let shown = String::from_utf8_lossy(&reply).into_owned();
            assert_eq!(deltas_of(reply).await.unwrap(), wanted, "{shown}");
        }
    }

    #[tokio::test]
    async fn a_stream_that_does_not_end_as_it_should_is_told_apart() {
        let cut = |body: &str| {
            let head = "content-type: text/event-stream\r\ncontent-length: 9999\r\n";
            raw("200 OK", head, body)
        };
        let is_broken = |error: &ModelError| matches!(error, ModelError::Broken(_));
        let is_empty = |error: &ModelError| *error == ModelError::Empty;
        let is_busy = |error: &ModelError| matches!(error, ModelError::Unavailable(_));
        let is_limited = |error: &ModelError| matches!(error, ModelError::RateLimited { .. });
        let is_large = |error: &ModelError| *error == ModelError::ContextTooLarge;
        type Check<'a> = &'a dyn Fn(&ModelError) -> bool;
        let rows: Vec<(Vec<u8>, Check<'_>)> = vec![
            (
                events(&[&said("Hi"), "data: [DONE]\n\n"].concat()),
                &is_broken,
            ),
            (events(&said("Hi")), &is_broken),
            (cut(&said("Hi")), &is_broken),
            (
                events(
                    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\ndata: [DONE]\n\n",
                ),
                &is_broken,
            ),
            (events("data: <html>\n\n"), &is_broken),
            (
                events(&format!("data: {}", "x".repeat(LINE_BYTES_MAX + 2))),
                &is_broken,
            ),
            (
                events(
                    &"data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"
                        .repeat(LINE_BYTES_MAX / 40),
                ),
                &is_broken,
            ),
            (events(&finished("error")), &is_broken),
            (events("data: {\"error\":\"something\"}\n\n"), &is_broken),
            (events(""), &is_empty),
            (events("data: [DONE]\n\n"), &is_empty),
            (events(&finished("stop")), &is_empty),
            (events(&[said(" \n"), finished("stop")].concat()), &is_empty),
            (
                events(
                    "data: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
                ),
                &is_busy,
            ),
            (
                events("data: {\"error\":{\"code\":503,\"message\":\"x\"}}\n\n"),
                &is_busy,
            ),
            (
                events(
                    "data: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"x\"}}\n\n",
                ),
                &is_limited,
            ),
            (
                events("data: {\"error\":{\"code\":\"429\",\"message\":\"x\"}}\n\n"),
                &is_limited,
            ),
            (
                events(
                    "data: {\"object\":\"error\",\"message\":\"maximum context length\",\"code\":400}\n\n",
                ),
                &is_large,
            ),
            (
                events(
                    "data: {\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"x\"}}\n\n",
                ),
                &is_large,
            ),
        ];
        for (reply, is_wanted) in rows {
            let shown: String = String::from_utf8_lossy(&reply).chars().take(200).collect();
            let error = deltas_of(reply).await.unwrap_err();
            assert!(is_wanted(&error), "{error:?} for {shown}");
        }
    }

    #[tokio::test]
    async fn an_answer_without_end_is_cut() {
        let piece = "é".repeat(ANSWER_BYTES_MAX / 8 + 1);
        let body = [said("a"), said(&piece).repeat(9)].concat();
        let deltas = deltas_of(events(&body)).await.unwrap();
        let size: usize = deltas
            .iter()
            .map(|d| {
                if let Delta::Text(text) = d {
                    text.len()
                } else {
                    0
                }
            })
            .sum();
        assert_eq!(size, ANSWER_BYTES_MAX - 1);
        assert_eq!(deltas.last(), Some(&Delta::Stop(StopReason::Length)));
    }

    #[tokio::test]
    async fn a_refusal_says_what_kind_it_is_and_never_the_key() {
        let unavailable = |detail: &str| ModelError::Unavailable(detail.to_owned());
        let bad = |detail: &str| ModelError::BadRequest(detail.to_owned());
        let auth = |detail: &str| ModelError::Auth(detail.to_owned());
        let limited = |seconds| ModelError::RateLimited {
            retry_after: Some(Duration::from_secs(seconds)),
        };
        let body = |message: &str| serde_json::json!({"error": {"message": message}}).to_string();
        let rows: Vec<(&str, &str, String, ModelError)> = vec![
            ("429 Too Many Requests", "retry-after: 7\r\n", body("slow"), limited(7)),
            ("429 Too Many Requests", "retry-after: Mon, 01 Jan 2024 00:00:00 GMT\r\n", body("slow"), limited(0)),
            ("429 Too Many Requests", "", String::new(), ModelError::RateLimited { retry_after: None }),
            ("500 Internal Server Error", "", body("oops"), unavailable("status 500, oops")),
            ("502 Bad Gateway", "", String::new(), unavailable("status 502")),
            ("503 Service Unavailable", "content-type: text/html\r\n", "<html><head><title>503 Busy</title></head><body>x</body></html>".to_owned(), unavailable("status 503, 503 Busy")),
            ("504 Gateway Timeout", "", "<p>x".to_owned(), unavailable("status 504, a web page")),
            ("529 Overloaded", "", body("Overloaded"), unavailable("status 529, Overloaded")),
            ("401 Unauthorized", "", format!("{{\"detail\":\"bad key {KEY} or sk-te***89\"}}"), auth("status 401, bad key … or …")),
            ("403 Forbidden", "", body("no"), auth("status 403, no")),
            ("404 Not Found", "", body("no model `m`"), bad("status 404, no model `m`")),
            ("400 Bad Request", "", "{\"detail\":[{\"msg\":\"wrong\"}]}".to_owned(), bad("status 400, [{\"msg\":\"wrong\"}]")),
            ("400 Bad Request", "", "{\"error\":\"plain\"}".to_owned(), bad("status 400, plain")),
            ("307 Temporary Redirect", "location: /x\r\n", String::new(), bad("status 307")),
            ("400 Bad Request", "", "{\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"x\"}}".to_owned(), ModelError::ContextTooLarge),
            ("400 Bad Request", "", body("prompt is too long: 210000 tokens > 200000 maximum"), ModelError::ContextTooLarge),
            ("400 Bad Request", "", "{\"error\":{\"type\":\"exceed_context_size_error\",\"message\":\"the request exceeds the available context size\"}}".to_owned(), ModelError::ContextTooLarge),
            ("413 Payload Too Large", "", String::new(), ModelError::ContextTooLarge),
            ("422 Unprocessable Entity", "", body("This model's maximum context length is 4096 tokens"), ModelError::ContextTooLarge),
            ("200 OK", "content-type: text/html\r\n", "<html>".to_owned(), bad("answered with a web page; check the base URL")),
        ];
        for (status, headers, body, wanted) in rows {
            let error = deltas_of(raw(status, headers, &body)).await.unwrap_err();
            let without_host = match error {
                ModelError::BadRequest(detail) if detail.starts_with("127.0.0.1:") => {
                    ModelError::BadRequest(detail.split_once(' ').unwrap().1.to_owned())
                }
                error => error,
            };
            assert_eq!(without_host, wanted, "{status} {body}");
        }
        let long = deltas_of(raw("400 Bad Request", "", &"word ".repeat(9_000)))
            .await
            .unwrap_err();
        assert!(long.to_string().len() < 300, "{long}");
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_unavailable() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let client = client(&format!("http://user:{KEY}@{address}/v1"), None);
        let error = run(&client, request()).await.unwrap_err();
        assert!(matches!(error, ModelError::Unavailable(_)), "{error:?}");
        assert!(!error.to_string().contains(KEY), "{error}");
        let closes = deltas_of(Vec::new()).await.unwrap_err();
        assert!(matches!(closes, ModelError::Unavailable(_)), "{closes:?}");
    }

    #[tokio::test]
    async fn a_field_that_a_model_refuses_is_left_out_and_remembered() {
        let refuses = |message: &str| {
            raw(
                "400 Bad Request",
                "",
                &serde_json::json!({"error": {"message": message}}).to_string(),
            )
        };
        let answer = || events(&[said("Hi"), finished("stop")].concat());
        let script = Script::new(vec![
            refuses("Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."),
            refuses("`temperature` and `top_p` cannot both be specified for this model."),
            refuses("Unsupported value: 'temperature' does not support 0.2."),
            raw("422 Unprocessable Entity", "", "{\"detail\":[{\"loc\":[\"body\",\"stream_options\"],\"msg\":\"Extra inputs are not permitted\"}]}"),
            answer(),
            answer(),
        ])
        .await;
        let client = script.client();
        let request = ChatRequest {
            top_p: Some(0.5),
            ..request()
        };
        run(&client, request.clone()).await.unwrap();
        run(&client, request).await.unwrap();
        let fields = [
            "max_tokens",
            "max_completion_tokens",
            "top_p",
            "temperature",
            "stream_options",
        ];
        let sent: Vec<String> = script
            .bodies()
            .iter()
            .map(|body| {
                fields
                    .iter()
                    .filter(|f| body.get(f).is_some())
                    .copied()
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        assert_eq!(
            sent,
            [
                "max_tokens top_p temperature stream_options",
                "max_completion_tokens top_p temperature stream_options",
                "max_completion_tokens temperature stream_options",
                "max_completion_tokens stream_options",
                "max_completion_tokens",
                "max_completion_tokens",
            ]
        );
    }

    #[tokio::test]
    async fn a_refusal_that_stays_is_given_back() {
        let message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.";
        let refusal = || {
            raw(
                "400 Bad Request",
                "",
                &serde_json::json!({"error": {"message": message, "param": "max_tokens"}})
                    .to_string(),
            )
        };
        let script = Script::new(vec![refusal(), refusal()]).await;
        let error = run(&script.client(), request()).await.unwrap_err();
        assert!(matches!(error, ModelError::BadRequest(_)), "{error:?}");
        assert_eq!(script.bodies().len(), 2);
    }

    #[tokio::test]
    async fn a_limit_larger_than_the_window_is_left_out_for_once() {
        let refusal = raw(
            "400 Bad Request",
            "",
            "{\"error\":{\"message\":\"'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 4096 tokens\"}}",
        );
        let answer = || events(&[said("Hi"), finished("stop")].concat());
        let script = Script::new(vec![refusal, answer(), answer()]).await;
        let client = script.client();
        run(&client, request()).await.unwrap();
        run(&client, request()).await.unwrap();
        let limits: Vec<bool> = script
            .bodies()
            .iter()
            .map(|b| b.get("max_tokens").is_some())
            .collect();
        assert_eq!(limits, [true, false, true]);
    }

    #[tokio::test]
    async fn the_model_is_the_wanted_one_where_the_server_has_it_else_its_first() {
        let list = raw(
            "200 OK",
            "content-type: application/json\r\n",
            "{\"data\":[{\"id\":\"nomic-embed\"},{\"id\":\"qwen\",\"max_model_len\":8192},{\"id\":\"phi\"}]}",
        );
        let script = Script::new(vec![list]).await;
        let client = script.client();
        assert_eq!(client.choose_model(Some("phi")).await, "phi");
        // Asked once only: the script has no second answer.
        assert_eq!(client.choose_model(Some("claude-sonnet-4-5")).await, "qwen");
        assert_eq!(client.choose_model(None).await, "qwen");
        assert_eq!(client.utility_model("qwen").await, "qwen");
        assert_eq!(client.context_window("qwen"), 8192);
        assert_eq!(client.context_window("other"), CONTEXT_WINDOW_DEFAULT);
        assert_eq!(script.requests.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_server_that_lists_no_models_gets_the_wanted_one() {
        let script = Script::new(vec![raw("404 Not Found", "", "")]).await;
        let unlisted = script.client();
        assert_eq!(unlisted.choose_model(Some("wanted")).await, "wanted");
        assert_eq!(unlisted.choose_model(None).await, MODEL_UNKNOWN);
        let set = client(&script.url, Some("always"));
        assert_eq!(set.choose_model(Some("wanted")).await, "always");
    }

    #[tokio::test]
    async fn a_maker_is_asked_only_for_models_that_the_table_does_not_know() {
        let maker = client("https://api.anthropic.com/v1/", None);
        assert_eq!(
            maker.choose_model(Some("claude-opus-4-6")).await,
            "claude-opus-4-6"
        );
        assert_eq!(maker.choose_model(None).await, "claude-sonnet-4-5");
        assert_eq!(
            maker.utility_model("claude-opus-4-6").await,
            "claude-haiku-4-5"
        );
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 0,
        };
        assert_eq!(maker.cost_usd("claude-haiku-4-5", usage), Some(1.0));
    }

    #[tokio::test]
    async fn dropping_the_stream_closes_the_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = client(&format!("http://{}", listener.local_addr().unwrap()), None);
        let serve = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            read_request(&mut socket).await;
            socket.write_all(&events(&said("Hi"))).await.unwrap();
            socket
        };
        let (stream, mut socket) = tokio::join!(client.stream(request()), serve);
        let mut stream = stream.unwrap();
        assert_eq!(stream.next().await, Some(Ok(text("Hi"))));
        drop(stream);
        let closed = tokio::time::timeout(Duration::from_secs(5), socket.read(&mut [0; 1])).await;
        assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");
    }

    #[test]
    fn waits_are_read_as_seconds_milliseconds_or_dates() {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2026 07:28:00 GMT").unwrap();
        for (name, value, wanted) in [
            ("retry-after", "7", Some(7_000)),
            ("retry-after", "0.5", Some(500)),
            ("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT", Some(30_000)),
            ("retry-after", "soon", None),
            ("retry-after", "-1", None),
            ("retry-after-ms", "1500", Some(1_500)),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            assert_eq!(
                retry_after(&headers, now),
                wanted.map(Duration::from_millis),
                "{value}"
            );
        }
    }

    #[test]
    fn events_are_the_same_in_whatever_pieces_they_come() {
        let stream =
            "\u{feff}: hello\r\n\r\ndata: one\r\ndata:two\r\n\r\nevent: x\rdata: é\r\rdata: last";
        let whole = [
            "Comment",
            "Event(\"one\\ntwo\")",
            "Event(\"é\")",
            "Event(\"last\")",
        ];
        for size in 1..stream.len() {
            let mut reader = EventReader::default();
            let mut items = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                reader.feed(piece);
                while let Some(item) = reader.next().unwrap() {
                    items.push(item);
                }
            }
            items.extend(reader.finish());
            let shown: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
            assert_eq!(shown, whole, "in pieces of {size}");
        }
    }
}
