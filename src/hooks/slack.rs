//! Renders messages in the format of Slack: text, attachments, and blocks.

use serde_json::{Map, Value};

use super::{
    error::HookFault,
    mrkdwn,
    rendered::{
        Rendered, SentButton, beginning, button_texts, color, escaped, fenced, link, one_line,
        scalar,
    },
};

const ATTACHMENTS_MAX: usize = 100;
const BLOCKS_MAX: usize = 50;
/// Maximum nesting of lists and other parts of a rich text.
const DEPTH_MAX: usize = 8;

/// Members of a message that only Slack's format has.
const MEMBERS: &[&str] = &[
    "attachments",
    "blocks",
    "channel",
    "icon_emoji",
    "icon_url",
    "link_names",
    "mrkdwn",
    "thread_ts",
    "unfurl_links",
    "unfurl_media",
    "username",
];

pub(super) fn is_slack(message: &Map<String, Value>) -> bool {
    MEMBERS.iter().any(|name| message.contains_key(*name))
}

fn string<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn array<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    let found = object.get(name).and_then(Value::as_array);
    found.map(Vec::as_slice).unwrap_or_default()
}

/// Renders a message.
///
/// # Errors
/// `TooManyAttachments`, or `InvalidPayload` for too many blocks.
pub(super) fn render(message: &Value, out: &mut Rendered) -> Result<(), HookFault> {
    let (attachments, blocks) = (array(message, "attachments"), array(message, "blocks"));
    if attachments.len() > ATTACHMENTS_MAX {
        return Err(HookFault::TooManyAttachments);
    }
    if blocks.len() > BLOCKS_MAX {
        return Err(HookFault::InvalidPayload);
    }
    let is_plain = message.get("mrkdwn") == Some(&Value::Bool(false));
    let text = string(message, "text");
    let markdown = |text: &str| {
        if is_plain {
            escaped(text)
        } else {
            mrkdwn::to_markdown(text)
        }
    };
    if blocks.is_empty() {
        out.paragraph(&markdown(text));
    } else {
        for block in blocks {
            self::block(block, out);
        }
        if !out.has_text() {
            out.paragraph(&markdown(text));
        }
    }
    for attachment in attachments {
        self::attachment(attachment, out);
    }
    if message
        .get("icon_url")
        .is_some_and(|value| !value.is_null())
    {
        out.note("`icon_url` is ignored".to_owned());
    }
    Ok(())
}

/// Renders a message of an archive; only its text, if the whole is too large.
pub fn archived_text(message: &Value) -> String {
    let mut out = Rendered::default();
    let is_whole = render(message, &mut out).is_ok();
    let buttons = button_texts(&std::mem::take(&mut out.buttons));
    out.paragraph(&buttons);
    match out.finish() {
        (text, false) if is_whole => text,
        _ => mrkdwn::to_markdown(string(message, "text")),
    }
}

fn attachment(attachment: &Value, out: &mut Rendered) {
    if out.color.is_none() {
        out.color = color(string(attachment, "color"));
    }
    let mut own = Rendered::default();
    own.paragraph(&mrkdwn::to_markdown(string(attachment, "pretext")));
    let author = string(attachment, "author_name");
    own.paragraph(&link(author, string(attachment, "author_link")));
    let title = string(attachment, "title");
    if !title.trim().is_empty() {
        let title = link(title, string(attachment, "title_link"));
        own.paragraph(&format!("**{title}**"));
    }
    own.paragraph(&mrkdwn::to_markdown(string(attachment, "text")));
    fields(array(attachment, "fields"), mrkdwn::to_markdown, &mut own);
    for block in array(attachment, "blocks") {
        self::block(block, &mut own);
    }
    for name in ["image_url", "thumb_url"] {
        let url = string(attachment, name);
        if !url.is_empty() {
            own.paragraph(&link("Image", url));
        }
    }
    actions(array(attachment, "actions"), &mut own);
    let footer = string(attachment, "footer");
    if !footer.trim().is_empty() {
        own.paragraph(&format!("_{}_", one_line(&escaped(footer))));
    }
    if !own.has_text() && own.buttons.is_empty() {
        own.paragraph(&escaped(string(attachment, "fallback")));
    }
    for note in std::mem::take(&mut own.notes) {
        out.note(note);
    }
    for button in std::mem::take(&mut own.buttons) {
        out.keep_button(&button);
    }
    let (text, _) = own.finish();
    out.paragraph(&text);
}

