//! HTTP routes for the registry of tools.

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    agents::profiles,
    auth::{Actor, AuthError, Caller, Scope, WorkspaceCaller},
    db::{Conn, DbError},
    http::{
        ApiError, ErrorCode,
        extract::{Body, IfMatch, NoFields, Path, Query},
        page::{List, PageQuery},
        routing::routes,
    },
    ids::ToolId,
    registry::{self, AcceptanceForm, RegisteredTool, SecretForm, ToolError, ToolForm, ToolPatch},
    server::{
        State,
        caller::{FreeDiskSpace, Outgoing},
    },
};

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_tools, create_tool))
        .routes(routes!(get_tool, patch_tool, delete_tool))
        .routes(routes!(put_tool_secret, delete_tool_secret))
        .routes(routes!(refresh_tool))
        .routes(routes!(accept_tool_function, withdraw_tool_function))
}

/// Returns the caller as a member of the tool's workspace.
async fn member_of(c: &mut Conn, caller: Caller, id: ToolId) -> Result<WorkspaceCaller, ToolError> {
    let workspace = registry::workspace_of(c, id).await?;
    let workspace = workspace.ok_or(ToolError::NotFound)?;
    Ok(WorkspaceCaller { caller, workspace })
}

/// Reports a tool of another workspace as absent.
fn hide(error: ToolError) -> ToolError {
    match error {
        ToolError::Auth(AuthError::WorkspaceNotFound) => ToolError::NotFound,
        other => other,
    }
}

/// Prepares tools for a response: adds their users, and removes what the actor is not allowed to see.
async fn shown(
    state: &State,
    c: &mut Conn,
    actor: &Actor<'_>,
    mut tools: Vec<RegisteredTool>,
) -> Result<Vec<RegisteredTool>, DbError> {
    registry::find_users(c, actor.workspace, &mut tools).await?;
    let tools = tools.into_iter().map(|tool| state.registry.shown(tool));
    let tools = tools.collect();
    if actor.scopes.has(Scope::AgentsAdmin) {
        return Ok(tools);
    }
    let hidden = profiles::list_hidden(c, actor).await?;
    registry::hide_settings(c, actor.user, &hidden, tools).await
}

/// Returns the complete tool, with its version as the `ETag`.
fn tagged(state: &State, status: StatusCode, tool: RegisteredTool) -> Response {
    let tool = state.registry.shown(tool);
    let etag = format!("\"{}\"", tool.version);
    (status, [(header::ETAG, etag)], Json(tool)).into_response()
}

/// List the tools of the workspace, oldest first
///
/// `config` is returned only to callers with `agents:admin`.
#[utoipa::path(get, path = "/v1/tools", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(PageQuery<ToolId>), responses((status = 200, body = List<RegisteredTool>)))]
async fn list_tools(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<PageQuery<ToolId>>,
) -> Result<Json<List<RegisteredTool>>, ApiError> {
    let page = query.page(20)?;
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::AgentsRead)?;
    if let Some(id) = page.after.or(page.before) {
        let known = registry::find_named(&mut c, actor.workspace, &id.to_string()).await?;
        known.ok_or_else(|| {
            let problem = format!("{id} is not in this list");
            ApiError::not_found(ErrorCode::CursorNotFound, problem)
        })?;
    }
    let found = registry::list_tools(&mut c, actor.workspace, page.range(), page.limit + 1).await?;
    let tools = shown(&state, &mut c, &actor, found).await?;
    drop(c);
    Ok(Json(List::new(
        tools,
        page.limit,
        page.before.is_some(),
        |tool: &RegisteredTool| tool.id.to_string(),
    )))
}

/// Register a tool: a server of the Model Context Protocol, or a function that clients run
///
/// Registering a server does not read its functions: store its secret, then refresh it.
#[utoipa::path(post, path = "/v1/tools", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["agents:admin"])),
    request_body(content = ToolForm,
        example = json!({"kind": "function", "name": "weather", "title": "Weather", "config": {"description": "Returns the weather in a city", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}})),
    responses((status = 201, body = RegisteredTool)))]
async fn create_tool(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    _: Outgoing,
    _: FreeDiskSpace,
    Body(form): Body<ToolForm>,
) -> Result<Response, ApiError> {
    state.registry.check_address(&member, &form.config).await?;
    let made = member
        .write(&state.db, async move |c, actor| {
            registry::create_tool(c, actor, form.clone()).await
        })
        .await?;
    Ok(tagged(&state, StatusCode::CREATED, made))
}

/// Get a tool
///
/// `config` is returned only to callers with `agents:admin`.
#[utoipa::path(get, path = "/v1/tools/{id}", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("id" = ToolId, Path)), responses((status = 200, body = RegisteredTool)))]
async fn get_tool(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ToolId>,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    let member = member_of(&mut c, caller, id).await?;
    let actor = member.enter(&mut c).await.map_err(|e| hide(e.into()))?;
    actor.require(Scope::AgentsRead)?;
    let found = registry::find_tool(&mut c, actor.workspace, id).await?;
    let found = found.into_iter().collect();
    let tool = shown(&state, &mut c, &actor, found).await?.pop();
    let tool = tool.ok_or(ToolError::NotFound)?;
    let etag = format!("\"{}\"", tool.version);
    Ok(([(header::ETAG, etag)], Json(tool)).into_response())
}

