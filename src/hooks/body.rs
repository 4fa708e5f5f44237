//! Reads the body of a request to a webhook.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    error::HookFault,
    products,
    rendered::{
        BUTTONS_MAX, Rendered, SentButton, beginning, button_texts, color, escaped, fenced, link,
        one_line, scalar,
    },
    slack,
    template::{Document, HookTemplate},
};
use crate::{
    auth::DisplayName,
    chat::messages::{MessageButton, MessageMetadata, ShownAs},
    model::has_visible,
};

/// Maximum size of a message.
const TEXT_BYTES_MAX: usize = 32 * 1024;
/// Part of an unknown JSON document that is shown.
const UNKNOWN_BYTES_MAX: usize = 2 * 1024;
const KEY_CHARS_MAX: usize = 200;
const CLIENT_ID_CHARS_MAX: usize = 64;
const EMOJI_CHARS_MAX: usize = 40;
/// End of a text that is longer than a message can be.
const CUT: &str = "\n\n_The text is cut off here._";

/// Members of the native format.
const MEMBERS: &[&str] = &[
    "text",
    "title",
    "url",
    "color",
    "fields",
    "buttons",
    "thread_key",
    "client_id",
    "name",
    "emoji",
];

/// Query of a webhook's address.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct HookQuery {
    /// Same as `thread_key`.
    pub thread: Option<String>,
    pub title: Option<String>,
    /// Language of a text that is shown as code.
    pub code: Option<String>,
    /// `json` for an answer with the message.
    pub answer: Option<String>,
}

/// Request without its body.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct BodyHead {
    pub content_type: String,
    pub query: HookQuery,
    /// Values of the headers in `event_headers`, by name.
    pub events: BTreeMap<String, String>,
}

/// A message that a program sent.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// Markdown.
    pub content: String,
    pub metadata: MessageMetadata,
    pub thread_key: Option<String>,
    /// Slack's `ts` of a message of the thread to answer.
    pub thread_ts: Option<String>,
    pub client_id: Option<String>,
    /// Name or ID of a channel, in Slack's format.
    pub channel: Option<String>,
    /// Product that was recognized.
    pub product: Option<String>,
    /// Parts that are not shown as sent.
    pub notes: Vec<String>,
    /// True if the text is longer than a message can be.
    pub is_cut: bool,
    /// Buttons, which are not in `metadata` yet.
    buttons: Vec<MessageButton>,
}

/// Use of buttons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ButtonUse {
    /// The bot's program gets presses.
    Pressed,
    /// Nobody gets presses: links are buttons, and of others, the labels are shown.
    Links,
    /// The text is not that of a bot's stored message: links and labels are part of it.
    Text,
}

impl ButtonUse {
    pub fn of(gets_presses: bool) -> Self {
        if gets_presses {
            Self::Pressed
        } else {
            Self::Links
        }
    }
}

impl Incoming {
    /// Puts buttons below the message, or as text at its end.
    #[must_use]
    pub fn with_buttons(mut self, usage: ButtonUse) -> Self {
        let all = button_texts(&self.buttons);
        let is_button = |button: &MessageButton| match usage {
            ButtonUse::Pressed => true,
            ButtonUse::Links => button.url.is_some(),
            ButtonUse::Text => false,
        };
        let buttons = std::mem::take(&mut self.buttons).into_iter();
        let (kept, shown): (Vec<_>, Vec<_>) = buttons.partition(is_button);
        self.metadata.buttons = kept;
        let texts = button_texts(&shown);
        if !texts.is_empty()
            && self.content != all
            && self.content.len() + texts.len() + 2 <= TEXT_BYTES_MAX
        {
            self.content.push_str("\n\n");
            self.content.push_str(&texts);
        }
        if shown.iter().any(|button| button.url.is_none()) {
            self.notes
                .push("a button without `url` is shown as its label".to_owned());
        }
        self
    }
}

