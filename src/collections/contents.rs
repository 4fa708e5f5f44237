//! Contents of a collection: its files, and how far they were read.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::CollectionError;
use crate::{
    agents::derived::{self, Change, SourceId},
    auth::Actor,
    db::{Conn, DbError, now},
    files::{self, FileError, documents::DocumentState},
    ids::{FileId, VectorStoreId},
    text_enum::text_enum,
};

const FILES_MAX: i64 = 10_000;
const ATTRIBUTES_MAX: usize = 16;
const ATTRIBUTE_KEY_CHARS_MAX: usize = 64;
const ATTRIBUTE_VALUE_CHARS_MAX: usize = 512;

/// Values by key: strings, numbers, or booleans.
pub type Attributes = BTreeMap<String, serde_json::Value>;

text_enum! {
    /// Result of reading a file, in the words of the `OpenAI` API.
    pub enum StoreFileState {
        InProgress = "in_progress",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

/// Numbers of files by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct FileCounts {
    pub in_progress: i64,
    pub completed: i64,
    pub failed: i64,
    pub cancelled: i64,
    pub total: i64,
}

/// State of a file with this document.
pub(super) fn state(state: Option<DocumentState>, is_indexed: bool) -> StoreFileState {
    match state {
        Some(DocumentState::Waiting) => StoreFileState::InProgress,
        Some(DocumentState::Ready | DocumentState::Partial) if !is_indexed => {
            StoreFileState::InProgress
        }
        Some(DocumentState::Ready | DocumentState::Partial) => StoreFileState::Completed,
        Some(DocumentState::Failed | DocumentState::None | DocumentState::Off) | None => {
            StoreFileState::Failed
        }
    }
}

/// Numbers of files and size of their texts.
pub(super) struct Counts {
    pub(super) files: FileCounts,
    pub(super) bytes: i64,
}

fn counted(rows: Vec<(Option<DocumentState>, bool, i64, i64)>) -> Counts {
    let mut counts = Counts {
        files: FileCounts::default(),
        bytes: 0,
    };
    for (of, is_indexed, files, chars) in rows {
        let to = match state(of, is_indexed) {
            StoreFileState::InProgress => &mut counts.files.in_progress,
            StoreFileState::Completed => &mut counts.files.completed,
            StoreFileState::Failed => &mut counts.files.failed,
            StoreFileState::Cancelled => &mut counts.files.cancelled,
        };
        *to += files;
        counts.files.total += files;
        counts.bytes += chars;
    }
    counts
}

pub(super) async fn count(c: &mut Conn, store: VectorStoreId) -> Result<Counts, DbError> {
    let rows = c
        .q("select d.state, coalesce(s.is_complete, FALSE), count(*), cast(coalesce(sum(d.chars), 0) as bigint) from vector_store_files vf \
            join files f on f.id = vf.file_id left join documents d on d.hash = f.hash \
            left join passage_sets s on s.file_id = f.id where vf.store_id = $1 group by d.state, coalesce(s.is_complete, FALSE)")
        .bind(store)
        .all()
        .await?;
    Ok(counted(rows))
}

pub(super) async fn count_batch(c: &mut Conn, batch: Uuid) -> Result<FileCounts, DbError> {
    let rows = c
        .q("select d.state, coalesce(s.is_complete, FALSE), count(*), cast(coalesce(sum(d.chars), 0) as bigint) from vector_store_files vf \
            join files f on f.id = vf.file_id left join documents d on d.hash = f.hash \
            left join passage_sets s on s.file_id = f.id where vf.batch_id = $1 group by d.state, coalesce(s.is_complete, FALSE)")
        .bind(batch)
        .all()
        .await?;
    Ok(counted(rows).files)
}

pub(super) fn check_attributes(attributes: &Attributes) -> Result<(), CollectionError> {
    let is_wrong = |(key, value): (&String, &serde_json::Value)| {
        key.is_empty()
            || key.chars().count() > ATTRIBUTE_KEY_CHARS_MAX
            || match value {
                serde_json::Value::String(text) => text.chars().count() > ATTRIBUTE_VALUE_CHARS_MAX,
                serde_json::Value::Number(_) | serde_json::Value::Bool(_) => false,
                _ => true,
            }
    };
    if attributes.len() > ATTRIBUTES_MAX || attributes.iter().any(is_wrong) {
        let text = "attributes can have at most 16 keys of 64 characters, with strings of 512 characters, numbers, or booleans";
        return Err(CollectionError::Invalid(text.to_owned(), "attributes"));
    }
    Ok(())
}

/// Forgets what prompts contain of the files of a vector store, or of one of them, before it leaves the store.
pub(super) async fn forget_texts(
    c: &mut Conn,
    store: VectorStoreId,
    file: Option<FileId>,
) -> Result<(), DbError> {
    let cited: Vec<(FileId,)> = c
        .q("select distinct vf.file_id from vector_store_files vf join citations ci on ci.source_type = 'file' and ci.source_id = vf.file_id \
            where vf.store_id = $1 and (vf.file_id = $2 or $2 is null) order by vf.file_id")
        .bind(store)
        .bind(file)
        .all()
        .await?;
    for (file,) in cited {
        derived::changed(c, SourceId::File(file), Change::Deleted).await?;
    }
    Ok(())
}

/// Adds files to a vector store that the person can change. The person must have uploaded them, and they must not be in a message.
///
/// # Errors
/// `Invalid`, `TooManyFiles`; `FileError::NotFound` for files of others.
pub(super) async fn add_files(
    c: &mut Conn,
    actor: &Actor<'_>,
    store: VectorStoreId,
    new: Vec<(FileId, Attributes)>,
    batch: Option<Uuid>,
) -> Result<(), CollectionError> {
    if new.is_empty() {
        return Ok(());
    }
    let known: i64 = c
        .q("select count(*) from vector_store_files where store_id = $1")
        .bind(store)
        .value()
        .await?;
    if known.saturating_add(i64::try_from(new.len()).unwrap_or(i64::MAX)) > FILES_MAX {
        return Err(CollectionError::TooManyFiles(FILES_MAX));
    }
    for (file, attributes) in new {
        check_attributes(&attributes)?;
        let stored = files::find(c, file).await?.filter(|stored| {
            stored.workspace_id == actor.workspace
                && stored.about.created_by == actor.user
                && stored.message_id.is_none()
                && !stored.is_avatar
        });
        if stored.is_none() {
            return Err(FileError::NotFound.into());
        }
        files::keep(c, file).await?;
        c.q("insert into vector_store_files (store_id, file_id, attributes, batch_id, created_at) values ($1, $2, $3, $4, $5) \
             on conflict (store_id, file_id) do update set attributes = excluded.attributes, batch_id = excluded.batch_id")
            .bind(store)
            .bind(file)
            .bind(serde_json::to_string(&attributes).unwrap_or_else(|_| "{}".to_owned()))
            .bind(batch)
            .bind(now())
            .run()
            .await?;
    }
    Ok(())
}
