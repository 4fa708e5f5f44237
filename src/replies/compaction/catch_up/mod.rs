//! Catch-up: what happened in the main line of a thread after a message.
//!
//! ```text
//! newest 500 messages ─┬─ in segments ── entries ──────┐
//!                      ├─ others ── extractor, checks ─┼─► up to 12 lines, `builtin`
//!                      ├─ resolutions of forks ────────┘
//!                      └─ utility call (task `catch_up`), checks ─► text that only the requester gets, for 24 h
//! ```
//!
//! Nothing is posted, and no read marker moves. Each line lists its source messages, which are all in the thread, so that everyone
//! who can read the thread can read them.

mod built_in;
mod range;
pub mod read;
pub mod start;
pub mod store;
pub mod writer;

use serde::{Deserialize, Serialize};

use crate::{chat::messages::MessageAuthor, ids::MessageId, text_enum::text_enum, time::Timestamp};

/// Maximum number of lines.
const LINES_MAX: usize = 12;

text_enum! {
    /// Part of a catch-up.
    pub enum CatchUpSection {
        /// A decision, or the result of a fork.
        Decided = "decided",
        /// A message that mentions the caller.
        Asked = "asked",
        /// A question that is still open.
        Open = "open",
        Also = "also",
    }
}

/// A sentence about messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CatchUpLine {
    /// At most 240 characters.
    pub text: String,
    /// Messages that support the sentence, oldest first.
    pub sources: Vec<MessageId>,
    #[serde(default = "also")]
    pub section: CatchUpSection,
    /// Author of the message, if the line has one source. Never stored.
    #[serde(default, skip_deserializing)]
    pub author: Option<MessageAuthor>,
    /// Time of the message, if the line has one source. Never stored.
    #[serde(default, skip_deserializing)]
    pub at: Option<Timestamp>,
}

fn also() -> CatchUpSection {
    CatchUpSection::Also
}

/// Parts of the range that are not covered by the lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct CatchUpLeftOut {
    /// Number of sentences that did not fit into 12 lines.
    pub lines: i64,
    /// Number of older messages that were not read, at most 10,000.
    pub messages: i64,
}

/// Summary of the messages after a given message, for one person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct CatchUp {
    /// `seq` of the first message of the range; null if there is none.
    pub from_seq: Option<i64>,
    /// `seq` of the last message of the range; null if there is none.
    pub to_seq: Option<i64>,
    /// Number of messages in this range that were read, at most 500.
    pub count: i64,
    /// Lines, at most 12, oldest first.
    pub lines: Vec<CatchUpLine>,
    /// `builtin`, or the model that wrote the lines.
    #[schema(example = "builtin")]
    pub by: String,
    pub left_out: CatchUpLeftOut,
}
