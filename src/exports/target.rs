//! Where archives are written to.

use std::path::Path;

use tokio::io::AsyncWriteExt;

use super::{
    added::{Added, ArchiveEnd},
    error::ExportError,
    zip::ZipEntry,
};

/// Number of entries of the directory that are read at once.
const DIRECTORY_PAGE: usize = 1000;

/// An archive as a file.
pub(super) struct FileArchive {
    file: tokio::fs::File,
    entries: Vec<ZipEntry>,
}

pub(super) enum Target {
    File(FileArchive),
}

impl Target {
    /// A new file.
    ///
    /// # Errors
    /// `Io` if it exists or cannot be created.
    pub(super) async fn new_file(path: &Path) -> Result<Self, ExportError> {
        Ok(Self::File(FileArchive {
            file: tokio::fs::File::create_new(path).await?,
            entries: Vec::new(),
        }))
    }

    pub(super) async fn store(
        &mut self,
        bytes: &[u8],
        added: Option<Added>,
    ) -> Result<(), ExportError> {
        match self {
            Self::File(archive) => {
                archive.file.write_all(bytes).await?;
                let Some(added) = added else { return Ok(()) };
                archive.entries.extend(added.entries);
                if added.end == ArchiveEnd::Complete {
                    archive.file.flush().await?;
                    archive.file.sync_all().await?;
                }
                Ok(())
            }
        }
    }

    /// Stored entries from number `from` on; none after the last one.
    pub(super) async fn entries(&self, from: usize) -> Result<Vec<ZipEntry>, ExportError> {
        match self {
            Self::File(archive) => {
                let rest = archive.entries.iter().skip(from);
                Ok(rest.take(DIRECTORY_PAGE).cloned().collect())
            }
        }
    }
}
