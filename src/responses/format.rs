//! Format of a response's text: `text.format` of the Responses API, and `response_format` of chat completions.

use serde::Serialize;
use serde_json::{Map, Value};

use super::ResponseError;
use crate::model::RequiredFormat;

/// Maximum size of a format with its schema, in UTF-8 bytes.
const FORMAT_BYTES_MAX: usize = 32 * 1024;
const NAME_BYTES_MAX: usize = 64;

/// Format of the text.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TextFormat {
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema {
        name: String,
        description: Option<String>,
        #[schema(value_type = Object)]
        schema: Value,
        /// True if the schema must be matched exactly; null for the provider's default.
        strict: Option<bool>,
    },
}

impl TextFormat {
    /// Returns the format that the model must follow, or `None` for plain text.
    pub(super) fn required(&self) -> Option<RequiredFormat> {
        match self.clone() {
            Self::Text => None,
            Self::JsonObject => Some(RequiredFormat::JsonObject),
            Self::JsonSchema {
                name,
                description,
                schema,
                strict,
            } => Some(RequiredFormat::JsonSchema {
                name,
                description,
                schema,
                strict,
            }),
        }
    }
}

/// Parses a format as in the Responses API, where the fields of a schema are next to `type`. Null means text.
///
/// # Errors
/// `Invalid` or `Unsupported` with `param`.
pub(super) fn read_format(value: &Value, param: &str) -> Result<TextFormat, ResponseError> {
    if value.is_null() {
        return Ok(TextFormat::Text);
    }
    let object = value.as_object();
    let kind = object.and_then(|object| object.get("type")?.as_str());
    match (kind, object) {
        (Some("text"), _) => Ok(TextFormat::Text),
        (Some("json_object"), _) => Ok(TextFormat::JsonObject),
        (Some("json_schema"), Some(object)) => read_schema(object, param),
        _ => Err(ResponseError::unsupported(
            param,
            format!("`{param}` must have the type text, json_object, or json_schema"),
        )),
    }
}

fn read_schema(object: &Map<String, Value>, param: &str) -> Result<TextFormat, ResponseError> {
    let invalid = |text: String| ResponseError::invalid(param, text);
    let bytes = Value::Object(object.clone()).to_string().len();
    if bytes > FORMAT_BYTES_MAX {
        return Err(invalid(format!(
            "`{param}` is {bytes} bytes; the limit is {FORMAT_BYTES_MAX}"
        )));
    }
    let known = ["type", "name", "description", "schema", "strict"];
    let other = object
        .iter()
        .find(|(field, value)| !value.is_null() && !known.contains(&field.as_str()));
    if let Some((field, _)) = other {
        let text = format!("`{field}` of a JSON schema is not supported: omit it");
        return Err(ResponseError::unsupported(param, text));
    }
    let given = |field: &str| object.get(field).filter(|value| !value.is_null());
    let is_name = |name: &str| {
        (1..=NAME_BYTES_MAX).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
    };
    let name = given("name").and_then(Value::as_str);
    let name = name.filter(|name| is_name(name)).ok_or_else(|| {
        invalid(format!(
            "the `name` of a JSON schema must have 1 to {NAME_BYTES_MAX} letters, digits, `_`, or `-`"
        ))
    })?;
    let schema = given("schema").filter(|schema| schema.is_object());
    let schema = schema
        .ok_or_else(|| invalid("the `schema` of a JSON schema must be an object".to_owned()))?;
    let description = given("description");
    if description.is_some_and(|text| !text.is_string()) {
        return Err(invalid(
            "the `description` of a JSON schema must be a string".to_owned(),
        ));
    }
    let strict = given("strict");
    if strict.is_some_and(|strict| !strict.is_boolean()) {
        return Err(invalid(
            "`strict` of a JSON schema must be true or false".to_owned(),
        ));
    }
    Ok(TextFormat::JsonSchema {
        name: name.to_owned(),
        description: description.and_then(Value::as_str).map(str::to_owned),
        schema: schema.clone(),
        strict: strict.and_then(Value::as_bool),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn formats_are_parsed_and_shown_in_the_same_form() {
        for shown in [
            json!({"type": "text"}),
            json!({"type": "json_object"}),
            json!({"type": "json_schema", "name": "city", "description": null, "schema": {"type": "object"}, "strict": true}),
        ] {
            let format = read_format(&shown, "text.format").unwrap();
            assert_eq!(json!(format), shown);
        }
        assert_eq!(
            read_format(&Value::Null, "text.format").unwrap(),
            TextFormat::Text
        );
    }

    #[test]
    fn an_invalid_format_is_reported_with_its_field() {
        let schema = |fields: Value| {
            let mut format = json!({"type": "json_schema", "name": "city", "schema": {}});
            let given = format.as_object_mut().unwrap();
            given.extend(fields.as_object().unwrap().clone());
            format
        };
        let large = "x".repeat(FORMAT_BYTES_MAX);
        for format in [
            json!("json"),
            json!({}),
            json!({"type": "grammar"}),
            schema(json!({"name": null})),
            schema(json!({"name": "a b"})),
            schema(json!({"name": "x".repeat(65)})),
            schema(json!({"schema": null})),
            schema(json!({"schema": "object"})),
            schema(json!({"schema": {"title": large}})),
            schema(json!({"strict": "yes"})),
            schema(json!({"description": 1})),
            schema(json!({"colour": "red"})),
        ] {
            let error = read_format(&format, "text.format").unwrap_err();
            let (ResponseError::Invalid(_, param) | ResponseError::Unsupported(_, param)) = error
            else {
                panic!("{format}")
            };
            assert_eq!(param, "text.format");
        }
    }
}
