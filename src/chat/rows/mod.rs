//! Rows of channels, threads, and messages, below everything that changes them.

pub(super) mod channel;
pub(super) mod message;
pub(super) mod preset;
pub(super) mod thread;
