//! Files of collections.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    CollectionError,
    contents::{
        Attributes, NewStoreFile, StoreFileState, add_files, check_attributes, json_text, state,
    },
    event,
    stores::{CollectionId, StoreRef, expiry, find, find_to_change},
    versions,
};
use crate::{
    auth::{Actor, AuthError, Caller},
    chat::search::passages::find::FileReader,
    db::{Conn, DbError, is_readable_store, now},
    files::documents::{DocumentReason, DocumentState, DocumentStatus},
    ids::{ChannelId, FileId, VectorStoreId, WorkspaceId},
    realtime::EventType,
    text_enum::{constant, text_enum},
    time::Timestamp,
};

constant! { pub StoreFileObject = "vector_store.file" }
constant! { pub OtherStrategy = "other" }

/// Maximum number of files of a channel that are listed.
const CHANNEL_FILES_MAX: i64 = 10_000;

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

/// A file that replaces another one at its path when its text was read, or whose text could not be read.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct StoreReplacement {
    pub file_id: FileId,
    pub status: StoreFileState,
    pub last_error: Option<StoreFileError>,
}

/// A file of a vector store.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct StoreFile {
    pub id: FileId,
    #[schema(inline)]
    pub object: StoreFileObject,
    pub vector_store_id: CollectionId,
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
    /// Name of the file in the vector store, such as `rules/travel.md`. A new file with the same path replaces it.
    pub path: String,
    #[schema(inline)]
    pub document: DocumentStatus,
    /// The file that will replace this one, or failed to.
    pub replacement: Option<StoreReplacement>,
    /// Time at which another file replaced this one, which is no longer found, and can be read for another 90 days.
    pub replaced_at: Option<i64>,
    /// The file that is at the path of a replaced one now.
    pub replaced_by: Option<FileId>,
}

/// Form that adds a file.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreFileForm {
    pub file_id: FileId,
    /// At most 512 characters; the file's name by default. The file replaces the one with the same path when its text was read.
    #[serde(default)]
    pub path: Option<String>,
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub attributes: Option<Attributes>,
    /// No effect.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub chunking_strategy: Option<serde_json::Value>,
}

impl StoreFileForm {
    pub(super) fn new_file(&self) -> NewStoreFile {
        NewStoreFile {
            file: self.file_id,
            path: self.path.clone(),
            attributes: self.attributes.clone(),
        }
    }
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
    parts: Option<i64>,
    is_indexed: bool,
    path: String,
    next_id: Option<FileId>,
    next_state: Option<DocumentState>,
    next_reason: Option<DocumentReason>,
    replaced_at: Option<Timestamp>,
    replaced_by: Option<FileId>,
}

macro_rules! store_file_sql {
    ($table:literal, $replaced:literal, $tail:literal) => {
        concat!(
            "select vf.file_id, vf.store_id, vf.attributes, vf.created_at, f.name, d.state, d.reason, d.chars, d.parts, \
             coalesce(s.is_complete, FALSE) as is_indexed, coalesce(vf.path, f.name) as path, r.file_id as next_id, \
             nd.state as next_state, nd.reason as next_reason, ",
            $replaced,
            " from ",
            $table,
            " vf join files f on f.id = vf.file_id left join documents d on d.hash = f.hash \
             left join passage_sets s on s.file_id = f.id \
             left join vector_store_versions r on r.store_id = vf.store_id and r.path = vf.path and r.replaced_at is null \
             and r.file_id <> vf.file_id left join files nf on nf.id = r.file_id left join documents nd on nd.hash = nf.hash ",
            $tail
        )
    };
}

/// Statement for files that are in the vector store. `r` is the version that waits at the path.
macro_rules! current_sql {
    ($tail:literal) => {
        store_file_sql!(
            "vector_store_files",
            "cast(null as timestamptz) as replaced_at, cast(null as uuid) as replaced_by",
            $tail
        )
    };
}

/// Statement for versions that wait, or were replaced.
macro_rules! version_sql {
    ($tail:literal) => {
        store_file_sql!(
            "vector_store_versions",
            "vf.replaced_at, (select cf.file_id from vector_store_files cf where cf.store_id = vf.store_id and cf.path = vf.path \
             and vf.replaced_at is not null) as replaced_by",
            $tail
        )
    };
}

