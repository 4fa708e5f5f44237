//! Options of a client: the visible events that it receives, and their format.

use crate::{ids::ChannelId, text_enum::text_enum};

text_enum! {
    /// Channels whose traffic a client receives.
    pub enum EventScope {
        /// Every visible channel.
        All = "all",
        /// Channels that the user has joined or the client has open.
        Joined = "joined",
    }
}

text_enum! {
    /// Format of the deltas of a streaming reply.
    pub enum DeltaFormat {
        /// JSON objects.
        Full = "full",
        /// Arrays of stream number, offset, and text, after an object that announces the stream
        /// number.
        Compact = "compact",
    }
}

/// Part of a workspace that a reader can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Everything, except for private and direct channels that the reader is not in.
    Workspace,
    /// Only channels that the reader is in: a guest.
    Joined,
}

/// Options of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    pub scope: EventScope,
    pub deltas: DeltaFormat,
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            scope: EventScope::All,
            deltas: DeltaFormat::Full,
        }
    }
}

/// Channels whose traffic a reader of the log receives.
#[derive(Debug, Clone, Copy)]
pub enum Followed<'a> {
    All,
    /// Joined channels, and the given ones.
    JoinedAnd(&'a [ChannelId]),
}
