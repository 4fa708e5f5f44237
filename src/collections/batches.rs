//! Files that are added to a collection together.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    CollectionError,
    contents::{Attributes, FileCounts, NewStoreFile, add_files, count_batch},
    event,
    files::{StoreFile, StoreFileForm, list_of_batch},
    stores::{StoreRef, find, find_to_change},
    versions,
};
use crate::{
    auth::Actor,
    db::{Conn, now},
    files::documents::DocumentState,
    ids::{FileId, StoreBatchId, VectorStoreId},
    realtime::EventType,
    text_enum::{constant, text_enum},
    time::Timestamp,
};

constant! { pub FileBatchObject = "vector_store.files_batch" }

/// Maximum number of files of a batch.
pub const BATCH_FILES_MAX: usize = 500;

text_enum! {
    /// Status of a batch.
    pub enum BatchStatus {
        InProgress = "in_progress",
        Completed = "completed",
        Cancelled = "cancelled",
        Failed = "failed",
    }
}

/// Files that were added together.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct FileBatch {
    pub id: StoreBatchId,
    #[schema(inline)]
    pub object: FileBatchObject,
    pub vector_store_id: VectorStoreId,
    pub created_at: i64,
    pub status: BatchStatus,
    pub file_counts: FileCounts,
}

/// Form of a batch: either `file_ids`, or `files` with their own attributes; at most 500.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchForm {
    #[serde(default)]
    pub file_ids: Option<Vec<FileId>>,
    #[serde(default)]
    pub files: Option<Vec<StoreFileForm>>,
    /// Attributes of all files in `file_ids`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub attributes: Option<Attributes>,
    /// No effect.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub chunking_strategy: Option<serde_json::Value>,
}

impl BatchForm {
    /// Number of files.
    pub fn count(&self) -> usize {
        let ids = self.file_ids.as_ref().map_or(0, Vec::len);
        ids + self.files.as_ref().map_or(0, Vec::len)
    }

    fn files(&self) -> Result<Vec<NewStoreFile>, CollectionError> {
        let invalid = |text: &str, param| Err(CollectionError::Invalid(text.to_owned(), param));
        let all: Vec<NewStoreFile> = match (&self.file_ids, &self.files) {
            (Some(ids), None) => {
                let ids = ids.iter();
                let new = ids.map(|id| NewStoreFile {
                    file: *id,
                    path: None,
                    attributes: self.attributes.clone(),
                });
                new.collect()
            }
            (None, Some(files)) => files.iter().map(StoreFileForm::new_file).collect(),
            _ => return invalid("send either file_ids or files", "file_ids"),
        };
        if all.is_empty() || all.len() > BATCH_FILES_MAX {
            return invalid("a batch must have 1 to 500 files", "file_ids");
        }
        Ok(all)
    }
}

#[derive(Clone, Copy, sqlx::FromRow)]
struct BatchRow {
    id: StoreBatchId,
    store_id: VectorStoreId,
    is_cancelled: bool,
    created_at: Timestamp,
}

async fn object(c: &mut Conn, row: BatchRow) -> Result<FileBatch, CollectionError> {
    let counts = count_batch(c, row.id.0).await?;
    let status = if row.is_cancelled {
        BatchStatus::Cancelled
    } else if counts.in_progress > 0 {
        BatchStatus::InProgress
    } else {
        BatchStatus::Completed
    };
    Ok(FileBatch {
        id: row.id,
        object: FileBatchObject,
        vector_store_id: row.store_id,
        created_at: row.created_at.unix_s(),
        status,
        file_counts: counts,
    })
}

async fn find_row(
    c: &mut Conn,
    store: VectorStoreId,
    id: StoreBatchId,
) -> Result<BatchRow, CollectionError> {
    let row: Option<BatchRow> = c
        .q("select id, store_id, is_cancelled, created_at from vector_store_batches where id = $1 and store_id = $2")
        .bind(id)
        .bind(store)
        .opt()
        .await?;
    row.ok_or(CollectionError::BatchNotFound)
}

/// # Errors
/// `NotFound`, `NotEditor`, `Invalid`, and those of `add_file`.
pub async fn create_batch(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    form: &BatchForm,
) -> Result<FileBatch, CollectionError> {
    let files = form.files()?;
    let store = find_to_change(c, actor, named).await?.id;
    let id = StoreBatchId::new();
    c.q("insert into vector_store_batches (id, store_id, is_cancelled, created_at) values ($1, $2, FALSE, $3)")
        .bind(id)
        .bind(store)
        .bind(now())
        .run()
        .await?;
    add_files(c, actor, store, files, Some(id.0)).await?;
    let row = find_row(c, store, id).await?;
    object(c, row).await
}

/// # Errors
/// `NotFound`, `BatchNotFound`.
pub async fn find_batch(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    id: StoreBatchId,
) -> Result<FileBatch, CollectionError> {
    let store = find(c, actor, named).await?.id;
    let row = find_row(c, store, id).await?;
    object(c, row).await
}

/// Cancels a batch: files that have not been read yet leave the vector store.
///
/// # Errors
/// `NotFound`, `NotEditor`, `BatchNotFound`.
pub async fn cancel_batch(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    id: StoreBatchId,
) -> Result<FileBatch, CollectionError> {
    let store = find_to_change(c, actor, named).await?.id;
    let mut row = find_row(c, store, id).await?;
    if count_batch(c, id.0).await?.in_progress > 0 {
        c.q("update vector_store_batches set is_cancelled = TRUE where id = $1")
            .bind(id)
            .run()
            .await?;
        versions::lock(c, store).await?;
        let waiting: Vec<(FileId,)> = c
            .q("select vf.file_id from vector_store_files vf join files f on f.id = vf.file_id join documents d on d.hash = f.hash \
                where vf.batch_id = $1 and d.state = $2 union all \
                select vf.file_id from vector_store_versions vf join files f on f.id = vf.file_id join documents d on d.hash = f.hash \
                where vf.batch_id = $1 and vf.replaced_at is null and d.state = $2 order by file_id")
            .bind(id)
            .bind(DocumentState::Waiting)
            .all()
            .await?;
        for (file,) in waiting {
            versions::remove(c, store, file).await?;
        }
        event::announce(c, store, EventType::VectorStoreUpdated).await?;
        row.is_cancelled = true;
    }
    object(c, row).await
}

/// # Errors
/// `NotFound`, `BatchNotFound`.
pub async fn list_batch_files(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    id: StoreBatchId,
) -> Result<Vec<StoreFile>, CollectionError> {
    let store = find(c, actor, named).await?.id;
    find_row(c, store, id).await?;
    Ok(list_of_batch(c, id.0).await?)
}
