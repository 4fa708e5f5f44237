//! Channels, threads and messages: what people and agents say to each other, and who may see it.
//!
//! Every write is one transaction: the change, its events, and the tasks that a mention asks for. Agents are looked up here but
//! never run.

pub mod access;
pub mod bindings;
pub mod channels;
mod emoji;
mod error;
mod event;
pub mod follows;
pub mod forks;
pub mod found;
pub mod mentions;
pub mod messages;
pub mod plain;
pub mod post;
pub mod reads;
pub mod remove;
pub mod routes;
pub mod search;
pub mod snapshot;
pub mod thread_change;
pub mod threads;

pub use error::ChatError;
