//! HTTP routes for files of vector stores by path, their comparison with a directory, and web pages.

use axum::{
    Extension, Json,
    extract::Request,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use tracing::Instrument;
use utoipa_axum::router::OpenApiRouter;

use super::vector_stores::{enter, named};
use crate::{
    auth::{RateClass, WorkspaceCaller},
    collections::{
        self, PutFile, REMOVED_AT_ONCE, StoreFile, StorePath, StoreRef, StoreUrl, StoreUrlForm,
        SyncForm, SyncResult,
    },
    failpoint,
    files::{self, Bounds, FileError, Kind, NewFile, Received, UploadBytes},
    http::{
        ApiError, ErrorCode,
        bodies::UploadPace,
        extract::{Body, Path},
        page::List,
        routing::routes,
    },
    ids::FileId,
    server::State,
};

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(put_store_path, remove_store_path))
        .routes(routes!(sync_store))
        .routes(routes!(list_store_urls, add_store_url))
}

/// Upload a file to its path in a vector store
///
/// The body is the file. A file with the same path is replaced when the text of the new one was read; until then, and if it cannot be read,
/// the old one is found. Replaced files can be read for another 90 days. 200 if the file there has the same bytes.
#[utoipa::path(put, path = "/v1/vector_stores/{id}/paths/{*path}", tag = "files",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`"),
        ("path" = String, Path, description = "Path of the file, such as `rules/travel.md`; at most 512 characters")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 201, body = StoreFile), (status = 200, body = StoreFile, description = "The file there has the same bytes")))]
async fn put_store_path(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path((id, path)): Path<(String, String)>,
    headers: HeaderMap,
    Extension(UploadPace(pace_within)): Extension<UploadPace>,
    Extension(upload_bytes): Extension<UploadBytes>,
    request: Request,
) -> Result<Response, ApiError> {
    let (named, path) = (named(&id)?, StorePath::parse(&path)?);
    // Access is checked before any bytes are read.
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    collections::check_put(&mut c, &actor, &named).await?;
    drop(c);
    if is_form(&headers) {
        let text = "the body must be the file itself, and not a form".to_owned();
        return Err(ApiError::invalid(
            ErrorCode::InvalidBody,
            text,
            "content-type",
        ));
    }
    state.limits.collect_files(member.caller.user, 1)?;
    state.disk.check().await?;
    let bounds = Bounds {
        bytes_max: state.config.upload_bytes_max,
        pace_within,
    };
    let permit = upload_bytes.permit(&state.db, member.caller.user, member.workspace);
    let body = request.into_body().into_data_stream();
    let received =
        files::receive_named(&state.blobs, permit, None, path.name(), body, bounds).await?;
    // A task of its own, so that the bytes and the row are stored together even if the client disconnects.
    let (tracker, storing) = (state.tracker.clone(), state.clone());
    let storing = async move { store(&storing, member, named, path, received).await };
    let stored = tracker.spawn(storing.in_current_span()).await;
    let (status, file) = stored.map_err(|_| ApiError::internal())??;
    Ok((status, Json(file)).into_response())
}

/// Checks whether a body is a form, whose parts this route would store as one file.
fn is_form(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"multipart/"))
}

async fn store(
    state: &State,
    member: WorkspaceCaller,
    named: StoreRef,
    path: StorePath,
    received: Received,
) -> Result<(StatusCode, StoreFile), ApiError> {
    let Received { whole, name, .. } = received;
    let whole = whole.ok_or(FileError::WorkspaceFull)?;
    let kind = Kind::of(&whole.head, &name);
    let published = state.blobs.publish(whole).await?;
    failpoint!("collection_file_stored");
    let new = NewFile {
        id: FileId::new(),
        blob: published.reference(),
        name,
        kind,
        client_id: None,
        purpose: None,
    };
    let put = member.write(&state.db, async move |c, actor| {
        collections::put_path(c, actor, &named, &path, &new).await
    });
    match put.await {
        Ok(PutFile::Stored(file, upload)) => {
            published.settle(Some(upload));
            state.documents.wake();
            Ok((StatusCode::CREATED, file))
        }
        Ok(PutFile::Equal(file)) => {
            published.settle(None);
            Ok((StatusCode::OK, file))
        }
        Err(e) => {
            if !e.is_of_database() {
                published.settle(None);
            }
            Err(e.into())
        }
    }
}

