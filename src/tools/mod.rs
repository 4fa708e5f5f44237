//! Tools of agents: which functions a task can call, who must approve a call, and the built-in functions.
//!
//! ```text
//! profile, policy ─► Toolbox::offer ─► model ─► calls ─► decide ─► action (row) ─► approvals ─► Toolbox::run ─► result
//!                                                          ▲ taint                                  │ rights
//!                                                          └────────────────────────────────────────┘
//! ```
//!
//! Code and database rows determine what runs, so even a model that obeys every injected instruction is harmless. The loop itself is
//! in `replies::turn`.

pub mod announced;
pub mod approvals;
pub mod arguments;
pub mod briefs;
pub mod builtin;
mod convert;
pub mod decide;
mod error;
pub mod function;
pub mod grants;
pub mod guard;
pub mod handles;
pub mod hash;
pub mod output;
pub mod outward;
pub mod requests;
pub mod rights;
pub mod runner;
pub mod schema;
pub mod taint;

pub use error::ToolsError;
