//! Finds the statements that answer a question by the content words that they share with it. Below a threshold, nothing is quoted.

use std::collections::BTreeSet;

use chrono::NaiveDate;
use openvibe_extract::{Language, ValueKind, content_words, sentences, values};

use crate::{
    forms::basic,
    intent::Intent,
    words::{contains, is_question, normal, phrases},
};

/// Minimum share of the words of a question that a statement and its context must contain, in tenths.
const SHARE: usize = 6;
/// Minimum share for a statement with a value of the requested kind, in tenths.
const SHARE_WITH_VALUE: usize = 5;

/// Maximum number of sentences read from a message.
pub(crate) const SENTENCES_MAX: usize = 40;

/// Topic of a question in a conversation.
#[derive(Debug, Clone)]
pub(crate) struct Topic {
    pub(crate) words: BTreeSet<String>,
    /// Words of the topic that are in the conversation's title. Every statement counts as containing them.
    titled: BTreeSet<String>,
    sought: Sought,
    /// True if the question asks for a price.
    is_price: bool,
    language: Language,
}

/// Required content of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sought {
    Anything,
    /// A value of one of these kinds.
    Values(&'static [ValueKind]),
    /// A cause: "because …".
    Cause,
}

impl Topic {
    /// `language` is the language of the conversation.
    pub(crate) fn new(
        intent: &Intent,
        topic: &str,
        asked_in: Language,
        (title, language): (&str, Language),
    ) -> Self {
        let mut words = BTreeSet::new();
        let is_kind =
            |word: &str| *intent == Intent::Amount && phrases("price").any(|price| price == word);
        for word in topic.split(' ') {
            let is_generic = phrases("generic").any(|generic| generic == word) || is_kind(word);
            if !is_generic && !content_words(word, asked_in).is_empty() {
                words.extend(words_of(word, language));
            }
        }
        let sought = match intent {
            Intent::When | Intent::Since(_) => Sought::Values(&[ValueKind::Date, ValueKind::Time]),
            Intent::Amount => Sought::Values(&[ValueKind::Amount]),
            Intent::Version => Sought::Values(&[ValueKind::Version]),
            Intent::Why => Sought::Cause,
            _ => Sought::Anything,
        };
        let is_price = topic.split(' ').any(is_kind);
        let mut topic = Self { words, titled: BTreeSet::new(), sought, is_price, language };
        topic.titled = topic.in_text(title);
        topic
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Checks whether the title contains every word of the topic.
    pub(crate) fn is_titled(&self) -> bool {
        self.titled.len() == self.words.len()
    }

    /// Words of the topic in a text.
    pub(crate) fn in_text(&self, text: &str) -> BTreeSet<String> {
        let found = words_of(text, self.language).into_iter();
        found.filter(|word| self.words.contains(word)).collect()
    }

    /// Number of words of the topic in a text.
    pub(crate) fn shared(&self, text: &str) -> usize {
        self.in_text(text).len()
    }

    /// Number of topic words in a text, its context, and the title. Returns zero if the text itself contains none.
    pub(crate) fn covered(&self, text: &str, context: &BTreeSet<String>) -> usize {
        let own = self.in_text(text);
        if own.is_empty() {
            return 0;
        }
        own.union(context).chain(&self.titled).collect::<BTreeSet<_>>().len()
    }

    /// Checks whether a text contains what the question asks for.
    pub(crate) fn has_value(&self, text: &str, day: NaiveDate) -> bool {
        match self.sought {
            Sought::Anything => false,
            Sought::Values(_) => !self.units(text, day).is_empty(),
            Sought::Cause => {
                let plain = normal(text);
                phrases("because").any(|phrase| contains(&plain, phrase))
            }
        }
    }

    /// Kinds and units of the values in a text that are of a requested kind.
    pub(crate) fn units(&self, text: &str, day: NaiveDate) -> BTreeSet<(ValueKind, String)> {
        let Sought::Values(kinds) = self.sought else { return BTreeSet::new() };
        let language =
            if self.language == Language::Other { Language::English } else { self.language };
        let values = values(text, language, day).into_iter();
        let is_money = |text: &str| {
            let text = text.to_lowercase();
            let plain = normal(&text);
            text.contains(['€', '$', '£']) || phrases("money").any(|unit| contains(&plain, unit))
        };
        let asked = values.filter(|value| {
            kinds.contains(&value.kind)
                && (!self.is_price || is_money(&value.text) || is_money(&value.unit))
        });
        asked.map(|value| (value.kind, value.unit)).collect()
    }

    pub(crate) fn asks_for_value(&self) -> bool {
        matches!(self.sought, Sought::Values(_))
    }

    pub(crate) fn is_price(&self) -> bool {
        self.is_price
    }

    /// The option of a question that names the topic and then its value: "the old school (750 EUR)".
    pub(crate) fn option(&self, question: &str, day: NaiveDate) -> Option<String> {
        if self.sought != Sought::Values(&[ValueKind::Amount]) {
            return None;
        }
        let mut options = vec![question.to_owned()];
        for border in phrases("or").map(|or| format!(" {or} ")).chain([", ".to_owned()]) {
            let parts = options.iter().flat_map(|option| option.split(&border));
            options = parts.map(str::to_owned).collect();
        }
        let is_told = |option: &&String| {
            let first = option.find(|c: char| c.is_ascii_digit()).unwrap_or(0);
            self.shared(&option[..first]) > 0 && self.has_value(option, day)
        };
        let best = options.iter().filter(is_told).max_by_key(|option| self.shared(option))?;
        // "Venue: the barn (400 EUR)" is about the barn.
        let text = best.rsplit_once(": ").map_or(best.as_str(), |(_, option)| option);
        Some(text.trim().trim_end_matches(['?', '？', ' ']).to_owned())
    }

    /// Checks whether a text is about the topic: the text and its context must contain most of the topic words that are not in the
    /// title.
    pub(crate) fn fits(&self, text: &str, context: &BTreeSet<String>, day: NaiveDate) -> bool {
        let covered = self.covered(text, context);
        let untitled = self.words.len() - self.titled.len();
        let needed = |share: usize| (self.titled.len() + (untitled * share).div_ceil(10)).max(1);
        covered >= needed(SHARE) || covered >= needed(SHARE_WITH_VALUE) && self.has_value(text, day)
    }

    /// The sentence of a text that matches best, excluding questions. `None` if the text consists only of questions.
    pub(crate) fn best_statement(&self, text: &str, day: NaiveDate) -> Option<String> {
        let all = sentences(text).into_iter().take(SENTENCES_MAX).map(|sentence| sentence.text);
        let best = all
            .filter(|sentence| !is_question(sentence))
            .max_by_key(|sentence| (self.shared(sentence), self.has_value(sentence, day)))?;
        let is_better = self.shared(&best) > 0 || self.has_value(&best, day);
        Some(if is_better || text.contains('?') { best } else { text.to_owned() })
    }
}

/// Stems of the content words in a text, with the basic forms of irregular words.
fn words_of(text: &str, language: Language) -> Vec<String> {
    let mut words = content_words(text, language);
    // A question has "auth-2" as two words.
    let parts = words.iter().filter(|word| word.contains('-')).flat_map(|word| word.split('-'));
    let parts: Vec<String> = parts.map(str::to_owned).collect();
    words.extend(parts);
    words.into_iter().map(|word| basic(language, &word).unwrap_or(word)).collect()
}

/// Maximum length of a quote in characters.
const QUOTE_CHARS_MAX: usize = 240;

/// Converts a text to one line of a quotation that is displayed as typed: mentions and Markdown in it have no effect. A long text is
/// cut.
pub(crate) fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.replace(['“', '”'], "\"");
    let mut short: String = line.chars().take(QUOTE_CHARS_MAX).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    let mut plain = String::new();
    for c in short.chars() {
        if matches!(c, '\\' | '`' | '*' | '[' | '<' | '@' | '~') {
            plain.push('\\');
        }
        plain.push(c);
    }
    plain
}
