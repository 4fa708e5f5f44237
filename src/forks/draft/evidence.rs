//! Evidence from a conversation against which a draft is checked, based on the extractor's reading.

use std::collections::BTreeSet;

use chrono::NaiveDate;
use openvibe_extract::{
    Act, Language, Material, Reading, Superseded, ValueKind, content_words, values,
};

use super::{
    field::DraftField,
    line::{AgentLines, Said, plain, said_lines},
};

/// Minimum percentage of a text's content words that its source text must contain.
const SUPPORT_PERCENT_MIN: usize = 30;
/// Minimum length of the root of a longer word. A root also matches inside other words.
const ROOT_CHARS_MIN: usize = 5;

pub(super) struct Evidence<'a> {
    pub(super) material: &'a Material,
    pub(super) language: Language,
    pub(super) lines: Vec<Said<'a>>,
    /// Name and handle of each person.
    pub(super) people: Vec<[String; 2]>,
    pub(super) superseded: Vec<&'a Superseded>,
    /// Words of texts that only state that nothing was settled.
    unsettled: BTreeSet<String>,
    /// Text of all lines and names.
    all: String,
}

impl<'a> Evidence<'a> {
    pub(super) fn new(material: &'a Material, reading: &'a Reading, agents: AgentLines) -> Self {
        let language = reading.language();
        let people = material.people.iter();
        let names = people.map(|person| [plain(&person.name), plain(&person.handle)]);
        let people: Vec<[String; 2]> = names.collect();
        let lines = said_lines(material, reading, agents, &people);
        let phrases = ["none", "none-headline", "unsettled"].map(|name| reading.phrase(name));
        let said = lines.iter().flat_map(|line| [&line.text, &line.name]);
        let said = said.chain(people.iter().map(|[name, _]| name));
        Self {
            all: said.map(String::as_str).collect(),
            unsettled: roots(&phrases.join(" "), language),
            superseded: superseded(reading),
            material,
            language,
            lines,
            people,
        }
    }

    /// Checks whether the extractor recognizes acts in the conversation's language.
    pub(super) fn is_read(&self) -> bool {
        self.language != Language::Other
    }

    /// Roots of the content words of a text.
    pub(super) fn words(&self, text: &str) -> BTreeSet<String> {
        roots(text, self.language)
    }

    pub(super) fn cited(&self, field: &DraftField) -> impl Iterator<Item = &Said<'a>> {
        field.sources.iter().map(|at| &self.lines[*at])
    }

    pub(super) fn source_text(&self, field: &DraftField) -> impl Iterator<Item = &Said<'a>> {
        let lines = self.lines.iter().enumerate();
        lines.filter_map(|(at, line)| field.is_from(at).then_some(line))
    }

    /// Checks whether enough content words of a text occur in its source text, or whether the text states that
    /// nothing was settled.
    pub(super) fn supports(&self, field: &DraftField) -> bool {
        let words = self.words(&field.text);
        if field.is_whole() && !words.is_empty() && words.is_subset(&self.unsettled) {
            return true;
        }
        let lines: Vec<&Said<'_>> = self.source_text(field).collect();
        let is_said = |word: &&String| {
            let mut texts = lines.iter().flat_map(|line| [&line.text, &line.name]);
            texts.any(|text| text.contains(*word))
        };
        let said = words.iter().filter(is_said).count();
        said > 0 && said * 100 >= words.len() * SUPPORT_PERCENT_MIN
    }

    /// Checks whether the words of a name occur anywhere in the conversation.
    pub(super) fn is_known(&self, name: &str) -> bool {
        let is_said = |word: &String| self.all.contains(word) || self.unsettled.contains(word);
        self.words(name).iter().all(is_said)
    }

    /// Checks whether `text`, which must have been converted by `plain`, contains the name, handle, or first name of a person.
    pub(super) fn is_named(&self, person: usize, text: &str) -> bool {
        let mut names = self.people.get(person).into_iter().flatten();
        names.any(|name| {
            let first = name.split_whitespace().next();
            first.is_some_and(|first| text.contains(&format!(" {first} ")))
        })
    }
}

/// The part of a content word that its other forms also contain.
fn root(word: &str) -> String {
    let count = word.chars().count();
    if word.starts_with(|c: char| c as u32 > 0x24f) {
        word.to_owned()
    } else if count > ROOT_CHARS_MIN {
        let kept = ROOT_CHARS_MIN.max(count * 2 / 3);
        word.chars().take(kept).collect()
    } else {
        format!(" {word}")
    }
}

fn roots(text: &str, language: Language) -> BTreeSet<String> {
    let words = content_words(text, language);
    words.iter().map(|word| root(word)).collect()
}

/// The corrected values, without those that were restored later.
fn superseded(reading: &Reading) -> Vec<&Superseded> {
    let all = reading.superseded();
    let is_back = |value: &Superseded| {
        all.iter().any(|later| {
            let is_same = plain(&later.new) == plain(&value.old);
            let is_passed = plain(&later.old) == plain(&value.new);
            later.line >= value.line && is_same || later.line == value.line && is_passed
        })
    };
    let is_current = |value: &&Superseded| is_correction(value, reading) && !is_back(value);
    all.iter().filter(is_current).collect()
}

/// Checks whether a message corrects the value, or decides on another value with the same unit.
fn is_correction(value: &Superseded, reading: &Reading) -> bool {
    let unit = |text: &str| {
        let values = values(text, reading.language(), NaiveDate::default()).into_iter();
        values.map(|value| (value.kind, value.unit)).next()
    };
    let (old, new) = (unit(&value.old), unit(&value.new));
    let is_plain = old
        .as_ref()
        .is_none_or(|(kind, unit)| *kind == ValueKind::Amount && unit.is_empty());
    reading.acts(value.line).contains(&Act::Correction) || old == new && !is_plain
}
