//! Markdown that is built from texts of a program, with a bounded size.

use serde_json::Value;

use crate::chat::messages::{ButtonStyle, MessageButton};

/// Size at which building stops. It is more than a message can contain, so only text that is cut anyway is left out.
const BYTES_MAX: usize = 40 * 1024;

/// Markdown paragraphs, and notes about what is not shown as sent.
#[derive(Debug, Default)]
pub(super) struct Rendered {
    text: String,
    pub(super) notes: Vec<String>,
    pub(super) color: Option<String>,
    pub(super) buttons: Vec<MessageButton>,
    is_cut: bool,
    /// True if it has more than dividers and placeholders.
    has_text: bool,
}

/// Maximum number of notes.
const NOTES_MAX: usize = 20;
/// Maximum number of buttons.
pub(super) const BUTTONS_MAX: usize = 25;
const BUTTON_ID_BYTES_MAX: usize = 255;
const BUTTON_CHARS_MAX: usize = 75;
const BUTTON_VALUE_CHARS_MAX: usize = 2000;
const CONFIRM_CHARS_MAX: usize = 300;

/// A button as a program sent it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SentButton<'a> {
    pub(super) id: &'a str,
    pub(super) text: &'a str,
    /// Address that it opens; empty for a button that is pressed.
    pub(super) url: &'a str,
    pub(super) value: &'a str,
    pub(super) style: &'a str,
    pub(super) confirm: &'a str,
}

fn shortened(text: &str, chars_max: usize) -> Option<String> {
    let text: String = text
        .chars()
        .filter(|c| *c != '\0')
        .take(chars_max)
        .collect();
    Some(text).filter(|text| !text.is_empty())
}

impl Rendered {
    /// Adds a paragraph, unless it is blank.
    pub(super) fn paragraph(&mut self, text: &str) {
        self.add(text, "\n\n");
    }

    /// Adds a paragraph that is not text of the message, such as a divider.
    pub(super) fn mark(&mut self, text: &str) {
        let had_text = self.has_text;
        self.paragraph(text);
        self.has_text = had_text;
    }

    /// Adds a line directly below the previous one.
    pub(super) fn line(&mut self, text: &str) {
        self.add(text, "\n");
    }

    fn add(&mut self, text: &str, separator: &str) {
        let text = text.trim_end();
        if text.trim().is_empty() {
            return;
        }
        self.has_text = true;
        if self.is_full() {
            self.is_cut = true;
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str(separator);
        }
        let room = BYTES_MAX.saturating_sub(self.text.len());
        if text.len() > room {
            self.is_cut = true;
        }
        self.text.push_str(beginning(text, room));
    }

    pub(super) fn is_full(&self) -> bool {
        self.text.len() >= BYTES_MAX
    }

    pub(super) fn has_text(&self) -> bool {
        self.has_text
    }

