//! Imports as they are stored and managed.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{
    archive::{ArchiveFault, Piece},
    error::ImportError,
    event::announce_import,
    key::RecordKind,
    message::ChatPlace,
    options::{ChannelChoice, ImportFormat, ImportGroup, ImportOptions},
    people::is_active_member,
    preview::ImportPreview,
    report::ImportReport,
};
use crate::{
    auth::{Actor, AuditAction, Scope, record_audit, workspaces},
    db::{Conn, DbError, Json, dialect, now},
    files::{self, NewBlob},
    ids::{ImportId, UserId, WorkspaceId},
    storage::Blob,
    text_enum::constant,
    time::Timestamp,
};

pub(super) use super::state::{ImportPhase, ImportState};

constant! { pub ImportObject = "import" }

/// Maximum number of imports of a workspace that have not started.
const WAITING_MAX: i64 = 100;
/// Maximum number of imports of a person's chats that have not started.
const WAITING_CHATS_MAX: i64 = 3;
/// Maximum size of an archive with chats.
const CHATS_BYTES_MAX: u64 = 1 << 30;
/// Maximum number of imports in a list.
const LISTED_MAX: i64 = 100;
/// Maximum number of choices about people, and about channels.
const CHOICES_MAX: usize = 10_000;
/// Maximum number of stated addresses, and length of one.
const ADDRESSES_MAX: usize = 100_000;
const ADDRESS_BYTES_MAX: usize = 254;
/// Maximum size of a piece of an archive.
pub const PIECE_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of pieces of an archive.
const PIECES_MAX: i64 = 100_000;

/// Input for a new import.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImportForm {
    /// Detected by default.
    #[schema(inline)]
    pub format: Option<ImportFormat>,
    pub options: ImportOptions,
    /// Name of a file in the server's directory for archives (`OPENVIBE_IMPORT_DIR`), which needs no upload; only for admins of the server.
    pub path: Option<String>,
    /// SHA-256 of the archive, 64 hexadecimal digits in lowercase. It is not checked: a client finds an interrupted import by it.
    pub digest: Option<String>,
}

/// Changes to an import that has not started. People and channels that are not named keep their choice.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImportPatch {
    pub people: HashMap<String, UserId>,
    /// Email addresses of people whose address is not in the archive.
    pub addresses: HashMap<String, String>,
    #[schema(value_type = HashMap<String, String>)]
    pub channels: HashMap<String, ChannelChoice>,
    #[schema(inline)]
    pub group: Option<ImportGroup>,
    pub fetch: Option<bool>,
}

/// An import of an archive.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ArchiveImport {
    #[schema(inline)]
    pub object: ImportObject,
    pub id: ImportId,
    /// Null until it was detected.
    #[schema(inline)]
    pub format: Option<ImportFormat>,
    /// Such as `slack:T024BE7LD`; null until the archive was read.
    pub source: Option<String>,
    #[schema(inline)]
    pub state: ImportState,
    #[schema(inline)]
    pub phase: ImportPhase,
    pub options: ImportOptions,
    /// Bytes of the archive that were received, and all of them; null until the first piece was received.
    pub received: i64,
    pub size_bytes: Option<i64>,
    /// Name of the file in the server's directory for archives; null for an upload.
    pub path: Option<String>,
    /// SHA-256 of the archive, if the client stated it.
    pub digest: Option<String>,
    /// Messages that were read.
    pub done: i64,
    pub total: i64,
    pub per_second: i64,
    /// Seconds until the end; null if the import is not running.
    pub eta_s: Option<i64>,
    pub left_out: i64,
    pub problems: i64,
    /// Reason why the import is paused or failed.
    pub problem: Option<String>,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

/// An import with its internal fields.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct ImportRow {
    pub id: ImportId,
    pub workspace_id: WorkspaceId,
    pub created_by: UserId,
    pub format: Option<ImportFormat>,
    pub source: Option<String>,
    pub state: ImportState,
    pub phase: ImportPhase,
    pub options: Json<ImportOptions>,
    pub size_bytes: Option<i64>,
    pub received_bytes: i64,
    pub path: Option<String>,
    pub digest: Option<String>,
    pub report: Json<ImportReport>,
    /// Position: number of the entry in the phase; in the phase of messages, of the day, and of the message in it. While the import is
    /// being undone, the sequence number of the oldest message that was visited.
    pub position: i64,
    pub message: i64,
    pub done: i64,
    pub total: i64,
    pub problem: Option<String>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

