//! Detects delegations that a reply announces but does not make, such as "I'll ask Coder." The phrases are listed in
//! `seeds/delegation-cues.yaml`.

use std::{collections::HashMap, sync::LazyLock};

use openvibe_extract::plain_sentences;

use crate::chat::search::folded;

const SEED: &str = include_str!("../../seeds/delegation-cues.yaml");
/// Placeholder for the agent in a phrase.
const NAME: &str = "NAME";
const GAP: &str = "*";
/// Maximum number of words in a gap.
const GAP_WORDS_MAX: usize = 3;
/// Words that can precede a name.
const ARTICLES: &[&str] = &[
    "the", "our", "den", "die", "der", "das", "el", "la", "le", "l",
];
const QUOTES: &[(char, char)] = &[
    ('`', '`'),
    ('"', '"'),
    ('“', '”'),
    ('„', '“'),
    ('«', '»'),
    ('»', '«'),
];

#[derive(serde::Deserialize)]
struct Seed {
    open: Vec<String>,
    open_before: Vec<String>,
    cues: Vec<String>,
}

/// Phrases of a language.
struct Cues {
    open: Vec<String>,
    open_before: Vec<String>,
    phrases: Vec<Vec<String>>,
}

static CUES: LazyLock<Vec<Cues>> = LazyLock::new(|| {
    read(SEED).unwrap_or_else(|e| {
        tracing::error!(
            error = %e,
            "seeds/delegation-cues.yaml is invalid; no announcement is recognized"
        );
        Vec::new()
    })
});

fn read(text: &str) -> Result<Vec<Cues>, serde_yaml_ng::Error> {
    let seed: HashMap<String, Seed> = serde_yaml_ng::from_str(text)?;
    let cues = seed.into_values().map(|seed| Cues {
        open: seed.open.iter().map(|word| folded(word)).collect(),
        open_before: seed.open_before.iter().map(|word| folded(word)).collect(),
        phrases: seed.cues.iter().map(|cue| phrase(cue)).collect(),
    });
    Ok(cues.collect())
}

fn phrase(cue: &str) -> Vec<String> {
    let token = |token: &str| match token {
        NAME | GAP => token.to_owned(),
        word => folded(word),
    };
    cue.split_whitespace().map(token).collect()
}

/// Returns the index in `agents` of the first agent to which a reply announces a delegation. `agents` contains the handle and the
/// display name of each agent.
pub fn announced(text: &str, agents: &[(&str, &str)]) -> Option<usize> {
    let names: Vec<[Vec<String>; 2]> = agents
        .iter()
        .map(|(handle, name)| [words(handle), words(name)])
        .collect();
    plain_sentences(text)
        .iter()
        .filter(|sentence| !sentence.trim_end().ends_with('?'))
        .map(|sentence| words(&without_quotes(sentence)))
        .find_map(|sentence| {
            names
                .iter()
                .position(|names| names.iter().any(|name| is_announced(&sentence, name)))
        })
}

fn words(text: &str) -> Vec<String> {
    folded(text).split_whitespace().map(str::to_owned).collect()
}

/// Returns a sentence without code or quotations.
fn without_quotes(sentence: &str) -> String {
    let mut out = String::with_capacity(sentence.len());
    let mut end = None;
    for c in sentence.chars() {
        if end == Some(c) {
            end = None;
            out.push(' ');
        } else if end.is_none() {
            end = QUOTES
                .iter()
                .find(|(start, _)| *start == c)
                .map(|(_, end)| *end);
            if end.is_none() {
                out.push(c);
            }
        }
    }
    out
}

fn is_announced(sentence: &[String], name: &[String]) -> bool {
    let is_named = !name.is_empty() && sentence.windows(name.len()).any(|words| words == name);
    is_named && CUES.iter().any(|cues| cues.announce(sentence, name))
}

impl Cues {
    fn announce(&self, sentence: &[String], name: &[String]) -> bool {
        if sentence.iter().any(|word| self.open.contains(word)) {
            return false;
        }
        // No word of `open_before` may come before the phrase.
        let open = sentence
            .iter()
            .position(|word| self.open_before.contains(word));
        let end = open.map_or(sentence.len(), |open| open + 1);
        (0..end).any(|at| {
            let fits = |phrase: &Vec<String>| fits(&sentence[at..], phrase, name);
            self.phrases.iter().any(fits)
        })
    }
}

/// Checks whether these words start with a phrase.
fn fits(words: &[String], phrase: &[String], name: &[String]) -> bool {
    let Some((token, rest)) = phrase.split_first() else {
        return true;
    };
    match token.as_str() {
        GAP => (0..=GAP_WORDS_MAX.min(words.len())).any(|gap| fits(&words[gap..], rest, name)),
        NAME => {
            let words = match words.split_first() {
                Some((word, after)) if ARTICLES.contains(&word.as_str()) => after,
                _ => words,
            };
            words.starts_with(name) && fits(&words[name.len()..], rest, name)
        }
        token => match words.split_first() {
            Some((word, after)) => word == token && fits(after, rest, name),
            None => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Corpus {
        announced: Vec<String>,
        others: Vec<String>,
    }

    fn corpus() -> Corpus {
        let text = include_str!("../../tests/corpus/announcements.json");
        serde_json::from_str(text).expect("the corpus is valid")
    }

    fn found(text: &str) -> Option<usize> {
        let agents = [
            ("vibe", "Vibe"),
            ("coder", "Coder"),
            ("qa-bot", "Release Tester"),
        ];
        announced(text, &agents)
    }

    #[test]
    fn all_phrases_are_read_and_name_an_agent() {
        let cues = read(SEED).unwrap();
        assert_eq!(cues.len(), 4);
        for phrase in cues.iter().flat_map(|cues| &cues.phrases) {
            assert_eq!(
                phrase.iter().filter(|token| *token == NAME).count(),
                1,
                "{phrase:?}"
            );
        }
    }

    #[test]
    fn announcements_in_four_languages_are_recognized() {
        for text in corpus().announced {
            assert_eq!(found(&text), Some(1), "{text}");
        }
        assert_eq!(found("I'll ask Release Tester."), Some(2));
        assert_eq!(found("I'll ask qa-bot."), Some(2));
    }

    #[test]
    fn offers_reports_and_quotes_are_no_announcements() {
        for text in corpus().others {
            assert_eq!(found(&text), None, "{text}");
        }
    }
}
