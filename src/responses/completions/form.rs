//! The request body of `POST /v1/chat/completions`, and its translation into a request of the Responses API.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, Type};

use super::{
    super::{
        CreateResponse, ResponseError,
        form::{Truncation, check_output_tokens, either, has_only},
        format::{TextFormat, read_format},
        parsed::Parsed,
        tools::{Tool, read_tools},
    },
    messages::{Messages, read_messages},
};
use crate::{http::ApiError, model::ReasoningEffort};

const STOPS_MAX: usize = 4;
/// Maximum length of a stop sequence in UTF-16 code units.
const STOP_UNITS_MAX: usize = 512;

fn word_or_object() -> Schema {
    let object = ObjectBuilder::new().schema_type(Type::Object);
    either(
        object,
        "`none`, `auto`, `required`, or `{\"type\":\"function\",\"function\":{\"name\":…}}`.",
    )
}

fn text_or_texts() -> Schema {
    let texts = ArrayBuilder::new().items(ObjectBuilder::new().schema_type(Type::String));
    either(
        texts,
        "One to four texts; the reply ends before the first of them.",
    )
}

/// A request of the Chat Completions API. Other fields are accepted only if their values have no effect, such as `n: 1` or null.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
pub struct CreateChatCompletion {
    /// Messages with `role` (`system`, `developer`, `user`, `assistant`, or `tool`), `content` (a string, or text parts), and
    /// optionally `tool_calls` or `tool_call_id`. The leading system and developer messages replace the agent's own instructions.
    #[schema(value_type = Vec<Object>)]
    pub messages: Option<Vec<Value>>,
    /// A model, or `agent:NAME`. Overrides the agent's model; without either, the server's default is used.
    pub model: Option<String>,
    /// `agent_…`, an agent's name, or `main`.
    pub agent_id: Option<String>,
    /// Functions that the client runs.
    #[schema(value_type = Option<Vec<Object>>)]
    pub tools: Option<Vec<Value>>,
    /// `none`, `auto`, `required`, or `{"type":"function","function":{"name":…}}`.
    #[schema(schema_with = word_or_object)]
    pub tool_choice: Option<Value>,
    pub parallel_tool_calls: Option<bool>,
    /// 0 to 2.
    pub temperature: Option<f64>,
    /// 0 to 1.
    pub top_p: Option<f64>,
    /// Output limit in tokens, 1 to 1,000,000.
    pub max_completion_tokens: Option<u32>,
    /// Older name of `max_completion_tokens`.
    pub max_tokens: Option<u32>,
    /// One to four stop sequences; the reply ends before the first one that occurs.
    #[schema(schema_with = text_or_texts)]
    pub stop: Option<Value>,
    /// `{"type":"text"}`, `{"type":"json_object"}`, or `{"type":"json_schema","json_schema":{"name":…,"schema":…}}` of at
    /// most 32 KiB.
    #[schema(value_type = Option<Object>)]
    pub response_format: Option<Value>,
    /// Reasoning effort; ignored for models that do not support it.
    pub reasoning_effort: Option<ReasoningEffort>,
    pub stream: Option<bool>,
    /// `{"include_usage":true}` adds a chunk with the usage.
    #[schema(value_type = Option<Object>)]
    pub stream_options: Option<Value>,
    /// `auto` drops the oldest part of the conversation if it does not fit; `disabled` (the default) rejects the
    /// request.
    #[schema(value_type = Option<Truncation>)]
    pub truncation: Option<String>,
    /// Accepted without effect. At most 16 pairs; keys and values of at most 512 characters.
    pub metadata: Option<BTreeMap<String, String>>,
    /// Accepted without effect.
    pub user: Option<String>,
    /// `auto` or `default`.
    pub service_tier: Option<String>,
    /// Accepted without effect.
    pub safety_identifier: Option<String>,
    /// Accepted without effect.
    pub prompt_cache_key: Option<String>,
    /// Accepted without effect.
    pub prompt_cache_retention: Option<String>,
    /// All other fields; they are not supported.
    #[serde(flatten)]
    #[schema(ignore)]
    other: BTreeMap<String, Value>,
}

impl CreateChatCompletion {
    pub fn wants_stream(&self) -> bool {
        self.stream.unwrap_or(false)
    }

