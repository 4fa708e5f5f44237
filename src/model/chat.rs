//! Requests to models, their responses, and the providers of models.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures::{FutureExt, Stream, future::BoxFuture};
use serde_json::{Map, Value};

use super::{
    embedded::{EmbedRequest, Embedded},
    picture::TurnPicture,
    tokens::{estimate_tokens, grouped},
    window::Window,
};

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
)]
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

/// Turn of a conversation. Roles alternate, and the first and last turns are the user's, because some chat templates reject anything
/// else.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ChatMessage {
    pub role: Role,
    /// Can be empty if there are calls, results, or pictures.
    pub content: String,
    /// Pictures in the content of a user's turn, in the order of their positions. They are never stored.
    #[serde(skip)]
    pub pictures: Vec<TurnPicture>,
    /// Tool calls of the assistant, after its text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// Results of tool calls, sent by the user before their text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ToolResult>,
    /// Members that the model's server sent with the calls and wants back.
    #[serde(default, skip_serializing_if = "VendorMembers::is_empty")]
    pub vendor: VendorMembers,
}

/// Members of an assistant's message beyond the protocol. Some servers reject later requests of the same work without them. They are
/// returned unchanged, and only to the model that sent them.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct VendorMembers {
    /// Reasoning of the message: some of `REASONING_MEMBERS`.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub message: Map<String, Value>,
    /// Unknown members of each call; missing at the end for calls without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Map<String, Value>>,
}

/// Members of messages in which servers send reasoning.
pub const REASONING_MEMBERS: [&str; 3] = ["reasoning_details", "reasoning_content", "reasoning"];

impl VendorMembers {
    pub fn is_empty(&self) -> bool {
        self.message.is_empty() && self.calls.iter().all(Map::is_empty)
    }

    /// Size as JSON, in bytes.
    pub fn bytes(&self) -> usize {
        let members = || self.calls.iter().chain([&self.message]).flatten();
        members()
            .map(|(name, value)| name.len() + value.to_string().len())
            .sum()
    }

    /// Estimated size in tokens.
    pub fn tokens(&self) -> u64 {
        let members = || self.calls.iter().chain([&self.message]).flatten();
        members()
            .map(|(_, value)| match value {
                Value::String(text) => estimate_tokens(text),
                other => estimate_tokens(&other.to_string()),
            })
            .sum()
    }
}

impl ChatMessage {
    /// Creates a turn with text only.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            pictures: Vec::new(),
            calls: Vec::new(),
            results: Vec::new(),
            vendor: VendorMembers::default(),
        }
    }
}

impl ChatMessage {
    /// Puts a text before the content. Pictures keep their places.
    pub fn prepend(&mut self, text: &str) {
        self.content.insert_str(0, text);
        for picture in &mut self.pictures {
            picture.at += text.len();
            picture.unsent_at += text.len();
        }
    }
}

/// Tool call by the assistant.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ToolCall {
    /// ID of the call, assigned by the model; the result refers to it.
    pub id: String,
    pub name: String,
    /// JSON as written by the model, possibly invalid.
    pub arguments: String,
}

/// Result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ToolResult {
    pub call_id: String,
    pub content: String,
}

/// Function that the model can call; the client runs it.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionTool {
    /// Letters, digits, `_`, and `-`.
    pub name: String,
    pub description: Option<String>,
    /// JSON schema of the arguments.
    pub parameters: Option<Value>,
    /// True if the arguments must match the schema exactly; `None` for the default of the server.
    pub strict: Option<bool>,
}

/// A function that a request leaves out, because the model's server has rejected it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct RefusedFunction {
    pub name: String,
    /// The server's reason.
    pub reason: String,
}

/// A rejected definition.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    pub definition: FunctionTool,
    /// The server's reason.
    pub reason: String,
}

impl From<&Refused> for RefusedFunction {
    fn from(refused: &Refused) -> Self {
        Self {
            name: refused.definition.name.clone(),
            reason: refused.reason.clone(),
        }
    }
}

