//! Messages of a chat completion as items of the Responses API.

use serde_json::Value;

use super::super::{
    ResponseError,
    items::{ITEMS_MAX, Item, Object, Speaker, content, named, text},
};

/// The messages of a request.
#[derive(Debug)]
pub(super) struct Messages {
    /// The leading system and developer messages.
    pub instructions: Option<String>,
    pub items: Vec<Item>,
}

/// # Errors
/// `Invalid` or `Unsupported` with the path, such as `messages[2].content[0].type`.
pub(super) fn read_messages(list: &[Value]) -> Result<Messages, ResponseError> {
    if list.len() > ITEMS_MAX {
        let text = format!(
            "there are {} messages; the limit is {ITEMS_MAX}",
            list.len()
        );
        return Err(ResponseError::invalid("messages", text));
    }
    let mut leading: Vec<String> = Vec::new();
    let mut items: Vec<Item> = Vec::new();
    for (n, value) in list.iter().enumerate() {
        let param = format!("messages[{n}]");
        let Value::Object(message) = value else {
            return Err(ResponseError::invalid(param, "a message must be an object"));
        };
        let read = read_message(message, &param)?;
        match read.as_slice() {
            [
                Item::Message {
                    role: Speaker::System,
                    text,
                },
            ] if items.is_empty() => leading.push(text.clone()),
            _ => items.extend(read),
        }
    }
    let is_from_system = |item: &Item| {
        matches!(
            item,
            Item::Message {
                role: Speaker::System,
                ..
            }
        )
    };
    if items
        .iter()
        .all(|item| item.is_blank() || is_from_system(item))
    {
        return Err(ResponseError::invalid(
            "messages",
            "messages does not contain a user message to reply to",
        ));
    }
    leading.retain(|text| !text.trim().is_empty());
    Ok(Messages {
        instructions: (!leading.is_empty()).then(|| leading.join("\n\n")),
        items,
    })
}

fn read_message(message: &Object, param: &str) -> Result<Vec<Item>, ResponseError> {
    let said = || content(message.get("content"), &format!("{param}.content"));
    let from = |role: Speaker| said().map(|text| vec![Item::Message { role, text }]);
    match message.get("role").and_then(Value::as_str) {
        Some("system" | "developer") => from(Speaker::System),
        Some("user") => from(Speaker::User),
        Some("assistant") => read_assistant(message, param),
        Some("tool") => Ok(vec![Item::FunctionCallOutput {
            call_id: named(message, "tool_call_id", param)?,
            output: said()?,
        }]),
        _ => Err(ResponseError::invalid(
            format!("{param}.role"),
            "the role must be system, developer, user, assistant, or tool",
        )),
    }
}

/// Parses an assistant message into items: first its text, then its calls.
fn read_assistant(message: &Object, param: &str) -> Result<Vec<Item>, ResponseError> {
    let given = |field: &str| message.get(field).filter(|value| !value.is_null());
    if let Some(field) = ["function_call", "audio"]
        .into_iter()
        .find(|field| given(field).is_some())
    {
        let text = format!("`{field}` is not supported: omit it");
        return Err(ResponseError::unsupported(format!("{param}.{field}"), text));
    }
    let calls = read_calls(given("tool_calls"), &format!("{param}.tool_calls"))?;
    let said = match (given("content"), given("refusal")) {
        (None, Some(_)) => text(message, "refusal", param)?,
        (None, None) if !calls.is_empty() => String::new(),
        (said, _) => content(said, &format!("{param}.content"))?,
    };
    let said = Item::Message {
        role: Speaker::Assistant,
        text: said,
    };
    let said = Some(said).filter(|said| !said.is_blank());
    Ok(said.into_iter().chain(calls).collect())
}

