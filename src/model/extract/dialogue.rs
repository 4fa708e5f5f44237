//! Statements quoted from a conversation, used in the built-in responder's replies.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Owner, Reading,
    cues::{Cue, LEXICON},
    outline::{open_questions, shortened_to},
    sentence::Sentence,
    tasks::TaskSort,
    thread::Standing,
    tokens::{self, is_unspaced, stem},
};

/// Longer sentences are truncated in quotes.
const QUOTE_CHARS_MAX: usize = 240;
/// In a longer conversation, only the end is searched for the subject of a question.
const SENTENCES_MAX: usize = 1_000;

/// A statement and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    pub line: usize,
    pub text: String,
}

/// A task that a person accepted or was asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// A name, or the mentioned handle.
    pub owner: String,
    pub quote: Quote,
    /// Whether the owner committed to it; otherwise, someone else asked for it.
    pub is_own_word: bool,
}

impl Reading {
    pub fn is_empty(&self) -> bool {
        self.thread().sentences.is_empty()
    }

    /// The statement that currently replaces a sentence: its last correction.
    fn latest(&self, mut at: usize) -> usize {
        let sentences = &self.thread().sentences;
        while let Some(edit) = sentences[at]
            .edits
            .iter()
            .filter(|edit| edit.sentence > at)
            .max_by_key(|edit| edit.sentence)
        {
            at = edit.sentence;
        }
        at
    }

    fn quote(&self, at: usize) -> Quote {
        let sentence = &self.thread().sentences[at];
        Quote {
            line: sentence.line,
            text: shortened_to(&sentence.current(), QUOTE_CHARS_MAX),
        }
    }

    fn quotes(&self, places: impl IntoIterator<Item = usize>) -> Vec<Quote> {
        let current: BTreeSet<usize> = places.into_iter().map(|at| self.latest(at)).collect();
        current.into_iter().map(|at| self.quote(at)).collect()
    }

    /// Decisions, and proposals that someone else agreed to.
    pub fn decisions(&self) -> Vec<Quote> {
        let accepted = self
            .thread()
            .matters
            .iter()
            .filter(|matter| matter.standing == Standing::Accepted);
        self.quotes(accepted.map(|matter| matter.sentence))
    }

    /// People's unanswered questions.
    pub fn open_questions(&self) -> Vec<Quote> {
        open_questions(self.thread())
            .into_iter()
            .map(|at| self.quote(at))
            .collect()
    }

    /// Tasks that people committed to or were asked to do.
    pub fn promises(&self) -> Vec<Promise> {
        let thread = self.thread();
        let live = thread
            .tasks
            .iter()
            .filter(|task| task.is_live && task.sort != TaskSort::WhoAsks);
        let mut found: Vec<Promise> = live
            .filter_map(|task| {
                let owner = match task.owner.as_ref()? {
                    Owner::Person(person) => thread.people.name(*person).to_owned(),
                    Owner::Named(name) => name.clone(),
                };
                let quote = self.quote(task.sentence);
                Some(Promise {
                    owner,
                    quote,
                    is_own_word: task.sort == TaskSort::Promise || task.sort == TaskSort::Offer,
                })
            })
            .collect();
        found.sort_by_key(|promise| promise.quote.line);
        found
    }

    /// The last sentences, each with its position and words.
    fn searched(&self) -> Vec<(usize, &Sentence, BTreeSet<String>)> {
        let sentences = &self.thread().sentences;
        let first = sentences.len().saturating_sub(SENTENCES_MAX);
        let last = sentences.iter().enumerate().skip(first);
        last.map(|(at, sentence)| (at, sentence, keywords(&sentence.text)))
            .collect()
    }

    /// Returns at most `most` sentences about `question`, in chronological order; a corrected sentence is replaced by
    /// its correction. A name in the question limits the results to that person.
    pub fn relevant(&self, question: &str, most: usize) -> Vec<Quote> {
        let asked = keywords(question);
        let people = &self.thread().people;
        let named: Vec<usize> = (0..people.len())
            .filter(|person| {
                keywords(people.name(*person))
                    .iter()
                    .any(|word| asked.contains(word))
            })
            .collect();
        let names: BTreeSet<String> = named
            .iter()
            .flat_map(|person| keywords(people.name(*person)))
            .collect();
        let topic: BTreeSet<&String> = asked.difference(&names).collect();
        let searched = self.searched();
        let counts = word_counts(&searched);
        let is_by_named = |sentence: &Sentence, words: &BTreeSet<String>| {
            named.is_empty()
                || sentence
                    .person
                    .is_some_and(|person| named.contains(&person))
                || names.iter().any(|name| words.contains(name))
        };
        let scored: Vec<(f64, usize)> = searched
            .iter()
            .filter(|(_, sentence, words)| is_by_named(sentence, words))
            .map(|(at, sentence, words)| {
                let rarity: f64 = words
                    .iter()
                    .filter(|word| topic.contains(word))
                    .map(|word| 1.0 / counts[word].sqrt())
                    .sum();
                (rarity * if sentence.is_question { 0.4 } else { 1.0 }, *at)
            })
            .filter(|(score, _)| *score > 0.0 || (topic.is_empty() && !named.is_empty()))
            .collect();
        self.best(scored, most)
    }

