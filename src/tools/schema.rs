//! Checks arguments against the top level of a function's schema for missing and unknown arguments and wrong types. The
//! function itself checks nested values.

use serde_json::{Map, Value};

use super::function::ToolFunction;
use crate::tool_fault::{ToolErrorCode, ToolFault};

fn bad(text: String) -> ToolFault {
    ToolFault::new(ToolErrorCode::BadArguments, text)
}

/// Checks whether a value has a JSON Schema type. An unknown type matches every value.
fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        _ => true,
    }
}

/// # Errors
/// `bad_arguments`.
pub(super) fn check(
    function: &ToolFunction,
    arguments: &Map<String, Value>,
) -> Result<(), ToolFault> {
    let Some(schema) = &function.definition.parameters else {
        return Ok(());
    };
    // The server's own functions treat `null` and "" as omitted, and accept numbers and lists as text.
    let is_own = function.server_function.is_none();
    let is_left_out = |value: &Value| is_own && (value.is_null() || value == "");
    let required = schema["required"].as_array().into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if arguments.get(name).is_none_or(is_left_out) {
            return Err(bad(format!("`{name}` is missing")));
        }
    }
    let is_closed =
        schema["additionalProperties"] == false && schema["patternProperties"].is_null();
    for (name, value) in arguments {
        let Some(property) = schema["properties"].get(name) else {
            if is_closed {
                return Err(bad(format!("`{name}` is unknown")));
            }
            continue;
        };
        let types: Vec<&str> = match &property["type"] {
            Value::String(name) => vec![name.as_str()],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => continue,
        };
        let is_read = is_left_out(value) || (is_own && value.is_string());
        if !is_read && !types.iter().any(|name| has_type(value, name)) {
            return Err(bad(format!(
                "`{name}` is not of the type {}",
                types.join(" or ")
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        ids::ToolId,
        mcp::{Effect, Risk},
        model::FunctionTool,
        tools::function::{Reach, ServerFunction},
    };

    fn function(schema: Value, server: Option<ServerFunction>) -> ToolFunction {
        ToolFunction {
            action: String::new(),
            title: String::new(),
            kind: None,
            server_function: server,
            effect: Effect::Write,
            reach: Reach::Outward,
            risk: Risk::Approve,
            trusts_reads: false,
            is_grantable: false,
            source: String::new(),
            definition_hash: String::new(),
            definition: FunctionTool {
                name: "create".to_owned(),
                description: None,
                parameters: Some(schema),
                strict: None,
            },
        }
    }

    #[test]
    fn missing_unknown_and_wrong_arguments_are_refused() {
        let schema = json!({"type": "object", "required": ["title"], "additionalProperties": false,
            "properties": {"title": {"type": "string"}, "n": {"type": ["integer", "null"]}, "any": {}}});
        let server = ServerFunction {
            tool: ToolId::new(),
            name: "create".to_owned(),
        };
        let own = function(schema.clone(), None);
        let other = function(schema, Some(server));
        for (arguments, of_server, of_own) in [
            (json!({"title": "x"}), true, true),
            (json!({"title": "x", "n": 1.0, "any": [1]}), true, true),
            (json!({"title": "x", "n": null}), true, true),
            (json!({"title": "x", "n": "7"}), false, true),
            (json!({"title": ""}), true, false),
            (json!({"title": "x", "n": 1.5}), false, false),
            (json!({"title": 1}), false, false),
            (json!({"title": null}), false, false),
            (json!({}), false, false),
            (json!({"title": "x", "extra": 1}), false, false),
        ] {
            let arguments = arguments.as_object().unwrap();
            let found = [&other, &own].map(|function| check(function, arguments).is_ok());
            assert_eq!(found, [of_server, of_own], "{arguments:?}");
        }
        let open = function(json!({"type": "object"}), None);
        let anything = json!({"a": 1});
        assert!(check(&open, anything.as_object().unwrap()).is_ok());
    }
}
