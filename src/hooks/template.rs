//! Messages that templates make from the JSON of a program. In a template, `{{path}}` is a value of the document, such as
//! `{{repository.full_name}}`. There are no expressions.
//!
//! | written | becomes |
//! | --- | --- |
//! | `{{a.b}}`, `{{a.0.b}}` | the value on one line; in `text`, what could be markup is escaped |
//! | `{{{a.b}}}` | the value as Markdown |
//! | `{{a.b\|a.url}}` | a link with the first value as its label |
//! | `{{list[].b}}` | its line is repeated for each element of the list |
//! | `{{$event}}` | the header that names the event |
//!
//! A line is left out if all of its values are empty.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::rendered::{Rendered, beginning, color as color_of, escaped, link, one_line, scalar};

/// Maximum size of all texts of a template.
const TEMPLATE_BYTES_MAX: usize = 8 * 1024;
/// Part of a value that is shown.
const VALUE_BYTES_MAX: usize = 8 * 1024;
/// Part of a title that is shown.
const TITLE_BYTES_MAX: usize = 300;
/// Elements of a list for which a line is repeated.
const ELEMENTS_MAX: usize = 20;
/// Members of an object, or elements of a list, that are shown as one value.
const PARTS_MAX: usize = 30;
/// Longer thread keys are replaced with their hash.
const KEY_CHARS_MAX: usize = 200;

/// Template of a message. A value of the JSON document is written as `{{path}}`, such as `{{repository.full_name}}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HookTemplate {
    /// First line, which links to `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "{{service}} is {{state}}")]
    pub title: Option<String>,
    /// Markdown. A line with `{{list[].name}}` is repeated for each element of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        nullable = false,
        example = "- {{checks[].name|checks[].url}}: {{checks[].result}}"
    )]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "{{links.self}}")]
    pub url: Option<String>,
    /// `#rrggbb`, or a word such as `firing` or `resolved`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "{{state}}")]
    pub color: Option<String>,
    /// Messages with the same key are posted in one thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "{{incident.id}}")]
    pub thread_key: Option<String>,
}

/// A JSON document, and the header that names its event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document<'a> {
    pub(super) json: &'a Value,
    pub(super) event: &'a str,
}

#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Text(&'a str),
    Value(&'a str),
    Markdown(&'a str),
    Link { label: &'a str, url: &'a str },
}

/// Splits a line at its values. Unclosed braces are text.
fn parts(line: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = line;
    while let Some(open) = rest.find("{{") {
        let is_markdown = rest[open..].starts_with("{{{");
        let (start, close) = if is_markdown {
            (open + 3, "}}}")
        } else {
            (open + 2, "}}")
        };
        let Some(length) = rest[start..].find(close) else {
            break;
        };
        let name = rest[start..start + length].trim();
        parts.push(Part::Text(&rest[..open]));
        parts.push(match name.split_once('|') {
            _ if is_markdown => Part::Markdown(name),
            Some((label, url)) => Part::Link {
                label: label.trim(),
                url: url.trim(),
            },
            None => Part::Value(name),
        });
        rest = &rest[start + length + close.len()..];
    }
    parts.push(Part::Text(rest));
    parts
}

fn paths<'a>(part: &Part<'a>) -> Vec<&'a str> {
    match part {
        Part::Text(_) => Vec::new(),
        Part::Value(path) | Part::Markdown(path) => vec![*path],
        Part::Link { label, url } => vec![*label, *url],
    }
}

/// Path of the list for whose elements a line is repeated.
fn list_of<'a>(parts: &[Part<'a>]) -> Option<&'a str> {
    let mut all = parts.iter().flat_map(paths);
    all.find_map(|path| path.split_once("[]").map(|(list, _)| list))
}

fn is_path(path: &str) -> bool {
    if path == "$event" {
        return true;
    }
    let path = path.replacen("[].", ".", 1);
    let path = path.strip_suffix("[]").unwrap_or(&path);
    !path.is_empty()
        && path.split('.').all(|name| {
            let is_name = |c: char| {
                c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '@' | ' ' | '/' | ':')
            };
            !name.is_empty() && name.trim() == name && name.chars().all(is_name)
        })
}

fn lookup<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .filter(|name| !name.is_empty())
        .try_fold(value, |value, name| match value {
            Value::Object(members) => members.get(name),
            Value::Array(items) => name.parse().ok().and_then(|n: usize| items.get(n)),
            _ => None,
        })
}

/// A value as text: members of an object as `name=value`, and elements of a list, separated by commas.
fn shown(value: &Value) -> String {
    let joined = |parts: Vec<String>, count: usize| {
        let rest = if count > PARTS_MAX { ", …" } else { "" };
        format!("{}{rest}", parts.join(", "))
    };
    match value {
        Value::Object(members) => {
            let parts = members.iter().take(PARTS_MAX);
            let parts = parts.map(|(name, value)| format!("{name}={}", inner(value)));
            joined(parts.collect(), members.len())
        }
        Value::Array(items) => {
            let parts = items.iter().take(PARTS_MAX).map(inner);
            joined(parts.collect(), items.len())
        }
        other => inner(other),
    }
}

