//! Resolves names and mentions to people.

use std::collections::{HashMap, HashSet};

use crate::{
    Material, Speaker,
    lexicon::Lexicon,
    text::{Kind, Token, fold},
};

/// Person or agent that a word names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    /// A position in `Material::people`.
    Person(usize),
    /// An agent of the conversation.
    Agent,
    /// Somebody else, or one of several people with the same name.
    Someone,
}

#[derive(Debug)]
pub(crate) struct People {
    /// People by folded handle, first name, or last name; `None` if several people share it.
    by_word: HashMap<String, Option<usize>>,
    agents: HashSet<String>,
}

impl People {
    pub(crate) fn new(material: &Material) -> Self {
        let mut by_word: HashMap<String, Option<usize>> = HashMap::new();
        let mut add = |word: String, at: usize| {
            let known = by_word.entry(word).or_insert(Some(at));
            if *known != Some(at) {
                *known = None;
            }
        };
        let parts: Vec<Vec<String>> = material
            .people
            .iter()
            .map(|person| person.name.split_whitespace().map(fold).collect())
            .collect();
        for (at, parts) in parts.iter().enumerate() {
            parts.first().into_iter().for_each(|first| add(first.clone(), at));
        }
        for (at, parts) in parts.iter().enumerate() {
            parts
                .last()
                .filter(|_| parts.len() > 1)
                .into_iter()
                .for_each(|last| add(last.clone(), at));
        }
        for (at, person) in material.people.iter().enumerate() {
            let handle = fold(&person.handle);
            if !handle.is_empty() {
                by_word.insert(format!("@{handle}"), Some(at));
                by_word.entry(handle).or_insert(Some(at));
            }
        }
        by_word.remove("");
        let agents = material.lines.iter().filter_map(|line| match &line.speaker {
            Speaker::Agent(name) => Some(fold(name).replace(' ', "-")),
            Speaker::Person(_) => None,
        });
        Self { by_word, agents: agents.collect() }
    }

    /// Person or agent that a token names; `None` if it is not a name. A name that is also a function word must be capitalized.
    pub(crate) fn named(&self, token: &Token, text: &str, lexicon: &Lexicon) -> Option<Named> {
        let bare = token.word.trim_start_matches('@');
        let is_mention = token.kind == Kind::Mention;
        if self.agents.contains(bare) {
            return Some(Named::Agent);
        }
        if !is_mention && token.kind != Kind::Word {
            return None;
        }
        // The token for "Bo's" has lost its apostrophe.
        let owned =
            bare.strip_suffix('s').filter(|_| text[token.from..token.to].contains(['\'', '’']));
        let found = [Some(token.word.as_str()), Some(bare), owned].into_iter().flatten();
        let found = { found }.find_map(|word| self.by_word.get(word));
        let is_capital = text[token.from..].starts_with(char::is_uppercase);
        match found {
            Some(_) if !is_mention && lexicon.is_function(bare) && !is_capital => None,
            Some(Some(at)) => Some(Named::Person(*at)),
            Some(None) => Some(Named::Someone),
            None => is_mention.then_some(Named::Someone),
        }
    }
}
