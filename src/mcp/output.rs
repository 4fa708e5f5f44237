//! Results of calls as text.

use serde_json::Value;

/// Maximum size of a result as text, in UTF-8 bytes.
const TEXT_BYTES_MAX: usize = 32 * 1024;
/// Text that replaces a credential that a server returned.
const HIDDEN: &str = "[secret]";

/// Result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOutput {
    pub text: String,
    /// True if the text was longer than 32 KiB and was cut.
    pub is_cut: bool,
}

impl CallOutput {
    /// Renders the result of `tools/call`: its texts and `structuredContent`, and a note for everything else.
    pub(super) fn of(result: &Value, secret: Option<&str>) -> Self {
        let blocks = result["content"].as_array().map(Vec::as_slice);
        let mut parts: Vec<String> = blocks.unwrap_or_default().iter().map(rendered).collect();
        let structured = result.get("structuredContent").filter(|v| !v.is_null());
        if let Some(value) = structured {
            // Servers usually repeat the structured content as text.
            let is_repeated = |part: &String| {
                serde_json::from_str::<Value>(part).is_ok_and(|parsed| parsed == *value)
            };
            if !parts.iter().any(is_repeated) {
                let mut value = value.clone();
                if let Some(secret) = secret {
                    redact(&mut value, secret);
                }
                parts.push(value.to_string());
            }
        }
        let text = redacted(&parts.join("\n\n"), secret);
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        Self {
            is_cut: end < text.len(),
            text: text[..end].to_owned(),
        }
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
        "text" => text(&block["text"]).unwrap_or_default(),
        "image" => not_shown("image", &block["data"]),
        "audio" => not_shown("audio", &block["data"]),
        "resource" => {
            let resource = &block["resource"];
            text(&resource["text"]).unwrap_or_else(|| not_shown("file", &resource["blob"]))
        }
        "resource_link" => "[link to a file, not shown]".to_owned(),
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
    fn other_content_is_named_but_not_shown() {
        let data = "A".repeat(16 * 1024);
        let image = json!({"type": "image", "data": data, "mimeType": "image/png"});
        assert_eq!(
            of(&json!({"content": [image]})),
            "[image, 12 KiB, not shown]"
        );
        let file = json!({"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA"}});
        let text = json!({"type": "resource", "resource": {"uri": "file:///b", "text": "B"}});
        let link = json!({"type": "resource_link", "uri": "file:///c", "name": "c"});
        assert_eq!(
            of(&json!({"content": [file, text, link]})),
            "[file, 1 KiB, not shown]\n\nB\n\n[link to a file, not shown]"
        );
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
