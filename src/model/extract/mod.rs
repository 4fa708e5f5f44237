//! What a conversation holds, found without a model: what was decided, corrected, promised, asked and put off.
//! Deterministic; knows English, German, Spanish and French, and says so when a text is in none of them.
//!
//! ```text
//! Material ── tokens, values ──> Sentence ── thread, corrections, tasks ──> Thread ── outline ──> Outline
//!                 └─ cues (words as data)                                      └──── dialogue ──> answers of `builtin`
//! ```
//! Nothing is worded anew where that is not safe: a statement is quoted, at most with a corrected value in it.

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