impl ImportRow {
    /// Checks whether these are chats of one person, who is the only one who can see the import.
    pub fn is_of_person(&self) -> bool {
        self.format == Some(ImportFormat::Chats)
    }
}

macro_rules! import_sql {
    ($tail:literal) => {
        concat!(
            "select id, workspace_id, created_by, format, source, state, phase, options, size_bytes, received_bytes, path, digest, report, position, message, \
             done, total, problem, created_at, started_at, finished_at from imports ",
            $tail
        )
    };
}

impl From<ImportRow> for ArchiveImport {
    fn from(row: ImportRow) -> Self {
        let started = row.started_at.filter(|_| row.state == ImportState::Running);
        let ms = started.map(|at| (now().unix_ms() - at.unix_ms()).max(1));
        let per_second = ms.map_or(0, |ms| row.done.saturating_mul(1000) / ms);
        let eta_s = ms
            .filter(|_| per_second > 0)
            .map(|_| (row.total - row.done).max(0) / per_second);
        Self {
            object: ImportObject,
            id: row.id,
            format: row.format,
            source: row.source,
            state: row.state,
            phase: row.phase,
            options: row.options.0,
            received: row.received_bytes,
            size_bytes: row.size_bytes,
            path: row.path,
            digest: row.digest,
            done: row.done,
            total: row.total,
            per_second,
            eta_s,
            left_out: row.report.0.total_left_out(),
            problems: i64::try_from(row.report.0.problems.len()).unwrap_or(i64::MAX),
            problem: row.problem,
            created_by: row.created_by,
            created_at: row.created_at,
            finished_at: row.finished_at,
        }
    }
}

