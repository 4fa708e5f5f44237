//! The request body of `POST /v1/responses` and its validation.

use crate::text_enum::text_enum;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type};

use super::{
    ResponseError,
    format::{TextFormat, read_format},
};
use crate::model::ReasoningEffort;

/// Limits for metadata, as for agents; lengths in UTF-16 code units.
const METADATA_PAIRS_MAX: usize = 16;
const METADATA_UNITS_MAX: usize = 512;
const OUTPUT_TOKENS_MAX: u32 = 1_000_000;
/// Maximum size of instructions in UTF-8 bytes, as for agents.
const INSTRUCTIONS_BYTES_MAX: usize = 256 * 1024;
const LABEL_UNITS_MAX: usize = 512;
/// Values of `include` that are accepted without effect, because they apply to item types that are never returned.
const INCLUDES: [&str; 7] = [
    "reasoning.encrypted_content",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
];

/// Builds a schema with a description, because doc comments are ignored for fields with a custom schema.
pub(super) fn either(other: impl Into<Schema>, description: &str) -> Schema {
    OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::String))
        .item(other.into())
        .item(ObjectBuilder::new().schema_type(Type::Null))
        .description(Some(description))
        .build()
        .into()
}

fn text_or_items() -> Schema {
    let items = ArrayBuilder::new().items(ObjectBuilder::new().schema_type(Type::Object));
    either(
        items,
        "A string, or a list of items: messages (`role`, `content`), `function_call`, `function_call_output`; `reasoning` is \
         ignored. Images and files are rejected.",
    )
}

fn word_or_object() -> Schema {
    let object = ObjectBuilder::new().schema_type(Type::Object);
    either(
        object,
        "`none`, `auto`, `required`, or `{\"type\":\"function\",\"name\":…}`.",
    )
}

text_enum! {
    /// Handling of a conversation that does not fit into the context window.
    pub enum Truncation {
        /// Drops the oldest part of the conversation.
        Auto = "auto",
        /// Rejects the request.
        Disabled = "disabled",
    }
}

