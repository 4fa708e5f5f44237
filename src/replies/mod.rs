//! Replies of agents: context, prompt, model call, and retries after failed calls.

pub mod context;
pub mod manifest;
pub mod prompt;
pub mod retry;
pub mod turn;
pub mod usage;
