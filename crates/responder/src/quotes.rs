//! Entries of an answer: quotes with their authors and lines.

use std::collections::BTreeSet;

use chrono::NaiveDate;
use openvibe_extract::{Language, Material, Speaker, Superseded, content_words, sentences};

use crate::{
    matching::{SENTENCES_MAX, one_line},
    words::{date, filled, is_question, normal},
};

/// Maximum number of quoted replies, statements of one person, or entries from other conversations.
pub(crate) const QUOTES_MAX: usize = 5;

/// Entries under a heading.
pub(crate) struct Section {
    /// Name of the fixed text that is used as the heading.
    pub(crate) heading: Option<&'static str>,
    pub(crate) entries: Vec<Entry>,
}

/// A quoted part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Quote {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// A statement, possibly after the question that it answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entry {
    /// Quotes in the order in which they are shown; there is at least one.
    pub(crate) quotes: Vec<Quote>,
    /// Line of the question that the entry answers.
    pub(crate) asked_in: Option<usize>,
    /// Owner, if the entry is a task.
    pub(crate) owner: Option<String>,
    pub(crate) due: Option<NaiveDate>,
}

impl Entry {
    pub(crate) fn of(quotes: Vec<Quote>) -> Self {
        Self { quotes, ..Self::default() }
    }

    pub(crate) fn lines(&self) -> Vec<usize> {
        self.quotes.iter().map(|quote| quote.line).collect()
    }

    pub(crate) fn last_line(&self) -> usize {
        self.lines().into_iter().max().unwrap_or_default()
    }

    pub(crate) fn text(&self) -> String {
        let quotes: Vec<&str> = self.quotes.iter().map(|quote| quote.text.as_str()).collect();
        quotes.join(" ")
    }

    pub(crate) fn is_asking(&self) -> bool {
        self.quotes.iter().all(|quote| is_question(&quote.text))
    }

    pub(crate) fn is_outdated_by(&self, value: &Superseded) -> bool {
        is_outdated_by(&self.text(), value)
    }

    /// Renders the entry as one line; `head` expands the name of the first author.
    pub(crate) fn rendered(
        &self,
        material: &Material,
        language: Language,
        head: impl Fn(&str) -> String,
    ) -> String {
        let author = |line: usize| match &material.lines[line].speaker {
            Speaker::Person(at) => material.people[*at].name.as_str(),
            Speaker::Agent(name) => name,
        };
        let mut parts: Vec<String> = Vec::new();
        for quote in &self.quotes {
            let name = author(quote.line);
            let name = if parts.is_empty() { head(name) } else { name.to_owned() };
            let is_asked = self.owner.as_deref().is_some_and(|owner| {
                parts.is_empty() && self.quotes.iter().all(|quote| author(quote.line) != owner)
            });
            let owner = self.owner.as_deref().filter(|_| is_asked);
            let name = owner.map_or(name.clone(), |owner| {
                filled(language, "asked", &[("owner", owner), ("name", &name)])
            });
            parts.push(format!("{name}: “{}”", one_line(&quote.text)));
        }
        let due = self.due.map(|due| filled(language, "due", &[("date", &date(due, language))]));
        let due = due.map(|due| format!(" ({due})")).unwrap_or_default();
        format!("{}{due}", parts.join(" – "))
    }
}

/// Checks whether a text contains the old value but not the new one.
pub(crate) fn is_outdated_by(text: &str, value: &Superseded) -> bool {
    has_words(text, &value.old) && !has_words(text, &value.new)
}

pub(crate) fn has_words(text: &str, part: &str) -> bool {
    !normal(part).is_empty()
        && format!(" {} ", normal(text)).contains(&format!(" {} ", normal(part)))
}

/// A part of a source, with its content words.
struct Part {
    quote: Quote,
    words: BTreeSet<String>,
}

/// The parts of `lines` that a text was made of: the sentences that share the most words with it, except for agreement that only
/// repeats them.
pub(crate) fn parts_of(
    text: &str,
    lines: &[usize],
    material: &Material,
    language: Language,
    is_told: impl Fn(usize, &str) -> bool,
    is_assent: impl Fn(usize) -> bool,
) -> Vec<Quote> {
    let words =
        |text: &str| -> BTreeSet<String> { content_words(text, language).into_iter().collect() };
    let all = words(text);
    let mut lines = lines.to_vec();
    lines.sort_unstable();
    lines.dedup();
    let mut parts: Vec<Part> = Vec::new();
    for line in lines {
        let Some(said) = material.lines.get(line) else { continue };
        for sentence in sentences(&said.text).into_iter().take(SENTENCES_MAX) {
            let own = words(&sentence.text);
            let shared = own.intersection(&all).count();
            let is_mark = !sentence.text.contains(char::is_alphabetic);
            if own.is_empty()
                || is_mark
                || shared * 10 < own.len() * 6
                || !is_told(line, &sentence.text)
            {
                continue;
            }
            match parts.last_mut() {
                Some(part)
                    if part.quote.line == line
                        && is_question(&part.quote.text) == is_question(&sentence.text) =>
                {
                    part.quote.text.extend([" ", &sentence.text]);
                    part.words.extend(own);
                }
                _ => parts.push(Part { quote: Quote { line, text: sentence.text }, words: own }),
            }
        }
    }
    let repeats = |at: usize| {
        let is_repeated =
            |(other, part): (usize, &Part)| other != at && parts[at].words.is_subset(&part.words);
        is_assent(parts[at].quote.line) && parts.iter().enumerate().any(is_repeated)
    };
    let kept: Vec<bool> = (0..parts.len()).map(|at| !repeats(at)).collect();
    parts.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(part, _)| part.quote).collect()
}

/// Quotes each message once. If a later section quotes another sentence of a message, the first quote is extended to the message, and
/// the later entry is dropped.
pub(crate) fn each_once(sections: &mut [Section], message: impl Fn(usize) -> String) {
    let mut quoted: BTreeSet<usize> = BTreeSet::new();
    let mut extended: BTreeSet<usize> = BTreeSet::new();
    for section in &mut *sections {
        section.entries.retain_mut(|entry| {
            let Some(line) = entry.quotes.last().map(|quote| quote.line) else { return false };
            if quoted.contains(&line) {
                extended.insert(line);
                return false;
            }
            let mut own = BTreeSet::new();
            entry.quotes.reverse();
            entry.quotes.retain(|quote| !quoted.contains(&quote.line) && own.insert(quote.line));
            entry.quotes.reverse();
            quoted.append(&mut own);
            true
        });
    }
    let quotes = sections.iter_mut().flat_map(|section| &mut section.entries);
    for quote in quotes.flat_map(|entry| &mut entry.quotes) {
        if extended.contains(&quote.line) {
            quote.text = message(quote.line);
        }
    }
}
