//! Archives in a directory of the server (`OPENVIBE_IMPORT_DIR`), which need no upload: their pieces are copied.

use std::{io::SeekFrom, path::PathBuf};

use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncSeekExt},
};

use super::{
    archive::ArchiveFault,
    error::ImportError,
    row::{self, ImportRow, LocalArchive, PIECE_BYTES_MAX, PieceRange},
    run::Importer,
};
use crate::{db::Conn, failpoint};

/// Bytes that are read at once.
const PART_BYTES: usize = 1 << 20;

fn refused(problem: String) -> ImportError {
    ImportError::Invalid(problem, "path")
}

fn missing(name: &str) -> ImportError {
    refused(format!("OPENVIBE_IMPORT_DIR has no file `{name}`"))
}

impl Importer {
    /// Location of a file in the directory. Links lead to nothing outside of it.
    async fn locate(&self, name: &str) -> Result<PathBuf, ImportError> {
        let Some(directory) = &self.directory else {
            return Err(refused("OPENVIBE_IMPORT_DIR is not set".to_owned()));
        };
        let unreadable = |_| refused("OPENVIBE_IMPORT_DIR is not a directory".to_owned());
        let root = tokio::fs::canonicalize(directory)
            .await
            .map_err(unreadable)?;
        let path = tokio::fs::canonicalize(root.join(name)).await;
        let path = path.map_err(|_| missing(name))?;
        if path.starts_with(&root) {
            Ok(path)
        } else {
            Err(missing(name))
        }
    }

    /// Finds a file in the directory.
    ///
    /// # Errors
    /// `Invalid`, `TooLarge`.
    pub async fn find_local(&self, name: &str) -> Result<LocalArchive, ImportError> {
        let path = self.locate(name).await?;
        let about = tokio::fs::metadata(path).await;
        let about = about.map_err(|_| missing(name))?;
        if !about.is_file() || about.len() == 0 {
            return Err(missing(name));
        }
        if about.len() > self.archive_bytes_max {
            return Err(ImportError::TooLarge(self.archive_bytes_max));
        }
        Ok(LocalArchive {
            path: name.to_owned(),
            size_bytes: about.len(),
        })
    }

    /// Copies the rest of an archive from the directory, so that any node can read it.
    pub(super) async fn copy(&self, row: &ImportRow) -> Result<(), ImportError> {
        let (id, name) = (row.id, row.path.as_deref().unwrap_or_default());
        let total = row.size_bytes.unwrap_or(0).unsigned_abs();
        let mut start = row.received_bytes.unsigned_abs();
        let path = self.locate(name).await?;
        let mut file = File::open(path).await.map_err(|_| missing(name))?;
        let about = file.metadata().await.map_err(|_| missing(name))?;
        if about.len() != total {
            return Err(refused(format!("`{name}` has changed while it was read")));
        }
        let seeked = file.seek(SeekFrom::Start(start)).await;
        seeked.map_err(|_| missing(name))?;
        while start < total {
            if self.shutdown.is_cancelled() {
                return Err(ArchiveFault::Stopped.into());
            }
            let range = PieceRange {
                start,
                len: PIECE_BYTES_MAX.min(total - start),
                total,
            };
            self.copy_piece(row, &mut file, range).await?;
            start += range.len;
            failpoint!("copying");
        }
        self.end_upload(row.workspace_id, id).await
    }

    async fn copy_piece(
        &self,
        row: &ImportRow,
        file: &mut File,
        range: PieceRange,
    ) -> Result<(), ImportError> {
        let id = row.id;
        let mut incoming = self.blobs.begin(None).await?;
        let (mut part, mut rest) = (vec![0; PART_BYTES], range.len);
        while rest > 0 {
            let len = usize::try_from(rest).map_or(PART_BYTES, |rest| rest.min(PART_BYTES));
            let read = file.read_exact(&mut part[..len]).await;
            read.map_err(|e| refused(format!("the archive could not be read: {e}")))?;
            incoming.write(&part[..len]).await?;
            rest -= len as u64;
        }
        let published = self.blobs.publish(incoming.finish().await?).await?;
        let blob = published.reference();
        let stored = self
            .db
            .write(row.workspace_id.0, async move |c: &mut Conn| {
                row::insert_copied(c, id, range, &blob).await
            });
        let upload = stored.await?;
        published.settle(Some(upload));
        Ok(())
    }
}
