//! Stored bytes, deduplicated by SHA-256: files below the data directory with `SQLite`, rows with `PostgreSQL`.
//!
//! The bytes are stored before the row that refers to them, so a crash in between leaves unreferenced bytes, which
//! `sweep` finds. `publishing` separates publishing and removal: a publisher holds it shared until its row is
//! committed, and a removal holds it exclusively, so that nothing is removed between a check and a commit.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt},
    sync::{OwnedRwLockReadGuard, RwLock},
};
use tokio_util::{io::ReaderStream, task::TaskTracker};
use uuid::Uuid;

use super::{FileError, kind::HEAD_BYTES};
use crate::{
    db::{Conn, Db, DbError, Engine, now},
    time::Timestamp,
};

/// Maximum size of a row with a chunk of a blob.
const CHUNK_BYTES: usize = 1024 * 1024;
const READ_BYTES: usize = 64 * 1024;
const STORED_BYTES: &str = "openvibe_upload_stored_bytes";

/// The bytes of a file as a stream.
pub type Bytestream = BoxStream<'static, io::Result<Bytes>>;

#[derive(Clone)]
enum Home {
    Directory(PathBuf),
    Rows(Db),
}

/// Storage for blobs.
#[derive(Clone)]
pub struct Blobs {
    home: Home,
    publishing: Arc<RwLock<()>>,
    tracker: TaskTracker,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the precision suffices for a gauge"
)]
fn as_f64(bytes: u64) -> f64 {
    bytes as f64
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn path_of(dir: &Path, hash: &str) -> PathBuf {
    dir.join(&hash[..2]).join(hash)
}

/// Makes directory entries durable across a power failure.
fn sync_directory(dir: &Path) -> io::Result<()> {
    std::fs::File::open(dir)?.sync_all()
}

async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(act)
        .await
        .map_err(io::Error::other)?
}

/// Data left behind by an incomplete upload.
enum OrphanBlob {
    File(PathBuf),
    Rows(Db, Uuid, TaskTracker),
    Nothing,
}

impl Drop for OrphanBlob {
    fn drop(&mut self) {
        match self {
            // Already removed, or removed at the next server start.
            Self::File(path) => drop(std::fs::remove_file(path)),
            Self::Rows(db, upload, tracker) => {
                let (db, upload) = (db.clone(), *upload);
                tracker.spawn(async move {
                    if let Err(e) = remove_chunks(&db, upload).await {
                        tracing::warn!(error = %e, "chunks of an upload are left for the next cleanup");
                    }
                });
            }
            Self::Nothing => {}
        }
    }
}

async fn remove_chunks(db: &Db, upload: Uuid) -> Result<u64, DbError> {
    db.write(upload, async move |c: &mut Conn| {
        c.q("delete from blob_chunks where upload_id = $1 and not exists (select 1 from blobs b where b.upload_id = $1)")
            .bind(upload)
            .run()
            .await
    })
    .await
}

enum Sink {
    File(tokio::fs::File, PathBuf),
    Rows {
        db: Db,
        next: i64,
        waiting: BytesMut,
    },
}

/// An upload that is being written.
pub struct Incoming {
    sink: Sink,
    upload: Uuid,
    leftover: OrphanBlob,
    hash: Sha256,
    size_bytes: u64,
    head: Vec<u8>,
}

/// A completely written upload that is not published yet.
pub struct CompleteUpload {
    leftover: OrphanBlob,
    upload: Uuid,
    pub hash: String,
    pub size_bytes: u64,
    /// The beginning of the file.
    pub head: Vec<u8>,
    written: Option<PathBuf>,
}

/// Published bytes, until the row that refers to them is committed.
pub struct Published {
    pub hash: String,
    pub size_bytes: u64,
    pub upload: Uuid,
    leftover: OrphanBlob,
    _alone: OwnedRwLockReadGuard<()>,
}

impl Published {
    /// Called after the row is committed; `stored_as` is the upload whose bytes it refers to.
    pub fn keep(mut self, stored_as: Uuid) {
        if stored_as == self.upload {
            self.leftover = OrphanBlob::Nothing;
            metrics::gauge!(STORED_BYTES).increment(as_f64(self.size_bytes));
        }
    }
}

