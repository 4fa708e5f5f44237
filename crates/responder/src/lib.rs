//! Answers questions about a conversation without a model: it recognizes the intent of a question and quotes people.
//!
//! ```text
//! question ── intent ──► outline of the conversation (openvibe-extract)
//!                   └──► statements and replies about it ── nothing? ──► the same in conversations that the caller found
//! ```
//!
//! Every line of an answer cites its sources as `[n]`. Phrases and fixed texts are data files in `seeds/builtin`.

mod answer;
mod forms;
mod intent;
mod matching;
mod names;
mod quotes;
mod read;
mod words;

pub use openvibe_extract::{Line, Material, Person, Speaker};

pub use self::{
    answer::{Answer, Conversation, answer},
    intent::{Question, asks, is_thanks},
    words::{is_question, says},
};

/// A part of another conversation.
#[derive(Debug, Clone, Default)]
pub struct Excerpt {
    /// `None` in a direct channel.
    pub channel: Option<String>,
    pub title: String,
    /// Lines that can be quoted, oldest first.
    pub material: Material,
}

/// An answer in Markdown; `sources[n - 1]` is the source of `[n]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Composed {
    pub text: String,
    pub sources: Vec<Source>,
}

/// A quoted line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// Position of the excerpt in the list passed to `compose`; 0 for the conversation itself.
    pub place: usize,
    pub line: usize,
}
