//! Files of collections.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    CollectionError,
    contents::{
        Attributes, StoreFileState, add_files, check_attributes, forget_texts, json_text, state,
    },
    stores::{StoreRef, find, find_to_change},
};
use crate::{
    auth::{Actor, AuthError, Caller},
    chat::search::passages::find::FileReader,
    db::{Conn, DbError, is_readable_store},
    files::documents::{DocumentReason, DocumentState},
    ids::{FileId, VectorStoreId, WorkspaceId},
    text_enum::{constant, text_enum},
    time::Timestamp,
};

constant! { pub StoreFileObject = "vector_store.file" }
constant! { pub OtherStrategy = "other" }

text_enum! {
    /// Reason why a file could not be read as a whole.
    pub enum StoreFileErrorCode {
        UnsupportedFile = "unsupported_file",
        InvalidFile = "invalid_file",
        ServerError = "server_error",
    }
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct StoreFileError {
    #[schema(inline)]
    pub code: StoreFileErrorCode,
    pub message: String,
}

/// Division of files into passages, which this server chooses.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ChunkingStrategy {
    #[schema(inline)]
    pub r#type: OtherStrategy,
}

/// A file of a vector store.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct StoreFile {
    pub id: FileId,
    #[schema(inline)]
    pub object: StoreFileObject,
    pub vector_store_id: VectorStoreId,
    pub created_at: i64,
    pub status: StoreFileState,
    /// Null if the whole file was read.
    pub last_error: Option<StoreFileError>,
    /// Size of the text in bytes.
    pub usage_bytes: i64,
    #[schema(value_type = Object)]
    pub attributes: Attributes,
    pub chunking_strategy: ChunkingStrategy,
    pub filename: String,
}

/// Form that adds a file.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreFileForm {
    pub file_id: FileId,
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub attributes: Option<Attributes>,
    /// No effect.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub chunking_strategy: Option<serde_json::Value>,
}

#[derive(sqlx::FromRow)]
struct StoreFileRow {
    file_id: FileId,
    store_id: VectorStoreId,
    attributes: String,
    created_at: Timestamp,
    name: String,
    state: Option<DocumentState>,
    reason: Option<DocumentReason>,
    chars: Option<i64>,
    is_indexed: bool,
}

macro_rules! store_file_sql {
    ($tail:literal) => {
        concat!(
            "select vf.file_id, vf.store_id, vf.attributes, vf.created_at, f.name, d.state, d.reason, d.chars, \
             coalesce(s.is_complete, FALSE) as is_indexed from vector_store_files vf join files f on f.id = vf.file_id \
             left join documents d on d.hash = f.hash left join passage_sets s on s.file_id = f.id ",
            $tail
        )
    };
}

fn last_error(
    state: Option<DocumentState>,
    reason: Option<DocumentReason>,
) -> Option<StoreFileError> {
    use StoreFileErrorCode as C;
    let (code, message) = match (state, reason) {
        (Some(DocumentState::Ready | DocumentState::Waiting), _) => return None,
        (Some(DocumentState::Off), _) => (C::ServerError, "This server does not read files."),
        (_, Some(DocumentReason::Scanned)) => (
            C::UnsupportedFile,
            "Pages are pictures without text: run ocrmypdf on the file.",
        ),
        (_, Some(DocumentReason::Encrypted)) => {
            (C::InvalidFile, "The file is locked with a password.")
        }
        (_, Some(DocumentReason::Damaged)) => (C::InvalidFile, "The file is damaged."),
        (_, Some(DocumentReason::TooLarge)) => (C::InvalidFile, "The file has too much text."),
        (_, Some(DocumentReason::TooSlow)) => (C::InvalidFile, "The file took too long to read."),
        (_, Some(DocumentReason::NoTextMap)) => (
            C::UnsupportedFile,
            "The characters of the file cannot be mapped to text.",
        ),
        (_, Some(DocumentReason::OldFormat)) => (
            C::UnsupportedFile,
            "The format is too old: save the file in a current one.",
        ),
        (_, None) => (C::UnsupportedFile, "The file has no text."),
    };
    Some(StoreFileError {
        code,
        message: message.to_owned(),
    })
}

impl From<StoreFileRow> for StoreFile {
    fn from(row: StoreFileRow) -> Self {
        Self {
            id: row.file_id,
            object: StoreFileObject,
            vector_store_id: row.store_id,
            created_at: row.created_at.unix_s(),
            status: state(row.state, row.is_indexed),
            last_error: last_error(row.state, row.reason),
            usage_bytes: row.chars.unwrap_or(0),
            attributes: serde_json::from_str(&row.attributes).unwrap_or_default(),
            chunking_strategy: ChunkingStrategy {
                r#type: OtherStrategy,
            },
            filename: row.name,
        }
    }
}