/// Change a tool; changes apply from the next call
#[utoipa::path(patch, path = "/v1/tools/{id}", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["agents:admin"])),
    params(("id" = ToolId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = ToolPatch, example = json!({"enabled": false})),
    responses((status = 200, body = RegisteredTool)))]
async fn patch_tool(
    axum::extract::State(state): St,
    caller: Caller,
    _: Outgoing,
    Path(id): Path<ToolId>,
    _: FreeDiskSpace,
    IfMatch(expected): IfMatch,
    Body(patch): Body<ToolPatch>,
) -> Result<Response, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    if let Some(config) = &patch.config {
        let checked = state.registry.check_address(&member, config).await;
        checked.map_err(hide)?;
    }
    let changed = member
        .write(&state.db, async move |c, actor| {
            registry::patch_tool(c, actor, id, patch.clone(), expected).await
        })
        .await
        .map_err(hide)?;
    Ok(tagged(&state, StatusCode::OK, changed))
}

/// Delete a tool that no agent uses, with its secret
#[utoipa::path(delete, path = "/v1/tools/{id}", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["agents:admin"])),
    params(("id" = ToolId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    responses((status = 204)))]
async fn delete_tool(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ToolId>,
    IfMatch(expected): IfMatch,
) -> Result<StatusCode, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    member
        .write(&state.db, async move |c, actor| {
            registry::delete_tool(c, actor, id, expected).await
        })
        .await
        .map_err(hide)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Store the secret of a tool, replacing an earlier one; it is never returned
#[utoipa::path(put, path = "/v1/tools/{id}/secret", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["agents:admin"])),
    params(("id" = ToolId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = SecretForm, example = json!({"value": "s3cr3t"})),
    responses((status = 204)))]
async fn put_tool_secret(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ToolId>,
    IfMatch(expected): IfMatch,
    Body(form): Body<SecretForm>,
) -> Result<StatusCode, ApiError> {
    let mut c = state.db.read().await?;
    let member = member_of(&mut c, caller, id).await?;
    // Access is checked before the secret is sealed, because sealing can create the key file.
    let actor = member.enter(&mut c).await.map_err(|e| hide(e.into()))?;
    actor.require(Scope::AgentsAdmin)?;
    drop(c);
    let sealed = state.registry.seal(id, &form)?;
    member
        .write(&state.db, async move |c, actor| {
            registry::put_secret(c, actor, id, &sealed, expected).await
        })
        .await
        .map_err(hide)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Delete the secret of a tool
#[utoipa::path(delete, path = "/v1/tools/{id}/secret", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["agents:admin"])),
    params(("id" = ToolId, Path)), responses((status = 204)))]
async fn delete_tool_secret(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ToolId>,
) -> Result<StatusCode, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    member
        .write(&state.db, async move |c, actor| {
            registry::delete_secret(c, actor, id).await
        })
        .await
        .map_err(hide)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Read the functions of a server
///
/// A function whose definition has changed is withdrawn until an admin accepts the new one.
#[utoipa::path(post, path = "/v1/tools/{id}/refresh", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["agents:admin"])),
    params(("id" = ToolId, Path)), responses((status = 200, body = RegisteredTool)))]
async fn refresh_tool(
    axum::extract::State(state): St,
    caller: Caller,
    _: Outgoing,
    Path(id): Path<ToolId>,
    _: NoFields,
) -> Result<Response, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, id).await?;
    let tool = state.registry.refresh(member, id).await.map_err(hide)?;
    Ok(tagged(&state, StatusCode::OK, tool))
}

/// A function of a tool.
#[derive(Deserialize)]
struct FunctionPath {
    id: ToolId,
    name: String,
}

/// Accept a function as it is defined now, so that agents can use it
///
/// If the definition no longer has the given hash, the response is 409 with the current tool.
#[utoipa::path(put, path = "/v1/tools/{id}/functions/{name}", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["agents:admin"])),
    params(("id" = ToolId, Path), ("name" = String, Path, description = "Name of the function on its server")),
    request_body(content = AcceptanceForm,
        example = json!({"definition_hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "effect": "read", "risk": "autonomous"})),
    responses((status = 200, body = RegisteredTool)))]
async fn accept_tool_function(
    axum::extract::State(state): St,
    caller: Caller,
    Path(path): Path<FunctionPath>,
    _: FreeDiskSpace,
    Body(form): Body<AcceptanceForm>,
) -> Result<Response, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, path.id).await?;
    let tool = member
        .write(&state.db, async move |c, actor| {
            registry::accept_function(c, actor, path.id, &path.name, &form).await
        })
        .await
        .map_err(hide)?;
    Ok(tagged(&state, StatusCode::OK, tool))
}

/// Withdraw a function, so that agents can no longer use it
#[utoipa::path(delete, path = "/v1/tools/{id}/functions/{name}", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["agents:admin"])),
    params(("id" = ToolId, Path), ("name" = String, Path, description = "Name of the function on its server")),
    responses((status = 200, body = RegisteredTool)))]
async fn withdraw_tool_function(
    axum::extract::State(state): St,
    caller: Caller,
    Path(path): Path<FunctionPath>,
) -> Result<Response, ApiError> {
    let member = member_of(&mut state.db.read().await?, caller, path.id).await?;
    let tool = member
        .write(&state.db, async move |c, actor| {
            registry::withdraw_function(c, actor, path.id, &path.name).await
        })
        .await
        .map_err(hide)?;
    Ok(tagged(&state, StatusCode::OK, tool))
}
