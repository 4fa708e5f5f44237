//! HTTP routes for the server as a whole. Only admins of the oldest workspace, which belongs to the operator, can use them; everyone
//! else gets 404.

use axum::{Json, http::StatusCode};
use serde::Serialize;
use serde_json::json;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::require_operator;
use crate::{
    auth::{AuditAction, AuthError, WorkspaceCaller, record_audit},
    db::{Conn, Engine},
    disk::free_bytes,
    http::{
        ApiError, ErrorCode,
        extract::NoFields,
        page::{List, ListObject},
    },
    release::InstallKind,
    server::State,
    tasks::asleep::{self, AgentsState},
    telemetry,
    text_enum::{constant, text_enum},
    time::Timestamp,
    upkeep::{
        BackupState, DrillResult, LastBackup,
        backups::{self, BackupFault, ListedBackup, Run},
    },
};

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(get_server))
        .routes(routes!(list_backups, start_backup))
        .routes(routes!(start_drill))
        .routes(routes!(resume_agents))
}

constant! { ServerObject = "server" }

#[derive(Serialize, utoipa::ToSchema)]
struct ServerDatabase {
    #[schema(inline)]
    engine: EngineName,
    bytes: u64,
}

text_enum! {
    enum EngineName {
        Sqlite = "sqlite",
        Postgresql = "postgresql",
    }
}

#[derive(Serialize, utoipa::ToSchema)]
struct ServerDisk {
    /// Free space of the disk with the data directory; null if it cannot be measured.
    free_bytes: Option<u64>,
}

/// Backups on a schedule.
#[derive(Serialize, utoipa::ToSchema)]
struct ServerBackups {
    /// Directory or bucket; null if none is configured.
    to: Option<String>,
    last: Option<LastBackup>,
    /// Newest test of a backup.
    drill: Option<DrillResult>,
    next_at: Option<Timestamp>,
    running: bool,
    /// Cause of the newest failure, until a backup succeeds.
    error: Option<String>,
}

/// State of the server.
#[derive(Serialize, utoipa::ToSchema)]
struct ServerInfo {
    object: ServerObject,
    version: String,
    /// Commit from which a release was built.
    commit: Option<String>,
    #[schema(inline)]
    installed: InstallKind,
    started_at: Timestamp,
    database: ServerDatabase,
    disk: ServerDisk,
    backups: ServerBackups,
    #[schema(inline)]
    agents_state: AgentsState,
}

/// Get the state of the server
///
/// Only admins of the oldest workspace, which belongs to the operator, can use this route. Everyone else gets 404.
#[utoipa::path(get, path = "/v1/server", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    responses((status = 200, body = ServerInfo)))]
async fn get_server(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
) -> Result<Json<ServerInfo>, ApiError> {
    let mut c = state.db.read().await?;
    require_operator(&mut c, &caller).await?;
    let stored = BackupState::read(&mut c).await?;
    let is_asleep = asleep::is_asleep(&mut c).await?;
    drop(c);
    let (config, started_at) = (&state.config, telemetry::process::started_at());
    Ok(Json(ServerInfo {
        object: ServerObject,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: telemetry::COMMIT.map(str::to_owned),
        installed: InstallKind::of_this_program(),
        started_at,
        database: ServerDatabase {
            engine: match state.db.engine() {
                Engine::Sqlite => EngineName::Sqlite,
                Engine::Postgres => EngineName::Postgresql,
            },
            bytes: state.db.size_bytes().await?,
        },
        disk: ServerDisk {
            free_bytes: free_bytes(&config.data_dir).ok(),
        },
        backups: ServerBackups {
            to: config.backup_to.as_ref().map(ToString::to_string),
            next_at: backups::next_at(config, &stored, started_at),
            running: stored.is_running(Timestamp::now()),
            last: stored.last,
            drill: stored.drill,
            error: stored.error,
        },
        agents_state: if config.is_quiet {
            AgentsState::Quiet
        } else if is_asleep {
            AgentsState::Asleep
        } else {
            AgentsState::Running
        },
    }))
}

impl From<BackupFault> for ApiError {
    fn from(e: BackupFault) -> Self {
        let text = e.to_string();
        match e {
            BackupFault::NoPlace => Self::unprocessable(ErrorCode::NoBackupPlace, text),
            BackupFault::Running => Self::new(StatusCode::CONFLICT, ErrorCode::BackupRunning, text),
            BackupFault::Db(e) => e.into(),
            BackupFault::Failed(_) => {
                tracing::warn!("the backups cannot be listed: {text}");
                Self::unavailable(format!("the backups cannot be listed: {text}"))
            }
        }
    }
}

