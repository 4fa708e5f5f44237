//! Full-text search over messages, resolutions, and titles of threads and deep dives.
//!
//! ```text
//! post, edit, end of a reply, publish, delete ─► index ─► dialect::search (FTS5 | tsvector)
//!    changed properties of very long texts ─► backlog ─► index
//!                          upgrade, restore ─► rebuild ─► index
//! GET /v1/search ─► query ─► find ─► dialect::search ─► rows ─► rank ─► highlight
//! ```
//!
//! Text is split into words here (`words`), the same way for both engines. The index only narrows
//! down the candidates; access to a hit is checked against the tables at query time.

pub mod any;
pub mod backlog;
pub mod find;
mod forks;
pub mod highlight;
pub mod index;
mod irregular;
pub mod passages;
pub mod query;
mod rank;
pub mod rebuild;
pub mod shared;
mod spellings;
mod stems;
pub mod task;
mod words;

pub use words::folded;