    /// Checks whether a stream ends with the usage.
    pub fn wants_usage(&self) -> bool {
        let options = self.stream_options.as_ref();
        options.is_some_and(|options| options["include_usage"] == true)
    }

    /// Translates the request into a request of the Responses API. Also returns its parsed parts.
    pub(super) fn read(&self) -> (CreateResponse, Result<Parsed, ResponseError>) {
        let messages = self
            .check()
            .and_then(|()| read_messages(self.messages.as_deref().unwrap_or_default()));
        let (instructions, items) = match messages {
            Ok(Messages {
                instructions,
                items,
            }) => (instructions, Ok(items)),
            Err(error) => (None, Err(error)),
        };
        let common = self.common(instructions);
        let parsed = items.and_then(|items| {
            common.check()?;
            Ok(Parsed {
                items,
                tools: self.read_tools()?,
                format: self.format()?,
                effort: self.reasoning_effort,
                stop: read_stop(self.stop.as_ref())?,
            })
        });
        (common, parsed)
    }

    /// Translates the fields that both APIs have in common.
    fn common(&self, instructions: Option<String>) -> CreateResponse {
        CreateResponse {
            model: self.model.clone(),
            agent_id: self.agent_id.clone(),
            instructions,
            tool_choice: self.tool_choice.as_ref().map(flat_choice),
            parallel_tool_calls: self.parallel_tool_calls,
            temperature: self.temperature,
            top_p: self.top_p,
            max_output_tokens: self.max_completion_tokens.or(self.max_tokens),
            stream: self.stream,
            store: Some(false),
            metadata: self.metadata.clone(),
            truncation: self.truncation.clone(),
            user: self.user.clone(),
            service_tier: self.service_tier.clone(),
            safety_identifier: self.safety_identifier.clone(),
            prompt_cache_key: self.prompt_cache_key.clone(),
            prompt_cache_retention: self.prompt_cache_retention.clone(),
            ..CreateResponse::default()
        }
    }

    /// Validates the fields that do not exist in the Responses API.
    fn check(&self) -> Result<(), ResponseError> {
        let unsupported = |field: &str| ResponseError::UnsupportedParameter(field.to_owned());
        let mut other = self.other.iter();
        if let Some((field, _)) = other.find(|(field, value)| !is_neutral(field, value)) {
            return Err(unsupported(field));
        }
        if self.stream_options.as_ref().is_some_and(|options| {
            !has_only(options, &["include_usage", "include_obfuscation"])
                || !(options["include_usage"].is_null() || options["include_usage"].is_boolean())
        }) {
            return Err(unsupported("stream_options"));
        }
        check_output_tokens("max_completion_tokens", self.max_completion_tokens)?;
        check_output_tokens("max_tokens", self.max_tokens)?;
        match (self.max_completion_tokens, self.max_tokens) {
            (Some(new), Some(old)) if new != old => Err(ResponseError::invalid(
                "max_tokens",
                "max_tokens and max_completion_tokens differ: omit max_tokens",
            )),
            _ => Ok(()),
        }
    }

    /// Parses the tools. Errors name parameters as in the Responses API; `param_of` translates them.
    fn read_tools(&self) -> Result<Vec<Tool>, ResponseError> {
        let mut flat = Vec::new();
        for (n, tool) in self.tools.iter().flatten().enumerate() {
            if tool.is_object() && tool["type"] != "function" {
                let text = "only tools of the type function are supported";
                return Err(ResponseError::unsupported(format!("tools[{n}].type"), text));
            }
            if tool.is_object() && !tool["function"].is_object() {
                let text = "a tool needs a `function` object with a name";
                return Err(ResponseError::invalid(format!("tools[{n}]"), text));
            }
            flat.push(flattened(tool, "function"));
        }
        read_tools(&flat)
    }

    fn format(&self) -> Result<TextFormat, ResponseError> {
        let format = self.response_format.as_ref();
        let flat = format.map_or(Value::Null, |format| flattened(format, "json_schema"));
        read_format(&flat, "response_format")
    }

