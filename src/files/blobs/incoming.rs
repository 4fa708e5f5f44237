//! Uploads that are being written and published to their store.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::BytesMut;
use sha2::{Digest, Sha256};
use tokio::{fs::File, io::AsyncWriteExt};
use uuid::Uuid;

use super::{
    chunks::{self, CHUNK_BYTES},
    store::{Blobs, blocking, count_stored},
};
use crate::{
    db::{Conn, Engine, now},
    files::{FileError, UploadPermit, kind::HEAD_BYTES},
    storage::{Blob, BlobStore, LOCAL_BYTES_MAX, directory},
    time::Timestamp,
};

/// Maximum time between storing bytes and the row that refers to them. Bytes without a row are kept for longer.
const PUBLISH_WITHIN: Duration = Duration::from_hours(1);

/// Data of an incomplete upload.
enum Orphan {
    File(PathBuf),
    Chunks(Blobs, Uuid),
}

/// Removes the data of an incomplete upload when it is dropped, and then releases the permit for its bytes.
struct Leftover {
    orphan: Option<Orphan>,
    /// `None` when an existing blob is moved, which needs no permit.
    permit: Option<UploadPermit>,
}

impl Leftover {
    /// Disarms the guard, because another guard or a row is now responsible for the data. Overwriting the guard instead
    /// would remove the data.
    fn keep(mut self) -> Option<UploadPermit> {
        self.orphan = None;
        self.permit.take()
    }

    /// Removes the data, of which a copy exists, and returns the permit.
    fn remove(mut self) -> Option<UploadPermit> {
        self.permit.take()
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        let permit = self.permit.take();
        match self.orphan.take() {
            // If this fails, the file is already gone or will be removed at the next server start.
            Some(Orphan::File(path)) => drop(std::fs::remove_file(path)),
            Some(Orphan::Chunks(blobs, upload)) => {
                let tracker = blobs.tracker.clone();
                tracker.spawn(async move {
                    if let Err(e) = chunks::remove(&blobs.db, upload).await {
                        tracing::warn!(error = %e, "chunks of an upload are left for the next cleanup");
                    }
                    drop(permit);
                });
            }
            None => {}
        }
    }
}

enum Sink {
    File(File, PathBuf),
    /// Chunks in the database. If there is a bucket, a large upload is written to a file instead.
    Rows {
        next: i64,
        waiting: BytesMut,
    },
}

/// An upload that is being written.
pub struct Incoming {
    blobs: Blobs,
    sink: Sink,
    upload: Uuid,
    leftover: Leftover,
    hash: Sha256,
    size_bytes: u64,
    head: Vec<u8>,
}

/// A completely written upload that is not published yet.
pub struct CompleteUpload {
    leftover: Leftover,
    upload: Uuid,
    pub hash: String,
    pub size_bytes: u64,
    /// The beginning of the uploaded bytes.
    pub head: Vec<u8>,
    /// The file with the bytes; `None` if they are in the database.
    written: Option<PathBuf>,
}

/// Published bytes whose row may not be committed yet. If this value is dropped because it is unknown whether there is a row, a
/// cleanup checks later whether the bytes are used.
#[must_use]
pub struct Published {
    pub blob: Blob,
    pub size_bytes: u64,
    stored_at: Timestamp,
    blobs: Blobs,
    permit: Option<UploadPermit>,
}

impl Published {
    /// Reference to the bytes, for the transaction that stores their row.
    pub fn reference(&self) -> NewBlob {
        NewBlob {
            blob: self.blob.clone(),
            size_bytes: i64::try_from(self.size_bytes).unwrap_or(i64::MAX),
            stored_at: self.stored_at,
        }
    }

    /// Completes the publication. Must be called after the transaction has ended. `stored_as` is the upload to whose bytes the row
    /// refers, or `None` if nothing was stored. The bytes are deleted unless the row refers to them.
    pub fn settle(self, stored_as: Option<Uuid>) {
        let Self {
            blob,
            size_bytes,
            blobs,
            permit,
            ..
        } = self;
        if stored_as == Some(blob.upload_id) {
            count_stored(size_bytes);
            return;
        }
        let tracker = blobs.tracker.clone();
        tracker.spawn(async move {
            if let Err(e) = blobs.remove_bytes(blob).await {
                tracing::warn!(error = %e, "unused bytes of an upload are left for the next cleanup");
            }
            drop(permit);
        });
    }
}

/// Published bytes that a row is about to refer to.
#[derive(Debug, Clone)]
pub struct NewBlob {
    pub blob: Blob,
    pub size_bytes: i64,
    stored_at: Timestamp,
}

impl NewBlob {
    /// Checks, in the transaction that refers to the bytes, that no cleanup has removed them or can remove them until
    /// the transaction ends.
    ///
    /// # Errors
    /// `Expired`, `Db`.
    pub(super) async fn check(&self, c: &mut Conn) -> Result<(), FileError> {
        let is_there = match self.blob.store {
            BlobStore::Db => chunks::is_complete(c, self.blob.upload_id, self.size_bytes).await?,
            BlobStore::File | BlobStore::S3 => now() - PUBLISH_WITHIN < self.stored_at,
        };
        if is_there {
            Ok(())
        } else {
            Err(FileError::Expired)
        }
    }
}

