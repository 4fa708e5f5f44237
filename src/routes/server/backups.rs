//! HTTP routes for backups, and for the agents of a restored copy.

use axum::{Json, http::StatusCode};
use serde::Serialize;
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;

use super::audited::record;
use crate::{
    auth::{AuditAction, WorkspaceCaller},
    http::{
        ApiError, ErrorCode,
        extract::{NoFields, Query},
        page::{List, PageQuery},
        routing::routes,
    },
    routes::require_operator,
    server::State,
    tasks::asleep,
    upkeep::backups::{self, BackupFault, ListedBackup, Run},
};

type St = axum::extract::State<State>;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_backups, start_backup))
        .routes(routes!(start_drill))
        .routes(routes!(resume_agents))
}

impl From<BackupFault> for ApiError {
    fn from(e: BackupFault) -> Self {
        let text = e.to_string();
        match e {
            BackupFault::NoPlace => Self::unprocessable(ErrorCode::NoBackupPlace, text),
            BackupFault::NoBackup => Self::unprocessable(ErrorCode::NoBackup, text),
            BackupFault::Running => Self::new(StatusCode::CONFLICT, ErrorCode::BackupRunning, text),
            BackupFault::Db(e) => e.into(),
            BackupFault::Failed(_) => {
                tracing::warn!("the backups cannot be listed: {text}");
                Self::unavailable(format!("the backups cannot be listed: {text}"))
            }
        }
    }
}

/// List the backups of this server, newest first
///
/// Only admins of the oldest workspace can use this route. Everyone else gets 404.
#[utoipa::path(get, path = "/v1/server/backups", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(PageQuery<String>), responses((status = 200, body = List<ListedBackup>)))]
async fn list_backups(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    Query(query): Query<PageQuery<String>>,
) -> Result<Json<List<ListedBackup>>, ApiError> {
    let mut c = state.db.read().await?;
    require_operator(&mut c, &caller).await?;
    drop(c);
    let page = query.page(20)?;
    let found = backups::list(&state).await?;
    Ok(Json(page.cut(found, |backup| backup.name.clone())?))
}

/// Work that has begun; `GET /v1/server` has its result.
#[derive(Serialize, utoipa::ToSchema)]
struct BackupBegun {
    running: bool,
}

/// Records a run that an admin has begun, or ends it.
async fn recorded(
    state: &State,
    caller: WorkspaceCaller,
    run: Run,
    action: AuditAction,
) -> Result<Run, ApiError> {
    match record(state, caller, action, json!({})).await {
        Ok(()) => Ok(run),
        Err(e) => {
            run.cancel().await;
            Err(e)
        }
    }
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
    let mut c = state.db.read().await?;
    require_operator(&mut c, &caller).await?;
    drop(c);
    let run = backups::begin(&state).await?;
    let run = recorded(&state, caller, run, AuditAction::ServerBackupStarted).await?;
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
    let mut c = state.db.read().await?;
    require_operator(&mut c, &caller).await?;
    drop(c);
    let run = backups::begin_drill(&state).await?;
    let run = recorded(&state, caller, run, AuditAction::ServerDrillStarted).await?;
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
    record(&state, caller, AuditAction::ServerResumed, json!({})).await?;
    let tasks = asleep::resume(&state.db).await?;
    Ok(Json(AgentsResumed {
        tasks: tasks.unwrap_or_default(),
    }))
}
