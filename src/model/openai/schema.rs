//! Schemas of functions in the form that a server accepts.

use serde_json::{Map, Value, json};

/// Maximum size of a schema after its references have been replaced.
const BYTES_MAX: usize = 64 * 1024;
/// Maximum depth of a schema.
const DEPTH_MAX: usize = 32;
/// Keywords that some servers reject and that do not restrict values.
const REMOVED: [&str; 3] = ["$schema", "$id", "$comment"];
/// Keywords of the simplest schemas, which all servers accept.
const KEPT: [&str; 7] = [
    "type",
    "properties",
    "required",
    "items",
    "enum",
    "description",
    "anyOf",
];

/// Returns a schema without keywords that have no effect on values, and with its local references replaced. Objects get `properties`,
/// and arrays `items`, which many servers require.
pub(super) fn plain(schema: &Value) -> Value {
    let mut room = BYTES_MAX;
    let inlined = inline(schema, schema, DEPTH_MAX, &mut room);
    let mut schema = inlined.unwrap_or_else(|| schema.clone());
    complete(&mut schema, DEPTH_MAX);
    if let Some(root) = schema.as_object_mut() {
        root.entry("type").or_insert_with(|| "object".into());
        if root["type"] == "object" {
            root.entry("properties").or_insert_with(|| json!({}));
        }
    }
    schema
}

/// Returns a schema that contains only the keywords of `KEPT`. Calls are checked with the complete schema.
pub(super) fn simplest(schema: &Value) -> Value {
    let mut simple = simplified(schema, DEPTH_MAX);
    complete(&mut simple, DEPTH_MAX);
    simple
}

fn simplified(schema: &Value, depth: usize) -> Value {
    let (Value::Object(object), 1..) = (schema, depth) else {
        // `true` allows every value.
        return json!({});
    };
    let mut simple = Map::new();
    for (name, value) in object {
        let all = |of: &Value| match of {
            Value::Array(all) => {
                let all = all.iter().map(|part| simplified(part, depth - 1));
                Value::Array(all.collect())
            }
            _ => json!([]),
        };
        let (name, value) = match (name.as_str(), value) {
            // One type of several.
            ("type", Value::Array(types)) => {
                let first = types.iter().find(|name| *name != "null");
                ("type", first.or(types.first()).cloned().unwrap_or_default())
            }
            ("properties", Value::Object(parts)) => {
                let parts = parts.iter();
                let parts = parts.map(|(name, part)| (name.clone(), simplified(part, depth - 1)));
                ("properties", Value::Object(parts.collect()))
            }
            ("items", items) => ("items", simplified(items, depth - 1)),
            ("anyOf" | "oneOf", parts) => ("anyOf", all(parts)),
            ("const", value) => ("enum", json!([value])),
            (name, value) if KEPT.contains(&name) => (name, value.clone()),
            _ => continue,
        };
        simple.insert(name.to_owned(), value);
    }
    Value::Object(simple)
}

/// Replaces local references. Returns `None` if the result would be too large, or if a schema refers to itself.
fn inline(root: &Value, schema: &Value, depth: usize, room: &mut usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    match schema {
        Value::Object(object) => {
            let target = schema["$ref"]
                .as_str()
                .and_then(|path| path.strip_prefix('#'));
            if let Some(target) = target.and_then(|path| root.pointer(path)) {
                let mut found = inline(root, target, depth, room)?;
                if let (Some(found), Some(text)) =
                    (found.as_object_mut(), object.get("description"))
                {
                    found.insert("description".to_owned(), text.clone());
                }
                return Some(found);
            }
            let mut inlined = Map::new();
            for (name, value) in object {
                if depth + 1 == DEPTH_MAX && matches!(name.as_str(), "$defs" | "definitions") {
                    continue;
                }
                *room = room.checked_sub(name.len())?;
                inlined.insert(name.clone(), inline(root, value, depth, room)?);
            }
            Some(Value::Object(inlined))
        }
        Value::Array(all) => {
            let all = all.iter().map(|one| inline(root, one, depth, room));
            all.collect::<Option<Vec<Value>>>().map(Value::Array)
        }
        other => {
            *room = room.checked_sub(other.as_str().map_or(8, str::len))?;
            Some(other.clone())
        }
    }
}

/// Adds and removes keywords in a schema and in its parts.
fn complete(schema: &mut Value, depth: usize) {
    let (Value::Object(object), 1..) = (schema, depth) else {
        return;
    };
    object.retain(|name, _| !REMOVED.contains(&name.as_str()));
    let has_type = |object: &Map<String, Value>, name: &str| {
        object.get("type").is_some_and(|kind| *kind == name)
    };
    if has_type(object, "object") {
        object.entry("properties").or_insert_with(|| json!({}));
    }
    if has_type(object, "array") {
        object.entry("items").or_insert_with(|| json!({}));
    }
    for (name, part) in object.iter_mut() {
        match (name.as_str(), part) {
            ("properties" | "patternProperties", Value::Object(all)) => {
                for part in all.values_mut() {
                    complete(part, depth - 1);
                }
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(all)) => {
                for part in all {
                    complete(part, depth - 1);
                }
            }
            ("items" | "additionalProperties" | "not", part) => complete(part, depth - 1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_schema_has_no_references_and_everything_that_servers_require() {
        let schema = json!({"$schema": "x", "type": "object", "additionalProperties": false, "properties": {
            "a": {"$ref": "#/$defs/a", "description": "An a."}, "b": {"type": "array"}, "c": {"type": "object"}},
            "$defs": {"a": {"type": "object", "$comment": "c", "properties": {"x": {"type": "integer"}}}}});
        assert_eq!(
            plain(&schema),
            json!({"type": "object", "additionalProperties": false, "properties": {
            "a": {"type": "object", "description": "An a.", "properties": {"x": {"type": "integer"}}},
            "b": {"type": "array", "items": {}}, "c": {"type": "object", "properties": {}}}})
        );
        assert_eq!(
            plain(&json!({})),
            json!({"type": "object", "properties": {}})
        );
        let of_itself = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}});
        assert_eq!(plain(&of_itself), of_itself);
    }

    #[test]
    fn the_simplest_schema_has_only_keywords_that_all_servers_accept() {
        let schema = json!({"type": "object", "additionalProperties": false, "required": ["a"], "properties": {
            "a": {"type": ["null", "string"], "minLength": 1, "description": "An a."},
            "b": {"oneOf": [{"const": 1, "title": "t"}, {"type": "array"}], "default": 1},
            "type": true}});
        assert_eq!(
            simplest(&schema),
            json!({"type": "object", "required": ["a"], "properties": {
                "a": {"type": "string", "description": "An a."},
                "b": {"anyOf": [{"enum": [1]}, {"type": "array", "items": {}}]},
                "type": {}}})
        );
        assert_eq!(simplest(&simplest(&schema)), simplest(&schema));
    }
}
