//! Versions of the files of a collection by path.
//!
//! ```text
//! put ─► no file at the path, or one without text ─► vector_store_files
//!     └► a file with text ─► vector_store_versions ─► settle: its text is in the index ─► the two change places
//!                                                  └► its text cannot be read: it stays, and the old text, too
//! replaced ─► out of the index at once, readable for 90 days ─► delete_old
//! ```
//!
//! A file without a purpose belongs to its vector stores, and is deleted when it has left them. Other files stay with their uploader.

use std::{collections::BTreeSet, time::Duration};

use uuid::Uuid;

use super::{CollectionError, event, paths::StorePath};
use crate::{
    agents::derived::{self, Change, SourceId},
    db::{Conn, Db, DbError, now},
    files::{
        self, Stored,
        documents::{self, DocumentState},
    },
    ids::{FileId, UserId, VectorStoreId, WorkspaceId},
    realtime::EventType,
    tasks::actions,
    time::Timestamp,
};

/// Maximum number of files of a vector store.
const FILES_MAX: i64 = 10_000;
/// Time for which a replaced file stays readable for those who follow a citation.
const REPLACED_FOR: Duration = Duration::from_hours(90 * 24);
/// Time of the oldest replacement whose file can still be read.
pub(super) fn readable_since() -> Timestamp {
    now() - REPLACED_FOR
}

/// Maximum number of files that a transaction removes.
pub(super) const AT_ONCE: i64 = 200;

/// A file that is put at a path.
#[derive(Debug, Clone)]
pub(super) struct NewVersion {
    pub(super) path: StorePath,
    /// JSON object; `None` keeps the attributes of the file at the path.
    pub(super) attributes: Option<String>,
    pub(super) batch: Option<Uuid>,
}

/// The file at a path.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct Current {
    pub(super) file_id: FileId,
    pub(super) hash: String,
    attributes: String,
    /// True if searches find its text.
    is_indexed: bool,
}

/// Locks the files of a vector store until the transaction ends, so that concurrent changes of one path follow each other.
pub(super) async fn lock(c: &mut Conn, store: VectorStoreId) -> Result<(), DbError> {
    c.q("update vector_stores set version = version where id = $1")
        .bind(store)
        .run()
        .await?;
    Ok(())
}

pub(super) async fn find_current(
    c: &mut Conn,
    store: VectorStoreId,
    path: &StorePath,
) -> Result<Option<Current>, DbError> {
    c.q("select vf.file_id, f.hash, vf.attributes, coalesce(s.is_complete, FALSE) as is_indexed from vector_store_files vf \
         join files f on f.id = vf.file_id left join passage_sets s on s.file_id = f.id \
         where vf.store_id = $1 and vf.path = $2")
        .bind(store)
        .bind(path.as_str().to_owned())
        .opt()
        .await
}

/// The file that will replace the one at a path.
pub(super) async fn find_next(
    c: &mut Conn,
    store: VectorStoreId,
    path: &StorePath,
) -> Result<Option<Current>, DbError> {
    c.q("select vf.file_id, f.hash, vf.attributes, FALSE as is_indexed from vector_store_versions vf join files f on f.id = vf.file_id \
         where vf.store_id = $1 and vf.path = $2 and vf.replaced_at is null")
        .bind(store)
        .bind(path.as_str().to_owned())
        .opt()
        .await
}

/// Number of files of a vector store, without versions.
async fn count(c: &mut Conn, store: VectorStoreId) -> Result<i64, DbError> {
    c.q("select count(*) from vector_store_files where store_id = $1")
        .bind(store)
        .value()
        .await
}

/// Path of a file that is in the vector store, or will replace another one there.
pub(super) async fn find_path(
    c: &mut Conn,
    store: VectorStoreId,
    file: FileId,
) -> Result<Option<String>, DbError> {
    let found: Option<(String,)> = c
        .q("select coalesce(vf.path, f.name) from vector_store_files vf join files f on f.id = vf.file_id \
            where vf.store_id = $1 and vf.file_id = $2 union all select path from vector_store_versions \
            where store_id = $1 and file_id = $2 and replaced_at is null")
        .bind(store)
        .bind(file)
        .opt()
        .await?;
    Ok(found.map(|(path,)| path))
}

