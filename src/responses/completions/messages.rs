//! Messages of a chat completion as items of the Responses API.

use serde_json::Value;

use super::super::{
    ResponseError,
    ignored::{Fields, Ignored},
    items::{ITEMS_MAX, Item, Media, Speaker, arguments, ask_with_system, named, read_content},
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
pub(super) fn read_messages(list: &[Value], ignored: &Ignored) -> Result<Messages, ResponseError> {
    if list.len() > ITEMS_MAX {
        let text = format!(
            "there are {} messages; the limit is {ITEMS_MAX}",
            list.len()
        );
        return Err(ResponseError::invalid("messages", text));
    }
    let last_from_user = list.iter().rposition(|message| message["role"] == "user");
    let mut items: Vec<Item> = Vec::new();
    for (n, value) in list.iter().enumerate() {
        let param = format!("messages[{n}]");
        let Value::Object(message) = value else {
            return Err(ResponseError::invalid(param, "a message must be an object"));
        };
        let fields = ignored.fields(message, param);
        items.extend(read_message(&fields, Media::of(n, last_from_user))?);
    }
    ask_with_system(&mut items);
    if items.iter().all(Item::is_blank) {
        return Err(ResponseError::invalid(
            "messages",
            "messages does not contain a user message to reply to",
        ));
    }
    let leading = items
        .iter()
        .take_while(|item| item.is_from_system())
        .count();
    let leading = items.drain(..leading).filter(|item| !item.is_blank());
    let leading: Vec<String> = leading
        .filter_map(|item| match item {
            Item::Message { text, .. } => Some(text),
            _ => None,
        })
        .collect();
    Ok(Messages {
        instructions: (!leading.is_empty()).then(|| leading.join("\n\n")),
        items,
    })
}

fn read_message(fields: &Fields<'_>, media: Media) -> Result<Vec<Item>, ResponseError> {
    let said = |media: Media| {
        let path = fields.path_of("content");
        read_content(fields.get("content"), &path, media, fields.ignored)
    };
    let from = |role: Speaker| said(media).map(|text| vec![Item::Message { role, text }]);
    match fields.text("role") {
        Some("system" | "developer") => from(Speaker::System),
        Some("user") => from(Speaker::User),
        Some("assistant") => read_assistant(fields),
        Some("tool") => Ok(vec![Item::FunctionCallOutput {
            call_id: named(fields, "tool_call_id")?,
            output: said(Media::Earlier)?,
        }]),
        _ => Err(ResponseError::invalid(
            fields.path_of("role"),
            "the role must be system, developer, user, assistant, or tool",
        )),
    }
}

/// Parses an assistant message into items: first its text, then its calls. A message without either is dropped.
fn read_assistant(fields: &Fields<'_>) -> Result<Vec<Item>, ResponseError> {
    let path_of = |field: &str| fields.path_of(field);
    if fields.get("function_call").is_some() {
        let text = "`function_call` is not supported: omit it";
        return Err(ResponseError::unsupported(path_of("function_call"), text));
    }
    let calls = read_calls(fields)?;
    let said = match (fields.get("content"), fields.get("refusal")) {
        (Some(said), _) => read_content(
            Some(said),
            &path_of("content"),
            Media::Earlier,
            fields.ignored,
        )?,
        (None, Some(_)) => named(fields, "refusal")?,
        (None, None) if fields.get("audio").is_some() => {
            fields.ignored.add(path_of("audio"));
            "(audio, not readable)".to_owned()
        }
        (None, None) => String::new(),
    };
    let said = Item::Message {
        role: Speaker::Assistant,
        text: said,
    };
    let said = Some(said).filter(|said| !said.is_blank());
    Ok(said.into_iter().chain(calls).collect())
}

fn read_calls(message: &Fields<'_>) -> Result<Vec<Item>, ResponseError> {
    let Some(calls) = message.get("tool_calls") else {
        return Ok(Vec::new());
    };
    let param = message.path_of("tool_calls");
    let Value::Array(list) = calls else {
        return Err(ResponseError::invalid(
            param,
            "tool_calls must be a list of calls",
        ));
    };
    let ignored = message.ignored;
    let read = list.iter().enumerate().map(|(n, call)| {
        let param = format!("{param}[{n}]");
        let (Value::Object(call), Value::Object(function)) = (call, &call["function"]) else {
            return Err(ResponseError::invalid(
                format!("{param}.function"),
                "a call must have a `function` with its name and arguments",
            ));
        };
        let call = ignored.fields(call, &*param);
        call.get("function");
        call.get("type");
        // The position in the list determines the order.
        call.get("index");
        let function = ignored.fields(function, format!("{param}.function"));
        Ok(Item::FunctionCall {
            call_id: named(&call, "id")?,
            name: named(&function, "name")?,
            arguments: arguments(&function)?,
        })
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(messages: &Value) -> Result<Messages, ResponseError> {
        read_messages(messages.as_array().unwrap(), &Ignored::default())
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
            (json!([{"role": "user", "content": " "}]), "messages"),
            (json!(["hello"]), "messages[0]"),
            (json!([{"content": "x"}]), "messages[0].role"),
            (
                json!([{"role": "function", "name": "f", "content": "x"}]),
                "messages[0].role",
            ),
            (json!([{"role": "user"}]), "messages[0].content"),
            (
                json!([{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x"}}]}]),
                "messages[0].content[0].type",
            ),
            (json!([{"role": "assistant", "content": null}]), "messages"),
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

    #[test]
    fn what_models_cannot_read_is_ignored_before_the_last_user_message() {
        let image = json!({"type": "image_url", "image_url": {"url": "data:"}});
        let messages = json!([
            {"role": "user", "content": [{"type": "text", "text": "See "}, image], "name": "ada"},
            {"role": "assistant", "content": null},
            {"role": "assistant", "content": null, "audio": {"id": "a"}},
            {"role": "user", "content": "Well?"},
        ]);
        let ignored = Ignored::default();
        let found = read_messages(messages.as_array().unwrap(), &ignored).unwrap();
        assert_eq!(
            found.items,
            [
                says(Speaker::User, "See (image, not readable)"),
                says(Speaker::Assistant, "(audio, not readable)"),
                says(Speaker::User, "Well?"),
            ]
        );
        assert_eq!(
            ignored.into_paths(),
            [
                "messages[0].content[1]",
                "messages[0].name",
                "messages[2].audio"
            ]
        );
    }

    #[test]
    fn lone_system_messages_are_the_users() {
        let found = read(&json!([
            {"role": "system", "content": "Say hello."}, {"role": "system", "content": "Be kind."}]))
        .unwrap();
        assert_eq!(found.instructions, None);
        assert_eq!(
            found.items,
            [
                says(Speaker::User, "Say hello."),
                says(Speaker::User, "Be kind.")
            ]
        );
    }
}
