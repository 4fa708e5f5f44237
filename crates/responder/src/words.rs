//! Phrases and fixed texts, read from `seeds/builtin/`.

use std::{collections::HashMap, sync::LazyLock};

use chrono::NaiveDate;
use openvibe_extract::{LANGUAGES, Language, Person, content_words, is_function_word_of, tokens};

const FILES: [&str; 4] = [
    include_str!("../../../seeds/builtin/en.txt"),
    include_str!("../../../seeds/builtin/de.txt"),
    include_str!("../../../seeds/builtin/fr.txt"),
    include_str!("../../../seeds/builtin/es.txt"),
];

static WORDS: LazyLock<[Words; 4]> = LazyLock::new(|| FILES.map(Words::read));

/// Prefix of the names of sections with questions about the product, and of the texts that answer them.
const HELP: &str = "help ";

/// Words of a question about the product, in any order.
struct HelpRow {
    topic: &'static str,
    words: Vec<Alternatives>,
}

/// Words of which one must occur, unless they are optional.
struct Alternatives {
    words: Vec<Pattern>,
    is_optional: bool,
}

impl Alternatives {
    fn read(text: &str) -> Self {
        let optional = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        Self {
            words: optional.unwrap_or(text).split('|').map(Pattern::read).collect(),
            is_optional: optional.is_some(),
        }
    }

    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|one| one.fits(word))
    }
}

/// A word, or the beginning of one.
struct Pattern {
    word: String,
    is_beginning: bool,
}

impl Pattern {
    fn read(text: &str) -> Self {
        Self { word: normal(text), is_beginning: text.ends_with('*') }
    }

    fn fits(&self, word: &str) -> bool {
        if self.is_beginning { word.starts_with(&self.word) } else { word == self.word }
    }
}

/// The phrases and texts of a language.
pub(crate) struct Words {
    phrases: HashMap<&'static str, Vec<String>>,
    help: Vec<HelpRow>,
    texts: HashMap<&'static str, &'static str>,
}

impl Words {
    fn read(file: &'static str) -> Self {
        let (mut phrases, mut texts) = (HashMap::<_, Vec<String>>::new(), HashMap::new());
        let mut help = Vec::new();
        let mut section = "";
        for line in file.lines().map(str::trim) {
            if line.is_empty() || line.starts_with("//") {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name;
            } else if section == "texts" {
                if let Some((name, text)) = line.split_once(" = ") {
                    texts.insert(name, text);
                }
            } else if let Some(topic) = section.strip_prefix(HELP) {
                let words = line.split_whitespace().map(Alternatives::read).collect();
                help.push(HelpRow { topic, words });
            } else {
                phrases.entry(section).or_default().push(normal(line));
            }
        }
        // Longest phrases first, because they match best.
        for list in phrases.values_mut() {
            list.sort_by_key(|phrase| std::cmp::Reverse(phrase.len()));
        }
        Self { phrases, help, texts }
    }
}

/// The phrases of a section in all languages.
pub(crate) fn phrases(section: &str) -> impl Iterator<Item = &'static str> {
    let lists = WORDS.iter().filter_map(move |words| words.phrases.get(section));
    lists.flatten().map(String::as_str)
}

/// Language of a question: the one with the most function words, or else the one whose phrases in the question have the greatest
/// total length. `None` if there is no such language.
pub(crate) fn language_of(question: &str) -> Option<Language> {
    let words = tokens(question);
    let functions = |language: Language| {
        words.iter().filter(|token| is_function_word_of(language, &token.word)).count()
    };
    let plain = normal(question);
    let length = |words: &Words| -> usize {
        let lists =
            words.phrases.iter().filter(|(section, _)| !matches!(**section, "thanks" | "generic"));
        let found = lists.flat_map(|(_, list)| list).filter(|phrase| contains(&plain, phrase));
        found.map(String::len).sum()
    };
    most(LANGUAGES.map(functions)).or_else(|| most(WORDS.each_ref().map(length)))
}

/// The language with the greatest count, if there is only one.
fn most(counts: [usize; 4]) -> Option<Language> {
    let most = counts.into_iter().max().filter(|most| *most > 0)?;
    let mut best = LANGUAGES.into_iter().zip(counts).filter(|(_, count)| *count == most);
    let (language, _) = best.next()?;
    best.next().is_none().then_some(language)
}