fn inner(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => "…".to_owned(),
        Value::String(text) => beginning(text, VALUE_BYTES_MAX).to_owned(),
        other => scalar(other),
    }
}

impl Document<'_> {
    /// Text of a value; empty if the document does not contain it. `element` is the element of a list that the line is repeated for.
    pub(super) fn text(&self, path: &str, element: Option<&Value>) -> String {
        if path == "$event" {
            return self.event.to_owned();
        }
        let value = match path.split_once("[]") {
            Some((_, rest)) => element.and_then(|element| lookup(element, rest)),
            None => lookup(self.json, path),
        };
        let text = value.map(shown).unwrap_or_default();
        beginning(&text, VALUE_BYTES_MAX).replace('\0', "")
    }

    /// A template as text without markup; empty if all of its values are.
    fn plain(&self, template: &str) -> String {
        let mut out = String::new();
        let (mut has_values, mut has_text) = (false, false);
        for part in parts(template) {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Value(path) | Part::Markdown(path) | Part::Link { label: path, .. } => {
                    let value = self.text(path, None);
                    has_values = true;
                    has_text |= !value.is_empty();
                    out.push_str(&value);
                }
            }
        }
        if has_values && !has_text {
            return String::new();
        }
        out.trim().to_owned()
    }

    /// Renders a line. Returns `None` if all of its values are empty.
    fn line(&self, parts: &[Part<'_>], element: Option<&Value>) -> Option<String> {
        let mut out = String::new();
        let (mut has_values, mut has_text) = (false, false);
        for part in parts {
            if out.len() > VALUE_BYTES_MAX {
                break;
            }
            let value = match part {
                Part::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                Part::Value(path) => one_line(&escaped(&self.text(path, element))),
                Part::Markdown(path) => self.text(path, element).trim().to_owned(),
                Part::Link { label, url } => {
                    link(&self.text(label, element), &self.text(url, element))
                }
            };
            has_values = true;
            has_text |= !value.is_empty();
            out.push_str(&value);
        }
        (has_text || !has_values).then_some(out)
    }
}

/// Color of a state.
fn color(text: &str) -> Option<String> {
    let word = text.trim().to_ascii_lowercase();
    match word.as_str() {
        "firing" | "alerting" | "critical" | "error" | "fatal" | "failure" | "failed" | "down"
        | "triggered" => color_of("danger"),
        "resolved" | "ok" | "success" | "succeeded" | "passed" | "merged" | "up" | "normal" => {
            color_of("good")
        }
        "pending" | "timed_out" | "canceled" | "cancelled" => color_of("warning"),
        other => color_of(other),
    }
}

impl HookTemplate {
    /// Checks the size and the values of all texts.
    ///
    /// # Errors
    /// A description of the problem.
    pub fn check(&self) -> Result<(), String> {
        let texts = [
            &self.title,
            &self.text,
            &self.url,
            &self.color,
            &self.thread_key,
        ];
        let texts: Vec<&String> = texts.into_iter().flatten().collect();
        let size: usize = texts.iter().map(|text| text.len()).sum();
        if size > TEMPLATE_BYTES_MAX {
            return Err(format!(
                "the template has {size} bytes; the limit is {TEMPLATE_BYTES_MAX}"
            ));
        }
        if self.title.is_none() && self.text.is_none() {
            return Err("the template needs a `title` or a `text`".to_owned());
        }
        for line in texts.into_iter().flat_map(|text| text.lines()) {
            let parts = parts(line);
            let all: Vec<&str> = parts.iter().flat_map(paths).collect();
            if let Some(path) = all.iter().find(|path| !is_path(path)) {
                return Err(format!(
                    "`{{{{{path}}}}}` is not a path, such as `{{{{repository.name}}}}`"
                ));
            }
            let lists: Vec<&str> = all
                .iter()
                .filter_map(|path| Some(path.split_once("[]")?.0))
                .collect();
            if lists.windows(2).any(|pair| pair[0] != pair[1]) {
                return Err(format!(
                    "the line `{line}` has elements of two lists: use a line for each"
                ));
            }
        }
        Ok(())
    }