fn read_calls(calls: Option<&Value>, param: &str) -> Result<Vec<Item>, ResponseError> {
    let Some(calls) = calls else {
        return Ok(Vec::new());
    };
    let Value::Array(list) = calls else {
        return Err(ResponseError::invalid(
            param,
            "tool_calls must be a list of calls",
        ));
    };
    let read = list.iter().enumerate().map(|(n, call)| {
        let param = format!("{param}[{n}]");
        let (Value::Object(call), Value::Object(function)) = (call, &call["function"]) else {
            return Err(ResponseError::invalid(
                format!("{param}.function"),
                "a call must have a `function` with its name and arguments",
            ));
        };
        let of_function = format!("{param}.function");
        Ok(Item::FunctionCall {
            call_id: named(call, "id", &param)?,
            name: named(function, "name", &of_function)?,
            arguments: text(function, "arguments", &of_function)?,
        })
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(messages: &Value) -> Result<Messages, ResponseError> {
        read_messages(messages.as_array().unwrap())
    }

    fn says(role: Speaker, text: &str) -> Item {
        Item::Message {
            role,
            text: text.to_owned(),
        }
    }

    #[test]
    fn leading_system_and_developer_messages_are_instructions() {
        let found = read(&json!([
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "kind."}]},
            {"role": "system", "content": " "},
            {"role": "user", "content": "Hi", "name": "ada"},
            {"role": "system", "content": "Be late."},
        ]))
        .unwrap();
        assert_eq!(found.instructions.as_deref(), Some("Be brief.\n\nBe kind."));
        assert_eq!(
            found.items,
            [says(Speaker::User, "Hi"), says(Speaker::System, "Be late.")]
        );
    }

    #[test]
    fn calls_and_their_results_are_items() {
        let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let found = read(&json!([
            {"role": "user", "content": "Look"},
            {"role": "assistant", "content": "Wait.", "refusal": null, "tool_calls": [call("a"), call("b")]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "2"}]},
            {"role": "assistant", "content": null, "tool_calls": [call("c")]},
            {"role": "tool", "tool_call_id": "c", "content": ""},
            {"role": "assistant", "content": null, "refusal": "No."},
            {"role": "user", "content": "Why?"},
        ]))
        .unwrap();
        assert_eq!(found.instructions, None);
        let call = |id: &str| Item::FunctionCall {
            call_id: id.to_owned(),
            name: "f".to_owned(),
            arguments: "{}".to_owned(),
        };
        let output = |id: &str, output: &str| Item::FunctionCallOutput {
            call_id: id.to_owned(),
            output: output.to_owned(),
        };
        assert_eq!(
            found.items,
            [
                says(Speaker::User, "Look"),
                says(Speaker::Assistant, "Wait."),
                call("a"),
                call("b"),
                output("a", "1"),
                output("b", "2"),
                call("c"),
                output("c", ""),
                says(Speaker::Assistant, "No."),
                says(Speaker::User, "Why?"),
            ]
        );
    }

    #[test]
    fn an_invalid_message_is_reported_with_its_path() {
        for (messages, wanted) in [
            (json!([]), "messages"),
            (json!([{"role": "system", "content": "x"}]), "messages"),
            (json!([{"role": "user", "content": " "}]), "messages"),
            (json!(["hello"]), "messages[0]"),
            (json!([{"content": "x"}]), "messages[0].role"),
            (
                json!([{"role": "function", "name": "f", "content": "x"}]),
                "messages[0].role",
            ),
            (json!([{"role": "user"}]), "messages[0].content"),
            (
                json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]),
                "messages[0].content[0].type",
            ),
            (
                json!([{"role": "assistant", "content": null}]),
                "messages[0].content",
            ),
            (
                json!([{"role": "assistant", "content": "x", "function_call": {"name": "f"}}]),
                "messages[0].function_call",
            ),
            (
                json!([{"role": "assistant", "tool_calls": {}}]),
                "messages[0].tool_calls",
            ),
            (
                json!([{"role": "assistant", "tool_calls": [{"id": "a", "type": "custom", "custom": {}}]}]),
                "messages[0].tool_calls[0].function",
            ),
            (
                json!([{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "", "arguments": ""}}]}]),
                "messages[0].tool_calls[0].function.name",
            ),
            (
                json!([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": ""}}]}]),
                "messages[0].tool_calls[0].id",
            ),
            (
                json!([{"role": "tool", "content": "x"}]),
                "messages[0].tool_call_id",
            ),
        ] {
            let (ResponseError::Invalid(_, param) | ResponseError::Unsupported(_, param)) =
                read(&messages).unwrap_err()
            else {
                panic!("{messages}")
            };
            assert_eq!(param, wanted, "{messages}");
        }
    }
}