/// The backups of this server, newest first.
#[derive(Serialize, utoipa::ToSchema)]
struct BackupList {
    #[schema(inline)]
    object: ListObject,
    data: Vec<ListedBackup>,
    has_more: bool,
    first_id: Option<String>,
    last_id: Option<String>,
}

/// List the backups of this server, newest first
///
/// Only admins of the oldest workspace can use this route. Everyone else gets 404.
#[utoipa::path(get, path = "/v1/server/backups", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    responses((status = 200, body = BackupList)))]
async fn list_backups(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
) -> Result<Json<BackupList>, ApiError> {
    let mut c = state.db.read().await?;
    require_operator(&mut c, &caller).await?;
    drop(c);
    let found = backups::list(&state).await?;
    let limit = i64::try_from(found.len()).unwrap_or(i64::MAX);
    let list = List::new(found, limit, false, |backup| backup.name.clone());
    Ok(Json(BackupList {
        object: list.object,
        data: list.data,
        has_more: list.has_more,
        first_id: list.first_id,
        last_id: list.last_id,
    }))
}

/// Work that has begun; `GET /v1/server` has its result.
#[derive(Serialize, utoipa::ToSchema)]
struct BackupBegun {
    running: bool,
}

/// Begins a run on behalf of an admin, and records that.
async fn begin(
    state: &State,
    caller: WorkspaceCaller,
    action: AuditAction,
) -> Result<Run, ApiError> {
    let mut c = state.db.read().await?;
    require_operator(&mut c, &caller).await?;
    drop(c);
    let run = backups::begin(state).await?;
    let recorded = record(state, caller, action).await;
    match recorded {
        Ok(()) => Ok(run),
        Err(e) => {
            run.cancel().await;
            Err(e)
        }
    }
}

/// Records an action of an admin of the server. Access is checked again, because it may have been lost.
async fn record(
    state: &State,
    caller: WorkspaceCaller,
    action: AuditAction,
) -> Result<(), ApiError> {
    caller
        .write(&state.db, async move |c: &mut Conn, actor| {
            actor.require(crate::auth::Scope::WorkspaceAdmin)?;
            record_audit(c, actor, action, String::new(), json!({})).await?;
            Ok::<_, AuthError>(())
        })
        .await?;
    Ok(())
}

/// Start a backup
///
/// Only admins of the oldest workspace can use this route. Everyone else gets 404.
#[utoipa::path(post, path = "/v1/server/backups", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    responses((status = 202, body = BackupBegun, description = "The backup has begun")))]
async fn start_backup(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    _: NoFields,
) -> Result<(StatusCode, Json<BackupBegun>), ApiError> {
    let run = begin(&state, caller, AuditAction::ServerBackupStarted).await?;
    state.tracker.spawn(run.back_up());
    Ok((StatusCode::ACCEPTED, Json(BackupBegun { running: true })))
}

/// Test the newest backup by restoring it into a scratch directory
///
/// Only admins of the oldest workspace can use this route. Everyone else gets 404.
#[utoipa::path(post, path = "/v1/server/drill", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    responses((status = 202, body = BackupBegun, description = "The test has begun")))]
async fn start_drill(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    _: NoFields,
) -> Result<(StatusCode, Json<BackupBegun>), ApiError> {
    let run = begin(&state, caller, AuditAction::ServerDrillStarted).await?;
    state.tracker.spawn(run.drill());
    Ok((StatusCode::ACCEPTED, Json(BackupBegun { running: true })))
}

/// Result of starting the agents of a restored copy.
#[derive(Serialize, utoipa::ToSchema)]
struct AgentsResumed {
    /// Number of interrupted tasks that continue.
    tasks: u64,
}

/// Start schedules and interrupted tasks of a restored copy
///
/// Only admins of the oldest workspace can use this route. Everyone else gets 404.
#[utoipa::path(post, path = "/v1/server/resume", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    responses((status = 200, body = AgentsResumed)))]
async fn resume_agents(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    _: NoFields,
) -> Result<Json<AgentsResumed>, ApiError> {
    let mut c = state.db.read().await?;
    require_operator(&mut c, &caller).await?;
    drop(c);
    record(&state, caller, AuditAction::ServerResumed).await?;
    let tasks = asleep::resume(&state.db).await?;
    Ok(Json(AgentsResumed {
        tasks: tasks.unwrap_or_default(),
    }))
}
