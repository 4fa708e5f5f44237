//! Language models: a prompt in, pieces of text out.
//!
//! Imports nothing of ours. `Provider` has two implementations: `openai` speaks the chat-completions
//! protocol to any base URL; `builtin` answers offline by extraction.

use std::{pin::Pin, time::Duration};

use futures::{Stream, future::BoxFuture};

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Assistant,
}

/// One turn of a conversation. Roles alternate, from `User` to `User` (some chat templates refuse anything else).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Turn {
    pub role: Role,
    pub content: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    pub model: String,
    pub system: String,
    pub turns: Vec<Turn>,
    pub max_output_tokens: u32,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub input_tokens: i64,
    pub output_tokens: i64,
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
    /// Something that shows the model is alive but is no answer (reasoning, a comment).
    Alive,
    Usage(Usage),
    /// Comes once, last but for `Usage`. A stream that ends without it is broken.
    Stop(StopReason),
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
    /// A whole answer without text.
    #[error("the model answered with nothing")]
    Empty,
}

pub type DeltaStream = Pin<Box<dyn Stream<Item = Result<Delta, ModelError>> + Send>>;

/// Dropping the future or the stream ends the call upstream.
pub trait Provider: Send + Sync {
    /// For people and logs: `builtin`, or the host of the base URL.
    fn name(&self) -> &str;

    /// The model that runs when an agent wants `wanted`: `OPENVIBE_MODEL` if set; else `wanted`, when the provider
    /// has it; else the provider's default (PROTOCOL §5).
    fn choose_model<'a>(&'a self, wanted: Option<&'a str>) -> BoxFuture<'a, String>;

    /// The small model for summaries; the main one where there is none.
    fn utility_model(&self) -> BoxFuture<'_, String>;

    /// Context window of `model` in tokens.
    fn context_window(&self, model: &str) -> u64;

    /// US dollars for a call, where the model table knows prices.
    fn cost_usd(&self, model: &str, usage: Usage) -> Option<f64>;

    fn stream(&self, request: ChatRequest) -> BoxFuture<'_, Result<DeltaStream, ModelError>>;
}