impl Blobs {
    /// Begins an upload, whose bytes `permit` covers.
    ///
    /// # Errors
    /// `Io`.
    pub async fn begin(&self, permit: Option<UploadPermit>) -> Result<Incoming, FileError> {
        let upload = Uuid::now_v7();
        let (sink, orphan) = match self.db.engine() {
            Engine::Sqlite => {
                let path = self.incomplete_path(upload);
                let file = File::create_new(&path).await?;
                (Sink::File(file, path.clone()), Orphan::File(path))
            }
            Engine::Postgres => {
                let sink = Sink::Rows {
                    next: 0,
                    waiting: BytesMut::new(),
                };
                (sink, Orphan::Chunks(self.clone(), upload))
            }
        };
        Ok(Incoming {
            blobs: self.clone(),
            sink,
            upload,
            leftover: Leftover {
                orphan: Some(orphan),
                permit,
            },
            hash: Sha256::new(),
            size_bytes: 0,
            head: Vec::new(),
        })
    }

    /// Moves the bytes to their final location. The caller must commit a row that refers to them, and then call
    /// `settle`.
    ///
    /// # Errors
    /// `Io`, `Bucket`; nothing is stored in these cases.
    pub async fn publish(&self, whole: CompleteUpload) -> Result<Published, FileError> {
        let CompleteUpload {
            leftover,
            upload,
            hash,
            size_bytes,
            written,
            ..
        } = whole;
        let mut blob = Blob {
            hash,
            upload_id: upload,
            store: BlobStore::Db,
        };
        let permit = match (written, &self.bucket) {
            (Some(path), Some(bucket)) if size_bytes > LOCAL_BYTES_MAX => {
                blob.store = BlobStore::S3;
                bucket.put_file(&blob.key(), &path, size_bytes).await?;
                leftover.remove()
            }
            (Some(path), _) => {
                blob.store = BlobStore::File;
                let (directory, hash) = (Arc::clone(&self.directory), blob.hash.clone());
                blocking(move || directory::publish(&directory, &path, &hash, upload)).await?;
                leftover.keep()
            }
            (None, _) => leftover.keep(),
        };
        Ok(Published {
            blob,
            size_bytes,
            stored_at: now(),
            blobs: self.clone(),
            permit,
        })
    }
}

impl Incoming {
    /// Writes the next bytes of the upload.
    ///
    /// # Errors
    /// `Io`, `Db`; `WorkspaceFull` or `InProgress` if the permit cannot cover these bytes.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.size_bytes += bytes.len() as u64;
        if let Some(permit) = &mut self.leftover.permit {
            permit.cover(self.size_bytes).await?;
        }
        self.hash.update(bytes);
        let room = HEAD_BYTES.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        match &mut self.sink {
            Sink::File(file, _) => file.write_all(bytes).await?,
            Sink::Rows { next, waiting } => {
                waiting.extend_from_slice(bytes);
                if self.blobs.bucket.is_some() && self.size_bytes > LOCAL_BYTES_MAX {
                    let path = self.blobs.incomplete_path(self.upload);
                    let mut file = File::create_new(&path).await?;
                    // There are no chunks yet, so the previous guard has nothing to remove.
                    self.leftover.orphan = Some(Orphan::File(path.clone()));
                    file.write_all(waiting).await?;
                    self.sink = Sink::File(file, path);
                    return Ok(());
                }
                while waiting.len() >= CHUNK_BYTES {
                    let chunk = waiting.split_to(CHUNK_BYTES).freeze();
                    chunks::insert(&self.blobs.db, self.upload, *next, chunk).await?;
                    *next += 1;
                }
            }
        }
        Ok(())
    }

    /// Completes the upload; after that, the bytes are durable.
    ///
    /// # Errors
    /// `Io`, `Db`.
    pub async fn finish(self) -> Result<CompleteUpload, FileError> {
        let written = match self.sink {
            Sink::File(mut file, path) => {
                file.flush().await?;
                file.sync_all().await?;
                Some(path)
            }
            Sink::Rows { next, waiting } => {
                if !waiting.is_empty() {
                    chunks::insert(&self.blobs.db, self.upload, next, waiting.freeze()).await?;
                }
                None
            }
        };
        Ok(CompleteUpload {
            leftover: self.leftover,
            upload: self.upload,
            hash: hex::encode(self.hash.finalize()),
            size_bytes: self.size_bytes,
            head: self.head,
            written,
        })
    }
}

/// Registers stored bytes in the transaction of the row that refers to them. Returns the upload whose bytes are used,
/// which may be an earlier one.
///
/// # Errors
/// `Expired`, `Db`.
pub(crate) async fn name_blob(c: &mut Conn, new: &NewBlob) -> Result<Uuid, FileError> {
    // The update locks the row, so that it cannot be removed before this transaction commits.
    let used: Uuid = c
        .q(
            "insert into blobs (hash, upload_id, size_bytes, store, created_at) values ($1, $2, $3, $4, $5) \
             on conflict (hash) do update set size_bytes = excluded.size_bytes returning upload_id",
        )
        .bind(new.blob.hash.clone())
        .bind(new.blob.upload_id)
        .bind(new.size_bytes)
        .bind(new.blob.store)
        .bind(now())
        .value()
        .await?;
    if used == new.blob.upload_id {
        new.check(c).await?;
    }
    Ok(used)
}