/// Controls whether the model can, must, or must not call a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    #[default]
    Auto,
    None,
    /// The model must call at least one tool.
    Required,
    /// The model must call the tool with this name.
    Function(String),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChatRequest {
    pub model: String,
    pub system: String,
    pub turns: Vec<ChatMessage>,
    /// Reply of the built-in responder, if the caller has prepared one; other providers ignore it.
    pub ready: Option<String>,
    /// Output limit in tokens; `None` for the default of the server.
    pub max_output_tokens: Option<u32>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub frequency_penalty: Option<f64>,
    pub presence_penalty: Option<f64>,
    /// Seed of the model's random numbers.
    pub seed: Option<i64>,
    /// Schema of the response. Not sent to models that do not support a schema, so the response must be parsed leniently.
    pub json_schema: Option<JsonSchema>,
    /// Format that the client requires, instead of `json_schema`. Allowed only if `Provider::takes_json` is true for the model. If
    /// the server rejects the format, the call fails instead of being repeated without it.
    pub required_format: Option<RequiredFormat>,
    /// Stop sequences, before which the response ends.
    pub stop: Vec<String>,
    /// Reasoning effort; not sent to models that do not support it.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Tools; allowed only if `Provider::takes_tools` is true for the model.
    pub tools: Vec<FunctionTool>,
    /// Tool choice; ignored if there are no tools.
    pub tool_choice: ToolChoice,
    /// False to allow at most one call per response; `None` for the server's default.
    pub parallel_tool_calls: Option<bool>,
    /// True if the call must fail when the server rejects tools, instead of being repeated without them.
    pub tools_required: bool,
    /// Handling of the pictures in the turns.
    pub pictures: PictureUse,
    /// True for a connection test.
    pub is_test: bool,
    /// Slot from `Provider::place`.
    pub place: Place,
}

/// Handling of the pictures in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PictureUse {
    /// They are sent if the model may be able to see them. If the server rejects them, the request is repeated without them.
    #[default]
    IfPossible,
    /// The call fails if the server rejects them.
    Required,
    /// They are replaced with text, because all attempts with them have failed.
    LeftOut,
}

/// A slot for a concurrent call to a server. It is released when all clones are dropped.
#[derive(Clone, Default)]
pub struct Place(Option<Arc<dyn std::any::Any + Send + Sync>>);

impl Place {
    pub fn of<T: std::any::Any + Send + Sync>(taken: T) -> Self {
        Self(Some(Arc::new(taken)))
    }

    /// Returns the value from which the slot was created, if its type is `T`.
    pub fn get<T: std::any::Any>(&self) -> Option<&T> {
        self.0.as_deref()?.downcast_ref()
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "taken" } else { "none" })
    }
}

/// All slots are equal, so that requests can be compared without them.
impl PartialEq for Place {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl ChatRequest {
    /// Estimated size of the system text and the turns.
    pub fn prompt_tokens(&self) -> u64 {
        let turns = self.turns.iter().map(|turn| {
            let pictures = turn.pictures.iter().map(|picture| picture.tokens);
            estimate_tokens(&turn.content) + pictures.sum::<u64>()
        });
        estimate_tokens(&self.system) + turns.sum::<u64>()
    }
}

/// JSON schema with a name, which servers require.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonSchema {
    /// Letters, digits, `_`, and `-`.
    pub name: &'static str,
    pub schema: Arc<Value>,
}

/// JSON format of a response.
#[derive(Debug, Clone, PartialEq)]
pub enum RequiredFormat {
    JsonObject,
    JsonSchema {
        /// Letters, digits, `_`, and `-`.
        name: String,
        description: Option<String>,
        schema: Value,
        /// True if the response must match the schema exactly; `None` for the default of the server.
        strict: Option<bool>,
    },
}

impl RequiredFormat {
    /// Estimated size of the schema, which servers add to the prompt.
    pub fn prompt_tokens(&self) -> u64 {
        match self {
            Self::JsonObject => 0,
            Self::JsonSchema {
                description,
                schema,
                ..
            } => {
                estimate_tokens(description.as_deref().unwrap_or_default())
                    + estimate_tokens(&schema.to_string())
            }
        }
    }
}

/// Amount of reasoning before a response.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub input_tokens: i64,
    pub output_tokens: i64,
    /// Input tokens read from the provider's cache; 0 if unknown.
    pub cached_tokens: i64,
    /// Input tokens written to the provider's cache; 0 if unknown.
    pub cache_write_tokens: i64,
    /// Output tokens used for reasoning; 0 if unknown.
    pub reasoning_tokens: i64,
}