    /// Returns at most `most` statements of people with the most frequent words, in chronological order.
    pub fn main_points(&self, most: usize) -> Vec<Quote> {
        let searched = self.searched();
        let counts = word_counts(&searched);
        let scored = searched
            .iter()
            .filter(|(_, sentence, words)| {
                !sentence.is_question
                    && sentence.person.is_some()
                    && words.len() > 1
                    && !sentence.has(Cue::Retract)
            })
            .map(|(at, _, words)| {
                let repeated: f64 = words.iter().map(|word| counts[word] - 1.0).sum();
                let length = f64::from(u32::try_from(words.len()).unwrap_or(u32::MAX));
                (
                    repeated / length.sqrt().max(1.0) + length.min(12.0) / 12.0,
                    *at,
                )
            });
        self.best(scored.collect(), most)
    }

    /// Sentences with the highest scores; later ones win ties.
    fn best(&self, mut scored: Vec<(f64, usize)>, most: usize) -> Vec<Quote> {
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        self.quotes(scored.into_iter().take(most).map(|(_, at)| at))
    }
}

/// Number of sentences that contain each word.
fn word_counts<'a>(
    searched: &'a [(usize, &Sentence, BTreeSet<String>)],
) -> BTreeMap<&'a String, f64> {
    let mut counts = BTreeMap::new();
    for word in searched.iter().flat_map(|(_, _, words)| words) {
        *counts.entry(word).or_default() += 1.0;
    }
    counts
}

/// Splits prose into sentences without code, quotes, list markers, and heading markers.
pub fn sentences(text: &str) -> Vec<String> {
    let found = tokens::sentences(text);
    found
        .into_iter()
        .map(|sentence| sentence.replace('\u{1}', ""))
        .collect()
}

/// Kind of information that a question asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Summary,
    Decisions,
    OpenQuestions,
    Promises,
    /// An earlier statement.
    Answer,
}

/// Determined from the words alone.
pub fn wish(question: &str) -> Wish {
    let lower = question.to_lowercase();
    let kinds = [
        (Wish::Summary, SUMMARY_WISHES),
        (Wish::OpenQuestions, QUESTION_WISHES),
        (Wish::Promises, PROMISE_WISHES),
        (Wish::Decisions, DECISION_WISHES),
    ];
    let asked = kinds.into_iter().find(|(_, cues)| has_cue(&lower, cues));
    asked.map_or(Wish::Answer, |(wish, _)| wish)
}

/// Content words of a text: lowercase, without stop words, endings removed; character pairs for scripts without
/// spaces.
pub fn keywords(text: &str) -> BTreeSet<String> {
    let lower = text.to_lowercase();
    let mut words = BTreeSet::new();
    for word in lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        if word.chars().all(is_unspaced) {
            let chars: Vec<char> = word.chars().collect();
            words.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
        } else if !LEXICON.get(word).is_some_and(|entry| entry.is_stop)
            && (word.len() > 1 || word.as_bytes()[0].is_ascii_digit())
        {
            words.insert(stem(word));
        }
    }
    words
}

/// Whether the text contains one of the cues (separated by `|`) as whole words.
fn has_cue(lower: &str, cues: &str) -> bool {
    cues.split('|').any(|cue| {
        lower.match_indices(cue).any(|(at, _)| {
            let before = lower[..at].chars().next_back();
            let after = lower[at + cue.len()..].chars().next();
            !before.is_some_and(char::is_alphanumeric)
                && (!after.is_some_and(char::is_alphanumeric) || cue.chars().any(is_unspaced))
        })
    })
}

const SUMMARY_WISHES: &str = "\
    summary|summarise|summarize|sum up|tl;dr|tldr|recap|catch me up|what happened|what did i miss|\
    zusammenfassung|fasse|fass|zusammenfassen|resumen|resume|resumir|résumé|résume|résumer|\
    condense";
const DECISION_WISHES: &str = "\
    decision|decisions|decide|decided|agree|agreed|agreement|entschieden|entscheidung|\
    entscheidungen|beschlossen|decidido|decidimos|decisiones|decisión|acordado|acordamos|décidé|\
    décision|décisions|convenu";
const QUESTION_WISHES: &str = "\
    open question|open questions|still open|unanswered|what is open|what's open|offene fragen|\
    noch offen|offen|preguntas abiertas|pendiente|pendientes|questions ouvertes|en suspens";
const PROMISE_WISHES: &str = "\
    action item|action items|to-do|todo|todos|to do|who does|who will|next steps|tasks|aufgaben|\
    wer macht|wer übernimmt|nächste schritte|tareas|quién hace|próximos pasos|tâches|qui fait|\
    prochaines étapes";
