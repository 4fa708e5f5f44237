//! Full-text search over messages, results and the titles of threads.
//!
//! ```text
//! post, edit, end of a reply, publish, delete ─► index ─► dialect::search (FTS5 | tsvector)
//! GET /v1/search ─► query ─► find ─► dialect::search ─► rows ─► rank ─► highlight
//! ```
//!
//! Words are made here (`words`), the same for both engines. The index only narrows down; who may see a hit is asked of the
//! tables at the moment of the question.

pub mod find;
mod highlight;
pub mod index;
pub mod query;
mod rank;
mod words;
