//! Parses the sources in a model's answer.

use std::{collections::HashMap, sync::LazyLock};

use regex::Regex;
use serde_json::Value;

/// Maximum number of sources of one entry; more would cite everything.
const NAMED_MAX: usize = 60;
/// Maximum number of lines in a range such as `m3-m7`.
const RANGE_MAX: usize = 20;

/// A message cited by a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawSource {
    /// A position in the material.
    Line(usize),
    /// An unknown source, as it was written.
    Unknown(String),
}

/// Names of the lines: `m1` and so on, and their IDs.
pub(super) struct Handles<'a> {
    by_id: HashMap<&'a str, usize>,
    lines: usize,
}

static HANDLE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)^(?:m|msg|message|line)?[-_#]?(\d{1,20})$").ok());
static RANGE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)^m(\d{1,6})(?:-|–|\.\.\.?|…)m?(\d{1,6})$").ok());
/// Handles in parentheses at the end of a text, or in square brackets anywhere.
static CITED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\s*(?:\[(?:sources?:? )?(m\d+(?:\s*(?:,|;|&|and|–|-)\s*m\d+)*)\]|\((?:sources?:? )?(m\d+(?:\s*(?:,|;|&|and|–|-)\s*m\d+)*)\)(?P<end>\s*[.!?]?\s*$))",
    )
    .ok()
});

impl<'a> Handles<'a> {
    /// `ids` are the IDs of all lines, in order.
    pub(super) fn new(ids: &'a [String]) -> Self {
        Self {
            by_id: ids
                .iter()
                .enumerate()
                .map(|(at, id)| (id.as_str(), at))
                .collect(),
            lines: ids.len(),
        }
    }

    /// Returns the distinct sources in a `sources` field, in order.
    pub(super) fn read(&self, value: &Value) -> Vec<RawSource> {
        let mut named = Vec::new();
        self.collect(value, 0, &mut named);
        named
    }

    fn collect(&self, value: &Value, depth: usize, named: &mut Vec<RawSource>) {
        match value {
            Value::Number(number) => push(
                named,
                self.of_number(&number.to_string(), || number.to_string()),
            ),
            Value::String(text) => self.collect_text(text, named),
            Value::Array(values) if depth < 4 => {
                for value in values {
                    self.collect(value, depth + 1, named);
                }
            }
            Value::Object(fields) if depth < 4 => {
                let keys = [
                    "handle",
                    "id",
                    "message_id",
                    "messageId",
                    "message",
                    "source",
                ];
                if let Some(value) = keys.iter().find_map(|key| fields.get(*key)) {
                    self.collect(value, depth + 1, named);
                }
            }
            _ => {}
        }
    }

    fn collect_text(&self, text: &str, named: &mut Vec<RawSource>) {
        let is_edge = |c: char| {
            c.is_whitespace()
                || matches!(
                    c,
                    ',' | ';' | '|' | '/' | '(' | ')' | '[' | ']' | '"' | '\'' | '`' | '&' | '+'
                )
        };
        let words: Vec<&str> = text
            .split(is_edge)
            .map(|word| word.trim_matches(['@', '#', '.', ':', '*', '<', '>']))
            .filter(|word| !word.is_empty())
            .collect();
        let is_number = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
        let is_announced = |nth: usize| {
            nth > 0
                && matches!(
                    words[nth - 1].to_lowercase().as_str(),
                    "message" | "msg" | "line" | "m"
                )
        };
        let are_numbers = words.iter().all(|word| is_number(word));
        for (nth, word) in words.iter().enumerate() {
            if let Some(at) = self.by_id.get(word) {
                push(named, RawSource::Line(*at));
            } else if let Some(range) = self.range(word) {
                for source in range {
                    push(named, source);
                }
            } else if is_number(word) {
                // `[m3 Bo 2, 2026-11-20]` is a copied label: only `m3` counts.
                if are_numbers || is_announced(nth) {
                    push(named, self.of_number(word, || (*word).to_owned()));
                }
            } else if let Some(number) = HANDLE.as_ref().and_then(|handle| handle.captures(word)) {
                push(named, self.of_number(&number[1], || (*word).to_owned()));
            } else if word.contains('_') {
                push(named, RawSource::Unknown(word.chars().take(64).collect()));
            }
        }
        if named.is_empty() && words.len() == 1 {
            named.push(RawSource::Unknown(words[0].chars().take(64).collect()));
        }
    }

