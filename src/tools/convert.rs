//! Converts arguments to the types of a function's schema, because small models send numbers, lists, and objects as text.
//!
//! A value is converted only if the schema does not allow it as it is and the conversion is exact. Everything else is left to the
//! check that follows.

use serde_json::{Map, Value};

/// Maximum depth of converted values.
const DEPTH_MAX: usize = 16;
/// Largest integer that every JSON parser reads exactly.
const INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

/// Converts the arguments of a call.
pub(super) fn convert(schema: &Value, arguments: &mut Map<String, Value>) {
    let converter = Converter { root: schema };
    converter.object(schema, arguments, DEPTH_MAX);
}

/// Follows references from `schema`, which must be local.
pub(super) fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..DEPTH_MAX {
        let target = schema["$ref"]
            .as_str()
            .and_then(|path| path.strip_prefix('#'));
        match target.and_then(|path| root.pointer(path)) {
            Some(found) => schema = found,
            None => break,
        }
    }
    schema
}

/// Returns the alternatives of a schema: those of `anyOf` or `oneOf`, or the schema itself.
pub(super) fn alternatives<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let schema = resolved(root, schema);
    let any = ["anyOf", "oneOf"]
        .iter()
        .find_map(|name| schema[*name].as_array());
    match any {
        Some(any) if schema["type"].is_null() => {
            any.iter().map(|one| resolved(root, one)).collect()
        }
        _ => vec![schema],
    }
}

/// Returns the types that a schema allows; `None` if it allows any.
pub(super) fn types<'a>(root: &'a Value, schema: &'a Value) -> Option<Vec<&'a str>> {
    let mut types = Vec::new();
    for one in alternatives(root, schema) {
        match &one["type"] {
            Value::String(name) => types.push(name.as_str()),
            Value::Array(names) => types.extend(names.iter().filter_map(Value::as_str)),
            _ => {
                let values = one["enum"]
                    .as_array()
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                let values = values.iter().chain(one.get("const"));
                let found: Vec<&str> = values.map(type_of).collect();
                if found.is_empty() {
                    return None;
                }
                types.extend(found);
            }
        }
    }
    Some(types)
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Checks whether a value has a JSON Schema type. An unknown type matches every value.
pub(super) fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "string" | "boolean" | "array" | "object" | "null" | "number" => type_of(value) == name,
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        _ => true,
    }
}

struct Converter<'a> {
    /// The whole schema, for references.
    root: &'a Value,
}

impl Converter<'_> {
    fn object(&self, schema: &Value, object: &mut Map<String, Value>, depth: usize) {
        let schema = resolved(self.root, schema);
        let required = schema["required"].as_array().into_iter().flatten();
        let required: Vec<&str> = required.filter_map(Value::as_str).collect();
        object.retain(|name, value| {
            let Some(property) = schema["properties"].get(name) else {
                return true;
            };
            required.contains(&name.as_str()) || !self.is_left_out(property, value)
        });
        for (name, value) in object.iter_mut() {
            let property = schema["properties"].get(name);
            let property = property.or(schema.get("additionalProperties"));
            if let Some(property) = property.filter(|property| property.is_object()) {
                self.value(property, value, depth);
            }
        }
    }

    /// Checks whether a value stands for an omitted property: null or "", if the schema does not allow it.
    fn is_left_out(&self, schema: &Value, value: &Value) -> bool {
        let types = types(self.root, schema);
        let allows = |name: &str| types.as_ref().is_none_or(|types| types.contains(&name));
        (value.is_null() && !allows("null")) || (*value == "" && !allows("string"))
    }

    fn value(&self, schema: &Value, value: &mut Value, depth: usize) {
        if depth == 0 {
            return;
        }
        let Some(types) = types(self.root, schema) else {
            return;
        };
        if !types.iter().any(|name| has_type(value, name))
            && let Some(converted) = converted(value, &types)
        {
            *value = converted;
        }
        if types.contains(&"integer")
            && !types.contains(&"number")
            && let Some(whole) = whole(value)
        {
            *value = whole;
        }
        // With several alternatives, it is not known which of them the value has.
        let alternatives = alternatives(self.root, schema);
        let mut fitting = alternatives
            .into_iter()
            .filter(|one| one["type"] == type_of(value) || one["type"].is_array());
        let (Some(one), None) = (fitting.next(), fitting.next()) else {
            return;
        };
        match value {
            Value::Object(object) => self.object(one, object, depth - 1),
            Value::Array(all) if one["items"].is_object() => {
                for entry in all {
                    self.value(&one["items"], entry, depth - 1);
                }
            }
            _ => {}
        }
    }
}

