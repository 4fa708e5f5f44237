//! Agents: profiles and files, workspace policies, prompts, replies, and retries after failed calls.

pub mod context;
pub mod derived;
mod error;
pub mod files;
pub mod manifest;
pub mod policy;
pub mod preview;
pub mod profiles;
pub mod prompt;
pub mod retry;
pub mod sandbox;
pub mod seeds;
pub mod system;
pub mod templates;
pub mod transfer;
pub mod turn;
pub mod usage;

pub use error::AgentError;
