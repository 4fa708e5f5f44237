//! The request to a server, and the fields that a model does not support.

use async_openai::types::chat::{
    ChatCompletionMessageToolCall, ChatCompletionMessageToolCalls, ChatCompletionNamedToolChoice,
    ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage,
    ChatCompletionRequestSystemMessage, ChatCompletionRequestSystemMessageContent,
    ChatCompletionRequestToolMessage, ChatCompletionRequestUserMessage,
    ChatCompletionRequestUserMessageContent, ChatCompletionStreamOptions, ChatCompletionTool,
    ChatCompletionToolChoiceOption, ChatCompletionTools, CreateChatCompletionRequest, FunctionCall,
    FunctionObject, ReasoningEffort as OpenAiEffort, ResponseFormat, ResponseFormatJsonSchema,
    StopConfiguration, ToolChoiceOptions,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    super::{
        chat::{
            ChatMessage, ChatRequest, FunctionTool, JsonSchema, ReasoningEffort, RequiredFormat,
            Role, ToolCall, ToolChoice, ToolResult, VendorMembers,
        },
        table::{Model, TokenLimitField},
    },
    pictures::has_user_message,
    schema,
};

/// Fields that a model has rejected.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a separate field in the request"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Quirks {
    /// Field for the output limit; overrides the model table.
    pub(super) limit: Option<Limit>,
    pub(super) no_temperature: bool,
    pub(super) no_top_p: bool,
    pub(super) no_frequency_penalty: bool,
    pub(super) no_presence_penalty: bool,
    pub(super) no_seed: bool,
    pub(super) no_stream_options: bool,
    pub(super) no_tools: bool,
    pub(super) no_reasoning_effort: bool,
    /// True if the server rejects the members that it sent itself.
    pub(super) no_vendor_members: bool,
    /// True if the system text must be part of the first user message.
    pub(super) no_system: bool,
    pub(super) format: FormatSupport,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Limit {
    As(TokenLimitField),
    Unsent,
}

/// Strictest response format that a model supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FormatSupport {
    #[default]
    JsonSchema,
    JsonObject,
    Plain,
}

impl Quirks {
    /// The quirks to remember. An output limit that was too large for one prompt is excluded, because it may be small enough for the
    /// next one.
    pub(super) fn worth_keeping(self) -> Self {
        let limit = self.limit.filter(|limit| *limit != Limit::Unsent);
        Self { limit, ..self }
    }

    /// Removes or renames the rejected fields.
    #[expect(deprecated, reason = "most servers only know `max_tokens`")]
    pub(super) fn apply(self, request: &mut CreateChatCompletionRequest) {
        if let Some(limit) = self.limit {
            let renamed = request.max_completion_tokens.take();
            let tokens = request.max_tokens.take().or(renamed);
            match limit {
                Limit::As(TokenLimitField::MaxTokens) => request.max_tokens = tokens,
                Limit::As(TokenLimitField::MaxCompletionTokens) => {
                    request.max_completion_tokens = tokens;
                }
                Limit::Unsent => {}
            }
        }
        if self.no_temperature {
            request.temperature = None;
        }
        if self.no_top_p {
            request.top_p = None;
        }
        if self.no_frequency_penalty {
            request.frequency_penalty = None;
        }
        if self.no_presence_penalty {
            request.presence_penalty = None;
        }
        if self.no_seed {
            request.seed = None;
        }
        if self.no_stream_options {
            request.stream_options = None;
        }
        if self.no_tools {
            request.tools = None;
            request.tool_choice = None;
            request.parallel_tool_calls = None;
        }
        if self.no_reasoning_effort {
            request.reasoning_effort = None;
        }
        if self.no_system {
            fold_system(&mut request.messages);
        }
        match (self.format, &request.response_format) {
            (FormatSupport::JsonObject, Some(ResponseFormat::JsonSchema { .. })) => {
                request.response_format = Some(ResponseFormat::JsonObject);
            }
            (FormatSupport::Plain, Some(_)) => request.response_format = None,
            _ => {}
        }
    }
}

/// Names of the fields for sampling and reasoning that `request` contains, but that are not sent.
#[expect(deprecated, reason = "servers still accept `seed`")]
pub(super) fn unsent(
    request: &ChatRequest,
    entry: Option<&Model>,
    quirks: Quirks,
) -> Vec<&'static str> {
    let settings = ChatRequest {
        temperature: request.temperature,
        top_p: request.top_p,
        frequency_penalty: request.frequency_penalty,
        presence_penalty: request.presence_penalty,
        seed: request.seed,
        reasoning_effort: request.reasoning_effort,
        ..ChatRequest::default()
    };
    let mut sent = create(settings, entry);
    quirks.apply(&mut sent);
    let fields = [
        (
            "temperature",
            request.temperature.is_some(),
            sent.temperature.is_some(),
        ),
        ("top_p", request.top_p.is_some(), sent.top_p.is_some()),
        (
            "frequency_penalty",
            request.frequency_penalty.is_some(),
            sent.frequency_penalty.is_some(),
        ),
        (
            "presence_penalty",
            request.presence_penalty.is_some(),
            sent.presence_penalty.is_some(),
        ),
        ("seed", request.seed.is_some(), sent.seed.is_some()),
        (
            "reasoning_effort",
            request.reasoning_effort.is_some(),
            sent.reasoning_effort.is_some(),
        ),
    ];
    let unsent = fields
        .into_iter()
        .filter(|(_, wanted, is_sent)| *wanted && !is_sent);
    unsent.map(|(field, ..)| field).collect()
}