    /// Returns the name that a field of the Responses API has in this request.
    fn param_of(&self, param: &str) -> String {
        let name = match param {
            "input" | "instructions" => "messages",
            "max_output_tokens" if self.max_completion_tokens.is_some() => "max_completion_tokens",
            "max_output_tokens" => "max_tokens",
            "text.format" => "response_format",
            other => match other.split_once("].") {
                Some((tool, field)) if tool.starts_with("tools[") && field != "type" => {
                    return format!("{tool}].function.{field}");
                }
                _ => other,
            },
        };
        name.to_owned()
    }

    /// Converts an error that this request's call returned. Field names are translated to those of chat completions.
    pub fn error(&self, error: ResponseError) -> ApiError {
        // These errors already contain the client's field names.
        if matches!(error, ResponseError::UnsupportedParameter(_)) {
            return error.into();
        }
        ApiError::from(error).rename_param(|param| self.param_of(param))
    }
}

/// Checks whether the value of an unsupported field is equivalent to an absent field.
fn is_neutral(field: &str, value: &Value) -> bool {
    if value.is_null() {
        return true;
    }
    match field {
        "n" => value.as_u64() == Some(1),
        "logprobs" | "store" => value.as_bool() == Some(false),
        "top_logprobs" | "frequency_penalty" | "presence_penalty" => {
            value.as_f64().is_some_and(|number| number == 0.0)
        }
        "logit_bias" => value.as_object().is_some_and(Map::is_empty),
        "functions" => value.as_array().is_some_and(Vec::is_empty),
        "function_call" => matches!(value.as_str(), Some("none" | "auto")),
        "modalities" => value
            .as_array()
            .is_some_and(|kinds| kinds.iter().all(|kind| kind == "text")),
        "verbosity" => value == "medium",
        _ => false,
    }
}

/// Replaces the field `inner` of an object with the fields of the nested object.
fn flattened(value: &Value, inner: &str) -> Value {
    let Value::Object(object) = value else {
        return value.clone();
    };
    let mut flat = object.clone();
    if let Some(Value::Object(fields)) = flat.remove(inner) {
        for (field, value) in fields {
            // The outer object determines the type.
            if field != "type" {
                flat.insert(field, value);
            }
        }
    }
    Value::Object(flat)
}

fn flat_choice(choice: &Value) -> Value {
    if choice["type"] == "function" {
        flattened(choice, "function")
    } else {
        choice.clone()
    }
}