impl Incoming {
    /// Reads a body. `template` is that of the webhook, for all JSON. Takes linear time, but up to several milliseconds.
    ///
    /// # Errors
    /// `InvalidPayload`, `NoText`, `TooManyAttachments`.
    pub fn read(
        head: &BodyHead,
        bytes: &[u8],
        template: Option<&HookTemplate>,
    ) -> Result<Self, HookFault> {
        let text = std::str::from_utf8(bytes).map_err(|_| HookFault::InvalidPayload)?;
        if text.contains('\0') {
            return Err(HookFault::InvalidPayload);
        }
        let kind = head
            .content_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim();
        let kind = kind.to_ascii_lowercase();
        let reader = Reader { head, template };
        let found = match kind.as_str() {
            "application/x-www-form-urlencoded" => reader.form(text)?,
            "multipart/form-data" => return Err(HookFault::InvalidPayload),
            kind if kind.starts_with("text/") => plain(text, &head.query),
            kind if kind == "application/json" || kind.ends_with("+json") => {
                reader.json(&parsed(text)?)?
            }
            _ => match looks_like_json(text).then(|| parsed(text)) {
                Some(Ok(value)) => reader.json(&value)?,
                _ => plain(text, &head.query),
            },
        };
        found.finish(&head.query)
    }
}

impl Incoming {
    /// Reads a message in Slack's format.
    ///
    /// # Errors
    /// `InvalidPayload`, `NoText`, `TooManyAttachments`.
    pub fn slack(message: &Value) -> Result<Self, HookFault> {
        let text = |name: &str| message.get(name).map(scalar);
        let mut draft = Draft::default();
        slack::render(message, &mut draft.rendered)?;
        draft.shown_as = shown_as(text("username"), text("icon_emoji"), &mut draft.rendered);
        draft.finish(&HookQuery::default())
    }
}

/// Reader of a body, with the rest of the request and the template of the webhook.
struct Reader<'a> {
    head: &'a BodyHead,
    template: Option<&'a HookTemplate>,
}

/// A message before its checks.
#[derive(Debug, Default)]
struct Draft {
    rendered: Rendered,
    shown_as: ShownAs,
    thread_key: Option<String>,
    thread_ts: Option<String>,
    client_id: Option<String>,
    channel: Option<String>,
    product: Option<String>,
}

fn parsed(text: &str) -> Result<Value, HookFault> {
    // Nesting of more than 128 levels is an error.
    serde_json::from_str(text).map_err(|_| HookFault::InvalidPayload)
}

fn looks_like_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// A text as it was sent: Markdown, or code if the query names a language.
fn plain(text: &str, query: &HookQuery) -> Draft {
    let mut draft = Draft::default();
    if let Some(language) = &query.code {
        draft.rendered.paragraph(&fenced(text, language));
    } else {
        draft.rendered.paragraph(text);
    }
    draft
}

impl Reader<'_> {
    fn form(&self, text: &str) -> Result<Draft, HookFault> {
        // `curl -d '{"text":…}'` sends JSON as a form.
        if looks_like_json(text)
            && let Ok(value) = parsed(text)
        {
            return self.json(&value);
        }
        // `curl -d 'text'` sends a text as a form.
        if !text.contains('=') {
            return Ok(plain(text, &self.head.query));
        }
        let mut members = Map::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()).take(100) {
            if name == "payload" {
                return self.json(&parsed(&value)?);
            }
            if MEMBERS.contains(&name.as_ref()) {
                members.insert(name.into_owned(), Value::String(value.into_owned()));
            }
        }
        if members.contains_key("text") || members.contains_key("title") {
            return from_members(&Value::Object(members));
        }
        Ok(plain(text, &self.head.query))
    }

    fn json(&self, value: &Value) -> Result<Draft, HookFault> {
        if value.as_object().is_none_or(Map::is_empty) {
            return from_members(value);
        }
        let found = products::recognize(value, &self.head.events);
        let mut draft = Draft::default();
        if let Some(found) = &found {
            draft.product = Some(found.product.to_owned());
        }
        let event = found.as_ref().map_or("", |found| found.document.event);
        let own = self
            .template
            .map(|template| (template, Document { json: value, event }));
        let Some((template, document)) =
            own.or(found.map(|found| (found.template, found.document)))
        else {
            return from_members(value);
        };
        draft.thread_key = template.render(document, &mut draft.rendered);
        if draft.rendered.has_text() {
            return Ok(draft);
        }
        let mut shown = unknown(value);
        shown
            .rendered
            .note("the template found no values".to_owned());
        shown.product = draft.product;
        Ok(shown)
    }
}