/// Converts a value that has none of these types.
fn converted(value: &Value, types: &[&str]) -> Option<Value> {
    let allows = |name: &str| types.contains(&name);
    let parsed = match value {
        Value::String(text) => parsed(text.trim(), types),
        Value::Number(number) if allows("string") => Some(number.to_string().into()),
        _ => None,
    };
    if parsed.is_some() || !allows("array") || value.is_null() {
        return parsed;
    }
    Some(Value::Array(vec![value.clone()]))
}

/// Parses a text as a value of one of these types.
fn parsed(text: &str, types: &[&str]) -> Option<Value> {
    let value = match text {
        "True" => Value::Bool(true),
        "False" => Value::Bool(false),
        _ => serde_json::from_str(text).ok()?,
    };
    // "1e2" and "01" are not the usual form of a number, so they can mean something else.
    let is_exact = !value.is_number() || text.bytes().all(|b| !b.is_ascii_alphabetic());
    let is_allowed = |name: &str| name != "null" && has_type(&value, name);
    (is_exact && !value.is_string() && types.iter().any(|name| is_allowed(name))).then_some(value)
}

/// Returns a number without a fraction, such as 4.0, as an integer.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn whole(value: &Value) -> Option<Value> {
    let Value::Number(number) = value else {
        return None;
    };
    if !number.is_f64() {
        return None;
    }
    let n = number.as_f64()?;
    (n.fract() == 0.0 && n.abs() <= INTEGER_MAX).then(|| (n as i64).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_converted_only_if_the_schema_requires_it_and_it_is_exact() {
        let schema = json!({"type": "object", "required": ["name"], "properties": {
            "limit": {"type": "integer"}, "ratio": {"type": ["number", "null"]}, "deep": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}}, "name": {"type": "string"},
            "free": {"type": ["string", "integer"]}, "any": {}, "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "where": {"$ref": "#/$defs/where"}, "list": {"type": "array", "items": {"$ref": "#/$defs/where"}},
            "level": {"enum": [1, 2]}},
            "$defs": {"where": {"type": "object", "properties": {"x": {"type": "integer"}}}}});
        for (given, wanted) in [
            (
                json!({"limit": "4", "deep": "true", "tags": "[\"x\"]"}),
                json!({"limit": 4, "deep": true, "tags": ["x"]}),
            ),
            (
                json!({"limit": 4.0, "ratio": "0.5", "deep": "False"}),
                json!({"limit": 4, "ratio": 0.5, "deep": false}),
            ),
            (json!({"limit": "", "deep": null, "tags": null}), json!({})),
            (
                json!({"name": "", "ratio": null, "free": "4"}),
                json!({"name": "", "ratio": null, "free": "4"}),
            ),
            (
                json!({"name": 7, "any": "7"}),
                json!({"name": "7", "any": "7"}),
            ),
            (json!({"tags": "x"}), json!({"tags": ["x"]})),
            (json!({"tags": [1, "a"]}), json!({"tags": ["1", "a"]})),
            (json!({"size": "3"}), json!({"size": 3})),
            (
                json!({"where": "{\"x\": \"1\"}"}),
                json!({"where": {"x": 1}}),
            ),
            (
                json!({"list": [{"x": "1"}], "level": "2"}),
                json!({"list": [{"x": 1}], "level": 2}),
            ),
            (json!({"list": {"x": "1"}}), json!({"list": [{"x": 1}]})),
            (
                json!({"limit": "four", "deep": "maybe"}),
                json!({"limit": "four", "deep": "maybe"}),
            ),
            (
                json!({"limit": "1e2", "deep": 1}),
                json!({"limit": "1e2", "deep": 1}),
            ),
            (
                json!({"limit": "4.5", "unknown": "4"}),
                json!({"limit": "4.5", "unknown": "4"}),
            ),
        ] {
            let Value::Object(mut arguments) = given.clone() else {
                panic!("{given}")
            };
            convert(&schema, &mut arguments);
            assert_eq!(Value::Object(arguments), wanted, "{given}");
        }
    }

    #[test]
    fn references_without_an_end_do_no_harm() {
        let schema = json!({"properties": {"a": {"$ref": "#/properties/a"}, "b": {"$ref": "#/x"}}});
        let mut arguments = json!({"a": "1", "b": "2"}).as_object().cloned().unwrap();
        convert(&schema, &mut arguments);
        assert_eq!(Value::Object(arguments), json!({"a": "1", "b": "2"}));
    }
}
