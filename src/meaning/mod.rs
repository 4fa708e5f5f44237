//! Search by meaning: the vectors of passages, from a server for embeddings that an admin or an operator names.
//!
//! ```text
//! PUT /v1/workspaces/{id}/embeddings ─► settings ─► rows: embedding_models
//! passages (chat) ─► fill: the job requests vectors ─► rows: embeddings; at 100 % the current model begins to serve
//! a question ─► question: its vector ─► memory: signs pick 500 passages ─► their bytes rank them
//! ```
//!
//! Another model, or other vectors of the same one, fills its own rows while the old one serves. Passages and their texts belong to
//! `chat` and `files`; here, a passage is the hash of its text.

mod bits;
mod clients;
mod connection;
mod error;
mod fill;
mod memory;
mod question;
mod rows;
mod settings;
mod text;
mod vector;

pub use bits::{Bits, Place, passage_bytes};
pub use clients::{Meaning, Setup};
pub use connection::{EmbeddingConnection, EmbeddingForm, EmbeddingStatus};
pub use error::MeaningError;
pub use question::{QuestionVector, VectorAnswer, similarity};
pub use rows::{delete_orphans, note_removed};
pub use text::{passage_text, text_hash};
pub use vector::to_bytes;
