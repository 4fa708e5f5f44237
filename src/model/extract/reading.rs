//! Analysis of a conversation in one pass, from the first line to the last.

use super::{
    Material, Outline, Speaker, Superseded,
    cues::{Cue, Language, READ},
    outline,
    people::People,
    sentence::{self, Sentence},
    thread::Thread,
    tokens::{self, Vocabulary},
};

/// Only the beginning of a longer message is read.
const LINE_CHARS_MAX: usize = 16_000;
const LINE_SENTENCES_MAX: usize = 300;
/// Prefix of the built-in responder's replies, which only quote people.
const BUILT_IN: &str = "I am OpenVibe's built-in responder";

/// Analysis of a conversation.
#[derive(Debug)]
pub struct Reading {
    thread: Thread,
    language: Language,
}

impl Reading {
    /// Reads every line once.
    pub fn new(material: &Material) -> Self {
        let mut vocabulary = Vocabulary::default();
        let mut rows = Vec::new();
        let (mut counts, mut words) = ([0; 5], 0);
        for (line, said) in material.lines.iter().enumerate() {
            let person = match &said.speaker {
                Speaker::Person(person) => Some(*person),
                Speaker::Agent(_) => None,
            };
            let text = beginning(&said.text);
            if person.is_none() && text.trim_start().starts_with(BUILT_IN) {
                continue;
            }
            for (n, text) in tokens::sentences(text)
                .into_iter()
                .take(LINE_SENTENCES_MAX)
                .enumerate()
            {
                let tokens = vocabulary.tokens(&text);
                if person.is_some() {
                    let (own, all) = sentence::language_counts(&tokens);
                    for (count, own) in counts.iter_mut().zip(own) {
                        *count += own;
                    }
                    words += all;
                }
                rows.push((line, person, n == 0, text, tokens));
            }
        }
        let language = sentence::whole_language(counts, words);
        let sentences: Vec<Sentence> = rows
            .into_iter()
            .map(|(line, person, is_first, text, tokens)| {
                let own = sentence::language(&tokens, language);
                let day = material.lines[line].day;
                sentence::read(line, person, is_first, text, tokens, own, day)
            })
            .collect();
        let agents = material
            .lines
            .iter()
            .enumerate()
            .filter_map(|(line, said)| match &said.speaker {
                Speaker::Agent(name) if !said.text.trim_start().starts_with(BUILT_IN) => {
                    Some((name.clone(), line))
                }
                _ => None,
            });
        let agents = agents.collect();
        Self {
            thread: Thread::new(
                sentences,
                People::new(material),
                material.lines.len(),
                agents,
            ),
            language,
        }
    }

    /// Draft of a resolution without a model.
    pub fn outline(&self) -> Outline {
        outline::outline(&self.thread, self.language)
    }

    /// Corrected values, in the order of the corrections.
    pub fn superseded(&self) -> Vec<Superseded> {
        self.thread.superseded.clone()
    }

    /// Whether a person later agreed to an agent's statement in this line.
    pub fn is_taken_up(&self, line: usize) -> bool {
        self.thread.taken_up.contains(&line)
    }

    /// Whether a text contains a decision cue in any of the four languages.
    pub fn reads_like_a_decision(text: &str) -> bool {
        let mut vocabulary = Vocabulary::default();
        tokens::sentences(beginning(text)).iter().any(|sentence| {
            let tokens = vocabulary.tokens(sentence);
            READ.into_iter().any(|language| {
                let hits = sentence::hits(&tokens, language);
                let has = |cue: Cue| hits.iter().any(|hit| hit.cue == cue);
                has(Cue::Decision) && !has(Cue::Undecided) && !has(Cue::Hedge)
            })
        })
    }

    pub(super) fn thread(&self) -> &Thread {
        &self.thread
    }
}

fn beginning(text: &str) -> &str {
    let end = text.char_indices().nth(LINE_CHARS_MAX).map(|(at, _)| at);
    &text[..end.unwrap_or(text.len())]
}
