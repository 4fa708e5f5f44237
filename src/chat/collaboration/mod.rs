//! Collaborations: agents work on a goal in a fork, in turns. Their state is stored with the fork; `crate::forks::collaborate` runs
//! them.

mod ending;
mod state;

pub use ending::{end_collaboration, update_collaboration};
pub use state::{Collaboration, CollaborationState, Turn, find_collaboration};
