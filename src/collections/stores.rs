//! Collections as rows, and as clients see them.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    CollectionError,
    contents::{self, Counts, FileCounts, NewStoreFile, add_files, json_text},
    event, versions,
};
use crate::{
    auth::{Actor, AuditAction, Caller, Role, Scope, record_audit},
    chat::{
        access,
        search::passages::find::{FileReader, PassageFilter},
    },
    db::{Conn, DbError, is_readable_store, is_shared_channel, now},
    ids::{ChannelId, FileId, UserId, VectorStoreId},
    realtime::EventType,
    text_enum::{constant, text_enum},
    time::Timestamp,
};

constant! { pub VectorStoreObject = "vector_store" }

const STORES_MAX: i64 = 200;
const NAME_CHARS_MAX: usize = 80;
const DESCRIPTION_CHARS_MAX: usize = 500;
const HANDLE_CHARS_MAX: usize = 64;
const METADATA_MAX: usize = 16;
const METADATA_KEY_CHARS_MAX: usize = 64;
const METADATA_VALUE_CHARS_MAX: usize = 512;
const EXPIRES_DAYS_MAX: i64 = 365;

text_enum! {
    /// People who can change a vector store.
    pub enum StoreEditors {
        /// Members who can post in the channel, or in the workspace.
        Members = "members",
        Admins = "admins",
    }
}

text_enum! {
    /// Status of a vector store.
    pub enum StoreStatus {
        Expired = "expired",
        /// Some files are still being read.
        InProgress = "in_progress",
        Completed = "completed",
    }
}

text_enum! {
    /// Time from which a vector store expires.
    pub enum ExpiryAnchor {
        LastActiveAt = "last_active_at",
    }
}

/// Time after which a vector store that is not used expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpiresAfter {
    #[schema(inline)]
    pub anchor: ExpiryAnchor,
    #[schema(minimum = 1, maximum = 365)]
    pub days: i64,
}

/// ID of a vector store, or of a channel, whose files can be read like those of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum CollectionId {
    Store(VectorStoreId),
    Channel(ChannelId),
}

impl fmt::Display for CollectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(id) => fmt::Display::fmt(id, f),
            Self::Channel(id) => fmt::Display::fmt(id, f),
        }
    }
}

/// A vector store: files that are searched together. Times are in seconds since 1970.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct VectorStore {
    pub id: CollectionId,
    #[schema(inline)]
    pub object: VectorStoreObject,
    /// `vs_HANDLE` works wherever the ID does.
    pub handle: Option<String>,
    pub name: String,
    pub description: String,
    /// Channel whose readers can read the vector store; null for everyone in the workspace except for guests.
    pub channel_id: Option<ChannelId>,
    pub editors: StoreEditors,
    /// True if agents treat the texts like instructions of their authors, and not like data from unknown people.
    pub trusted_reads: bool,
    pub file_counts: FileCounts,
    pub status: StoreStatus,
    /// Size of the texts in bytes.
    pub usage_bytes: i64,
    pub metadata: BTreeMap<String, String>,
    pub expires_after: Option<ExpiresAfter>,
    pub expires_at: Option<i64>,
    pub last_active_at: i64,
    /// Null for some channels.
    pub created_by: Option<UserId>,
    pub created_at: i64,
    pub version: i64,
}

/// Form of a new vector store.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreForm {
    /// At most 80 characters.
    #[serde(default)]
    pub name: Option<String>,
    /// At most 500 characters.
    #[serde(default)]
    pub description: Option<String>,
    /// Lowercase letters, digits, `_`, and `-`.
    #[serde(default)]
    pub handle: Option<String>,
    #[serde(default)]
    pub channel_id: Option<ChannelId>,
    #[serde(default)]
    pub editors: Option<StoreEditors>,
    #[serde(default)]
    pub trusted_reads: Option<bool>,
    #[serde(default)]
    pub file_ids: Option<Vec<FileId>>,
    #[serde(default)]
    pub metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub expires_after: Option<ExpiresAfter>,
    /// No effect.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub chunking_strategy: Option<serde_json::Value>,
}

