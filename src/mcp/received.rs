//! Messages of servers, in a form that `rmcp` can parse.
//!
//! `rmcp` parses each result as a whole: one function with a wrong type makes a list unreadable, and one unknown content block a result.
//! So lists are replaced with their usable functions, and results of calls are passed on unparsed.

use std::sync::{Mutex, PoisonError};

use rmcp::model::ListToolsResult;
use serde_json::{Map, Value, json};

use super::{
    definition::{Definition, RejectedFunction},
    limits::LARGE_BYTES,
    output::TEXT_BYTES_MAX,
};

/// Member with the result of a call, as the server sent it.
pub(super) const RESULT: &str = "openvibe/result";
/// Members of a list's `_meta`: the functions that cannot be used, and the names of the others.
const REJECTED: &str = "openvibe/rejected";
const NAMES: &str = "openvibe/names";
/// Maximum number of content blocks that are read from a large result.
const LARGE_BLOCKS_MAX: usize = 100;
/// Held while a large message is parsed, because its values need much more memory than its text.
static LARGE: Mutex<()> = Mutex::new(());

/// Parses a message. Returns `None` if it is not JSON.
pub(super) fn parse(text: &[u8]) -> Option<Value> {
    let is_large = text.len() > LARGE_BYTES;
    let _turn = is_large.then(|| LARGE.lock().unwrap_or_else(PoisonError::into_inner));
    let mut message: Value = serde_json::from_slice(text).ok()?;
    // Servers of revision 2025-03-26 can send batches; a client without concurrent requests gets one response.
    if let Value::Array(batch) = message {
        let mut batch = batch.into_iter();
        message =
            batch.find(|message| !(message["result"].is_null() && message["error"].is_null()))?;
    }
    if let Some(result) = message.get_mut("result") {
        if result["tools"].is_array() {
            *result = page(result);
        } else if is_call_result(result) {
            let whole = result.take();
            let whole = if is_large { beginning(&whole) } else { whole };
            *result = json!({RESULT: whole});
        }
    }
    Some(message)
}

/// Parses the beginning of a message that ends in a string, such as the text of a result. Returns `None` for another one.
pub(super) fn parse_beginning(text: &[u8]) -> Option<Value> {
    let valid = text.utf8_chunks().next()?.valid();
    let (mut open, mut string_start, mut escape) = (Vec::new(), None, None);
    for (at, byte) in valid.bytes().enumerate() {
        match (string_start, byte) {
            // `\\u00e9` is the longest escape.
            (Some(_), _) if escape.is_some_and(|start| at == start + 1) => {
                escape = escape.filter(|_| byte == b'u');
            }
            (Some(_), _) if escape.is_some_and(|start| at < start + 6) => {}
            (Some(_), b'\\') => escape = Some(at),
            (Some(_), b'"') => string_start = None,
            (None, b'"') => (string_start, escape) = (Some(at), None),
            (None, b'{') => open.push('}'),
            (None, b'[') => open.push(']'),
            (None, b'}' | b']') => {
                open.pop();
            }
            _ => {}
        }
    }
    string_start?;
    let end = escape.filter(|start| valid.len() < start + 6);
    let mut closed = format!("{}\"", &valid[..end.unwrap_or(valid.len())]);
    closed.extend(open.iter().rev());
    parse(closed.as_bytes())
}

/// Checks whether a result is that of a call that is complete.
fn is_call_result(result: &Value) -> bool {
    let has = |member| result.get(member).is_some();
    let kind = result.get("resultType");
    kind.is_none_or(|kind| kind == "complete")
        && (has("content") || has("structuredContent") || has("isError"))
}

/// Returns a page of a list with only the functions that can be used.
fn page(result: &Value) -> Value {
    let listed = result["tools"].as_array().map(Vec::as_slice);
    let (mut tools, mut rejected) = (Vec::new(), Vec::new());
    for tool in listed.unwrap_or_default() {
        match Definition::of(tool) {
            Ok(definition) => tools.push(definition.into_value()),
            Err(function) => rejected.push(function),
        }
    }
    let mut page = Map::new();
    for member in ["resultType", "nextCursor"] {
        if let Some(text) = result.get(member).filter(|value| value.is_string()) {
            page.insert(member.to_owned(), text.clone());
        }
    }
    let names: Vec<&Value> = tools.iter().map(|tool: &Value| &tool["name"]).collect();
    page.insert(
        "_meta".to_owned(),
        json!({REJECTED: rejected, NAMES: names}),
    );
    page.insert("tools".to_owned(), tools.into());
    page.into()
}

/// Returns the functions of a page that cannot be used, also those that `rmcp` removed because of their headers.
pub(super) fn rejected_in(page: &ListToolsResult) -> Vec<RejectedFunction> {
    let member = |name| page.meta.as_ref().and_then(|meta| meta.0.get(name));
    let rejected = member(REJECTED).map(|list| serde_json::from_value(list.clone()));
    let mut rejected: Vec<RejectedFunction> = rejected.and_then(Result::ok).unwrap_or_default();
    let names = member(NAMES).and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    let removed = names.filter(|name| page.tools.iter().all(|tool| tool.name != *name));
    let reason = "the headers of its arguments are invalid";
    rejected.extend(removed.map(|name| RejectedFunction::new(name, reason)));
    rejected
}