/// Puts a file at a path. It replaces the file there at once if that one has no text, or else when its own text is in the index. A file
/// that is already there only gets the attributes and the batch.
///
/// # Errors
/// `TooManyFiles`; `Invalid` if the file is at another path.
pub(super) async fn put(
    c: &mut Conn,
    store: VectorStoreId,
    stored: &Stored,
    new: &NewVersion,
) -> Result<(), CollectionError> {
    let file = stored.about.id;
    lock(c, store).await?;
    if let Some(path) = find_path(c, store, file).await? {
        if path != new.path.as_str() {
            let text = format!("the file is already in this vector store, at `{path}`");
            return Err(CollectionError::Invalid(text, "path"));
        }
        return Ok(update(c, store, file, new).await?);
    }
    // A replaced file comes back.
    c.q("delete from vector_store_versions where store_id = $1 and file_id = $2")
        .bind(store)
        .bind(file)
        .run()
        .await?;
    documents::restore_passages(c, stored.workspace_id, file, &stored.blob.hash).await?;
    if let Some(next) = find_next(c, store, &new.path).await? {
        drop_version(c, store, next.file_id).await?;
    }
    let current = find_current(c, store, &new.path).await?;
    let attributes = new.attributes.clone();
    let attributes = attributes.or_else(|| current.as_ref().map(|of| of.attributes.clone()));
    let attributes = attributes.unwrap_or_else(|| "{}".to_owned());
    match current {
        Some(current) if current.is_indexed => {
            c.q("insert into vector_store_versions (store_id, file_id, path, attributes, batch_id, replaced_at, created_at) \
                 values ($1, $2, $3, $4, $5, null, $6)")
                .bind(store)
                .bind(file)
                .bind(new.path.as_str().to_owned())
                .bind(attributes)
                .bind(new.batch)
                .bind(now())
                .run()
                .await?;
        }
        current => {
            if let Some(current) = current {
                remove_row(c, store, current.file_id).await?;
                release(c, current.file_id).await?;
            } else if count(c, store).await? >= FILES_MAX {
                return Err(CollectionError::TooManyFiles(FILES_MAX));
            }
            insert(c, store, file, &new.path, attributes, new.batch).await?;
        }
    }
    event::announce(c, store, EventType::VectorStoreUpdated).await?;
    Ok(())
}

async fn update(
    c: &mut Conn,
    store: VectorStoreId,
    file: FileId,
    new: &NewVersion,
) -> Result<(), DbError> {
    for sql in [
        "update vector_store_files set attributes = coalesce($3, attributes), batch_id = coalesce($4, batch_id) \
         where store_id = $1 and file_id = $2",
        "update vector_store_versions set attributes = coalesce($3, attributes), batch_id = coalesce($4, batch_id) \
         where store_id = $1 and file_id = $2",
    ] {
        c.q(sql)
            .bind(store)
            .bind(file)
            .bind(new.attributes.clone())
            .bind(new.batch)
            .run()
            .await?;
    }
    Ok(())
}

