//! Checks of the server, started by its admins.

use std::sync::Arc;

use axum::{Json, http::StatusCode};
use serde::Serialize;
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    auth::{AuditAction, Scope, WorkspaceCaller, record_audit},
    db::Conn,
    doctor::{self, Check, CheckedServer, stored},
    http::{ApiError, ErrorCode, error::ErrorBody, extract::NoFields, routing::routes},
    routes::require_operator,
    server::State,
};

type St = axum::extract::State<State>;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(run_checks))
}

/// Results of the checks.
#[derive(Serialize, utoipa::ToSchema)]
struct CheckResults {
    data: Vec<Check>,
}

/// Check the server and its surroundings
///
/// Takes up to 30 seconds. Only admins of the oldest workspace can use this route. Everyone else gets 404.
#[utoipa::path(post, path = "/v1/server/checks", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    responses((status = 200, body = CheckResults),
        (status = 409, description = "Checks are running", body = ErrorBody)))]
async fn run_checks(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    _: NoFields,
) -> Result<Json<CheckResults>, ApiError> {
    let mut c = state.db.read().await?;
    require_operator(&mut c, &caller).await?;
    drop(c);
    // While settings of the server name a model, the checks ask it themselves.
    let model = match state.providers.server_name() {
        None => Some(state.providers.get(&caller).await?),
        Some(_) => None,
    };
    caller
        .write(&state.db, async move |c: &mut Conn, actor| {
            actor.require(Scope::WorkspaceAdmin)?;
            if !stored::begin(c).await? {
                return Err(ApiError::new(
                    StatusCode::CONFLICT,
                    ErrorCode::ChecksRunning,
                    "checks are running: try again when they have ended".to_owned(),
                ));
            }
            let action = AuditAction::ServerChecked;
            record_audit(c, actor, action, String::new(), json!({})).await?;
            Ok(())
        })
        .await?;
    let subject = Arc::new(CheckedServer::this(&state, model));
    let db = state.db.clone();
    // Continues if the client disconnects, so that the results are stored.
    let run = state.tracker.spawn(async move {
        let checks = doctor::run(subject).await;
        stored::finish(&db, checks.clone()).await?;
        Ok::<_, ApiError>(checks)
    });
    let data = run.await.map_err(|_| ApiError::internal())??;
    Ok(Json(CheckResults { data }))
}