/// Statement for the files in the messages of a channel.
macro_rules! channel_sql {
    ($tail:literal) => {
        store_file_sql!(
            "(select m.channel_id as store_id, cf.id as file_id, '{}' as attributes, cf.created_at, cf.name as path from files cf \
             join messages m on m.id = cf.message_id where m.channel_id = $1 and m.deleted_at is null)",
            "cast(null as timestamptz) as replaced_at, cast(null as uuid) as replaced_by",
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

impl StoreFileRow {
    fn in_channel(self, channel: ChannelId) -> StoreFile {
        StoreFile {
            vector_store_id: CollectionId::Channel(channel),
            ..self.into()
        }
    }
}

impl From<StoreFileRow> for StoreFile {
    fn from(row: StoreFileRow) -> Self {
        let status = match row.replaced_at {
            // Its text is no longer in the index.
            Some(_) => StoreFileState::Completed,
            None => state(row.state, row.is_indexed),
        };
        let replacement = row.next_id.map(|file_id| StoreReplacement {
            file_id,
            // Once its text is in the index, the file is not a replacement anymore.
            status: state(row.next_state, false),
            last_error: last_error(row.next_state, row.next_reason),
        });
        Self {
            path: row.path,
            document: DocumentStatus {
                state: row.state.unwrap_or(DocumentState::None),
                reason: row.reason,
                parts: row.parts.unwrap_or(0),
            },
            replacement,
            replaced_at: row.replaced_at.map(Timestamp::unix_s),
            replaced_by: row.replaced_by,
            id: row.file_id,
            object: StoreFileObject,
            vector_store_id: CollectionId::Store(row.store_id),
            created_at: row.created_at.unix_s(),
            status,
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
    add_files(c, actor, store, vec![form.new_file()], None).await?;
    find_in(c, store, form.file_id).await
}

pub(super) async fn find_in(
    c: &mut Conn,
    store: VectorStoreId,
    file: FileId,
) -> Result<StoreFile, CollectionError> {
    for sql in [
        current_sql!("where vf.store_id = $1 and vf.file_id = $2"),
        version_sql!("where vf.store_id = $1 and vf.file_id = $2"),
    ] {
        let row: Option<StoreFileRow> = c.q(sql).bind(store).bind(file).opt().await?;
        if let Some(row) = row {
            return Ok(row.into());
        }
    }
    Err(CollectionError::FileNotFound)
}

/// # Errors
/// `NotFound`, `FileNotFound`.
pub(super) async fn find_file(
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
pub(super) async fn list_files(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
) -> Result<Vec<StoreFile>, CollectionError> {
    let store = find(c, actor, named).await?.id;
    let rows: Vec<StoreFileRow> = c
        .q(current_sql!(
            "where vf.store_id = $1 order by vf.created_at, vf.file_id"
        ))
        .bind(store)
        .all()
        .await?;
    Ok(rows.into_iter().map(StoreFile::from).collect())
}

/// Files in the messages of a channel, oldest first.
pub(super) async fn list_in_channel(
    c: &mut Conn,
    channel: ChannelId,
) -> Result<Vec<StoreFile>, DbError> {
    let rows: Vec<StoreFileRow> = c
        .q(channel_sql!("order by vf.created_at, vf.file_id limit $2"))
        .bind(channel)
        .bind(CHANNEL_FILES_MAX)
        .all()
        .await?;
    Ok(rows
        .into_iter()
        .map(|row| row.in_channel(channel))
        .collect())
}

pub(super) async fn find_in_channel(
    c: &mut Conn,
    channel: ChannelId,
    file: FileId,
) -> Result<StoreFile, CollectionError> {
    let row: Option<StoreFileRow> = c
        .q(channel_sql!("where vf.file_id = $2"))
        .bind(channel)
        .bind(file)
        .opt()
        .await?;
    let row = row.ok_or(CollectionError::FileNotFound)?;
    Ok(row.in_channel(channel))
}

pub(super) async fn list_of_batch(c: &mut Conn, batch: Uuid) -> Result<Vec<StoreFile>, DbError> {
    let mut rows: Vec<StoreFileRow> = c
        .q(current_sql!(
            "where vf.batch_id = $1 order by vf.created_at, vf.file_id"
        ))
        .bind(batch)
        .all()
        .await?;
    let waiting: Vec<StoreFileRow> = c
        .q(version_sql!(
            "where vf.batch_id = $1 and vf.replaced_at is null order by vf.created_at, vf.file_id"
        ))
        .bind(batch)
        .all()
        .await?;
    rows.extend(waiting);
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
    for sql in [
        "update vector_store_files set attributes = $3 where store_id = $1 and file_id = $2",
        "update vector_store_versions set attributes = $3 where store_id = $1 and file_id = $2",
    ] {
        c.q(sql)
            .bind(store)
            .bind(file)
            .bind(json_text(attributes))
            .run()
            .await?;
    }
    find_in(c, store, file).await
}

/// Removes a file from a vector store. The file stays if it was uploaded with a purpose.
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
    versions::lock(c, store).await?;
    if !versions::remove(c, store, file).await? {
        return Err(CollectionError::FileNotFound);
    }
    event::announce(c, store, EventType::VectorStoreUpdated).await?;
    Ok(())
}

/// Appends an event for each vector store with a file, before the file is deleted.
///
/// # Errors
/// Only database errors.
pub async fn announce_deletion(c: &mut Conn, file: FileId) -> Result<(), DbError> {
    let stores: Vec<(VectorStoreId,)> = c
        .q("select store_id from vector_store_files where file_id = $1 order by store_id limit 200")
        .bind(file)
        .all()
        .await?;
    for (store,) in stores {
        event::announce(c, store, EventType::VectorStoreUpdated).await?;
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

/// Vector stores with a file that the reader can read, oldest first, without those that have expired.
///
/// # Errors
/// Only database errors.
pub async fn stores_of(
    c: &mut Conn,
    reader: FileReader,
    file: FileId,
) -> Result<Vec<VectorStoreId>, DbError> {
    let stores: Vec<(VectorStoreId, Timestamp, Option<i64>)> = c
        .q(concat!(
            "select v.id, v.last_active_at, v.expires_after_days from vector_store_files vf join vector_stores v on v.id = vf.store_id \
             where vf.file_id = $1 and v.workspace_id = $4 and ",
            is_readable_store!("$2", "$3"),
            " order by v.created_at, v.id limit 200"
        ))
        .bind(file)
        .bind(reader.user)
        .bind(reader.shared_in)
        .bind(reader.workspace)
        .all()
        .await?;
    let stores = stores.into_iter();
    let stores = stores.filter(|(_, last, days)| expiry(*last, *days).is_none_or(|at| at > now()));
    Ok(stores.map(|(store, ..)| store).collect())
}

/// Checks whether a file is in a vector store that the reader can read, or was until another one replaced it.
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
            "select v.id from vector_stores v where v.id in (select store_id from vector_store_files where file_id = $1 \
             union select store_id from vector_store_versions where file_id = $1 and (replaced_at is null or replaced_at > $5)) and v.workspace_id = $4 and ",
            is_readable_store!("$2", "$3"),
            " limit 1"
        ))
        .bind(file)
        .bind(reader.user)
        .bind(reader.shared_in)
        .bind(reader.workspace)
        .bind(versions::readable_since())
        .opt()
        .await?;
    Ok(found.is_some())
}

/// The file that replaced another one in a vector store that the reader can read.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub struct Successor {
    pub replaced_at: Timestamp,
    pub replaced_by: FileId,
}

/// The newest successor of a file that is only kept for those who follow a citation; `None` for a file that can be found.
///
/// # Errors
/// Only database errors.
pub async fn find_successor(
    c: &mut Conn,
    reader: FileReader,
    file: FileId,
) -> Result<Option<Successor>, DbError> {
    c.q(concat!(
        "select r.replaced_at, cf.file_id as replaced_by from vector_store_versions r join vector_stores v on v.id = r.store_id \
         join vector_store_files cf on cf.store_id = r.store_id and cf.path = r.path \
         where r.file_id = $1 and r.replaced_at is not null and v.workspace_id = $4 \
         and not exists (select 1 from vector_store_files where file_id = $1) and ",
        is_readable_store!("$2", "$3"),
        " order by r.replaced_at desc limit 1"
    ))
    .bind(file)
    .bind(reader.user)
    .bind(reader.shared_in)
    .bind(reader.workspace)
    .opt()
    .await
}
