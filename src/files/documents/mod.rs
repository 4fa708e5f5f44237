//! Text of files: taken once from the bytes, by a process that can do nothing else.
//!
//! ```text
//! upload ─► rows::queue ─► reader: one process per file ─► process ─► `openvibe extract` (crates/documents)
//!                             └─► rows: parts, then the state ─► file.updated
//! ```
//!
//! The rows belong to the bytes of a file, as its blob does: files with the same bytes share them, and they are deleted with the blob.

mod event;
mod process;
mod reader;
mod rows;

pub use event::{FileEvent, FileWithText};
pub(super) use process::{feed, start};
pub use reader::{DocumentReader, DocumentTurn};
pub use rows::{
    DocumentPart, DocumentReason, DocumentRow, DocumentState, DocumentStatus, find_document,
    find_part, is_any_waiting, is_media, list_parts, queue_document, restore_passages,
};