impl Usage {
    /// Returns the larger of each count.
    #[must_use]
    pub fn larger(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.max(other.input_tokens),
            output_tokens: self.output_tokens.max(other.output_tokens),
            cached_tokens: self.cached_tokens.max(other.cached_tokens),
            cache_write_tokens: self.cache_write_tokens.max(other.cache_write_tokens),
            reasoning_tokens: self.reasoning_tokens.max(other.reasoning_tokens),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The model finished its response.
    Complete,
    /// The response reached the output limit.
    Length,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// Part of the text; never empty.
    Text(String),
    /// All text so far was reasoning, so it must be removed. Never sent after a tool call.
    Discard,
    /// Part of a tool call; only for requests with tools, and for at most `openai::CALLS_MAX` calls.
    ToolCall(ToolCallPiece),
    /// Chunk without content, such as reasoning or a comment. It shows that the model is still working.
    Alive,
    /// Members of a message with calls that must be returned; sent at most once, before the end.
    Vendor(VendorMembers),
    Usage(Usage),
    /// End of the response. Sent once; only `Usage` can follow. A stream that ends without this is incomplete.
    Stop(StopReason),
}

/// Part of a tool call. The first part starts the call; all others append to its arguments. Parts of several calls can be
/// interleaved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallPiece {
    /// Index of the call in the response, from 0, without gaps.
    pub index: usize,
    /// In the first part: ID and function name, both non-empty.
    pub begins: Option<CallHead>,
    /// Next part of the arguments; can be empty.
    pub arguments: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallHead {
    pub id: String,
    pub name: String,
}

/// Failure of a model call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    #[error("the provider's rate limit was exceeded")]
    RateLimited { retry_after: Option<Duration> },
    /// Status 500, 502, 503, 504, or 529, or no connection.
    #[error("the provider is unavailable: {0}")]
    Unavailable(String),
    #[error("the prompt is too large for the model")]
    ContextTooLarge,
    /// Any other 4xx status.
    #[error("the provider rejected the request: {0}")]
    BadRequest(String),
    /// Status 400 or 404 with the name of the model in the error. The model list has been requested again.
    #[error("the provider rejected the request: {0}")]
    ModelMissing(String),
    /// Any other 4xx status, or 500, whose error names a function or mentions tools. Only for requests with
    /// `tools_required`.
    #[error("the provider rejected the request: {detail}")]
    ToolsRefused {
        detail: String,
        /// Name of the function that the error names.
        function: Option<String>,
    },
    /// Status 401 or 403.
    #[error("the provider rejected the credentials: {0}")]
    Auth(String),
    /// The connection was lost, or the stream ended without a finish reason or contained an error.
    #[error("the response stream failed: {0}")]
    Broken(String),
    /// A complete response without text or tool calls.
    #[error("the model returned an empty reply")]
    Empty,
    /// A complete response that contains only reasoning.
    #[error("the model used its whole answer for thinking: allow more than {} tokens", grouped(u64::from(*.output_tokens_max)))]
    ThoughtOnly { output_tokens_max: u32 },
}

pub type DeltaStream = Pin<Box<dyn Stream<Item = Result<Delta, ModelError>> + Send>>;

/// Source of model responses. Dropping the future or the stream ends the call to the server.
pub trait Provider: Send + Sync {
    /// Display name, also used in logs: `builtin`, or the host of the base URL.
    fn name(&self) -> &str;

    /// Returns true if this provider has no language model.
    fn is_offline(&self) -> bool {
        false
    }

    /// Chooses the model for an agent that requests `wanted`: `OPENVIBE_MODEL` if set; otherwise `wanted` if the provider
    /// has it; otherwise the default of the provider.
    fn choose_model<'a>(&'a self, wanted: Option<&'a str>) -> BoxFuture<'a, String>;

    /// The model that replies for an agent that requests `wanted`; `None` if there is no language model. Uses the server's cached
    /// model list, regardless of its age. If there is no list, it is requested from the server, with the same delays as after
    /// failures, and concurrent callers wait for that request.
    fn effective_model<'a>(&'a self, wanted: Option<&'a str>) -> BoxFuture<'a, Option<String>>;

