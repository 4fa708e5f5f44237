//! Incoming webhooks: programs post messages as bots.
//!
//! `body` reads what a program sends, with `slack` for the format of Slack, whose markup `mrkdwn` translates.

mod body;
mod error;
mod mrkdwn;
mod rendered;
mod slack;

pub use body::{HookQuery, Incoming};
pub use error::HookFault;
