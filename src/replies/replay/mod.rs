//! Replays: the most recent replies of an agent, written again with a draft of its profile, for the person who tries out the draft.
//!
//! ```text
//! start ─► root with the draft ─► child for each reply ─► stored prompt, system text of the draft ─► one call ─► answer
//!            └─ parked until the last child has ended ◄──────────────── one transaction ends child and answer ◄──┘
//! ```
//!
//! Nothing is posted, streamed, or remembered, and no tool runs: a case ends after the first model call. Only the parts of a reply's
//! prompt that the person can read are sent, and the text of the original reply is read from its message.

mod case;
mod handler;
pub mod read;
mod replayer;
pub mod start;
pub mod store;

use serde::{Deserialize, Serialize};

pub use case::{Case, SkipReason};
pub use replayer::{ReplayEstimate, Replayer};

/// A tool call that was not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WouldCall {
    /// Name of the function.
    pub name: String,
    /// Usually an object; a string if the model did not write JSON.
    #[schema(value_type = Object)]
    pub arguments: serde_json::Value,
    /// True if the call would wait for an approval.
    #[serde(default)]
    #[schema(required)]
    pub would_ask: bool,
}

/// A model's response to a case, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CaseAnswer {
    pub(crate) text: String,
    pub(crate) would_call: Option<WouldCall>,
}
