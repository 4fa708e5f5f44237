//! Parses the sources in a model's answer.

use std::{collections::HashMap, ops::RangeInclusive, sync::LazyLock};

use regex::{Captures, Regex};
use serde_json::Value;

use super::pattern;

/// Maximum number of sources read for one entry. An entry with more sources would cite everything.
const NAMED_MAX: usize = 60;
/// Maximum number of lines in a range such as `m3-m7`.
const RANGE_MAX: usize = 20;
/// Maximum nesting depth of lists and objects around a source.
const NESTED_MAX: usize = 4;
const UNKNOWN_CHARS_MAX: usize = 64;
/// Fields of an object that contain a source.
const KEYS: &str = "handle id message_id messageId message source";

/// A message cited by a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawSource {
    /// A position in the material.
    Line(usize),
    /// An unknown source, as it was written.
    Unknown(String),
}

/// Positions of the lines by their names in an answer: `m1` and so on, or their IDs.
pub(super) struct Handles<'a> {
    by_id: HashMap<&'a str, usize>,
    lines: usize,
}

static HANDLE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)^(?:m|msg|message|line)?[-_#]?(\d{1,20})$"));
static RANGE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)^m(\d{1,6})(?:-|–|\.\.\.?|…)m?(\d{1,6})$"));
/// Handles in parentheses at the end of a text, or in square brackets anywhere.
static CITED: LazyLock<Regex> = LazyLock::new(|| {
    let handles = r"(?:sources?:? )?(m\d+(?:\s*(?:,|;|&|and|–|-)\s*m\d+)*)";
    pattern(&format!(
        r"(?i)\s*(?:\[{handles}\]|\({handles}\)(\s*[.!?]?\s*$))"
    ))
});

impl<'a> Handles<'a> {
    /// `ids` are the IDs of all lines, in order.
    pub(super) fn new(ids: &'a [String]) -> Self {
        let by_id = ids.iter().enumerate().map(|(at, id)| (id.as_str(), at));
        Self {
            by_id: by_id.collect(),
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
            Value::Number(number) => {
                let number = number.to_string();
                push(named, self.numbered(&number, &number));
            }
            Value::String(text) => self.collect_text(text, named),
            Value::Array(values) if depth < NESTED_MAX => {
                for value in values {
                    self.collect(value, depth + 1, named);
                }
            }
            Value::Object(fields) if depth < NESTED_MAX => {
                if let Some(value) = KEYS.split(' ').find_map(|key| fields.get(key)) {
                    self.collect(value, depth + 1, named);
                }
            }
            _ => {}
        }
    }

    fn collect_text(&self, text: &str, named: &mut Vec<RawSource>) {
        let words: Vec<&str> = text
            .split(|c: char| c.is_whitespace() || ",;|/()[]\"'`&+".contains(c))
            .map(|word| word.trim_matches(['@', '#', '.', ':', '*', '<', '>']))
            .filter(|word| !word.is_empty())
            .collect();
        let is_number = |word: &&str| word.bytes().all(|b| b.is_ascii_digit());
        let are_numbers = words.iter().all(is_number);
        let mut is_announced = are_numbers;
        for word in &words {
            if let Some(at) = self.by_id.get(word) {
                push(named, RawSource::Line(*at));
            } else if let Some(range) = range(word) {
                for number in range {
                    push(
                        named,
                        self.numbered(&number.to_string(), &format!("m{number}")),
                    );
                }
            } else if let Some(number) = HANDLE.captures(word) {
                // `[m3 Bo 2, 2026-11-20]` is a copied label: only `m3` counts.
                if is_announced || !is_number(word) {
                    push(named, self.numbered(&number[1], word));
                }
            } else if word.contains('_') {
                push(named, unknown(word));
            }
            is_announced =
                are_numbers || matches!(&*word.to_lowercase(), "message" | "msg" | "line" | "m");
        }
        if let ([word], []) = (&words[..], &named[..]) {
            named.push(unknown(word));
        }
    }

    fn numbered(&self, digits: &str, written: &str) -> RawSource {
        let number = digits.parse::<usize>().ok();
        match number.and_then(|number| number.checked_sub(1)) {
            Some(at) if at < self.lines => RawSource::Line(at),
            _ => unknown(written),
        }
    }

    /// Returns the text without the handles that the model wrote in it, and the sources to which
    /// they refer.
    pub(super) fn cited(&self, text: &str) -> (String, Vec<RawSource>) {
        let mut named = Vec::new();
        let rest = CITED.replace_all(text, |found: &Captures<'_>| {
            if let Some(handles) = found.get(1).or(found.get(2)) {
                self.collect_text(&handles.as_str().replace("and", " "), &mut named);
            }
            found.get(3).map_or("", |end| end.as_str()).to_owned()
        });
        (rest.trim().to_owned(), named)
    }
}

/// Line numbers in a range. Returns `None` if `word` is not a range, or if the range is longer than `RANGE_MAX`.
fn range(word: &str) -> Option<RangeInclusive<usize>> {
    let found = RANGE.captures(word)?;
    let (from, to): (usize, usize) = (found[1].parse().ok()?, found[2].parse().ok()?);
    (from <= to && to - from < RANGE_MAX).then_some(from..=to)
}

fn unknown(written: &str) -> RawSource {
    RawSource::Unknown(written.chars().take(UNKNOWN_CHARS_MAX).collect())
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
