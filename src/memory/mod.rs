//! Memory: entries with their sources, who may see and change them, and which ones a reply uses.
//!
//! ```text
//! POST, PATCH ─► create, change ─► memories · memory_words · citations ─► recall ─► block `memories` of a prompt
//! passes ──────► automatic ──────►       ▲                             └► summaries of conversations
//! agents' files ► files ─────────►       │
//! message edited, deleted ─► agents::derived (stale, forgotten)
//! ```
//!
//! A text is in `memories`, and in records of prompts, which cite the entry. Forgetting removes it from both.

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
