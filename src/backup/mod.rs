//! Backups: one state of every table and of the uploads that it names, in one file for both engines.
//!
//! ```text
//! FILE = gzip of a tar: manifest.json, blobs/HASH/UPLOAD/N, tables/NAME/N.ndjson, …, index.json
//! ```
//!
//! The index comes last and names every entry with its SHA-256, so that whatever is missing or changed is noticed before a restore
//! changes anything. Nothing is larger than a few MiB, so that nothing has to be in memory whole.

mod format;
mod restore;
mod take;
#[cfg(test)]
mod tests;

pub use format::{Damage, Index, Manifest, Verified, verify};
pub use restore::{Access, Restored, restore};
pub use take::{Taken, take};
