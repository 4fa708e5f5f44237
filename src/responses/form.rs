//! The request body of `POST /v1/responses` and its validation.

use crate::text_enum::text_enum;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type};

use super::{
    ResponseError,
    format::{TextFormat, read_format},
    ignored::{Ignored, changes_answer},
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
const INCLUDES: [&str; 6] = [
    "reasoning.encrypted_content",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
];

/// Value of `include` that adds the results to searches in vector stores.
pub(super) const RESULTS: &str = "file_search_call.results";
/// Value of `include` that changes the answer.
const LOGPROBS: &str = "message.output_text.logprobs";
/// Path of the reasoning effort in a request.
pub(super) const EFFORT: &str = "reasoning.effort";

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
         skipped. Items of other types are ignored. Pictures and files of the last user message are read; earlier ones are ignored.",
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

/// A request of the Responses API. Fields that are marked as accepted have no effect. Other fields, and values that do not change the
/// meaning of the answer, are ignored and named in the response header `OpenVibe-Ignored`.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
pub struct CreateResponse {
    /// A string, or a list of items: messages (`role`, `content`), `function_call`, `function_call_output`; `reasoning` is skipped.
    /// Items of other types are ignored. Pictures and files of the last user message are read; earlier ones are ignored.
    #[schema(schema_with = text_or_items)]
    pub input: Option<Value>,
    /// A model, or `agent:NAME`. Overrides the agent's model; without either, the server's default is used.
    pub model: Option<String>,
    /// `agent_…`, an agent's name, or `main`.
    pub agent_id: Option<String>,
    /// Replaces the instructions of the agent in `agent_id`, and follows those of `agent:NAME`. The text that the workspace requires
    /// always comes first.
    pub instructions: Option<String>,
    /// Tool objects of the Responses API, at most 512. Only functions are offered to the model; others are ignored.
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
    /// -2 to 2; ignored for models that do not support it.
    pub frequency_penalty: Option<f64>,
    /// -2 to 2; ignored for models that do not support it.
    pub presence_penalty: Option<f64>,
    /// Seed of the model's random numbers; ignored for models that do not support it.
    pub seed: Option<i64>,
    /// Output limit in tokens, at most 1,000,000; no limit if it is 0 or less.
    pub max_output_tokens: Option<i64>,
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
    /// Accepted without effect, except `message.output_text.logprobs`, which is rejected.
    pub include: Option<Vec<String>>,
    /// `{"effort":…}`, which is ignored for models that do not support it.
    #[schema(value_type = Option<Object>)]
    pub reasoning: Option<Value>,
    /// Ignored.
    pub service_tier: Option<String>,
    /// Ignored.
    pub safety_identifier: Option<String>,
    /// Ignored.
    pub prompt_cache_key: Option<String>,
    /// Ignored.
    pub prompt_cache_retention: Option<String>,
    /// Maximum number of calls of the agent's functions, which run on the server; at most 40. With 0, none are offered.
    pub max_tool_calls: Option<u32>,
    /// Must be 0.
    pub top_logprobs: Option<u32>,
    /// Must be null.
    #[schema(value_type = Option<Object>)]
    pub conversation: Option<Value>,
    /// Must be null.
    #[schema(value_type = Option<Object>)]
    pub prompt: Option<Value>,
    /// All other fields.
    #[serde(flatten)]
    #[schema(ignore)]
    pub(super) other: BTreeMap<String, Value>,
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Checks whether a label is set; a blank one is absent.
pub(super) fn has_words(label: Option<&str>) -> bool {
    label.is_some_and(|text| !text.trim().is_empty())
}

/// Returns the output limit of a request. Clients send 0 or -1 for no limit.
pub(super) fn output_tokens(limit: Option<i64>) -> Option<u32> {
    let limit = limit.filter(|limit| *limit > 0)?;
    Some(u32::try_from(limit).map_or(OUTPUT_TOKENS_MAX, |limit| limit.min(OUTPUT_TOKENS_MAX)))
}

/// Parses a reasoning effort. Unknown values are ignored.
pub(super) fn read_effort(
    value: Option<&Value>,
    path: &str,
    ignored: &Ignored,
) -> Option<ReasoningEffort> {
    let value = value.filter(|value| !value.is_null())?;
    let effort = serde_json::from_value(value.clone()).ok();
    if effort.is_none() {
        ignored.add(path);
    }
    effort
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
    pub(super) fn format(&self, ignored: &Ignored) -> Result<TextFormat, ResponseError> {
        let text = ignored.optional(self.text.as_ref(), "text");
        read_format(
            text.as_ref().and_then(|text| text.get("format")),
            "text.format",
            ignored,
        )
    }

    pub(super) fn effort(&self, ignored: &Ignored) -> Option<ReasoningEffort> {
        let reasoning = ignored.optional(self.reasoning.as_ref(), "reasoning")?;
        read_effort(reasoning.get("effort"), EFFORT, ignored)
    }

    /// Returns the end user's identifier, unless it is blank.
    pub(super) fn user(&self) -> Option<String> {
        self.user
            .clone()
            .filter(|user| has_words(Some(user.as_str())))
    }

    /// Validates each value by itself. `input` and `tools` are parsed later.
    ///
    /// # Errors
    /// `Invalid` or `Unsupported` with the field.
    pub(super) fn check(&self, ignored: &Ignored) -> Result<(), ResponseError> {
        self.check_values()?;
        self.check_support()?;
        self.check_includes(ignored)?;
        if let Some(tier) = &self.service_tier
            && !matches!(tier.as_str(), "auto" | "default")
        {
            ignored.add("service_tier");
        }
        for (field, label) in [
            ("safety_identifier", &self.safety_identifier),
            ("prompt_cache_key", &self.prompt_cache_key),
            ("prompt_cache_retention", &self.prompt_cache_retention),
        ] {
            if has_words(label.as_deref()) {
                ignored.add(field);
            }
        }
        if let Some(options) = ignored.optional(self.stream_options.as_ref(), "stream_options") {
            options.get("include_obfuscation");
        }
        ignored.add_unknown(&self.other);
        Ok(())
    }

    fn check_values(&self) -> Result<(), ResponseError> {
        let invalid = |param: &str, text: String| Err(ResponseError::invalid(param, text));
        for (param, value, range) in [
            ("temperature", self.temperature, 0.0..=2.0),
            ("top_p", self.top_p, 0.0..=1.0),
            ("frequency_penalty", self.frequency_penalty, -2.0..=2.0),
            ("presence_penalty", self.presence_penalty, -2.0..=2.0),
        ] {
            if value.is_some_and(|value| !range.contains(&value)) {
                let (min, max) = range.into_inner();
                return invalid(param, format!("{param} must be from {min} to {max}"));
            }
        }
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
        for (param, value, units_min) in [
            ("model", &self.model, 1),
            ("agent_id", &self.agent_id, 1),
            ("user", &self.user, 0),
            ("safety_identifier", &self.safety_identifier, 0),
            ("prompt_cache_key", &self.prompt_cache_key, 0),
        ] {
            let fits =
                |text: &String| units(text.trim()) >= units_min && units(text) <= LABEL_UNITS_MAX;
            if !value.as_ref().is_none_or(fits) {
                let text =
                    format!("`{param}` must have {units_min} to {LABEL_UNITS_MAX} characters");
                return invalid(param, text);
            }
        }
        Ok(())
    }

    /// Rejects values without which the answer would be wrong.
    fn check_support(&self) -> Result<(), ResponseError> {
        if self.background == Some(true) {
            return unsupported(
                "background",
                "background responses are not supported: wait for the response, or stream it",
            );
        }
        let truncation = self.truncation.as_deref();
        if truncation.is_some_and(|text| text.parse::<Truncation>().is_err()) {
            return unsupported("truncation", "truncation must be auto or disabled");
        }
        if self.top_logprobs.unwrap_or(0) > 0 {
            return unsupported("top_logprobs", "log probabilities are not supported");
        }
        if self.conversation.is_some() {
            return unsupported(
                "conversation",
                "conversations are not supported: use previous_response_id",
            );
        }
        if self.prompt.is_some() {
            return unsupported("prompt", "stored prompts are not supported: use an agent");
        }
        let mut other = self.other.iter();
        match other.find(|(field, value)| changes_answer(field, value)) {
            Some((field, _)) => Err(ResponseError::UnsupportedParameter(field.clone())),
            None => Ok(()),
        }
    }

    fn check_includes(&self, ignored: &Ignored) -> Result<(), ResponseError> {
        for (n, name) in self.include.iter().flatten().enumerate() {
            if name == LOGPROBS {
                return unsupported("include", "log probabilities are not supported");
            }
            if name != RESULTS && !INCLUDES.contains(&name.as_str()) {
                ignored.add(format!("include[{n}]"));
            }
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

    fn check(mut body: Value) -> Result<Parsed, String> {
        body["input"] = json!("Hello");
        let form: CreateResponse = serde_json::from_value(body).unwrap();
        Parsed::of(&form).map_err(|e| match e {
            ResponseError::Invalid(_, param)
            | ResponseError::Unsupported(_, param)
            | ResponseError::UnsupportedParameter(param) => param,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn default_fields_of_client_libraries_are_accepted() {
        let all = json!({"truncation": "auto", "text": {"format": {"type": "text"}, "verbosity": null}, "include": [],
            "reasoning": {"effort": null, "summary": null}, "service_tier": "auto", "background": false, "prompt": null,
            "conversation": null, "top_logprobs": 0, "stream_options": {"include_obfuscation": false}, "max_tool_calls": 3,
            "prompt_cache_key": "", "safety_identifier": " ", "user": "u", "metadata": {}});
        assert!(check(all).unwrap().ignored.is_empty());
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
                read_format(Some(&schema), "text.format", &Ignored::default()).unwrap(),
                Some(ReasoningEffort::None),
            ),
        ] {
            let parsed = check(body).unwrap();
            assert_eq!((parsed.format, parsed.effort), (format, effort));
            assert!(parsed.ignored.is_empty());
        }
    }

    #[test]
    fn an_unsupported_value_is_named() {
        for (body, param) in [
            (json!({"temperature": 2.1}), "temperature"),
            (json!({"top_p": -0.1}), "top_p"),
            (json!({"presence_penalty": 2.5}), "presence_penalty"),
            (json!({"frequency_penalty": -3}), "frequency_penalty"),
            (json!({"metadata": {"": "x"}}), "metadata"),
            (json!({"metadata": {"k": "x".repeat(513)}}), "metadata"),
            (json!({"background": true}), "background"),
            (json!({"truncation": "sometimes"}), "truncation"),
            (json!({"n": 2}), "n"),
            (json!({"logprobs": true}), "logprobs"),
            (json!({"logit_bias": {"1": 2}}), "logit_bias"),
            (json!({"modalities": ["text", "audio"]}), "modalities"),
            (json!({"top_logprobs": 1}), "top_logprobs"),
            (json!({"conversation": "conv_1"}), "conversation"),
            (json!({"prompt": {"id": "p"}}), "prompt"),
            (
                json!({"include": ["message.output_text.logprobs"]}),
                "include",
            ),
            (
                json!({"text": {"format": {"type": "json_schema"}}}),
                "text.format",
            ),
            (json!({"model": ""}), "model"),
            (json!({"agent_id": " "}), "agent_id"),
        ] {
            assert_eq!(check(body).map(|_| ()), Err(param.to_owned()));
        }
    }

    #[test]
    fn fields_that_do_not_change_the_answer_are_ignored_and_named() {
        let body = json!({"top_k": 20, "min_p": 0.0, "client_metadata": {"a": "b"}, "service_tier": "flex",
            "prompt_cache_key": "k", "prompt_cache_retention": "24h", "safety_identifier": "s",
            "include": ["reasoning.encrypted_content", "new.thing"], "stream_options": {"include_usage": true},
            "reasoning": {"effort": "huge", "summary": "auto"},
            "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "x", "schema": {}, "x": 1}},
            "tools": [{"type": "namespace"}]});
        let mut paths = check(body).unwrap().ignored;
        paths.sort_unstable();
        let wanted = [
            "client_metadata",
            "include[1]",
            "prompt_cache_key",
            "prompt_cache_retention",
            "reasoning.effort",
            "reasoning.summary",
            "safety_identifier",
            "service_tier",
            "stream_options.include_usage",
            "text.format.x",
            "text.verbosity",
            "tools[0]",
            "top_k",
        ];
        assert_eq!(paths, wanted);
    }

    #[test]
    fn limits_are_reduced_and_blank_labels_are_absent() {
        for (given, wanted) in [
            (None, None),
            (Some(-1), None),
            (Some(0), None),
            (Some(7), Some(7)),
            (Some(5_000_000_000), Some(OUTPUT_TOKENS_MAX)),
        ] {
            assert_eq!(output_tokens(given), wanted);
        }
        let form = CreateResponse {
            user: Some(" ".to_owned()),
            prompt_cache_key: Some(String::new()),
            safety_identifier: Some(String::new()),
            ..CreateResponse::default()
        };
        assert!(form.check(&Ignored::default()).is_ok());
        assert_eq!(form.user(), None);
    }
}
