//! Conversation items, from requests and from stored responses.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    ResponseError,
    ignored::{Fields, Ignored},
};
use crate::ids::ResponseId;

pub(super) const ITEMS_MAX: usize = 10_000;

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

/// Separates a namespace from the name of a function; neither can contain it.
const NAMESPACE_END: char = '/';

/// Name of a function together with its namespace, as stored and as known to a call.
pub(super) fn qualified_name(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}{NAMESPACE_END}{name}"),
        None => name.to_owned(),
    }
}

/// Returns the namespace of a function, if it has one, and its name.
pub(super) fn split_name(name: &str) -> (Option<&str>, &str) {
    match name.split_once(NAMESPACE_END) {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, name),
    }
}

/// Position of the first output item, after all possible input items.
pub(super) const OUTPUT_FROM: usize = 0x8000;

/// Returns the ID of an item: the ID of its response, and its position in the response's input and output.
pub(super) fn item_id(prefix: &str, response: ResponseId, position: usize) -> String {
    format!("{prefix}_{}{position:04x}", response.0.simple())
}

/// Parses the ID of an item. Returns `None` if no response of this server has an item with this ID.
pub(super) fn parse_item_id(id: &str) -> Option<(ResponseId, usize)> {
    let (_, rest) = id.rsplit_once('_')?;
    let (response, position) = rest.split_at_checked(32)?;
    let response = response.parse().ok().map(ResponseId)?;
    Some((response, usize::from_str_radix(position, 16).ok()?))
}

impl Item {
    /// Checks whether the item is a message without text.
    pub(super) fn is_blank(&self) -> bool {
        matches!(self, Self::Message { text, .. } if text.trim().is_empty())
    }

    /// Returns the ID of the call to which the item belongs.
    pub(super) fn call_id(&self) -> Option<&str> {
        match self {
            Self::Message { .. } => None,
            Self::FunctionCall { call_id, .. } | Self::FunctionCallOutput { call_id, .. } => {
                Some(call_id)
            }
        }
    }

    pub(super) fn is_from_system(&self) -> bool {
        matches!(
            self,
            Self::Message {
                role: Speaker::System,
                ..
            }
        )
    }
}

/// Reference to an item of an earlier response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ItemReference {
    /// Position in the list of items before which the referenced item belongs.
    pub position: usize,
    pub id: String,
    pub param: String,
}

/// Items of a request. References still have to be resolved.
#[derive(Debug, Default)]
pub(super) struct Input {
    pub items: Vec<Item>,
    pub references: Vec<ItemReference>,
}

/// Parses the `input` of a request: a string or a list of items.
///
/// # Errors
/// `Invalid` or `Unsupported` with the path, such as `input[2].content[0]`.
pub(super) fn read_input(input: &Value, ignored: &Ignored) -> Result<Input, ResponseError> {
    let mut input = match input {
        Value::String(text) => Input {
            items: vec![Item::Message {
                role: Speaker::User,
                text: text.clone(),
            }],
            references: Vec::new(),
        },
        Value::Array(list) if list.len() > ITEMS_MAX => {
            let text = format!("input has {} items; the limit is {ITEMS_MAX}", list.len());
            return Err(ResponseError::invalid("input", text));
        }
        Value::Array(list) => read_items(list, "input", ignored)?,
        _ => {
            return Err(ResponseError::invalid(
                "input",
                "input must be a string or a list of items",
            ));
        }
    };
    if input.items.iter().all(Item::is_blank) && input.references.is_empty() {
        return Err(ResponseError::invalid(
            "input",
            "input is empty: send some text",
        ));
    }
    if input.references.is_empty() {
        ask_with_system(&mut input.items);
    }
    Ok(input)
}

/// Turns system messages into the user's if there is nothing else to reply to.
pub(super) fn ask_with_system(items: &mut [Item]) {
    let is_from_system = |item: &Item| item.is_blank() || item.is_from_system();
    if !items.iter().all(is_from_system) {
        return;
    }
    for item in items {
        if let Item::Message { role, .. } = item {
            *role = Speaker::User;
        }
    }
}

/// Parses the items of a request or of a stored response. Reasoning items are skipped, and items of other types are ignored.
pub(super) fn read_items(
    list: &[Value],
    param: &str,
    ignored: &Ignored,
) -> Result<Input, ResponseError> {
    let last_from_user = list.iter().rposition(|value| value["role"] == "user");
    let mut input = Input::default();
    for (n, value) in list.iter().enumerate() {
        let param = format!("{param}[{n}]");
        let Value::Object(object) = value else {
            return Err(ResponseError::invalid(param, "an item must be an object"));
        };
        let fields = ignored.fields(object, param);
        let media = Media::of(n, last_from_user);
        input.add(&fields, media)?;
    }
    Ok(input)
}