/// Topic of a question about the product: it contains the words of a topic and no other content words.
pub(crate) fn help_topic(question: &str) -> Option<&'static str> {
    let plain = normal(question);
    WORDS.iter().zip(LANGUAGES).find_map(|(known, language)| {
        let asks = known.phrases.get("how").into_iter().flatten();
        let rest = { asks }.find_map(|phrase| after(&plain, phrase))?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let is_filler = |word: &str| {
            content_words(word, language).is_empty()
                || known.phrases.get("how words").is_some_and(|all| all.iter().any(|w| w == word))
        };
        let fits = |row: &&HelpRow| {
            let occurs =
                |all: &Alternatives| all.is_optional || words.iter().any(|word| all.has(word));
            let is_known = |word: &str| row.words.iter().any(|all| all.has(word));
            row.words.iter().all(occurs)
                && words.iter().all(|word| is_filler(word) || is_known(word))
        };
        known.help.iter().find(fits).map(|row| row.topic)
    })
}

/// A fixed text in a language; English for a language without texts.
pub(crate) fn text(language: Language, name: &str) -> &'static str {
    let at = LANGUAGES.iter().position(|known| *known == language).unwrap_or(0);
    WORDS[at].texts.get(name).copied().unwrap_or_default()
}

/// A fixed text with values for its `{placeholders}`.
pub(crate) fn filled(language: Language, name: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::new();
    let mut rest = text(language, name);
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let (key, after) = after.split_once('}').unwrap_or((after, ""));
        let value = values.iter().find(|(known, _)| *known == key);
        filled.push_str(value.map_or("", |(_, value)| value));
        rest = after;
    }
    filled.push_str(rest);
    filled
}

pub(crate) fn date(day: NaiveDate, language: Language) -> String {
    day.format(text(language, "date")).to_string()
}

/// Checks whether `said` contains the fixed text `name` in any language.
pub fn says(name: &str, said: &str) -> bool {
    LANGUAGES.iter().any(|language| {
        let own = text(*language, name);
        !own.is_empty() && said.contains(own)
    })
}

/// Checks whether a text ends with a question mark.
pub fn is_question(text: &str) -> bool {
    text.trim_end().ends_with(['?', '？', '؟'])
}

/// Names and handle of a person in normal form.
pub(crate) fn names_of(person: &Person) -> Vec<String> {
    let name = normal(&person.name);
    let first = name.split(' ').next().unwrap_or_default().to_owned();
    let mut names = vec![name, first, normal(&person.handle)];
    names.retain(|name| !name.is_empty());
    names.dedup();
    names
}

/// Elided words, which end with an apostrophe.
const ELIDED: [&str; 9] = ["c", "d", "j", "l", "m", "n", "qu", "s", "t"];

/// Converts a text to lowercase words separated by single spaces, without punctuation or apostrophes.
pub(crate) fn normal(text: &str) -> String {
    let mut kept = String::new();
    let mut word = String::new();
    for c in text.to_lowercase().chars() {
        match c {
            '\'' | '’' if ELIDED.contains(&word.as_str()) => kept.push(' '),
            '\'' | '’' | '`' | '\u{200b}' => continue,
            c if c.is_alphanumeric() => {
                kept.push(c);
                word.push(c);
                continue;
            }
            _ => kept.push(' '),
        }
        word.clear();
    }
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the rest of `text` after `phrase`, or `None` if `text` does not begin with it. Both must be in normal form.
pub(crate) fn after<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(phrase)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(' ') }
}

/// Checks whether `text` contains `phrase` as whole words. Both must be in normal form.
pub(crate) fn contains(text: &str, phrase: &str) -> bool {
    format!(" {text} ").contains(&format!(" {phrase} "))
}

/// `text` without the first occurrence of `phrase`.
pub(crate) fn without(text: &str, phrase: &str) -> String {
    format!(" {text} ").replacen(&format!(" {phrase} "), " ", 1).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_the_same_sections_and_texts() {
        let keys = |words: &Words| {
            let topics = words.help.iter().map(|row| row.topic);
            let mut keys: Vec<&str> =
                words.phrases.keys().chain(words.texts.keys()).copied().chain(topics).collect();
            keys.sort_unstable();
            keys.dedup();
            keys
        };
        for words in &WORDS[1..] {
            assert_eq!(keys(words), keys(&WORDS[0]));
        }
    }

    #[test]
    fn texts_are_filled() {
        let filled = filled(Language::English, "read", &[("n", "50"), ("total", "{n}")]);
        assert_eq!(filled, "I read the newest 50 of {n} messages.");
    }
}
