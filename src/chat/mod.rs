//! Channels, threads and messages.

pub mod mentions;
pub mod plain;
