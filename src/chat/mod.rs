//! Channels, threads, and messages: the conversation between people and agents, and access to it.
//!
//! Every write is one transaction: the change, its events, and the tasks that its mentions enqueue.
//! Agents are looked up here but never run.

pub mod access;
mod announce;
mod arrows;
pub mod bindings;
pub mod bot_messages;
pub mod bots;
pub mod channels;
pub mod checklist;
pub mod collaboration;
pub mod custom_emoji;
pub mod descriptions;
mod emoji;
mod error;
pub mod event;
pub mod follows;
pub mod forks;
pub mod found;
pub mod imported;
pub mod inbox;
pub mod mentions;
pub mod messages;
pub mod my_forks;
pub mod pins;
pub mod plain;
pub mod post;
pub mod presets;
pub mod reading;
pub mod reads;
pub mod remove;
mod rows;
pub mod search;
pub mod snapshot;
mod text;
pub mod thread_change;
pub mod threads;
pub mod unfurls;
pub mod variants;

pub use error::ChatError;
