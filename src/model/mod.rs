//! Language models: a prompt in, pieces of text out.
//!
//! Imports nothing of ours. `Provider` has two implementations: `openai` speaks the chat-completions
//! protocol to any base URL; `builtin` answers offline by extraction.

pub mod builtin;
mod collect;
pub mod extract;
pub mod openai;
pub mod table;

use std::{path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use futures::{Stream, future::BoxFuture};
use reqwest::Url;

pub use self::collect::{CollectError, Collected, Limits, collect};

use self::{
    builtin::Builtin,
    openai::{Endpoint, OpenAi},
    table::{Table, TableError},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Assistant,
}

impl Role {
    pub fn text(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One turn of a conversation. Roles alternate, from `User` to `User` (some chat templates refuse anything else).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Turn {
    pub role: Role,
    /// May be empty beside calls or results.
    pub content: String,
    /// Of the assistant: the tools that it calls after what it says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// Of the user: what the called tools gave; it comes before what the user says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ToolResult>,
}

impl Turn {
    /// What someone says.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            calls: Vec::new(),
            results: Vec::new(),
        }
    }
}

/// A call of a tool that the assistant made.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ToolCall {
    /// The model's own id of the call; its result names it.
    pub id: String,
    pub name: String,
    /// JSON as the model wrote it, which need not be valid.
    pub arguments: String,
}

/// What a called tool gave.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ToolResult {
    pub call_id: String,
    pub content: String,
}

/// A function that whoever asks can run; the model may call it.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionTool {
    /// Letters, digits, `_` and `-`.
    pub name: String,
    pub description: Option<String>,
    /// A JSON schema of the arguments.
    pub parameters: Option<serde_json::Value>,
    /// Whether the arguments have to keep to the schema exactly; `None` leaves it to the server.
    pub strict: Option<bool>,
}

/// Whether the model may, must or must not call a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    #[default]
    Auto,
    None,
    /// Any of them.
    Required,
    /// The one of this name.
    Function(String),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChatRequest {
    pub model: String,
    pub system: String,
    pub turns: Vec<Turn>,
    /// `None` leaves it to the server.
    pub max_output_tokens: Option<u32>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    /// The form that the answer should have; a model that cannot promise one gets the request without it, so the answer has to
    /// be read leniently all the same.
    pub json_schema: Option<JsonSchema>,
    /// `Provider::takes_tools` says whether the model knows what to do with them.
    pub tools: Vec<FunctionTool>,
    /// Counts only beside tools.
    pub tool_choice: ToolChoice,
    /// False: at most one call in an answer. `None` leaves it to the server.
    pub parallel_tool_calls: Option<bool>,
}

/// A JSON schema with the name that servers want for it.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonSchema {
    /// Letters, digits, `_` and `-`.
    pub name: &'static str,
    pub schema: Arc<serde_json::Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub input_tokens: i64,
    pub output_tokens: i64,
    /// Of the input: read from the provider's cache. 0 where it does not say.
    pub cached_tokens: i64,
    /// Of the input: written to the provider's cache. 0 where it does not say.
    pub cache_write_tokens: i64,
    /// Of the output: spent on thinking. 0 where it does not say.
    pub reasoning_tokens: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The model had said what it wanted to say.
    Complete,
    /// The model's own limit of output cut it.
    Length,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// A piece of the answer; never empty.
    Text(String),
    /// A piece of a call of a tool; only after a request with tools, and only as many as `openai::CALLS_MAX` calls.
    ToolCall(ToolCallPiece),
    /// Something that shows the model is alive but is no answer (reasoning, a comment).
    Alive,
    Usage(Usage),
    /// Comes once, last but for `Usage`. A stream that ends without it is broken.
    Stop(StopReason),
}