impl Input {
    /// Parses an item and adds it, unless it is not sent to the model.
    fn add(&mut self, fields: &Fields<'_>, media: Media) -> Result<(), ResponseError> {
        let kind = match fields.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            None if fields.get("role").is_some() => "message",
            _ => {
                let text = "an item must have a `type`, such as message, function_call, or function_call_output";
                return Err(ResponseError::invalid(fields.path_of("type"), text));
            }
        };
        self.items.push(match kind {
            "message" => {
                let role = role(fields)?;
                let content = fields.get("content");
                if role == Speaker::Assistant && content.is_none() {
                    return Ok(());
                }
                Item::Message {
                    role,
                    text: read_content(content, &fields.path_of("content"), media, fields.ignored)?,
                }
            }
            "function_call" => Item::FunctionCall {
                call_id: named(fields, "call_id")?,
                name: qualified_name(fields.text("namespace"), &named(fields, "name")?),
                arguments: arguments(fields)?,
            },
            "function_call_output" => Item::FunctionCallOutput {
                call_id: named(fields, "call_id")?,
                output: read_content(
                    fields.get("output"),
                    &fields.path_of("output"),
                    Media::Earlier,
                    fields.ignored,
                )?,
            },
            // Models of this server do not show their reasoning to clients.
            "reasoning" => {
                fields.read_all();
                return Ok(());
            }
            "item_reference" => {
                self.references.push(ItemReference {
                    position: self.items.len(),
                    id: named(fields, "id")?,
                    param: fields.path_of("id"),
                });
                return Ok(());
            }
            _ => {
                fields.ignore();
                return Ok(());
            }
        });
        Ok(())
    }
}

fn role(fields: &Fields<'_>) -> Result<Speaker, ResponseError> {
    match fields.text("role") {
        Some("user") => Ok(Speaker::User),
        Some("assistant") => Ok(Speaker::Assistant),
        Some("system" | "developer") => Ok(Speaker::System),
        _ => Err(ResponseError::invalid(
            fields.path_of("role"),
            "the role must be user, assistant, system, or developer",
        )),
    }
}

/// Parses a required, non-empty string.
pub(super) fn named(fields: &Fields<'_>, field: &str) -> Result<String, ResponseError> {
    let invalid = |text: String| Err(ResponseError::invalid(fields.path_of(field), text));
    match fields.text(field) {
        Some("") => invalid(format!("`{field}` is empty")),
        Some(text) => Ok(text.to_owned()),
        None => invalid(format!("`{field}` must be a string")),
    }
}

/// Parses the arguments of a call: JSON in a string, or the object itself.
pub(super) fn arguments(fields: &Fields<'_>) -> Result<String, ResponseError> {
    match fields.get("arguments") {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(object @ Value::Object(_)) => Ok(object.to_string()),
        None => Ok("{}".to_owned()),
        Some(_) => Err(ResponseError::invalid(
            fields.path_of("arguments"),
            "`arguments` must be a string",
        )),
    }
}

/// Text in the place of a picture of the last user message.
pub(super) const PICTURE_NOTE: &str = "(picture)";
/// Text in the place of a file of the last user message.
pub(super) const FILE_NOTE: &str = "(file)";

/// Handling of parts that are not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    /// The message to reply to: pictures and files are read, and other parts are rejected, because the answer would be wrong without
    /// them.
    Asked,
    /// Any other message, or a result. The part is replaced with a note and ignored.
    Earlier,
}

impl Media {
    /// `last_from_user` is the position of the last user message.
    pub(super) fn of(position: usize, last_from_user: Option<usize>) -> Self {
        if Some(position) == last_from_user {
            Self::Asked
        } else {
            Self::Earlier
        }
    }
}

/// Parses a string or a list of parts.
pub(super) fn read_content(
    value: Option<&Value>,
    path: &str,
    media: Media,
    ignored: &Ignored,
) -> Result<String, ResponseError> {
    match value {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => {
            let mut whole = String::new();
            for (n, part) in parts.iter().enumerate() {
                whole.push_str(read_part(part, &format!("{path}[{n}]"), media, ignored)?);
            }
            Ok(whole)
        }
        _ => Err(ResponseError::invalid(
            path,
            "the content must be a string, or a list of text parts",
        )),
    }
}