/// Changes of a vector store; absent fields stay as they are.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StorePatch {
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub handle: Option<String>,
    #[serde(default)]
    pub editors: Option<StoreEditors>,
    #[serde(default)]
    pub trusted_reads: Option<bool>,
    #[serde(default)]
    pub metadata: Option<BTreeMap<String, String>>,
    #[serde(default, deserialize_with = "crate::patch::nullable")]
    #[schema(value_type = Option<ExpiresAfter>)]
    pub expires_after: Option<Option<ExpiresAfter>>,
}

/// A vector store as a client names it: by its ID, or by `vs_HANDLE`. The ID of a channel names the files in its messages, which can only be
/// read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreRef {
    Id(VectorStoreId),
    Handle(String),
    Channel(ChannelId),
}

/// Files that are searched together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchedFiles {
    OfStore(VectorStoreId),
    OfChannel(ChannelId),
}

impl SearchedFiles {
    pub fn filter(self) -> PassageFilter {
        match self {
            Self::OfStore(store) => PassageFilter {
                store: Some(store),
                ..PassageFilter::default()
            },
            Self::OfChannel(channel) => PassageFilter {
                channel: Some(channel),
                ..PassageFilter::default()
            },
        }
    }
}

impl StoreRef {
    /// Parses a name; `None` if it is neither an ID nor a handle.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(id) = ChannelId::parse(text) {
            return Some(Self::Channel(id));
        }
        if let Ok(id) = VectorStoreId::parse(text) {
            return Some(Self::Id(id));
        }
        let handle = text.strip_prefix("vs_")?;
        is_handle(handle).then(|| Self::Handle(handle.to_owned()))
    }
}

fn is_handle(handle: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    !handle.is_empty() && handle.len() <= HANDLE_CHARS_MAX && handle.chars().all(is_plain)
}

/// The row of a vector store.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct StoreRow {
    pub(super) id: VectorStoreId,
    handle: Option<String>,
    name: String,
    description: String,
    channel_id: Option<ChannelId>,
    editors: StoreEditors,
    trusted_reads: bool,
    metadata: String,
    expires_after_days: Option<i64>,
    pub(super) last_active_at: Timestamp,
    created_by: UserId,
    created_at: Timestamp,
    version: i64,
}

/// Time at which a vector store expires that was last used at this time; `None` if it never does.
pub(super) fn expiry(last_active_at: Timestamp, days: Option<i64>) -> Option<Timestamp> {
    let days = u64::try_from(days?).ok()?;
    Some(last_active_at + Duration::from_hours(24 * days))
}

macro_rules! store_sql {
    ($tail:expr) => {
        concat!(
            "select v.id, v.handle, v.name, v.description, v.channel_id, v.editors, v.trusted_reads, v.metadata, \
             v.expires_after_days, v.last_active_at, v.created_by, v.created_at, v.version from vector_stores v ",
            $tail
        )
    };
}

impl StoreRow {
    pub(super) fn has_trusted_reads(&self) -> bool {
        self.trusted_reads
    }

    fn expires_at(&self) -> Option<Timestamp> {
        expiry(self.last_active_at, self.expires_after_days)
    }

    fn is_expired(&self) -> bool {
        self.expires_at().is_some_and(|at| at <= now())
    }

    /// Number of days without use after which the vector store has expired; `None` if it has not.
    pub(super) fn expired_after(&self) -> Option<i64> {
        self.expires_after_days.filter(|_| self.is_expired())
    }

