//! Extracts the fields of a resolution from a model's answer in any form.

use serde_json::{Map, Value};

use super::{
    clean::{clean, cut_to_units},
    source::{Handles, RawSource},
};
use crate::model::{Collected, objects};

/// Maximum size of an answer in bytes; a resolution has about 2 KiB.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of entries read per list.
const ENTRIES_MAX: usize = 30;
/// Maximum length of a text before the check.
const TEXT_UNITS_MAX: usize = 4_000;
const SHORT_UNITS_MAX: usize = 200;
/// Maximum number of objects in which the resolution can be nested.
const WRAPPED_MAX: usize = 3;

/// Fields of an answer, with each text on one line and without blank list entries. Only the structure is validated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Raw {
    pub headline: String,
    pub conclusion: String,
    pub key_points: Vec<RawItem>,
    pub action_items: Vec<RawItem>,
    pub open_questions: Vec<RawItem>,
    pub deferred_items: Vec<RawItem>,
}

/// An entry of a list. The owner and the due date are used only for action items.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawItem {
    pub text: String,
    pub owner: Option<String>,
    pub due: Option<String>,
    pub sources: Vec<RawSource>,
}

/// An answer without a usable resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnparsableDraft {
    #[error("the answer is larger than {ANSWER_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the answer is a web page")]
    WebPage,
    #[error("the end of the answer is missing")]
    Incomplete,
    #[error("the answer contains no object with the fields of a resolution")]
    NoObject,
    #[error("the fields of the answer are empty")]
    Blank,
    #[error("the model refused")]
    Refused,
    #[error("the conversation does not support the headline, the conclusion, or any entry")]
    Unsupported,
}

/// Accepted names of each field, reduced to letters and digits.
const HEADLINE: &str = "headline title heading";
const CONCLUSION: &str = "conclusion summary outcome decision result";
const KEY_POINTS: &str = "keypoints points keyfindings findings highlights";
const ACTION_ITEMS: &str = "actionitems actions tasks todos nextsteps";
const OPEN_QUESTIONS: &str = "openquestions questions unresolvedquestions open";
const DEFERRED_ITEMS: &str = "deferreditems deferred postponed parked later";
const TEXT: &str = "text point task action question item description content title summary";
const OWNER: &str =
    "owner assignee ownername ownerhandle assignedto responsible who ownerid assigneename";
const NAME: &str = "handle name displayname id";
const DUE: &str = "due duedate deadline dueon dueby date";
const SOURCES: &str =
    "sources source messageids messages sourceids references refs citations evidence";

/// Parses an answer. `ids` are the IDs of all lines in order, because models can cite messages by
/// ID too.
///
/// # Errors
/// `UnparsableDraft` if its end is missing, or if it contains no object with content.
pub fn parse_answer(answer: &Collected, ids: &[String]) -> Result<Raw, UnparsableDraft> {
    if answer.is_incomplete() {
        return Err(UnparsableDraft::Incomplete);
    }
    parse(&answer.text, ids)
}

/// Parses the text of a complete answer.
pub(super) fn parse(answer: &str, ids: &[String]) -> Result<Raw, UnparsableDraft> {
    if answer.len() > ANSWER_BYTES_MAX {
        return Err(UnparsableDraft::TooLarge);
    }
    let start: String = answer.trim_start().chars().take(16).collect();
    let start = start.to_lowercase();
    if start.starts_with("<!doctype") || start.starts_with("<html") {
        return Err(UnparsableDraft::WebPage);
    }
    let said = without_thoughts(answer);
    let fields = resolution_in(said)
        .or_else(|| resolution_in(answer).filter(|_| said.len() < answer.len()))
        .ok_or_else(|| {
            if is_refusal(answer) {
                UnparsableDraft::Refused
            } else {
                UnparsableDraft::NoObject
            }
        })?;
    let raw = read(&fields, &Handles::new(ids));
    if raw.key_points.is_empty() && raw.action_items.is_empty() {
        if is_refusal(&raw.headline) || is_refusal(&raw.conclusion) {
            return Err(UnparsableDraft::Refused);
        }
        let is_silent = raw.open_questions.is_empty() && raw.deferred_items.is_empty();
        if raw.conclusion.is_empty() && is_silent {
            return Err(UnparsableDraft::Blank);
        }
    }
    Ok(raw)
}

/// The answer after the model's reasoning, if it includes any.
fn without_thoughts(answer: &str) -> &str {
    let ends = "</think> </thinking> </thought> </reasoning> <|message|>".split(' ');
    let ends = ends.filter_map(|end| Some(answer.rfind(end)? + end.len()));
    ends.max().map_or(answer, |at| &answer[at..])
}

/// The object with the most fields of a resolution. If several objects have the same number, the last one is returned, because models
/// correct themselves.
fn resolution_in(text: &str) -> Option<Map<String, Value>> {
    let mut candidates: Vec<Value> = objects(text);
    // Some servers return the object as a string.
    if let Ok(Value::String(inner)) = serde_json::from_str(text.trim()) {
        candidates.extend(objects(&inner));
    }
    let candidates = candidates.into_iter();
    let found = candidates.flat_map(|candidate| nested(candidate, 0));
    let best = found.max_by_key(known_fields)?;
    (known_fields(&best) > 0).then_some(best)
}

