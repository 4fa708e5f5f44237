//! Agents: what one is sent, and what happens when a call fails.

pub mod prompt;
pub mod retry;
