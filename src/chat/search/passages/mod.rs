//! Passages of files in the index.
//!
//! ```text
//! a document was read ─► passage_sets ─► index: cut ─► dialect::search
//! GET /v1/search?kind=file, agents ─► find ─► dialect::search ─► any (ranking) ─► near: adds hits by meaning ─► rows
//! file deleted ─► passage_sets without a file ─► index: removal
//! ```

mod cut;
pub mod find;
pub mod index;
mod near;

pub use cut::passages;
pub use near::FoundBy;