/// Returns the beginning of a large result: its first blocks, with shortened texts.
fn beginning(result: &Value) -> Value {
    let blocks = result["content"].as_array().map(Vec::as_slice);
    let blocks = blocks.unwrap_or_default().iter().take(LARGE_BLOCKS_MAX);
    let mut content: Vec<Value> = blocks.cloned().collect();
    for block in &mut content {
        for text in ["/text", "/resource/text"] {
            if let Some(Value::String(text)) = block.pointer_mut(text) {
                // One character more than is shown, so that the result counts as cut.
                text.truncate(text.ceil_char_boundary(TEXT_BYTES_MAX + 1));
            }
        }
        // The last block may be cut, so pictures of large results are only named.
        if let Some(block) = block.as_object_mut() {
            block.remove("mimeType");
        }
    }
    if content.is_empty() {
        let text = result["structuredContent"].to_string();
        let end = text.ceil_char_boundary(TEXT_BYTES_MAX + 1);
        content.push(json!({"type": "text", "text": text[..end]}));
    }
    json!({"content": content, "isError": result["isError"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(message: &Value) -> Value {
        parse(message.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn one_definition_does_not_take_away_the_others() {
        let list = json!({"jsonrpc": "2.0", "id": 1, "result": {
        "resultType": "complete", "nextCursor": 7, "ttlMs": "never", "tools": [
            {"name": "odd", "inputSchema": null, "icons": 3},
            {"title": "Nameless"},
            {"name": "good", "inputSchema": {"type": "object"}, "_meta": []},
            null,
        ]}});
        let found = parsed(&list);
        let page = &found["result"];
        assert_eq!(page["resultType"], "complete");
        assert_eq!(page.get("nextCursor"), None);
        let tools = page["tools"].as_array().unwrap();
        let names: Vec<&Value> = tools.iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["odd", "good"]);
        assert!(tools[0]["inputSchema"].is_object());
        let rejected = rejected_in(&serde_json::from_value(page.clone()).unwrap());
        assert_eq!(rejected.len(), 2);
        assert_eq!(rejected[0].reason, "it has no name");
    }

    #[test]
    fn results_of_calls_are_passed_on_unparsed() {
        let result = json!({"content": [{"type": "hologram"}], "isError": "no"});
        let message = json!({"jsonrpc": "2.0", "id": 1, "result": result});
        assert_eq!(parsed(&message)["result"], json!({RESULT: result}));
        let batch = json!([{"jsonrpc": "2.0", "method": "notifications/message"}, message]);
        assert_eq!(parsed(&batch), parsed(&message));
        for other in [
            json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
            json!({"jsonrpc": "2.0", "id": 1, "result": {"resultType": "task", "content": []}}),
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}}),
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}),
        ] {
            assert_eq!(parsed(&other), other);
        }
        assert_eq!(parse(b"{"), None);
    }

    #[test]
    fn a_result_can_be_cut_inside_of_a_text() {
        let text = r#"a "quoted" \u00e9 é \\ end"#;
        let whole = format!(
            r#"{{"id":1,"result":{{"content":[{{"type":"text","text":"x\n\u00e9é{}"#,
            "yz"
        );
        let start = whole.find("\"x").unwrap() + 1;
        for end in start..=whole.len() {
            let found = parse_beginning(&whole.as_bytes()[..end]).unwrap();
            let kept = found["result"][RESULT]["content"][0]["text"].clone();
            assert!("x\n\u{e9}éyz".starts_with(kept.as_str().unwrap()), "{kept}");
        }
        let nested = json!({"id": 1, "result": {"content": [{"text": text}]}}).to_string();
        assert!(parse_beginning(nested.as_bytes()).is_none());
        let cut = nested.find(" end").unwrap();
        let found = parse_beginning(&nested.as_bytes()[..cut]).unwrap();
        let kept = &found["result"][RESULT]["content"][0]["text"];
        assert_eq!(kept, text.strip_suffix(" end").unwrap());
        for other in ["", "{", r#"{"id"#, r#"{"id":1,"#, "[1"] {
            assert!(parse_beginning(other.as_bytes()).is_none(), "{other}");
        }
    }

    #[test]
    fn a_large_result_is_shortened() {
        let text = "é".repeat(LARGE_BYTES);
        let block = json!({"type": "text", "text": text});
        let message = json!({"id": 1, "result": {"content": [block], "isError": true}});
        let found = parsed(&message);
        let result = &found["result"][RESULT];
        let kept = result["content"][0]["text"].as_str().unwrap();
        assert!((TEXT_BYTES_MAX + 1..TEXT_BYTES_MAX + 4).contains(&kept.len()));
        assert_eq!(result["isError"], true);
        let message = json!({"id": 1, "result": {"structuredContent": {"all": text}}});
        let found = parsed(&message);
        let kept = found["result"][RESULT]["content"][0]["text"].as_str();
        assert!(kept.unwrap().starts_with("{\"all\":\"éé"));
    }
}
