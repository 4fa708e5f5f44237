//! Agents: their profiles, what one is sent, how a reply comes about, and what happens when a call fails.

pub mod context;
mod error;
pub mod manifest;
pub mod profiles;
pub mod prompt;
pub mod retry;
pub mod routes;
pub mod seeds;
pub mod turn;
pub mod usage;

pub use error::AgentError;
