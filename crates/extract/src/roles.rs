//! Roles of sentences in the minutes, by a linear model over phrases, words, neighbors, and position.
//!
//! The weights are in `seeds/extract/weights.txt`; `examples/train.rs` writes them from labeled dialogues.

use std::{collections::HashMap, sync::LazyLock};

/// Role of a sentence in the minutes of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A statement of what was decided.
    Decision,
    /// Something that somebody will do.
    Action,
    /// A question that nobody answered.
    Question,
    /// Unresolved disagreement with a decision.
    Dissent,
}

impl Role {
    /// Minimum score of a sentence with a clear sign of the role: a proposal that the next person accepted, or a commitment after an
    /// agreement in the same message.
    pub(crate) fn clear_min(self) -> f32 {
        if self == Self::Action { -5.0 } else { -2.0 }
    }
}

pub const ROLES: [Role; 4] = [Role::Decision, Role::Action, Role::Question, Role::Dissent];

/// A linear model: the sum of the weights of a sentence's features is positive if it has the role.
#[derive(Debug, Default)]
pub struct Model {
    weights: HashMap<String, [f32; 4]>,
}

static BUILT_IN: LazyLock<Model> =
    LazyLock::new(|| Model::parse(include_str!("../../../seeds/extract/weights.txt")));

impl Model {
    /// The model in the data files.
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// Parses rows that consist of a feature and its weight for each of [`ROLES`], in hundredths.
    pub fn parse(text: &str) -> Self {
        let rows = text.lines().filter(|row| !row.starts_with("//"));
        let entry = |row: &str| {
            let (name, numbers) = row.split_once('\t')?;
            let mut weights = [0.0; 4];
            for (weight, number) in weights.iter_mut().zip(numbers.split('\t')) {
                *weight = number.parse::<f32>().ok()? / 100.0;
            }
            Some((name.to_owned(), weights))
        };
        Self { weights: rows.filter_map(entry).collect() }
    }

    pub(crate) fn weights(&self, feature: &str) -> Option<&[f32; 4]> {
        self.weights.get(feature)
    }
}
