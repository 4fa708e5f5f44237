//! Names in a question. A sentence about one name does not answer a question about another one.

use std::collections::BTreeSet;

use openvibe_extract::{
    Kind, Language, Material, Speaker, Token, ValueKind, is_function_word_of, sentences, tokens,
    values,
};

use crate::{
    matching::SENTENCES_MAX,
    words::{contains, names_of, normal},
};

/// Words before a German noun that is not a name.
const GERMAN_ENDINGS: [&str; 6] = ["e", "en", "er", "es", "em", "te"];

/// A name in a question.
#[derive(Debug)]
struct Name {
    /// The name in normal form; for a person, also the person's other names.
    forms: Vec<String>,
    /// Position of the person who has the name.
    person: Option<usize>,
    is_titled: bool,
}

/// Names in a question, and all names in the conversation.
#[derive(Debug, Default)]
pub(crate) struct Names {
    asked: Vec<Name>,
    known: BTreeSet<String>,
}

impl Names {
    pub(crate) fn of(question: &str, asked_in: Language, title: &str, material: &Material) -> Self {
        let plain = normal(title);
        let name = |word: String| {
            let people: Vec<Vec<String>> = material.people.iter().map(names_of).collect();
            let person = people.iter().position(|names| names.contains(&word));
            let is_titled = has(&plain, &word);
            let forms = person.map_or_else(|| vec![word], |at| people[at].clone());
            Name { forms, person, is_titled }
        };
        let asked: Vec<Name> = in_text(question, asked_in).into_iter().map(name).collect();
        if asked.is_empty() {
            return Self::default();
        }
        let texts = material.lines.iter().map(|line| line.text.as_str()).chain([title]);
        let known = texts.flat_map(|text| in_text(text, asked_in));
        let is_other = |word: &String| !asked.iter().any(|name| name.forms.contains(word));
        let known = known.filter(is_other).filter(|word| word.starts_with(char::is_alphabetic));
        Self { known: known.collect(), asked }
    }

    /// Checks whether a question contains names.
    pub(crate) fn are_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Checks whether a sentence is about the names in the question: it or the text before it in the same message contains them, its
    /// author has the name, or the title contains them and the sentence has no other name.
    pub(crate) fn fit(&self, sentence: &str, before: &str, author: &Speaker) -> bool {
        let (plain, before) = (normal(sentence), normal(before));
        let has_other = || self.known.iter().any(|name| has(&plain, name));
        self.asked.iter().all(|name| {
            name.person.is_some_and(|person| *author == Speaker::Person(person))
                || name.forms.iter().any(|form| has(&plain, form) || has(&before, form))
                || name.is_titled && !has_other()
        })
    }
}

/// Checks whether a text contains a name, also with an ending: "Nettle's". Both must be in normal form.
fn has(plain: &str, name: &str) -> bool {
    contains(plain, name) || contains(plain, &format!("{name}s"))
}

/// Names in a text, in normal form: capitals inside a sentence, code, numbers, mentions, and quoted words.
fn in_text(text: &str, language: Language) -> Vec<String> {
    let mut found = Vec::new();
    for sentence in sentences(text).into_iter().take(SENTENCES_MAX) {
        let text = sentence.text;
        let all = tokens(&text);
        let dates: Vec<String> = values(&text, language, chrono::NaiveDate::default())
            .into_iter()
            .filter(|value| matches!(value.kind, ValueKind::Date | ValueKind::Time))
            .map(|value| normal(&value.text))
            .collect();
        for (at, token) in all.iter().enumerate() {
            let word = normal(&text[token.from..token.to]);
            let is_date = || dates.iter().any(|date| contains(date, &word));
            if !word.is_empty() && is_name(&all, at, &text, language) && !is_date() {
                found.push(word);
            }
        }
    }
    found
}

fn is_name(all: &[Token], at: usize, text: &str, language: Language) -> bool {
    let token = &all[at];
    match token.kind {
        Kind::Number | Kind::Mention | Kind::Identifier => return true,
        Kind::Word => {}
        _ => return false,
    }
    let word = &text[token.from..token.to];
    let is_function = is_function_word_of(language, &token.word);
    if token.is_quoted || is_in_quotes(text, token) {
        return !is_function;
    }
    let letters: Vec<char> = word.chars().collect();
    let has_inner_capital = letters.iter().skip(1).any(|c| c.is_uppercase());
    let starts = at == 0 || matches!(all[at - 1].word.as_str(), "." | "!" | "?" | ":" | "¿" | "¡");
    if is_function || letters.len() < 2 || !letters[0].is_uppercase() && !has_inner_capital {
        return false;
    }
    if starts {
        return has_inner_capital && letters.len() > 2;
    }
    language != Language::German || has_inner_capital || is_german_name(&all[at - 1], text)
}

/// Checks whether a capitalized German word is a name and not any noun, which an article or an adjective precedes.
fn is_german_name(before: &Token, text: &str) -> bool {
    let word = &text[before.from..before.to];
    let is_article = GERMAN_ENDINGS.iter().any(|ending| before.word.ends_with(ending))
        || matches!(
            before.word.as_str(),
            "das"
                | "ein"
                | "kein"
                | "mein"
                | "dein"
                | "sein"
                | "unser"
                | "zum"
                | "zur"
                | "im"
                | "am"
                | "vom"
                | "beim"
                | "ins"
        );
    !is_article || word.starts_with(char::is_uppercase)
}

/// Checks whether a token stands between quotation marks.
fn is_in_quotes(text: &str, token: &Token) -> bool {
    let is_mark = |c: char| matches!(c, '"' | '“' | '”' | '„' | '«' | '»');
    text[..token.from].ends_with(is_mark) && text[token.to..].starts_with(is_mark)
}