/// Workspace of an import.
///
/// # Errors
/// Only database errors.
pub async fn workspace_of_import(
    c: &mut Conn,
    id: ImportId,
) -> Result<Option<WorkspaceId>, DbError> {
    let row: Option<(WorkspaceId,)> = c
        .q("select workspace_id from imports where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

pub(super) async fn find(c: &mut Conn, id: ImportId) -> Result<Option<ImportRow>, DbError> {
    c.q(import_sql!("where id = $1")).bind(id).opt().await
}

/// An import of the actor's workspace: the actor's own chats, or one of an archive of a team, which only admins can see.
///
/// # Errors
/// `NotFound`, or an error from `Actor::require`.
pub async fn get(c: &mut Conn, actor: &Actor<'_>, id: ImportId) -> Result<ImportRow, ImportError> {
    let row = find(c, id).await?;
    let row = row.filter(|row| row.workspace_id == actor.workspace);
    let own = row.filter(|row| !row.is_of_person() || row.created_by == actor.user);
    if own.as_ref().is_some_and(ImportRow::is_of_person) {
        actor.require(Scope::ChatWrite)?;
    } else {
        actor.require(Scope::WorkspaceAdmin)?;
    }
    own.ok_or(ImportError::NotFound)
}

/// Imports to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportsOf {
    /// Archives of teams.
    Workspace,
    /// Chats of the actor.
    Person,
}

/// The newest imports, newest first.
///
/// # Errors
/// An error from `Actor::require`.
pub async fn list(
    c: &mut Conn,
    actor: &Actor<'_>,
    of: ImportsOf,
) -> Result<Vec<ArchiveImport>, ImportError> {
    let q = match of {
        ImportsOf::Workspace => {
            actor.require(Scope::WorkspaceAdmin)?;
            c.q(import_sql!(
                "where workspace_id = $1 and (format is null or format <> 'chats') order by id desc limit $2"
            ))
            .bind(actor.workspace)
            .bind(LISTED_MAX)
        }
        ImportsOf::Person => {
            actor.require(Scope::ChatWrite)?;
            c.q(import_sql!(
                "where workspace_id = $1 and format = 'chats' and created_by = $3 order by id desc limit $2"
            ))
            .bind(actor.workspace)
            .bind(LISTED_MAX)
            .bind(actor.user)
        }
    };
    let rows: Vec<ImportRow> = q.all().await?;
    Ok(rows.into_iter().map(ArchiveImport::from).collect())
}

/// # Errors
/// `Running`.
pub(super) async fn check_none_running(
    c: &mut Conn,
    workspace: WorkspaceId,
) -> Result<(), ImportError> {
    let is_running: bool = c
        .q("select exists (select 1 from imports where workspace_id = $1 and state in ('running', 'undoing'))")
        .bind(workspace)
        .value()
        .await?;
    if is_running {
        return Err(ImportError::Running);
    }
    Ok(())
}

/// Checks that chats go to the actor's own channel with an agent, and that nothing else is chosen for them.
async fn check_chats(
    c: &mut Conn,
    actor: &Actor<'_>,
    options: &ImportOptions,
) -> Result<(), ImportError> {
    let place = match options.channel_id {
        Some(id) => ChatPlace::find(c, actor.workspace, id, actor.user).await?,
        None => None,
    };
    if place.is_none() {
        let problem =
            "name your own direct channel with an agent, which `POST /v1/direct {agent_id}` opens";
        return Err(ImportError::Invalid(problem.to_owned(), "channel_id"));
    }
    let has_people = !options.people.is_empty() || !options.addresses.is_empty();
    if has_people || !options.channels.is_empty() || options.fetch {
        let problem = "chats have neither people nor channels to choose".to_owned();
        return Err(ImportError::Invalid(problem, "people"));
    }
    Ok(())
}

/// Checks that choices are about members, and about public channels that the actor can see: what was private stays private.
async fn check_options(
    c: &mut Conn,
    actor: &Actor<'_>,
    format: Option<ImportFormat>,
    options: &ImportOptions,
) -> Result<(), ImportError> {
    if format == Some(ImportFormat::Chats) {
        return check_chats(c, actor, options).await;
    }
    if options.channel_id.is_some() {
        let problem = "only chats go to one channel".to_owned();
        return Err(ImportError::Invalid(problem, "channel_id"));
    }
    if options
        .addresses
        .values()
        .any(|address| address.len() > ADDRESS_BYTES_MAX || !address.contains('@'))
    {
        let problem = "a value is not an email address".to_owned();
        return Err(ImportError::Invalid(problem, "addresses"));
    }
    if options.addresses.len() > ADDRESSES_MAX {
        let problem = format!("at most {ADDRESSES_MAX} addresses are possible");
        return Err(ImportError::Invalid(problem, "addresses"));
    }
    if options.people.len() > CHOICES_MAX || options.channels.len() > CHOICES_MAX {
        let problem = format!("at most {CHOICES_MAX} choices are possible");
        return Err(ImportError::Invalid(problem, "people"));
    }
    for user in options.people.values() {
        if !is_active_member(c, actor.workspace, *user).await? {
            let problem = format!("{user} is not a member of the workspace");
            return Err(ImportError::Invalid(problem, "people"));
        }
    }
    for choice in options.channels.values() {
        let ChannelChoice::Existing(id) = choice else {
            continue;
        };
        let is_public: bool = c
            .q("select exists (select 1 from channels where workspace_id = $1 and id = $2 and kind = 'public')")
            .bind(actor.workspace)
            .bind(*id)
            .value()
            .await?;
        if !is_public {
            let problem = format!("{id} is not a public channel of the workspace");
            return Err(ImportError::Invalid(problem, "channels"));
        }
    }
    Ok(())
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// A file in the server's directory for archives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalArchive {
    /// Relative to the directory.
    pub path: String,
    pub size_bytes: u64,
}

/// Checks that the actor can import from the server's directory for archives, which is not of one workspace: an admin of the server.
///
/// # Errors
/// `Invalid`, or an error from `Actor::require`.
pub async fn check_local_user(c: &mut Conn, actor: &Actor<'_>) -> Result<(), ImportError> {
    actor.require(Scope::WorkspaceAdmin)?;
    if workspaces::is_server_admin(c, actor.user).await? {
        return Ok(());
    }
    let problem = "only admins of the server can import from its directory: upload the archive";
    Err(ImportError::Invalid(problem.to_owned(), "path"))
}

/// Creates an import, whose archive is uploaded next, or copied from the server's directory.
///
/// # Errors
/// `Running`, `TooMany`, `Invalid`, or an error from `Actor::require`.
pub async fn create(
    c: &mut Conn,
    actor: &Actor<'_>,
    form: &ImportForm,
    local: Option<&LocalArchive>,
) -> Result<ArchiveImport, ImportError> {
    let is_of_person = form.format == Some(ImportFormat::Chats);
    if is_of_person {
        actor.require(Scope::ChatWrite)?;
    } else {
        actor.require(Scope::WorkspaceAdmin)?;
    }
    if local.is_some() {
        check_local_user(c, actor).await?;
    }
    dialect::lock_workspace(c, actor.workspace.0).await?;
    check_none_running(c, actor.workspace).await?;
    let (q, max) = if is_of_person {
        let q = c.q("select count(*) from imports where workspace_id = $1 and state in ('receiving', 'reading', 'ready') \
            and format = 'chats' and created_by = $2");
        (q.bind(actor.workspace).bind(actor.user), WAITING_CHATS_MAX)
    } else {
        let q = c.q("select count(*) from imports where workspace_id = $1 and state in ('receiving', 'reading', 'ready') \
            and (format is null or format <> 'chats')");
        (q.bind(actor.workspace), WAITING_MAX)
    };
    let waiting: i64 = q.value().await?;
    if waiting >= max {
        return Err(ImportError::TooMany(max));
    }
    let mut options = form.options.clone();
    options.lower_addresses();
    check_options(c, actor, form.format, &options).await?;
    if form.digest.as_deref().is_some_and(|text| !is_digest(text)) {
        let problem = "send the SHA-256 as 64 hexadecimal digits in lowercase".to_owned();
        return Err(ImportError::Invalid(problem, "digest"));
    }
    let id = ImportId::new();
    let size = local.map(|local| i64::try_from(local.size_bytes).unwrap_or(i64::MAX));
    c.q("insert into imports (id, workspace_id, created_by, format, source, state, phase, options, size_bytes, received_bytes, preview, report, \
         position, message, done, total, problem, created_at, started_at, finished_at, path, digest) \
         values ($1, $2, $3, $4, null, $5, $6, $7, $10, 0, null, $8, 0, 0, 0, 0, null, $9, null, null, $11, $12)")
        .bind(id)
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(form.format)
        .bind(ImportState::Receiving)
        .bind(ImportPhase::People)
        .bind(Json(options))
        .bind(Json(ImportReport::default()))
        .bind(now())
        .bind(size)
        .bind(local.map(|local| local.path.clone()))
        .bind(form.digest.clone())
        .run()
        .await?;
    let data = serde_json::json!({});
    record_audit(c, actor, AuditAction::ImportCreated, id.to_string(), data).await?;
    Ok(get(c, actor, id).await?.into())
}

/// Range of a piece: first byte, and size of the whole archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceRange {
    pub start: u64,
    pub len: u64,
    pub total: u64,
}