    fn object(self, counts: Counts) -> VectorStore {
        let status = if self.is_expired() {
            StoreStatus::Expired
        } else if counts.files.in_progress > 0 {
            StoreStatus::InProgress
        } else {
            StoreStatus::Completed
        };
        VectorStore {
            object: VectorStoreObject,
            expires_at: self.expires_at().map(Timestamp::unix_s),
            expires_after: self.expires_after_days.map(|days| ExpiresAfter {
                anchor: ExpiryAnchor::LastActiveAt,
                days,
            }),
            id: CollectionId::Store(self.id),
            handle: self.handle,
            name: self.name,
            description: self.description,
            channel_id: self.channel_id,
            editors: self.editors,
            trusted_reads: self.trusted_reads,
            file_counts: counts.files,
            status,
            usage_bytes: counts.bytes,
            metadata: serde_json::from_str(&self.metadata).unwrap_or_default(),
            last_active_at: self.last_active_at.unix_s(),
            created_by: Some(self.created_by),
            created_at: self.created_at.unix_s(),
            version: self.version,
        }
    }
}

/// Finds a vector store that the person can read.
///
/// # Errors
/// `NotFound`.
pub(super) async fn find(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
) -> Result<StoreRow, CollectionError> {
    let row = find_readable(c, actor.into(), named).await?;
    row.ok_or(CollectionError::NotFound)
}

async fn find_readable(
    c: &mut Conn,
    reader: FileReader,
    named: &StoreRef,
) -> Result<Option<StoreRow>, DbError> {
    let (id, handle) = match named {
        StoreRef::Id(id) => (Some(*id), None),
        StoreRef::Handle(handle) => (None, Some(handle.clone())),
        // It has no row here.
        StoreRef::Channel(_) => return Ok(None),
    };
    c.q(store_sql!(concat!(
        "where v.workspace_id = $1 and (v.id = $2 or v.handle = $3) and ",
        is_readable_store!("$4", "$5")
    )))
    .bind(reader.workspace)
    .bind(id)
    .bind(handle)
    .bind(reader.user)
    .bind(reader.shared_in)
    .opt()
    .await
}

/// Files for a search; `None` if the reader cannot read the vector store or channel, or if the vector store has expired.
///
/// # Errors
/// Only database errors.
pub async fn find_for(
    c: &mut Conn,
    reader: FileReader,
    named: &StoreRef,
) -> Result<Option<SearchedFiles>, DbError> {
    if let StoreRef::Channel(channel) = named {
        let is_readable: bool = c
            .q(concat!(
                "select exists (select 1 from channels sc where sc.id = $1 and sc.workspace_id = $2 and ",
                is_shared_channel!("sc.id", "$3", "$4"),
                ")"
            ))
            .bind(*channel)
            .bind(reader.workspace)
            .bind(reader.user)
            .bind(reader.shared_in)
            .value()
            .await?;
        return Ok(is_readable.then_some(SearchedFiles::OfChannel(*channel)));
    }
    let row = find_readable(c, reader, named).await?;
    let row = row.filter(|row| !row.is_expired());
    Ok(row.map(|row| SearchedFiles::OfStore(row.id)))
}

/// Finds a vector store that the person can change.
///
/// # Errors
/// `NotFound`, `NotEditor`.
pub(super) async fn find_to_change(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
) -> Result<StoreRow, CollectionError> {
    if matches!(named, StoreRef::Channel(_)) && find_for(c, actor.into(), named).await?.is_some() {
        return Err(CollectionError::NotEditor("messages of the channel"));
    }
    let row = find(c, actor, named).await?;
    actor.require(Scope::ChatWrite)?;
    let can_change = actor.role == Role::Admin
        || row.editors == StoreEditors::Members
            && match row.channel_id {
                Some(channel) => access::can_post(c, actor.user, channel, None).await?,
                None => true,
            };
    if can_change {
        Ok(row)
    } else {
        Err(CollectionError::NotEditor(match row.editors {
            StoreEditors::Members => "members who can post in its channel",
            StoreEditors::Admins => "admins",
        }))
    }
}

/// Like `find_to_change`, and locks the vector store, so that its row is read after the changes of other nodes.
///
/// # Errors
/// `NotFound`, `NotEditor`.
pub(super) async fn lock_to_change(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
) -> Result<StoreRow, CollectionError> {
    let id = find_to_change(c, actor, named).await?.id;
    versions::lock(c, id).await?;
    find_to_change(c, actor, &StoreRef::Id(id)).await
}

