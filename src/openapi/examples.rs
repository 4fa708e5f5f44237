//! Examples for the document, generated from the schemas where a handler does not provide any. The fuzzer (`tests/fuzz`) validates
//! them.

use serde_json::{Map, Value, json};

/// Maximum nesting, because schemas can be recursive.
const DEPTH_MAX: usize = 5;
/// Part of an example ID after the prefix.
const ID: &str = "01k5t3h8xze4bs4p8v2m9qwd7a";

/// Example value for a field name, for schemas that allow any string or number.
fn by_name(name: &str) -> Option<Value> {
    Some(match name {
        "name" => json!("Ada"),
        "handle" => json!("ada"),
        "slug" => json!("northwind"),
        "email" => json!("ada@example.org"),
        "title" => json!("Friday or Monday?"),
        "content" | "text" | "content_plain" => json!("Monday: two quiet days before the fair."),
        "headline" => json!("We launch on Monday"),
        "conclusion" => json!("We launch on Monday, because nobody deploys on a Friday."),
        "emoji" => json!("👍"),
        "description" => json!("Helps with plans"),
        "instructions" => json!("You help the team with its plans."),
        "model" => json!("claude-sonnet-4-5"),
        "url" => json!("https://chat.example.org/invite/…"),
        "path" => json!("SOUL.md"),
        "epoch" => json!("01k5t3h8xz"),
        "seq" => json!(124),
        "version" | "agent_version" | "revision" | "attempt" => json!(1),
        "size_bytes" => json!(48_213),
        _ => return None,
    })
}

/// Generates example values from schemas.
pub(super) struct Examples {
    /// `#/components/schemas`
    schemas: Value,
}

impl Examples {
    pub(super) fn new(schemas: Value) -> Self {
        Self { schemas }
    }

    fn follow<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str().and_then(|at| at.rsplit('/').next()) {
            Some(name) => self.follow(&self.schemas[name]),
            None => schema,
        }
    }

    /// Example value of a schema, with all required fields.
    pub(super) fn of(&self, schema: &Value) -> Value {
        self.value(schema, "", 0)
    }

    fn value(&self, schema: &Value, name: &str, depth: usize) -> Value {
        // Keywords next to a reference take precedence over the referenced schema.
        let given = |schema: &Value| {
            ["example", "const"]
                .iter()
                .find_map(|key| schema.get(key))
                .or_else(|| schema["examples"].get(0))
                .or_else(|| schema["enum"].get(0))
                .cloned()
        };
        if let Some(value) = given(schema) {
            return value;
        }
        let schema = self.follow(schema);
        if let Some(value) = given(schema) {
            return value;
        }
        for list in ["oneOf", "anyOf"] {
            if let Some(choices) = schema[list].as_array() {
                // Nullable values are shown as null.
                let null = choices.iter().find(|choice| choice["type"] == "null");
                let chosen = null.or_else(|| choices.first());
                return chosen.map_or(Value::Null, |choice| self.value(choice, name, depth));
            }
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let mut whole = Map::new();
            for part in parts {
                if let Value::Object(fields) = self.value(part, name, depth) {
                    whole.extend(fields);
                }
            }
            whole.extend(self.fields(schema, depth));
            return Value::Object(whole);
        }
        let kind = match &schema["type"] {
            Value::String(kind) => kind.as_str(),
            Value::Array(kinds) if kinds.iter().any(|kind| kind == "null") => "null",
            Value::Array(kinds) => kinds.first().and_then(Value::as_str).unwrap_or_default(),
            _ => "",
        };
        match kind {
            "string" => Self::text(schema, name),
            "integer" | "number" => {
                let fits = |n: &Value| {
                    let n = n.as_f64().unwrap_or_default();
                    n >= schema["minimum"].as_f64().unwrap_or(f64::MIN)
                        && n <= schema["maximum"].as_f64().unwrap_or(f64::MAX)
                };
                let named = by_name(name).filter(|value| value.is_number() && fits(value));
                named.unwrap_or_else(|| schema.get("minimum").cloned().unwrap_or_else(|| json!(0)))
            }
            "boolean" => json!(false),
            "array" if depth < DEPTH_MAX => json!([self.value(&schema["items"], name, depth + 1)]),
            "array" => json!([]),
            "object" => Value::Object(self.fields(schema, depth)),
            "null" => Value::Null,
            _ => json!({}),
        }
    }

    /// Required fields of an object; all fields if none is required.
    fn fields(&self, schema: &Value, depth: usize) -> Map<String, Value> {
        let required = schema["required"].as_array();
        let properties = schema["properties"].as_object().into_iter().flatten();
        properties
            .filter(|(name, _)| required.is_none_or(|list| list.iter().any(|r| r == name.as_str())))
            .map(|(name, value)| {
                let value = if depth < DEPTH_MAX {
                    self.value(value, name, depth + 1)
                } else {
                    self.value(value, name, DEPTH_MAX)
                };
                (name.clone(), value)
            })
            .collect()
    }

    fn text(schema: &Value, name: &str) -> Value {
        let pattern = schema["pattern"].as_str().unwrap_or_default();
        if let Some((prefix, _)) = pattern
            .strip_prefix('^')
            .and_then(|rest| rest.split_once("_[0-7]"))
        {
            return json!(format!("{prefix}_{ID}"));
        }
        match schema["format"].as_str() {
            Some("date-time") => return json!("2026-11-20T09:30:00.000Z"),
            Some("date") => return json!("2026-11-23"),
            _ => {}
        }
        let named = by_name(name).filter(Value::is_string);
        named.unwrap_or_else(|| json!("…"))
    }
}
