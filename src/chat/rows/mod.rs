//! Rows of channels, threads, and messages. All modules that change them import this one.

pub(super) mod channel;
pub(super) mod message;
pub(super) mod preset;
pub(super) mod thread;
pub(super) mod variant;
