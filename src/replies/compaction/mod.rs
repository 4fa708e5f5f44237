//! Compaction: older messages of a conversation become segments with entries; code renders the summary in prompts from them.
//!
//! ```text
//! messages without a segment ── parts of 12–48 ──> one call each ── checks ──> segment and entries, in one transaction
//! segments that begin before the window ── render ──> block `summary`            no model rewrites a summary
//! ```
//!
//! `catch_up` uses the entries and the same checks to summarize unread messages for people.
//!
//! After a pass, a model compares the new entries with older ones. Without a model, the extractor makes the entries. If a message
//! changes, prompts do not contain its segment or the segment's entries until the segment is rebuilt (`agents::segments`).

pub mod catch_up;
mod check;
mod draft;
pub mod item;
mod judge;
mod offline;
pub mod pass;
pub mod profile;
pub mod quiet;
pub mod record;
pub mod remember;
pub mod render;
mod settle;
pub mod store;
pub(in crate::replies) mod support;
pub mod view;
pub mod wait;
pub mod window;
