//! Error responses of servers, and their classification.

use std::{
    error::Error as _,
    time::{Duration, SystemTime},
};

use async_openai::types::chat::{
    ChatCompletionRequestMessage, ChatCompletionTools, CreateChatCompletionRequest, ResponseFormat,
};
use reqwest::{
    Response,
    header::{HeaderMap, HeaderName, RETRY_AFTER},
};
use serde_json::Value;

use super::{
    super::{chat::ModelError, table::TokenLimitField},
    overflow::Overflow,
    pictures::PictureRefusal,
    request::{FormatSupport, Limit, Quirks},
};
use crate::trust;

/// Flag of `Quirks` for a field that is not sent.
type Quirk = fn(&mut Quirks) -> &mut bool;

/// Timeout for the body of an error response, and for the request that explains an empty response.
pub(super) const SHORT_TIMEOUT: Duration = Duration::from_secs(5);
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
const DETAIL_CHARS_MAX: usize = 200;
const CONNECTION_LOST: &str = "the connection was lost";

/// Innermost cause of an error, without the URL, which may contain a password.
fn root_cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    if let Some(advice) = trust::advice(&error) {
        return advice.to_owned();
    }
    let mut cause = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        cause = inner.to_string();
        source = inner.source();
    }
    cause
}

/// Kind of a failed request, without any text that the server could have chosen, such as the names in its certificate.
pub(super) fn failure_kind(error: &reqwest::Error) -> String {
    if let Some(advice) = trust::advice(error) {
        return advice.to_owned();
    }
    if trust::tls_error(error).is_some() {
        return "its certificate was not accepted".to_owned();
    }
    let mut source = error.source();
    while let Some(inner) = source {
        let io = inner.downcast_ref::<std::io::Error>();
        if let Some(io) = io.filter(|io| io.raw_os_error().is_some()) {
            return io.to_string();
        }
        source = inner.source();
    }
    if error.is_timeout() {
        "no response in time".to_owned()
    } else if error.is_connect() {
        "no connection could be made".to_owned()
    } else {
        CONNECTION_LOST.to_owned()
    }
}

/// Rules for text of a server in errors.
#[derive(Clone, Default)]
pub(super) struct Quotes {
    /// Key that is redacted.
    pub(super) api_key: Option<String>,
    /// True if errors contain only their kind: the server is at a local address, and its text could reveal to an admin of a workspace
    /// what other services there respond.
    pub(super) are_hidden: bool,
}

impl Quotes {
    /// Shortens a text to one line without keys; blank if it cannot be quoted.
    fn quote(&self, text: &str) -> String {
        if self.are_hidden {
            return String::new();
        }
        clean(text, self.api_key.as_deref())
    }

    /// Cause of a request that failed.
    pub(super) fn cause(&self, error: reqwest::Error) -> String {
        if self.are_hidden {
            return failure_kind(&error);
        }
        self.quote(&root_cause(error))
    }
}

/// Reads at most `bytes_max` bytes of a body. If reading fails, returns the bytes received so far.
pub(super) async fn read_capped(mut response: Response, bytes_max: usize) -> String {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk[..chunk.len().min(bytes_max - body.len())]);
        if body.len() == bytes_max {
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}

/// Error from a server, in any of the common formats.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ProviderErrorBody {
    message: String,
    /// `type` and `code`, in lowercase.
    kind: String,
    /// Status in the body; used if the stream had already started with status 200.
    status: Option<u16>,
    param: Option<String>,
    /// True if the server could not parse the calls of its model.
    has_failed_calls: bool,
    /// Sizes stated in the error, if it is about a prompt that is too large.
    pub(super) overflow: Overflow,
}