impl PieceRange {
    /// Parses `bytes 0-99/200`.
    pub fn parse(text: &str) -> Option<Self> {
        let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
        let (start, end) = range.split_once('-')?;
        let (start, end): (u64, u64) = (start.parse().ok()?, end.parse().ok()?);
        let total: u64 = total.parse().ok()?;
        let len = end.checked_sub(start)?.checked_add(1)?;
        (end < total).then_some(Self { start, len, total })
    }
}

/// Checks whether a piece is the next one, before its bytes are read. Returns the number of received bytes if it was received before.
///
/// # Errors
/// `State`, `WrongOffset`, `TooLarge`, `Invalid`, `NotFound`, or an error from `Actor::require`.
pub async fn check_piece(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ImportId,
    range: PieceRange,
    bytes_max: u64,
) -> Result<Option<i64>, ImportError> {
    let row = get(c, actor, id).await?;
    let bytes_max = if row.is_of_person() {
        bytes_max.min(CHATS_BYTES_MAX)
    } else {
        bytes_max
    };
    if range.total > bytes_max {
        return Err(ImportError::TooLarge(bytes_max));
    }
    if range.len > PIECE_BYTES_MAX {
        return Err(ImportError::PieceTooLarge(PIECE_BYTES_MAX));
    }
    let received = row.received_bytes.unsigned_abs();
    if range.start.saturating_add(range.len) <= received {
        return Ok(Some(row.received_bytes));
    }
    if row.state != ImportState::Receiving || row.path.is_some() {
        return Err(ImportError::State(row.state.as_str()));
    }
    if range.start != received {
        return Err(ImportError::WrongOffset(received));
    }
    let known = row.size_bytes.map(i64::unsigned_abs);
    if known.is_some_and(|known| known != range.total) {
        let problem = "the size of the archive differs from that of the first piece".to_owned();
        return Err(ImportError::Invalid(problem, "content-range"));
    }
    Ok(None)
}