/// # Errors
/// `NotFound`, `NotEditor`, and those of `add_files`.
pub async fn add_file(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    form: &StoreFileForm,
) -> Result<StoreFile, CollectionError> {
    let store = find_to_change(c, actor, named).await?.id;
    let new = vec![(form.file_id, form.attributes.clone().unwrap_or_default())];
    add_files(c, actor, store, new, None).await?;
    find_in(c, store, form.file_id).await
}

pub(super) async fn find_in(
    c: &mut Conn,
    store: VectorStoreId,
    file: FileId,
) -> Result<StoreFile, CollectionError> {
    let row: Option<StoreFileRow> = c
        .q(store_file_sql!(
            "where vf.store_id = $1 and vf.file_id = $2"
        ))
        .bind(store)
        .bind(file)
        .opt()
        .await?;
    row.map(StoreFile::from)
        .ok_or(CollectionError::FileNotFound)
}

/// # Errors
/// `NotFound`, `FileNotFound`.
pub async fn find_file(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    file: FileId,
) -> Result<StoreFile, CollectionError> {
    let store = find(c, actor, named).await?.id;
    find_in(c, store, file).await
}

/// Files of a vector store, oldest first.
///
/// # Errors
/// `NotFound`.
pub async fn list_files(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
) -> Result<Vec<StoreFile>, CollectionError> {
    let store = find(c, actor, named).await?.id;
    let rows: Vec<StoreFileRow> = c
        .q(store_file_sql!(
            "where vf.store_id = $1 order by vf.created_at, vf.file_id"
        ))
        .bind(store)
        .all()
        .await?;
    Ok(rows.into_iter().map(StoreFile::from).collect())
}

pub(super) async fn list_of_batch(c: &mut Conn, batch: Uuid) -> Result<Vec<StoreFile>, DbError> {
    let rows: Vec<StoreFileRow> = c
        .q(store_file_sql!(
            "where vf.batch_id = $1 order by vf.created_at, vf.file_id"
        ))
        .bind(batch)
        .all()
        .await?;
    Ok(rows.into_iter().map(StoreFile::from).collect())
}

/// # Errors
/// `NotFound`, `NotEditor`, `FileNotFound`, `Invalid`.
pub async fn set_attributes(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    file: FileId,
    attributes: &Attributes,
) -> Result<StoreFile, CollectionError> {
    check_attributes(attributes)?;
    let store = find_to_change(c, actor, named).await?.id;
    c.q("update vector_store_files set attributes = $3 where store_id = $1 and file_id = $2")
        .bind(store)
        .bind(file)
        .bind(json_text(attributes))
        .run()
        .await?;
    find_in(c, store, file).await
}

/// Removes a file from a vector store; the file stays.
///
/// # Errors
/// `NotFound`, `NotEditor`, `FileNotFound`.
pub async fn remove_file(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    file: FileId,
) -> Result<(), CollectionError> {
    let store = find_to_change(c, actor, named).await?.id;
    forget_texts(c, store, Some(file)).await?;
    let removed = c
        .q("delete from vector_store_files where store_id = $1 and file_id = $2")
        .bind(store)
        .bind(file)
        .run()
        .await?;
    if removed == 0 {
        return Err(CollectionError::FileNotFound);
    }
    Ok(())
}

/// Enters the workspace of a file as a reader of one of its vector stores; `None` if the caller reads none.
///
/// # Errors
/// Those of entering the workspace, except `WorkspaceNotFound`.
pub async fn find_reader<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    workspace: WorkspaceId,
    file: FileId,
) -> Result<Option<Actor<'a>>, CollectionError> {
    if caller.bot().is_some() {
        return Ok(None);
    }
    let actor = match caller.enter(c, workspace).await {
        Ok(actor) => actor,
        Err(AuthError::WorkspaceNotFound) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let reader = FileReader::from(&actor);
    Ok(can_read_file(c, reader, file).await?.then_some(actor))
}

/// Checks whether a file is in a vector store that the reader can read.
///
/// # Errors
/// Only database errors.
pub async fn can_read_file(
    c: &mut Conn,
    reader: FileReader,
    file: FileId,
) -> Result<bool, DbError> {
    let found: Option<(VectorStoreId,)> = c
        .q(concat!(
            "select v.id from vector_store_files vf join vector_stores v on v.id = vf.store_id \
             where vf.file_id = $1 and v.workspace_id = $4 and ",
            is_readable_store!("$2", "$3"),
            " limit 1"
        ))
        .bind(file)
        .bind(reader.user)
        .bind(reader.shared_in)
        .bind(reader.workspace)
        .opt()
        .await?;
    Ok(found.is_some())
}
