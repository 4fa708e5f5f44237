//! What holds for all agents of a workspace, and sandbox policies, over HTTP.

use axum::{Json, http::StatusCode};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::St;
use crate::{
    agents::{
        policy::{self, Policy, PolicyPatch},
        sandbox::{self, SandboxForm, SandboxPolicy},
    },
    auth::{Actor, Caller, Scope},
    db::Conn,
    http::{
        ApiError, State,
        extract::{Body, Path},
        page::List,
    },
    ids::{SandboxPolicyId, WorkspaceId},
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(get_policy, patch_policy))
        .routes(routes!(list_sandbox_policies, create_sandbox_policy))
        .routes(routes!(
            get_sandbox_policy,
            put_sandbox_policy,
            delete_sandbox_policy
        ))
}

/// What holds for every agent of the workspace
#[utoipa::path(get, path = "/v1/workspaces/{id}/policy", tag = "agents", params(("id" = WorkspaceId, Path)), responses((status = 200, body = Policy)))]
async fn get_policy(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkspaceId>,
) -> Result<Json<Policy>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = caller.enter(&mut c, id).await?;
    actor.require(Scope::AgentsRead)?;
    Ok(Json(policy::find(&mut c, id).await?))
}

/// Change what holds for every agent of the workspace
#[utoipa::path(patch, path = "/v1/workspaces/{id}/policy", tag = "agents", params(("id" = WorkspaceId, Path)),
    request_body = PolicyPatch, responses((status = 200, body = Policy)))]
async fn patch_policy(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkspaceId>,
    Body(patch): Body<PolicyPatch>,
) -> Result<Json<Policy>, ApiError> {
    let actor = caller.enter(&mut state.db.read().await?, id).await?;
    let policy = state
        .db
        .write(id.0, async move |c: &mut Conn| {
            policy::change(c, &actor, &patch).await
        })
        .await?;
    Ok(Json(policy))
}

/// Sandbox policies of the workspace, oldest first
#[utoipa::path(get, path = "/v1/sandbox-policies", tag = "agents", responses((status = 200, body = List<SandboxPolicy>)))]
async fn list_sandbox_policies(
    axum::extract::State(state): St,
    actor: Actor,
) -> Result<Json<List<SandboxPolicy>>, ApiError> {
    actor.require(Scope::AgentsRead)?;
    let mut c = state.db.read().await?;
    let all = sandbox::list(&mut c, actor.workspace).await?;
    let limit = i64::try_from(all.len()).unwrap_or(i64::MAX);
    Ok(Json(List::new(all, limit, false, |p: &SandboxPolicy| {
        p.id.to_string()
    })))
}

/// Make a sandbox policy
#[utoipa::path(post, path = "/v1/sandbox-policies", tag = "agents", request_body = SandboxForm, responses((status = 201, body = SandboxPolicy)))]
async fn create_sandbox_policy(
    axum::extract::State(state): St,
    actor: Actor,
    Body(form): Body<SandboxForm>,
) -> Result<(StatusCode, Json<SandboxPolicy>), ApiError> {
    let key = actor.workspace.0;
    let made = state
        .db
        .write(key, async move |c: &mut Conn| {
            sandbox::create(c, &actor, form.clone()).await
        })
        .await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// The person in the workspace of a sandbox policy.
async fn actor_of(state: &State, caller: &Caller, id: SandboxPolicyId) -> Result<Actor, ApiError> {
    let mut c = state.db.read().await?;
    let row: Option<(WorkspaceId,)> = c
        .q("select workspace_id from sandbox_policies where id = $1")
        .bind(id)
        .opt()
        .await?;
    let unknown = || crate::agents::AgentError::SandboxPolicyNotFound;
    let workspace = row.ok_or_else(unknown)?.0;
    Ok(caller
        .enter(&mut c, workspace)
        .await
        .map_err(|_| unknown())?)
}

/// A sandbox policy
#[utoipa::path(get, path = "/v1/sandbox-policies/{id}", tag = "agents", params(("id" = SandboxPolicyId, Path)), responses((status = 200, body = SandboxPolicy)))]
async fn get_sandbox_policy(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<SandboxPolicyId>,
) -> Result<Json<SandboxPolicy>, ApiError> {
    let actor = actor_of(&state, &caller, id).await?;
    actor.require(Scope::AgentsRead)?;
    let mut c = state.db.read().await?;
    Ok(Json(sandbox::get(&mut c, actor.workspace, id).await?))
}

/// Replace a sandbox policy
#[utoipa::path(put, path = "/v1/sandbox-policies/{id}", tag = "agents", params(("id" = SandboxPolicyId, Path)),
    request_body = SandboxForm, responses((status = 200, body = SandboxPolicy)))]
async fn put_sandbox_policy(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<SandboxPolicyId>,
    Body(form): Body<SandboxForm>,
) -> Result<Json<SandboxPolicy>, ApiError> {
    let actor = actor_of(&state, &caller, id).await?;
    let key = actor.workspace.0;
    let changed = state
        .db
        .write(key, async move |c: &mut Conn| {
            sandbox::replace(c, &actor, id, form.clone()).await
        })
        .await?;
    Ok(Json(changed))
}

/// Delete a sandbox policy that nothing names
#[utoipa::path(delete, path = "/v1/sandbox-policies/{id}", tag = "agents", params(("id" = SandboxPolicyId, Path)), responses((status = 204)))]
async fn delete_sandbox_policy(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<SandboxPolicyId>,
) -> Result<StatusCode, ApiError> {
    let actor = actor_of(&state, &caller, id).await?;
    let key = actor.workspace.0;
    state
        .db
        .write(key, async move |c: &mut Conn| {
            sandbox::delete(c, &actor, id).await
        })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
