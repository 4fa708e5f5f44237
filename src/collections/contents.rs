//! Contents of a collection: its files, with their states and attributes.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    CollectionError,
    paths::StorePath,
    versions::{self, NewVersion},
};
use crate::{
    agents::derived::{self, Change, SourceId},
    auth::Actor,
    chat::search::passages::index,
    db::{Conn, DbError},
    files::{self, FileError, documents::DocumentState},
    ids::{ChannelId, FileId, VectorStoreId, WorkspaceId},
    text_enum::text_enum,
};

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
    ($table:literal, $condition:literal) => {
        concat!(
            "select vf.store_id, d.state, coalesce(s.is_complete, FALSE) as is_indexed, count(*) as files, \
             cast(coalesce(sum(d.chars), 0) as bigint) as chars from ",
            $table,
            " vf join files f on f.id = vf.file_id left join documents d on d.hash = f.hash \
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
        .q(counts_sql!("vector_store_files", "vf.store_id = $1"))
        .bind(store)
        .all()
        .await?;
    Ok(Counts::of(&rows))
}

/// Counts of the files in the messages of a channel.
pub(super) async fn count_channel(c: &mut Conn, channel: ChannelId) -> Result<Counts, DbError> {
    let rows: Vec<CountRow> = c
        .q(counts_sql!(
            "(select m.channel_id as store_id, cf.id as file_id from files cf join messages m on m.id = cf.message_id \
             where m.channel_id = $1 and m.deleted_at is null)",
            "vf.store_id = $1"
        ))
        .bind(channel)
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
            "vector_store_files",
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
    let mut rows: Vec<CountRow> = c
        .q(counts_sql!("vector_store_files", "vf.batch_id = $1"))
        .bind(batch)
        .all()
        .await?;
    let next: Vec<CountRow> = c
        .q(counts_sql!(
            "vector_store_versions",
            "vf.batch_id = $1 and vf.replaced_at is null"
        ))
        .bind(batch)
        .all()
        .await?;
    rows.extend(next);
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

/// Deletes stored quotations of a vector store's files, before the store is deleted.
pub(super) async fn forget_texts(c: &mut Conn, store: VectorStoreId) -> Result<(), DbError> {
    let cited: Vec<(FileId,)> = c
        .q("select distinct vf.file_id from (select file_id from vector_store_files where store_id = $1 union \
            select file_id from vector_store_versions where store_id = $1) vf \
            join citations ci on ci.source_type = 'file' and ci.source_id = vf.file_id order by vf.file_id")
        .bind(store)
        .all()
        .await?;
    for (file,) in cited {
        derived::changed(c, SourceId::File(file), Change::Deleted).await?;
    }
    Ok(())
}

/// A file that is added to a vector store.
#[derive(Debug, Clone)]
pub(super) struct NewStoreFile {
    pub(super) file: FileId,
    /// Its name by default.
    pub(super) path: Option<String>,
    /// By default, those of the file that it replaces.
    pub(super) attributes: Option<Attributes>,
}

/// Checks that the index has room for passages of further files.
///
/// # Errors
/// `TooManyPassages`.
pub(super) async fn check_room(
    c: &mut Conn,
    workspace: WorkspaceId,
) -> Result<(), CollectionError> {
    if index::is_full(c, workspace).await? {
        return Err(CollectionError::TooManyPassages(index::PASSAGES_MAX));
    }
    Ok(())
}

/// Adds files to a vector store that the person can change, where each replaces the one at its path. The person must have uploaded them,
/// and they must not be in a message.
///
/// # Errors
/// `Invalid`, `TooManyFiles`, `TooManyPassages`; `FileError::NotFound` for files of others.
pub(super) async fn add_files(
    c: &mut Conn,
    actor: &Actor<'_>,
    store: VectorStoreId,
    new: Vec<NewStoreFile>,
    batch: Option<Uuid>,
) -> Result<(), CollectionError> {
    if !new.is_empty() {
        check_room(c, actor.workspace).await?;
    }
    for new in new {
        if let Some(attributes) = &new.attributes {
            check_attributes(attributes)?;
        }
        let stored = files::find(c, new.file).await?.filter(|stored| {
            stored.workspace_id == actor.workspace
                && stored.about.created_by == actor.user
                && stored.message_id.is_none()
                && !stored.is_avatar
        });
        let stored = stored.ok_or(FileError::NotFound)?;
        let path = if let Some(path) = &new.path {
            StorePath::parse(path)?
        } else {
            let known = versions::find_path(c, store, new.file).await?;
            StorePath::of_name(known.as_ref().unwrap_or(&stored.about.name))
        };
        let version = NewVersion {
            path,
            attributes: new.attributes.as_ref().map(json_text),
            batch,
        };
        versions::put(c, store, &stored, &version).await?;
    }
    Ok(())
}
