//! HTTP routes for an agent's version history.

use axum::{Json, http::StatusCode, response::Response};
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;

use super::{AgentRef, St, answer, list_of_versions, version_before};
use crate::{
    agents::profiles::{self, Agent, AgentDiff, AgentVersion, VersionSummary},
    auth::Scope,
    http::{
        ApiError,
        extract::{Body, IfMatch, NoFields, Path, Query},
        page::{Limit, List},
        routing::routes,
    },
    server::{State, caller::FreeDiskSpace},
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_versions))
        .routes(routes!(get_version))
        .routes(routes!(diff_versions))
        .routes(routes!(roll_back))
        .routes(routes!(accept_agent))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct VersionsQuery {
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// `next_cursor` from the previous page.
    cursor: Option<String>,
}

/// List the versions of an agent, newest first
#[utoipa::path(get, path = "/v1/agents/{id}/versions", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("id" = inline(AgentRef), Path), VersionsQuery),
    responses((status = 200, body = List<VersionSummary>)))]
async fn list_versions(
    axum::extract::State(state): St,
    named: AgentRef,
    Query(query): Query<VersionsQuery>,
) -> Result<Json<List<VersionSummary>>, ApiError> {
    let limit = Limit::or(query.limit, 20);
    let before = version_before(query.cursor)?;
    let mut c = state.db.read().await?;
    let actor = named.enter(&mut c).await?;
    actor.require(Scope::AgentsRead)?;
    let rows = profiles::list_versions(&mut c, &actor, &named.reference, before, limit + 1).await?;
    Ok(Json(list_of_versions(rows, limit, |v| v.version)))
}

/// Get a version, both as written and with its bases merged in
#[utoipa::path(get, path = "/v1/agents/{id}/versions/{version}", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("id" = inline(AgentRef), Path), ("version" = i64, Path, description = "Number of a version.", example = 1)),
    responses((status = 200, body = AgentVersion)))]
async fn get_version(
    axum::extract::State(state): St,
    named: AgentRef,
    Path((_, version)): Path<(String, i64)>,
) -> Result<Json<AgentVersion>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = named.enter(&mut c).await?;
    actor.require(Scope::AgentsRead)?;
    Ok(Json(
        profiles::get_version(&mut c, &actor, &named.reference, version).await?,
    ))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct DiffQuery {
    /// The version to compare with; the previous one by default.
    against: Option<i64>,
}

/// Compare two versions
#[utoipa::path(get, path = "/v1/agents/{id}/versions/{version}/diff", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("id" = inline(AgentRef), Path), ("version" = i64, Path, description = "Number of a version.", example = 1), DiffQuery), responses((status = 200, body = AgentDiff)))]
async fn diff_versions(
    axum::extract::State(state): St,
    named: AgentRef,
    Path((_, version)): Path<(String, i64)>,
    Query(query): Query<DiffQuery>,
) -> Result<Json<AgentDiff>, ApiError> {
    let from = query
        .against
        .unwrap_or_else(|| version.saturating_sub(1).max(1));
    let mut c = state.db.read().await?;
    let actor = named.enter(&mut c).await?;
    actor.require(Scope::AgentsRead)?;
    Ok(Json(
        profiles::diff(&mut c, &actor, &named.reference, from, version).await?,
    ))
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct RollbackForm {
    target_version: i64,
    /// Summary for the version history, at most 240 characters.
    #[serde(default)]
    change_summary: Option<String>,
}

/// Restore an earlier version as a new one
#[utoipa::path(post, path = "/v1/agents/{id}/rollback", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = inline(AgentRef), Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = RollbackForm,
        example = json!({"target_version": 1})),
    responses((status = 200, body = Agent)))]
async fn roll_back(
    axum::extract::State(state): St,
    named: AgentRef,
    _: FreeDiskSpace,
    IfMatch(expected): IfMatch,
    Body(form): Body<RollbackForm>,
) -> Result<Response, ApiError> {
    let agent = named
        .write(&state.db, async move |c, actor, reference| {
            let (target, summary) = (form.target_version, form.change_summary.clone());
            profiles::rollback_agent(c, actor, reference, target, summary, expected).await
        })
        .await?;
    Ok(answer(&state, StatusCode::OK, agent).await)
}

/// Accept what an agent is told; you become the author of all its parts and files
///
/// Others are then no longer asked because of them before the agent sends anything out.
#[utoipa::path(post, path = "/v1/agents/{id}/accept", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["agents:admin"])),
    params(("id" = inline(AgentRef), Path), ("If-Match" = inline(IfMatch), Header)),
    responses((status = 200, body = Agent),
        (status = 428, body = crate::http::error::ErrorBody, description = "Without If-Match")))]
async fn accept_agent(
    axum::extract::State(state): St,
    named: AgentRef,
    _: FreeDiskSpace,
    IfMatch(expected): IfMatch,
    _: NoFields,
) -> Result<Response, ApiError> {
    let agent = named
        .write(&state.db, async move |c, actor, reference| {
            profiles::accept_agent(c, actor, reference, expected).await
        })
        .await?;
    Ok(answer(&state, StatusCode::OK, agent).await)
}
