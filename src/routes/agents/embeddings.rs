//! HTTP routes for the model for search by meaning in a workspace.

use axum::{http::StatusCode, response::Response};
use utoipa_axum::router::OpenApiRouter;

use super::{St, tagged};
use crate::{
    auth::{Caller, WorkspaceCaller},
    http::{
        ApiError,
        extract::{Body, IfMatch, Path},
        routing::routes,
    },
    ids::WorkspaceId,
    meaning::{EmbeddingConnection, EmbeddingForm},
    server::{State, caller::Outgoing},
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(get_embeddings, put_embeddings, delete_embeddings))
}

/// Get the model for search by meaning in the text of files
#[utoipa::path(get, path = "/v1/workspaces/{id}/embeddings", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = WorkspaceId, Path)), responses((status = 200, body = EmbeddingConnection)))]
async fn get_embeddings(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkspaceId>,
) -> Result<Response, ApiError> {
    let member = WorkspaceCaller {
        caller,
        workspace: id,
    };
    let shown = state.meaning.get(&member).await?;
    Ok(tagged(StatusCode::OK, shown.version, &shown))
}

/// Name the model for search by meaning: request a vector, then store the settings
///
/// The passages of all files get vectors in the background. Until all of them have one, search uses the former model, or words alone. If
/// the request fails, the response is 422 with the cause.
#[utoipa::path(put, path = "/v1/workspaces/{id}/embeddings", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = WorkspaceId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = EmbeddingForm,
        example = json!({"base_url": "http://127.0.0.1:11434/v1", "model": "nomic-embed-text"})),
    responses((status = 200, body = EmbeddingConnection)))]
async fn put_embeddings(
    axum::extract::State(state): St,
    caller: Caller,
    _: Outgoing,
    Path(id): Path<WorkspaceId>,
    IfMatch(expected): IfMatch,
    Body(form): Body<EmbeddingForm>,
) -> Result<Response, ApiError> {
    let member = WorkspaceCaller {
        caller,
        workspace: id,
    };
    let shown = state.meaning.change(member, expected, form).await?;
    Ok(tagged(StatusCode::OK, shown.version, &shown))
}

/// Remove the model for search by meaning, its key, and its vectors
#[utoipa::path(delete, path = "/v1/workspaces/{id}/embeddings", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = WorkspaceId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    responses((status = 204)))]
async fn delete_embeddings(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkspaceId>,
    IfMatch(expected): IfMatch,
) -> Result<StatusCode, ApiError> {
    let member = WorkspaceCaller {
        caller,
        workspace: id,
    };
    state.meaning.disconnect(member, expected).await?;
    Ok(StatusCode::NO_CONTENT)
}
