//! Results of calls as text.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::limits::Excess;

/// Maximum size of a result as text, in UTF-8 bytes.
pub(super) const TEXT_BYTES_MAX: usize = 32 * 1024;
/// Maximum number of pictures of a result.
const PICTURES_MAX: usize = 4;
/// Text that replaces a credential that a server returned.
const HIDDEN: &str = "[secret]";

/// Result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOutput {
    pub text: String,
    /// True if the text was longer than 32 KiB and was cut.
    pub is_cut: bool,
    /// The first pictures, as the server sent them; at most `PICTURES_MAX`. The text names them.
    pub pictures: Vec<Vec<u8>>,
}

impl CallOutput {
    /// Result of a call that is done, with a response that is too large to be read.
    pub(super) fn too_large() -> Self {
        Self {
            text: format!("(the result was not read: {})", Excess::Message),
            is_cut: true,
            pictures: Vec::new(),
        }
    }

    /// Renders the result of `tools/call`: its texts and `structuredContent`, and a note for everything else.
    pub(super) fn of(result: &Value, secret: Option<&str>) -> Self {
        let blocks = result["content"].as_array().map(Vec::as_slice);
        let mut parts: Vec<String> = blocks.unwrap_or_default().iter().map(rendered).collect();
        let structured = result.get("structuredContent").filter(|v| !v.is_null());
        if let Some(value) = structured
            && !is_repeated(value, &parts)
        {
            let mut value = value.clone();
            if let Some(secret) = secret {
                redact(&mut value, secret);
            }
            parts.push(value.to_string());
        }
        let text = redacted(&parts.join("\n\n"), secret);
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        Self {
            is_cut: end < text.len(),
            text: text[..end].to_owned(),
            pictures: blocks
                .unwrap_or_default()
                .iter()
                .filter_map(picture)
                .take(PICTURES_MAX)
                .collect(),
        }
    }
}

/// Bytes of a block with a picture.
fn picture(block: &Value) -> Option<Vec<u8>> {
    let is_picture = block["type"] == "image"
        && block["mimeType"]
            .as_str()
            .is_some_and(|kind| kind.starts_with("image/"));
    let data = block["data"].as_str().filter(|_| is_picture)?;
    BASE64_STANDARD.decode(data.trim()).ok()
}

/// Checks whether texts repeat structured content, as most servers do. Frameworks wrap values that are not objects, such as
/// `{"result": "Monday"}`, and some send a text for each item of a list.
fn is_repeated(structured: &Value, parts: &[String]) -> bool {
    let is_same = |part: &String, value: &Value| {
        value.as_str() == Some(part.as_str())
            || serde_json::from_str::<Value>(part).is_ok_and(|parsed| parsed == *value)
    };
    let mut forms = std::iter::successors(Some(structured), |value| {
        let members = value.as_object().filter(|members| members.len() == 1);
        members?.values().next()
    });
    forms.any(|value| {
        let items = value.as_array().filter(|items| items.len() == parts.len());
        parts.iter().any(|part| is_same(part, value))
            || items.is_some_and(|items| {
                !items.is_empty()
                    && parts
                        .iter()
                        .zip(items)
                        .all(|(part, item)| is_same(part, item))
            })
    })
}

/// Renders a link as Markdown. Without an address, only its name remains.
fn link(block: &Value) -> String {
    let text = |member: &str| block[member].as_str().unwrap_or_default();
    let uri = text("uri");
    let name = [text("title"), text("name"), uri];
    let name = name.into_iter().find(|name| !name.trim().is_empty());
    let name = name.unwrap_or("link").replace(['[', ']', '\n'], " ");
    let is_plain = |c: char| !c.is_whitespace() && !matches!(c, '(' | ')' | '<' | '>');
    if uri.is_empty() {
        name
    } else if uri.chars().all(is_plain) {
        format!("[{name}]({uri})")
    } else {
        format!("[{name}](<{}>)", uri.replace(['<', '>', '\n'], " "))
    }
}