/// The first piece of a call begins it; further ones only add to its arguments. Pieces of several
/// calls may be mixed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallPiece {
    /// Which call of the answer, from 0, without gaps.
    pub index: usize,
    /// Of the first piece: the call's id and the function's name; neither is empty.
    pub begins: Option<CallHead>,
    /// What comes next in the arguments; may be empty.
    pub arguments: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallHead {
    pub id: String,
    pub name: String,
}

/// What went wrong with one call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    #[error("the provider's rate limit is reached")]
    RateLimited { retry_after: Option<Duration> },
    /// 500, 502, 503, 504, 529, no connection.
    #[error("the provider is unavailable: {0}")]
    Unavailable(String),
    #[error("the prompt is too large for the model")]
    ContextTooLarge,
    /// Any other 4xx.
    #[error("the provider refused the request: {0}")]
    BadRequest(String),
    /// 401, 403.
    #[error("the provider refused the credentials: {0}")]
    Auth(String),
    /// The stream broke, ended without a finish reason, or carried an error object.
    #[error("the stream broke: {0}")]
    Broken(String),
    /// A whole answer with neither text nor a call of a tool.
    #[error("the model answered with nothing")]
    Empty,
}

pub type DeltaStream = Pin<Box<dyn Stream<Item = Result<Delta, ModelError>> + Send>>;

/// Dropping the future or the stream ends the call upstream.
pub trait Provider: Send + Sync {
    /// For people and logs: `builtin`, or the host of the base URL.
    fn name(&self) -> &str;

    /// Whether it answers without a language model.
    fn is_offline(&self) -> bool {
        false
    }

    /// The model that runs when an agent wants `wanted`: `OPENVIBE_MODEL` if set; else `wanted`, when the provider
    /// has it; else the provider's default (PROTOCOL §5).
    fn choose_model<'a>(&'a self, wanted: Option<&'a str>) -> BoxFuture<'a, String>;

    /// The model that replies for an agent that wants `wanted`; `None` without a language model. Uses a list of the server's
    /// models of any age; while there is none, the server is asked at most every five minutes, and callers during that attempt
    /// wait for it to end.
    fn effective_model<'a>(&'a self, wanted: Option<&'a str>) -> BoxFuture<'a, Option<String>>;

    /// The model that every agent uses, whatever its profile asks for: `OPENVIBE_MODEL`.
    fn override_model(&self) -> Option<&str> {
        None
    }

    /// The small model for summaries; `main`, the one that runs the agent, where there is none.
    fn utility_model<'a>(&'a self, main: &'a str) -> BoxFuture<'a, String>;

    /// Context window of `model` in tokens.
    fn context_window(&self, model: &str) -> u64;

    /// Whether `model` may be offered tools; true for one that nothing is known about.
    fn takes_tools(&self, model: &str) -> bool;

    /// US dollars for a call, where the model table knows prices.
    fn cost_usd(&self, model: &str, usage: Usage) -> Option<f64>;

    fn stream(&self, request: ChatRequest) -> BoxFuture<'_, Result<DeltaStream, ModelError>>;
}

/// The settings that choose a provider (PROTOCOL §6), as they stand there; blank ones count as unset.
#[derive(Clone, Default)]
pub struct ModelSettings {
    pub base_url: Option<String>,
    pub api_key: Option<String>,
    pub anthropic_api_key: Option<String>,
    pub openai_api_key: Option<String>,
    pub model: Option<String>,
    pub utility_model: Option<String>,
    pub models_file: Option<PathBuf>,
}

impl std::fmt::Debug for ModelSettings {
    /// Shows which keys are set, never what they are.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = |value: &Option<String>| if value.is_some() { "[hidden]" } else { "none" };
        // A name and password may stand before the host.
        let base_url = self
            .base_url
            .as_deref()
            .map(|url| match url.rsplit_once('@') {
                Some((_, host)) => format!("[hidden]@{host}"),
                None => url.to_owned(),
            });
        f.debug_struct("ModelSettings")
            .field("base_url", &base_url)
            .field("api_key", &key(&self.api_key))
            .field("anthropic_api_key", &key(&self.anthropic_api_key))
            .field("openai_api_key", &key(&self.openai_api_key))
            .field("model", &self.model)
            .field("utility_model", &self.utility_model)
            .field("models_file", &self.models_file)
            .finish()
    }
}

