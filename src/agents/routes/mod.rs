//! Agents over HTTP: profiles, versions, files, policies, and what their tasks saw.

use axum::{
    Json,
    extract::{FromRequestParts, RawPathParams},
    http::{StatusCode, header, request::Parts},
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
mod model_test;
mod policies;
mod profiles;
mod rpc;
mod task_context;
mod usage;
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
        .merge(usage::router())
        .merge(model_test::router())
}

/// An object with its version as `ETag`.
fn tagged(status: StatusCode, version: i64, body: &impl Serialize) -> Response {
    let etag = format!("\"{version}\"");
    (status, [(header::ETAG, etag)], Json(body)).into_response()
}

/// The whole agent, with its version as `ETag`.
async fn answer(state: &State, status: StatusCode, mut agent: Agent) -> Response {
    agent
        .summary
        .set_effective_model(state.provider.as_ref())
        .await;
    tagged(status, agent.summary.version, &agent)
}

/// The agent that a route names as `{id}`: its id, or `main`; and who asks, in its workspace. Whether the person may see it is
/// asked where it is read.
struct Named {
    actor: Actor,
    reference: String,
}

impl FromRequestParts<State> for Named {
    type Rejection = ApiError;

    /// # Errors
    /// `NotFound` for an agent of another workspace; 400 for what is no id.
    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let reference = RawPathParams::from_request_parts(parts, state)
            .await
            .ok()
            .and_then(|path| {
                let named = |(name, value): (&str, &str)| (name == "id").then(|| value.to_owned());
                path.iter().find_map(named)
            })
            .unwrap_or_default();
        if reference == "main" {
            let workspace = workspace_of(state, &parts.headers, &caller).await?;
            let actor = caller.enter(&mut state.db.read().await?, workspace).await?;
            return Ok(Self { actor, reference });
        }
        let id: AgentId = reference.parse()?;
        let mut c = state.db.read().await?;
        let row: Option<(WorkspaceId,)> = c
            .q("select workspace_id from agents where id = $1")
            .bind(id)
            .opt()
            .await?;
        let workspace = row.ok_or(AgentError::NotFound)?.0;
        let entered = caller.enter(&mut c, workspace).await;
        let actor = entered.map_err(|_| AgentError::NotFound)?;
        Ok(Self { actor, reference })
    }
}
