//! The completion object: a response of the Responses API in the format of chat completions.

use async_openai::types::responses::{OutputItem, OutputMessageContent};
use serde::Serialize;
use serde_json::{Map, Value};

use super::super::object::{AssistantRole, CitedMessage, Response, ResponseUsage, UrlCitationType};
use crate::model::VendorMembers;
use crate::text_enum::{constant, text_enum};

constant! { pub CompletionObject = "chat.completion" }
constant! { pub FunctionType = "function" }

text_enum! {
    /// Reason why the reply ended.
    pub enum FinishReason {
        Stop = "stop",
        /// The output limit cut off the reply.
        Length = "length",
        /// The client has to run function calls.
        ToolCalls = "tool_calls",
    }
}

/// A chat completion.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ChatCompletion {
    /// ID of the completion: `chatcmpl-…`.
    pub id: String,
    #[schema(inline)]
    pub object: CompletionObject,
    /// Creation time, in seconds since the Unix epoch.
    pub created: i64,
    /// The model that was used, which may differ from the requested one.
    pub model: String,
    /// Choices; always exactly one.
    pub choices: Vec<CompletionChoice>,
    pub usage: Option<CompletionUsage>,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct CompletionChoice {
    /// Always 0.
    pub index: u32,
    pub message: CompletionMessage,
    /// Always null.
    #[schema(value_type = Option<Object>)]
    pub logprobs: Option<()>,
    pub finish_reason: FinishReason,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct CompletionMessage {
    #[schema(inline)]
    pub role: AssistantRole,
    /// Null if the model only called functions.
    pub content: Option<String>,
    /// Always null.
    #[schema(value_type = Option<Object>)]
    pub refusal: Option<()>,
    /// Function calls; omitted if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tool_calls: Option<Vec<CompletionToolCall>>,
    /// Citations of messages; omitted if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<CompletionAnnotation>,
    /// Reasoning of a message with calls, as the model's server sent it: `reasoning_content`, `reasoning`, `reasoning_details`.
    #[serde(flatten)]
    #[schema(ignore)]
    pub reasoning: Map<String, Value>,
}

/// A citation of a message.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct CompletionAnnotation {
    #[serde(rename = "type")]
    #[schema(inline)]
    pub kind: UrlCitationType,
    pub url_citation: CitedMessage,
}

/// A function call for the client to run.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct CompletionToolCall {
    /// ID of the call, to be returned as the `tool_call_id` of the result.
    pub id: String,
    #[serde(rename = "type")]
    #[schema(inline)]
    pub kind: FunctionType,
    pub function: CompletionFunction,
    /// Other members of the call, as the model's server sent them.
    #[serde(flatten)]
    #[schema(ignore)]
    pub other: Map<String, Value>,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct CompletionFunction {
    pub name: String,
    /// Arguments as JSON, as written by the model; may be invalid.
    pub arguments: String,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct PromptTokensDetails {
    pub cached_tokens: i64,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct CompletionTokensDetails {
    pub reasoning_tokens: i64,
}

/// Usage in tokens; estimated if the provider does not report it. Details that the provider does not
/// report are 0.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct CompletionUsage {
    pub prompt_tokens: i64,
    pub completion_tokens: i64,
    pub total_tokens: i64,
    pub prompt_tokens_details: PromptTokensDetails,
    pub completion_tokens_details: CompletionTokensDetails,
}

impl From<&ResponseUsage> for CompletionUsage {
    fn from(usage: &ResponseUsage) -> Self {
        Self {
            prompt_tokens: usage.input_tokens,
            completion_tokens: usage.output_tokens,
            total_tokens: usage.total_tokens,
            prompt_tokens_details: PromptTokensDetails {
                cached_tokens: usage.input_tokens_details.cached_tokens,
            },
            completion_tokens_details: CompletionTokensDetails {
                reasoning_tokens: usage.output_tokens_details.reasoning_tokens,
            },
        }
    }
}

/// Returns the ID of the completion that is made from a response.
pub(super) fn completion_id(response: &Response) -> String {
    format!("chatcmpl-{}", response.id.0.simple())
}

pub(super) fn finish_reason(response: &Response) -> FinishReason {
    let has_calls = response
        .output
        .iter()
        .any(|item| matches!(item, OutputItem::FunctionCall(_)));
    if response.incomplete_details.is_some() {
        FinishReason::Length
    } else if has_calls {
        FinishReason::ToolCalls
    } else {
        FinishReason::Stop
    }
}

/// Returns the citations of a response. Their ranges are those in the joined text of its messages.
pub(super) fn annotations(response: &Response) -> Vec<CompletionAnnotation> {
    let (mut annotations, mut chars) = (Vec::new(), 0);
    for item in &response.output {
        let OutputItem::Message(message) = item else {
            continue;
        };
        for part in &message.content {
            let OutputMessageContent::OutputText(part) = part else {
                continue;
            };
            let cited = part.annotations.iter().filter_map(|annotation| {
                let annotation = serde_json::to_value(annotation).ok()?;
                let mut cited: CitedMessage = serde_json::from_value(annotation).ok()?;
                cited.start_index += chars;
                cited.end_index += chars;
                Some(CompletionAnnotation {
                    kind: UrlCitationType,
                    url_citation: cited,
                })
            });
            annotations.extend(cited);
            chars += part.text.chars().count();
        }
    }
    annotations
}

impl From<Response> for ChatCompletion {
    /// Converts a response that has ended.
    fn from(response: Response) -> Self {
        let (id, finish_reason) = (completion_id(&response), finish_reason(&response));
        let annotations = annotations(&response);
        let mut said = String::new();
        let mut calls = Vec::new();
        let VendorMembers {
            message: reasoning,
            calls: members,
        } = response.vendor;
        let mut members = members.into_iter();
        for item in response.output {
            match item {
                OutputItem::Message(message) => {
                    for part in message.content {
                        if let OutputMessageContent::OutputText(part) = part {
                            said.push_str(&part.text);
                        }
                    }
                }
                OutputItem::FunctionCall(call) => calls.push(CompletionToolCall {
                    id: call.call_id,
                    kind: FunctionType,
                    function: CompletionFunction {
                        name: call.name,
                        arguments: call.arguments,
                    },
                    other: members.next().unwrap_or_default(),
                }),
                _ => {}
            }
        }
        let message = CompletionMessage {
            role: AssistantRole,
            content: Some(said).filter(|said| !said.is_empty()),
            refusal: None,
            tool_calls: Some(calls).filter(|calls| !calls.is_empty()),
            annotations,
            reasoning,
        };
        Self {
            id,
            object: CompletionObject,
            created: response.created_at,
            model: response.model,
            choices: vec![CompletionChoice {
                index: 0,
                message,
                logprobs: None,
                finish_reason,
            }],
            usage: response.usage.as_ref().map(CompletionUsage::from),
        }
    }
}