fn read_part<'v>(
    part: &'v Value,
    path: &str,
    media: Media,
    ignored: &'v Ignored,
) -> Result<&'v str, ResponseError> {
    let object = match part {
        Value::Object(object) => object,
        Value::String(text) => return Ok(text),
        _ => return Err(ResponseError::invalid(path, "a part must be an object")),
    };
    let fields = ignored.fields(object, path);
    let kind = fields.text("type").unwrap_or_default();
    let note = match kind {
        "input_text" | "output_text" | "text" => return part_text(&fields, "text"),
        "refusal" => return part_text(&fields, "refusal"),
        "image_url" | "input_image" if media == Media::Asked => {
            fields.read_all();
            return Ok(PICTURE_NOTE);
        }
        "file" | "input_file" if media == Media::Asked => {
            fields.read_all();
            return Ok(FILE_NOTE);
        }
        "image_url" | "input_image" | "image" | "computer_screenshot" => "(image, not readable)",
        "file" | "input_file" => "(file, not readable)",
        "input_audio" | "audio" => "(audio, not readable)",
        "input_video" | "video_url" | "video" => "(video, not readable)",
        _ => "",
    };
    if media == Media::Earlier {
        fields.ignore();
        return Ok(note);
    }
    let path = fields.path_of("type");
    if note.is_empty() {
        let text = format!("`{kind}` is not a part type: use text, input_text, or output_text");
        return Err(ResponseError::invalid(path, text));
    }
    let text = format!("`{kind}` is not supported: send text, pictures, and files");
    Err(ResponseError::unsupported(path, text))
}

fn part_text<'v>(fields: &Fields<'v>, field: &str) -> Result<&'v str, ResponseError> {
    fields.text(field).ok_or_else(|| {
        let text = format!("`{field}` must be a string");
        ResponseError::invalid(fields.path_of(field), text)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(input: &Value) -> (Vec<Item>, Vec<String>) {
        let ignored = Ignored::default();
        let items = read_input(input, &ignored).unwrap().items;
        (items, ignored.into_paths())
    }

    fn param(input: &Value) -> String {
        match read_input(input, &Ignored::default()) {
            Err(ResponseError::Invalid(_, param) | ResponseError::Unsupported(_, param)) => param,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_form_of_a_message_is_parsed() {
        let (items, ignored) = read(&json!([
            {"role": "developer", "content": "Be brief."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hel"}, {"type": "input_text", "text": "lo"}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "Hi", "annotations": []}]},
        ]));
        assert!(ignored.is_empty(), "{ignored:?}");
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
            (json!([{"role": "robot", "content": "x"}]), "input[0].role"),
            (user(json!(7)), "input[0].content"),
            (
                user(json!([{"type": "input_audio", "input_audio": {"data": "x"}}])),
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

    #[test]
    fn unknown_items_and_earlier_images_are_ignored() {
        let image = json!({"type": "input_image", "image_url": "data:"});
        let (items, ignored) = read(&json!([
            {"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}},
            {"role": "user", "content": [{"type": "input_text", "text": "See "}, image, {"type": "thinking", "thinking": "x"}]},
            {"role": "assistant", "content": null},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": {"a": 1}, "namespace": "n"},
            {"type": "function_call_output", "call_id": "c", "output": [image]},
            {"role": "user", "content": [{"type": "input_text", "text": "Well?", "cache_control": {"type": "ephemeral"}}]},
        ]));
        let message = |text: &str| Item::Message {
            role: Speaker::User,
            text: text.to_owned(),
        };
        let wanted = [
            message("See (image, not readable)"),
            Item::FunctionCall {
                call_id: "c".to_owned(),
                name: "n/f".to_owned(),
                arguments: "{\"a\":1}".to_owned(),
            },
            Item::FunctionCallOutput {
                call_id: "c".to_owned(),
                output: "(image, not readable)".to_owned(),
            },
            message("Well?"),
        ];
        assert_eq!(items, wanted);
        let paths = [
            "input[0]",
            "input[1].content[1]",
            "input[1].content[2]",
            "input[4].output[0]",
            "input[5].content[0].cache_control",
        ];
        assert_eq!(ignored, paths);
    }

    #[test]
    fn a_lone_system_message_is_the_users() {
        let (items, _) = read(&json!([{"role": "system", "content": "Say hello."}]));
        assert_eq!(
            items,
            [Item::Message {
                role: Speaker::User,
                text: "Say hello.".to_owned()
            }]
        );
    }

    #[test]
    fn item_ids_contain_their_response_and_position() {
        let response = ResponseId::new();
        for position in [0, 9_999, OUTPUT_FROM, OUTPUT_FROM + 70] {
            let id = item_id("msg", response, position);
            assert_eq!(parse_item_id(&id), Some((response, position)));
        }
        for id in ["", "msg_1", "msg_x", "rs_0190", "msg_ää"] {
            assert_eq!(parse_item_id(id), None);
        }
    }
}
