//! Exports and erases all data about one user in a workspace.
//!
//! Both cover everything that any capability stores about a user, so this module depends on all of them. Both work in
//! steps: an export is streamed while it is read, and an erasure consists of many short transactions. An erasure that
//! was interrupted by a crash is repeated from the beginning; steps that are already done have no effect.

mod erase;
pub mod export;
mod scrub;
mod turns;

pub use erase::{Eraser, ErasureProgress, ErasureState, begin, finish_begun, progress};
pub use export::export;
pub use turns::PersonalTurns;