/// Remove the file at a path of a vector store, and its web page
#[utoipa::path(delete, path = "/v1/vector_stores/{id}/paths/{*path}", tag = "files",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`"),
        ("path" = String, Path, description = "Path of the file, such as `rules/travel.md`")),
    responses((status = 204, description = "The file was removed")))]
async fn remove_store_path(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path((id, path)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let (named, path) = (named(&id)?, StorePath::parse(&path)?);
    let removed = member.write(&state.db, async move |c, actor| {
        collections::remove_path(c, actor, &named, &path).await
    });
    removed.await?;
    state.documents.wake();
    Ok(StatusCode::NO_CONTENT)
}

/// Compare a directory with a vector store, and remove the files that the directory does not have
///
/// Those who can read the vector store can compare. Only those who can change it can remove files with `delete`, when none is missing (409
/// `sync_incomplete`). Web pages stay.
#[utoipa::path(post, path = "/v1/vector_stores/{id}/sync", tag = "files",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`")),
    request_body(content = SyncForm, example = json!({"files": []})),
    responses((status = 200, body = SyncResult)))]
async fn sync_store(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path(id): Path<String>,
    Body(form): Body<SyncForm>,
) -> Result<Json<SyncResult>, ApiError> {
    let named = named(&id)?;
    if form.delete {
        state.limits.act(&member.caller, RateClass::Writing)?;
    }
    let mut c = state.db.scan(member.share()).await?;
    let actor = enter(&mut c, &member).await?;
    let compared = collections::compare(&mut c, &actor, &named, &form).await?;
    drop(c);
    let mut removed = Vec::new();
    for surplus in compared.surplus.chunks(REMOVED_AT_ONCE) {
        let (named, surplus) = (named.clone(), surplus.to_vec());
        let removing = member.clone().write(&state.db, async move |c, actor| {
            collections::remove_surplus(c, actor, &named, &surplus).await
        });
        removed.extend(removing.await?);
    }
    if !removed.is_empty() {
        state.documents.wake();
    }
    Ok(Json(SyncResult {
        missing: compared.missing,
        unchanged: compared.unchanged,
        removed,
    }))
}

/// List the web pages of a vector store
#[utoipa::path(get, path = "/v1/vector_stores/{id}/urls", tag = "files",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`")), responses((status = 200, body = List<StoreUrl>)))]
async fn list_store_urls(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path(id): Path<String>,
) -> Result<Json<List<StoreUrl>>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = enter(&mut c, &member).await?;
    let pages = collections::list_urls(&mut c, &actor, &named(&id)?).await?;
    let limit = i64::try_from(pages.len()).unwrap_or(i64::MAX);
    Ok(Json(List::new(pages, limit, false, |page| {
        page.path.clone()
    })))
}

/// Add a web page to a vector store, whose text is read again at intervals
///
/// Only public pages are read, with the rights of the person who added them. If a look fails, the text stays, and `failure` has the
/// reason. A page with the same path is replaced.
#[utoipa::path(post, path = "/v1/vector_stores/{id}/urls", tag = "files",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`")),
    request_body(content = StoreUrlForm, example = json!({"url": "https://[2d00::1]/", "every_s": 86400})),
    responses((status = 201, body = StoreUrl)))]
async fn add_store_url(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path(id): Path<String>,
    Body(form): Body<StoreUrlForm>,
) -> Result<Response, ApiError> {
    let named = named(&id)?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    collections::check_put(&mut c, &actor, &named).await?;
    drop(c);
    state.limits.collect_files(member.caller.user, 1)?;
    let url = state.registry.pages.check(&form.url).await;
    let url = url.map_err(|fault| {
        ApiError::unprocessable(ErrorCode::InvalidValue, fault.message).param("url")
    })?;
    let added = member.write(&state.db, async move |c, actor| {
        collections::add_url(c, actor, &named, &form, &url).await
    });
    let added = added.await?;
    state.web_pages.wake();
    Ok((StatusCode::CREATED, Json(added)).into_response())
}
