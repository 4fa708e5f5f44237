//! HTTP routes for API keys.

use axum::{
    Json,
    http::{HeaderMap, StatusCode},
};
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use super::{St, caller_at, device_of};
use crate::{
    auth::{ApiKey, AuthError, Caller, Scope, Scopes, WorkspaceCaller, keys},
    http::{
        ApiError,
        extract::{Body, Path, Query},
        page::{Limit, List, PageQuery},
        routing::routes,
    },
    ids::ApiKeyId,
    server::{State, caller::Address},
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_keys, create_key))
        .routes(routes!(delete_key))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct KeysQuery {
    /// `true` lists everyone's keys in this workspace; requires the admin role.
    all: Option<bool>,
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// Only keys created after the one with this ID.
    after: Option<ApiKeyId>,
    /// Only keys created before the one with this ID.
    before: Option<ApiKeyId>,
}

/// List your keys in this workspace, or everyone's
///
/// `all` requires the admin role.
#[utoipa::path(get, path = "/v1/api-keys", tag = "keys",
    security(("session" = ["viewer"]), ("key" = ["workspace:admin"])),
    params(KeysQuery), responses((status = 200, body = List<ApiKey>)))]
async fn list_keys(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<KeysQuery>,
) -> Result<Json<List<ApiKey>>, ApiError> {
    let all = query.all.unwrap_or_default();
    let page = PageQuery {
        limit: query.limit,
        after: query.after,
        before: query.before,
    }
    .page(20)?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    if all {
        let rows = keys::list_all(&mut c, &actor, page.range(), page.limit + 1).await?;
        let is_before = page.before.is_some();
        return Ok(Json(List::new(
            rows,
            page.limit,
            is_before,
            |key: &ApiKey| key.id.to_string(),
        )));
    }
    let keys = keys::list(&mut c, &actor).await?;
    Ok(Json(page.cut(keys, |key| key.id)?))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct KeyForm {
    name: String,
    scopes: Vec<Scope>,
    /// Lifetime in seconds; by default, the key does not expire.
    expires_in_s: Option<i64>,
}

/// A key with its secret, which is shown only once.
#[derive(Serialize, utoipa::ToSchema)]
struct NewKey {
    #[serde(flatten)]
    api_key: ApiKey,
    /// The secret: `ov_…`.
    key: String,
}

/// Create an API key
///
/// A key cannot have a scope that its creator does not have. One with `workspace:admin` needs a confirmation.
#[utoipa::path(post, path = "/v1/api-keys", tag = "keys",
    security(("session" = ["viewer"]), ("key" = ["workspace:admin"])),
    request_body(content = KeyForm,
        example = json!({"name": "Build bot", "scopes": ["chat:read", "chat:write"], "expires_in_s": 7_776_000})),
    responses((status = 201, body = NewKey)))]
async fn create_key(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    headers: HeaderMap,
    address: Address,
    Body(form): Body<KeyForm>,
) -> Result<(StatusCode, Json<NewKey>), ApiError> {
    let scopes = Scopes(form.scopes.into_iter().collect());
    let (caller, device) = (member.caller.clone(), device_of(&headers, &address));
    let (api_key, key) = member
        .write(&state.db, async move |c, actor| {
            let expires_in_s = form.expires_in_s;
            let scopes = scopes.clone();
            keys::create(c, actor, &caller, &form.name, scopes, expires_in_s, &device).await
        })
        .await?;
    Ok((StatusCode::CREATED, Json(NewKey { api_key, key })))
}

/// Delete an API key
///
/// A key can always revoke itself. Deleting another person's key requires the admin role.
#[utoipa::path(delete, path = "/v1/api-keys/{id}", tag = "keys",
    security(("session" = ["viewer"]), ("key" = ["workspace:admin"])),
    params(("id" = ApiKeyId, Path)), responses((status = 204)))]
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
    let workspace = workspace.map(|(workspace,)| workspace);
    let member = caller_at(&state, &headers, caller, workspace).await?;
    member
        .write(&state.db, async move |c, actor| {
            keys::delete(c, actor, id).await
        })
        .await
        .map_err(|e: AuthError| e.hiding("key"))?;
    Ok(StatusCode::NO_CONTENT)
}
