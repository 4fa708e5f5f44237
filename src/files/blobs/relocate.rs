//! Moves blobs between the bucket and the local store while servers use them.

use futures::StreamExt;
use uuid::Uuid;

use super::{
    chunks,
    incoming::NewBlob,
    store::{Blobs, locate},
};
use crate::{
    db::{Conn, Db},
    files::FileError,
    storage::{Blob, BlobStore, LOCAL_BYTES_MAX},
};

/// Maximum number of blobs listed at a time.
const AT_ONCE: i64 = 200;

/// A blob to move.
#[derive(sqlx::FromRow)]
struct Misplaced {
    #[sqlx(flatten)]
    blob: Blob,
    size_bytes: i64,
}

/// Result of a move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    pub blobs: u64,
    pub bytes: u64,
    /// Number of blobs that could not be moved and stay where they are.
    pub failed: u64,
}

/// Reports of a move.
pub enum Progress<'a> {
    /// Number and size of the blobs to move.
    Total {
        blobs: i64,
        bytes: i64,
    },
    /// Number and size of the blobs moved so far.
    Moved(Moved),
    Failed {
        hash: &'a str,
        error: &'a FileError,
    },
}

impl Blobs {
    /// Moves all blobs to the store where a new upload would be stored. The row of each blob is changed in its own transaction after
    /// the bytes have been copied, so the move can be interrupted and repeated at any time.
    ///
    /// # Errors
    /// `Db`, `Bucket`. Other failures are reported, and their blobs stay where they are.
    pub async fn relocate(&self, mut report: impl FnMut(Progress<'_>)) -> Result<Moved, FileError> {
        let (blobs, bytes) = self.count_misplaced().await?;
        report(Progress::Total { blobs, bytes });
        let (mut moved, mut after) = (Moved::default(), String::new());
        loop {
            let page = self.list_misplaced(after).await?;
            let Some(last) = page.last() else {
                return Ok(moved);
            };
            after = last.blob.hash.clone();
            for Misplaced { blob, size_bytes } in page {
                match self.relocate_one(&blob, size_bytes.unsigned_abs()).await {
                    Ok(true) => {
                        moved.blobs += 1;
                        moved.bytes += size_bytes.unsigned_abs();
                        report(Progress::Moved(moved));
                    }
                    // The blob was deleted, or moved by another process.
                    Ok(false) => {}
                    Err(error @ (FileError::Db(_) | FileError::Bucket(_))) => return Err(error),
                    Err(error) => {
                        moved.failed += 1;
                        let hash = &blob.hash;
                        report(Progress::Failed {
                            hash,
                            error: &error,
                        });
                    }
                }
            }
        }
    }

    async fn count_misplaced(&self) -> Result<(i64, i64), FileError> {
        let mut c = self.db.read().await?;
        let query = if self.bucket.is_some() {
            c.q("select count(*), cast(coalesce(sum(size_bytes), 0) as bigint) from blobs where store <> 's3' and size_bytes > $1")
                .bind(LOCAL_BYTES_MAX.cast_signed())
        } else {
            c.q("select count(*), cast(coalesce(sum(size_bytes), 0) as bigint) from blobs where store = 's3'")
        };
        Ok(query.one().await?)
    }

    async fn list_misplaced(&self, after: String) -> Result<Vec<Misplaced>, FileError> {
        let mut c = self.db.read().await?;
        let query = if self.bucket.is_some() {
            c.q("select hash, upload_id, store, size_bytes from blobs where hash > $1 and store <> 's3' and size_bytes > $3 \
                 order by hash limit $2")
                .bind(after)
                .bind(AT_ONCE)
                .bind(LOCAL_BYTES_MAX.cast_signed())
        } else {
            c.q("select hash, upload_id, store, size_bytes from blobs where hash > $1 and store = 's3' order by hash limit $2")
                .bind(after)
                .bind(AT_ONCE)
        };
        Ok(query.all().await?)
    }

    /// Moves a blob; returns false if it was deleted or moved in the meantime.
    async fn relocate_one(&self, blob: &Blob, size_bytes: u64) -> Result<bool, FileError> {
        let mut stream = match self.read(blob, 0, size_bytes).await {
            Err(FileError::NotFound) => {
                let row = locate(&mut self.db.read().await?, &blob.hash).await?;
                return row
                    .filter(|row| row == blob)
                    .map_or(Ok(false), |_| Err(FileError::Damaged));
            }
            stream => stream?,
        };
        let mut incoming = self.begin(None).await?;
        while let Some(piece) = stream.next().await {
            incoming.write(&piece?).await?;
        }
        let whole = incoming.finish().await?;
        if whole.hash != blob.hash {
            return Err(FileError::Damaged);
        }
        let published = self.publish(whole).await?;
        if !replace(&self.db, blob.clone(), published.reference()).await? {
            published.settle(None);
            return Ok(false);
        }
        if blob.store != BlobStore::Db
            && let Err(e) = self.remove_bytes(blob.clone()).await
        {
            tracing::warn!(error = %e, "the former bytes of a file are left for the next cleanup");
        }
        Ok(true)
    }
}

/// Makes the row of a blob refer to other bytes, and removes the old chunks, if there are any. Returns false if the row was changed
/// or removed in the meantime.
async fn replace(db: &Db, old: Blob, new: NewBlob) -> Result<bool, FileError> {
    db.write(Uuid::nil(), async move |c: &mut Conn| {
        let changed = c
            .q("update blobs set upload_id = $3, store = $4 where hash = $1 and upload_id = $2")
            .bind(old.hash.clone())
            .bind(old.upload_id)
            .bind(new.blob.upload_id)
            .bind(new.blob.store)
            .run()
            .await?;
        if changed == 0 {
            return Ok(false);
        }
        new.check(c).await?;
        if old.store == BlobStore::Db {
            chunks::delete(c, old.upload_id).await?;
        }
        Ok::<_, FileError>(true)
    })
    .await
}