fn invalid(text: impl Into<String>, param: &'static str) -> CollectionError {
    CollectionError::Invalid(text.into(), param)
}

fn check_text(text: &str, max: usize, param: &'static str) -> Result<(), CollectionError> {
    if text.chars().count() > max {
        return Err(invalid(
            format!("{param} has more than {max} characters: shorten it"),
            param,
        ));
    }
    Ok(())
}

fn check_handle(handle: &str) -> Result<(), CollectionError> {
    let looks_like_id = VectorStoreId::parse(&format!("vs_{handle}")).is_ok();
    if !is_handle(handle) || looks_like_id {
        let text = "a handle can have at most 64 lowercase letters, digits, `_`, and `-`, and must not look like an ID";
        return Err(invalid(text, "handle"));
    }
    Ok(())
}

fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), CollectionError> {
    let is_long = |(key, value): (&String, &String)| {
        key.chars().count() > METADATA_KEY_CHARS_MAX
            || value.chars().count() > METADATA_VALUE_CHARS_MAX
    };
    if metadata.len() > METADATA_MAX || metadata.iter().any(is_long) {
        let text =
            "metadata can have at most 16 keys of 64 characters, with values of 512 characters";
        return Err(invalid(text, "metadata"));
    }
    Ok(())
}

fn check_expiry(expires_after: Option<ExpiresAfter>) -> Result<(), CollectionError> {
    if expires_after.is_some_and(|after| !(1..=EXPIRES_DAYS_MAX).contains(&after.days)) {
        return Err(invalid(
            "expires_after.days must be from 1 to 365",
            "expires_after",
        ));
    }
    Ok(())
}

/// Checks that only admins set what only admins decide.
fn check_admin(
    actor: &Actor<'_>,
    editors: Option<StoreEditors>,
    trusted_reads: Option<bool>,
) -> Result<(), CollectionError> {
    let needs_admin = editors == Some(StoreEditors::Admins) || trusted_reads == Some(true);
    if needs_admin && actor.role != Role::Admin {
        return Err(CollectionError::NotEditor("admins"));
    }
    Ok(())
}

fn check_trust(trusted_reads: bool, editors: StoreEditors) -> Result<(), CollectionError> {
    if trusted_reads && editors != StoreEditors::Admins {
        return Err(invalid(
            "trusted_reads needs editors: admins",
            "trusted_reads",
        ));
    }
    Ok(())
}

/// Checks that texts which do not taint are chosen by people, and not by the servers of web pages.
async fn check_no_pages(c: &mut Conn, store: VectorStoreId) -> Result<(), CollectionError> {
    let has_pages: bool = c
        .q("select exists (select 1 from vector_store_urls where store_id = $1)")
        .bind(store)
        .value()
        .await?;
    if has_pages {
        let text = "a vector store with web pages cannot have trusted_reads";
        return Err(invalid(text, "trusted_reads"));
    }
    Ok(())
}

async fn check_handle_is_free(
    c: &mut Conn,
    actor: &Actor<'_>,
    handle: &str,
    own: Option<VectorStoreId>,
) -> Result<(), CollectionError> {
    let taken: Option<(VectorStoreId,)> = c
        .q("select id from vector_stores where workspace_id = $1 and handle = $2")
        .bind(actor.workspace)
        .bind(handle.to_owned())
        .opt()
        .await?;
    match taken {
        Some((id,)) if Some(id) != own => Err(CollectionError::HandleTaken(handle.to_owned())),
        _ => Ok(()),
    }
}