/// Reads a message in Slack's format or the native one. Other JSON is shown as code.
fn from_members(value: &Value) -> Result<Draft, HookFault> {
    let Value::Object(members) = value else {
        return match value {
            Value::String(text) => Ok(plain(text, &HookQuery::default())),
            Value::Array(items) if !items.is_empty() => Ok(unknown(value)),
            _ => Err(HookFault::NoText),
        };
    };
    let text = |name: &str| members.get(name).map(scalar);
    let mut draft = Draft {
        thread_key: text("thread_key").filter(|key| !key.is_empty()),
        client_id: text("client_id").or_else(|| text("client_msg_id")),
        ..Draft::default()
    };
    if slack::is_slack(members) {
        slack::render(value, &mut draft.rendered)?;
        draft.channel = text("channel").filter(|name| !name.is_empty());
        draft.thread_ts = text("thread_ts").filter(|ts| !ts.is_empty());
        draft.shown_as = shown_as(text("username"), text("icon_emoji"), &mut draft.rendered);
        return Ok(draft);
    }
    if members.is_empty() {
        return Err(HookFault::NoText);
    }
    if !members.keys().any(|name| MEMBERS.contains(&name.as_str())) {
        return Ok(unknown(value));
    }
    native(members, &mut draft.rendered)?;
    draft.shown_as = shown_as(text("name"), text("emoji"), &mut draft.rendered);
    Ok(draft)
}

/// Renders a message in the native format.
fn native(members: &Map<String, Value>, out: &mut Rendered) -> Result<(), HookFault> {
    let text = |name: &str| members.get(name).map(scalar).unwrap_or_default();
    let list = |name: &str| match members.get(name) {
        None | Some(Value::Null) => Ok(&[] as &[Value]),
        Some(Value::Array(list)) => Ok(list.as_slice()),
        Some(_) => Err(HookFault::InvalidPayload),
    };
    let (title, url) = (text("title"), text("url"));
    if !title.trim().is_empty() {
        out.paragraph(&format!("**{}**", link(&title, &url)));
    } else if !url.trim().is_empty() {
        out.paragraph(&link("", &url));
    }
    out.paragraph(&text("text"));
    slack::fields(list("fields")?, str::to_owned, out);
    let buttons = list("buttons")?;
    if buttons.len() > BUTTONS_MAX {
        return Err(HookFault::InvalidPayload);
    }
    for button in buttons {
        let of = |name: &str| button.get(name).map(scalar).unwrap_or_default();
        out.button(SentButton {
            id: &of("id"),
            text: &of("text"),
            url: &of("url"),
            value: &of("value"),
            style: &of("style"),
            confirm: &of("confirm"),
        });
    }
    let sent = text("color");
    out.color = color(&sent);
    if !sent.is_empty() && out.color.is_none() {
        out.note("`color` is not a color: use `#rrggbb`".to_owned());
    }
    Ok(())
}

/// Returns the valid part of the name and emoji of a message. A name that could be taken for a label in prompts is ignored.
fn shown_as(name: Option<String>, emoji: Option<String>, out: &mut Rendered) -> ShownAs {
    let name = name.filter(|name| !name.trim().is_empty());
    let valid = name
        .as_ref()
        .and_then(|name| DisplayName::parse(name, "name").ok());
    if name.is_some() && valid.is_none() {
        out.note("the name of the message is ignored: it is not a valid name".to_owned());
    }
    let emoji = emoji.map(|emoji| one_line(&emoji)).filter(|emoji| {
        !emoji.is_empty() && emoji.chars().count() <= EMOJI_CHARS_MAX && has_visible(emoji)
    });
    ShownAs {
        name: valid.map(|name| name.0),
        emoji,
    }
}