/// An object and the objects nested in it, including those in strings. Inner objects come before outer ones.
fn nested(value: Value, depth: usize) -> Vec<Map<String, Value>> {
    let (fields, depth) = match value {
        Value::Object(fields) => (fields, depth),
        Value::String(text) if text.trim_start().starts_with('{') => {
            let fields = serde_json::from_str(&text);
            (fields.unwrap_or_default(), WRAPPED_MAX)
        }
        _ => return Vec::new(),
    };
    let mut found = Vec::new();
    if depth < WRAPPED_MAX {
        let inner = fields.values().cloned();
        found.extend(inner.flat_map(|value| nested(value, depth + 1)));
    }
    found.push(fields);
    found
}

/// Number of fields of a resolution; 0 if the object has only a headline or deferred items, because many other objects have a
/// headline.
fn known_fields(fields: &Map<String, Value>) -> usize {
    let count = |names: &[&str]| {
        let known = names.iter().filter(|names| find(fields, names).is_some());
        known.count()
    };
    match count(&[CONCLUSION, KEY_POINTS, ACTION_ITEMS, OPEN_QUESTIONS]) {
        0 => 0,
        needed => needed + count(&[HEADLINE, DEFERRED_ITEMS]),
    }
}

/// Value of the first of these names that has a value other than `null`. Keys are compared by their letters and digits, ignoring
/// case.
fn find<'a>(fields: &'a Map<String, Value>, names: &str) -> Option<&'a Value> {
    let is = |key: &str, name: &str| {
        let letters = key.chars().filter(|c| c.is_alphanumeric());
        letters.flat_map(char::to_lowercase).eq(name.chars())
    };
    names.split(' ').find_map(|name| {
        let named = fields.iter().filter(|(key, _)| is(key, name));
        let mut values = named.map(|(_, value)| value);
        values.find(|value| !value.is_null())
    })
}

fn read(fields: &Map<String, Value>, handles: &Handles<'_>) -> Raw {
    let text = |names| {
        let text = find(fields, names).map(said).unwrap_or_default();
        handles.cited(&shortened(&text)).0
    };
    let list = |names| -> Vec<RawItem> {
        let entries = entries(find(fields, names)).into_iter();
        entries.filter_map(|entry| item(&entry, handles)).collect()
    };
    Raw {
        headline: text(HEADLINE),
        conclusion: text(CONCLUSION),
        key_points: list(KEY_POINTS),
        action_items: list(ACTION_ITEMS),
        open_questions: list(OPEN_QUESTIONS),
        deferred_items: list(DEFERRED_ITEMS),
    }
}

/// Returns the entries of `value`: the elements of an array, the lines of a string, or a single object as one entry.
fn entries(value: Option<&Value>) -> Vec<Value> {
    let mut entries = match value {
        Some(Value::Array(values)) => values.clone(),
        Some(Value::String(text)) => text.lines().map(Value::from).collect(),
        Some(object @ Value::Object(_)) => vec![object.clone()],
        _ => Vec::new(),
    };
    entries.retain(|entry| !entry.as_str().is_some_and(|text| is_none(&clean(text))));
    entries.truncate(ENTRIES_MAX);
    entries
}

fn item(entry: &Value, handles: &Handles<'_>) -> Option<RawItem> {
    let field = |names| find(entry.as_object()?, names);
    let (text, mut cited) = handles.cited(&shortened(&said(entry)));
    let named = field(SOURCES).map(|value| handles.read(value));
    let mut sources = named.unwrap_or_default();
    cited.retain(|source| !sources.contains(source));
    sources.append(&mut cited);
    let short = |names| {
        let text = cut_to_units(&shortened(name_in(field(names)?)), SHORT_UNITS_MAX);
        (!is_none(&text)).then_some(text)
    };
    (!text.is_empty()).then(|| RawItem {
        owner: short(OWNER),
        due: short(DUE),
        text,
        sources,
    })
}

fn said(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Object(fields) => {
            let text = find(fields, TEXT).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        }
        Value::Array(values) => {
            let texts: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            texts.join(" ")
        }
        _ => String::new(),
    }
}

/// Returns the name or date in a value: the string itself, the name in the first element of an array, or the name field of an object.
fn name_in(value: &Value) -> &str {
    match value {
        Value::Array(values) => values.first().map_or("", name_in),
        Value::Object(fields) => find(fields, NAME).map_or("", name_in),
        other => other.as_str().unwrap_or_default(),
    }
}

fn shortened(text: &str) -> String {
    // Cleaning is slower than cutting, so only the beginning of a very long text is cleaned.
    let start: String = text.chars().take(TEXT_UNITS_MAX * 2).collect();
    cut_to_units(&clean(&start), TEXT_UNITS_MAX)
}

/// Placeholders for a missing value.
const NO_VALUES: &str = "|null|none|nil|n/a|na|tbd|tba|unknown|unassigned|undefined|nobody|no one|not specified|unspecified|?|keine|keiner|niemand|ninguno|ninguna|nadie|aucun|aucune|personne";

/// Checks whether a text is a placeholder for a missing value.
fn is_none(text: &str) -> bool {
    let bare = text
        .trim()
        .trim_matches(['(', ')', '[', ']', '.', '-', '—', '–', '"']);
    NO_VALUES.split('|').any(|none| none == bare.to_lowercase())
}

fn is_refusal(text: &str) -> bool {
    const STARTS: &str = "i cannot|i can't|i am unable|i'm unable|i am sorry|i'm sorry|i won't|sorry, |as an ai|as a language model|i must decline|unfortunately, i can";
    let lower = text.trim_start().to_lowercase().replace('’', "'");
    STARTS.split('|').any(|start| lower.starts_with(start))
}
