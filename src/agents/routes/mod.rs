//! Agents over HTTP: profiles, versions, files, policies, and what their tasks saw.

use axum::{
    Json,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;

use super::{AgentError, profiles::Agent};
use crate::{
    auth::{Actor, Caller},
    http::{ApiError, State, extract::workspace_of},
    ids::{AgentId, WorkspaceId},
};

mod files;
mod policies;
mod profiles;
mod rpc;
mod task_context;
mod versions;

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .merge(profiles::router())
        .merge(versions::router())
        .merge(files::router())
        .merge(policies::router())
        .merge(task_context::router())
        .merge(rpc::router())
}

/// An object with its version as `ETag`.
fn tagged(status: StatusCode, version: i64, body: &impl Serialize) -> Response {
    let etag = format!("\"{version}\"");
    (status, [(header::ETAG, etag)], Json(body)).into_response()
}

/// The whole agent, with its version as `ETag`.
fn answer(status: StatusCode, agent: &Agent) -> Response {
    tagged(status, agent.summary.version, agent)
}

/// The person in the workspace of an agent: that of the agent named by id; the request's for `main`.
///
/// # Errors
/// `NotFound` for an agent of another workspace.
pub async fn actor_for(
    state: &State,
    headers: &HeaderMap,
    caller: &Caller,
    reference: &str,
) -> Result<Actor, ApiError> {
    if reference == "main" {
        let workspace = workspace_of(state, headers, caller).await?;
        return Ok(caller.enter(&mut state.db.read().await?, workspace).await?);
    }
    let id: AgentId = reference.parse()?;
    let mut c = state.db.read().await?;
    let row: Option<(WorkspaceId,)> = c
        .q("select workspace_id from agents where id = $1")
        .bind(id)
        .opt()
        .await?;
    let workspace = row.ok_or(AgentError::NotFound)?.0;
    Ok(caller
        .enter(&mut c, workspace)
        .await
        .map_err(|_| AgentError::NotFound)?)
}
