//! HTTP routes for exports of workspaces.

use axum::{
    Json,
    body::Body as HttpBody,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::{StreamExt, TryStreamExt, stream};
use utoipa_axum::router::OpenApiRouter;

use super::files::{BodyPart, requested_part};
use crate::{
    auth::{AuthError, Caller, WorkspaceCaller},
    exports::{self, ExportError, ExportForm, ExportPiece, Exporter, WorkspaceExport},
    http::{
        ApiError,
        extract::{Body, Path},
        page::List,
        routing::routes,
    },
    ids::ExportId,
    server::State,
};

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_exports, create_export))
        .routes(routes!(get_export, delete_export))
        .routes(routes!(download_export))
}

/// Returns the caller as a member of the workspace of an export.
async fn member_of(
    state: &State,
    caller: Caller,
    id: ExportId,
) -> Result<WorkspaceCaller, ExportError> {
    let mut c = state.db.read().await?;
    let workspace = exports::workspace_of_export(&mut c, id).await?;
    let workspace = workspace.ok_or(ExportError::NotFound)?;
    Ok(WorkspaceCaller { caller, workspace })
}

/// Reports an export of another workspace as absent.
fn hide(error: ExportError) -> ExportError {
    match error {
        ExportError::Auth(AuthError::WorkspaceNotFound) => ExportError::NotFound,
        other => other,
    }
}

/// Export the workspace as an archive
///
/// The archive contains public channels; with the scope `mine` also the private and direct ones that you are in. It is written in the
/// background, with the rights that you have then. A key needs `chat:read` for `mine`, too. 409 `export_running` while too many exports of
/// the workspace are being written, or have not expired.
#[utoipa::path(post, path = "/v1/exports", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    request_body(content = ExportForm, example = json!({"scope": "public", "files": true, "format": "openvibe"})),
    responses((status = 202, body = WorkspaceExport)))]
async fn create_export(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<ExportForm>,
) -> Result<Response, ApiError> {
    state.disk.check().await?;
    let made = member
        .write(&state.db, async move |c, actor| {
            exports::create(c, actor, &form).await
        })
        .await?;
    Ok((StatusCode::ACCEPTED, Json(made)).into_response())
}

/// List the exports of the workspace that have not expired, newest first
#[utoipa::path(get, path = "/v1/exports", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    responses((status = 200, body = List<WorkspaceExport>)))]
async fn list_exports(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
) -> Result<Json<List<WorkspaceExport>>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    let rows = exports::list(&mut c, &actor).await?;
    Ok(Json(List::new(rows, i64::MAX, false, |row| {
        row.id.to_string()
    })))
}

/// Cancel an export that is being written, or delete its archive
#[utoipa::path(delete, path = "/v1/exports/{id}", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = ExportId, Path)), responses((status = 204, description = "The export was deleted")))]
async fn delete_export(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ExportId>,
) -> Result<StatusCode, ApiError> {
    let member = member_of(&state, caller, id).await?;
    let deleted = member.write(&state.db, async move |c, actor| {
        exports::delete(c, actor, id).await
    });
    deleted.await.map_err(hide)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Get an export and its progress
#[utoipa::path(get, path = "/v1/exports/{id}", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = ExportId, Path)), responses((status = 200, body = WorkspaceExport)))]
async fn get_export(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ExportId>,
) -> Result<Json<WorkspaceExport>, ApiError> {
    let member = member_of(&state, caller, id).await?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await.map_err(|e| hide(e.into()))?;
    Ok(Json(exports::get(&mut c, &actor, id).await?.into()))
}

/// Part of a piece of an archive.
struct Slice {
    piece: ExportPiece,
    from: u64,
    len: u64,
}

/// The parts of pieces that have these bytes of the archive.
fn slices(pieces: Vec<ExportPiece>, from: u64, len: u64) -> Vec<Slice> {
    let end = from.saturating_add(len);
    let slice = |piece: ExportPiece| {
        let start = piece.start.unsigned_abs();
        let first = from.max(start);
        let last = end.min(start + piece.size_bytes.unsigned_abs());
        (first < last).then(|| Slice {
            piece,
            from: first - start,
            len: last - first,
        })
    };
    pieces.into_iter().filter_map(slice).collect()
}

/// Download the archive of an export, for 24 hours
///
/// Supports `Range` with a single range. An archive with private channels is only for the person who asked for it; a key needs
/// `chat:read`, too. 409 `export_not_ready` until the export is `done`.
#[utoipa::path(get, path = "/v1/exports/{id}/file", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = ExportId, Path),
        ("Range" = Option<String>, Header, description = "A single range, such as `bytes=0-1023`.")),
    responses((status = 200, content_type = "application/zip", description = "The archive"),
        (status = 206, content_type = "application/zip", description = "The requested range"),
        (status = 416, body = crate::http::error::ErrorBody, description = "The range is beyond the end of the archive")))]
