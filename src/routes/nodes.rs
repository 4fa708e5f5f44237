//! HTTP routes for the nodes that share the database.

use axum::Json;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;

use super::require_operator;
use crate::{
    auth::WorkspaceCaller,
    files,
    http::{
        ApiError,
        page::{List, ListObject},
        routing::routes,
    },
    nodes::{self, ListedNode},
    server::State,
};

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(list_nodes))
}

/// The nodes, and what the database stores for all of them.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct NodeList {
    #[schema(inline)]
    object: ListObject,
    data: Vec<ListedNode>,
    has_more: bool,
    first_id: Option<String>,
    last_id: Option<String>,
    /// Total size of the uploaded files that are stored in the database itself, not in the file system or in S3.
    file_bytes_in_database: i64,
}

/// List the nodes that share the database, by name
///
/// Only admins of the oldest workspace, which belongs to the operator, can use this route. Everyone else gets 404.
#[utoipa::path(get, path = "/v1/nodes", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    responses((status = 200, body = NodeList)))]
async fn list_nodes(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
) -> Result<Json<NodeList>, ApiError> {
    let mut c = state.db.read().await?;
    require_operator(&mut c, &caller).await?;
    drop(c);
    let mut c = state.db.scan(caller.share()).await?;
    let file_bytes_in_database = files::bytes_in_database(&mut c).await?;
    drop(c);
    let listed = nodes::list(&state.nodes).await?;
    let limit = i64::try_from(listed.len()).unwrap_or(i64::MAX);
    let list = List::new(listed, limit, false, |node| node.id.to_string());
    Ok(Json(NodeList {
        object: list.object,
        data: list.data,
        has_more: list.has_more,
        first_id: list.first_id,
        last_id: list.last_id,
        file_bytes_in_database,
    }))
}
