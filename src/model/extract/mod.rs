//! Extracts decisions, corrections, commitments, questions, and deferred topics from a conversation, without a model.
//! Deterministic. Supports English, German, Spanish, and French, and reports texts in other languages.
//!
//! ```text
//! Material ── tokens, values ──> Sentence ── thread, corrections, tasks ──> Thread ── outline ──> Outline
//!                 └─ cues (words as data)                                      └──── dialogue ──> answers of `builtin`
//! ```
//! Statements are quoted, at most with a corrected value in them, unless rephrasing is safe.

mod asking;
mod corrections;
mod cues;
pub mod dialogue;
mod material;
mod outline;
mod people;
mod phrases;
mod reading;
mod sentence;
mod tasks;
#[cfg(test)]
mod tests;
mod thread;
mod tokens;
mod values;

pub use self::{
    material::{Item, Line, Material, Outline, Owner, Person, Point, Speaker, Superseded},
    reading::Reading,
};
