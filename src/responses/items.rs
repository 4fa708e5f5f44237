//! Conversation items, from requests and from stored responses.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ResponseError;

pub(super) const ITEMS_MAX: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Speaker {
    User,
    Assistant,
    /// System and `developer` messages.
    System,
}

/// One item, reduced to the data sent to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Item {
    Message {
        role: Speaker,
        text: String,
    },
    FunctionCall {
        call_id: String,
        name: String,
        arguments: String,
    },
    FunctionCallOutput {
        call_id: String,
        output: String,
    },
}

pub(super) type Object = Map<String, Value>;

impl Item {
    /// Checks whether the item is a message without text.
    pub(super) fn is_blank(&self) -> bool {
        matches!(self, Self::Message { text, .. } if text.trim().is_empty())
    }
}

/// Parses the `input` of a request: a string or a list of items.
///
/// # Errors
/// `Invalid` or `Unsupported` with the path, such as `input[2].content[0]`.
pub(super) fn read_input(input: &Value) -> Result<Vec<Item>, ResponseError> {
    let items = match input {
        Value::String(text) => vec![Item::Message {
            role: Speaker::User,
            text: text.clone(),
        }],
        Value::Array(list) if list.len() > ITEMS_MAX => {
            let text = format!("input has {} items; the limit is {ITEMS_MAX}", list.len());
            return Err(ResponseError::invalid("input", text));
        }
        Value::Array(list) => read_items(list, "input")?,
        _ => {
            return Err(ResponseError::invalid(
                "input",
                "input must be a string or a list of items",
            ));
        }
    };
    if items.iter().all(Item::is_blank) {
        return Err(ResponseError::invalid(
            "input",
            "input is empty: send some text",
        ));
    }
    Ok(items)
}

/// Parses the items of a request or of a stored response. Reasoning items are skipped.
pub(super) fn read_items(list: &[Value], param: &str) -> Result<Vec<Item>, ResponseError> {
    let mut items = Vec::with_capacity(list.len());
    for (n, value) in list.iter().enumerate() {
        let param = format!("{param}[{n}]");
        let Value::Object(object) = value else {
            return Err(ResponseError::invalid(param, "an item must be an object"));
        };
        items.extend(read_item(object, &param)?);
    }
    Ok(items)
}

/// Parses an item. Returns `None` for an item that is not sent to the model.
fn read_item(object: &Object, param: &str) -> Result<Option<Item>, ResponseError> {
    let kind = match object.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        None | Some(Value::Null) if object.contains_key("role") => "message",
        _ => {
            let text = "an item must have a `type`, such as message, function_call, or function_call_output";
            return Err(ResponseError::invalid(format!("{param}.type"), text));
        }
    };
    Ok(Some(match kind {
        "message" => Item::Message {
            role: role(object, param)?,
            text: content(object.get("content"), &format!("{param}.content"))?,
        },
        "function_call" => Item::FunctionCall {
            call_id: named(object, "call_id", param)?,
            name: named(object, "name", param)?,
            arguments: text(object, "arguments", param)?,
        },
        "function_call_output" => Item::FunctionCallOutput {
            call_id: named(object, "call_id", param)?,
            output: content(object.get("output"), &format!("{param}.output"))?,
        },
        "reasoning" => return Ok(None),
        "item_reference" => {
            let text = "references to items are not supported: send the item itself, or previous_response_id";
            return Err(ResponseError::unsupported(format!("{param}.type"), text));
        }
        other => {
            let text = format!(
                "items of type `{other}` are not supported: use message, function_call, function_call_output, or reasoning"
            );
            return Err(ResponseError::unsupported(format!("{param}.type"), text));
        }
    }))
}

fn role(object: &Object, param: &str) -> Result<Speaker, ResponseError> {
    match object.get("role").and_then(Value::as_str) {
        Some("user") => Ok(Speaker::User),
        Some("assistant") => Ok(Speaker::Assistant),
        Some("system" | "developer") => Ok(Speaker::System),
        _ => Err(ResponseError::invalid(
            format!("{param}.role"),
            "the role must be user, assistant, system, or developer",
        )),
    }
}

