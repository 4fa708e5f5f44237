//! HTTP routes for workspaces.

use axum::{Json, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::St;
use crate::{
    auth::{
        AuthError, Caller, DisplayName, MyWorkspace, Role, Workspace, WorkspaceCaller, workspaces,
    },
    chat::found::{NewWorkspace, found_workspace},
    http::{
        ApiError,
        extract::{Body, Path, Query},
        page::{List, PageQuery},
    },
    ids::WorkspaceId,
    patch::present,
    server::State,
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_workspaces, create_workspace))
        .routes(routes!(get_workspace, update_workspace))
}

/// List your workspaces
#[utoipa::path(get, path = "/v1/workspaces", tag = "workspaces",
    security(("session" = ["viewer"]), ("key" = [])),
    params(PageQuery<WorkspaceId>), responses((status = 200, body = List<MyWorkspace>)))]
async fn list_workspaces(
    axum::extract::State(state): St,
    caller: Caller,
    Query(query): Query<PageQuery<WorkspaceId>>,
) -> Result<Json<List<MyWorkspace>>, ApiError> {
    let page = query.page(20)?;
    let mut mine = workspaces::list_mine(&mut state.db.read().await?, caller.user).await?;
    mine.retain(|workspace| caller.may_enter(workspace.id));
    Ok(Json(page.cut(mine, |workspace| workspace.id)?))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct WorkspaceForm {
    name: String,
    /// Derived from the name by default.
    slug: Option<String>,
    /// Your handle in the workspace; derived from your name, or else your email address, by default.
    handle: Option<String>,
}

/// Create a workspace with #general, #random, and its first agents; its creator is an admin
#[utoipa::path(post, path = "/v1/workspaces", tag = "workspaces",
    security(("session" = ["viewer"])),
    request_body(content = WorkspaceForm,
        example = json!({"name": "Northwind", "slug": "northwind", "handle": "ada"})),
    responses((status = 201, body = WorkspaceAnswer)))]
async fn create_workspace(
    axum::extract::State(state): St,
    caller: Caller,
    Body(form): Body<WorkspaceForm>,
) -> Result<(StatusCode, Json<WorkspaceAnswer>), ApiError> {
    caller.require_session()?;
    let name = DisplayName::parse(&form.name, "name")?;
    let slug = form
        .slug
        .as_deref()
        .map(workspaces::parse_slug)
        .transpose()?;
    let (signup, max) = (state.config.signup, state.config.workspaces_per_user);
    let named = state.config.mcp_workspaces.clone();
    let new = NewWorkspace {
        name,
        slug,
        handle: form.handle,
    };
    let workspace = found_workspace(&state.db, caller, signup, max, new, named).await?;
    Ok((
        StatusCode::CREATED,
        Json(WorkspaceAnswer {
            workspace,
            role: Role::Admin,
        }),
    ))
}

/// A workspace, as shown to its members.
#[derive(Serialize, utoipa::ToSchema)]
struct WorkspaceAnswer {
    #[serde(flatten)]
    workspace: Workspace,
    role: Role,
}

/// Get a workspace
#[utoipa::path(get, path = "/v1/workspaces/{id}", tag = "workspaces",
    security(("session" = ["viewer"]), ("key" = [])),
    params(("id" = WorkspaceId, Path)), responses((status = 200, body = WorkspaceAnswer)))]
async fn get_workspace(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkspaceId>,
) -> Result<Json<WorkspaceAnswer>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = caller.enter(&mut c, id).await?;
    Ok(Json(WorkspaceAnswer {
        workspace: workspaces::get_workspace(&mut c, id).await?,
        role: actor.role,
    }))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct WorkspacePatch {
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    slug: Option<String>,
}

/// Change the name or slug of a workspace
#[utoipa::path(patch, path = "/v1/workspaces/{id}", tag = "workspaces",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = WorkspaceId, Path)),
    request_body(content = WorkspacePatch,
        example = json!({"name": "Northwind Traders"})),
    responses((status = 200, body = WorkspaceAnswer)))]
async fn update_workspace(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkspaceId>,
    Body(patch): Body<WorkspacePatch>,
) -> Result<Json<WorkspaceAnswer>, ApiError> {
    let slug = patch
        .slug
        .as_deref()
        .map(workspaces::parse_slug)
        .transpose()?;
    let admin = WorkspaceCaller {
        caller,
        workspace: id,
    };
    let named = state.config.mcp_workspaces.clone();
    let answer = admin
        .write(&state.db, async move |c, actor| {
            let (name, slug) = (patch.name.as_deref(), slug.as_deref());
            Ok::<_, AuthError>(WorkspaceAnswer {
                workspace: workspaces::update(c, actor, name, slug, &named).await?,
                role: actor.role,
            })
        })
        .await?;
    Ok(Json(answer))
}
