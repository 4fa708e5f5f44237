//! Answers questions about a conversation without a model: it finds out what is asked, and quotes people.
//!
//! ```text
//! question ── intent ──► outline of the conversation (openvibe-extract)
//!                   └──► replies to a similar question ── nothing? ──► a search by the caller, ranked here
//! ```
//!
//! Every line of an answer cites its sources as `[n]`. Phrases and fixed texts are data files in `seeds/builtin`.

mod answer;
mod intent;
mod matching;
mod words;

pub use openvibe_extract::{Line, Material, Person, Speaker};

pub use self::{
    answer::{Answer, Conversation, Question, answer},
    intent::{asks, is_thanks},
    matching::Hit,
    words::says,
};

/// An answer in Markdown; `sources[n - 1]` is the source of `[n]`: a line of the conversation, or a hit of the search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Composed {
    pub text: String,
    pub sources: Vec<usize>,
}