/// Fields of an attachment or of a native message, whose values `markdown` translates.
pub(super) fn fields(fields: &[Value], markdown: fn(&str) -> String, out: &mut Rendered) {
    for (n, field) in fields.iter().enumerate() {
        let title = one_line(&escaped(string(field, "title")));
        let value = scalar(field.get("value").unwrap_or(&Value::Null));
        let value = markdown(&value);
        let line = match (title.is_empty(), value.trim().is_empty()) {
            (true, true) => continue,
            (true, false) => value,
            (false, _) => format!("**{title}** {value}"),
        };
        if n == 0 {
            out.paragraph(&line);
        } else {
            out.line(&line);
        }
    }
}

fn actions(actions: &[Value], out: &mut Rendered) {
    for action in actions {
        let label = match action.get("text") {
            Some(Value::Object(_)) => string(&action["text"], "text"),
            _ => string(action, "text"),
        };
        if matches!(string(action, "type"), "button" | "workflow_button" | "") && !label.is_empty()
        {
            let confirm = &action["confirm"];
            let question = match &confirm["text"] {
                Value::Object(_) => string(&confirm["text"], "text"),
                _ => string(confirm, "text"),
            };
            out.button(SentButton {
                // The name is that of buttons in attachments.
                id: match string(action, "action_id") {
                    "" => string(action, "name"),
                    id => id,
                },
                text: label,
                url: string(action, "url"),
                value: string(action, "value"),
                style: string(action, "style"),
                confirm: question,
            });
        } else {
            out.not_shown(string(action, "type"));
        }
    }
}

/// A text object, or a string.
fn text_of(value: &Value) -> String {
    if let Some(text) = value.as_str() {
        return mrkdwn::to_markdown(text);
    }
    let text = string(value, "text");
    if string(value, "type") == "mrkdwn" {
        mrkdwn::to_markdown(text)
    } else {
        escaped(text)
    }
}

fn block(block: &Value, out: &mut Rendered) {
    match string(block, "type") {
        "header" => {
            let text = one_line(&escaped(string(&block["text"], "text")));
            if !text.is_empty() {
                out.paragraph(&format!("### {text}"));
            }
        }
        "section" => {
            out.paragraph(&text_of(&block["text"]));
            for field in array(block, "fields") {
                out.paragraph(&text_of(field));
            }
            match block.get("accessory") {
                Some(accessory) if string(accessory, "type") == "image" => image(accessory, out),
                Some(accessory) => actions(std::slice::from_ref(accessory), out),
                None => {}
            }
        }
        "context" => {
            let mut texts = Vec::new();
            for element in array(block, "elements") {
                texts.push(if string(element, "type") == "image" {
                    link(string(element, "alt_text"), string(element, "image_url"))
                } else {
                    text_of(element)
                });
            }
            out.paragraph(&texts.join(" "));
        }
        "divider" => out.mark("---"),
        "image" => image(block, out),
        "video" => {
            let title = string(&block["title"], "text");
            out.paragraph(&link(title, string(block, "title_url")));
        }
        "actions" => actions(array(block, "elements"), out),
        "markdown" => out.paragraph(string(block, "text")),
        "rich_text" => {
            for element in array(block, "elements") {
                rich(element, 0, out);
            }
        }
        "table" => table(array(block, "rows"), out),
        other => out.not_shown(other),
    }
}

fn image(image: &Value, out: &mut Rendered) {
    let alt = string(image, "alt_text");
    let alt = if alt.trim().is_empty() { "Image" } else { alt };
    let url = match string(image, "image_url") {
        "" => string(&image["slack_file"], "url"),
        url => url,
    };
    out.paragraph(&link(alt, url));
}