impl ProviderErrorBody {
    /// Parses `{"error":{…}}`, `{"error":"…"}`, `{"detail":…}`, `{"message":…}`, a list of these, a web page, or text.
    fn read(body: &str) -> Self {
        if let Ok(value) = serde_json::from_str::<Value>(body) {
            return Self::of(&value);
        }
        let overflow = Overflow::of(body);
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
            overflow,
            ..Self::default()
        }
    }

    pub(super) fn of(value: &Value) -> Self {
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
            has_failed_calls: inner["code"] == "tool_use_failed",
            overflow: Overflow::of(&value.to_string()),
        }
    }

    pub(super) fn is_about_context(&self) -> bool {
        const WORDS: [&str; 18] = [
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
            "maximum model length",
            "maximum number of tokens allowed",
            "exceed context",
            // llama.cpp, about a text for a vector.
            "too large to process",
        ];
        let message = self.message.to_lowercase();
        WORDS
            .iter()
            .any(|words| message.contains(words) || self.kind.contains(words))
    }

    /// Checks whether the error is about the field `field`.
    fn names(&self, field: &str) -> bool {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let text = self.param.as_ref().unwrap_or(&self.message);
        text.split(|c| !is_word(c)).any(|word| word == field)
    }

    /// Checks whether the error means that the model does not support system messages.
    fn refuses_system(&self) -> bool {
        const NAMES: [&str; 8] = [
            "system role",
            "system message",
            "system prompt",
            "system instruction",
            "developer instruction",
            "role 'system'",
            "role \"system\"",
            "role: system",
        ];
        const WORDS: [&str; 5] = [
            "support",
            "not enabled",
            "not allowed",
            "invalid",
            "unexpected",
        ];
        let message = self.message.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
        has(&NAMES) && has(&WORDS)
    }

    /// Checks whether the error is about members that a server sent itself. One that misses them is not.
    fn refuses_members(&self, names: &[String]) -> bool {
        let message = self.message.to_lowercase();
        let is_missing = ["must be", "missing", "required"]
            .iter()
            .any(|word| message.contains(word));
        !is_missing && names.iter().any(|name| self.names(name))
    }

    /// Checks whether the error is about the response format: servers mention the field, the kind of format, or their own name for
    /// it, such as `guided_json` or "grammar".
    fn is_about_response_format(&self) -> bool {
        const WORDS: [&str; 5] = [
            "response format",
            "json schema",
            "structured output",
            "guided_json",
            "grammar",
        ];
        let message = self.message.to_lowercase();
        ["response_format", "json_schema"]
            .iter()
            .any(|field| self.names(field))
            || WORDS.iter().any(|words| message.contains(words))
    }

    /// Checks whether the error means that the model does not support tools. A mention of tools is not enough, because other errors
    /// mention them too, such as one about an invalid schema.
    fn lacks_tools(&self) -> bool {
        const WORDS: [&str; 10] = [
            "support",
            "requires --",
            "not enabled",
            "unknown",
            "unrecognized",
            "unexpected",
            "extra inputs",
            "extra fields",
            "not permitted",
            "not allowed",
        ];
        let message = self.message.to_lowercase();
        message.contains("tool") && WORDS.iter().any(|words| message.contains(words))
    }

    /// Returns the function that the error names, or to which it refers by its position in the request.
    fn named_function(&self, tools: &[ChatCompletionTools]) -> NamedFunction {
        let texts = [self.param.as_deref().unwrap_or_default(), &self.message];
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let words = texts
            .iter()
            .flat_map(|text| text.split(move |c| !is_part(c)));
        let mut known = words.filter_map(|word| {
            tools.iter().position(|tool| match tool {
                ChatCompletionTools::Function(tool) => tool.function.name == word,
                ChatCompletionTools::Custom(_) => false,
            })
        });
        if let Some(at) = known.next() {
            return NamedFunction::At(at);
        }
        let places = texts.iter().filter_map(|text| position_in(text));
        places.fold(NamedFunction::None, |found, place| match found {
            NamedFunction::None if place < tools.len() => NamedFunction::At(place),
            NamedFunction::None => NamedFunction::Unknown,
            found => found,
        })
    }

    fn names_function(&self, tools: &[ChatCompletionTools]) -> bool {
        self.named_function(tools) != NamedFunction::None
    }

    /// Checks whether the error is about a keyword of schemas, or about the schema of a function.
    fn names_keyword(&self) -> bool {
        const KEYWORDS: [&str; 13] = [
            "additionalproperties",
            "patternproperties",
            "$schema",
            "$ref",
            "$defs",
            "oneof",
            "allof",
            "anyof",
            "exclusiveminimum",
            "exclusivemaximum",
            "input_schema",
            "function_declarations",
            "invalid schema for function",
        ];
        let message = self.message.to_lowercase();
        KEYWORDS.iter().any(|word| message.contains(word))
    }

    /// Returns the kind of an error about the pictures of a request to `model`; `None` for any other error.
    fn about_pictures(&self, model: &str) -> Option<PictureRefusal> {
        const NAMES: [&str; 7] = [
            "image",
            "picture",
            "vision",
            "multimodal",
            "multi-modal",
            "modalit",
            "mmproj",
        ];
        /// Parts of messages of servers that accept only text as the content of a message.
        const TEXT_ONLY: [&str; 6] = [
            "content must be a string",
            "content should be a string",
            "expected a string",
            "should be a valid string",
            "unknown variant `image_url`",
            "only text",
        ];
        const UNABLE: [&str; 9] = [
            "support",
            "vision",
            "multimodal",
            "multi-modal",
            "modalit",
            "mmproj",
            "not enabled",
            "at most 0 image",
            "missing data required",
        ];
        let mut message = self.message.to_lowercase();
        // The name of a model that can see, such as `llama3.2-vision`, is in its errors about anything.
        let model = model.to_lowercase();
        let model = model.split_once(':').map_or(&*model, |(name, _)| name);
        if NAMES.iter().any(|word| model.contains(word)) {
            message = message.replace(model, "");
        }
        let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
        // A format is a property of one picture.
        let is_of_one = has(&[
            "format",
            "media type",
            "mime",
            "process",
            "decode",
            "corrupt",
        ]);
        if has(&TEXT_ONLY) {
            Some(PictureRefusal::Unsupported)
        } else if !has(&NAMES) && !self.names("image_url") {
            None
        } else if has(&UNABLE) && !is_of_one {
            Some(PictureRefusal::Unsupported)
        } else {
            Some(PictureRefusal::Unclear)
        }
    }

    /// Checks whether the error is about the model with this name.
    fn names_model(&self, model: &str) -> bool {
        let is_part = |c: char| c.is_alphanumeric() || "-_./:@".contains(c);
        let mut words = self.message.split(|c| !is_part(c));
        self.kind.contains("model_not_found")
            || self.param.as_deref() == Some("model")
            || words.any(|word| {
                word.trim_end_matches(['.', ':'])
                    .eq_ignore_ascii_case(model)
            })
    }

    fn limit_is_too_large(&self) -> bool {
        ["max_tokens", "max_completion_tokens"]
            .iter()
            .any(|field| self.names(field))
            && self.message.to_lowercase().contains("too large")
    }

    pub(super) fn error(
        &self,
        status: Option<u16>,
        retry_after: Option<Duration>,
        quotes: &Quotes,
    ) -> ModelError {
        let detail = || {
            let message = quotes.quote(&self.message);
            match (status, message.as_str()) {
                (Some(status), "") => format!("status {status}"),
                (Some(status), message) => format!("status {status}, {message}"),
                (None, "") => "the server reported an error".to_owned(),
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

/// Shortens `text` to one line of at most `DETAIL_CHARS_MAX` characters and redacts keys.
fn clean(text: &str, api_key: Option<&str>) -> String {
    let text = match api_key {
        Some(key) if !key.is_empty() => text.replace(key, "…"),
        _ => text.to_owned(),
    };
    // Servers quote parts of a wrong key, even if it belongs to another service.
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

/// Function to which an error refers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamedFunction {
    None,
    /// A position that the request does not have.
    Unknown,
    /// Position of the function in the request.
    At(usize),
}

/// Returns the position in texts such as `tools[0]`, `tools.0`, and `tools[0].function_declarations[2]`.
fn position_in(text: &str) -> Option<usize> {
    let number = |rest: &str| -> Option<usize> {
        let rest = rest.strip_prefix(['[', '.'])?;
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    };
    let after = |names: &[&str]| {
        let mut rests = names.iter().flat_map(|name| text.split(name).skip(1));
        rests.find_map(number)
    };
    let place = after(&["tools"])?;
    // Some servers put all functions into one tool.
    Some(after(&["function_declarations", "functionDeclarations"]).unwrap_or(place))
}

/// Response with a status other than 2xx.
pub(super) struct Refusal {
    status: u16,
    retry_after: Option<Duration>,
    body: String,
    complaint: ProviderErrorBody,
}

impl Refusal {
    pub(super) async fn read(response: Response) -> Self {
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers(), SystemTime::now());
        let body = tokio::time::timeout(SHORT_TIMEOUT, read_capped(response, REFUSAL_BYTES_MAX));
        let body = body.await.unwrap_or_default();
        Self {
            status,
            retry_after,
            complaint: ProviderErrorBody::read(&body),
            body,
        }
    }

    /// Body of an error about calls of the model that the server could not parse.
    pub(super) fn failed_calls(&self) -> Option<&str> {
        self.complaint
            .has_failed_calls
            .then_some(self.body.as_str())
    }

    /// Returns `quirks` with one more rejected field. The server may accept the same request if that field is removed or renamed.
    /// Returns `None` if the error is not about such a field.
    #[expect(deprecated, reason = "most servers only know `max_tokens`")]
    pub(super) fn avoided_by(
        &self,
        request: &CreateChatCompletionRequest,
        members: &[String],
        quirks: Quirks,
    ) -> Option<Quirks> {
        // These statuses have a fixed meaning, regardless of the text.
        if matches!(self.status, 401 | 403 | 413 | 429) || self.status < 400 {
            return None;
        }
        let complaint = &self.complaint;
        let has_system = matches!(
            request.messages.first(),
            Some(ChatCompletionRequestMessage::System(_))
        );
        let has_limit = request.max_tokens.is_some() || request.max_completion_tokens.is_some();
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
            if request.max_tokens.is_some() && complaint.names("max_tokens") {
                return renamed(TokenLimitField::MaxCompletionTokens);
            }
            if request.max_completion_tokens.is_some() && complaint.names("max_completion_tokens") {
                return renamed(TokenLimitField::MaxTokens);
            }
        }
        let optional: [(bool, &str, Quirk); 7] = [
            (request.stream_options.is_some(), "stream_options", |q| {
                &mut q.no_stream_options
            }),
            (request.top_p.is_some(), "top_p", |q| &mut q.no_top_p),
            (request.temperature.is_some(), "temperature", |q| {
                &mut q.no_temperature
            }),
            (
                request.frequency_penalty.is_some(),
                "frequency_penalty",
                |q| &mut q.no_frequency_penalty,
            ),
            (
                request.presence_penalty.is_some(),
                "presence_penalty",
                |q| &mut q.no_presence_penalty,
            ),
            (request.seed.is_some(), "seed", |q| &mut q.no_seed),
            (
                request.reasoning_effort.is_some(),
                "reasoning_effort",
                |q| &mut q.no_reasoning_effort,
            ),
        ];
        let named = optional
            .into_iter()
            .find(|(is_sent, field, _)| *is_sent && complaint.names(field));
        if let Some((.., flag)) = named {
            let mut quirks = quirks;
            *flag(&mut quirks) = true;
            Some(quirks)
        } else if request.response_format.is_some() && complaint.is_about_response_format() {
            let format = match request.response_format {
                Some(ResponseFormat::JsonSchema { .. }) => FormatSupport::JsonObject,
                _ => FormatSupport::Plain,
            };
            Some(Quirks { format, ..quirks })
        } else if !quirks.no_vendor_members && complaint.refuses_members(members) {
            Some(Quirks {
                no_vendor_members: true,
                ..quirks
            })
        } else if !quirks.no_system && has_system && complaint.refuses_system() {
            Some(Quirks {
                no_system: true,
                ..quirks
            })
        } else if self.refuses_all_tools(request) {
            Some(Quirks {
                no_tools: true,
                ..quirks
            })
        } else {
            None
        }
    }

    /// Returns the kind of an error about the pictures of the request to `model`; `None` for any other error.
    pub(super) fn about_pictures(&self, model: &str) -> Option<PictureRefusal> {
        if self.overflow().is_some() {
            return Some(PictureRefusal::TooLarge);
        }
        self.may_be_about_pictures()
            .then(|| self.complaint.about_pictures(model))
            .flatten()
    }

    /// Kind of an error that names nothing. One of the server itself may have had nothing to do with the pictures.
    pub(super) fn unnamed(&self) -> PictureRefusal {
        if self.status >= 500 {
            PictureRefusal::Failed
        } else {
            PictureRefusal::Unclear
        }
    }

    /// Checks whether the server may accept the same request without pictures.
    pub(super) fn may_be_about_pictures(&self) -> bool {
        matches!(self.status, 400 | 404 | 405 | 406 | 415 | 422 | 500 | 501)
    }

    /// Checks whether the error means that the model does not support tools. An error about a function or its schema does not.
    fn refuses_all_tools(&self, request: &CreateChatCompletionRequest) -> bool {
        let (complaint, tools) = (&self.complaint, request.tools.as_deref());
        tools.is_some_and(|tools| {
            complaint.lacks_tools()
                && !complaint.names_function(tools)
                && !complaint.names_keyword()
        })
    }

    /// Checks whether the error is about a function or its schema, so that the server may accept simpler schemas.
    pub(super) fn is_about_functions(&self, request: &CreateChatCompletionRequest) -> bool {
        let tools = request.tools.as_deref();
        matches!(self.status, 400 | 404 | 422 | 500)
            && !self.complaint.is_about_context()
            && tools.is_some_and(|tools| {
                self.complaint.names_keyword() || self.complaint.names_function(tools)
            })
    }

    /// Checks whether the server may accept the same request with fewer functions.
    pub(super) fn refuses_tools(&self, request: &CreateChatCompletionRequest) -> bool {
        self.is_about_functions(request)
            || (matches!(self.status, 400 | 404 | 422 | 500)
                && !self.complaint.is_about_context()
                && request.tools.is_some()
                && self.complaint.lacks_tools())
    }

    /// Returns the name of the function that the error names.
    pub(super) fn named_function(&self, request: &CreateChatCompletionRequest) -> Option<String> {
        let tools = request.tools.as_deref().unwrap_or_default();
        match self.complaint.named_function(tools) {
            NamedFunction::At(at) => match &tools[at] {
                ChatCompletionTools::Function(tool) => Some(tool.function.name.clone()),
                ChatCompletionTools::Custom(_) => None,
            },
            NamedFunction::None | NamedFunction::Unknown => None,
        }
    }

    /// Sizes in an error about a prompt that is too large; `None` for any other error.
    pub(super) fn overflow(&self) -> Option<Overflow> {
        let is_overflow = self.status == 413
            || (matches!(self.status, 400 | 422 | 500) && self.complaint.is_about_context());
        is_overflow.then_some(self.complaint.overflow)
    }

    /// Checks whether the error means that the server does not have the model.
    pub(super) fn names_model(&self, model: &str) -> bool {
        let mentions_models = || self.complaint.message.to_lowercase().contains("model");
        match self.status {
            400 => self.complaint.names_model(model),
            404 => mentions_models() || self.complaint.names_model(model),
            _ => false,
        }
    }

    /// Checks whether the error means that the URL does not exist on the server.
    pub(super) fn is_missing_path(&self) -> bool {
        matches!(self.status, 404 | 405)
    }

    pub(super) fn error(&self, quotes: &Quotes) -> ModelError {
        self.complaint
            .error(Some(self.status), self.retry_after, quotes)
    }
}

/// Parses `Retry-After` in seconds or as a date (RFC 9110), or `retry-after-ms`; zero for a date in the past.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
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
