//! Comparison of a directory with the files of a collection, and uploads by path.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    CollectionError,
    contents::check_room,
    event,
    files::{StoreFile, find_in},
    paths::StorePath,
    stores::{StoreRef, find, find_to_change},
    versions::{self, NewVersion},
};
use crate::{
    auth::Actor,
    db::{Conn, DbError},
    files::{self, FileError, NewFile},
    ids::{FileId, VectorStoreId},
    realtime::EventType,
};

/// Maximum number of files of a request.
const FILES_MAX: usize = 10_000;
/// Maximum number of files that are removed in a transaction.
pub const REMOVED_AT_ONCE: usize = 200;

/// A file of the directory.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SyncedFile {
    /// Names with slashes between them, without `.` and `..`; at most 512 characters.
    pub path: String,
    /// SHA-256 of the bytes, hexadecimal.
    pub sha256: String,
    /// Size in bytes.
    pub size: i64,
}

/// Files of a directory.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SyncForm {
    /// At most 10,000.
    #[schema(max_items = 10_000)]
    pub files: Vec<SyncedFile>,
    /// True to remove the files at other paths, except for web pages.
    #[serde(default)]
    pub delete: bool,
}

/// Difference between a directory and a vector store.
#[derive(Debug, Serialize, ToSchema)]
pub struct SyncResult {
    /// Paths whose files are to be sent.
    pub missing: Vec<String>,
    /// Number of files that the vector store has.
    pub unchanged: i64,
    /// Paths whose files were removed.
    pub removed: Vec<String>,
}

/// A file at a path that the directory does not have.
#[derive(Debug, Clone)]
pub struct SurplusFile {
    pub file: FileId,
    pub path: String,
}

/// Result of a comparison.
#[derive(Debug)]
pub struct Comparison {
    pub missing: Vec<String>,
    pub unchanged: i64,
    pub surplus: Vec<SurplusFile>,
}

/// Newest file at a path.
#[derive(sqlx::FromRow)]
struct Known {
    file_id: FileId,
    path: String,
    hash: String,
    size_bytes: i64,
    is_page: bool,
}

macro_rules! known_sql {
    ($table:literal, $tail:literal) => {
        concat!(
            "select vf.file_id, coalesce(vf.path, f.name) as path, f.hash, f.size_bytes, \
             exists (select 1 from vector_store_urls u where u.store_id = vf.store_id and u.path = vf.path) as is_page from ",
            $table,
            " vf join files f on f.id = vf.file_id where vf.store_id = $1 ",
            $tail
        )
    };
}

/// The newest files of a vector store by path.
async fn list_known(
    c: &mut Conn,
    store: VectorStoreId,
) -> Result<BTreeMap<String, Known>, DbError> {
    let mut all = BTreeMap::new();
    for sql in [
        known_sql!("vector_store_files", "order by vf.file_id"),
        known_sql!(
            "vector_store_versions",
            "and vf.replaced_at is null and exists (select 1 from vector_store_files cf where cf.store_id = vf.store_id and cf.path = vf.path) \
             order by vf.file_id"
        ),
    ] {
        let rows: Vec<Known> = c.q(sql).bind(store).all().await?;
        all.extend(rows.into_iter().map(|row| (row.path.clone(), row)));
    }
    Ok(all)
}

fn invalid(text: String) -> CollectionError {
    CollectionError::Invalid(text, "files")
}

/// Compares a directory with a vector store. To remove files, the person must be able to change it.
///
/// # Errors
/// `NotFound`, `Invalid`; with `delete`, `NotEditor`, and `SyncIncomplete` if files are missing.
pub async fn compare(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    form: &SyncForm,
) -> Result<Comparison, CollectionError> {
    let store = if form.delete {
        find_to_change(c, actor, named).await?.id
    } else {
        find(c, actor, named).await?.id
    };
    if form.files.len() > FILES_MAX {
        return Err(invalid(format!(
            "at most {FILES_MAX} files can be compared"
        )));
    }
    let known = list_known(c, store).await?;
    let mut seen = BTreeSet::new();
    let (mut missing, mut unchanged) = (Vec::new(), 0);
    for file in &form.files {
        let path = StorePath::parse(&file.path)?.as_str().to_owned();
        let is_hash = file.sha256.len() == 64 && hex::decode(&file.sha256).is_ok();
        if !is_hash || file.size < 0 {
            let text = "sha256 must have 64 hexadecimal digits, and size must not be negative";
            return Err(invalid(text.to_owned()));
        }
        let is_equal = known.get(&path).is_some_and(|known| {
            known.hash.eq_ignore_ascii_case(&file.sha256) && known.size_bytes == file.size
        });
        if !seen.insert(path.clone()) {
            return Err(invalid(format!("`{path}` is named twice")));
        }
        if is_equal {
            unchanged += 1;
        } else {
            missing.push(path);
        }
    }
    if form.delete && !missing.is_empty() {
        return Err(CollectionError::SyncIncomplete(missing.len()));
    }
    let surplus = known
        .into_values()
        .filter(|known| form.delete && !known.is_page && !seen.contains(&known.path));
    Ok(Comparison {
        missing,
        unchanged,
        surplus: surplus
            .map(|known| SurplusFile {
                file: known.file_id,
                path: known.path,
            })
            .collect(),
    })
}

