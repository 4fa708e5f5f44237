//! The response object of the Responses API.

use std::collections::BTreeMap;

use async_openai::types::responses;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};

use crate::{
    ids::{AgentId, FileId, ResponseId},
    model::{Usage, VendorMembers},
    responses::{form::Truncation, format::TextFormat},
    tasks::TokenUsage,
    text_enum::{constant, text_enum},
};

fn word_or_object() -> Schema {
    OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::String))
        .item(ObjectBuilder::new().schema_type(Type::Object))
        .description(Some("As in the request; `auto` by default."))
        .into()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    InProgress,
    Completed,
    /// The output limit cut off the reply.
    Incomplete,
    Failed,
}

constant! { pub(super) OutputTextType = "output_text" }

/// A text part of a message.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct OutputText {
    #[serde(rename = "type")]
    #[schema(inline)]
    pub kind: OutputTextType,
    pub text: String,
    pub annotations: Vec<TextAnnotation>,
    /// Always empty.
    #[schema(value_type = Vec<Object>)]
    pub logprobs: [(); 0],
}

constant! { pub UrlCitationType = "url_citation" }

/// A sentence and a message that supports it.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(super) struct UrlCitation {
    #[serde(rename = "type")]
    #[schema(inline)]
    pub kind: UrlCitationType,
    #[serde(flatten)]
    pub cited: CitedMessage,
}

/// Range of a sentence in characters, and a message that supports it.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CitedMessage {
    pub start_index: usize,
    pub end_index: usize,
    /// Author, channel, and date.
    pub title: String,
    /// Link to the message.
    pub url: String,
}

constant! { pub(super) FileCitationType = "file_citation" }

/// A passage of a file that supports the sentence before `[n]`.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(super) struct FileCitation {
    #[serde(rename = "type")]
    #[schema(inline)]
    pub kind: FileCitationType,
    /// Position of `[n]` in the text, in characters.
    pub index: usize,
    pub file_id: FileId,
    pub filename: String,
}

/// A citation of a message, or of a passage of a file.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only for the API document, like `OutputItem`")]
pub(super) enum TextAnnotation {
    Message(UrlCitation),
    File(FileCitation),
}

constant! { pub(super) FileSearchStatus = "completed" }

/// A passage that a search has found.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct FileSearchResult {
    pub file_id: FileId,
    pub filename: String,
    /// Share of the score of the best hit.
    pub score: f32,
    pub text: String,
    #[schema(value_type = Object)]
    pub attributes: Value,
}

constant! { pub AssistantRole = "assistant" }

/// A message, a function call for the client to run, or a search in vector stores.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    dead_code,
    reason = "only for the API document: `draft` creates items with the types of `async-openai`, which have no schema"
)]
pub(super) enum OutputItem {
    Message {
        /// `msg_…`; not the ID of a message in a thread.
        id: String,
        #[schema(inline)]
        role: AssistantRole,
        status: Status,
        content: Vec<OutputText>,
    },
    FunctionCall {
        /// ID of the item: `fc_…`.
        id: String,
        /// ID of the call, to be returned in the `function_call_output`.
        call_id: String,
        /// Namespace of the function, if the request has it in one.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false)]
        namespace: Option<String>,
        name: String,
        /// Arguments as JSON, as written by the model; may be invalid.
        arguments: String,
        status: Status,
    },
    FileSearchCall {
        /// `fs_…`
        id: String,
        queries: Vec<String>,
        #[schema(inline)]
        status: FileSearchStatus,
        /// Present if `include` has `file_search_call.results`; not stored.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false)]
        results: Option<Vec<FileSearchResult>>,
    },
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

/// Usage in tokens; estimated if the provider does not report it. Details that the provider does not
/// report are 0.
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

text_enum! {
    /// Cause of a failed response.
    pub enum FaultCode {
        ServerError = "server_error",
        RateLimitExceeded = "rate_limit_exceeded",
        InvalidPrompt = "invalid_prompt",
        ContextLengthExceeded = "context_length_exceeded",
        ModelNotFound = "model_not_found",
        InsufficientQuota = "insufficient_quota",
    }
}

/// Reason why the response failed.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Fault {
    pub code: FaultCode,
    pub message: String,
}

constant! { pub MaxOutputTokens = "max_output_tokens" }

#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct IncompleteDetails {
    #[schema(inline)]
    pub reason: MaxOutputTokens,
}

#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct TextConfig {
    pub format: TextFormat,
}

constant! { pub ResponseObject = "response" }

/// A response of the Responses API.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Response {
    pub id: ResponseId,
    #[schema(inline)]
    pub object: ResponseObject,
    /// Creation time, in seconds since the Unix epoch.
    pub created_at: i64,
    /// Seconds since the Unix epoch; null unless the response is completed.
    pub completed_at: Option<i64>,
    pub status: Status,
    /// Always false.
    pub background: bool,
    /// Set if the response failed.
    pub error: Option<Fault>,
    /// Set if the response is incomplete.
    pub incomplete_details: Option<IncompleteDetails>,
    /// Instructions from the request; an agent's own instructions are not included.
    pub instructions: Option<String>,
    pub max_output_tokens: Option<u32>,
    pub metadata: BTreeMap<String, String>,
    /// The model that was used, which may differ from the requested one.
    pub model: String,
    /// Items in the order in which they began.
    #[schema(value_type = Vec<OutputItem>)]
    pub output: Vec<responses::OutputItem>,
    pub parallel_tool_calls: bool,
    pub previous_response_id: Option<ResponseId>,
    /// True if the response can be retrieved and continued.
    pub store: bool,
    /// Null means the provider's default.
    pub temperature: Option<f64>,
    pub text: TextConfig,
    /// As in the request; `auto` by default.
    #[schema(schema_with = word_or_object)]
    pub tool_choice: Value,
    /// Tools that were offered to the model: functions of the request and of the agent, and tools of the agent that run on the server.
    #[schema(value_type = Vec<Object>)]
    pub tools: Vec<Value>,
    /// Null means the provider's default.
    pub top_p: Option<f64>,
    /// `auto` or `disabled`.
    pub truncation: Truncation,
    /// Null until the response has ended.
    pub usage: Option<ResponseUsage>,
    pub user: Option<String>,
    /// Null if no agent was used.
    pub agent_id: Option<AgentId>,
    /// The agent version that replied. Responses that continue this one use the same version.
    pub agent_version: Option<i64>,
    /// Members of the model's message that only chat completions contain.
    #[serde(skip)]
    #[schema(ignore)]
    pub(super) vendor: VendorMembers,
}