impl Blobs {
    /// Prepares the storage and removes leftovers of incomplete uploads. The data directory belongs to this process
    /// alone.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn open(db: &Db, data_dir: &Path, tracker: TaskTracker) -> io::Result<Self> {
        let home = match db.engine() {
            Engine::Sqlite => {
                let dir = data_dir.join("blobs");
                let tmp = dir.join("tmp");
                std::fs::create_dir_all(&tmp)?;
                for entry in std::fs::read_dir(&tmp)? {
                    std::fs::remove_file(entry?.path())?;
                }
                sync_directory(data_dir)?;
                Home::Directory(dir)
            }
            Engine::Postgres => Home::Rows(db.clone()),
        };
        Ok(Self {
            home,
            publishing: Arc::default(),
            tracker,
        })
    }

    /// # Errors
    /// `Io`.
    pub async fn begin(&self) -> Result<Incoming, FileError> {
        let upload = Uuid::now_v7();
        let (sink, leftover) = match &self.home {
            Home::Directory(dir) => {
                let path = dir.join("tmp").join(upload.simple().to_string());
                let file = tokio::fs::File::create_new(&path).await?;
                (Sink::File(file, path.clone()), OrphanBlob::File(path))
            }
            Home::Rows(db) => {
                let sink = Sink::Rows {
                    db: db.clone(),
                    next: 0,
                    waiting: BytesMut::new(),
                };
                (
                    sink,
                    OrphanBlob::Rows(db.clone(), upload, self.tracker.clone()),
                )
            }
        };
        Ok(Incoming {
            sink,
            upload,
            leftover,
            hash: Sha256::new(),
            size_bytes: 0,
            head: Vec::new(),
        })
    }

    /// Publishes the bytes under their hash. The caller commits a row that refers to them, and then calls `keep`.
    ///
    /// # Errors
    /// `Io`.
    pub async fn publish(&self, mut whole: CompleteUpload) -> Result<Published, FileError> {
        let alone = Arc::clone(&self.publishing).read_owned().await;
        if let (Home::Directory(dir), Some(from)) = (&self.home, whole.written.take()) {
            let (dir, to) = (dir.clone(), path_of(dir, &whole.hash));
            // Replacing existing bytes is harmless, and repairs a damaged file.
            blocking(move || {
                let parent = to.parent().unwrap_or(&dir);
                if !parent.is_dir() {
                    std::fs::create_dir_all(parent)?;
                    sync_directory(&dir)?;
                }
                std::fs::rename(from, &to)?;
                sync_directory(parent)
            })
            .await?;
            whole.leftover = OrphanBlob::Nothing;
        }
        Ok(Published {
            hash: whole.hash,
            size_bytes: whole.size_bytes,
            upload: whole.upload,
            leftover: whole.leftover,
            _alone: alone,
        })
    }

    /// Streams `len` bytes of a blob starting at `from`. Missing bytes are reported as an error of the stream or of
    /// this call.
    ///
    /// # Errors
    /// `NotFound` if the bytes no longer exist, `Io`.
    pub async fn read(&self, hash: &str, from: u64, len: u64) -> Result<Bytestream, FileError> {
        match &self.home {
            Home::Directory(dir) => {
                let opened = tokio::fs::File::open(path_of(dir, hash)).await;
                let mut file = opened.map_err(|e| match e.kind() {
                    io::ErrorKind::NotFound => FileError::NotFound,
                    _ => e.into(),
                })?;
                file.seek(io::SeekFrom::Start(from)).await?;
                Ok(ReaderStream::with_capacity(file.take(len), READ_BYTES).boxed())
            }
            Home::Rows(db) => {
                let found: Option<(Uuid,)> = db
                    .read()
                    .await?
                    .q("select upload_id from blobs where hash = $1")
                    .bind(hash.to_owned())
                    .opt()
                    .await?;
                let (upload,) = found.ok_or(FileError::NotFound)?;
                Ok(read_chunks(db.clone(), upload, from, len))
            }
        }
    }

    /// Removes bytes that are not referenced by any row. Returns the number of removed blobs.
    ///
    /// # Errors
    /// `Io`, `Db`.
    pub async fn remove_unused(&self, db: &Db, at_once: i64) -> Result<usize, FileError> {
        let unused: Vec<(String,)> = db
            .read()
            .await?
            .q("select b.hash from blobs b where not exists (select 1 from files f where f.hash = b.hash) order by b.hash limit $1")
            .bind(at_once)
            .all()
            .await?;
        let mut removed = 0;
        for (hash,) in unused {
            removed += usize::from(self.remove(db, hash).await?);
        }
        Ok(removed)
    }

    async fn remove(&self, db: &Db, hash: String) -> Result<bool, FileError> {
        let _alone = self.publishing.write().await;
        let named = hash.clone();
        let gone: Result<Option<(Uuid, i64)>, DbError> = db
            .write(Uuid::nil(), async move |c: &mut Conn| {
                let gone: Option<(Uuid, i64)> = c
                    .q("delete from blobs where hash = $1 and not exists (select 1 from files f where f.hash = $1) \
                        returning upload_id, size_bytes")
                    .bind(named.clone())
                    .opt()
                    .await?;
                if let Some((upload, _)) = gone {
                    c.q("delete from blob_chunks where upload_id = $1")
                        .bind(upload)
                        .run()
                        .await?;
                }
                Ok(gone)
            })
            .await;
        let gone = match gone {
            Ok(gone) => gone,
            // Another node has just started to use it, as the foreign key shows.
            Err(DbError::Sql(sqlx::Error::Database(e))) if e.is_foreign_key_violation() => None,
            Err(e) => return Err(e.into()),
        };
        if let Some((_, size_bytes)) = gone {
            metrics::gauge!(STORED_BYTES).decrement(as_f64(size_bytes.unsigned_abs()));
            self.unlink(hash).await?;
        }
        Ok(gone.is_some())
    }

    async fn unlink(&self, hash: String) -> io::Result<()> {
        let Home::Directory(dir) = &self.home else {
            return Ok(());
        };
        match tokio::fs::remove_file(path_of(dir, &hash)).await {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Sums up the stored bytes by scanning the rows of all blobs.
    ///
    /// # Errors
    /// `Db`.
    pub async fn measure(&self, db: &Db) -> Result<(), FileError> {
        // Blocks publishing and removal in the meantime.
        let _alone = self.publishing.write().await;
        let sum: i64 = db
            .read()
            .await?
            .q("select cast(coalesce(sum(size_bytes), 0) as bigint) from blobs")
            .value()
            .await?;
        metrics::gauge!(STORED_BYTES).set(as_f64(sum.unsigned_abs()));
        Ok(())
    }

    /// Removes leftovers of crashes between storing bytes and their row: files without a row, and chunks of uploads
    /// that began before `before`.
    ///
    /// # Errors
    /// `Io`, `Db`.
    pub async fn sweep(&self, db: &Db, before: Timestamp) -> Result<usize, FileError> {
        let Home::Directory(dir) = &self.home else {
            return self.sweep_chunks(db, before).await;
        };
        let dir = dir.clone();
        let stored = blocking(move || list(&dir)).await?;
        if stored.is_empty() {
            return Ok(0);
        }
        let known: Vec<(String,)> = db
            .read()
            .await?
            .q("select hash from blobs order by hash")
            .all()
            .await?;
        let known: HashSet<String> = known.into_iter().map(|(hash,)| hash).collect();
        let mut removed = 0;
        for hash in stored.into_iter().filter(|hash| !known.contains(hash)) {
            let _alone = self.publishing.write().await;
            let named: Option<(i64,)> = db
                .read()
                .await?
                .q("select size_bytes from blobs where hash = $1")
                .bind(hash.clone())
                .opt()
                .await?;
            if named.is_none() {
                self.unlink(hash).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    async fn sweep_chunks(&self, db: &Db, before: Timestamp) -> Result<usize, FileError> {
        // Upload IDs are ordered by time.
        let stamp = uuid::Timestamp::from_unix(
            uuid::NoContext,
            u64::try_from(before.unix_s()).unwrap_or_default(),
            0,
        );
        let oldest = Uuid::new_v7(stamp);
        let abandoned: Vec<(Uuid,)> = db
            .read()
            .await?
            .q("select distinct upload_id from blob_chunks ch where upload_id < $1 \
                and not exists (select 1 from blobs b where b.upload_id = ch.upload_id) order by upload_id limit 1000")
            .bind(oldest)
            .all()
            .await?;
        let n = abandoned.len();
        for (upload,) in abandoned {
            remove_chunks(db, upload).await?;
        }
        Ok(n)
    }
}

/// Hashes of the blobs in a directory.
fn list(dir: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in std::fs::read_dir(dir)? {
        let folder = folder?;
        if folder.file_name() == "tmp" || !folder.file_type()?.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(folder.path())? {
            let name = entry?.file_name();
            found.extend(
                name.to_str()
                    .filter(|name| is_hash(name))
                    .map(str::to_owned),
            );
        }
    }
    Ok(found)
}

fn read_chunks(db: Db, upload: Uuid, from: u64, len: u64) -> Bytestream {
    let chunk = CHUNK_BYTES as u64;
    let end = from + len;
    futures::stream::try_unfold(from, move |at| {
        let db = db.clone();
        async move {
            if at >= end {
                return Ok(None);
            }
            let row: Option<(Vec<u8>,)> = db
                .read()
                .await?
                .q("select bytes from blob_chunks where upload_id = $1 and n = $2")
                .bind(upload)
                .bind(i64::try_from(at / chunk).unwrap_or(i64::MAX))
                .opt()
                .await?;
            let bytes = Bytes::from(row.map(|row| row.0).unwrap_or_default());
            let begin = usize::try_from(at % chunk).unwrap_or(0).min(bytes.len());
            let most = usize::try_from(end - at).unwrap_or(usize::MAX);
            let piece = bytes.slice(begin..bytes.len().min(begin.saturating_add(most)));
            if piece.is_empty() {
                return Err(DbError::Sql(sqlx::Error::RowNotFound));
            }
            let next = at + piece.len() as u64;
            Ok(Some((piece, next)))
        }
    })
    .map_err(io::Error::other)
    .boxed()
}

async fn insert_chunk(db: &Db, upload: Uuid, n: i64, bytes: Bytes) -> Result<(), DbError> {
    db.write(upload, async move |c: &mut Conn| {
        c.q("insert into blob_chunks (upload_id, n, bytes) values ($1, $2, $3)")
            .bind(upload)
            .bind(n)
            .bind(bytes.to_vec())
            .run()
            .await?;
        Ok(())
    })
    .await
}

impl Incoming {
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// # Errors
    /// `Io`, `Db`.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.hash.update(bytes);
        self.size_bytes += bytes.len() as u64;
        let room = HEAD_BYTES.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        match &mut self.sink {
            Sink::File(file, _) => file.write_all(bytes).await?,
            Sink::Rows { db, next, waiting } => {
                waiting.extend_from_slice(bytes);
                while waiting.len() >= CHUNK_BYTES {
                    let chunk = waiting.split_to(CHUNK_BYTES).freeze();
                    insert_chunk(db, self.upload, *next, chunk).await?;
                    *next += 1;
                }
            }
        }
        Ok(())
    }

    /// Completes the upload; the bytes are durable afterwards.
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
            Sink::Rows {
                db, next, waiting, ..
            } => {
                if !waiting.is_empty() {
                    insert_chunk(&db, self.upload, next, waiting.freeze()).await?;
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
pub(super) async fn name_blob(
    c: &mut Conn,
    hash: &str,
    upload: Uuid,
    size_bytes: i64,
) -> Result<Uuid, DbError> {
    // The update locks the row, so that it cannot be removed before this transaction commits.
    c.q(
        "insert into blobs (hash, upload_id, size_bytes, created_at) values ($1, $2, $3, $4) \
         on conflict (hash) do update set size_bytes = excluded.size_bytes returning upload_id",
    )
    .bind(hash.to_owned())
    .bind(upload)
    .bind(size_bytes)
    .bind(now())
    .value()
    .await
}
