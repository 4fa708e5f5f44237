//! Additions to an archive.

use std::collections::BTreeMap;

use super::{page::Place, zip::ZipEntry};

/// Entries that were added to an archive, and the place after them.
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

/// State of an archive after an addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArchiveEnd {
    Open,
    Complete,
}
