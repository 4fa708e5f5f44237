//! Finds the statements that answer a question: shared content words, with a threshold below which nothing is quoted.

use std::collections::BTreeSet;

use chrono::NaiveDate;
use openvibe_extract::{Language, ValueKind, content_words, sentences, values};

use crate::{
    intent::Intent,
    words::{normal, phrases},
};

/// A message that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    pub author: String,
    /// `None` in a direct channel.
    pub channel: Option<String>,
    pub day: NaiveDate,
    pub text: String,
    /// The hit is a reply to another hit, which is a question.
    pub replies_to: Option<usize>,
}

/// Share of the words of a question that a statement contains, in tenths.
const SHARE: usize = 6;
/// The same for a statement with a value of the kind that is asked for.
const SHARE_WITH_VALUE: usize = 4;

/// Topic of a question.
#[derive(Debug, Clone)]
pub(crate) struct Topic {
    pub(crate) words: BTreeSet<String>,
    kinds: &'static [ValueKind],
    pub(crate) language: Language,
}

impl Topic {
    pub(crate) fn new(
        intent: &Intent,
        topic: &str,
        asked_in: Language,
        language: Language,
    ) -> Self {
        let mut words = BTreeSet::new();
        for word in topic.split(' ') {
            let is_generic = phrases("generic").any(|generic| generic == word);
            if !is_generic && !content_words(word, asked_in).is_empty() {
                words.extend(content_words(word, language));
            }
        }
        let kinds: &[ValueKind] = match intent {
            Intent::When | Intent::Since(_) => &[ValueKind::Date, ValueKind::Time],
            Intent::Amount => &[ValueKind::Amount, ValueKind::Version],
            _ => &[],
        };
        Self { words, kinds, language }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Words of the topic in a text.
    pub(crate) fn shared(&self, text: &str) -> usize {
        let words: BTreeSet<String> = content_words(text, self.language).into_iter().collect();
        self.words.intersection(&words).count()
    }

    pub(crate) fn has_value(&self, text: &str, day: NaiveDate) -> bool {
        let language =
            if self.language == Language::Other { Language::English } else { self.language };
        !self.kinds.is_empty()
            && values(text, language, day).iter().any(|value| self.kinds.contains(&value.kind))
    }

    pub(crate) fn asks_for_value(&self) -> bool {
        !self.kinds.is_empty()
    }

    /// Whether a text is about the topic.
    pub(crate) fn fits(&self, text: &str, day: NaiveDate) -> bool {
        let share = if self.has_value(text, day) { SHARE_WITH_VALUE } else { SHARE };
        let needed = (self.words.len() * share).div_ceil(10);
        !self.words.is_empty() && self.shared(text) >= needed
    }

    /// Whether a text is a question about the topic.
    pub(crate) fn resembles(&self, text: &str) -> bool {
        let needed = (self.words.len() * SHARE).div_ceil(10);
        !self.words.is_empty() && self.shared(text) >= needed
    }

    /// The sentence of a text that fits best; the whole text if no sentence alone fits.
    pub(crate) fn best_sentence(&self, text: &str, day: NaiveDate) -> String {
        let all = sentences(text);
        let best =
            all.iter().filter(|sentence| !is_question(&sentence.text)).max_by_key(|sentence| {
                (self.shared(&sentence.text), self.has_value(&sentence.text, day))
            });
        best.filter(|best| self.fits(&best.text, day))
            .map_or_else(|| one_line(text), |best| one_line(&best.text))
    }
}

pub(crate) fn is_question(text: &str) -> bool {
    text.trim_end().ends_with(['?', '？'])
}

/// Longest quote in characters.
const QUOTE_CHARS_MAX: usize = 240;

/// A text as one line for a quotation.
pub(crate) fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.replace(['“', '”'], "\"");
    let mut short: String = line.chars().take(QUOTE_CHARS_MAX).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

/// Positions of hits to quote with their quotes, newest first: statements about the topic, and replies to questions
/// about it.
pub(crate) fn ranked(topic: &Topic, hits: &[Hit], most: usize) -> Vec<(usize, String)> {
    let fits = |hit: &Hit| match hit.replies_to {
        Some(question) => {
            let question = hits.get(question);
            question.is_some_and(|question| topic.resembles(&question.text))
                && !is_question(&hit.text)
        }
        None => !is_question(&hit.text) && topic.fits(&hit.text, hit.day),
    };
    let mut found: Vec<(usize, String)> = Vec::new();
    for (at, hit) in hits.iter().enumerate().filter(|(_, hit)| fits(hit)) {
        let quote = topic.best_sentence(&hit.text, hit.day);
        if !normal(&quote).is_empty() && found.iter().all(|(_, known)| *known != quote) {
            found.push((at, quote));
        }
    }
    if topic.asks_for_value()
        && found.iter().any(|(_, quote)| topic.has_value(quote, NaiveDate::default()))
    {
        found.retain(|(_, quote)| topic.has_value(quote, NaiveDate::default()));
    }
    found.sort_by(|a, b| hits[b.0].day.cmp(&hits[a.0].day).then(a.0.cmp(&b.0)));
    found.truncate(most);
    found
}