async fn download_export(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ExportId>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let member = member_of(&state, caller, id).await?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await.map_err(|e| hide(e.into()))?;
    let (export, pieces) = exports::get_finished(&mut c, &actor, id).await?;
    drop(c);
    let size = export.size_bytes();
    let range = headers.get(header::RANGE).and_then(|v| v.to_str().ok());
    let Some(BodyPart { status, from, len }) = requested_part(range, size) else {
        return Ok(ApiError::range_not_satisfiable(size).into_response());
    };
    let blobs = state.blobs.clone();
    let bytes = stream::iter(slices(pieces, from, len))
        .then(move |slice| {
            let blobs = blobs.clone();
            async move {
                let read = blobs.read(&slice.piece.blob, slice.from, slice.len).await;
                read.map_err(std::io::Error::other)
            }
        })
        .try_flatten();
    let mut response = (status, HttpBody::from_stream(bytes)).into_response();
    let mut set = |name: header::HeaderName, value: String| {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(name, value);
        }
    };
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {from}-{}/{size}", from + len - 1);
        set(header::CONTENT_RANGE, range);
    }
    let name = format!("attachment; filename=\"{}\"", export.file_name());
    set(header::CONTENT_LENGTH, len.to_string());
    set(header::CONTENT_TYPE, "application/zip".to_owned());
    set(header::CONTENT_DISPOSITION, name);
    set(header::ACCEPT_RANGES, "bytes".to_owned());
    set(header::CACHE_CONTROL, "private, no-store".to_owned());
    Ok(response)
}

impl From<&State> for Exporter {
    fn from(state: &State) -> Self {
        Self {
            db: state.db.clone(),
            blobs: state.blobs.clone(),
            disk: state.disk.clone(),
            shutdown: state.shutdown.clone(),
            public_url: state.public_url.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Blob, BlobStore};

    fn piece(start: i64, size_bytes: i64) -> ExportPiece {
        ExportPiece {
            start,
            size_bytes,
            blob: Blob {
                hash: String::new(),
                upload_id: uuid::Uuid::nil(),
                store: BlobStore::File,
            },
        }
    }

    #[test]
    fn a_range_is_read_from_the_pieces_that_have_it() {
        let of = |from, len| -> Vec<(i64, u64, u64)> {
            let slices = slices(vec![piece(0, 10), piece(10, 10), piece(20, 5)], from, len);
            let shown = |slice: &Slice| (slice.piece.start, slice.from, slice.len);
            slices.iter().map(shown).collect()
        };
        assert_eq!(of(0, 25), [(0, 0, 10), (10, 0, 10), (20, 0, 5)]);
        assert_eq!(of(9, 2), [(0, 9, 1), (10, 0, 1)]);
        assert_eq!(of(24, 1), [(20, 4, 1)]);
        assert!(of(25, 1).is_empty());
    }
}
