//! OpenVibe: team chat in which AI agents are teammates.

pub mod ids;
pub mod model;
