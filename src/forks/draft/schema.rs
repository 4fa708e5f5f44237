//! JSON schema of the answer, for models with structured output.

use serde_json::{Map, Value, json};

/// A JSON schema in the strict subset: all fields are required, no others are allowed, and optional values can be `null`. The schema
/// does not limit counts or lengths, because few servers support such limits; `check` enforces them.
pub fn schema() -> Value {
    let text = json!({"type": "string"});
    let optional = json!({"type": ["string", "null"]});
    let sources = list(&text);
    let point = object(&json!({"text": text, "sources": sources}));
    let item = json!({"text": text, "owner": optional, "due": optional, "sources": sources});
    object(&json!({
        "headline": text,
        "conclusion": text,
        "key_points": list(&point),
        "action_items": list(&object(&item)),
        "open_questions": list(&point),
        "deferred_items": list(&point),
    }))
}

fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

fn object(properties: &Value) -> Value {
    let names = properties.as_object().into_iter().flat_map(Map::keys);
    json!({
        "type": "object",
        "properties": properties,
        "required": names.collect::<Vec<_>>(),
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the requirements of strict mode for every nested object.
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
