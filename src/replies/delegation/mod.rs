//! Delegation: an agent passes work to another agent with the function `delegate`, and its task waits for the answer.
//!
//! ```text
//! round with calls ─► begin: brief, child task (kind `delegate`) ─► the caller is parked ─► the last child ends, which wakes it
//!                       └ refused: an immediate result                                         └► collect: answers as results
//! ```
//!
//! The action of a call stays `running` without a lease until `collect` ends it. Nothing is replayed after a crash, because the
//! child's row records what happened.

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

/// Returns the key that identifies a call's task among the children of the caller.
fn child_key(action: &Action) -> String {
    format!("{}.{}", action.round, action.call)
}
