//! API keys over HTTP.

use axum::{
    Json,
    http::{HeaderMap, StatusCode},
};
use serde::{Deserialize, Serialize};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{St, caller_at};
use crate::auth::{ApiKey, AuthError, Caller, Scope, Scopes, WorkspaceCaller, keys};
use crate::{
    http::{
        ApiError, State,
        extract::{Body, Path, Query},
        page::{List, PageQuery},
    },
    ids::ApiKeyId,
    realtime::Close,
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_keys, create_key))
        .routes(routes!(delete_key))
}

/// One's own keys in this workspace
#[utoipa::path(get, path = "/v1/api-keys", tag = "keys", params(PageQuery), responses((status = 200, body = List<ApiKey>)))]
async fn list_keys(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<PageQuery>,
) -> Result<Json<List<ApiKey>>, ApiError> {
    let page = query.parse::<ApiKeyId>(20)?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    let keys = keys::list(&mut c, &actor).await?;
    Ok(Json(page.cut(keys, |key| key.id)?))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct KeyForm {
    name: String,
    scopes: Vec<Scope>,
    /// Without it the key does not expire.
    expires_in_s: Option<i64>,
}

/// A key with its secret, which is shown this once.
#[derive(Serialize, utoipa::ToSchema)]
struct NewKey {
    #[serde(flatten)]
    api_key: ApiKey,
    /// `ov_…`
    key: String,
}

/// Make an API key
#[utoipa::path(post, path = "/v1/api-keys", tag = "keys", request_body = KeyForm, responses((status = 201, body = NewKey)))]
async fn create_key(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<KeyForm>,
) -> Result<(StatusCode, Json<NewKey>), ApiError> {
    let scopes = Scopes(form.scopes.into_iter().collect());
    let (api_key, key) = member
        .write(&state.db, async move |c, actor| {
            keys::create(c, actor, &form.name, scopes.clone(), form.expires_in_s).await
        })
        .await?;
    Ok((StatusCode::CREATED, Json(NewKey { api_key, key })))
}

/// Delete an API key
#[utoipa::path(delete, path = "/v1/api-keys/{id}", tag = "keys", params(("id" = ApiKeyId, Path)), responses((status = 204)))]
async fn delete_key(
    axum::extract::State(state): St,
    caller: Caller,
    headers: HeaderMap,
    Path(id): Path<ApiKeyId>,
) -> Result<StatusCode, ApiError> {
    let workspace = state
        .db
        .read()
        .await?
        .q("select workspace_id from api_keys where id = $1")
        .bind(id)
        .opt()
        .await?;
    let member = caller_at(&state, &headers, caller, workspace).await?;
    member
        .write(&state.db, async move |c, actor| {
            keys::delete(c, actor, id).await
        })
        .await
        .map_err(|e: AuthError| e.hiding("key"))?;
    state
        .hub
        .close_where(Close::NotAuthenticated, |socket| socket.key == Some(id));
    Ok(StatusCode::NO_CONTENT)
}
