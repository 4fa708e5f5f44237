//! HTTP routes that resolve forks, and edit and publish their drafts.

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::FutureExt;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use super::St;
use crate::{
    auth::Caller,
    chat::{access, forks::Fork},
    db::Conn,
    forks::{
        ForkError, edit,
        form::ResolutionForm,
        publish::{self, Published},
        resolution::{self, Resolution},
        resolve::{self, ResolveOptions, parse_guidance},
    },
    http::{
        ApiError,
        extract::{Body, IfMatch, Path, Query},
        page::{List, PageQuery},
        routing::routes,
    },
    ids::{ForkId, ResolutionId},
    patch::present,
    realtime::hub::Conversation,
    routes::chat::{ScannedObject, WhichObject, scan_for, write_for},
    server::State,
    tasks::Task,
};

const VERSIONS_PAGE: i64 = 20;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(resolve_fork))
        .routes(routes!(get_resolution, edit_resolution))
        .routes(routes!(publish_resolution))
        .routes(routes!(list_resolutions))
}

#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct ResolveForm {
    /// True to publish the draft immediately, with the agent as its author.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    publish: Option<bool>,
    /// Focus of the draft, at most 2,000 characters.
    guidance: Option<String>,
    /// True to replace a draft even if people have edited it.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    replace_draft: Option<bool>,
}

#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::routes) struct Resolving {
    fork: Fork,
    task: Task,
}

/// Draft the resolution of a fork; if a draft task is already active, returns that task
#[utoipa::path(post, path = "/v1/forks/{id}/resolve", tag = "forks",
    security(("session" = ["member"]), ("key" = ["chat:write", "agents:use"])),
    params(("id" = ForkId, Path)),
    request_body(content = Option<ResolveForm>,
        example = json!({"guidance": "Keep to what was decided"})),
    responses((status = 202, body = Resolving, description = "The draft task is queued or running")))]
pub(in crate::routes) async fn resolve_fork(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
    Body(form): Body<ResolveForm>,
) -> Result<(StatusCode, Json<Resolving>), ApiError> {
    let wish = ResolveOptions {
        publish: form.publish.unwrap_or(false),
        guidance: parse_guidance(form.guidance)?,
        replace_draft: form.replace_draft.unwrap_or(false),
    };
    let ask = async move |c: &mut Conn| resolve::resolve(c, &caller, id, &wish).await;
    let (fork, task) = write_for(&state, WhichObject::Fork(id), ask).await?;
    Ok((StatusCode::ACCEPTED, Json(Resolving { fork, task })))
}

fn tagged(resolution: Resolution) -> Response {
    let etag = format!("\"{}\"", resolution.revision);
    ([(header::ETAG, etag)], Json(resolution)).into_response()
}

/// Get the draft of a fork's resolution, or the published resolution; its `ETag` is needed to change it
#[utoipa::path(get, path = "/v1/forks/{id}/resolution", tag = "forks",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ForkId, Path)),
    responses((status = 200, body = Resolution, headers(("ETag" = String, description = "Its revision")))))]
async fn get_resolution(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
) -> Result<Response, ApiError> {
    let mut c = state.db.snapshot().await?;
    access::fork(&mut c, &caller, id).await?.reading()?;
    let newest = resolution::find_newest(&mut c, id).await?;
    Ok(tagged(newest.ok_or(ForkError::NoResolution)?))
}

/// Edit the draft of a fork's resolution
///
/// If there is no draft, one is created from the published resolution. If there is no published resolution either, `If-Match: "0"`
/// creates a draft from the request alone.
#[utoipa::path(patch, path = "/v1/forks/{id}/resolution", tag = "forks",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ForkId, Path), ("If-Match" = inline(IfMatch), Header, description = "The ETag of the draft that was read")),
    request_body(content = ResolutionForm,
        example = json!({"headline": "We launch on Monday", "key_points": [{"text": "Nobody deploys on a Friday"}], "action_items": [{"text": "Book the room", "due": "2026-11-23"}]})),
    responses((status = 200, body = Resolution, headers(("ETag" = String, description = "Its new revision"))),
        (status = 428, body = crate::http::error::ErrorBody, description = "Without If-Match")))]
async fn edit_resolution(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
    IfMatch(expected): IfMatch,
    Body(form): Body<ResolutionForm>,
) -> Result<Response, ApiError> {
    let edit = async move |c: &mut Conn| edit::edit(c, &caller, id, expected, &form).await;
    Ok(tagged(
        write_for(&state, WhichObject::Fork(id), edit).await?,
    ))
}

#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct PublishForm {
    /// Changes to apply to the draft before it is published.
    resolution: Option<ResolutionForm>,
}

/// Publish the draft as a message in the thread and close the fork; repeating the request returns the same message
#[utoipa::path(post, path = "/v1/forks/{id}/publish", tag = "forks",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ForkId, Path), ("If-Match" = inline(Option<IfMatch>), Header, description = "The ETag of the draft, to avoid publishing unseen changes")),
    request_body(content = Option<PublishForm>,
        example = json!({"resolution": {"headline": "We launch on Monday"}})), responses((status = 200, body = Published)))]
async fn publish_resolution(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
    IfMatch(expected): IfMatch,
    Body(form): Body<PublishForm>,
) -> Result<Json<Published>, ApiError> {
    let hub = std::sync::Arc::clone(&state.hub);
    let publish = async move |c: &mut Conn| {
        publish::publish(c, &caller, id, expected, form.resolution.as_ref(), &hub).await
    };
    Ok(Json(
        write_for(&state, WhichObject::Fork(id), publish).await?,
    ))
}

/// List every published version of a fork's resolution, oldest first
#[utoipa::path(get, path = "/v1/forks/{id}/resolutions", tag = "forks",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ForkId, Path), PageQuery<ResolutionId>),
    responses((status = 200, body = List<Resolution>)))]
async fn list_resolutions(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
    Query(query): Query<PageQuery<ResolutionId>>,
) -> Result<Json<List<Resolution>>, ApiError> {
    let page = query.page(VERSIONS_PAGE)?;
    let fork = ScannedObject::Conversation(Conversation::Fork(id));
    let read = scan_for(&state, &caller, fork).await?.run(move |c| {
        async move {
            access::fork(c, &caller, id).await?.reading()?;
            let (mut after, mut before) = (0, i64::MAX);
            for (cursor, place) in [(page.after, &mut after), (page.before, &mut before)] {
                if let Some(cursor) = cursor {
                    let version = resolution::version_of(c, id, cursor).await?;
                    *place = version.ok_or(ForkError::NoResolution)?;
                }
            }
            let (limit, backwards) = (page.limit, page.before.is_some());
            let rows =
                resolution::list_versions(c, id, after, before, limit + 1, backwards).await?;
            Ok::<_, ApiError>(List::new(rows, limit, backwards, |r: &Resolution| {
                r.id.to_string()
            }))
        }
        .boxed()
    });
    Ok(Json(read.await?))
}