    fn of_number(&self, digits: &str, written: impl Fn() -> String) -> RawSource {
        let position = digits
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_sub(1));
        match position.filter(|at| *at < self.lines) {
            Some(at) => RawSource::Line(at),
            None => RawSource::Unknown(written()),
        }
    }

    fn range(&self, word: &str) -> Option<Vec<RawSource>> {
        let found = RANGE.as_ref()?.captures(word)?;
        let (from, to): (usize, usize) = (found[1].parse().ok()?, found[2].parse().ok()?);
        let is_short = from <= to && to - from < RANGE_MAX;
        is_short.then(|| {
            (from..=to)
                .map(|n| self.of_number(&n.to_string(), || format!("m{n}")))
                .collect()
        })
    }

    /// Returns the text without the handles that the model put into it, and the sources that they
    /// refer to.
    pub(super) fn cited(&self, text: &str) -> (String, Vec<RawSource>) {
        let Some(cited) = &*CITED else {
            return (text.to_owned(), Vec::new());
        };
        let mut named = Vec::new();
        let rest = cited.replace_all(text, |found: &regex::Captures<'_>| {
            if let Some(handles) = found.get(1).or(found.get(2)) {
                self.collect_text(&handles.as_str().replace("and", " "), &mut named);
            }
            found.name("end").map_or("", |end| end.as_str()).to_owned()
        });
        (rest.trim().to_owned(), named)
    }
}

fn push(named: &mut Vec<RawSource>, source: RawSource) {
    if named.len() < NAMED_MAX && !named.contains(&source) {
        named.push(source);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(value: &Value) -> String {
        let ids: Vec<String> = ["msg_a1", "msg_b2", "msg_c3", "msg_d4", "msg_e5"]
            .map(str::to_owned)
            .to_vec();
        let shown = |source: &RawSource| match source {
            RawSource::Line(at) => at.to_string(),
            RawSource::Unknown(text) => text.clone(),
        };
        let named = Handles::new(&ids).read(value);
        named.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn sources_are_parsed_in_every_form_that_models_use() {
        for (value, wanted) in [
            (json!(["m2", "m5"]), "1 4"),
            (json!("m3, m4"), "2 3"),
            (json!("m3 and m4."), "2 3"),
            (json!("[m3]"), "2"),
            (json!(["M2", "m2"]), "1"),
            (json!([2, 3]), "1 2"),
            (json!(2), "1"),
            (json!("2, 3"), "1 2"),
            (json!("msg_c3"), "2"),
            (json!(["msg_c3", "msg_zz"]), "2 msg_zz"),
            (json!([{"id": "m2"}, {"message_id": "msg_d4"}]), "1 3"),
            (json!("[m3 Bo 2, 2026-11-20]: We ship"), "2"),
            (json!("message 4"), "3"),
            (json!(["m2-m4"]), "1 2 3"),
            (json!("m4–5"), "3 4"),
            (json!(["m0", "m6", "m99999999999"]), "m0 m6 m99999999999"),
            (json!([0, -1, 1.5]), "0 -1 1.5"),
            (json!("Ada"), "Ada"),
            (json!("said by Ada"), ""),
            (json!(null), ""),
            (json!({}), ""),
            (json!(true), ""),
            (json!([[["m1"]]]), "0"),
        ] {
            assert_eq!(named(&value), wanted, "{value}");
        }
    }

    #[test]
    fn handles_inside_a_text_become_its_sources() {
        let ids: Vec<String> = vec![String::new(); 5];
        let handles = Handles::new(&ids);
        let cited = |text: &str| handles.cited(text);
        let lines = |lines: &[usize]| {
            lines
                .iter()
                .map(|at| RawSource::Line(*at))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            cited("We ship (m2, m3)."),
            ("We ship.".to_owned(), lines(&[1, 2]))
        );
        assert_eq!(
            cited("We ship [m2] on Friday"),
            ("We ship on Friday".to_owned(), lines(&[1]))
        );
        assert_eq!(
            cited("Ten (m3) of sand"),
            ("Ten (m3) of sand".to_owned(), lines(&[]))
        );
        assert_eq!(
            cited("See (Sources: m1 and m4)"),
            ("See".to_owned(), lines(&[0, 3]))
        );
    }
}