/// Creates a vector store, with files of the person.
///
/// # Errors
/// `Invalid`, `HandleTaken`, `TooMany`, `NotEditor`, and those of `add_file`.
pub async fn create(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    form: &StoreForm,
) -> Result<VectorStore, CollectionError> {
    actor.require(Scope::ChatWrite)?;
    let name = form.name.as_deref().unwrap_or_default().trim();
    let description = form.description.as_deref().unwrap_or_default().trim();
    check_text(name, NAME_CHARS_MAX, "name")?;
    check_text(description, DESCRIPTION_CHARS_MAX, "description")?;
    let metadata = form.metadata.clone().unwrap_or_default();
    check_metadata(&metadata)?;
    check_expiry(form.expires_after)?;
    check_admin(actor, form.editors, form.trusted_reads)?;
    let editors = form.editors.unwrap_or(StoreEditors::Members);
    let trusted_reads = form.trusted_reads.unwrap_or(false);
    check_trust(trusted_reads, editors)?;
    if let Some(handle) = &form.handle {
        check_handle(handle)?;
        check_handle_is_free(c, actor, handle, None).await?;
    }
    if let Some(channel) = form.channel_id {
        let access = access::channel(c, caller, channel).await?;
        if access.actor.workspace != actor.workspace {
            return Err(crate::chat::ChatError::ChannelNotFound.into());
        }
        if !access::can_post(c, actor.user, channel, None).await? {
            return Err(CollectionError::NotEditor(
                "members who can post in its channel",
            ));
        }
    }
    let count: i64 = c
        .q("select count(*) from vector_stores where workspace_id = $1 and deleted_at is null")
        .bind(actor.workspace)
        .value()
        .await?;
    if count >= STORES_MAX {
        return Err(CollectionError::TooMany(STORES_MAX));
    }
    let id = VectorStoreId::new();
    c.q("insert into vector_stores (id, workspace_id, handle, name, description, channel_id, editors, trusted_reads, metadata, \
         expires_after_days, last_active_at, created_by, created_at, version) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $11, 1)")
        .bind(id)
        .bind(actor.workspace)
        .bind(form.handle.clone())
        .bind(name.to_owned())
        .bind(description.to_owned())
        .bind(form.channel_id)
        .bind(editors)
        .bind(trusted_reads)
        .bind(json_text(&metadata))
        .bind(form.expires_after.map(|after| after.days))
        .bind(now())
        .bind(actor.user)
        .run()
        .await?;
    let data = serde_json::json!({"name": name, "channel_id": form.channel_id});
    record_audit(
        c,
        actor,
        AuditAction::VectorStoreCreated,
        id.to_string(),
        data,
    )
    .await?;
    let named = StoreRef::Id(id);
    event::announce(c, id, EventType::VectorStoreUpdated).await?;
    let files = form.file_ids.clone().unwrap_or_default();
    let files = files.into_iter().map(|file| NewStoreFile {
        file,
        path: None,
        attributes: None,
    });
    add_files(c, actor, id, files.collect(), None).await?;
    get(c, actor, &named).await
}

/// # Errors
/// `NotFound`.
pub(super) async fn get(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
) -> Result<VectorStore, CollectionError> {
    let row = find(c, actor, named).await?;
    let counts = contents::count(c, row.id).await?;
    Ok(row.object(counts))
}

/// Vector stores that the person can read, oldest first.
///
/// # Errors
/// Only database errors.
pub async fn list(c: &mut Conn, actor: &Actor<'_>) -> Result<Vec<VectorStore>, CollectionError> {
    let rows: Vec<StoreRow> = c
        .q(store_sql!(concat!(
            "where v.workspace_id = $1 and ",
            is_readable_store!("$2", "$3"),
            " order by v.created_at, v.id"
        )))
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(None::<uuid::Uuid>)
        .all()
        .await?;
    let mut counts = contents::count_all(c, actor.workspace).await?;
    let stores = rows.into_iter().map(|row| {
        let counts = counts.remove(&row.id).unwrap_or_default();
        row.object(counts)
    });
    Ok(stores.collect())
}