    /// The model that every agent uses, regardless of its profile: `OPENVIBE_MODEL`, or the model in the settings.
    fn override_model(&self) -> Option<&str> {
        None
    }

    /// Number of listed models among which an admin has to choose. `None` if a model is set, or if at most one of them can chat.
    fn undecided(&self) -> BoxFuture<'_, Option<usize>> {
        std::future::ready(None).boxed()
    }

    /// The small model for summaries, or `main` (the agent's model) if there is none.
    fn utility_model<'a>(&'a self, main: &'a str) -> BoxFuture<'a, String>;

    /// Checks whether clients can request `model` by its name. While the server's models are unknown, every name is
    /// accepted.
    fn has_model<'a>(&'a self, model: &'a str) -> BoxFuture<'a, bool>;

    /// Checks whether the server's list of models contains `model`.
    fn lists_model<'a>(&'a self, model: &'a str) -> BoxFuture<'a, bool>;

    /// Context window of `model`: from the model table; if it is not in the table, `OPENVIBE_CONTEXT_WINDOW`; otherwise the window
    /// that the server reports; otherwise an assumed one. For an open-weight model in the built-in table, the setting or the reported
    /// window is used if it is smaller. A smaller window stated in an error from the server overrides all of these; any stated window
    /// replaces an assumed one.
    fn window<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Window>;

    /// Waits for a slot for a concurrent call to the server. A request without a slot is sent anyway.
    fn place(&self) -> BoxFuture<'_, Place> {
        std::future::ready(Place::default()).boxed()
    }

    /// Checks whether `model` supports tools. A model that is not in the table is assumed to support them unless it has rejected
    /// them.
    fn takes_tools(&self, model: &str) -> bool;

    /// Checks whether `model` can see pictures: by the model table, by the server's list of models, and by its rejections in the last 24
    /// hours. Otherwise, true.
    fn takes_pictures(&self, _model: &str) -> bool {
        false
    }

    /// Checks whether the server of `model` leaves calls in the text, because it does not parse the model's format.
    fn leaves_calls_in_text(&self, _model: &str) -> bool {
        false
    }

    /// Functions among `tools` that the server of `model` has rejected in the last 7 days.
    fn refused_functions(&self, _model: &str, _tools: &[FunctionTool]) -> Vec<RefusedFunction> {
        Vec::new()
    }

    /// Remembers that the server of `model` accepts requests only without these functions.
    fn note_refused<'a>(&'a self, _model: &'a str, _refused: &'a [Refused]) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }

    /// Checks whether `model` supports JSON response formats; true for unknown models.
    fn takes_json(&self, model: &str) -> bool;

    /// Fields for sampling and reasoning that the request contains, but that are not sent because the model does not support them.
    fn unsent(&self, _request: &ChatRequest) -> Vec<&'static str> {
        Vec::new()
    }

    /// Cost of a call in US dollars, if the model table has prices.
    fn cost_usd(&self, model: &str, usage: Usage) -> Option<f64>;

    fn stream(&self, request: ChatRequest) -> BoxFuture<'_, Result<DeltaStream, ModelError>>;

    /// Requests the vectors of texts.
    fn embed(&self, _request: EmbedRequest) -> BoxFuture<'_, Result<Embedded, ModelError>> {
        let text = "no model server is connected".to_owned();
        std::future::ready(Err(ModelError::Unavailable(text))).boxed()
    }
}

/// Storage for facts about models that their servers revealed: rejected fields, context windows, token counts.
pub trait FactStore: Send + Sync {
    /// Models of `server` with their facts as JSON. Empty if they cannot be read.
    fn load<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Vec<(String, String)>>;

    /// Replaces the facts about a model.
    fn save<'a>(&'a self, server: &'a str, model: &'a str, facts: String) -> BoxFuture<'a, ()>;
}

/// Store that stores nothing.
pub struct NoStore;

impl FactStore for NoStore {
    fn load<'a>(&'a self, _server: &'a str) -> BoxFuture<'a, Vec<(String, String)>> {
        std::future::ready(Vec::new()).boxed()
    }

    fn save<'a>(&'a self, _server: &'a str, _model: &'a str, _facts: String) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }
}
