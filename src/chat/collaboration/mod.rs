//! Collaborations, in which agents take turns working on a goal in a fork. The state is stored with the fork;
//! `crate::forks::collaborate` runs collaborations.

mod ending;
mod state;

pub use ending::{end_collaboration, update_collaboration};
pub use state::{Collaboration, CollaborationState, Turn, find_collaboration};
