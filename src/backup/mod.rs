//! Backups: a consistent snapshot of every table and of the uploads that the tables refer to, in one file for both engines.
//!
//! ```text
//! FILE = gzip of a tar: manifest.json, blobs/HASH/UPLOAD/N, tables/NAME/N.ndjson, …, index.json
//! ```
//!
//! The index is the last entry and lists every other entry with its SHA-256, so that missing or changed data is detected before a
//! restore changes anything. No entry is larger than a few MiB, so data never has to be in memory as a whole.

mod format;
mod restore;
mod take;
#[cfg(test)]
mod tests;

pub use format::{Damage, Index, Manifest, Verified, verify};
pub use restore::{Access, AgentsAfter, Restored, restore};
pub use take::{Taken, take};
