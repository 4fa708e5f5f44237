//! HTTP routes for a person's own picture.

use axum::Json;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;

use super::{
    St,
    session::{Account, account},
};
use crate::{
    auth::{Caller, users},
    db::Conn,
    files::{self, FileError},
    http::{ApiError, extract::Body, routing::routes},
    ids::FileId,
    server::State,
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(set_own_picture, remove_own_picture))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct OwnPicture {
    /// Your upload that is not attached to a message: a PNG, JPEG, or WebP of at most 1 MiB and 1,024 × 1,024 pixels.
    file_id: FileId,
}

/// Set your picture
///
/// Members of all your workspaces can read it. The earlier picture is deleted.
#[utoipa::path(put, path = "/v1/auth/me/avatar", tag = "accounts",
    security(("session" = ["viewer"])),
    request_body(content = OwnPicture,
        example = json!({"file_id": "file_01k5t3h8xze4bs4p8v2m9qwd7a"})),
    responses((status = 200, body = Account)))]
async fn set_own_picture(
    axum::extract::State(state): St,
    caller: Caller,
    Body(form): Body<OwnPicture>,
) -> Result<Json<Account>, ApiError> {
    caller.require_session()?;
    let user = caller.user;
    let (owner, file) = (caller.clone(), form.file_id);
    caller
        .write(&state.db, async move |c: &mut Conn| {
            files::set_own_picture(c, &owner, file).await
        })
        .await?;
    users::announce(&state.db, user).await?;
    Ok(Json(account(&mut state.db.read().await?, user).await?))
}

/// Delete your picture
#[utoipa::path(delete, path = "/v1/auth/me/avatar", tag = "accounts",
    security(("session" = ["viewer"])),
    responses((status = 200, body = Account)))]
async fn remove_own_picture(
    axum::extract::State(state): St,
    caller: Caller,
) -> Result<Json<Account>, ApiError> {
    caller.require_session()?;
    let user = caller.user;
    caller
        .write(&state.db, async move |c: &mut Conn| {
            Ok::<_, FileError>(files::remove_own_picture(c, user).await?)
        })
        .await?;
    users::announce(&state.db, user).await?;
    Ok(Json(account(&mut state.db.read().await?, user).await?))
}