/// Replaces a credential in a text, and removes control characters other than line breaks and tabs.
pub(super) fn redacted(text: &str, secret: Option<&str>) -> String {
    let text: String = text
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect();
    match secret {
        Some(secret) => hide(&text, secret),
        None => text,
    }
}

/// Replaces a credential in a text, also in its JSON-escaped forms.
fn hide(text: &str, secret: &str) -> String {
    if secret.is_empty() {
        return text.to_owned();
    }
    let quoted = Value::from(secret).to_string();
    let escaped = &quoted[1..quoted.len() - 1];
    text.replace(&escaped.replace('/', "\\/"), HIDDEN)
        .replace(escaped, HIDDEN)
        .replace(secret, HIDDEN)
}

/// Replaces a credential in all strings of a JSON value, and in the names of its members.
pub(super) fn redact(value: &mut Value, secret: &str) {
    match value {
        Value::String(text) => *text = hide(text, secret),
        Value::Array(list) => list.iter_mut().for_each(|value| redact(value, secret)),
        Value::Object(map) => {
            let renamed = std::mem::take(map).into_iter();
            *map = renamed
                .map(|(key, value)| (hide(&key, secret), value))
                .collect();
            map.values_mut().for_each(|value| redact(value, secret));
        }
        _ => {}
    }
}

fn rendered(block: &Value) -> String {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match block["type"].as_str().unwrap_or_default() {
        // A block at the end of a result that was cut may have lost its type.
        "text" | "" if block["text"].is_string() => text(&block["text"]).unwrap_or_default(),
        "image" => not_shown("image", &block["data"]),
        "audio" => not_shown("audio", &block["data"]),
        "resource" => {
            let resource = &block["resource"];
            text(&resource["text"]).unwrap_or_else(|| not_shown("file", &resource["blob"]))
        }
        "resource_link" => link(block),
        _ => "[other content, not shown]".to_owned(),
    }
}

