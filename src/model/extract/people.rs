//! Resolves names and mentions to people.

use std::collections::{HashMap, HashSet};

use super::{
    Material, Owner, Speaker,
    sentence::Sentence,
    tokens::{Kind, Token},
};

#[derive(Debug)]
pub(crate) struct People {
    /// Handles, names, and first names in lowercase; `None` if several people share one.
    by_word: HashMap<String, Option<usize>>,
    agents: HashSet<String>,
    names: Vec<String>,
}

impl People {
    pub(crate) fn new(material: &Material) -> Self {
        let mut by_word: HashMap<String, Option<usize>> = HashMap::new();
        let mut add = |word: String, at: usize| {
            if !word.is_empty() {
                by_word
                    .entry(word)
                    .and_modify(|who| {
                        if *who != Some(at) {
                            *who = None;
                        }
                    })
                    .or_insert(Some(at));
            }
        };
        for (at, person) in material.people.iter().enumerate() {
            let name = person.name.to_lowercase();
            add(
                name.split_whitespace()
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
                at,
            );
        }
        for (at, person) in material.people.iter().enumerate() {
            let parts: Vec<String> = person
                .name
                .to_lowercase()
                .split_whitespace()
                .map(str::to_owned)
                .collect();
            if let [_, .., last] = parts.as_slice() {
                add(last.clone(), at);
            }
        }
        for (at, person) in material.people.iter().enumerate() {
            by_word.insert(format!("@{}", person.handle.to_lowercase()), Some(at));
            by_word
                .entry(person.handle.to_lowercase())
                .or_insert(Some(at));
        }
        let agents = material
            .lines
            .iter()
            .filter_map(|line| match &line.speaker {
                Speaker::Agent(name) => Some(name.to_lowercase().replace(' ', "-")),
                Speaker::Person(_) => None,
            });
        Self {
            by_word,
            agents: agents.collect(),
            names: material
                .people
                .iter()
                .map(|person| person.name.clone())
                .collect(),
        }
    }

    pub(crate) fn name(&self, at: usize) -> &str {
        self.names.get(at).map_or("", String::as_str)
    }

    /// The member with this name in lowercase.
    pub(crate) fn find(&self, name: &str) -> Option<Owner> {
        self.by_word.get(name).copied().flatten().map(Owner::Person)
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn is_agent(&self, token: &Token) -> bool {
        self.agents
            .contains(token.word.text.trim_start_matches('@'))
    }

    /// The person that a token names: `None` if it is not a name; no owner if several people share the name.
    pub(crate) fn named(&self, token: &Token) -> Option<Option<Owner>> {
        if token.kind == Kind::Mention {
            if self.is_agent(token) {
                return Some(None);
            }
            let handle = token.word.text.trim_start_matches('@');
            let found = self
                .by_word
                .get(&token.word.text)
                .or_else(|| self.by_word.get(handle));
            return Some(match found {
                Some(Some(at)) => Some(Owner::Person(*at)),
                Some(None) => None,
                None => Some(Owner::Named(handle.to_owned())),
            });
        }
        if token.kind != Kind::Word {
            return None;
        }
        let found = self.by_word.get(token.word.text.as_str())?;
        Some(found.map(Owner::Person))
    }

    /// Number of tokens of the name at `at`: "Ada Lane" is one name.
    pub(crate) fn named_at(
        &self,
        sentence: &Sentence,
        at: usize,
    ) -> Option<(Option<Owner>, usize)> {
        let token = sentence.tokens.get(at)?;
        let first = self.named(token)?;
        // A name that is also a common word must be capitalized.
        let is_word = token.word.known.is_some_and(|entry| entry.is_stop);
        if is_word
            && token.kind == Kind::Word
            && !sentence.text[token.from..].starts_with(char::is_uppercase)
        {
            return None;
        }
        let second = sentence.tokens.get(at + 1).and_then(|next| {
            let full = format!("{} {}", token.word.text, next.word.text);
            self.names
                .iter()
                .position(|name| name.to_lowercase() == full)
        });
        Some(match second {
            Some(person) => (Some(Owner::Person(person)), 2),
            None => (first, 1),
        })
    }
}
