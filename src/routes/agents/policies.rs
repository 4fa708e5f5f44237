//! HTTP routes for workspace policies and sandbox policies.

use axum::{Json, http::StatusCode, response::Response};
use utoipa_axum::router::OpenApiRouter;

use super::{St, tagged};
use crate::{
    agents::{
        AgentError,
        policy::{self, Policy, PolicyPatch},
        sandbox::{self, SandboxForm, SandboxPolicy},
    },
    auth::{AuthError, Caller, Scope, WorkspaceCaller},
    db::Conn,
    http::{
        ApiError,
        extract::{Body, IfMatch, Path, Query},
        page::{List, PageQuery},
        routing::routes,
    },
    ids::{SandboxPolicyId, WorkspaceId},
    server::State,
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

/// Get the policy for all agents of the workspace
#[utoipa::path(get, path = "/v1/workspaces/{id}/policy", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("id" = WorkspaceId, Path)), responses((status = 200, body = Policy)))]
async fn get_policy(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkspaceId>,
) -> Result<Response, ApiError> {
    let mut c = state.db.snapshot().await?;
    let actor = caller.enter(&mut c, id).await?;
    actor.require(Scope::AgentsRead)?;
    let policy = policy::find(&mut c, id).await?;
    let version = policy::find_version(&mut c, id).await?;
    Ok(tagged(StatusCode::OK, version, &policy))
}

/// Change the policy for all agents of the workspace
#[utoipa::path(patch, path = "/v1/workspaces/{id}/policy", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = WorkspaceId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = PolicyPatch,
        example = json!({"required_text": "Never share what is marked confidential.", "members_write_agents": true})),
    responses((status = 200, body = Policy)))]
async fn patch_policy(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkspaceId>,
    IfMatch(expected): IfMatch,
    Body(patch): Body<PolicyPatch>,
) -> Result<Response, ApiError> {
    let member = WorkspaceCaller {
        caller,
        workspace: id,
    };
    let (policy, version) = member
        .write(&state.db, async move |c, actor| {
            let policy = policy::change(c, actor, &patch, expected).await?;
            let version = policy::find_version(c, actor.workspace).await?;
            Ok::<_, AgentError>((policy, version))
        })
        .await?;
    Ok(tagged(StatusCode::OK, version, &policy))
}

/// List the sandbox policies of the workspace, oldest first
#[utoipa::path(get, path = "/v1/sandbox-policies", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(PageQuery<SandboxPolicyId>), responses((status = 200, body = List<SandboxPolicy>)))]
async fn list_sandbox_policies(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<PageQuery<SandboxPolicyId>>,
) -> Result<Json<List<SandboxPolicy>>, ApiError> {
    let page = query.page(20)?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::AgentsRead)?;
    let all = sandbox::list(&mut c, actor.workspace).await?;
    Ok(Json(page.cut(all, |policy: &SandboxPolicy| policy.id)?))
}

/// Create a sandbox policy
#[utoipa::path(post, path = "/v1/sandbox-policies", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["agents:admin"])),
    request_body(content = SandboxForm,
        example = json!({"name": "Small", "image": "python:3.13-slim", "cpu_max": 1.0, "memory_mb_max": 256, "network": "none", "allowed_hosts": [], "timeout_s_max": 30, "filesystem": "read_only"})),
    responses((status = 201, body = SandboxPolicy)))]
async fn create_sandbox_policy(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<SandboxForm>,
) -> Result<(StatusCode, Json<SandboxPolicy>), ApiError> {
    let made = member
        .write(&state.db, async move |c, actor| {
            sandbox::create(c, actor, form.clone()).await
        })
        .await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// Returns the caller as a member of the sandbox policy's workspace.
async fn member_of(
    c: &mut Conn,
    caller: Caller,
    id: SandboxPolicyId,
) -> Result<WorkspaceCaller, AgentError> {
    let row: Option<(WorkspaceId,)> = c
        .q("select workspace_id from sandbox_policies where id = $1")
        .bind(id)
        .opt()
        .await?;
    let workspace = row.ok_or(AgentError::SandboxPolicyNotFound)?.0;
    Ok(WorkspaceCaller { caller, workspace })
}

/// Reports a policy of another workspace as absent.
fn hide(error: AgentError) -> AgentError {
    match error {
        AgentError::Auth(AuthError::WorkspaceNotFound) => AgentError::SandboxPolicyNotFound,
        other => other,
    }
}

/// Get a sandbox policy
#[utoipa::path(get, path = "/v1/sandbox-policies/{id}", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("id" = SandboxPolicyId, Path)), responses((status = 200, body = SandboxPolicy)))]
async fn get_sandbox_policy(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<SandboxPolicyId>,
) -> Result<Json<SandboxPolicy>, ApiError> {
    let mut c = state.db.read().await?;
    let member = member_of(&mut c, caller, id).await?;
    let actor = member.enter(&mut c).await.map_err(|e| hide(e.into()))?;
    actor.require(Scope::AgentsRead)?;
    Ok(Json(sandbox::get(&mut c, actor.workspace, id).await?))
}

/// Replace a sandbox policy
#[utoipa::path(put, path = "/v1/sandbox-policies/{id}", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["agents:admin"])),
    params(("id" = SandboxPolicyId, Path)),
    request_body(content = SandboxForm,
        example = json!({"name": "Small and slow", "image": "python:3.13-slim", "cpu_max": 0.5, "memory_mb_max": 256, "network": "none", "allowed_hosts": [], "timeout_s_max": 60, "filesystem": "read_only"})),
    responses((status = 200, body = SandboxPolicy)))]
async fn put_sandbox_policy(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<SandboxPolicyId>,
    Body(form): Body<SandboxForm>,
) -> Result<Json<SandboxPolicy>, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    let changed = member
        .write(&state.db, async move |c, actor| {
            sandbox::replace(c, actor, id, form.clone()).await
        })
        .await
        .map_err(hide)?;
    Ok(Json(changed))
}

/// Delete an unused sandbox policy
#[utoipa::path(delete, path = "/v1/sandbox-policies/{id}", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["agents:admin"])),
    params(("id" = SandboxPolicyId, Path)), responses((status = 204)))]
async fn delete_sandbox_policy(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<SandboxPolicyId>,
) -> Result<StatusCode, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    member
        .write(&state.db, async move |c, actor| {
            sandbox::delete(c, actor, id).await
        })
        .await
        .map_err(hide)?;
    Ok(StatusCode::NO_CONTENT)
}
