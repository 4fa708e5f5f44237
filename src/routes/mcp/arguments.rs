//! Arguments of tools, parsed like request bodies of the API, except that common mistakes of models are corrected first.

use std::str::FromStr;

use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    http::{ApiError, extract::parse_json},
    ids::IdError,
};

/// Corrects arguments by the schema of their tool, where the meaning is clear: numbers and booleans as texts, numbers where texts are
/// expected, numbers above the maximum, and optional arguments that are blank or null.
pub(super) fn corrected(arguments: JsonObject, schema: &JsonObject) -> JsonObject {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|of| of == name));
    let properties = schema.get("properties").unwrap_or(&Value::Null);
    let given = arguments.into_iter().filter(|(name, value)| {
        let is_blank = value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty());
        !is_blank || is_required(name) || properties.get(name).is_none()
    });
    let corrected = given.map(|(name, value)| {
        let value = match properties.get(&name) {
            Some(property) => fitted(value, property),
            None => value,
        };
        (name, value)
    });
    corrected.collect()
}

fn fitted(value: Value, property: &Value) -> Value {
    let fitting = match (property["type"].as_str(), &value) {
        (Some("integer"), Value::String(text)) => text.trim().parse::<i64>().ok().map(Value::from),
        (Some("integer"), Value::Number(number)) => whole(number),
        (Some("boolean"), Value::String(text)) => match text.trim().to_lowercase().as_str() {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => None,
        },
        (Some("string"), Value::Number(number)) => Some(Value::String(number.to_string())),
        _ => None,
    };
    let value = fitting.unwrap_or(value);
    match (value.as_i64(), property["maximum"].as_i64()) {
        (Some(given), Some(most)) if given > most => most.into(),
        _ => value,
    }
}

/// Returns an integer for a number such as 5.0.
#[expect(
    clippy::cast_possible_truncation,
    reason = "only numbers that are exact integers are converted"
)]
fn whole(number: &serde_json::Number) -> Option<Value> {
    let exact = number
        .as_f64()
        .filter(|n| n.fract() == 0.0 && n.abs() < 9e15);
    let is_float = number.as_i64().is_none() && number.as_u64().is_none();
    exact.filter(|_| is_float).map(|n| Value::from(n as i64))
}

/// # Errors
/// Same as for a request body of the API.
pub(super) fn parsed<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, ApiError> {
    parse_json(Value::Object(arguments).to_string().as_bytes())
}

/// Removes a required ID from the arguments, and returns it.
///
/// # Errors
/// `InvalidField`, or `WrongKindOfId` for an ID of another kind.
pub(super) fn take_id<Id: FromStr<Err = IdError>>(
    arguments: &mut JsonObject,
    name: &str,
) -> Result<Id, ApiError> {
    let malformed = |text: String| ApiError::malformed_field(text, name);
    match arguments.remove(name) {
        Some(Value::String(text)) => text.parse().map_err(|e: IdError| malformed(e.to_string())),
        Some(_) => Err(malformed(format!("`{name}` is not a string"))),
        None => {
            let text = format!("missing field `{name}`");
            Err(ApiError::malformed_field(text, ""))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clear_mistakes_are_corrected() {
        let schema = json!({"type": "object", "required": ["query"], "properties": {
            "query": {"type": "string"}, "channel": {"type": "string"}, "done": {"type": "boolean"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 20}}});
        for (given, expected) in [
            (json!({"limit": "5"}), json!({"limit": 5})),
            (json!({"limit": 5.0}), json!({"limit": 5})),
            (json!({"limit": 500}), json!({"limit": 20})),
            (json!({"limit": " 500 "}), json!({"limit": 20})),
            (json!({"limit": 1e300}), json!({"limit": 1e300})),
            (json!({"limit": 2.5}), json!({"limit": 2.5})),
            (json!({"limit": "many"}), json!({"limit": "many"})),
            (json!({"limit": -1}), json!({"limit": -1})),
            (
                json!({"limit": "", "channel": " ", "done": null}),
                json!({}),
            ),
            (json!({"query": ""}), json!({"query": ""})),
            (json!({"query": null}), json!({"query": null})),
            (json!({"query": 2026}), json!({"query": "2026"})),
            (json!({"done": "True"}), json!({"done": true})),
            (json!({"done": "yes"}), json!({"done": "yes"})),
            (json!({"color": ""}), json!({"color": ""})),
        ] {
            let (Value::Object(given), Value::Object(schema)) = (given.clone(), &schema) else {
                panic!("{given}");
            };
            assert_eq!(Value::Object(corrected(given, schema)), expected);
        }
    }
}
