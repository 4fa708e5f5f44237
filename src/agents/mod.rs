//! Definitions of agents: profiles and files, workspace policies, reply styles, and the system text.

pub mod derived;
pub mod entries;
mod error;
pub mod files;
pub mod personas;
pub mod policy;
pub mod preview;
pub mod profiles;
pub mod prompt_profiles;
pub mod sandbox;
pub mod seeds;
pub mod segments;
pub mod skills;
pub mod switch;
pub mod system;
pub mod templates;
pub mod transfer;

pub use error::AgentError;
