//! JSON Schemas of arguments and results, from the types that the API document describes.

use serde_json::{Map, Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use crate::http::page::List;

/// Prefix of references in the API document.
const COMPONENTS: &str = "#/components/schemas/";

type JsonSchema = Map<String, Value>;
/// Schemas by name.
type Definitions = Vec<(String, RefOr<Schema>)>;

/// Returns the schema of arguments, with descriptions for models.
pub(super) fn input<T: ToSchema>() -> JsonSchema {
    let mut definitions = Definitions::new();
    T::schemas(&mut definitions);
    object(&T::schema(), definitions)
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
    shortened(input::<T>())
}

/// Returns the schema of a list. The schema of the items is added, because `List` refers to it only by name.
pub(super) fn output_list<T: ToSchema>() -> JsonSchema {
    let mut definitions = Definitions::from([(T::name().into_owned(), T::schema())]);
    T::schemas(&mut definitions);
    shortened(object(&List::<T>::schema(), definitions))
}

fn shortened(schema: JsonSchema) -> JsonSchema {
    let mut schema = Value::Object(schema);
    remove_texts(&mut schema);
    to_object(schema)
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

/// Builds a complete schema that includes the schemas to which it refers.
fn object(schema: &RefOr<Schema>, definitions: Definitions) -> JsonSchema {
    let mut schema = to_value(schema);
    if !definitions.is_empty() {
        let definitions = definitions.into_iter();
        schema["$defs"] = definitions
            .map(|(name, schema)| (name, to_value(&schema)))
            .collect();
    }
    move_references(&mut schema);
    to_object(schema)
}

fn move_references(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(to) if key == "$ref" => {
                        *to = to.replace(COMPONENTS, "#/$defs/");
                    }
                    value => move_references(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(move_references),
        _ => {}
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
