//! The request body of `POST /v1/chat/completions`, and its translation into a request of the Responses API.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, Type};

use super::{
    super::{
        CreateResponse, ResponseError,
        form::{Truncation, either, has_words, output_tokens, read_effort},
        format::read_format,
        ignored::{Ignored, changes_answer},
        items::Input,
        media,
        parsed::Parsed,
        tools::{Tool, collect, read_function},
    },
    messages::{Messages, read_messages},
};
use crate::{http::ApiError, model::ReasoningEffort};

/// Path of the reasoning effort in a request.
const EFFORT: &str = "reasoning_effort";
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

/// A request of the Chat Completions API. Other fields, and values that do not change the meaning of the answer, are ignored and named
/// in the response header `OpenVibe-Ignored`.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
pub struct CreateChatCompletion {
    /// Messages with `role` (`system`, `developer`, `user`, `assistant`, or `tool`), `content` (a string, or text parts), and
    /// optionally `tool_calls` or `tool_call_id`; at most 10,000. The leading system and developer messages replace the instructions of
    /// the agent in `agent_id`, and follow those of `agent:NAME`. Pictures and files of the last user message are read; earlier ones
    /// are ignored.
    #[schema(value_type = Vec<Object>)]
    pub messages: Option<Vec<Value>>,
    /// A model, or `agent:NAME`. Overrides the agent's model; without either, the server's default is used.
    pub model: Option<String>,
    /// `agent_…`, an agent's name, or `main`.
    pub agent_id: Option<String>,
    /// Functions that the client runs, at most 512. Tools of other types are ignored.
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
    /// -2 to 2; ignored for models that do not support it.
    pub frequency_penalty: Option<f64>,
    /// -2 to 2; ignored for models that do not support it.
    pub presence_penalty: Option<f64>,
    /// Seed of the model's random numbers; ignored for models that do not support it.
    pub seed: Option<i64>,
    /// Output limit in tokens, at most 1,000,000; no limit if it is 0 or less.
    pub max_completion_tokens: Option<i64>,
    /// Older name of `max_completion_tokens`.
    pub max_tokens: Option<i64>,
    /// One to four stop sequences; the reply ends before the first one that occurs.
    #[schema(schema_with = text_or_texts)]
    pub stop: Option<Value>,
    /// `{"type":"text"}`, `{"type":"json_object"}`, or `{"type":"json_schema","json_schema":{"name":…,"schema":…}}` of at
    /// most 32 KiB.
    #[schema(value_type = Option<Object>)]
    pub response_format: Option<Value>,
    /// Reasoning effort; ignored for models that do not support it.
    #[schema(value_type = Option<ReasoningEffort>)]
    pub reasoning_effort: Option<Value>,
    pub stream: Option<bool>,
    /// `{"include_usage":true}` adds a chunk with the usage.
    #[schema(value_type = Option<Object>)]
    pub stream_options: Option<Value>,
    /// `auto` drops the oldest part of the conversation if it does not fit; `disabled` (the default) rejects the
    /// request.
    #[schema(value_type = Option<Truncation>)]
    pub truncation: Option<String>,
    /// Ignored. At most 16 pairs; keys and values of at most 512 characters.
    pub metadata: Option<BTreeMap<String, String>>,
    /// Ignored.
    pub user: Option<String>,
    /// Ignored.
    pub service_tier: Option<String>,
    /// Ignored.
    pub safety_identifier: Option<String>,
    /// Ignored.
    pub prompt_cache_key: Option<String>,
    /// Ignored.
    pub prompt_cache_retention: Option<String>,
    /// All other fields.
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
        let ignored = Ignored::default();
        let messages = self
            .check(&ignored)
            .and_then(|()| read_messages(self.messages.as_deref().unwrap_or_default(), &ignored));
        let (instructions, items) = match messages {
            Ok(Messages {
                instructions,
                items,
            }) => (instructions, Ok(items)),
            Err(error) => (None, Err(error)),
        };
        let common = self.common(instructions);
        let parsed = items.and_then(|items| {
            common.check(&ignored)?;
            let effort = self.reasoning_effort.as_ref();
            Ok(Parsed {
                input: Input {
                    items,
                    references: Vec::new(),
                },
                media: media::of_items(self.messages.as_deref().unwrap_or_default(), "messages")?,
                tools: self.read_tools(&ignored)?,
                search: None,
                format: read_format(self.response_format.as_ref(), "response_format", &ignored)?,
                effort: read_effort(effort, EFFORT, &ignored),
                effort_path: EFFORT,
                stop: read_stop(self.stop.as_ref())?,
                ignored: ignored.into_paths(),
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
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            seed: self.seed,
            max_output_tokens: output_tokens(self.max_completion_tokens)
                .or(output_tokens(self.max_tokens))
                .map(i64::from),
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
    fn check(&self, ignored: &Ignored) -> Result<(), ResponseError> {
        let unsupported = |field: &str| ResponseError::UnsupportedParameter(field.to_owned());
        let mut other = self.other.iter();
        if let Some((field, _)) = other.find(|(field, value)| changes_answer(field, value)) {
            return Err(unsupported(field));
        }
        ignored.add_unknown(&self.other);
        // A completion is not stored, and returns neither of them.
        if has_words(self.user.as_deref()) {
            ignored.add("user");
        }
        if self
            .metadata
            .as_ref()
            .is_some_and(|pairs| !pairs.is_empty())
        {
            ignored.add("metadata");
        }
        if let Some(options) = ignored.optional(self.stream_options.as_ref(), "stream_options") {
            options.get("include_obfuscation");
            if options
                .get("include_usage")
                .is_some_and(|value| !value.is_boolean())
            {
                return Err(unsupported("stream_options"));
            }
        }
        let limits = [self.max_completion_tokens, self.max_tokens].map(output_tokens);
        match limits {
            [Some(new), Some(old)] if new != old => Err(ResponseError::invalid(
                "max_tokens",
                "max_tokens and max_completion_tokens differ: omit max_tokens",
            )),
            _ => Ok(()),
        }
    }

    fn read_tools(&self, ignored: &Ignored) -> Result<Vec<Tool>, ResponseError> {
        let list = self.tools.as_deref().unwrap_or_default();
        collect(list, ignored, |tool| {
            if !matches!(tool.text("type"), None | Some("function")) {
                tool.ignore();
                return Ok(None);
            }
            let Some(function) = tool.get("function").and_then(Value::as_object) else {
                let text = "a tool needs a `function` object with a name";
                return Err(ResponseError::invalid(&*tool.path, text));
            };
            read_function(&ignored.fields(function, tool.path_of("function"))).map(Some)
        })
    }

    /// Returns the name that a field of the Responses API has in this request.
    fn param_of(&self, param: &str) -> String {
        let name = match param {
            "input" | "instructions" => "messages",
            "max_output_tokens" if self.max_completion_tokens.is_some() => "max_completion_tokens",
            "max_output_tokens" => "max_tokens",
            "text.format" => "response_format",
            other => other,
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

/// Translates `{"type":"function","function":{"name":…}}`.
fn flat_choice(choice: &Value) -> Value {
    match &choice["function"]["name"] {
        Value::String(name) if choice["type"] == "function" => {
            json!({"type": "function", "name": name})
        }
        _ => choice.clone(),
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
    use super::*;
    use crate::responses::format::TextFormat;

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
        assert_eq!(parsed.input.items.len(), 1);
        assert_eq!(parsed.tools.len(), 1);
        assert_eq!(parsed.format, TextFormat::JsonObject);
        assert_eq!(parsed.effort, Some(ReasoningEffort::Low));
        assert_eq!(parsed.stop, ["END"]);
    }

    #[test]
    fn default_values_are_not_named() {
        let body = json!({"n": 1, "logprobs": false, "top_logprobs": 0, "frequency_penalty": 0, "presence_penalty": 0.0,
            "logit_bias": {}, "store": false, "modalities": ["text"], "functions": [], "function_call": "auto",
            "verbosity": "medium", "seed": null, "audio": null, "prediction": null, "web_search_options": null,
            "response_format": {"type": "text"}, "stop": null, "service_tier": "auto", "metadata": {}, "user": "",
            "tools": null, "stream_options": null, "colour": null, "max_tokens": -1, "max_completion_tokens": 5});
        let (common, parsed) = form(body).read();
        assert!(parsed.unwrap().ignored.is_empty());
        assert_eq!(common.max_output_tokens, Some(5));
    }

    #[test]
    fn values_that_do_not_change_the_answer_are_ignored_and_named() {
        let call = json!({"id": "c", "index": 0, "type": "function", "extra_content": {"a": 1},
            "function": {"name": "f", "arguments": "{}"}});
        let body = json!({"top_k": 20, "store": true, "verbosity": "low", "reasoning_effort": "huge", "service_tier": "flex",
            "user": "u", "metadata": {"a": "b"}, "prompt_cache_key": "k",
            "web_search_options": {}, "stream_options": {"colour": "red", "include_usage": true},
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}, "y": 1}},
            "tools": [{"type": "custom"}, {"type": "function", "cache_control": {"a": 1}, "function": {"name": "f", "x": 1}}],
            "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [call], "reasoning": "r"},
                {"role": "tool", "tool_call_id": "c", "content": "1"}]});
        let mut paths = form(body).read().1.unwrap().ignored;
        paths.sort_unstable();
        let wanted = [
            "messages[1].reasoning",
            "messages[1].tool_calls[0].extra_content",
            "metadata",
            "prompt_cache_key",
            "reasoning_effort",
            "response_format.json_schema.y",
            "service_tier",
            "store",
            "stream_options.colour",
            "tools[0]",
            "tools[1].cache_control",
            "tools[1].function.x",
            "top_k",
            "user",
            "verbosity",
            "web_search_options",
        ];
        assert_eq!(paths, wanted);
    }

    #[test]
    fn fields_that_change_the_answer_are_rejected() {
        for (field, value) in [
            ("n", json!(2)),
            ("logprobs", json!(true)),
            ("top_logprobs", json!(3)),
            ("logit_bias", json!({"1": 2})),
            ("modalities", json!(["text", "audio"])),
            ("functions", json!([{"name": "f"}])),
            ("function_call", json!({"name": "f"})),
            ("audio", json!({"voice": "ash"})),
            ("background", json!(true)),
            ("stream_options", json!({"include_usage": "yes"})),
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
            (
                json!({"seed": 1, "presence_penalty": 3}),
                "presence_penalty",
            ),
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
