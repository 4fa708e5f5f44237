//! Checks arguments against a function's schema: missing and unknown arguments at the top level, and wrong types everywhere. The
//! function itself checks the rest.

use serde_json::{Map, Value};

use super::{
    convert::{self, has_type},
    function::ToolFunction,
};
use crate::tool_fault::{ToolErrorCode, ToolFault};

/// Maximum depth of checked values.
const DEPTH_MAX: usize = 16;

fn bad(text: String) -> ToolFault {
    ToolFault::new(ToolErrorCode::BadArguments, text)
}

/// # Errors
/// `bad_arguments`.
pub fn check(function: &ToolFunction, arguments: &Map<String, Value>) -> Result<(), ToolFault> {
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
        if !is_own {
            check_nested(schema, property, value, name, DEPTH_MAX)?;
        }
    }
    Ok(())
}

/// Checks the types of the values in a list or an object.
fn check_nested(
    root: &Value,
    schema: &Value,
    value: &Value,
    path: &str,
    depth: usize,
) -> Result<(), ToolFault> {
    let alternatives = convert::alternatives(root, schema);
    let ([schema], 1..) = (alternatives.as_slice(), depth) else {
        return Ok(());
    };
    let check_one = |schema: &Value, value: &Value, path: String| {
        let types = convert::types(root, schema);
        if let Some(types) = types
            && !types.iter().any(|name| has_type(value, name))
        {
            let types = types.join(" or ");
            return Err(bad(format!("`{path}` is not of the type {types}")));
        }
        check_nested(root, schema, value, &path, depth - 1)
    };
    match value {
        Value::Array(all) if schema["items"].is_object() => {
            let mut all = all.iter().enumerate();
            all.try_for_each(|(n, entry)| {
                check_one(&schema["items"], entry, format!("{path}[{n}]"))
            })
        }
        Value::Object(all) => {
            all.iter()
                .try_for_each(|(name, entry)| match schema["properties"].get(name) {
                    Some(property) => check_one(property, entry, format!("{path}.{name}")),
                    None => Ok(()),
                })
        }
        _ => Ok(()),
    }
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
    fn a_nested_value_of_a_wrong_type_is_named_by_its_path() {
        let schema = json!({"type": "object", "properties": {"items": {"type": "array", "items":
            {"type": "object", "properties": {"n": {"type": "integer"}}}}}});
        let server = ServerFunction {
            tool: ToolId::new(),
            name: "create".to_owned(),
        };
        let other = function(schema, Some(server));
        let arguments = json!({"items": [{"n": 1}, {"n": "one"}]});
        let fault = check(&other, arguments.as_object().unwrap()).unwrap_err();
        assert_eq!(fault.message, "`items[1].n` is not of the type integer");
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