/// Moves the system text to the start of the first user message.
fn fold_system(messages: &mut Vec<ChatCompletionRequestMessage>) {
    use ChatCompletionRequestMessage::{System, User};
    let Some(System(ChatCompletionRequestSystemMessage {
        content: ChatCompletionRequestSystemMessageContent::Text(system),
        ..
    })) = messages.first().cloned()
    else {
        return;
    };
    let user = messages.iter_mut().find_map(|message| match message {
        User(user) => Some(&mut user.content),
        _ => None,
    });
    if let Some(ChatCompletionRequestUserMessageContent::Text(text)) = user {
        *text = format!("{system}\n\n{text}");
        messages.remove(0);
    }
}

/// Creates the request with all fields that the model table allows.
#[expect(deprecated, reason = "most servers only know `max_tokens`")]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the crate's sampling parameters are 32-bit"
)]
pub(super) fn create(request: ChatRequest, entry: Option<&Model>) -> CreateChatCompletionRequest {
    let has_tools = !request.tools.is_empty();
    let limit = entry.map(|entry| entry.token_limit).unwrap_or_default();
    let limit_as = |field| request.max_output_tokens.filter(|_| limit == field);
    let samples = entry.is_none_or(|entry| entry.temperature);
    let sampled = |parameter: Option<f64>| parameter.filter(|_| samples).map(|p| p as f32);
    let has_schemas = entry.is_none_or(|entry| entry.json_schema);
    let efforts = entry
        .map(|entry| entry.reasoning_efforts.as_slice())
        .unwrap_or_default();
    let system = (!request.system.is_empty())
        .then(|| ChatCompletionRequestSystemMessage::from(request.system).into());
    let turns = request.turns.into_iter().flat_map(messages);
    CreateChatCompletionRequest {
        model: request.model,
        messages: system.into_iter().chain(turns).collect(),
        stream: Some(true),
        stream_options: Some(ChatCompletionStreamOptions {
            include_usage: Some(true),
            include_obfuscation: None,
        }),
        max_tokens: limit_as(TokenLimitField::MaxTokens),
        max_completion_tokens: limit_as(TokenLimitField::MaxCompletionTokens),
        temperature: sampled(request.temperature),
        top_p: sampled(request.top_p),
        frequency_penalty: sampled(request.frequency_penalty),
        presence_penalty: sampled(request.presence_penalty),
        seed: request.seed,
        stop: (!request.stop.is_empty()).then_some(StopConfiguration::StringArray(request.stop)),
        reasoning_effort: request
            .reasoning_effort
            .filter(|effort| efforts.contains(effort))
            .map(effort),
        response_format: request.required_format.map(required_format).or_else(|| {
            request
                .json_schema
                .as_ref()
                .filter(|_| has_schemas)
                .map(format)
        }),
        tools: has_tools.then(|| request.tools.into_iter().map(tool).collect()),
        tool_choice: choice(request.tool_choice).filter(|_| has_tools),
        parallel_tool_calls: request.parallel_tool_calls.filter(|_| has_tools),
        ..CreateChatCompletionRequest::default()
    }
}

/// Converts a request to JSON, with two corrections. The crate omits the `content` of messages that contain only calls, but some
/// providers require it to be null. The crate's 32-bit numbers would become long decimals, such as 0.20000000298 for 0.2.
///
/// `vendor` contains the members of each assistant message, in order, or nothing.
pub(super) fn body(request: &CreateChatCompletionRequest, vendor: &[VendorMembers]) -> Value {
    let mut body = json!(request);
    let messages = body["messages"].as_array_mut().into_iter().flatten();
    let assistants = messages.filter(|message| message["role"] == "assistant");
    let nothing = VendorMembers::default();
    for (message, members) in assistants.zip(vendor.iter().chain(std::iter::repeat(&nothing))) {
        if message.get("content").is_none() {
            message["content"] = Value::Null;
        }
        add_members(message, &members.message);
        let calls = message.get_mut("tool_calls");
        let calls = calls.and_then(Value::as_array_mut).into_iter().flatten();
        for (call, members) in calls.zip(&members.calls) {
            add_members(call, members);
        }
    }
    for (field, value) in [
        ("temperature", request.temperature),
        ("top_p", request.top_p),
        ("frequency_penalty", request.frequency_penalty),
        ("presence_penalty", request.presence_penalty),
    ] {
        if let Some(decimal) = value.and_then(|value| value.to_string().parse::<f64>().ok()) {
            body[field] = decimal.into();
        }
    }
    body
}

