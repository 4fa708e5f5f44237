//! Limits on what a server sends.

/// Maximum size of a message: an event, a response that is one JSON object, or an output line of a process. The parsed value can need
/// more than 30 times as much memory.
pub(super) const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Size of a message beyond which it is parsed alone, and only the beginning of a result is kept.
pub(super) const LARGE_BYTES: usize = 1 << 20;
/// Maximum total size of the events of a response, or of the output lines of a process after a request.
pub(super) const STREAM_BYTES_MAX: usize = 16 << 20;
/// Maximum number of events of a response, or of output lines of a process after a request.
pub(super) const MESSAGES_MAX: usize = 1000;
/// Maximum number of pings in a response; each one is answered with a request.
pub(super) const PINGS_MAX: usize = 16;

/// A limit on what a server sends in response to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    #[error("a message can have at most {} MiB", MESSAGE_BYTES_MAX >> 20)]
    Message,
    #[error("a response can have at most {} MiB", STREAM_BYTES_MAX >> 20)]
    Response,
    #[error("a response can have at most {MESSAGES_MAX} messages")]
    Messages,
    #[error("a response can have at most {PINGS_MAX} pings")]
    Pings,
}
