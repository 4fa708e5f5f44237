//! Statements quoted from a conversation, for the built-in responder.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Owner, Reading,
    lexicon::{Language, all_stem, is_any_function, lexicon, wishes},
    outline::cut,
    text::{self, is_unspaced, tokens},
    units::{Act, Unit},
};

/// Longer sentences are cut in quotes.
const QUOTE_WORDS_MAX: usize = 40;
/// In a longer conversation, only the end is searched for the subject of a question.
const UNITS_MAX: usize = 1_000;

/// A statement and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    pub line: usize,
    pub text: String,
}

/// A task that a person took on or was asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    pub owner: String,
    pub quote: Quote,
    /// Whether the owner wrote the quoted line.
    pub is_own_word: bool,
}

/// Kind of information that a question asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    Summary,
    Decisions,
    OpenQuestions,
    Promises,
    /// An earlier statement.
    Answer,
}

/// Determined from the words alone, in any of the four languages.
pub fn wish(question: &str) -> Wish {
    wishes(question).into_iter().min().unwrap_or(Wish::Answer)
}

/// Content words of a text whose language is not known: without the function words of all four languages, with all
/// their endings removed. Use [`crate::content_words`] if the language is known.
pub fn keywords(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for token in tokens(text).iter().filter(|token| token.is_text()) {
        let word = token.word.trim_start_matches('@');
        if word.chars().any(is_unspaced) {
            let chars: Vec<char> = word.chars().collect();
            words.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
        } else if !is_any_function(word)
            && (word.len() > 1 || word.starts_with(|c: char| c.is_ascii_digit()))
        {
            words.insert(all_stem(word).to_owned());
        }
    }
    words
}

/// Whether a text says that something is decided.
pub fn reads_like_a_decision(text: &str) -> bool {
    let material = crate::Material {
        people: Vec::new(),
        lines: vec![crate::Line {
            speaker: crate::Speaker::Person(0),
            text: text.to_owned(),
            files: Vec::new(),
            day: chrono::NaiveDate::default(),
        }],
    };
    let reading = Reading::new(&material);
    let mut units = reading.thread.units.iter();
    units.any(|unit| unit.is(Act::Decision) && !unit.is(Act::Hedge) && !unit.is(Act::Unsure))
}

impl Reading {
    pub fn is_empty(&self) -> bool {
        self.thread.units.is_empty()
    }