/// Stores a piece. Returns the number of received bytes, and the upload whose bytes are used.
///
/// # Errors
/// Same as `check_piece`, or `Expired`.
pub async fn insert_piece(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ImportId,
    range: PieceRange,
    bytes_max: u64,
    blob: &NewBlob,
) -> Result<(i64, Option<uuid::Uuid>), ImportError> {
    dialect::lock_workspace(c, actor.workspace.0).await?;
    if let Some(received) = check_piece(c, actor, id, range, bytes_max).await? {
        return Ok((received, None));
    }
    let count: i64 = c
        .q("select count(*) from import_pieces where import_id = $1")
        .bind(id)
        .value()
        .await?;
    if count >= PIECES_MAX {
        let problem = format!("an archive can have at most {PIECES_MAX} pieces: send larger ones");
        return Err(ImportError::Invalid(problem, "content-range"));
    }
    let end = store_piece(c, id, range, blob).await?;
    Ok((end.received, Some(end.upload)))
}

/// A piece that was stored.
struct StoredPiece {
    received: i64,
    /// The upload whose bytes are used.
    upload: uuid::Uuid,
}

async fn store_piece(
    c: &mut Conn,
    id: ImportId,
    range: PieceRange,
    blob: &NewBlob,
) -> Result<StoredPiece, ImportError> {
    let upload = files::name_blob(c, blob).await?;
    let (start, len) = (
        i64::try_from(range.start).unwrap_or(i64::MAX),
        i64::try_from(range.len).unwrap_or(i64::MAX),
    );
    c.q("insert into import_pieces (import_id, start, size_bytes, hash) values ($1, $2, $3, $4)")
        .bind(id)
        .bind(start)
        .bind(len)
        .bind(blob.blob.hash.clone())
        .run()
        .await?;
    let received = start + len;
    c.q("update imports set received_bytes = $2, size_bytes = $3 where id = $1")
        .bind(id)
        .bind(received)
        .bind(i64::try_from(range.total).unwrap_or(i64::MAX))
        .run()
        .await?;
    Ok(StoredPiece { received, upload })
}

/// Stores a piece of an archive in the server's directory. Returns the upload whose bytes are used. Fails if another node has stored it, or
/// the import was deleted.
///
/// # Errors
/// `Archive`, `Expired`.
pub(super) async fn insert_copied(
    c: &mut Conn,
    id: ImportId,
    range: PieceRange,
    blob: &NewBlob,
) -> Result<uuid::Uuid, ImportError> {
    let row = find(c, id).await?;
    let is_next = row.is_some_and(|row| {
        row.state == ImportState::Receiving && row.received_bytes.unsigned_abs() == range.start
    });
    if !is_next {
        return Err(ArchiveFault::Stopped.into());
    }
    Ok(store_piece(c, id, range, blob).await?.upload)
}

/// Format of an archive whose upload has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WantedFormat {
    Detected,
    Chosen(ImportFormat),
}

/// Format of an archive whose upload has not ended; `None` if it has.
///
/// # Errors
/// Only database errors.
pub(super) async fn wanted_format(
    c: &mut Conn,
    id: ImportId,
) -> Result<Option<WantedFormat>, DbError> {
    let row = find(c, id).await?;
    let row = row.filter(|row| row.state == ImportState::Receiving);
    Ok(row.map(|row| {
        row.format
            .map_or(WantedFormat::Detected, WantedFormat::Chosen)
    }))
}

