//! An answer as clients of the Responses API read it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
use uuid::Uuid;

use crate::{
    ids::{AgentId, ResponseId},
    model::Usage,
    tasks::TokenUsage,
};

fn word_or_object() -> Schema {
    OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::String))
        .item(ObjectBuilder::new().schema_type(Type::Object))
        .description(Some("As the request had it; `auto` where it said nothing."))
        .into()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    InProgress,
    Completed,
    /// The model's limit of output cut it.
    Incomplete,
    Failed,
}

/// A piece of what a message says.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct OutputText {
    /// Always `output_text`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub text: String,
    /// Always empty.
    #[schema(value_type = Vec<Object>)]
    pub annotations: [(); 0],
    /// Always empty.
    #[schema(value_type = Vec<Object>)]
    pub logprobs: [(); 0],
}

impl OutputText {
    pub fn new(text: String) -> Self {
        Self {
            kind: "output_text",
            text,
            annotations: [],
            logprobs: [],
        }
    }
}

/// What the model said, or a function that it wants to be called.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputItem {
    Message {
        /// `msg_…`; no message of a thread.
        id: String,
        /// Always `assistant`.
        role: &'static str,
        status: Status,
        content: Vec<OutputText>,
    },
    FunctionCall {
        /// `fc_…`
        id: String,
        /// Give it back in a `function_call_output`.
        call_id: String,
        name: String,
        /// JSON as the model wrote it, which need not be valid.
        arguments: String,
        status: Status,
    },
}

impl OutputItem {
    pub(super) fn message() -> Self {
        Self::Message {
            id: item_id("msg"),
            role: "assistant",
            status: Status::InProgress,
            content: Vec::new(),
        }
    }

    pub(super) fn call(call_id: String, name: String) -> Self {
        Self::FunctionCall {
            id: item_id("fc"),
            call_id,
            name,
            arguments: String::new(),
            status: Status::InProgress,
        }
    }

    pub(super) fn id(&self) -> &str {
        match self {
            Self::Message { id, .. } | Self::FunctionCall { id, .. } => id,
        }
    }
}

fn item_id(prefix: &str) -> String {
    format!("{prefix}_{}", Uuid::now_v7().simple())
}

#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct InputTokensDetails {
    pub cached_tokens: i64,
    pub cache_write_tokens: i64,
}

#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct OutputTokensDetails {
    pub reasoning_tokens: i64,
}

/// In tokens; an estimate where the provider does not count. Details that it does not give are 0.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ResponseUsage {
    pub input_tokens: i64,
    pub input_tokens_details: InputTokensDetails,
    pub output_tokens: i64,
    pub output_tokens_details: OutputTokensDetails,
    pub total_tokens: i64,
}

impl ResponseUsage {
    pub(super) fn new(usage: &TokenUsage, counted: Option<Usage>) -> Self {
        let counted = counted.unwrap_or_default();
        Self {
            input_tokens: usage.input_tokens,
            input_tokens_details: InputTokensDetails {
                cached_tokens: counted.cached_tokens,
                cache_write_tokens: counted.cache_write_tokens,
            },
            output_tokens: usage.output_tokens,
            output_tokens_details: OutputTokensDetails {
                reasoning_tokens: counted.reasoning_tokens,
            },
            total_tokens: usage.input_tokens + usage.output_tokens,
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Fault {
    /// `server_error`, `rate_limit_exceeded` or `invalid_prompt`.
    pub code: &'static str,
    pub message: String,
}

#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct IncompleteDetails {
    /// Always `max_output_tokens`.
    pub reason: &'static str,
}

#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct TextFormat {
    /// Always `text`.
    #[serde(rename = "type")]
    pub kind: &'static str,
}

#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct TextConfig {
    pub format: TextFormat,
}

/// An answer of the Responses API.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Response {
    pub id: ResponseId,
    /// Always `response`.
    pub object: &'static str,
    /// Seconds since 1970.
    pub created_at: i64,
    /// Seconds since 1970; null unless it is completed.
    pub completed_at: Option<i64>,
    pub status: Status,
    /// Always false.
    pub background: bool,
    /// Of a failed one.
    pub error: Option<Fault>,
    /// Of an incomplete one.
    pub incomplete_details: Option<IncompleteDetails>,
    /// As the request had them; an agent's own are not shown here.
    pub instructions: Option<String>,
    pub max_output_tokens: Option<u32>,
    pub metadata: BTreeMap<String, String>,
    /// The model that ran, which need not be the one that was asked for.
    pub model: String,
    /// In the order in which they began.
    pub output: Vec<OutputItem>,
    pub parallel_tool_calls: bool,
    pub previous_response_id: Option<ResponseId>,
    /// Whether it can be read again and continued.
    pub store: bool,
    /// Null: the provider's default.
    pub temperature: Option<f64>,
    pub text: TextConfig,
    /// As the request had it; `auto` where it said nothing.
    #[schema(schema_with = word_or_object)]
    pub tool_choice: Value,
    /// Functions that the model was offered, and what else the request named.
    #[schema(value_type = Vec<Object>)]
    pub tools: Vec<Value>,
    /// Null: the provider's default.
    pub top_p: Option<f64>,
    /// `auto` or `disabled`.
    pub truncation: &'static str,
    /// Null until it has ended.
    pub usage: Option<ResponseUsage>,
    pub user: Option<String>,
    /// Null when no agent was asked.
    pub agent_id: Option<AgentId>,
    /// The version that answered; a continuation keeps it.
    pub agent_version: Option<i64>,
}
