//! Contents of a collection: its files, with their states and attributes.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::CollectionError;
use crate::{
    agents::derived::{self, Change, SourceId},
    auth::Actor,
    db::{Conn, DbError, now},
    files::{self, FileError, documents::DocumentState},
    ids::{FileId, VectorStoreId, WorkspaceId},
    text_enum::text_enum,
};

const FILES_MAX: i64 = 10_000;
const ATTRIBUTES_MAX: usize = 16;
const ATTRIBUTE_KEY_CHARS_MAX: usize = 64;
const ATTRIBUTE_VALUE_CHARS_MAX: usize = 512;

/// Values by key: strings, numbers, or booleans.
pub type Attributes = BTreeMap<String, serde_json::Value>;

text_enum! {
    /// State of the text of a file, in the terms of the `OpenAI` API.
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
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) files: FileCounts,
    pub(super) bytes: i64,
}

/// Files of a vector store with the same state.
#[derive(sqlx::FromRow)]
struct CountRow {
    store_id: VectorStoreId,
    state: Option<DocumentState>,
    is_indexed: bool,
    files: i64,
    chars: i64,
}

macro_rules! counts_sql {
    ($condition:literal) => {
        concat!(
            "select vf.store_id, d.state, coalesce(s.is_complete, FALSE) as is_indexed, count(*) as files, \
             cast(coalesce(sum(d.chars), 0) as bigint) as chars from vector_store_files vf \
             join files f on f.id = vf.file_id left join documents d on d.hash = f.hash \
             left join passage_sets s on s.file_id = f.id where ",
            $condition,
            " group by vf.store_id, d.state, coalesce(s.is_complete, FALSE)"
        )
    };
}

impl Counts {
    fn add(&mut self, row: &CountRow) {
        let to = match state(row.state, row.is_indexed) {
            StoreFileState::InProgress => &mut self.files.in_progress,
            StoreFileState::Completed => &mut self.files.completed,
            StoreFileState::Failed => &mut self.files.failed,
            StoreFileState::Cancelled => &mut self.files.cancelled,
        };
        *to += row.files;
        self.files.total += row.files;
        self.bytes += row.chars;
    }

    fn of(rows: &[CountRow]) -> Self {
        let mut counts = Self::default();
        for row in rows {
            counts.add(row);
        }
        counts
    }
}

pub(super) async fn count(c: &mut Conn, store: VectorStoreId) -> Result<Counts, DbError> {
    let rows: Vec<CountRow> = c
        .q(counts_sql!("vf.store_id = $1"))
        .bind(store)
        .all()
        .await?;
    Ok(Counts::of(&rows))
}

/// Counts of all vector stores of a workspace that have files.
pub(super) async fn count_all(
    c: &mut Conn,
    workspace: WorkspaceId,
) -> Result<HashMap<VectorStoreId, Counts>, DbError> {
    let rows: Vec<CountRow> = c
        .q(counts_sql!(
            "vf.store_id in (select v.id from vector_stores v where v.workspace_id = $1)"
        ))
        .bind(workspace)
        .all()
        .await?;
    let mut all: HashMap<VectorStoreId, Counts> = HashMap::new();
    for row in &rows {
        all.entry(row.store_id).or_default().add(row);
    }
    Ok(all)
}

pub(super) async fn count_batch(c: &mut Conn, batch: Uuid) -> Result<FileCounts, DbError> {
    let rows: Vec<CountRow> = c
        .q(counts_sql!("vf.batch_id = $1"))
        .bind(batch)
        .all()
        .await?;
    Ok(Counts::of(&rows).files)
}

/// Text of a JSON object, as it is stored.
pub(super) fn json_text(object: &impl Serialize) -> String {
    serde_json::to_string(object).unwrap_or_else(|_| "{}".to_owned())
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

/// Deletes stored quotations of a vector store's files, or of one of them, before they leave the store.
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
            .bind(json_text(&attributes))
            .bind(batch)
            .bind(now())
            .run()
            .await?;
    }
    Ok(())
}
