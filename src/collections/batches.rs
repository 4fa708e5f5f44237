//! Files that are added to a collection together.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    CollectionError,
    contents::{Attributes, FileCounts, add_files, count_batch},
    files::{StoreFile, StoreFileForm, list_of_batch},
    stores::{StoreRef, find, find_to_change},
};
use crate::{
    auth::Actor,
    db::{Conn, now},
    ids::{FileId, StoreBatchId, VectorStoreId},
    text_enum::{constant, text_enum},
    time::Timestamp,
};

constant! { pub FileBatchObject = "vector_store.files_batch" }

const FILES_MAX: usize = 500;

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
    fn files(&self) -> Result<Vec<(FileId, Attributes)>, CollectionError> {
        let invalid = |text: &str, param| Err(CollectionError::Invalid(text.to_owned(), param));
        let all: Vec<(FileId, Attributes)> = match (&self.file_ids, &self.files) {
            (Some(ids), None) => {
                let attributes = self.attributes.clone().unwrap_or_default();
                ids.iter().map(|id| (*id, attributes.clone())).collect()
            }
            (None, Some(files)) => files
                .iter()
                .map(|form| (form.file_id, form.attributes.clone().unwrap_or_default()))
                .collect(),
            _ => return invalid("send either file_ids or files", "file_ids"),
        };
        if all.is_empty() || all.len() > FILES_MAX {
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
        c.q("delete from vector_store_files where batch_id = $1 and file_id in (select f.id from files f \
             join documents d on d.hash = f.hash where d.state = 'waiting')")
            .bind(id)
            .run()
            .await?;
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
