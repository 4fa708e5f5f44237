//! Exports as they are stored and managed.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    added::{Added, ArchiveEnd},
    error::ExportError,
    page::Place,
    view::{ExportFormat, ExportScope, FileBytes, Sight, View},
    zip::{Method, ZipEntry},
};
use crate::{
    auth::{Actor, AuditAction, Scope, record_audit},
    db::{Conn, Db, DbError, Json, dialect, now},
    files::{self, NewBlob},
    ids::{ExportId, UserId, WorkspaceId},
    storage::Blob,
    text_enum::{constant, text_enum},
    time::Timestamp,
};

constant! { pub WorkspaceExportObject = "export" }

/// Maximum number of exports of a workspace that are being written.
const RUNNING_MAX: i64 = 20;
/// Maximum number of exports of a workspace that have not expired.
const KEPT_MAX: i64 = 200;
/// Time for which an archive can be downloaded.
const KEPT_FOR: Duration = Duration::from_hours(24);

text_enum! {
    pub enum ExportState {
        /// The archive is being written.
        Running = "running",
        Done = "done",
        Failed = "failed",
    }
}

/// Input for a new export.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExportForm {
    /// `public` by default.
    #[schema(inline)]
    pub scope: Option<ExportScope>,
    /// Includes the bytes of files; true by default.
    pub files: Option<bool>,
    /// `openvibe` by default.
    #[schema(inline)]
    pub format: Option<ExportFormat>,
}

/// An archive of a workspace.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct WorkspaceExport {
    #[schema(inline)]
    pub object: WorkspaceExportObject,
    pub id: ExportId,
    #[schema(inline)]
    pub scope: ExportScope,
    pub files: bool,
    #[schema(inline)]
    pub format: ExportFormat,
    #[schema(inline)]
    pub state: ExportState,
    /// Records in the archive so far, by kind.
    pub counts: BTreeMap<String, i64>,
    /// Size of the archive so far.
    pub size_bytes: i64,
    /// Reason why the export failed.
    pub problem: Option<String>,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// Time at which the archive is deleted; null until the export has ended.
    pub expires_at: Option<Timestamp>,
}

/// An export with its internal fields.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct ExportRow {
    pub(super) id: ExportId,
    pub(super) workspace_id: WorkspaceId,
    pub(super) created_by: UserId,
    pub(super) scope: ExportScope,
    pub(super) format: ExportFormat,
    pub(super) with_files: bool,
    pub(super) state: ExportState,
    pub(super) place: Json<Place>,
    pub(super) counts: Json<BTreeMap<String, i64>>,
    pub(super) size_bytes: i64,
    pub(super) entries: i64,
    pub(super) problem: Option<String>,
    pub(super) created_at: Timestamp,
    pub(super) finished_at: Option<Timestamp>,
    pub(super) expires_at: Option<Timestamp>,
}

macro_rules! export_sql {
    ($tail:literal) => {
        concat!(
            "select id, workspace_id, created_by, scope, format, with_files, state, place, counts, size_bytes, entries, problem, \
             created_at, finished_at, expires_at from exports ",
            $tail
        )
    };
}

impl From<ExportRow> for WorkspaceExport {
    fn from(row: ExportRow) -> Self {
        Self {
            object: WorkspaceExportObject,
            id: row.id,
            scope: row.scope,
            files: row.with_files,
            format: row.format,
            state: row.state,
            counts: row.counts.0,
            size_bytes: row.size_bytes,
            problem: row.problem,
            created_by: row.created_by,
            created_at: row.created_at,
            finished_at: row.finished_at,
            expires_at: row.expires_at,
        }
    }
}

impl ExportRow {
    /// Data that the archive contains.
    pub(super) fn view(&self) -> View {
        View {
            workspace: self.workspace_id,
            sight: match self.scope {
                ExportScope::Public => Sight::Public,
                ExportScope::Mine => Sight::Person(self.created_by),
            },
            files: if self.with_files {
                FileBytes::Included
            } else {
                FileBytes::LeftOut
            },
            format: self.format,
            requester: self.created_by,
        }
    }