/// Shows the beginning of a document of an unknown format.
fn unknown(value: &Value) -> Draft {
    let mut draft = Draft::default();
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let shown = beginning(&text, UNKNOWN_BYTES_MAX);
    draft.rendered.paragraph(&fenced(shown, "json"));
    draft
        .rendered
        .note("the format is unknown: the JSON is shown".to_owned());
    if shown.len() < text.len() {
        draft.rendered.paragraph("_The rest is not shown._");
    }
    draft
}

impl Draft {
    fn finish(self, query: &HookQuery) -> Result<Incoming, HookFault> {
        let Self {
            rendered: mut out,
            shown_as,
            thread_key,
            thread_ts,
            client_id,
            channel,
            product,
        } = self;
        let thread_key = thread_key.or_else(|| query.thread.clone());
        let thread_key = thread_key.filter(|key| !key.is_empty());
        let is_too_long = |text: &Option<String>, max: usize| {
            text.as_ref()
                .is_some_and(|text| text.chars().count() > max || text.contains('\0'))
        };
        let client_id = client_id.filter(|id| !id.is_empty());
        if is_too_long(&thread_key, KEY_CHARS_MAX) || is_too_long(&client_id, CLIENT_ID_CHARS_MAX) {
            return Err(HookFault::InvalidPayload);
        }
        let (color, mut notes) = (out.color.take(), std::mem::take(&mut out.notes));
        let buttons = std::mem::take(&mut out.buttons);
        let (content, mut is_cut) = out.finish();
        let title = query.title.as_deref().filter(|title| has_visible(title));
        let title =
            title.map(|title| format!("**{}**", one_line(&escaped(beginning(title, 1000)))));
        let mut content = match (title, has_visible(&content)) {
            (Some(title), true) => format!("{title}\n\n{content}"),
            (Some(title), false) => title,
            (None, true) => content,
            (None, false) => button_texts(&buttons),
        };
        if !has_visible(&content) || content.contains('\0') {
            return Err(HookFault::NoText);
        }
        is_cut |= content.len() > TEXT_BYTES_MAX;
        if is_cut {
            let kept = content.floor_char_boundary(TEXT_BYTES_MAX - CUT.len() - 200);
            content.truncate(kept);
            if let Some(fence) = open_fence(&content) {
                content.push('\n');
                content.push_str(&fence);
            }
            content.push_str(CUT);
            notes.push("the text is longer than 32 KiB: the rest is not shown".to_owned());
        }
        let has_face = shown_as != ShownAs::default();
        Ok(Incoming {
            content,
            metadata: MessageMetadata {
                color,
                shown_as: has_face.then_some(shown_as),
                ..MessageMetadata::default()
            },
            thread_key,
            thread_ts,
            client_id,
            channel,
            product,
            notes,
            is_cut,
            buttons,
        })
    }
}