/// A request of the Responses API. Fields that are marked as accepted have no effect. All other unsupported values are rejected.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateResponse {
    /// A string, or a list of items: messages (`role`, `content`), `function_call`, `function_call_output`; `reasoning` is ignored.
    /// Images and files are rejected.
    #[schema(schema_with = text_or_items)]
    pub input: Option<Value>,
    /// A model, or `agent:NAME`. Overrides the agent's model; without either, the server's default is used.
    pub model: Option<String>,
    /// `agent_…`, an agent's name, or `main`.
    pub agent_id: Option<String>,
    /// Replaces the agent's own instructions. The text that the workspace requires always comes first.
    pub instructions: Option<String>,
    /// Tool objects of the Responses API. Only functions are offered to the model.
    #[schema(value_type = Option<Vec<Object>>)]
    pub tools: Option<Vec<Value>>,
    /// `none`, `auto`, `required`, or `{"type":"function","name":…}`.
    #[schema(schema_with = word_or_object)]
    pub tool_choice: Option<Value>,
    pub parallel_tool_calls: Option<bool>,
    /// 0 to 2.
    pub temperature: Option<f64>,
    /// 0 to 1.
    pub top_p: Option<f64>,
    /// Output limit in tokens, 1 to 1,000,000.
    pub max_output_tokens: Option<u32>,
    pub stream: Option<bool>,
    /// Accepted without effect.
    #[schema(value_type = Option<Object>)]
    pub stream_options: Option<Value>,
    /// True to store the response, so that it can be retrieved and continued. The default is true, unless the agent disables storage.
    pub store: Option<bool>,
    /// The response to continue. Its conversation comes first, and its agent and version reply again unless the request names another
    /// agent.
    pub previous_response_id: Option<String>,
    /// At most 16 pairs; keys and values of at most 512 characters.
    pub metadata: Option<BTreeMap<String, String>>,
    /// `auto` drops the oldest part of the conversation if it does not fit; `disabled` (the default) rejects the
    /// request.
    #[schema(value_type = Option<Truncation>)]
    pub truncation: Option<String>,
    /// `{"format":…}`: `{"type":"text"}`, `{"type":"json_object"}`, or `{"type":"json_schema","name":…,"schema":…}` with at
    /// most 32 KiB.
    #[schema(value_type = Option<Object>)]
    pub text: Option<Value>,
    /// Identifier of the end user; returned unchanged.
    pub user: Option<String>,
    /// Must be false.
    pub background: Option<bool>,
    /// Accepted without effect.
    pub include: Option<Vec<String>>,
    /// `{"effort":…}`, which is ignored for models that do not support it; other fields must be null or absent.
    #[schema(value_type = Option<Object>)]
    pub reasoning: Option<Value>,
    /// `auto` or `default`.
    pub service_tier: Option<String>,
    /// Accepted without effect.
    pub safety_identifier: Option<String>,
    /// Accepted without effect.
    pub prompt_cache_key: Option<String>,
    /// Accepted without effect.
    pub prompt_cache_retention: Option<String>,
    /// Accepted without effect, because it limits server-side tools, which this server does not have.
    pub max_tool_calls: Option<u32>,
    /// Must be 0.
    pub top_logprobs: Option<u32>,
    /// Must be null.
    #[schema(value_type = Option<Object>)]
    pub conversation: Option<Value>,
    /// Must be null.
    #[schema(value_type = Option<Object>)]
    pub prompt: Option<Value>,
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// # Errors
/// `Invalid` with `param`.
pub(super) fn check_output_tokens(param: &str, tokens: Option<u32>) -> Result<(), ResponseError> {
    if tokens.is_none_or(|n| (1..=OUTPUT_TOKENS_MAX).contains(&n)) {
        return Ok(());
    }
    let text = format!("{param} must be from 1 to {OUTPUT_TOKENS_MAX}");
    Err(ResponseError::invalid(param, text))
}

/// Returns true if all non-null fields of the object are among `fields`.
pub(super) fn has_only(value: &Value, fields: &[&str]) -> bool {
    value.as_object().is_some_and(|object| {
        object
            .iter()
            .all(|(field, value)| value.is_null() || fields.contains(&field.as_str()))
    })
}

impl CreateResponse {
    pub fn wants_stream(&self) -> bool {
        self.stream.unwrap_or(false)
    }

    pub(super) fn truncation(&self) -> Truncation {
        let given = self.truncation.as_deref();
        given
            .and_then(|text| text.parse().ok())
            .unwrap_or(Truncation::Disabled)
    }

    /// # Errors
    /// `Invalid` or `Unsupported` for `text.format`.
    pub(super) fn format(&self) -> Result<TextFormat, ResponseError> {
        let format = self.text.as_ref().map(|text| &text["format"]);
        read_format(format.unwrap_or(&Value::Null), "text.format")
    }

    /// # Errors
    /// `Invalid` for an unknown `reasoning.effort`.
    pub(super) fn effort(&self) -> Result<Option<ReasoningEffort>, ResponseError> {
        let Some(reasoning) = &self.reasoning else {
            return Ok(None);
        };
        serde_json::from_value(reasoning["effort"].clone()).map_err(|e| {
            ResponseError::invalid("reasoning.effort", format!("reasoning.effort: {e}"))
        })
    }

    /// Validates each value by itself. `input` and `tools` are parsed later.
    ///
    /// # Errors
    /// `Invalid` or `Unsupported` with the field.
    pub(super) fn check(&self) -> Result<(), ResponseError> {
        self.check_values()?;
        self.check_support()
    }

