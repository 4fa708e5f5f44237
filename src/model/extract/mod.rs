//! What a conversation holds, found without a model: what was decided, corrected, promised, asked and put off.
//! Deterministic; knows English, German, Spanish and French, and says so when a text is in none of them.
//!
//! ```text
//! Material ── Reading::new ──> outline, superseded, is_taken_up
//! ```

pub mod dialogue;
mod material;
mod reading;

pub use self::{
    material::{Item, Line, Material, Outline, Owner, Person, Point, Speaker, Superseded},
    reading::Reading,
};