/// Locks a vector store that the person can change. `expected` is the version from `If-Match`.
///
/// # Errors
/// `NotFound`, `NotEditor`, `Stale`.
async fn lock_version(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    expected: Option<i64>,
) -> Result<StoreRow, CollectionError> {
    let row = lock_to_change(c, actor, named).await?;
    if expected.is_some_and(|version| version != row.version) {
        let counts = contents::count(c, row.id).await?;
        let current = serde_json::to_value(row.object(counts)).unwrap_or_default();
        return Err(CollectionError::Stale(Box::new(current)));
    }
    Ok(row)
}

/// Changes a vector store. `expected` is the version from `If-Match`.
///
/// # Errors
/// `NotFound`, `NotEditor`, `Stale`, `Invalid`, `HandleTaken`.
pub async fn update(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    expected: Option<i64>,
    patch: &StorePatch,
) -> Result<VectorStore, CollectionError> {
    let row = lock_version(c, actor, named, expected).await?;
    let name = patch.name.as_deref().map_or(row.name.as_str(), str::trim);
    let description = patch.description.as_deref();
    let description = description.map_or(row.description.as_str(), str::trim);
    check_text(name, NAME_CHARS_MAX, "name")?;
    check_text(description, DESCRIPTION_CHARS_MAX, "description")?;
    if let Some(metadata) = &patch.metadata {
        check_metadata(metadata)?;
    }
    let expires_after = match patch.expires_after {
        Some(expires_after) => {
            check_expiry(expires_after)?;
            expires_after.map(|after| after.days)
        }
        None => row.expires_after_days,
    };
    check_admin(actor, patch.editors, patch.trusted_reads)?;
    let editors = patch.editors.unwrap_or(row.editors);
    let trusted_reads = patch.trusted_reads.unwrap_or(row.trusted_reads);
    check_trust(trusted_reads, editors)?;
    if trusted_reads && !row.trusted_reads {
        check_no_pages(c, row.id).await?;
    }
    if let Some(handle) = &patch.handle {
        check_handle(handle)?;
        check_handle_is_free(c, actor, handle, Some(row.id)).await?;
    }
    let metadata = patch
        .metadata
        .as_ref()
        .map_or(row.metadata.clone(), json_text);
    c.q("update vector_stores set name = $2, description = $3, handle = $4, editors = $5, trusted_reads = $6, metadata = $7, \
         expires_after_days = $8, last_active_at = $9, version = version + 1 where id = $1")
        .bind(row.id)
        .bind(name.to_owned())
        .bind(description.to_owned())
        .bind(patch.handle.clone().or(row.handle))
        .bind(editors)
        .bind(trusted_reads)
        .bind(metadata)
        .bind(expires_after)
        .bind(now())
        .run()
        .await?;
    if editors != row.editors || trusted_reads != row.trusted_reads {
        let data =
            serde_json::json!({"name": name, "editors": editors, "trusted_reads": trusted_reads});
        let id = row.id.to_string();
        record_audit(c, actor, AuditAction::VectorStoreUpdated, id, data).await?;
    }
    event::announce(c, row.id, EventType::VectorStoreUpdated).await?;
    get(c, actor, &StoreRef::Id(row.id)).await
}

/// Deletes a vector store. Files that were uploaded with a purpose stay. The rows are removed later, because there can be very many.
/// `expected` is the version from `If-Match`.
///
/// # Errors
/// `NotFound`, `NotEditor`, `Stale`.
pub async fn delete(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &StoreRef,
    expected: Option<i64>,
) -> Result<VectorStoreId, CollectionError> {
    let row = lock_version(c, actor, named, expected).await?;
    contents::forget_texts(c, row.id).await?;
    c.q("update vector_stores set deleted_at = $2, handle = null, version = version + 1 where id = $1")
        .bind(row.id)
        .bind(now())
        .run()
        .await?;
    event::announce(c, row.id, EventType::VectorStoreDeleted).await?;
    let data = serde_json::json!({"name": row.name});
    let id = row.id.to_string();
    record_audit(c, actor, AuditAction::VectorStoreDeleted, id, data).await?;
    Ok(row.id)
}