    fn check_values(&self) -> Result<(), ResponseError> {
        let invalid = |param: &str, text: String| Err(ResponseError::invalid(param, text));
        let within = |value: Option<f64>, max: f64| value.is_none_or(|v| (0.0..=max).contains(&v));
        if !within(self.temperature, 2.0) {
            return invalid("temperature", "temperature must be from 0 to 2".to_owned());
        }
        if !within(self.top_p, 1.0) {
            return invalid("top_p", "top_p must be from 0 to 1".to_owned());
        }
        check_output_tokens("max_output_tokens", self.max_output_tokens)?;
        if let Some(text) = &self.instructions
            && text.len() > INSTRUCTIONS_BYTES_MAX
        {
            let text = format!(
                "the instructions are {} bytes; the limit is {INSTRUCTIONS_BYTES_MAX}",
                text.len()
            );
            return invalid("instructions", text);
        }
        let metadata = self.metadata.as_ref();
        if metadata.is_some_and(|pairs| pairs.len() > METADATA_PAIRS_MAX) {
            let text = format!("metadata can have at most {METADATA_PAIRS_MAX} pairs");
            return invalid("metadata", text);
        }
        if metadata.into_iter().flatten().any(|(key, value)| {
            key.is_empty() || units(key) > METADATA_UNITS_MAX || units(value) > METADATA_UNITS_MAX
        }) {
            let text = format!(
                "metadata keys and values can have at most {METADATA_UNITS_MAX} characters"
            );
            return invalid("metadata", text);
        }
        for (param, value) in [
            ("model", &self.model),
            ("agent_id", &self.agent_id),
            ("user", &self.user),
            ("safety_identifier", &self.safety_identifier),
            ("prompt_cache_key", &self.prompt_cache_key),
        ] {
            let fits = |text: &String| !text.trim().is_empty() && units(text) <= LABEL_UNITS_MAX;
            if !value.as_ref().is_none_or(fits) {
                let text = format!("`{param}` must have 1 to {LABEL_UNITS_MAX} characters");
                return invalid(param, text);
            }
        }
        Ok(())
    }

    fn check_support(&self) -> Result<(), ResponseError> {
        self.check_choices()?;
        self.check_objects()
    }

    /// Rejects values that this server does not support.
    fn check_choices(&self) -> Result<(), ResponseError> {
        let is_one = |value: &Option<String>, known: &[&str]| {
            value.as_deref().is_none_or(|value| known.contains(&value))
        };
        if self.background == Some(true) {
            return unsupported(
                "background",
                "background responses are not supported: wait for the response, or stream it",
            );
        }
        if !is_one(&self.truncation, &["auto", "disabled"]) {
            return unsupported("truncation", "truncation must be auto or disabled");
        }
        if !is_one(&self.service_tier, &["auto", "default"]) {
            return unsupported("service_tier", "service_tier must be auto or default");
        }
        if !is_one(
            &self.prompt_cache_retention,
            &["in_memory", "in-memory", "24h"],
        ) {
            return unsupported(
                "prompt_cache_retention",
                "prompt_cache_retention must be in_memory or 24h",
            );
        }
        if self.top_logprobs.unwrap_or(0) > 0 {
            return unsupported("top_logprobs", "log probabilities are not supported");
        }
        Ok(())
    }

    /// Rejects objects, and fields of objects, that this server does not support.
    fn check_objects(&self) -> Result<(), ResponseError> {
        if self.conversation.is_some() {
            return unsupported(
                "conversation",
                "conversations are not supported: use previous_response_id",
            );
        }
        if self.prompt.is_some() {
            return unsupported("prompt", "stored prompts are not supported: use an agent");
        }
        let mut includes = self.include.iter().flatten();
        if let Some(other) = includes.find(|name| !INCLUDES.contains(&name.as_str())) {
            let text = format!("the value `{other}` of include is not supported");
            return unsupported("include", &text);
        }
        let has_others = |value: &Option<Value>, known: &[&str]| {
            value.as_ref().is_some_and(|value| !has_only(value, known))
        };
        if has_others(&self.reasoning, &["effort"]) {
            return unsupported("reasoning", "reasoning only supports effort");
        }
        if has_others(&self.stream_options, &["include_obfuscation"]) {
            return unsupported(
                "stream_options",
                "stream_options only supports include_obfuscation",
            );
        }
        if has_others(&self.text, &["format", "verbosity"]) {
            return unsupported("text", "text only supports format");
        }
        let verbosity = self
            .text
            .as_ref()
            .and_then(|text| text["verbosity"].as_str());
        if !matches!(verbosity, None | Some("medium")) {
            return unsupported("text.verbosity", "text.verbosity must be medium");
        }
        Ok(())
    }
}