async fn insert(
    c: &mut Conn,
    store: VectorStoreId,
    file: FileId,
    path: &StorePath,
    attributes: String,
    batch: Option<Uuid>,
) -> Result<(), DbError> {
    c.q("insert into vector_store_files (store_id, file_id, path, attributes, batch_id, created_at) values ($1, $2, $3, $4, $5, $6)")
        .bind(store)
        .bind(file)
        .bind(path.as_str().to_owned())
        .bind(attributes)
        .bind(batch)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

async fn remove_row(c: &mut Conn, store: VectorStoreId, file: FileId) -> Result<u64, DbError> {
    c.q("delete from vector_store_files where store_id = $1 and file_id = $2")
        .bind(store)
        .bind(file)
        .run()
        .await
}

/// Removes a version that waits or was replaced. Returns false if there is none.
pub(super) async fn drop_version(
    c: &mut Conn,
    store: VectorStoreId,
    file: FileId,
) -> Result<bool, DbError> {
    let removed = c
        .q("delete from vector_store_versions where store_id = $1 and file_id = $2")
        .bind(store)
        .bind(file)
        .run()
        .await?;
    if removed > 0 {
        release(c, file).await?;
    }
    Ok(removed > 0)
}

/// Removes a file or a version from a vector store, and nothing else at its path.
async fn remove_one(c: &mut Conn, store: VectorStoreId, file: FileId) -> Result<(), DbError> {
    if remove_row(c, store, file).await? > 0 {
        release(c, file).await?;
    } else {
        drop_version(c, store, file).await?;
    }
    Ok(())
}

/// Removes a file from a vector store, with the versions and the web page at its path. Returns false if it is not in there.
pub(super) async fn remove(
    c: &mut Conn,
    store: VectorStoreId,
    file: FileId,
) -> Result<bool, DbError> {
    let removed: Option<(Option<String>,)> = c
        .q("delete from vector_store_files where store_id = $1 and file_id = $2 returning path")
        .bind(store)
        .bind(file)
        .opt()
        .await?;
    let Some((path,)) = removed else {
        return drop_version(c, store, file).await;
    };
    release(c, file).await?;
    if let Some(path) = path {
        let others: Vec<(FileId,)> = c
            .q("select file_id from vector_store_versions where store_id = $1 and path = $2 order by file_id limit $3")
            .bind(store)
            .bind(path.clone())
            .bind(AT_ONCE)
            .all()
            .await?;
        for (other,) in others {
            drop_version(c, store, other).await?;
        }
        // `delete_old` removes the rest, which can no longer be read.
        c.q("update vector_store_versions set replaced_at = $3 where store_id = $1 and path = $2")
            .bind(store)
            .bind(path.clone())
            .bind(readable_since())
            .run()
            .await?;
        remove_page(c, store, &path).await?;
    }
    Ok(true)
}

/// Forgets the web page at a path. Returns false if there is none.
pub(super) async fn remove_page(
    c: &mut Conn,
    store: VectorStoreId,
    path: &str,
) -> Result<bool, DbError> {
    let removed = c
        .q("delete from vector_store_urls where store_id = $1 and path = $2")
        .bind(store)
        .bind(path.to_owned())
        .run()
        .await?;
    Ok(removed > 0)
}

/// Removes a file that is, or waits to be, the newest at its path, together with the one that it would have replaced.
pub(super) async fn remove_path_of(
    c: &mut Conn,
    store: VectorStoreId,
    file: FileId,
) -> Result<bool, DbError> {
    let current: Option<(FileId,)> = c
        .q("select vf.file_id from vector_store_files vf where vf.store_id = $1 and (vf.file_id = $2 or vf.path = \
            (select r.path from vector_store_versions r where r.store_id = $1 and r.file_id = $2 and r.replaced_at is null))")
        .bind(store)
        .bind(file)
        .opt()
        .await?;
    match current {
        Some((current,)) => remove(c, store, current).await,
        None => Ok(false),
    }
}

/// Ends the use of a file by a vector store that no longer has it: its quotations are forgotten, and it is deleted if it was only there.
pub(super) async fn release(c: &mut Conn, file: FileId) -> Result<(), DbError> {
    let is_cited: bool = c
        .q("select exists (select 1 from citations where source_type = $2 and source_id = $1)")
        .bind(file)
        .bind(SourceId::File(file).kind())
        .value()
        .await?;
    if is_cited {
        derived::changed(c, SourceId::File(file), Change::Deleted).await?;
        actions::forget_files(c, &[file], derived::DELETED).await?;
    }
    let is_unused: bool = c
        .q("select exists (select 1 from files f where f.id = $1 and f.purpose is null and f.message_id is null) \
            and not exists (select 1 from vector_store_files where file_id = $1) \
            and not exists (select 1 from vector_store_versions where file_id = $1)")
        .bind(file)
        .value()
        .await?;
    if is_unused {
        files::delete_loose(c, file).await?;
        return Ok(());
    }
    // Another vector store may only keep it as a replaced one.
    unindex(c, file).await
}

/// Takes the passages of a replaced file out of the index, unless the file is read, or will be, somewhere else.
async fn unindex(c: &mut Conn, file: FileId) -> Result<(), DbError> {
    c.q("update passage_sets set file_id = null where file_id = $1 \
         and exists (select 1 from vector_store_versions where file_id = $1) \
         and not exists (select 1 from vector_store_versions where file_id = $1 and replaced_at is null) \
         and not exists (select 1 from vector_store_files where file_id = $1) \
         and not exists (select 1 from files f where f.id = $1 and f.message_id is not null)")
        .bind(file)
        .run()
        .await?;
    Ok(())
}

/// A version whose text is in the index.
#[derive(Debug, Clone, sqlx::FromRow)]
struct Ready {
    store_id: VectorStoreId,
    file_id: FileId,
    workspace_id: WorkspaceId,
}

/// Replaces the next file whose successor has its text in the index. Returns false if there is none.
///
/// # Errors
/// Only database errors.
pub async fn settle_next(db: &Db) -> Result<bool, DbError> {
    let ready: Option<Ready> = db
        .read()
        .await?
        .q("select r.store_id, r.file_id, f.workspace_id from vector_store_versions r join files f on f.id = r.file_id \
            join documents d on d.hash = f.hash join passage_sets s on s.file_id = f.id \
            where r.replaced_at is null and s.is_complete and d.state in ($1, $2) order by r.created_at limit 1")
        .bind(DocumentState::Ready)
        .bind(DocumentState::Partial)
        .opt()
        .await?;
    let Some(ready) = ready else {
        return Ok(false);
    };
    db.write(ready.workspace_id.0, async move |c: &mut Conn| {
        lock(c, ready.store_id).await?;
        settle(c, ready.store_id, ready.file_id).await
    })
    .await?;
    Ok(true)
}

/// A row of `vector_store_versions` that takes effect.
#[derive(sqlx::FromRow)]
struct Version {
    path: String,
    attributes: String,
    batch_id: Option<Uuid>,
}

async fn settle(c: &mut Conn, store: VectorStoreId, file: FileId) -> Result<(), DbError> {
    let version: Option<Version> = c
        .q("delete from vector_store_versions where store_id = $1 and file_id = $2 and replaced_at is null \
            returning path, attributes, batch_id")
        .bind(store)
        .bind(file)
        .opt()
        .await?;
    // Another upload, or a deletion, was faster.
    let Some(version) = version else {
        return Ok(());
    };
    let path = StorePath::of_name(&version.path);
    let old: Option<(FileId, String, Option<Uuid>)> = c
        .q("delete from vector_store_files where store_id = $1 and path = $2 returning file_id, attributes, batch_id")
        .bind(store)
        .bind(version.path.clone())
        .opt()
        .await?;
    insert(c, store, file, &path, version.attributes, version.batch_id).await?;
    if let Some((old, attributes, batch)) = old {
        c.q("insert into vector_store_versions (store_id, file_id, path, attributes, batch_id, replaced_at, created_at) \
             values ($1, $2, $3, $4, $5, $6, $6)")
            .bind(store)
            .bind(old)
            .bind(version.path)
            .bind(attributes)
            .bind(batch)
            .bind(now())
            .run()
            .await?;
        unindex(c, old).await?;
    }
    event::announce(c, store, EventType::VectorStoreUpdated).await
}

/// Deletes files that were replaced 90 days ago.
///
/// # Errors
/// Only database errors.
pub async fn delete_old(db: &Db) -> Result<(), DbError> {
    loop {
        let old: Option<(WorkspaceId,)> = db
            .read()
            .await?
            .q("select f.workspace_id from vector_store_versions r join files f on f.id = r.file_id where r.replaced_at <= $1 order by r.replaced_at limit 1")
            .bind(readable_since())
            .opt()
            .await?;
        let Some((workspace,)) = old else {
            return Ok(());
        };
        db.write(workspace.0, async move |c: &mut Conn| {
            let old: Vec<(VectorStoreId, FileId)> = c
                .q("select r.store_id, r.file_id from vector_store_versions r join files f on f.id = r.file_id \
                    where r.replaced_at <= $1 and f.workspace_id = $2 order by r.replaced_at limit $3")
                .bind(readable_since())
                .bind(workspace)
                .bind(AT_ONCE)
                .all()
                .await?;
            for (store, file) in old {
                drop_version(c, store, file).await?;
            }
            Ok::<_, DbError>(())
        })
        .await?;
    }
}

/// Removes the next 200 files of a person, and their web pages, from the vector stores of a workspace. Returns the number of removed files.
///
/// # Errors
/// Only database errors.
pub async fn remove_files_of(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<usize, DbError> {
    c.q("delete from vector_store_urls where created_by = $2 and store_id in (select id from vector_stores where workspace_id = $1)")
        .bind(workspace)
        .bind(user)
        .run()
        .await?;
    let files: Vec<(VectorStoreId, FileId)> = c
        .q("select vf.store_id, vf.file_id from vector_store_files vf join files f on f.id = vf.file_id \
            where f.workspace_id = $1 and f.created_by = $2 union all \
            select vf.store_id, vf.file_id from vector_store_versions vf join files f on f.id = vf.file_id \
            where f.workspace_id = $1 and f.created_by = $2 order by store_id, file_id limit $3")
        .bind(workspace)
        .bind(user)
        .bind(AT_ONCE)
        .all()
        .await?;
    let mut stores: BTreeSet<VectorStoreId> = BTreeSet::new();
    for (store, file) in &files {
        lock(c, *store).await?;
        remove_one(c, *store, *file).await?;
        stores.insert(*store);
    }
    for store in stores {
        event::announce(c, store, EventType::VectorStoreUpdated).await?;
    }
    Ok(files.len())
}

/// Removes the next 200 files of a deleted vector store, and then its row. Returns false if there is none.
///
/// # Errors
/// Only database errors.
pub async fn purge_next(db: &Db) -> Result<bool, DbError> {
    let deleted: Option<(VectorStoreId, WorkspaceId)> = db
        .read()
        .await?
        .q("select id, workspace_id from vector_stores where deleted_at is not null order by deleted_at limit 1")
        .opt()
        .await?;
    let Some((store, workspace)) = deleted else {
        return Ok(false);
    };
    db.write(workspace.0, async move |c: &mut Conn| {
        let files: Vec<(FileId,)> = c
            .q(
                "select file_id from vector_store_files where store_id = $1 union all \
                select file_id from vector_store_versions where store_id = $1 order by file_id limit $2",
            )
            .bind(store)
            .bind(AT_ONCE)
            .all()
            .await?;
        for (file,) in &files {
            remove_one(c, store, *file).await?;
        }
        if files.is_empty() {
            c.q("delete from vector_stores where id = $1 and deleted_at is not null")
                .bind(store)
                .run()
                .await?;
        }
        Ok::<_, DbError>(())
    })
    .await?;
    Ok(true)
}
