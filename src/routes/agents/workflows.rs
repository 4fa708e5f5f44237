//! HTTP routes for workflows.

use axum::{Json, http::StatusCode, response::Response};
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;

use super::{St, list_of_versions, tagged, version_before};
use crate::{
    agents::profiles,
    auth::{Actor, AuthError, Caller, Scope, WorkspaceCaller},
    db::Conn,
    http::{
        ApiError,
        extract::{Body, IfMatch, Path, Query},
        page::{Limit, List, PageQuery},
        routing::routes,
    },
    ids::WorkflowId,
    server::{State, caller::FreeDiskSpace},
    workflows::{
        self, Filter, Workflow, WorkflowError, WorkflowForm, WorkflowPatch, WorkflowVersion,
        definition::WorkflowStatus,
        recipes::{self, WorkflowRecipe},
    },
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_workflows, create_workflow))
        .routes(routes!(
            get_workflow,
            put_workflow,
            patch_workflow,
            archive_workflow
        ))
        .routes(routes!(list_workflow_versions))
        .routes(routes!(roll_back_workflow))
        .routes(routes!(list_recipes))
}

/// Returns the caller as a member of the workflow's workspace.
pub(super) async fn member_of(
    c: &mut Conn,
    caller: Caller,
    id: WorkflowId,
) -> Result<WorkspaceCaller, WorkflowError> {
    let workspace = workflows::workspace_of(c, id).await?;
    let workspace = workspace.ok_or(WorkflowError::NotFound)?;
    Ok(WorkspaceCaller { caller, workspace })
}

/// Reports a workflow of another workspace as absent.
pub(super) fn hide(error: WorkflowError) -> WorkflowError {
    match error {
        WorkflowError::Auth(AuthError::WorkspaceNotFound) => WorkflowError::NotFound,
        other => other,
    }
}

async fn enter<'a>(c: &mut Conn, member: &'a WorkspaceCaller) -> Result<Actor<'a>, WorkflowError> {
    let actor = member.enter(c).await.map_err(|e| hide(e.into()))?;
    actor.require(Scope::AgentsRead)?;
    Ok(actor)
}

/// # Errors
/// `NotFound`.
async fn get(c: &mut Conn, actor: &Actor<'_>, id: WorkflowId) -> Result<Workflow, WorkflowError> {
    let found = workflows::find_workflow(c, actor.workspace, id).await?;
    found.ok_or(WorkflowError::NotFound)
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WorkflowsQuery {
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// Only workflows created after the one with this ID.
    after: Option<WorkflowId>,
    /// Only workflows created before the one with this ID.
    before: Option<WorkflowId>,
    /// Only the workflow with exactly this name.
    name: Option<String>,
    /// Only workflows with this status.
    #[param(inline)]
    status: Option<WorkflowStatus>,
}

/// List the workflows of the workspace, oldest first
#[utoipa::path(get, path = "/v1/workflows", tag = "workflows",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(WorkflowsQuery), responses((status = 200, body = List<Workflow>)))]
async fn list_workflows(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<WorkflowsQuery>,
) -> Result<Json<List<Workflow>>, ApiError> {
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::AgentsRead)?;
    let page = PageQuery {
        limit: query.limit,
        after: query.after,
        before: query.before,
    }
    .page(20)?;
    if let Some(id) = page.after.or(page.before) {
        get(&mut c, &actor, id).await?;
    }
    let filter = Filter {
        name: query.name,
        status: query.status,
    };
    let (workspace, range) = (actor.workspace, page.range());
    let rows = workflows::list_workflows(&mut c, workspace, &filter, range, page.limit + 1);
    let mut rows = rows.await?;
    workflows::hide_channels(&mut c, &actor, &mut rows).await?;
    Ok(Json(List::new(
        rows,
        page.limit,
        page.before.is_some(),
        |workflow: &Workflow| workflow.id.to_string(),
    )))
}

/// Create a workflow
#[utoipa::path(post, path = "/v1/workflows", tag = "workflows",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    request_body(content = WorkflowForm,
        example = json!({"name": "greeting", "description": "Writes a greeting", "steps": [
            {"id": "draft", "kind": "agent", "prompt": "Write a greeting for {{input}}."},
            {"id": "post", "kind": "output", "content": "{{steps.draft.output}}"}]})),
    responses((status = 201, body = Workflow)))]
async fn create_workflow(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    _: FreeDiskSpace,
    Body(form): Body<WorkflowForm>,
) -> Result<Response, ApiError> {
    let made = member
        .write(&state.db, async move |c, actor| {
            workflows::create_workflow(c, actor, WorkflowId::new(), form.clone()).await
        })
        .await?;
    Ok(tagged(StatusCode::CREATED, made.version, &made))
}

/// Get a workflow
#[utoipa::path(get, path = "/v1/workflows/{id}", tag = "workflows",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("id" = WorkflowId, Path)), responses((status = 200, body = Workflow)))]
async fn get_workflow(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkflowId>,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    let member = member_of(&mut c, caller, id).await?;
    let actor = enter(&mut c, &member).await?;
    let mut workflow = get(&mut c, &actor, id).await?;
    workflows::hide_channels(&mut c, &actor, std::slice::from_mut(&mut workflow)).await?;
    Ok(tagged(StatusCode::OK, workflow.version, &workflow))
}