    pub(super) fn note(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Adds a placeholder for a part that a message cannot show.
    pub(super) fn not_shown(&mut self, kind: &str) {
        let kind: String = beginning(kind, 40)
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect();
        self.mark(&format!("({}, not shown)", kind.replace('_', "\\_")));
        self.note(format!("{kind} is not shown"));
    }

    /// Adds a button of a part of the message.
    pub(super) fn keep_button(&mut self, button: &MessageButton) {
        self.button(SentButton {
            id: &button.id,
            text: &button.text,
            url: button.url.as_deref().unwrap_or_default(),
            value: button.value.as_deref().unwrap_or_default(),
            style: button.style.map_or("", ButtonStyle::as_str),
            confirm: button.confirm.as_deref().unwrap_or_default(),
        });
    }

    /// Adds a button; as text, if there are too many, or if its URL cannot be a link.
    pub(super) fn button(&mut self, sent: SentButton<'_>) {
        let url = sent.url.trim();
        if !url.is_empty() && !is_link(url) {
            self.mark(&link(sent.text, url));
            return;
        }
        let text = one_line(if sent.text.trim().is_empty() {
            url
        } else {
            sent.text
        });
        let Some(text) = shortened(&text, BUTTON_CHARS_MAX) else {
            return;
        };
        let known = |id: &str| self.buttons.iter().any(|button| button.id == id);
        let mut id = beginning(sent.id, BUTTON_ID_BYTES_MAX).replace('\0', "");
        if id.is_empty() || known(&id) {
            id = format!("button-{}", self.buttons.len() + 1);
        }
        if self.buttons.len() >= BUTTONS_MAX || known(&id) {
            self.mark(&link(&text, url));
            return;
        }
        let style = match sent.style {
            "primary" | "good" => Some(ButtonStyle::Primary),
            "danger" => Some(ButtonStyle::Danger),
            _ => None,
        };
        self.buttons.push(MessageButton {
            id,
            text,
            url: Some(url.to_owned()).filter(|url| !url.is_empty()),
            value: shortened(sent.value, BUTTON_VALUE_CHARS_MAX),
            style,
            confirm: shortened(&one_line(sent.confirm), CONFIRM_CHARS_MAX),
        });
    }

    pub(super) fn finish(self) -> (String, bool) {
        (self.text, self.is_cut)
    }
}

/// The beginning of a text, at most this long, that ends between characters.
pub(super) fn beginning(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Escapes text that is not markup.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut at_start = true;
    for c in text.chars() {
        let starts_block = at_start && matches!(c, '#' | '+' | '-' | '=' | '>');
        if starts_block
            || matches!(
                c,
                '\\' | '`' | '*' | '_' | '~' | '[' | ']' | '<' | '>' | '|'
            )
        {
            out.push('\\');
        }
        out.push(c);
        at_start = c == '\n' || (at_start && c == ' ');
    }
    out
}

/// Checks for a URL that can be a link.
pub(super) fn is_link(url: &str) -> bool {
    let scheme_end = url.find("://").unwrap_or(0);
    let scheme = &url[..scheme_end];
    (scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
        && url.len() <= 4096
        && url.len() > scheme_end + 3
        && !url
            .chars()
            .any(|c| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '"' | '\\'))
}

/// A Markdown link; a URL that cannot be a link is shown as text.
pub(super) fn link(label: &str, url: &str) -> String {
    let url = url.trim();
    let label = label.trim();
    if is_link(url) {
        if label.is_empty() {
            return format!("<{url}>");
        }
        return format!("[{}](<{url}>)", one_line(&escaped(label)));
    }
    match (label.is_empty(), url.is_empty()) {
        (_, true) => one_line(&escaped(label)),
        (true, false) => one_line(&escaped(url)),
        (false, false) => one_line(&escaped(&format!("{label} ({url})"))),
    }
}

/// Buttons as text: links and labels.
pub(super) fn button_texts(buttons: &[MessageButton]) -> String {
    let texts = buttons.iter().map(|button| {
        let url = button.url.as_deref().unwrap_or_default();
        link(&button.text, url)
    });
    texts.collect::<Vec<_>>().join(" · ")
}

/// The text on one line.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A code block whose fence is longer than any in the text.
pub fn fenced(text: &str, language: &str) -> String {
    let longest = text
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let language: String = language
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '#'))
        .take(20)
        .collect();
    format!("{fence}{language}\n{}\n{fence}", text.trim_end())
}

/// A scalar as text.
pub(super) fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        _ => String::new(),
    }
}

/// The color of an attachment as `#rrggbb`.
pub(super) fn color(text: &str) -> Option<String> {
    let hex = match text {
        "good" => "2eb67d",
        "warning" => "ecb22e",
        "danger" => "e01e5a",
        other => other.strip_prefix('#').unwrap_or(other),
    };
    let is_hex = !hex.is_empty() && hex.chars().all(|c| c.is_ascii_hexdigit());
    match hex.len() {
        6 if is_hex => Some(format!("#{}", hex.to_ascii_lowercase())),
        3 if is_hex => {
            let doubled = hex.chars().flat_map(|c| [c, c]).collect::<String>();
            Some(format!("#{}", doubled.to_ascii_lowercase()))
        }
        _ => None,
    }
}