/// Parses a required string.
pub(super) fn text(object: &Object, field: &str, param: &str) -> Result<String, ResponseError> {
    let found = object.get(field).and_then(Value::as_str);
    found.map(str::to_owned).ok_or_else(|| {
        ResponseError::invalid(
            format!("{param}.{field}"),
            format!("`{field}` must be a string"),
        )
    })
}

/// Parses a required, non-empty string.
pub(super) fn named(object: &Object, field: &str, param: &str) -> Result<String, ResponseError> {
    let found = text(object, field, param)?;
    if found.is_empty() {
        let message = format!("`{field}` is empty");
        return Err(ResponseError::invalid(format!("{param}.{field}"), message));
    }
    Ok(found)
}

/// Parses a string or a list of text parts.
pub(super) fn content(value: Option<&Value>, param: &str) -> Result<String, ResponseError> {
    match value {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => {
            let mut whole = String::new();
            for (n, part) in parts.iter().enumerate() {
                whole.push_str(part_text(part, &format!("{param}[{n}]"))?);
            }
            Ok(whole)
        }
        _ => Err(ResponseError::invalid(
            param,
            "the content must be a string, or a list of text parts",
        )),
    }
}

fn part_text<'v>(part: &'v Value, param: &str) -> Result<&'v str, ResponseError> {
    let field = match part["type"].as_str() {
        Some("input_text" | "output_text" | "text") => "text",
        Some("refusal") => "refusal",
        Some(
            kind @ ("image_url"
            | "file"
            | "input_image"
            | "input_file"
            | "input_audio"
            | "input_video"
            | "computer_screenshot"),
        ) => {
            let text = format!("`{kind}` is not supported: agents on this server only accept text");
            return Err(ResponseError::unsupported(format!("{param}.type"), text));
        }
        other => {
            let text = format!(
                "`{}` is not a part type: use text, input_text, or output_text",
                other.unwrap_or_default()
            );
            return Err(ResponseError::invalid(format!("{param}.type"), text));
        }
    };
    part[field].as_str().ok_or_else(|| {
        ResponseError::invalid(
            format!("{param}.{field}"),
            format!("`{field}` must be a string"),
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn param(input: &Value) -> String {
        match read_input(input) {
            Err(ResponseError::Invalid(_, param) | ResponseError::Unsupported(_, param)) => param,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_form_of_a_message_is_parsed() {
        let items = read_input(&json!([
            {"role": "developer", "content": "Be brief."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hel"}, {"type": "input_text", "text": "lo"}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "Hi", "annotations": []}]},
        ]))
        .unwrap();
        let said: Vec<(Speaker, &str)> = items
            .iter()
            .map(|item| match item {
                Item::Message { role, text } => (*role, text.as_str()),
                other => panic!("{other:?}"),
            })
            .collect();
        let wanted = [
            (Speaker::System, "Be brief."),
            (Speaker::User, "Hello"),
            (Speaker::Assistant, "Hi"),
        ];
        assert_eq!(said, wanted);
    }

    #[test]
    fn an_unsupported_item_is_reported_with_its_path() {
        let user = |content: Value| json!([{"role": "user", "content": content}]);
        for (input, wanted) in [
            (json!(null), "input"),
            (json!([]), "input"),
            (json!(" \n"), "input"),
            (json!(["hello"]), "input[0]"),
            (json!([{"content": "x"}]), "input[0].type"),
            (json!([{"type": "computer_call"}]), "input[0].type"),
            (json!([{"role": "robot", "content": "x"}]), "input[0].role"),
            (user(json!(7)), "input[0].content"),
            (
                user(json!([{"type": "input_image", "image_url": "x"}])),
                "input[0].content[0].type",
            ),
            (
                user(json!([{"type": "input_text"}])),
                "input[0].content[0].text",
            ),
            (
                json!([{"type": "function_call", "call_id": "", "name": "f", "arguments": ""}]),
                "input[0].call_id",
            ),
            (
                json!([{"type": "function_call_output", "call_id": "c", "output": 1}]),
                "input[0].output",
            ),
        ] {
            assert_eq!(param(&input), wanted, "{input}");
        }
    }
}