/// Replace a workflow except for its status; omitted fields are reset to their defaults
///
/// Replacing another person's workflow requires the admin role; keys need `agents:admin`.
#[utoipa::path(put, path = "/v1/workflows/{id}", tag = "workflows",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = WorkflowId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = WorkflowForm,
        example = json!({"name": "greeting", "steps": [{"id": "post", "kind": "output", "content": "Hello {{input}}."}]})),
    responses((status = 200, body = Workflow)))]
async fn put_workflow(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkflowId>,
    _: FreeDiskSpace,
    IfMatch(expected): IfMatch,
    Body(form): Body<WorkflowForm>,
) -> Result<Response, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    let changed = member
        .write(&state.db, async move |c, actor| {
            workflows::put_workflow(c, actor, id, form.clone(), expected).await
        })
        .await
        .map_err(hide)?;
    Ok(tagged(StatusCode::OK, changed.version, &changed))
}

/// Change a workflow; each change creates a version
///
/// Changing another person's workflow requires the admin role; keys need `agents:admin`. Admins take over a workflow by setting
/// `owner_id` to their own ID.
#[utoipa::path(patch, path = "/v1/workflows/{id}", tag = "workflows",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = WorkflowId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = WorkflowPatch, example = json!({"description": "Greets people", "status": "paused"})),
    responses((status = 200, body = Workflow)))]
async fn patch_workflow(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkflowId>,
    _: FreeDiskSpace,
    IfMatch(expected): IfMatch,
    Body(patch): Body<WorkflowPatch>,
) -> Result<Response, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    let changed = member
        .write(&state.db, async move |c, actor| {
            workflows::patch_workflow(c, actor, id, patch.clone(), expected).await
        })
        .await
        .map_err(hide)?;
    Ok(tagged(StatusCode::OK, changed.version, &changed))
}

/// Archive a workflow, so that it can no longer be started
///
/// Archiving another person's workflow requires the admin role; keys need `agents:admin`. `PATCH` with the status `active` restores
/// it.
#[utoipa::path(delete, path = "/v1/workflows/{id}", tag = "workflows",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = WorkflowId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    responses((status = 200, body = Workflow)))]
async fn archive_workflow(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkflowId>,
    IfMatch(expected): IfMatch,
) -> Result<Response, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    let archived = member
        .write(&state.db, async move |c, actor| {
            workflows::archive_workflow(c, actor, id, expected).await
        })
        .await
        .map_err(hide)?;
    Ok(tagged(StatusCode::OK, archived.version, &archived))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WorkflowVersionsQuery {
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// `next_cursor` from the previous page.
    cursor: Option<String>,
}

/// List the versions of a workflow, newest first
#[utoipa::path(get, path = "/v1/workflows/{id}/versions", tag = "workflows",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("id" = WorkflowId, Path), WorkflowVersionsQuery),
    responses((status = 200, body = List<WorkflowVersion>)))]
async fn list_workflow_versions(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkflowId>,
    Query(query): Query<WorkflowVersionsQuery>,
) -> Result<Json<List<WorkflowVersion>>, ApiError> {
    let limit = Limit::or(query.limit, 20);
    let before = version_before(query.cursor)?;
    let mut c = state.db.read().await?;
    let member = member_of(&mut c, caller, id).await?;
    enter(&mut c, &member).await?;
    drop(c);
    let mut c = state.db.scan(member.share()).await?;
    let actor = enter(&mut c, &member).await?;
    let owner = get(&mut c, &actor, id).await?.owner_id;
    let mut rows = workflows::list_versions(&mut c, id, before, limit + 1).await?;
    workflows::hide_channels_of_versions(&mut c, &actor, owner, &mut rows).await?;
    Ok(Json(list_of_versions(rows, limit, |v| v.version)))
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct WorkflowRollbackForm {
    target_version: i64,
}

/// Restore an earlier version as a new one; name, owner, and status are unchanged
///
/// Restoring a version of another person's workflow requires the admin role; keys need `agents:admin`.
#[utoipa::path(post, path = "/v1/workflows/{id}/rollback", tag = "workflows",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = WorkflowId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = WorkflowRollbackForm, example = json!({"target_version": 1})),
    responses((status = 200, body = Workflow)))]
async fn roll_back_workflow(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkflowId>,
    _: FreeDiskSpace,
    IfMatch(expected): IfMatch,
    Body(form): Body<WorkflowRollbackForm>,
) -> Result<Response, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    let target = form.target_version;
    let changed = member
        .write(&state.db, async move |c, actor| {
            workflows::rollback_workflow(c, actor, id, target, expected).await
        })
        .await
        .map_err(hide)?;
    Ok(tagged(StatusCode::OK, changed.version, &changed))
}

/// List workflow templates; post one to create the workflow
#[utoipa::path(get, path = "/v1/workflow-recipes", tag = "workflows",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    responses((status = 200, body = List<WorkflowRecipe>)))]
async fn list_recipes(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
) -> Result<Json<List<WorkflowRecipe>>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::AgentsRead)?;
    let main = profiles::find_default(&mut c, actor.workspace).await?;
    let writer = profiles::find_usable(&mut c, &actor, recipes::WRITER).await?;
    let writer = writer.map(|writer| writer.id);
    let all = main.map_or_else(Vec::new, |main| recipes::all(main.id, writer));
    let limit = i64::try_from(all.len()).unwrap_or(i64::MAX);
    Ok(Json(List::new(all, limit, false, |recipe| {
        recipe.name.clone()
    })))
}