/// Removes files that a comparison found, and returns their paths. Files that left their paths in the meantime are left out.
///
/// # Errors
/// `NotFound`, `NotEditor`.
pub async fn remove_surplus(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    surplus: &[SurplusFile],
) -> Result<Vec<String>, CollectionError> {
    let store = find_to_change(c, actor, named).await?.id;
    versions::lock(c, store).await?;
    let mut removed = Vec::new();
    for found in surplus {
        // Without the check, an upload that came in between would be removed with the file that it replaces.
        let newest = match StorePath::parse(&found.path) {
            Ok(path) => versions::find_next(c, store, &path).await?,
            Err(_) => None,
        };
        if newest.is_some_and(|newest| newest.file_id != found.file) {
            continue;
        }
        if versions::remove_path_of(c, store, found.file).await? {
            removed.push(found.path.clone());
        }
    }
    if !removed.is_empty() {
        event::announce(c, store, EventType::VectorStoreUpdated).await?;
    }
    Ok(removed)
}

/// Result of an upload to a path.
#[derive(Debug)]
pub enum PutFile {
    /// The file was stored, and uses the bytes of this upload.
    Stored(StoreFile, Uuid),
    /// The newest file at the path has the same bytes.
    Equal(StoreFile),
}

/// Checks whether the person can put files into a vector store, before an upload.
///
/// # Errors
/// `NotFound`, `NotEditor`.
pub async fn check_put(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
) -> Result<(), CollectionError> {
    find_to_change(c, actor, named).await.map(|_| ())
}

/// Puts stored bytes at a path.
///
/// # Errors
/// `NotFound`, `NotEditor`, `TooManyFiles`, `TooManyPassages`, `QuotaExceeded`, `Expired`.
pub async fn put_path(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    path: &StorePath,
    new: &NewFile,
) -> Result<PutFile, CollectionError> {
    let store = find_to_change(c, actor, named).await?.id;
    put_in(c, actor, store, path, new).await
}

/// Like `put_path`, for a vector store that the person can change.
pub(super) async fn put_in(
    c: &mut Conn,
    actor: &Actor<'_>,
    store: VectorStoreId,
    path: &StorePath,
    new: &NewFile,
) -> Result<PutFile, CollectionError> {
    versions::lock(c, store).await?;
    let hash = &new.blob.blob.hash;
    let next = versions::find_next(c, store, path).await?;
    let current = versions::find_current(c, store, path).await?;
    // One that failed, and whose predecessor was deleted, is not listed: it is stored again.
    if let Some(next) = &next
        && next.hash == *hash
        && current.is_some()
    {
        return Ok(PutFile::Equal(find_in(c, store, next.file_id).await?));
    }
    if let Some(current) = current
        && current.hash == *hash
    {
        // The old bytes come back before the new ones were read.
        if let Some(next) = next {
            versions::drop_version(c, store, next.file_id).await?;
            event::announce(c, store, EventType::VectorStoreUpdated).await?;
        }
        return Ok(PutFile::Equal(find_in(c, store, current.file_id).await?));
    }
    check_room(c, actor.workspace).await?;
    let (file, upload) = files::insert(c, actor, new).await?;
    let stored = files::find(c, file.id).await?.ok_or(FileError::NotFound)?;
    let version = NewVersion {
        path: path.clone(),
        attributes: None,
        batch: None,
    };
    versions::put(c, store, &stored, &version).await?;
    Ok(PutFile::Stored(find_in(c, store, file.id).await?, upload))
}

/// Removes the file at a path, and its web page.
///
/// # Errors
/// `NotFound`, `NotEditor`, `FileNotFound`.
pub async fn remove_path(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    path: &StorePath,
) -> Result<(), CollectionError> {
    let store = find_to_change(c, actor, named).await?.id;
    versions::lock(c, store).await?;
    let current = versions::find_current(c, store, path).await?;
    let mut is_removed = versions::remove_page(c, store, path.as_str()).await?;
    if let Some(current) = current {
        is_removed |= versions::remove(c, store, current.file_id).await?;
    }
    if !is_removed {
        return Err(CollectionError::FileNotFound);
    }
    event::announce(c, store, EventType::VectorStoreUpdated).await?;
    Ok(())
}