fn read_stop(stop: Option<&Value>) -> Result<Vec<String>, ResponseError> {
    let invalid = || {
        let text = format!(
            "stop must be 1 to {STOPS_MAX} strings of 1 to {STOP_UNITS_MAX} characters, or null"
        );
        ResponseError::invalid("stop", text)
    };
    let list = match stop {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list.as_slice(),
        Some(text) => std::slice::from_ref(text),
    };
    if list.len() > STOPS_MAX {
        return Err(invalid());
    }
    let stops = list.iter().map(|value| {
        let text = value.as_str();
        let text = text.filter(|text| (1..=STOP_UNITS_MAX).contains(&text.encode_utf16().count()));
        text.map(str::to_owned).ok_or_else(invalid)
    });
    stops.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(mut body: Value) -> CreateChatCompletion {
        if body.get("messages").is_none() {
            body["messages"] = json!([{"role": "user", "content": "Hi"}]);
        }
        serde_json::from_value(body).unwrap()
    }

    /// Name of the field in the error for an invalid request.
    fn refused(body: Value) -> String {
        let form = form(body);
        match form.read().1.map(|_| ()) {
            Err(ResponseError::Invalid(_, param) | ResponseError::Unsupported(_, param)) => {
                form.param_of(&param)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn fields_have_their_chat_names() {
        let body = json!({"model": "tiny", "max_completion_tokens": 5, "temperature": 0.5, "stop": "END",
            "response_format": {"type": "json_object"}, "reasoning_effort": "low", "stream": true,
            "stream_options": {"include_usage": true, "include_obfuscation": false},
            "tools": [{"type": "function", "function": {"name": "f", "strict": null}}],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]});
        let form = form(body);
        assert!(form.wants_stream() && form.wants_usage());
        let (common, parsed) = form.read();
        assert_eq!(common.max_output_tokens, Some(5));
        assert_eq!(common.instructions.as_deref(), Some("Be brief."));
        assert_eq!(common.store, Some(false));
        assert_eq!(
            common.tool_choice,
            Some(json!({"type": "function", "name": "f"}))
        );
        let parsed = parsed.unwrap();
        assert_eq!(parsed.items.len(), 1);
        assert_eq!(parsed.tools.len(), 1);
        assert_eq!(parsed.format, TextFormat::JsonObject);
        assert_eq!(parsed.effort, Some(ReasoningEffort::Low));
        assert_eq!(parsed.stop, ["END"]);
    }

    #[test]
    fn values_of_unsupported_fields_without_effect_are_accepted() {
        let body = json!({"n": 1, "logprobs": false, "top_logprobs": 0, "frequency_penalty": 0, "presence_penalty": 0.0,
            "logit_bias": {}, "store": false, "modalities": ["text"], "functions": [], "function_call": "auto",
            "verbosity": "medium", "seed": null, "audio": null, "prediction": null, "web_search_options": null,
            "response_format": {"type": "text"}, "stop": null, "service_tier": "auto", "metadata": {}, "user": "u",
            "tools": null, "stream_options": null, "colour": null});
        let (_, parsed) = form(body).read();
        assert!(parsed.is_ok());
    }

    #[test]
    fn other_values_of_unsupported_fields_are_named() {
        for (field, value) in [
            ("n", json!(2)),
            ("logprobs", json!(true)),
            ("top_logprobs", json!(3)),
            ("frequency_penalty", json!(0.5)),
            ("presence_penalty", json!(-1)),
            ("logit_bias", json!({"1": 2})),
            ("store", json!(true)),
            ("modalities", json!(["text", "audio"])),
            ("functions", json!([{"name": "f"}])),
            ("function_call", json!({"name": "f"})),
            ("verbosity", json!("low")),
            ("seed", json!(7)),
            ("audio", json!({"voice": "ash"})),
            ("web_search_options", json!({})),
            ("stream_options", json!({"colour": "red"})),
            ("stream_options", json!({"include_usage": "yes"})),
            ("instructions", json!("Be brief.")),
            ("colour", json!("red")),
        ] {
            let (_, parsed) = form(json!({field: value})).read();
            let Err(ResponseError::UnsupportedParameter(param)) = parsed else {
                panic!("{field}")
            };
            assert_eq!(param, field);
        }
    }

    #[test]
    fn errors_have_the_names_of_the_chat_fields() {
        let function = |function: Value| json!({"type": "function", "function": function});
        for (body, param) in [
            (json!({"max_tokens": 0}), "max_tokens"),
            (json!({"max_completion_tokens": 0}), "max_completion_tokens"),
            (
                json!({"max_tokens": 1, "max_completion_tokens": 2}),
                "max_tokens",
            ),
            (json!({"temperature": 3}), "temperature"),
            (json!({"stop": ""}), "stop"),
            (json!({"stop": ["a", "b", "c", "d", "e"]}), "stop"),
            (json!({"stop": [1]}), "stop"),
            (
                json!({"response_format": {"type": "json_schema"}}),
                "response_format",
            ),
            (
                json!({"response_format": {"type": "xml"}}),
                "response_format",
            ),
            (json!({"tools": [{"type": "custom"}]}), "tools[0].type"),
            (
                json!({"tools": [function(json!({"name": "a b"}))]}),
                "tools[0].function.name",
            ),
            (
                json!({"tools": [function(json!({"name": "a", "parameters": 1}))]}),
                "tools[0].function.parameters",
            ),
            (json!({"tools": [1]}), "tools[0]"),
            (
                json!({"tools": [{"type": "function", "name": "flat"}]}),
                "tools[0]",
            ),
            (json!({"messages": []}), "messages"),
        ] {
            assert_eq!(refused(body), param);
        }
        let form = form(json!({"max_tokens": 5}));
        for (here, there) in [
            ("messages", "input"),
            ("messages", "instructions"),
            ("max_tokens", "max_output_tokens"),
            ("response_format", "text.format"),
            ("messages[1].content", "messages[1].content"),
        ] {
            assert_eq!(form.param_of(there), here);
        }
    }
}
