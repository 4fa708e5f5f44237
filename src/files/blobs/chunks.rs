//! Blobs in rows of at most 1 MiB, on `PostgreSQL`.

use bytes::Bytes;
use uuid::Uuid;

use crate::{
    db::{Conn, Db, DbError, dialect, now},
    time::Timestamp,
};

/// Maximum size of a row with a chunk of a blob.
pub(super) const CHUNK_BYTES: usize = 1024 * 1024;
/// Maximum number of incomplete uploads removed per round.
const AT_ONCE: i64 = 1000;

/// Turn shared by all uploads, so that together they delay other writes no more than one workspace would.
const TURN: Uuid = Uuid::max();

pub(super) async fn insert(db: &Db, upload: Uuid, n: i64, bytes: Bytes) -> Result<(), DbError> {
    db.write_in_turn(TURN, upload, async move |c: &mut Conn| {
        c.q("insert into blob_chunks (upload_id, n, bytes, created_at) values ($1, $2, $3, $4)")
            .bind(upload)
            .bind(n)
            .bind(bytes.to_vec())
            .bind(now())
            .run()
            .await?;
        Ok(())
    })
    .await
}

/// A chunk; `None` if it does not exist.
pub(super) async fn find(db: &Db, upload: Uuid, n: u64) -> Result<Option<Bytes>, DbError> {
    let row: Option<(Vec<u8>,)> = db
        .read()
        .await?
        .q("select bytes from blob_chunks where upload_id = $1 and n = $2")
        .bind(upload)
        .bind(i64::try_from(n).unwrap_or(i64::MAX))
        .opt()
        .await?;
    Ok(row.map(|(bytes,)| Bytes::from(bytes)))
}

/// Removes the chunks of an upload, unless a row refers to them.
///
/// The lock is taken first, in a separate statement. `is_complete` holds the lock until its transaction ends,
/// so that the deletion sees the row that this transaction has inserted.
pub(super) async fn remove(db: &Db, upload: Uuid) -> Result<u64, DbError> {
    db.write_in_turn(TURN, upload, async move |c: &mut Conn| {
        dialect::lock_chunks(c, upload).await?;
        c.q("delete from blob_chunks where upload_id = $1 and not exists (select 1 from blobs b where b.upload_id = $1)")
            .bind(upload)
            .run()
            .await
    })
    .await
}

/// Removes the chunks of an upload in the transaction that removes or changes its row.
pub(super) async fn delete(c: &mut Conn, upload: Uuid) -> Result<(), DbError> {
    c.q("delete from blob_chunks where upload_id = $1")
        .bind(upload)
        .run()
        .await?;
    Ok(())
}

/// Locks the chunks of an upload until the transaction ends, and returns true if none is missing.
pub(super) async fn is_complete(
    c: &mut Conn,
    upload: Uuid,
    size_bytes: i64,
) -> Result<bool, DbError> {
    let stored = dialect::lock_chunks(c, upload).await?;
    Ok(stored
        == u64::try_from(size_bytes)
            .unwrap_or_default()
            .div_ceil(CHUNK_BYTES as u64))
}

/// Removes the chunks of uploads that were started before `before`, have no row, and have received no chunk since that time.
pub(super) async fn sweep(db: &Db, before: Timestamp) -> Result<usize, DbError> {
    // Upload IDs are sorted by time.
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
            and not exists (select 1 from blobs b where b.upload_id = ch.upload_id) \
            and not exists (select 1 from blob_chunks l where l.upload_id = ch.upload_id and l.created_at >= $2) \
            order by upload_id limit $3")
        .bind(oldest)
        .bind(before)
        .bind(AT_ONCE)
        .all()
        .await?;
    let n = abandoned.len();
    for (upload,) in abandoned {
        remove(db, upload).await?;
    }
    Ok(n)
}
