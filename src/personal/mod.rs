//! Exports and erases all data about one user in a workspace.
//!
//! Both cover everything that any capability stores about a user, so this module depends on all of them. Both work in
//! steps: an export is streamed while it is read, and an erasure consists of many short transactions. An erasure that
//! was interrupted by a crash is repeated from the beginning; steps that are already done have no effect. The deletion of a thread works
//! like an erasure.

mod erase;
pub mod export;
mod scrub;
mod threads;
mod turns;

pub use erase::{
    CollectionFiles, Eraser, ErasureProgress, ErasureState, begin, finish_begun, progress,
};
pub use export::export;
pub use threads::{delete_thread, workspaces_to_clean};
pub use turns::PersonalTurns;