fn add_members(to: &mut Value, members: &Map<String, Value>) {
    for (name, value) in members {
        to[name] = value.clone();
    }
}

/// Converts a turn to messages: one per tool result, followed by the user's text.
fn messages(turn: ChatMessage) -> Vec<ChatCompletionRequestMessage> {
    let has_user_message = has_user_message(&turn);
    let has_words = !turn.content.is_empty();
    if turn.role == Role::Assistant {
        let has_calls = !turn.calls.is_empty();
        let message = ChatCompletionRequestAssistantMessage {
            content: (has_words || !has_calls).then(|| turn.content.into()),
            tool_calls: has_calls.then(|| turn.calls.into_iter().map(call).collect()),
            ..ChatCompletionRequestAssistantMessage::default()
        };
        return vec![message.into()];
    }
    let said =
        has_user_message.then(|| ChatCompletionRequestUserMessage::from(turn.content).into());
    turn.results.into_iter().map(result).chain(said).collect()
}

fn call(call: ToolCall) -> ChatCompletionMessageToolCalls {
    ChatCompletionMessageToolCalls::Function(ChatCompletionMessageToolCall {
        id: call.id,
        function: FunctionCall {
            name: call.name,
            arguments: call.arguments,
        },
    })
}

fn result(result: ToolResult) -> ChatCompletionRequestMessage {
    ChatCompletionRequestMessage::Tool(ChatCompletionRequestToolMessage {
        content: result.content.into(),
        tool_call_id: result.call_id,
    })
}

fn tool(tool: FunctionTool) -> ChatCompletionTools {
    ChatCompletionTools::Function(ChatCompletionTool {
        function: FunctionObject {
            name: tool.name,
            description: tool.description,
            parameters: tool.parameters.as_ref().map(schema::plain),
            strict: tool.strict,
        },
    })
}

/// Replaces the schemas of those functions for which `is_simple` is true with the simplest ones. Returns true if any schema changed.
pub(super) fn simplify(request: &mut CreateChatCompletionRequest, is_simple: &[bool]) -> bool {
    let mut has_changed = false;
    let tools = request.tools.iter_mut().flatten();
    for (tool, _) in tools.zip(is_simple).filter(|(_, is_simple)| **is_simple) {
        let ChatCompletionTools::Function(tool) = tool else {
            continue;
        };
        if let Some(parameters) = &mut tool.function.parameters {
            let simple = schema::simplest(parameters);
            has_changed |= *parameters != simple;
            *parameters = simple;
        }
        // A strict schema must forbid other properties.
        has_changed |= tool.function.strict.take().is_some();
    }
    has_changed
}

/// Converts the tool choice; omitted for `Auto`, which is the default of all servers.
fn choice(choice: ToolChoice) -> Option<ChatCompletionToolChoiceOption> {
    use ChatCompletionToolChoiceOption::{Function, Mode};
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(Mode(ToolChoiceOptions::None)),
        ToolChoice::Required => Some(Mode(ToolChoiceOptions::Required)),
        ToolChoice::Function(name) => Some(Function(ChatCompletionNamedToolChoice::from(name))),
    }
}

fn format(wanted: &JsonSchema) -> ResponseFormat {
    ResponseFormat::JsonSchema {
        json_schema: ResponseFormatJsonSchema {
            name: wanted.name.to_owned(),
            schema: Value::clone(&wanted.schema),
            strict: Some(true),
            description: None,
        },
    }
}

fn required_format(format: RequiredFormat) -> ResponseFormat {
    match format {
        RequiredFormat::JsonObject => ResponseFormat::JsonObject,
        RequiredFormat::JsonSchema {
            name,
            description,
            schema,
            strict,
        } => ResponseFormat::JsonSchema {
            json_schema: ResponseFormatJsonSchema {
                name,
                description,
                schema,
                strict,
            },
        },
    }
}

fn effort(effort: ReasoningEffort) -> OpenAiEffort {
    match effort {
        ReasoningEffort::None => OpenAiEffort::None,
        ReasoningEffort::Minimal => OpenAiEffort::Minimal,
        ReasoningEffort::Low => OpenAiEffort::Low,
        ReasoningEffort::Medium => OpenAiEffort::Medium,
        ReasoningEffort::High => OpenAiEffort::High,
        ReasoningEffort::Xhigh => OpenAiEffort::Xhigh,
        ReasoningEffort::Max => OpenAiEffort::Max,
    }
}