    /// Name of the archive for people.
    pub fn file_name(&self) -> String {
        let day = self.created_at.day();
        format!("{}-export-{day}.zip", self.format)
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.unsigned_abs()
    }
}

/// Workspace of an export.
///
/// # Errors
/// Only database errors.
pub async fn workspace_of_export(
    c: &mut Conn,
    id: ExportId,
) -> Result<Option<WorkspaceId>, DbError> {
    let row: Option<(WorkspaceId,)> = c
        .q("select workspace_id from exports where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

/// Exports that are being written; those first whose last attempt began first, so that they take turns.
pub(super) async fn list_running(c: &mut Conn, limit: i64) -> Result<Vec<ExportId>, DbError> {
    let rows: Vec<(ExportId,)> = c
        .q("select id from exports where state = 'running' order by attempt limit $1")
        .bind(limit)
        .all()
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

pub(super) async fn find(c: &mut Conn, id: ExportId) -> Result<Option<ExportRow>, DbError> {
    c.q(export_sql!("where id = $1")).bind(id).opt().await
}

/// An export of the actor's workspace.
///
/// # Errors
/// `NotFound`, or an error from `Actor::require`.
pub async fn get(c: &mut Conn, actor: &Actor<'_>, id: ExportId) -> Result<ExportRow, ExportError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let row = find(c, id).await?;
    row.filter(|row| row.workspace_id == actor.workspace)
        .ok_or(ExportError::NotFound)
}

/// The exports of the actor's workspace that have not expired, newest first.
///
/// # Errors
/// An error from `Actor::require`.
pub async fn list(c: &mut Conn, actor: &Actor<'_>) -> Result<Vec<WorkspaceExport>, ExportError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let rows: Vec<ExportRow> = c
        .q(export_sql!(
            "where workspace_id = $1 order by id desc limit $2"
        ))
        .bind(actor.workspace)
        .bind(KEPT_MAX)
        .all()
        .await?;
    Ok(rows.into_iter().map(WorkspaceExport::from).collect())
}

/// Cancels an export that is being written, or deletes its archive.
///
/// # Errors
/// `NotFound`, or an error from `Actor::require`.
pub async fn delete(c: &mut Conn, actor: &Actor<'_>, id: ExportId) -> Result<(), ExportError> {
    let row = get(c, actor, id).await?;
    c.q("delete from exports where id = $1")
        .bind(id)
        .run()
        .await?;
    let data = serde_json::json!({"scope": row.scope, "format": row.format, "state": row.state});
    record_audit(c, actor, AuditAction::ExportDeleted, id.to_string(), data).await?;
    Ok(())
}

/// A key without `chat:read` gives no access to its owner's private channels.
fn require_chats(actor: &Actor<'_>, scope: ExportScope) -> Result<(), ExportError> {
    match scope {
        ExportScope::Public => Ok(()),
        ExportScope::Mine => Ok(actor.require(Scope::ChatRead)?),
    }
}

/// A piece of an archive.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct ExportPiece {
    pub start: i64,
    pub size_bytes: i64,
    #[sqlx(flatten)]
    pub blob: Blob,
}

/// An export whose archive the actor can download, and its pieces. An archive with private channels is only for the person who asked for
/// it.
///
/// # Errors
/// `NotFound`, `NotReady`, or an error from `Actor::require`.
pub async fn get_finished(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ExportId,
) -> Result<(ExportRow, Vec<ExportPiece>), ExportError> {
    let row = get(c, actor, id).await?;
    require_chats(actor, row.scope)?;
    let is_theirs = row.scope == ExportScope::Public || row.created_by == actor.user;
    let is_kept = row.expires_at.is_none_or(|at| at > now());
    if !is_theirs || !is_kept {
        return Err(ExportError::NotFound);
    }
    if row.state != ExportState::Done {
        return Err(ExportError::NotReady(row.state.as_str()));
    }
    let pieces: Vec<ExportPiece> = c
        .q("select p.start, p.size_bytes, b.hash, b.upload_id, b.store from export_pieces p join blobs b on b.hash = p.hash \
            where p.export_id = $1 order by p.start")
        .bind(id)
        .all()
        .await?;
    Ok((row, pieces))
}

/// Creates an export, which is written next.
///
/// # Errors
/// `Running`, `TooMany`, or an error from `Actor::require`.
pub async fn create(
    c: &mut Conn,
    actor: &Actor<'_>,
    form: &ExportForm,
) -> Result<WorkspaceExport, ExportError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let scope = form.scope.unwrap_or(ExportScope::Public);
    require_chats(actor, scope)?;
    dialect::lock_workspace(c, actor.workspace.0).await?;
    let (kept, running): (i64, i64) = c
        .q("select count(*), count(case when state = 'running' then 1 end) from exports where workspace_id = $1")
        .bind(actor.workspace)
        .one()
        .await?;
    if running >= RUNNING_MAX {
        return Err(ExportError::Running(running));
    }
    if kept >= KEPT_MAX {
        return Err(ExportError::TooMany(KEPT_MAX));
    }
    let (id, attempt) = (ExportId::new(), Uuid::now_v7());
    let format = form.format.unwrap_or(ExportFormat::OpenVibe);
    c.q("insert into exports (id, workspace_id, created_by, scope, format, with_files, state, attempt, place, counts, size_bytes, entries, \
         problem, created_at, finished_at, expires_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, 0, null, $11, null, null)")
        .bind(id)
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(scope)
        .bind(format)
        .bind(form.files.unwrap_or(true))
        .bind(ExportState::Running)
        .bind(attempt)
        .bind(Json(Place::default()))
        .bind(Json(BTreeMap::<String, i64>::new()))
        .bind(now())
        .run()
        .await?;
    let data = serde_json::json!({"scope": scope, "format": format});
    record_audit(c, actor, AuditAction::ExportCreated, id.to_string(), data).await?;
    Ok(get(c, actor, id).await?.into())
}

/// Begins an attempt to write an archive, from its last stored entry on. Earlier attempts can add nothing from now on.
///
/// # Errors
/// `Stopped` if the export has ended.
pub(super) async fn begin(
    c: &mut Conn,
    id: ExportId,
    attempt: Uuid,
) -> Result<ExportRow, ExportError> {
    let n = c
        .q("update exports set attempt = $2 where id = $1 and state = 'running'")
        .bind(id)
        .bind(attempt)
        .run()
        .await?;
    if n != 1 {
        return Err(ExportError::Stopped);
    }
    c.q("delete from export_pieces where export_id = $1 and start >= (select size_bytes from exports where id = $1)")
        .bind(id)
        .run()
        .await?;
    find(c, id).await?.ok_or(ExportError::Stopped)
}

/// Checks, in the transaction that adds to the archive, that this attempt is the current one, and that the person who asked for the
/// export is an admin.
///
/// # Errors
/// `Stopped`, `NotAdmin`.
pub(super) async fn check_attempt(
    c: &mut Conn,
    id: ExportId,
    attempt: Uuid,
) -> Result<(), ExportError> {
    let found: Option<(bool,)> = c
        .q("select exists (select 1 from members m where m.workspace_id = e.workspace_id and m.user_id = e.created_by and m.role = 'admin' \
            and m.status = 'active') from exports e where e.id = $1 and e.attempt = $2 and e.state = 'running'")
        .bind(id)
        .bind(attempt)
        .opt()
        .await?;
    match found {
        None => Err(ExportError::Stopped),
        Some((false,)) => Err(ExportError::NotAdmin),
        Some((true,)) => Ok(()),
    }
}

/// Stores a piece of an archive, and returns the upload whose bytes are used.
///
/// # Errors
/// `Expired`, `Db`.
pub(super) async fn insert_piece(
    c: &mut Conn,
    id: ExportId,
    start: i64,
    blob: &NewBlob,
) -> Result<Uuid, ExportError> {
    let upload = files::name_blob(c, blob).await?;
    c.q("insert into export_pieces (export_id, start, size_bytes, hash) values ($1, $2, $3, $4)")
        .bind(id)
        .bind(start)
        .bind(blob.size_bytes)
        .bind(blob.blob.hash.clone())
        .run()
        .await?;
    Ok(upload)
}

fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Stores the additions after the first `known` entries.
pub(super) async fn add(
    c: &mut Conn,
    id: ExportId,
    known: i64,
    added: &Added,
) -> Result<(), ExportError> {
    for (entry, n) in added.entries.iter().zip(known..) {
        c.q("insert into export_entries (export_id, n, name, method, crc, size_bytes, packed_bytes, start, hash) \
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9)")
            .bind(id)
            .bind(n)
            .bind(entry.name.clone())
            .bind(i64::from(entry.method.code()))
            .bind(i64::from(entry.crc))
            .bind(number(entry.size_bytes))
            .bind(number(entry.packed_bytes))
            .bind(number(entry.start))
            .bind(entry.hash.clone())
            .run()
            .await?;
    }
    let entries = known + i64::try_from(added.entries.len()).unwrap_or(0);
    let (state, ended) = match added.end {
        ArchiveEnd::Open => (ExportState::Running, None),
        ArchiveEnd::Complete => (ExportState::Done, Some(now())),
    };
    c.q("update exports set place = $2, counts = $3, size_bytes = $4, entries = $5, state = $6, finished_at = $7, expires_at = $8 where id = $1")
        .bind(id)
        .bind(Json(added.place.clone()))
        .bind(Json(added.counts.clone()))
        .bind(number(added.size_bytes))
        .bind(entries)
        .bind(state)
        .bind(ended)
        .bind(ended.map(|at| at + KEPT_FOR))
        .run()
        .await?;
    if ended.is_some() {
        // The archive has its own directory now.
        c.q("delete from export_entries where export_id = $1")
            .bind(id)
            .run()
            .await?;
    }
    Ok(())
}

#[derive(sqlx::FromRow)]
struct EntryRow {
    name: String,
    method: i64,
    crc: i64,
    size_bytes: i64,
    packed_bytes: i64,
    start: i64,
    hash: String,
}

/// Stored entries from number `from` on.
pub(super) async fn list_entries(
    c: &mut Conn,
    id: ExportId,
    from: i64,
    limit: i64,
) -> Result<Vec<ZipEntry>, DbError> {
    let rows: Vec<EntryRow> = c
        .q(
            "select name, method, crc, size_bytes, packed_bytes, start, hash from export_entries \
            where export_id = $1 and n >= $2 order by n limit $3",
        )
        .bind(id)
        .bind(from)
        .bind(limit)
        .all()
        .await?;
    let entry = |row: EntryRow| ZipEntry {
        name: row.name,
        method: Method::of_code(row.method),
        crc: u32::try_from(row.crc).unwrap_or(0),
        size_bytes: row.size_bytes.unsigned_abs(),
        packed_bytes: row.packed_bytes.unsigned_abs(),
        start: row.start.unsigned_abs(),
        hash: row.hash,
    };
    Ok(rows.into_iter().map(entry).collect())
}

/// Ends an export that cannot be written.
pub(super) async fn fail(c: &mut Conn, id: ExportId, problem: String) -> Result<(), DbError> {
    let at = now();
    let n = c
        .q("update exports set state = 'failed', problem = $2, finished_at = $3, expires_at = $4 where id = $1 and state = 'running'")
        .bind(id)
        .bind(problem)
        .bind(at)
        .bind(at + KEPT_FOR)
        .run()
        .await?;
    if n == 1 {
        for sql in [
            "delete from export_pieces where export_id = $1",
            "delete from export_entries where export_id = $1",
        ] {
            c.q(sql).bind(id).run().await?;
        }
    }
    Ok(())
}

/// Deletes exports whose archives have expired.
///
/// # Errors
/// Only database errors.
pub async fn delete_old(db: &Db) -> Result<(), DbError> {
    db.delete_expired(
        now(),
        "select exists (select 1 from exports where expires_at < $1)",
        "delete from exports where id in (select id from exports where expires_at < $1 order by expires_at limit $2)",
    )
    .await?;
    Ok(())
}
