//! Removes unreferenced blobs, and leftovers of incomplete uploads.

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use futures::StreamExt;
use uuid::Uuid;

use super::{
    chunks,
    store::{Blobs, blocking, count_removed, set_stored},
};
use crate::{
    db::{Conn, Db, DbError, Engine},
    files::FileError,
    storage::{Blob, BlobStore, Bucket, directory},
    time::Timestamp,
};

/// Maximum number of objects compared with the rows at a time.
const OBJECTS_AT_ONCE: usize = 1000;

/// A blob whose row was removed.
#[derive(sqlx::FromRow)]
struct Removed {
    #[sqlx(flatten)]
    blob: Blob,
    size_bytes: i64,
}

impl Blobs {
    /// Removes bytes to which no row refers. Returns the number of removed blobs.
    ///
    /// # Errors
    /// `Io`, `Bucket`, `Db`. Bytes that could not be deleted have no row anymore, so `sweep` finds them.
    pub async fn remove_unused(&self, db: &Db, at_once: i64) -> Result<usize, FileError> {
        let unused: Vec<(String,)> = db
            .read()
            .await?
            .q("select b.hash from blobs b where not exists (select 1 from files f where f.hash = b.hash) \
                and not exists (select 1 from import_pieces p where p.hash = b.hash) \
                and not exists (select 1 from export_pieces e where e.hash = b.hash) order by b.hash limit $1")
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
        let gone: Result<Option<Removed>, DbError> = db
            .write(Uuid::nil(), async move |c: &mut Conn| {
                let gone: Option<Removed> = c
                    .q("delete from blobs where hash = $1 and not exists (select 1 from files f where f.hash = $1) \
                        and not exists (select 1 from import_pieces p where p.hash = $1) \
                        and not exists (select 1 from export_pieces e where e.hash = $1) \
                        returning hash, upload_id, store, size_bytes")
                    .bind(hash.clone())
                    .opt()
                    .await?;
                if let Some(gone) = gone.as_ref().filter(|gone| gone.blob.store == BlobStore::Db) {
                    chunks::delete(c, gone.blob.upload_id).await?;
                }
                Ok(gone)
            })
            .await;
        let gone = match gone {
            Ok(gone) => gone,
            // Another node has just started using the blob, as the violated foreign key shows.
            Err(DbError::Sql(sqlx::Error::Database(e))) if e.is_foreign_key_violation() => None,
            Err(e) => return Err(e.into()),
        };
        let Some(Removed { blob, size_bytes }) = gone else {
            return Ok(false);
        };
        count_removed(size_bytes.unsigned_abs());
        if blob.store != BlobStore::Db {
            self.remove_bytes(blob).await?;
        }
        Ok(true)
    }

    /// Sums up the stored bytes by scanning the rows of all blobs.
    ///
    /// # Errors
    /// `Db`.
    pub async fn measure(&self, db: &Db) -> Result<(), FileError> {
        let sum: i64 = db
            .read()
            .await?
            .q("select cast(coalesce(sum(size_bytes), 0) as bigint) from blobs")
            .value()
            .await?;
        set_stored(sum.unsigned_abs());
        Ok(())
    }

    /// Removes leftovers that are older than `before`: files and objects without a row, which remain after a crash between storing
    /// the bytes and committing the row, and chunks of incomplete uploads.
    ///
    /// # Errors
    /// `Io`, `Bucket`, `Db`.
    pub async fn sweep(&self, db: &Db, before: Timestamp) -> Result<usize, FileError> {
        let mut removed = self.sweep_files(db, before).await?;
        if db.engine() == Engine::Postgres {
            removed += chunks::sweep(db, before).await?;
        }
        let has_objects = self.bucket.is_some() || any_in_bucket(&mut db.read().await?).await?;
        if has_objects {
            removed += sweep_objects(db, &self.bucket().await?, before).await?;
        }
        Ok(removed)
    }

    async fn sweep_files(&self, db: &Db, before: Timestamp) -> Result<usize, FileError> {
        let before = SystemTime::from(before.datetime());
        let (dir, moving) = (Arc::clone(&self.directory), self.moving_directory());
        let list = move || {
            let incomplete = directory::list_incomplete(&moving)?;
            for (path, modified) in incomplete {
                if modified < before {
                    directory::remove_listed(&path)?;
                }
            }
            directory::list(&dir)
        };
        let mut stored = blocking(list).await?;
        stored.retain(|file| file.modified < before);
        if stored.is_empty() {
            return Ok(0);
        }
        let known: Vec<(String, Uuid)> = db
            .read()
            .await?
            .q("select hash, upload_id from blobs where store = 'file' order by hash")
            .all()
            .await?;
        let known: HashMap<String, Uuid> = known.into_iter().collect();
        stored.retain(|file| known.get(&file.hash) != Some(&file.upload_id));
        let remove = move || {
            for file in &stored {
                directory::remove_listed(&file.path)?;
            }
            Ok(stored.len())
        };
        Ok(blocking(remove).await?)
    }
}

async fn any_in_bucket(c: &mut Conn) -> Result<bool, DbError> {
    c.q("select exists (select 1 from blobs where store = 's3')")
        .value()
        .await
}

/// Deletes objects without a row. Objects that are not blobs are left alone.
async fn sweep_objects(db: &Db, bucket: &Bucket, before: Timestamp) -> Result<usize, FileError> {
    let before = before.datetime();
    let (mut objects, mut old, mut removed) = (bucket.list(), Vec::new(), 0);
    while let Some(object) = objects.next().await.transpose()? {
        old.extend(Some(object.key).filter(|_| object.modified < before));
        if old.len() == OBJECTS_AT_ONCE {
            removed += delete_unknown(db, bucket, std::mem::take(&mut old)).await?;
        }
    }
    Ok(removed + delete_unknown(db, bucket, old).await?)
}

/// Deletes the given objects that have no row. `keys` must be sorted by hash.
async fn delete_unknown(db: &Db, bucket: &Bucket, keys: Vec<String>) -> Result<usize, FileError> {
    let blobs: Vec<(&str, Uuid)> = keys.iter().filter_map(|key| Blob::parse_key(key)).collect();
    let (Some((first, _)), Some((last, _))) = (blobs.first(), blobs.last()) else {
        return Ok(0);
    };
    let known: Vec<(String, Uuid)> = db
        .read()
        .await?
        .q("select hash, upload_id from blobs where store = 's3' and hash >= $1 and hash <= $2 order by hash")
        .bind((*first).to_owned())
        .bind((*last).to_owned())
        .all()
        .await?;
    let known: HashMap<String, Uuid> = known.into_iter().collect();
    let mut removed = 0;
    for (hash, upload) in blobs {
        if known.get(hash) != Some(&upload) {
            bucket.delete(&format!("{hash}/{upload}")).await?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Size of the blobs that are stored in `PostgreSQL`, in bytes.
///
/// # Errors
/// `Db`.
pub async fn bytes_in_database(c: &mut Conn) -> Result<i64, DbError> {
    c.q("select cast(coalesce(sum(size_bytes), 0) as bigint) from blobs where store = 'db'")
        .value()
        .await
}