    /// A fixed phrase of the data files in the language of the conversation.
    pub fn phrase(&self, name: &str) -> &'static str {
        let known = lexicon(self.language).template(name);
        if known.is_empty() { lexicon(Language::English).template(name) } else { known }
    }

    /// Results, oldest first.
    pub fn decisions(&self) -> Vec<Quote> {
        let quote = |point: crate::Point| Quote {
            line: point.sources.last().copied().unwrap_or_default(),
            text: cut(&point.text, QUOTE_WORDS_MAX, usize::MAX),
        };
        let mut quotes: Vec<Quote> = self.maker().decisions().into_iter().map(quote).collect();
        quotes.sort_by_key(|quote| quote.line);
        quotes
    }

    /// People's unanswered questions.
    pub fn open_questions(&self) -> Vec<Quote> {
        let points = self.maker().questions();
        let first = |point: crate::Point| Quote { line: point.sources[0], text: point.text };
        points.into_iter().map(first).collect()
    }

    /// Tasks that people took on or were asked to do.
    pub fn promises(&self) -> Vec<Promise> {
        let mut found: Vec<Promise> = Vec::new();
        for item in self.maker().items() {
            let (person, owner) = match item.owner {
                Some(Owner::Person(at)) => {
                    (Some(at), self.names.get(at).cloned().unwrap_or_default())
                }
                Some(Owner::Named(name)) => (None, name),
                None => continue,
            };
            let own = item.sources.iter().rev().find(|line| {
                person.is_some()
                    && self.units(**line).next().is_some_and(|unit| unit.person == person)
            });
            let line = own.or(item.sources.first()).copied().unwrap_or_default();
            let quote = Quote { line, text: item.text };
            found.push(Promise { owner, quote, is_own_word: own.is_some() });
        }
        found.sort_by_key(|promise| promise.quote.line);
        found
    }

    /// The last sentences that can be quoted, with their words. What addresses an agent or a machine cannot.
    fn searched(&self) -> Vec<(usize, &Unit, BTreeSet<String>)> {
        let units = &self.thread.units;
        let first = units.len().saturating_sub(UNITS_MAX);
        let last = units.iter().enumerate().skip(first);
        last.filter(|(_, unit)| !unit.is(Act::Machine) && !unit.addresses_agent())
            .map(|(at, unit)| (at, unit, keywords(&unit.render(0, unit.tokens.len()))))
            .collect()
    }

    /// Returns at most `most` sentences about `question`, in chronological order and with corrected values. A name in
    /// the question limits the results to that person.
    pub fn relevant(&self, question: &str, most: usize) -> Vec<Quote> {
        let asked = keywords(question);
        let named: Vec<usize> = (0..self.names.len())
            .filter(|person| keywords(&self.names[*person]).iter().any(|word| asked.contains(word)))
            .collect();
        let names: BTreeSet<String> =
            named.iter().flat_map(|person| keywords(&self.names[*person])).collect();
        let topic: BTreeSet<&String> = asked.difference(&names).collect();
        let searched = self.searched();
        let counts = word_counts(&searched);
        let is_by_named = |unit: &Unit, words: &BTreeSet<String>| {
            named.is_empty()
                || unit.person.is_some_and(|person| named.contains(&person))
                || names.iter().any(|name| words.contains(name))
        };
        let scored = searched
            .iter()
            .filter(|(_, unit, words)| is_by_named(unit, words))
            .map(|(at, unit, words)| {
                let found = words.iter().filter(|word| topic.contains(word));
                let rarity: f64 = found.map(|word| 1.0 / counts[word].sqrt()).sum();
                (rarity * if unit.is(Act::Question) { 0.4 } else { 1.0 }, *at)
            })
            .filter(|(score, _)| *score > 0.0 || (topic.is_empty() && !named.is_empty()));
        self.best(scored.collect(), most)
    }

    /// Returns at most `most` statements of people with the most frequent words, in chronological order.
    pub fn main_points(&self, most: usize) -> Vec<Quote> {
        let searched = self.searched();
        let counts = word_counts(&searched);
        let scored = searched
            .iter()
            .filter(|(_, unit, words)| {
                !unit.is(Act::Question)
                    && !unit.is(Act::Correction)
                    && !unit.is_idle()
                    && unit.person.is_some()
                    && words.len() > 1
            })
            .map(|(at, _, words)| {
                let repeated: f64 = words.iter().map(|word| counts[word] - 1.0).sum();
                let length = f64::from(u32::try_from(words.len()).unwrap_or(u32::MAX));
                (repeated / length.sqrt() + length.min(12.0) / 12.0, *at)
            });
        self.best(scored.collect(), most)
    }

    /// Sentences with the highest scores; later ones win ties.
    fn best(&self, mut scored: Vec<(f64, usize)>, most: usize) -> Vec<Quote> {
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        scored.truncate(most);
        scored.sort_by_key(|(_, at)| *at);
        let quote = |(_, at): (f64, usize)| {
            let unit = &self.thread.units[at];
            let text = unit.render(0, unit.tokens.len());
            Quote { line: unit.line, text: cut(&text, QUOTE_WORDS_MAX, usize::MAX) }
        };
        scored.into_iter().map(quote).collect()
    }
}

/// Number of sentences that contain each word.
fn word_counts<'a>(searched: &'a [(usize, &Unit, BTreeSet<String>)]) -> BTreeMap<&'a String, f64> {
    let mut counts = BTreeMap::new();
    for word in searched.iter().flat_map(|(_, _, words)| words) {
        *counts.entry(word).or_default() += 1.0;
    }
    counts
}

/// The sentences of a text alone.
pub fn plain_sentences(text: &str) -> Vec<String> {
    text::sentences(text).into_iter().map(|sentence| sentence.text).collect()
}