fn rich(element: &Value, depth: usize, out: &mut Rendered) {
    if depth > DEPTH_MAX || out.is_full() {
        return;
    }
    let elements = array(element, "elements");
    match string(element, "type") {
        "rich_text_section" => out.paragraph(&inline(elements)),
        "rich_text_quote" => {
            let quoted = inline(elements);
            let lines: Vec<String> = quoted.lines().map(|line| format!("> {line}")).collect();
            out.paragraph(&lines.join("\n"));
        }
        "rich_text_preformatted" => {
            let code: String = elements.iter().map(raw).collect();
            out.paragraph(&fenced(&code, string(element, "language")));
        }
        "rich_text_list" => {
            let indent = element.get("indent").and_then(Value::as_u64).unwrap_or(0);
            let indent = "   ".repeat(usize::try_from(indent.min(8)).unwrap_or(0));
            let is_ordered = string(element, "style") == "ordered";
            let mut lines = Vec::new();
            for (n, item) in elements.iter().enumerate() {
                let bullet = if is_ordered {
                    format!("{}.", n + 1)
                } else {
                    "-".to_owned()
                };
                let text = inline(array(item, "elements"));
                lines.push(format!("{indent}{bullet} {}", one_line(&text)));
            }
            out.paragraph(&lines.join("\n"));
        }
        other => out.not_shown(other),
    }
}

/// Text of an element without formatting.
fn raw(element: &Value) -> String {
    match string(element, "type") {
        "link" if string(element, "text").is_empty() => string(element, "url").to_owned(),
        _ => string(element, "text").to_owned(),
    }
}

fn inline(elements: &[Value]) -> String {
    let mut out = String::new();
    for element in elements {
        let text = string(element, "text");
        let style = &element["style"];
        let has = |name: &str| style.get(name) == Some(&Value::Bool(true));
        match string(element, "type") {
            "text" if has("code") && !text.contains('`') && !text.trim().is_empty() => {
                out.push('`');
                out.push_str(text);
                out.push('`');
            }
            "text" => {
                let inner = text.trim();
                let start = text.len() - text.trim_start().len();
                let mark = match (has("bold"), has("italic"), has("strike")) {
                    _ if inner.is_empty() => "",
                    (true, true, _) => "***",
                    (true, false, _) => "**",
                    (false, true, _) => "*",
                    (false, false, true) => "~~",
                    _ => "",
                };
                let end: String = mark.chars().rev().collect();
                out.push_str(&text[..start]);
                out.push_str(mark);
                out.push_str(&escaped(inner));
                out.push_str(&end);
                out.push_str(&text[start + inner.len()..]);
            }
            "link" => out.push_str(&link(text, string(element, "url"))),
            "emoji" => {
                out.push(':');
                out.push_str(&escaped(string(element, "name")));
                out.push(':');
            }
            "user" => {
                out.push('@');
                out.push_str(&escaped(string(element, "user_id")));
            }
            "usergroup" => {
                out.push('@');
                out.push_str(&escaped(string(element, "usergroup_id")));
            }
            "channel" => {
                out.push('#');
                out.push_str(&escaped(string(element, "channel_id")));
            }
            "broadcast" => {
                out.push('@');
                out.push_str(&escaped(string(element, "range")));
            }
            "date" => out.push_str(&escaped(string(element, "fallback"))),
            "color" => out.push_str(&escaped(string(element, "value"))),
            other => {
                out.push('(');
                out.push_str(&escaped(beginning(other, 40)));
                out.push_str(", not shown)");
            }
        }
    }
    out
}

fn table(rows: &[Value], out: &mut Rendered) {
    let cell = |cell: &Value| {
        let text = if string(cell, "type") == "rich_text" {
            let parts = array(cell, "elements").iter();
            let parts: Vec<String> = parts.map(|part| inline(array(part, "elements"))).collect();
            parts.join(" ")
        } else {
            escaped(string(cell, "text"))
        };
        one_line(&text)
    };
    let mut lines = Vec::new();
    for (n, row) in rows.iter().enumerate() {
        let cells = row.as_array().map(Vec::as_slice).unwrap_or_default();
        let cells: Vec<String> = cells.iter().map(cell).collect();
        lines.push(format!("| {} |", cells.join(" | ")));
        if n == 0 {
            lines.push(format!("|{}", " --- |".repeat(cells.len().max(1))));
        }
    }
    out.paragraph(&lines.join("\n"));
}
