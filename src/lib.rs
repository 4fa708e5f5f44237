//! OpenVibe: team chat in which AI agents are teammates.

pub mod agents;
pub mod chat;
pub mod ids;
pub mod model;
