//! HTTP routes for the nodes that share the database.

use axum::Json;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::{Role, Scope, WorkspaceCaller, workspaces},
    http::{ApiError, page::List},
    nodes::{self, ListedNode},
    server::State,
};

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(list_nodes))
}

/// List the nodes that share the database, by name
///
/// Only for admins of the oldest workspace, which is that of the operator. For all others, the route does not exist.
#[utoipa::path(get, path = "/v1/nodes", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    responses((status = 200, body = List<ListedNode>)))]
async fn list_nodes(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
) -> Result<Json<List<ListedNode>>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = caller.enter(&mut c).await?;
    let oldest = workspaces::find_oldest(&mut c).await?;
    let is_operator = actor.role == Role::Admin
        && actor.scopes.has(Scope::WorkspaceAdmin)
        && oldest == Some(actor.workspace);
    drop(c);
    if !is_operator {
        return Err(ApiError::no_route());
    }
    let listed = nodes::list(&state.nodes).await?;
    let limit = i64::try_from(listed.len()).unwrap_or(i64::MAX);
    Ok(Json(List::new(listed, limit, false, |node| {
        node.id.to_string()
    })))
}
