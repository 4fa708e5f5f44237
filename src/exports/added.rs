//! What was added to an archive.

use std::collections::BTreeMap;

use super::{page::Place, zip::ZipEntry};

/// What was added to an archive.
#[derive(Debug, Clone)]
pub(super) struct Added {
    pub(super) place: Place,
    /// Records in the archive, by kind.
    pub(super) counts: BTreeMap<String, i64>,
    pub(super) entries: Vec<ZipEntry>,
    /// Size of the archive with them.
    pub(super) size_bytes: u64,
    pub(super) end: ArchiveEnd,
}

/// Whether an archive is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArchiveEnd {
    Open,
    Complete,
}
