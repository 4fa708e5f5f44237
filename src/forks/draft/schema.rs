//! JSON schema of the answer, for models with structured output.

use serde_json::{Value, json};

/// A JSON schema in the strict subset: all fields are required, no others are allowed, and optional
/// values can be `null`. It has no counts and lengths, because few servers support them; `check`
/// verifies those.
pub fn schema() -> Value {
    let sources = json!({"type": "array", "items": {"type": "string"}});
    let points = json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "sources": &sources},
            "required": ["text", "sources"],
            "additionalProperties": false,
        },
    });
    json!({
        "type": "object",
        "properties": {
            "headline": {"type": "string"},
            "conclusion": {"type": "string"},
            "key_points": &points,
            "action_items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "text": {"type": "string"},
                        "owner": {"type": ["string", "null"]},
                        "due": {"type": ["string", "null"]},
                        "sources": &sources,
                    },
                    "required": ["text", "owner", "due", "sources"],
                    "additionalProperties": false,
                },
            },
            "open_questions": &points,
            "deferred_items": &points,
        },
        "required": [
            "headline", "conclusion", "key_points", "action_items", "open_questions", "deferred_items",
        ],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Strict mode requires this of every nested object.
    fn is_strict(schema: &Value) -> bool {
        let fields = schema["properties"].as_object();
        let is_closed = fields.is_none_or(|fields| {
            let required: Vec<&str> = schema["required"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Value::as_str)
                .collect();
            schema["additionalProperties"] == json!(false)
                && required.len() == fields.len()
                && fields.keys().all(|name| required.contains(&name.as_str()))
                && fields.values().all(is_strict)
        });
        is_closed && schema.get("items").is_none_or(is_strict)
    }

    #[test]
    fn every_object_of_the_schema_is_closed_and_requires_all_its_fields() {
        assert!(is_strict(&schema()));
    }
}
