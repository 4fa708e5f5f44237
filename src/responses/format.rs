//! Format of a response's text: `text.format` of the Responses API, and `response_format` of chat completions.

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    ResponseError,
    ignored::{Fields, Ignored},
};
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

/// Parses a format. The fields of a schema are next to `type`, as in the Responses API, or in an object named `json_schema`, as in
/// chat completions. Null means text.
///
/// # Errors
/// `Invalid` or `Unsupported` with `param`.
pub(super) fn read_format(
    value: Option<&Value>,
    param: &str,
    ignored: &Ignored,
) -> Result<TextFormat, ResponseError> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(TextFormat::Text);
    };
    let fields = value
        .as_object()
        .map(|object| ignored.fields(object, param));
    let kind = fields.as_ref().and_then(|fields| fields.text("type"));
    match (kind, &fields) {
        (Some("text"), _) => Ok(TextFormat::Text),
        (Some("json_object"), _) => Ok(TextFormat::JsonObject),
        (Some("json_schema"), Some(fields)) => {
            let nested = fields.get("json_schema").and_then(Value::as_object);
            match nested {
                Some(object) => read_schema(
                    &ignored.fields(object, fields.path_of("json_schema")),
                    param,
                ),
                None => read_schema(fields, param),
            }
        }
        _ => Err(ResponseError::unsupported(
            param,
            format!("`{param}` must have the type text, json_object, or json_schema"),
        )),
    }
}

fn read_schema(fields: &Fields<'_>, param: &str) -> Result<TextFormat, ResponseError> {
    let invalid = |text: String| ResponseError::invalid(param, text);
    let bytes = json!(fields.object).to_string().len();
    if bytes > FORMAT_BYTES_MAX {
        return Err(invalid(format!(
            "`{param}` is {bytes} bytes; the limit is {FORMAT_BYTES_MAX}"
        )));
    }
    let given = |field: &str| fields.get(field);
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
    use super::*;

    fn read(format: &Value) -> Result<TextFormat, ResponseError> {
        read_format(Some(format), "text.format", &Ignored::default())
    }

    #[test]
    fn formats_are_parsed_and_shown_in_the_same_form() {
        for shown in [
            json!({"type": "text"}),
            json!({"type": "json_object"}),
            json!({"type": "json_schema", "name": "city", "description": null, "schema": {"type": "object"}, "strict": true}),
        ] {
            let format = read(&shown).unwrap();
            assert_eq!(json!(format), shown);
        }
        assert_eq!(read(&Value::Null).unwrap(), TextFormat::Text);
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
        ] {
            let error = read(&format).unwrap_err();
            let (ResponseError::Invalid(_, param) | ResponseError::Unsupported(_, param)) = error
            else {
                panic!("{format}")
            };
            assert_eq!(param, "text.format");
        }
    }
}
