//! Targets of archives: pieces, which are blobs, or a file.

use std::path::Path;

use tokio::io::AsyncWriteExt;
use uuid::Uuid;

use super::{
    added::{Added, ArchiveEnd},
    error::ExportError,
    row,
    zip::ZipEntry,
};
use crate::{
    db::{Conn, Db},
    failpoint,
    files::{Blobs, Published},
    ids::{ExportId, WorkspaceId},
};

/// Number of entries of the directory that are read at once.
const DIRECTORY_PAGE: i64 = 1000;

/// An archive as pieces, which are blobs.
pub(super) struct StoredArchive {
    pub(super) db: Db,
    pub(super) blobs: Blobs,
    pub(super) workspace: WorkspaceId,
    pub(super) id: ExportId,
    pub(super) attempt: Uuid,
    /// Number of stored entries.
    pub(super) entries: i64,
}

impl StoredArchive {
    /// Stores a piece that starts at this byte, and the entries that it completes.
    async fn store(
        &mut self,
        bytes: &[u8],
        start: u64,
        added: Option<Added>,
    ) -> Result<(), ExportError> {
        let published = if bytes.is_empty() {
            None
        } else {
            let mut incoming = self.blobs.begin(None).await?;
            incoming.write(bytes).await?;
            let whole = incoming.finish().await?;
            Some(self.blobs.publish(whole).await?)
        };
        let count = added.as_ref().map_or(0, |added| added.entries.len());
        let blob = published.as_ref().map(Published::reference);
        let (id, attempt, known) = (self.id, self.attempt, self.entries);
        let start = i64::try_from(start).unwrap_or(i64::MAX);
        let stored: Result<Option<Uuid>, ExportError> = self
            .db
            .write(self.workspace.0, async move |c: &mut Conn| {
                row::check_attempt(c, id, attempt).await?;
                let upload = match &blob {
                    Some(blob) => Some(row::insert_piece(c, id, start, blob).await?),
                    None => None,
                };
                if let Some(added) = &added {
                    row::add(c, id, known, added).await?;
                }
                Ok(upload)
            })
            .await;
        match (stored, published) {
            (Ok(upload), Some(published)) => published.settle(upload),
            (Ok(_), None) => {}
            // The row may have been stored: a cleanup checks whether the bytes are used.
            (Err(e), _) => return Err(e),
        }
        self.entries += i64::try_from(count).unwrap_or(0);
        failpoint!("exporting");
        Ok(())
    }
}

/// An archive as a file.
pub(super) struct FileArchive {
    file: tokio::fs::File,
    entries: Vec<ZipEntry>,
}

pub(super) enum Target {
    Stored(Box<StoredArchive>),
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
        start: u64,
        added: Option<Added>,
    ) -> Result<(), ExportError> {
        match self {
            Self::Stored(archive) => archive.store(bytes, start, added).await,
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
            Self::Stored(archive) => {
                let from = i64::try_from(from).unwrap_or(i64::MAX);
                let mut c = archive.db.read().await?;
                Ok(row::list_entries(&mut c, archive.id, from, DIRECTORY_PAGE).await?)
            }
            Self::File(archive) => {
                let page = usize::try_from(DIRECTORY_PAGE).unwrap_or(usize::MAX);
                let rest = archive.entries.iter().skip(from);
                Ok(rest.take(page).cloned().collect())
            }
        }
    }
}
