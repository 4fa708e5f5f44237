//! The request body, and the fields that a model does not support.

use serde::Serialize;
use serde_json::Value;

use super::super::{
    ChatMessage, ChatRequest, FunctionTool, Role, ToolCall, ToolChoice,
    table::{Model, TokenLimitField},
};

/// Fields that a model has rejected.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a separate field in the request"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Quirks {
    /// Overrides the model table.
    pub(super) limit: Option<Limit>,
    pub(super) no_temperature: bool,
    pub(super) no_top_p: bool,
    pub(super) no_stream_options: bool,
    pub(super) no_response_format: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    As(TokenLimitField),
    Unsent,
}

impl Quirks {
    /// Quirks to remember: an output limit that was too large for one prompt may fit the next.
    pub(super) fn worth_keeping(self) -> Option<Self> {
        let limit = self.limit.filter(|limit| *limit != Limit::Unsent);
        let kept = Self { limit, ..self };
        (kept != Self::default()).then_some(kept)
    }
}

#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    /// Null for calls without text.
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

impl<'a> Message<'a> {
    fn text(role: &'static str, content: &'a str) -> Self {
        Self {
            role,
            content: Some(content),
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }
}

/// Call by the assistant.
#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Called<'a>,
}

#[derive(Serialize)]
struct Called<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

impl<'a> From<&'a FunctionTool> for Tool<'a> {
    fn from(tool: &'a FunctionTool) -> Self {
        Self {
            r#type: "function",
            function: Function {
                name: &tool.name,
                description: tool.description.as_deref(),
                parameters: tool.parameters.as_ref(),
                strict: tool.strict,
            },
        }
    }
}

/// Converts a turn to messages: one per tool result, before the text of the user.
fn messages<'t>(turn: &'t ChatMessage) -> Vec<Message<'t>> {
    if turn.role == Role::Assistant {
        let call = |call: &'t ToolCall| Call {
            id: &call.id,
            r#type: "function",
            function: Called {
                name: &call.name,
                arguments: &call.arguments,
            },
        };
        let has_words = !turn.content.is_empty() || turn.calls.is_empty();
        return vec![Message {
            role: "assistant",
            content: has_words.then_some(turn.content.as_str()),
            tool_calls: turn.calls.iter().map(call).collect(),
            tool_call_id: None,
        }];
    }
    let results = turn.results.iter().map(|result| Message {
        tool_call_id: Some(&result.call_id),
        ..Message::text("tool", &result.content)
    });
    let has_words = !turn.content.is_empty() || turn.results.is_empty();
    let said = has_words.then(|| Message::text("user", &turn.content));
    results.chain(said).collect()
}

/// Converts the tool choice; omitted for `Auto`, which is the default of all servers.
fn choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some("none".into()),
        ToolChoice::Required => Some("required".into()),
        ToolChoice::Function(name) => {
            Some(serde_json::json!({"type": "function", "function": {"name": name}}))
        }
    }
}

#[derive(Serialize)]
pub(super) struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
pub(super) struct ResponseFormat<'a> {
    r#type: &'static str,
    json_schema: Schema<'a>,
}

#[derive(Serialize)]
struct Schema<'a> {
    name: &'static str,
    strict: bool,
    schema: &'a Value,
}

impl<'a> Body<'a> {
    pub(super) fn new(request: &'a ChatRequest, entry: Option<&Model>, quirks: Quirks) -> Self {
        let system = Message::text("system", &request.system);
        let turns = request.turns.iter().flat_map(messages);
        let has_tools = !request.tools.is_empty();
        let has_system = !request.system.is_empty();
        let by_table = Limit::As(entry.map(|entry| entry.token_limit).unwrap_or_default());
        let limit = quirks.limit.unwrap_or(by_table);
        let limit_as = |field| {
            request
                .max_output_tokens
                .filter(|_| limit == Limit::As(field))
        };
        let has_schemas = entry.is_none_or(|entry| entry.json_schema);
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
            response_format: request
                .json_schema
                .as_ref()
                .filter(|_| has_schemas && !quirks.no_response_format)
                .map(|wanted| ResponseFormat {
                    r#type: "json_schema",
                    json_schema: Schema {
                        name: wanted.name,
                        strict: true,
                        schema: &wanted.schema,
                    },
                }),
            tools: request.tools.iter().map(Tool::from).collect(),
            tool_choice: choice(&request.tool_choice).filter(|_| has_tools),
            parallel_tool_calls: request.parallel_tool_calls.filter(|_| has_tools),
        }
    }
}
