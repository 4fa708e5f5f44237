//! HTTP routes for custom emoji.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;

use super::St;
use crate::{
    auth::WorkspaceCaller,
    chat::custom_emoji::{self, CustomEmoji, EMOJI_MAX},
    http::{
        ApiError,
        extract::{Body, Query},
        page::List,
        routing::routes,
    },
    ids::FileId,
    server::State,
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(list_emoji, add_emoji, delete_emoji))
}

/// List the custom emoji of the workspace, by name; at most 2,000
#[utoipa::path(get, path = "/v1/emoji", tag = "messages",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    responses((status = 200, body = List<CustomEmoji>)))]
async fn list_emoji(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
) -> Result<Json<List<CustomEmoji>>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    let rows = custom_emoji::list_emoji(&mut c, &actor).await?;
    Ok(Json(List::new(
        rows,
        EMOJI_MAX,
        false,
        |emoji: &CustomEmoji| emoji.name.clone(),
    )))
}

/// Input for a new emoji.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct EmojiForm {
    /// 1 to 40 of a-z, 0-9, `_`, `+`, and `-`; not the name of a standard emoji.
    name: String,
    /// Your upload of a PNG, GIF, or `WebP`, at most 256 KiB and 1,028 pixels wide and high. All members can see it from then on.
    file_id: FileId,
}

/// Add a custom emoji
///
/// `:name:` in texts and reactions is then shown as the picture. 409 `name_taken` if the name is in use.
#[utoipa::path(post, path = "/v1/emoji", tag = "messages",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    request_body(content = EmojiForm,
        example = json!({"name": "party-parrot", "file_id": "file_01k5t3h8xze4bs4p8v2m9qwd7a"})),
    responses((status = 201, body = CustomEmoji)))]
async fn add_emoji(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<EmojiForm>,
) -> Result<Response, ApiError> {
    let added = member
        .write(&state.db, async move |c, actor| {
            custom_emoji::add_emoji(c, actor, &form.name, form.file_id).await
        })
        .await?;
    Ok((StatusCode::CREATED, Json(added)).into_response())
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EmojiQuery {
    /// Name of the emoji, without colons.
    name: String,
}

/// Delete a custom emoji
///
/// Only the person who added it and admins can delete it. Its name in texts and reactions is text from then on.
#[utoipa::path(delete, path = "/v1/emoji", tag = "messages",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(EmojiQuery), responses((status = 204, description = "The emoji was deleted")))]
async fn delete_emoji(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<EmojiQuery>,
) -> Result<StatusCode, ApiError> {
    member
        .write(&state.db, async move |c, actor| {
            custom_emoji::delete_emoji(c, actor, &query.name).await
        })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
