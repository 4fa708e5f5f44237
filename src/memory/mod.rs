//! Memory: entries with their sources, the rights to see and change them, and the selection of entries for a
//! reply.
//!
//! ```text
//! POST, PATCH ─► create, change ─► memories · memory_words · citations ─► recall ─► block `memories` of a prompt
//! passes ──────► automatic ──────►       ▲                             └► summaries of conversations
//! agents' files ► files ─────────►       │
//! message edited, deleted ─► agents::derived (stale, forgotten)
//! ```
//!
//! The text of an entry is stored in `memories` and in records of prompts, which cite the entry. Forgetting
//! removes the text from both.

pub mod automatic;
pub mod change;
pub mod content;
pub mod create;
pub mod entry;
mod error;
pub mod files;
pub mod find;
pub mod forget;
pub mod list;
pub mod publish;
pub mod recall;
pub mod remember;
pub mod settings;
pub mod sources;
pub mod user_file;
pub mod user_file_change;

pub use error::MemoryError;