/// Ends the upload: an archive of a format is read next, and one with a problem was rejected.
///
/// # Errors
/// Only database errors.
pub(super) async fn end_upload(
    c: &mut Conn,
    id: ImportId,
    detected: Result<ImportFormat, String>,
) -> Result<(), ImportError> {
    let state = match detected {
        Ok(_) => ImportState::Reading,
        Err(_) => ImportState::Failed,
    };
    c.q("update imports set state = $2, problem = $3, finished_at = $4, format = coalesce($5, format) where id = $1 and state = 'receiving'")
        .bind(id)
        .bind(state)
        .bind(detected.clone().err())
        .bind((state == ImportState::Failed).then(now))
        .bind(detected.ok())
        .run()
        .await?;
    if state == ImportState::Failed {
        delete_pieces(c, id).await?;
    }
    Ok(announce_import(c, id).await?)
}

#[derive(sqlx::FromRow)]
struct PieceRow {
    start: i64,
    size_bytes: i64,
    #[sqlx(flatten)]
    blob: Blob,
}

/// The pieces of an archive, in order.
pub(super) async fn pieces(c: &mut Conn, id: ImportId) -> Result<Vec<Piece>, DbError> {
    let rows: Vec<PieceRow> = c
        .q("select p.start, p.size_bytes, b.hash, b.upload_id, b.store from import_pieces p join blobs b on b.hash = p.hash \
            where p.import_id = $1 order by p.start")
        .bind(id)
        .all()
        .await?;
    let piece = |row: PieceRow| Piece {
        start: row.start.unsigned_abs(),
        size_bytes: row.size_bytes.unsigned_abs(),
        blob: row.blob,
    };
    Ok(rows.into_iter().map(piece).collect())
}

async fn delete_pieces(c: &mut Conn, id: ImportId) -> Result<(), DbError> {
    c.q("delete from import_pieces where import_id = $1")
        .bind(id)
        .run()
        .await?;
    Ok(())
}

/// Ends or pauses an import, unless somebody has changed its state since it was `from`.
pub(super) async fn end(
    c: &mut Conn,
    id: ImportId,
    from: ImportState,
    state: ImportState,
    problem: Option<String>,
) -> Result<(), DbError> {
    let is_over = state != ImportState::Paused;
    let changed = c
        .q("update imports set state = $2, problem = $3, finished_at = $4 where id = $1 and state = $5")
        .bind(id)
        .bind(state)
        .bind(problem)
        .bind(is_over.then(now))
        .bind(from)
        .run()
        .await?;
    if is_over && changed == 1 {
        // Names and addresses of people are not needed any longer.
        c.q("update imports set preview = null, options = $2 where id = $1")
            .bind(id)
            .bind(Json(ImportOptions::default()))
            .run()
            .await?;
        delete_pieces(c, id).await?;
    }
    if changed == 1 {
        announce_import(c, id).await?;
    }
    Ok(())
}

/// The preview of an import as it was stored; `None` until the archive was read, or after the import ended.
async fn find_preview(c: &mut Conn, id: ImportId) -> Result<Option<ImportPreview>, DbError> {
    let stored: Option<Json<ImportPreview>> = c
        .q("select preview from imports where id = $1")
        .bind(id)
        .value()
        .await?;
    Ok(stored.map(|Json(preview)| preview))
}

/// The preview of an import.
///
/// # Errors
/// `State` until the archive was read, or after the import ended; `NotFound`, or an error from `Actor::require`.
pub async fn get_preview(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ImportId,
) -> Result<ImportPreview, ImportError> {
    let row = get(c, actor, id).await?;
    let preview = find_preview(c, id).await?;
    let mut preview = preview.ok_or(ImportError::State(row.state.as_str()))?;
    preview
        .match_with(c, actor.workspace, &row.options.0)
        .await?;
    Ok(preview)
}

/// Changes the choices about an import that has not started.
///
/// # Errors
/// `State`, `Invalid`, `NotFound`, or an error from `Actor::require`.
pub async fn patch(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ImportId,
    patch: &ImportPatch,
) -> Result<ArchiveImport, ImportError> {
    dialect::lock_workspace(c, actor.workspace.0).await?;
    let row = get(c, actor, id).await?;
    let is_open = matches!(
        row.state,
        ImportState::Receiving | ImportState::Reading | ImportState::Ready
    );
    if !is_open {
        return Err(ImportError::State(row.state.as_str()));
    }
    let format = row.format;
    let mut options = row.options.0;
    options.people.extend(patch.people.clone());
    options.channels.extend(patch.channels.clone());
    options.addresses.extend(patch.addresses.clone());
    options.lower_addresses();
    options.group = patch.group.or(options.group);
    options.fetch = patch.fetch.unwrap_or(options.fetch);
    check_options(c, actor, format, &options).await?;
    if let Some(preview) = find_preview(c, id).await? {
        preview.check(&options)?;
    }
    c.q("update imports set options = $2 where id = $1")
        .bind(id)
        .bind(Json(options))
        .run()
        .await?;
    let data = serde_json::json!({});
    record_audit(c, actor, AuditAction::ImportUpdated, id.to_string(), data).await?;
    Ok(get(c, actor, id).await?.into())
}