/// Note for content in base64.
fn not_shown(kind: &str, data: &Value) -> String {
    let bytes = data.as_str().unwrap_or_default().len() / 4 * 3;
    format!("[{kind}, {} KiB, not shown]", bytes.div_ceil(1024))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(result: &Value) -> String {
        CallOutput::of(result, Some("sk-flamingo")).text
    }

    #[test]
    fn texts_and_structured_content_are_shown() {
        let text = json!({"type": "text", "text": "Created ABC-1"});
        assert_eq!(of(&json!({"content": [text]})), "Created ABC-1");
        let both = json!({"content": [text], "structuredContent": {"key": "ABC-1"}});
        assert_eq!(of(&both), "Created ABC-1\n\n{\"key\":\"ABC-1\"}");
        let repeated = json!({"type": "text", "text": "{ \"key\": \"ABC-1\" }"});
        let once = json!({"content": [repeated], "structuredContent": {"key": "ABC-1"}});
        assert_eq!(of(&once), "{ \"key\": \"ABC-1\" }");
        assert_eq!(of(&json!({})), "");
    }

    #[test]
    fn structured_content_that_repeats_the_texts_is_shown_once() {
        let block = |text: &str| json!({"type": "text", "text": text});
        for (texts, structured, shown) in [
            (vec!["Monday"], json!({"result": "Monday"}), "Monday"),
            (vec!["5"], json!({"result": 5}), "5"),
            (
                vec!["{\"a\": 1}"],
                json!({"result": {"a": 1}}),
                "{\"a\": 1}",
            ),
            (
                vec!["{\"a\": 1}"],
                json!({"data": {"item": {"a": 1}}}),
                "{\"a\": 1}",
            ),
            (vec!["a", "b"], json!({"result": ["a", "b"]}), "a\n\nb"),
            (vec!["1", "[2]"], json!({"result": [1, [2]]}), "1\n\n[2]"),
            (vec!["a"], json!({"result": "b"}), "a\n\n{\"result\":\"b\"}"),
            (
                vec!["a"],
                json!({"x": "a", "y": 1}),
                "a\n\n{\"x\":\"a\",\"y\":1}",
            ),
            (vec![], json!({"result": []}), "{\"result\":[]}"),
        ] {
            let content: Vec<Value> = texts.iter().map(|text| block(text)).collect();
            let result = json!({"content": content, "structuredContent": structured});
            assert_eq!(of(&result), shown);
        }
    }

    #[test]
    fn links_have_their_name_and_address() {
        for (link, shown) in [
            (json!({"uri": "file:///c", "name": "c"}), "[c](file:///c)"),
            (
                json!({"uri": "https://a.example/b c", "name": "b"}),
                "[b](<https://a.example/b c>)",
            ),
            (
                json!({"uri": "x:y", "name": "c", "title": "T]("}),
                "[T (](x:y)",
            ),
            (json!({"uri": "x:y"}), "[x:y](x:y)"),
            (json!({"name": "c"}), "c"),
            (
                json!({"uri": "x:sk-flamingo", "name": "c"}),
                "[c](x:[secret])",
            ),
        ] {
            let mut block = link;
            block["type"] = json!("resource_link");
            assert_eq!(of(&json!({"content": [block]})), shown);
        }
    }

    #[test]
    fn other_content_is_named_but_not_shown() {
        let data = "A".repeat(16 * 1024);
        let image = json!({"type": "image", "data": data, "mimeType": "image/png"});
        assert_eq!(
            of(&json!({"content": [image]})),
            "[image, 12 KiB, not shown]"
        );
        let file = json!({"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA"}});
        let text = json!({"type": "resource", "resource": {"uri": "file:///b", "text": "B"}});
        assert_eq!(
            of(&json!({"content": [file, text]})),
            "[file, 1 KiB, not shown]\n\nB"
        );
    }

    #[test]
    fn the_first_pictures_are_kept() {
        let image = json!({"type": "image", "data": "YWJj", "mimeType": "image/png"});
        let odd = json!({"type": "image", "data": "%", "mimeType": "image/png"});
        let untyped = json!({"type": "image", "data": "YWJj"});
        let mut content = vec![odd, untyped];
        content.extend(vec![image; PICTURES_MAX + 1]);
        let output = CallOutput::of(&json!({"content": content}), None);
        assert_eq!(output.pictures, vec![b"abc".to_vec(); PICTURES_MAX]);
    }

    #[test]
    fn a_credential_is_replaced_as_json_spells_it() {
        let secret = r#"a/b"c\d"#;
        let nested = json!({"key": secret}).to_string();
        let escaped = nested.replace('/', "\\/");
        for text in [format!("Sent {nested}"), escaped, secret.to_owned()] {
            let result = json!({"content": [{"type": "text", "text": text}]});
            let shown = CallOutput::of(&result, Some(secret)).text;
            assert!(shown.contains(HIDDEN) && !shown.contains('d'), "{shown}");
        }
        let mut definition = json!({"description": nested});
        redact(&mut definition, secret);
        assert_eq!(definition, json!({"description": r#"{"key":"[secret]"}"#}));
    }

    #[test]
    fn a_credential_is_replaced_and_a_long_text_cut() {
        let echo = json!({"content": [{"type": "text", "text": "Your key: sk-flamingo!"}], "structuredContent": {"sk-flamingo": "sk-flamingo"}});
        assert_eq!(
            of(&echo),
            "Your key: [secret]!\n\n{\"[secret]\":\"[secret]\"}"
        );
        let long = json!({"content": [{"type": "text", "text": "é".repeat(TEXT_BYTES_MAX)}]});
        let cut = CallOutput::of(&long, None);
        assert!(cut.is_cut && cut.text.len() <= TEXT_BYTES_MAX);
        let mut definition =
            json!({"name": "a", "inputSchema": {"sk-flamingo": ["x sk-flamingo"]}});
        redact(&mut definition, "sk-flamingo");
        assert_eq!(
            definition,
            json!({"name": "a", "inputSchema": {"[secret]": ["x [secret]"]}})
        );
    }
}
