//! JSON Schemas of arguments and results, from the types that the API document describes.
//!
//! Many clients pass schemas to models whose servers know only a part of JSON Schema, so references are replaced with what they refer to,
//! and there are no null types: an argument that can be null can be left out, and a result that can be null has any type.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use crate::http::page::List;

/// Prefix of references in the API document.
const COMPONENTS: &str = "#/components/schemas/";
/// Maximum size of the schema of a result as JSON. The inner objects of a larger one are not described.
pub(super) const OUTPUT_BYTES_MAX: usize = 12 * 1024;
/// Depth of the inner objects that are described at most.
const OBJECTS_MAX: usize = 12;
/// Depth to which references are replaced; types that contain themselves are not described further.
const REFERENCES_MAX: usize = 6;

type JsonSchema = Map<String, Value>;
/// Schemas by name.
type Definitions = Vec<(String, RefOr<Schema>)>;

/// Returns the schema of arguments, with descriptions for models.
pub(super) fn input<T: ToSchema>() -> JsonSchema {
    let mut definitions = Definitions::new();
    T::schemas(&mut definitions);
    object(&T::schema(), definitions, Nulls::Absent)
}

/// Returns the schema of a form with an additional required argument, which the route takes from its path.
pub(super) fn input_with<T: ToSchema, Id: ToSchema>(name: &str) -> JsonSchema {
    let mut schema = Value::Object(input::<T>());
    schema["properties"][name] = to_value(&Id::schema());
    match schema["required"].as_array_mut() {
        Some(required) => required.push(name.into()),
        None => schema["required"] = json!([name]),
    }
    to_object(schema)
}

/// Returns the schema of a result, without descriptions, because tools are listed often and the API document contains the
/// descriptions.
pub(super) fn output<T: ToSchema>() -> JsonSchema {
    let mut definitions = Definitions::new();
    T::schemas(&mut definitions);
    shortened(object(&T::schema(), definitions, Nulls::Any))
}

/// Returns the schema of a list. The schema of the items is added, because `List` refers to it only by name.
pub(super) fn output_list<T: ToSchema>() -> JsonSchema {
    let mut definitions = Definitions::from([(T::name().into_owned(), T::schema())]);
    T::schemas(&mut definitions);
    shortened(object(&List::<T>::schema(), definitions, Nulls::Any))
}

/// Removes texts, and the description of inner objects as far as the size requires.
fn shortened(schema: JsonSchema) -> JsonSchema {
    let mut schema = Value::Object(schema);
    remove_texts(&mut schema);
    for depth in (1..OBJECTS_MAX).rev() {
        if schema.to_string().len() <= OUTPUT_BYTES_MAX {
            break;
        }
        close_objects(&mut schema, depth);
    }
    to_object(schema)
}

/// Replaces objects inside of `depth` others with objects of any properties.
fn close_objects(schema: &mut Value, depth: usize) {
    let Value::Object(map) = schema else {
        if let Value::Array(list) = schema {
            for value in list {
                close_objects(value, depth);
            }
        }
        return;
    };
    if depth == 0 && map.contains_key("properties") {
        *schema = json!({"type": "object"});
        return;
    }
    for (key, value) in map {
        match value {
            Value::Object(properties) if key == "properties" => properties
                .values_mut()
                .for_each(|value| close_objects(value, depth.saturating_sub(1))),
            value => close_objects(value, depth),
        }
    }
}

fn to_value(schema: &RefOr<Schema>) -> Value {
    serde_json::to_value(schema).unwrap_or_default()
}

fn to_object(schema: Value) -> JsonSchema {
    match schema {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Treatment of values that can be null.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nulls {
    /// They are absent instead.
    Absent,
    /// They have any type.
    Any,
}

/// Builds a complete schema without references.
fn object(schema: &RefOr<Schema>, definitions: Definitions, nulls: Nulls) -> JsonSchema {
    let definitions = definitions.into_iter();
    let definitions = definitions.map(|(name, schema)| (name, to_value(&schema)));
    let plain = Plain {
        definitions: definitions.collect(),
        nulls,
    };
    to_object(plain.form(to_value(schema), 0))
}

struct Plain {
    definitions: HashMap<String, Value>,
    nulls: Nulls,
}

impl Plain {
    /// Replaces references and null types in a schema inside of `depth` references.
    fn form(&self, schema: Value, depth: usize) -> Value {
        match schema {
            Value::Object(map) => self.form_object(map, depth),
            Value::Array(list) => {
                let forms = list.into_iter().map(|schema| self.form(schema, depth));
                forms.collect()
            }
            other => other,
        }
    }

    fn form_object(&self, mut map: JsonSchema, depth: usize) -> Value {
        if depth > REFERENCES_MAX {
            return json!({});
        }
        if let Some(Value::String(to)) = map.get("$ref") {
            let name = to.strip_prefix(COMPONENTS).unwrap_or_default();
            let target = self.definitions.get(name).cloned().unwrap_or_default();
            map.remove("$ref");
            let mut target = to_object(self.form(target, depth + 1));
            // Members beside a reference describe this use of it.
            target.extend(map);
            return target.into();
        }
        let is_null = |schema: &Value| schema["type"] == "null";
        let mut is_nullable = false;
        if let Some(Value::Array(types)) = map.get_mut("type") {
            let count = types.len();
            types.retain(|kind| kind != "null");
            is_nullable = types.len() < count;
            if let [kind] = types.as_slice() {
                map["type"] = kind.clone();
            }
        }
        for keyword in ["oneOf", "anyOf"] {
            let Some(Value::Array(forms)) = map.get_mut(keyword) else {
                continue;
            };
            let count = forms.len();
            forms.retain(|form| !is_null(form));
            is_nullable |= forms.len() < count;
            if let [form] = forms.as_mut_slice() {
                let form = self.form(form.take(), depth);
                map.remove(keyword);
                let mut form = to_object(form);
                form.extend(std::mem::take(&mut map));
                map = form;
            }
        }
        if is_nullable && self.nulls == Nulls::Any {
            return json!({});
        }
        let forms = map.into_iter();
        let forms = forms.map(|(key, value)| (key, self.form(value, depth)));
        Value::Object(forms.collect())
    }
}

/// Removes descriptions and examples. Properties with these names are kept: their values are objects.
fn remove_texts(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| match key.as_str() {
                "description" => !value.is_string(),
                "examples" => !value.is_array(),
                _ => true,
            });
            map.values_mut().for_each(remove_texts);
        }
        Value::Array(list) => list.iter_mut().for_each(remove_texts),
        _ => {}
    }
}