/// Why no provider can be made of the settings.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(
        "OPENVIBE_MODEL_BASE_URL is `{0}`; it takes an http or https address such as `http://127.0.0.1:8000/v1`"
    )]
    BaseUrl(String),
    #[error("the API key for {0} holds characters that no HTTP header can carry")]
    ApiKey(String),
    #[error("the HTTP client for the model cannot be made: {0}")]
    Client(reqwest::Error),
    #[error(transparent)]
    Table(#[from] TableError),
}

/// The provider that the settings choose: the base URL; else Anthropic's or `OpenAI`'s by its key; else
/// the built-in one, which needs nothing. Keys are sent to nobody but their owner: a base URL of one's
/// own gets only `api_key`.
///
/// # Errors
/// `SetupError`, with the setting to change.
pub fn from_settings(settings: ModelSettings) -> Result<Arc<dyn Provider>, SetupError> {
    let set = |value: Option<String>| value.map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
    let table = match settings
        .models_file
        .filter(|path| !path.as_os_str().is_empty())
    {
        Some(path) => Table::read(&path)?,
        None => Table::built_in()?,
    };
    let makers = [
        ("anthropic", set(settings.anthropic_api_key)),
        ("openai", set(settings.openai_api_key)),
    ];
    let key_of = |maker: &str| {
        makers
            .iter()
            .find(|(name, _)| *name == maker)
            .and_then(|(_, key)| key.clone())
    };
    let own_key = set(settings.api_key);
    let (base_url, api_key) = if let Some(text) = set(settings.base_url) {
        let base_url = Url::parse(&text)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or(SetupError::BaseUrl(text))?;
        let maker_key = table.maker_at(&base_url).and_then(|(name, _)| key_of(name));
        (base_url, own_key.or(maker_key))
    } else {
        let known = makers.iter().find_map(|(name, key)| {
            Some((table.maker(name)?.base_url.clone(), Some(key.clone()?)))
        });
        match known {
            Some(known) => known,
            None => return Ok(Arc::new(Builtin::default())),
        }
    };
    Ok(Arc::new(OpenAi::new(Endpoint {
        base_url,
        api_key,
        model: set(settings.model),
        utility_model: set(settings.utility_model),
        table,
    })?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(settings: ModelSettings) -> String {
        let _ = rustls::crypto::ring::default_provider().install_default();
        from_settings(settings).unwrap().name().to_owned()
    }

    #[test]
    fn the_base_url_goes_before_the_keys_and_without_any_the_server_answers_itself() {
        let some = |text: &str| Some(text.to_owned());
        let keys = ModelSettings {
            anthropic_api_key: some("a"),
            openai_api_key: some("o"),
            ..ModelSettings::default()
        };
        let openai = ModelSettings {
            anthropic_api_key: some(" "),
            ..keys.clone()
        };
        let local = ModelSettings {
            base_url: some("http://127.0.0.1:9/v1"),
            ..keys.clone()
        };
        assert_eq!(name(keys), "api.anthropic.com");
        assert_eq!(name(openai), "api.openai.com");
        assert_eq!(name(local), "127.0.0.1:9");
        let blank = ModelSettings {
            base_url: some(""),
            ..ModelSettings::default()
        };
        assert_eq!(name(blank), "builtin");
    }

    #[test]
    fn a_base_url_that_is_none_is_named_in_the_error() {
        for text in ["127.0.0.1:8000", "ftp://a.example", "/v1"] {
            let base_url = Some(text.to_owned());
            let settings = ModelSettings {
                base_url,
                ..ModelSettings::default()
            };
            let error = from_settings(settings).err().unwrap().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