/// Change of the state of an import that a person makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportStep {
    /// Starts an import that is ready.
    Start,
    /// Pauses a running import after the records that are being stored.
    Pause,
    /// Continues a paused import.
    Resume,
}

impl ImportStep {
    /// State before and after the step, and the audited action.
    fn change(self) -> (ImportState, ImportState, AuditAction) {
        use ImportState::{Paused, Ready, Running};
        match self {
            Self::Start => (Ready, Running, AuditAction::ImportStarted),
            Self::Pause => (Running, Paused, AuditAction::ImportPaused),
            Self::Resume => (Paused, Running, AuditAction::ImportResumed),
        }
    }
}

/// Starts, pauses, or resumes an import. An import that is already in the wanted state is returned unchanged.
///
/// # Errors
/// `State`, `Running`, `NotFound`, or an error from `Actor::require`.
pub async fn step(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ImportId,
    step: ImportStep,
) -> Result<ArchiveImport, ImportError> {
    dialect::lock_workspace(c, actor.workspace.0).await?;
    let row = get(c, actor, id).await?;
    let (from, to, action) = step.change();
    if row.state == to {
        return Ok(row.into());
    }
    if row.state != from {
        return Err(ImportError::State(row.state.as_str()));
    }
    if to == ImportState::Running {
        check_none_running(c, actor.workspace).await?;
    }
    c.q("update imports set state = $2, problem = null, started_at = coalesce(started_at, $3) where id = $1")
        .bind(id)
        .bind(to)
        .bind(now())
        .run()
        .await?;
    record_audit(c, actor, action, id.to_string(), serde_json::json!({})).await?;
    announce_import(c, id).await?;
    Ok(get(c, actor, id).await?.into())
}

/// Deletes an import that has not started, and returns `None`; begins to undo any other.
///
/// # Errors
/// `Running`, `NotFound`, or an error from `Actor::require`.
pub async fn delete(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ImportId,
) -> Result<Option<ArchiveImport>, ImportError> {
    dialect::lock_workspace(c, actor.workspace.0).await?;
    let row = get(c, actor, id).await?;
    let data = serde_json::json!({});
    if row.started_at.is_none() {
        c.q("delete from imports where id = $1")
            .bind(id)
            .run()
            .await?;
        record_audit(c, actor, AuditAction::ImportDeleted, id.to_string(), data).await?;
        return Ok(None);
    }
    if matches!(row.state, ImportState::Undoing | ImportState::Undone) {
        return Ok(Some(row.into()));
    }
    if row.state != ImportState::Running {
        check_none_running(c, actor.workspace).await?;
    }
    let total = row.report.0.counts_of(RecordKind::Messages).imported;
    c.q("update imports set state = 'undoing', phase = 'messages', position = 0, message = 0, done = 0, total = $3, problem = null, \
         finished_at = null, preview = null, options = $2 where id = $1")
        .bind(id)
        .bind(Json(ImportOptions::default()))
        .bind(total)
        .run()
        .await?;
    delete_pieces(c, id).await?;
    record_audit(c, actor, AuditAction::ImportUndone, id.to_string(), data).await?;
    announce_import(c, id).await?;
    Ok(Some(get(c, actor, id).await?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_names_its_bytes_and_the_size_of_all() {
        let range = PieceRange {
            start: 5,
            len: 5,
            total: 20,
        };
        assert_eq!(PieceRange::parse("bytes 5-9/20"), Some(range));
        for bad in [
            "",
            "bytes 5-9",
            "bytes 9-5/20",
            "bytes 0-20/20",
            "bytes */20",
            "0-1/2",
            "bytes 0-18446744073709551615/18446744073709551615",
        ] {
            assert_eq!(PieceRange::parse(bad), None, "{bad}");
        }
    }
}