fn unsupported(param: &str, text: &str) -> Result<(), ResponseError> {
    Err(ResponseError::unsupported(param, text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::parsed::Parsed, *};

    fn check(mut body: Value) -> Result<(), String> {
        body["input"] = json!("Hello");
        let form: CreateResponse = serde_json::from_value(body).unwrap();
        Parsed::of(&form).map(drop).map_err(|e| match e {
            ResponseError::Invalid(_, param) | ResponseError::Unsupported(_, param) => param,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn default_fields_of_client_libraries_are_accepted() {
        let all = json!({"truncation": "auto", "text": {"format": {"type": "text"}, "verbosity": null}, "include": [],
            "reasoning": {"effort": null, "summary": null}, "service_tier": "auto", "background": false, "prompt": null,
            "conversation": null, "top_logprobs": 0, "stream_options": {"include_obfuscation": false}, "max_tool_calls": 3,
            "prompt_cache_key": "k", "safety_identifier": "s", "user": "u", "metadata": {}});
        assert_eq!(check(all), Ok(()));
    }

    #[test]
    fn json_formats_and_the_reasoning_effort_are_accepted() {
        let schema = json!({"type": "json_schema", "name": "city", "schema": {"type": "object"}});
        for (body, format, effort) in [
            (json!({}), TextFormat::Text, None),
            (
                json!({"text": {"format": {"type": "json_object"}}, "reasoning": {"effort": "high"}}),
                TextFormat::JsonObject,
                Some(ReasoningEffort::High),
            ),
            (
                json!({"text": {"format": schema}, "reasoning": {"effort": "none"}}),
                read_format(&schema, "text.format").unwrap(),
                Some(ReasoningEffort::None),
            ),
        ] {
            assert_eq!(check(body.clone()), Ok(()));
            let form: CreateResponse = serde_json::from_value(body).unwrap();
            assert_eq!(form.format().unwrap(), format);
            assert_eq!(form.effort().unwrap(), effort);
        }
    }

    #[test]
    fn an_unsupported_value_is_named() {
        for (body, param) in [
            (json!({"temperature": 2.1}), "temperature"),
            (json!({"top_p": -0.1}), "top_p"),
            (json!({"max_output_tokens": 0}), "max_output_tokens"),
            (json!({"metadata": {"": "x"}}), "metadata"),
            (json!({"metadata": {"k": "x".repeat(513)}}), "metadata"),
            (json!({"background": true}), "background"),
            (json!({"truncation": "sometimes"}), "truncation"),
            (json!({"service_tier": "flex"}), "service_tier"),
            (json!({"top_logprobs": 1}), "top_logprobs"),
            (json!({"conversation": "conv_1"}), "conversation"),
            (json!({"prompt": {"id": "p"}}), "prompt"),
            (
                json!({"include": ["message.output_text.logprobs"]}),
                "include",
            ),
            (json!({"reasoning": {"summary": "auto"}}), "reasoning"),
            (json!({"reasoning": {"effort": "huge"}}), "reasoning.effort"),
            (json!({"stream_options": {"x": 1}}), "stream_options"),
            (
                json!({"text": {"format": {"type": "json_schema"}}}),
                "text.format",
            ),
            (json!({"text": {"verbosity": "low"}}), "text.verbosity"),
            (json!({"model": ""}), "model"),
            (json!({"agent_id": " "}), "agent_id"),
        ] {
            assert_eq!(check(body), Err(param.to_owned()));
        }
    }
}
