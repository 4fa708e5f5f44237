//! The request as it is sent, and what a model was found not to take.

use serde::Serialize;
use serde_json::Value;

use super::super::{
    ChatRequest, Role,
    table::{Model, TokenLimitField},
};

/// What a model turned out not to take.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a field of its own in the request"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Quirks {
    /// Other than the table says.
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
    /// That a limit was too large for one prompt says nothing about the next.
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
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
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
        }
    }
}
