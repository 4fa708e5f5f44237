//! Delegation: an agent passes on work to another one with the function `delegate`, and its task waits for the answer.
//!
//! ```text
//! round with calls ─► begin: brief, child task (kind `delegate`) ─► the caller is parked ─► the last child ends, which wakes it
//!                       └ refused: an immediate result                                         └► collect: answers as results
//! ```
//!
//! The action of a call stays `running` without a lease until `collect` ends it. Nothing is replayed after a crash: the child's row
//! says what happened.

mod begin;
mod call;
mod collect;
mod function;
pub mod options;

pub(super) use begin::{Prepared, begin, known_numbers, noted, prepare};
pub(super) use collect::collect;
pub use function::DelegationTool;
pub(super) use function::announced_agent;

use crate::tasks::actions::Action;

/// Key of the task that a call starts among the children of its caller.
fn child_key(action: &Action) -> String {
    format!("{}.{}", action.round, action.call)
}