/// The fence that is open at the end of a text.
fn open_fence(text: &str) -> Option<String> {
    let mut open: Option<usize> = None;
    for line in text.lines() {
        let length = line.chars().take_while(|c| *c == '`').count();
        match open {
            None if length >= 3 => open = Some(length),
            Some(of) if length >= of && line.trim().len() == length => open = None,
            _ => {}
        }
    }
    open.map(|length| "`".repeat(length.min(150)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(kind: &str, body: &str) -> Result<Incoming, HookFault> {
        let head = BodyHead {
            content_type: kind.to_owned(),
            ..BodyHead::default()
        };
        Incoming::read(&head, body.as_bytes(), None)
    }

    fn shown(body: &Value) -> String {
        let found = read("application/json", &body.to_string()).unwrap();
        found.with_buttons(ButtonUse::Text).content
    }

    #[test]
    fn every_way_of_sending_a_text_is_understood() {
        for (kind, body) in [
            ("application/json", r#"{"text":"Hello"}"#),
            (
                "application/x-www-form-urlencoded",
                "payload=%7B%22text%22%3A%22Hello%22%7D",
            ),
            ("application/x-www-form-urlencoded", "Hello"),
            ("application/x-www-form-urlencoded", "text=Hello"),
            ("application/x-www-form-urlencoded", r#"{"text":"Hello"}"#),
            ("text/plain; charset=utf-8", "Hello"),
            ("", r#"{"text":"Hello"}"#),
            ("application/octet-stream", "Hello"),
        ] {
            assert_eq!(read(kind, body).unwrap().content, "Hello", "{kind} {body}");
        }
        // The names of members are texts, too.
        for text in ["text", "payload", "title", "x = y"] {
            let found = read("application/x-www-form-urlencoded", text).unwrap();
            assert_eq!(found.content, text);
        }
    }

    #[test]
    fn bodies_without_text_are_refused_with_the_texts_of_slack() {
        for (body, fault) in [
            ("{}", HookFault::NoText),
            (r#"{"text":"  "}"#, HookFault::NoText),
            (r#"{"text":"\u200b"}"#, HookFault::NoText),
            ("[]", HookFault::NoText),
            ("null", HookFault::NoText),
            ("{", HookFault::InvalidPayload),
            ("", HookFault::InvalidPayload),
            (r#"{"text":"x","fields":{}}"#, HookFault::InvalidPayload),
        ] {
            assert_eq!(read("application/json", body).unwrap_err(), fault, "{body}");
        }
        let many = json!({"attachments": vec![json!({"text": "x"}); 101]});
        let fault = read("application/json", &many.to_string()).unwrap_err();
        assert_eq!(fault, HookFault::TooManyAttachments);
        let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
        let fault = read("application/json", &deep).unwrap_err();
        assert_eq!(fault, HookFault::InvalidPayload);
    }

    #[test]
    fn attachments_and_blocks_lose_no_text() {
        let alert = json!({"username": "Alertmanager", "attachments": [{"color": "danger", "title": "[FIRING:1] Disk",
            "title_link": "http://alerts.example/#/alerts", "text": "*90 %* of <http://x.example|disk>", "fallback": "unused",
            "fields": [{"title": "Severity", "value": "high"}, {"title": "Count", "value": 3}], "footer": "prod"}]});
        let found = read("application/json", &alert.to_string()).unwrap();
        assert_eq!(
            found.content,
            "**[\\[FIRING:1\\] Disk](<http://alerts.example/#/alerts>)**\n\n**90 %** of [disk](<http://x.example>)\n\n\
             **Severity** high\n**Count** 3\n\n_prod_"
        );
        assert_eq!(found.metadata.color.as_deref(), Some("#e01e5a"));
        let face = found.metadata.shown_as.unwrap();
        assert_eq!(face.name.as_deref(), Some("Alertmanager"));
        let blocks = json!({"text": "fallback", "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": "Build *1*"}},
            {"type": "section", "text": {"type": "mrkdwn", "text": "*ok*"}, "accessory": {"type": "button", "text": {"type": "plain_text", "text": "Open"}, "url": "https://ci.example"}},
            {"type": "divider"},
            {"type": "rich_text", "elements": [{"type": "rich_text_list", "style": "bullet", "elements": [
                {"type": "rich_text_section", "elements": [{"type": "text", "text": "bold", "style": {"bold": true}}]}]}]},
            {"type": "table", "rows": [[{"type": "raw_text", "text": "a"}, {"type": "raw_text", "text": "b"}]]},
            {"type": "input"}]});
        assert_eq!(
            shown(&blocks),
            "### Build \\*1\\*\n\n**ok**\n\n---\n\n- **bold**\n\n| a | b |\n| --- | --- |\n\n(input, not shown)\n\n[Open](<https://ci.example>)"
        );
        // Neither a divider nor a placeholder is text, so the text beside the blocks is shown.
        let marks = json!({"text": "Deploy?", "blocks": [{"type": "divider"}, {"type": "input"}]});
        assert_eq!(shown(&marks), "---\n\n(input, not shown)\n\nDeploy?");
        // Nor is a button that cannot be a link.
        let mail = json!({"text": "Deploy?", "blocks": [{"type": "actions", "elements": [
            {"type": "button", "text": {"type": "plain_text", "text": "Mail"}, "url": "mailto:ops@ok.example"}]}]});
        assert_eq!(shown(&mail), "Mail (mailto:ops@ok.example)\n\nDeploy?");
        assert_eq!(
            shown(&json!({"attachments": [{"fallback": "only *this*"}]})),
            "only \\*this\\*"
        );
    }

    #[test]
    fn the_native_format_is_markdown_and_keeps_its_order() {
        let text = shown(
            &json!({"title": "Disk", "text": "**90 %**", "buttons": [{"text": "Open", "url": "https://ok.example"}],
            "fields": [{"title": "Host", "value": "**db-1**"}, {"title": "Count", "value": 3}]}),
        );
        assert_eq!(
            text,
            "**Disk**\n\n**90 %**\n\n**Host** **db-1**\n**Count** 3\n\n[Open](<https://ok.example>)"
        );
        let query = HookQuery {
            title: Some("Log".to_owned()),
            code: Some("sh".to_owned()),
            ..HookQuery::default()
        };
        let head = BodyHead {
            content_type: "application/x-www-form-urlencoded".to_owned(),
            query,
            ..BodyHead::default()
        };
        let sent = Incoming::read(&head, b"ls -l", None).unwrap();
        assert_eq!(sent.content, "**Log**\n\n```sh\nls -l\n```");
        // With a title, buttons alone are not the text as well.
        let head = BodyHead {
            content_type: "application/json".to_owned(),
            ..head
        };
        let body = br#"{"buttons": [{"text": "Open", "url": "https://ok.example"}]}"#;
        let sent = Incoming::read(&head, body, None).unwrap();
        assert_eq!(sent.content, "**Log**");
        let sent = sent.with_buttons(ButtonUse::Text);
        assert_eq!(sent.content, "**Log**\n\n[Open](<https://ok.example>)");
    }

    #[test]
    fn nothing_of_a_long_list_is_lost_silently() {
        let fields: Vec<Value> = (0..150)
            .map(|n| json!({"title": n.to_string(), "value": "x"}))
            .collect();
        let rows: Vec<Value> = (0..150)
            .map(|n| json!([{"type": "raw_text", "text": format!("row {n}")}]))
            .collect();
        let text = shown(
            &json!({"attachments": [{"fields": fields}], "blocks": [{"type": "table", "rows": rows}]}),
        );
        assert!(text.contains("row 149"), "{text}");
        let mrkdwn = shown(&json!({"username": "x", "text": "*a*"}));
        assert_eq!(mrkdwn, "**a**");
    }

    #[test]
    fn links_lead_only_to_the_web() {
        for url in [
            "javascript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "https://a b",
            "http://",
            "JAVASCRIPT://%0aalert(1)",
        ] {
            let sent = json!({"title": "T", "url": url, "buttons": [{"text": "B", "url": url}]});
            let text = shown(&sent);
            assert!(!text.contains("]("), "{text}");
        }
        let text = shown(&json!({"title": "a](javascript:x)", "url": "https://ok.example"}));
        assert_eq!(text, "**[a\\](javascript:x)](<https://ok.example>)**");
        assert_eq!(
            read("application/json", r#"{"text":"x","name":"Vibe (AI)"}"#)
                .unwrap()
                .metadata
                .shown_as,
            None
        );
    }

    #[test]
    fn a_long_text_is_cut_with_its_fence_closed() {
        let text = format!("```\n{}", "é".repeat(40_000));
        let found = read("text/plain", &text).unwrap();
        assert!(found.content.len() <= TEXT_BYTES_MAX);
        assert!(
            found
                .content
                .ends_with("\n```\n\n_The text is cut off here._")
        );
        assert_eq!(found.notes.len(), 1);
    }

    #[test]
    fn an_unknown_document_is_shown_as_code() {
        let found = shown(&json!({"event": "x```y"}));
        assert_eq!(found, "````json\n{\n  \"event\": \"x```y\"\n}\n````");
    }
}
