//! HTTP routes for workspaces.

use axum::{Json, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use super::St;
use crate::{
    auth::{
        AuthError, Caller, DisplayName, MyWorkspace, Role, Scope, Workspace, WorkspaceCaller,
        demand_changes,
        demands::{self, SecondFactorCounts, SignInDemands, SignInDemandsPatch},
        workspaces::{self, WorkspaceChange},
    },
    chat::{
        ChatError,
        found::{FoundingLimits, NewWorkspace, found_workspace},
    },
    db::Conn,
    forks::example::insert_example,
    http::{
        ApiError,
        error::ErrorBody,
        extract::{Body, Path, Query},
        page::{List, PageQuery},
        routing::routes,
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
    let limits = FoundingLimits {
        signup: state.config.signup,
        per_user: state.config.workspaces_per_user,
        named: state.config.mcp_workspaces.clone(),
    };
    let has_example = state.config.example;
    let new = NewWorkspace {
        id: WorkspaceId::new(),
        name,
        slug,
        handle: form.handle,
    };
    let (turn, key) = (caller.user.0, new.id.0);
    let create = async move |c: &mut Conn| {
        let founded = found_workspace(c, &caller, &limits, &new).await?;
        if let Some(general) = founded.general.filter(|_| has_example) {
            insert_example(c, new.id, general).await?;
        }
        Ok::<_, ChatError>(founded.workspace)
    };
    let workspace = state.db.write_in_turn(turn, key, create).await?;
    Ok((
        StatusCode::CREATED,
        Json(WorkspaceAnswer {
            workspace,
            role: Role::Admin,
            sign_in: SignInDemands::default(),
            second_factors: None,
        }),
    ))
}

/// A workspace, as shown to its members.
#[derive(Serialize, utoipa::ToSchema)]
struct WorkspaceAnswer {
    #[serde(flatten)]
    workspace: Workspace,
    role: Role,
    sign_in: SignInDemands,
    /// Only when an admin gets the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    second_factors: Option<SecondFactorCounts>,
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
    let second_factors = if actor.scopes.has(Scope::WorkspaceAdmin) {
        Some(demands::count_without_factor(&mut c, id).await?)
    } else {
        None
    };
    Ok(Json(WorkspaceAnswer {
        workspace: workspaces::get_workspace(&mut c, id).await?,
        role: actor.role,
        sign_in: demands::of_workspace(&mut c, id).await?,
        second_factors,
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
    /// True if guests can use agents in their channels.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    guests_use_agents: Option<bool>,
    /// Needs a session whose person signed in or confirmed a short time ago, and which meets it.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    sign_in: Option<SignInDemandsPatch>,
}

/// Change the name or slug of a workspace, whether guests use agents there, or what it demands of sessions
///
/// A session that does not meet the demands is refused in the workspace with 403 `second_factor_required`, `provider_required`, or
/// `session_too_old`, and its sockets close with 4003. 409 `would_lock_you_out` if your own session does not meet them.
#[utoipa::path(patch, path = "/v1/workspaces/{id}", tag = "workspaces",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = WorkspaceId, Path)),
    request_body(content = WorkspacePatch,
        example = json!({"name": "Northwind Traders"})),
    responses((status = 200, body = WorkspaceAnswer),
        (status = 409, description = "The slug is taken, or your own session does not meet `sign_in`", body = ErrorBody)))]
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
    let person = caller.clone();
    let admin = WorkspaceCaller {
        caller,
        workspace: id,
    };
    let named = state.config.mcp_workspaces.clone();
    let answer = admin
        .write(&state.db, async move |c, actor| {
            let change = WorkspaceChange {
                name: patch.name.as_deref(),
                slug: slug.as_deref(),
                guests_use_agents: patch.guests_use_agents,
            };
            let is_empty = change.name.is_none()
                && change.slug.is_none()
                && change.guests_use_agents.is_none();
            let workspace = if is_empty && patch.sign_in.is_some() {
                workspaces::get_workspace(c, actor.workspace).await?
            } else {
                workspaces::update(c, actor, change, &named).await?
            };
            let sign_in = match &patch.sign_in {
                Some(patch) => demand_changes::change(c, actor, &person, patch).await?,
                None => demands::of_workspace(c, actor.workspace).await?,
            };
            Ok::<_, AuthError>(WorkspaceAnswer {
                workspace,
                role: actor.role,
                sign_in,
                // A large workspace takes a while to count, which must not hold the writer.
                second_factors: None,
            })
        })
        .await?;
    Ok(Json(answer))
}
