//! Stored bytes, deduplicated by SHA-256: files below the data directory with `SQLite`, rows with `PostgreSQL`, and
//! objects in a bucket if `OPENVIBE_BLOBS_URL` names one.
//!
//! ```text
//! incoming: temporary file or chunks ─► publish: the place of the upload ─► row, in the caller's transaction
//! ```
//!
//! The bytes are stored before the row that refers to them, so a crash in between leaves unreferenced bytes, which
//! `sweep` finds. Every upload has its own location, so nodes need no lock: a node deletes only bytes whose row it
//! has just removed, and bytes that never had a row and are older than any running upload. If two uploads have the
//! same bytes, the row of the first is used, and the other is deleted.

mod chunks;
mod incoming;
mod read;
mod relocate;
mod remove;
mod store;

pub(super) use incoming::CompleteUpload;
pub(crate) use incoming::name_blob;
pub use incoming::{Incoming, NewBlob, Published};
pub use read::Bytestream;
pub use relocate::{Moved, Progress};
pub use remove::bytes_in_database;
pub use store::Blobs;
