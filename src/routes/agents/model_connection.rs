//! HTTP routes for the model server of a workspace.

use axum::{Json, http::StatusCode, response::Response};
use utoipa_axum::router::OpenApiRouter;

use super::{St, tagged};
use crate::{
    auth::{Caller, Scope, WorkspaceCaller},
    http::{
        ApiError,
        extract::{Body, IfMatch, Path},
        page::List,
        routing::routes,
    },
    ids::WorkspaceId,
    providers::{LocalServer, ModelConnection, ModelForm},
    server::{State, caller::Outgoing},
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(
            get_model_connection,
            put_model_connection,
            delete_model_connection
        ))
        .routes(routes!(list_local_models))
}

/// Get the model server of the workspace
#[utoipa::path(get, path = "/v1/workspaces/{id}/model", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = WorkspaceId, Path)), responses((status = 200, body = ModelConnection)))]
async fn get_model_connection(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkspaceId>,
) -> Result<Response, ApiError> {
    let member = WorkspaceCaller {
        caller,
        workspace: id,
    };
    let shown = state.providers.get(&member).await?;
    Ok(tagged(StatusCode::OK, shown.version, &shown))
}

/// Connect a model server: test the settings, then store them
///
/// The settings apply from the next call. If the test fails, the response is 422 with the cause,
/// unless `force` is true.
#[utoipa::path(put, path = "/v1/workspaces/{id}/model", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = WorkspaceId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = ModelForm,
        example = json!({"provider": "other", "base_url": "http://127.0.0.1:8000/v1", "force": false})),
    responses((status = 200, body = ModelConnection)))]
async fn put_model_connection(
    axum::extract::State(state): St,
    caller: Caller,
    _: Outgoing,
    Path(id): Path<WorkspaceId>,
    IfMatch(expected): IfMatch,
    Body(form): Body<ModelForm>,
) -> Result<Response, ApiError> {
    let member = WorkspaceCaller {
        caller,
        workspace: id,
    };
    let shown = state.providers.change(member, expected, form).await?;
    Ok(tagged(StatusCode::OK, shown.version, &shown))
}

/// Disconnect the model server of the workspace and delete its key
#[utoipa::path(delete, path = "/v1/workspaces/{id}/model", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = WorkspaceId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    responses((status = 204)))]
async fn delete_model_connection(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkspaceId>,
    IfMatch(expected): IfMatch,
) -> Result<StatusCode, ApiError> {
    let member = WorkspaceCaller {
        caller,
        workspace: id,
    };
    state.providers.disconnect(member, expected).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List model servers that respond on common ports of the machine on which this server runs
///
/// The list is empty if a model server is already connected, or if the workspace is not allowed to use local addresses.
#[utoipa::path(get, path = "/v1/workspaces/{id}/local-models", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = WorkspaceId, Path)), responses((status = 200, body = List<LocalServer>)))]
async fn list_local_models(
    axum::extract::State(state): St,
    caller: Caller,
    _: Outgoing,
    Path(id): Path<WorkspaceId>,
) -> Result<Json<List<LocalServer>>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = caller.enter(&mut c, id).await?;
    actor.require(Scope::WorkspaceAdmin)?;
    drop(c);
    let found = state.providers.list_local(id).await?;
    let limit = i64::try_from(found.len()).unwrap_or(i64::MAX);
    Ok(Json(List::new(found, limit, false, |server| {
        server.base_url.clone()
    })))
}