    /// Adds the message to `out`, and returns its thread key.
    pub(super) fn render(&self, document: Document<'_>, out: &mut Rendered) -> Option<String> {
        let of = |text: &Option<String>| {
            text.as_deref()
                .map(|text| document.plain(text))
                .unwrap_or_default()
        };
        let (title, url) = (of(&self.title), of(&self.url));
        let title = beginning(&title, TITLE_BYTES_MAX);
        if !title.is_empty() {
            out.paragraph(&format!("**{}**", link(title, &url)));
        } else if !url.is_empty() {
            out.paragraph(&link("", &url));
        }
        out.color = color(&of(&self.color));
        self.render_text(document, out);
        let key = of(&self.thread_key);
        if key.chars().count() > KEY_CHARS_MAX {
            return Some(hex::encode(Sha256::digest(key.as_bytes())));
        }
        Some(key).filter(|key| !key.is_empty())
    }

    fn render_text(&self, document: Document<'_>, out: &mut Rendered) {
        let mut starts_paragraph = true;
        for line in self.text.as_deref().unwrap_or_default().lines() {
            if line.trim().is_empty() {
                starts_paragraph = true;
                continue;
            }
            let parts = parts(line);
            let list = list_of(&parts);
            let items = list.map(|list| {
                lookup(document.json, list)
                    .and_then(Value::as_array)
                    .map(Vec::as_slice)
            });
            let items: Vec<Option<&Value>> = match items {
                None => vec![None],
                Some(items) => items.unwrap_or_default().iter().map(Some).collect(),
            };
            let rest = items.len().saturating_sub(ELEMENTS_MAX);
            let lines = items.iter().take(ELEMENTS_MAX);
            let mut lines: Vec<String> = lines
                .filter_map(|item| document.line(&parts, *item))
                .collect();
            if rest > 0 {
                lines.push(format!("_… and {rest} more_"));
                out.note(format!(
                    "only the first {ELEMENTS_MAX} of {} elements are shown",
                    items.len()
                ));
            }
            for line in lines {
                if std::mem::take(&mut starts_paragraph) {
                    out.paragraph(&line);
                } else {
                    out.line(&line);
                }
            }
            if out.is_full() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(text: &str) -> HookTemplate {
        HookTemplate {
            text: Some(text.to_owned()),
            ..HookTemplate::default()
        }
    }

    fn rendered(text: &str, json: &Value) -> String {
        let template = template(text);
        template.check().unwrap();
        let mut out = Rendered::default();
        let event = "push";
        template.render(Document { json, event }, &mut out);
        out.finish().0
    }

    #[test]
    fn values_are_text_unless_the_template_says_that_they_are_markdown() {
        let json = json!({"a": {"b": "*x*\n# y"}, "n": 3, "list": ["p", "q"], "labels": {"host": "db_1", "deep": {"x": 1}}});
        for (text, expected) in [
            ("{{a.b}}!", "\\*x\\* \\# y!"),
            ("{{{a.b}}}!", "*x*\n# y!"),
            ("{{ n }} {{list.1}} {{list}}", "3 q p, q"),
            ("{{labels}}", "deep=…, host=db\\_1"),
            ("{{$event}} {{ open", "push {{ open"),
            ("fixed\n{{missing}} left out\nend", "fixed\nend"),
            ("one\n\ntwo", "one\n\ntwo"),
        ] {
            assert_eq!(rendered(text, &json), expected, "{text}");
        }
    }

    #[test]
    fn a_line_is_repeated_for_each_element_of_its_list() {
        let json = json!({"commits": [{"id": "1", "url": "https://x.example/1"}, {"id": "[2]", "url": "javascript:x"}]});
        assert_eq!(
            rendered("- {{commits[].id|commits[].url}}", &json),
            "- [1](<https://x.example/1>)\n- \\[2\\] (javascript:x)"
        );
        let many = json!({"l": vec!["x"; 25]});
        let text = rendered("- {{l[]}}", &many);
        assert!(
            text.starts_with("- x\n- x") && text.ends_with("\n_… and 5 more_"),
            "{text}"
        );
    }

    #[test]
    fn templates_without_text_or_with_expressions_are_refused() {
        assert!(HookTemplate::default().check().is_err());
        for text in [
            "{{}}",
            "{{a b..c}}",
            "{{a[].b}} {{c[].d}}",
            "{{1 + 1}}",
            "{{a[].b[].c}}",
        ] {
            assert!(template(text).check().is_err(), "{text}");
        }
        assert!(
            template(&"x".repeat(TEMPLATE_BYTES_MAX + 1))
                .check()
                .is_err()
        );
    }

    #[test]
    fn a_long_key_is_hashed_and_words_have_colors() {
        let json = json!({"key": "k".repeat(300), "state": "Firing"});
        let template = HookTemplate {
            title: Some("x".to_owned()),
            color: Some("{{state}}".to_owned()),
            thread_key: Some("{{key}}".to_owned()),
            ..HookTemplate::default()
        };
        let mut out = Rendered::default();
        let key = template
            .render(
                Document {
                    json: &json,
                    event: "",
                },
                &mut out,
            )
            .unwrap();
        assert_eq!((key.len(), out.color.as_deref()), (64, Some("#e01e5a")));
    }
}
