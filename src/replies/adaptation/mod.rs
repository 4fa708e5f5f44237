//! Adaptation of agents to people who allow it: mood, skill, and complexity, which become fixed sentences in the system prompt.
//!
//! ```text
//! reply ends ─► note: tone of the question (lexicon, or a `utility` task) ─► score ─► event ─┐
//!                                                                                             ├─► `reflect` task ─► traits
//!                                                         turn_interval, POST …/reflect ──────┘          │
//! next reply ◄── switches, state ◄── sentences of the traits ◄───────────────────────────────────────────┘
//! ```
//!
//! The workspace, the agent, and the person must allow it; every transaction that stores something checks all three. Only the person
//! can read a state. Text that a model writes is never stored or sent: its answer only selects values.

mod error;
pub mod lexicon;
pub mod note;
pub mod own;
mod prompts;
mod recent;
pub mod reflect;
mod rules;
pub mod state;
pub mod switches;
mod traits;

pub use error::AdaptationError;
