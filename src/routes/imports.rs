//! HTTP routes for imports of archives.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::Request,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use tracing::Instrument;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    auth::{AuthError, Caller, Member, WorkspaceCaller, placeholders},
    files::{FileError, UploadBytes},
    http::{
        ApiError,
        bodies::UploadPace,
        error::ErrorCode,
        extract::{Body, NoFields, Path, Query},
        page::{Limit, List, PageQuery},
        routing::routes,
    },
    ids::{ImportId, UserId},
    imports::{
        self, ArchiveImport, ImportError, ImportForm, ImportPatch, ImportPreview, ImportReport,
        ImportStep, Importer, ImportsOf, PIECE_BYTES_MAX, PieceRange, SourceHosts,
    },
    outbound::OwnServer,
    server::State,
    text_enum::text_enum,
};

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_imports, create_import))
        .routes(routes!(get_import, patch_import, delete_import))
        .routes(routes!(put_archive))
        .routes(routes!(get_preview))
        .routes(routes!(start_import))
        .routes(routes!(pause_import))
        .routes(routes!(resume_import))
        .routes(routes!(list_placeholders))
        .routes(routes!(merge_member))
        .routes(routes!(get_report))
}

/// Returns the caller as a member of the workspace of an import.
async fn member_of(
    state: &State,
    caller: Caller,
    id: ImportId,
) -> Result<WorkspaceCaller, ImportError> {
    let mut c = state.db.read().await?;
    let workspace = imports::workspace_of_import(&mut c, id).await?;
    let workspace = workspace.ok_or(ImportError::NotFound)?;
    Ok(WorkspaceCaller { caller, workspace })
}

/// Reports an import of another workspace as absent.
fn hide(error: ImportError) -> ImportError {
    match error {
        ImportError::Auth(AuthError::WorkspaceNotFound) => ImportError::NotFound,
        other => other,
    }
}

text_enum! {
    enum ImportsFilter {
        Chats = "chats",
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ImportsQuery {
    /// `chats` for the caller's own imports of chats, which need no more than `chat:write`.
    #[param(inline)]
    format: Option<ImportsFilter>,
}

/// List the newest imports of the workspace, newest first
///
/// Imports of chats are only in the list of the person whose chats they are.
#[utoipa::path(get, path = "/v1/imports", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(ImportsQuery), responses((status = 200, body = List<ArchiveImport>)))]
async fn list_imports(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<ImportsQuery>,
) -> Result<Json<List<ArchiveImport>>, ApiError> {
    let of = match query.format {
        Some(ImportsFilter::Chats) => ImportsOf::Person,
        None => ImportsOf::Workspace,
    };
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    let rows = imports::list(&mut c, &actor, of).await?;
    Ok(Json(List::new(rows, i64::MAX, false, |row| {
        row.id.to_string()
    })))
}

/// Create an import, whose archive is uploaded next
///
/// With `path`, the archive is a file in the server's directory for archives (`OPENVIBE_IMPORT_DIR`), and the import is `receiving` until it
/// was copied; only admins of the server can do this. With `format: chats` and `options.channel_id`, every member can import their own chats with
/// other products into a chat with an agent here; nobody else sees that import. 409 `import_running` while another import is running in the workspace.
#[utoipa::path(post, path = "/v1/imports", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    request_body(content = ImportForm, example = json!({"format": "slack"})),
    responses((status = 201, body = ArchiveImport)))]
async fn create_import(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<ImportForm>,
) -> Result<Response, ApiError> {
    let local = match &form.path {
        None => None,
        Some(path) => {
            let mut c = state.db.read().await?;
            let actor = member.enter(&mut c).await?;
            imports::check_local_user(&mut c, &actor).await?;
            drop(c);
            state.disk.check().await?;
            Some(Importer::from(&state).find_local(path).await?)
        }
    };
    let made = member
        .write(&state.db, async move |c, actor| {
            imports::create(c, actor, &form, local.as_ref()).await
        })
        .await?;
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

/// Get an import and its progress
#[utoipa::path(get, path = "/v1/imports/{id}", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = ImportId, Path)), responses((status = 200, body = ArchiveImport)))]
async fn get_import(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ImportId>,
) -> Result<Json<ArchiveImport>, ApiError> {
    let member = member_of(&state, caller, id).await?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await.map_err(|e| hide(e.into()))?;
    Ok(Json(imports::get(&mut c, &actor, id).await?.into()))
}

/// Choose what becomes of people and channels of an archive, before the import starts
///
/// People can only be matched with members. What was private in the archive can only become a channel of its own, with the people who
/// could read it.
#[utoipa::path(patch, path = "/v1/imports/{id}", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = ImportId, Path)),
    request_body(content = ImportPatch, example = json!({"group": "day"})),
    responses((status = 200, body = ArchiveImport)))]
async fn patch_import(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ImportId>,
    Body(patch): Body<ImportPatch>,
) -> Result<Json<ArchiveImport>, ApiError> {
    let member = member_of(&state, caller, id).await?;
    let changed = member.write(&state.db, async move |c, actor| {
        imports::patch(c, actor, id, &patch).await
    });
    Ok(Json(changed.await.map_err(hide)?))
}

/// Delete an import that has not started, with its archive; undo any other
///
/// Undoing removes the messages and files of the import, and channels, placeholders, and bots that nothing else uses. Threads in which people
/// have written since keep what they wrote. The import is `undoing`, and then `undone`.
#[utoipa::path(delete, path = "/v1/imports/{id}", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = ImportId, Path)),
    responses(
        (status = 202, body = ArchiveImport),
        (status = 204, description = "The import was deleted")))]
async fn delete_import(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ImportId>,
) -> Result<Response, ApiError> {
    let member = member_of(&state, caller, id).await?;
    let deleted = member.write(&state.db, async move |c, actor| {
        imports::delete(c, actor, id).await
    });
    Ok(match deleted.await.map_err(hide)? {
        None => StatusCode::NO_CONTENT.into_response(),
        Some(undoing) => (StatusCode::ACCEPTED, Json(undoing)).into_response(),
    })
}

/// Bytes of an archive that were received.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct ReceivedArchive {
    received: i64,
}

/// Upload the next piece of an archive
///
/// `Content-Range` names the bytes and the size of the whole archive: `bytes 0-1048575/5242880`. A piece has at most 16 MiB; a repeated
/// one changes nothing. 409 `wrong_offset` if it is not the next one. The last piece is answered with 422 `unknown_archive` if the archive
/// has no known format.
#[utoipa::path(put, path = "/v1/imports/{id}/archive", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = ImportId, Path),
        ("Content-Range" = String, Header, description = "The bytes, and the size of the archive.")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = ReceivedArchive)))]
async fn put_archive(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ImportId>,
    headers: HeaderMap,
    Extension(UploadPace(pace)): Extension<UploadPace>,
    Extension(upload_bytes): Extension<UploadBytes>,
    request: Request,
) -> Result<Json<ReceivedArchive>, ApiError> {
    let member = member_of(&state, caller, id).await?;
    let range = headers.get(header::CONTENT_RANGE);
    let range = range.and_then(|value| PieceRange::parse(value.to_str().ok()?));
    let range = range.ok_or_else(|| {
        let text = "`Content-Range` must name the bytes: `bytes 0-99/200`".to_owned();
        ApiError::invalid(ErrorCode::InvalidBody, text, "content-range")
    })?;
    let bytes_max = state.config.import_bytes_max;
    // Access is checked before any bytes are read.
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await.map_err(|e| hide(e.into()))?;
    let known = imports::check_piece(&mut c, &actor, id, range, bytes_max).await?;
    drop(c);
    if let Some(received) = known {
        if received.unsigned_abs() == range.total {
            // The server may have stopped after it had stored the last piece.
            Importer::from(&state)
                .end_upload(member.workspace, id)
                .await?;
        }
        return Ok(Json(ReceivedArchive { received }));
    }
    state.disk.check().await?;
    let permit = upload_bytes.permit(&state.db, member.caller.user, member.workspace);
    let mut incoming = state.blobs.begin(Some(permit)).await?;
    let (mut body, mut len) = (request.into_body().into_data_stream(), 0_u64);
    loop {
        let next = tokio::time::timeout(pace, body.next()).await;
        let Some(bytes) = next.map_err(|_| FileError::TooSlow)? else {
            break;
        };
        let bytes = bytes.map_err(|e| FileError::Multipart(e.to_string()))?;
        len += bytes.len() as u64;
        if len > range.len.min(PIECE_BYTES_MAX) {
            break;
        }
        incoming.write(&bytes).await?;
    }
    if len != range.len {
        let text = format!(
            "the body does not have the {} bytes of `Content-Range`",
            range.len
        );
        return Err(ApiError::invalid(
            ErrorCode::InvalidBody,
            text,
            "content-range",
        ));
    }
    let tracker = state.tracker.clone();
    // Stored in a task of its own, so that bytes and row are stored together even if the client disconnects.
    let storing = async move {
        let published = state.blobs.publish(incoming.finish().await?).await?;
        let blob = published.reference();
        let stored = member.clone().write(&state.db, async move |c, actor| {
            imports::insert_piece(c, actor, id, range, bytes_max, &blob).await
        });
        let received = match stored.await {
            Ok((received, upload)) => {
                published.settle(upload);
                received
            }
            Err(e) => return Err(hide(e).into()),
        };
        if received.unsigned_abs() == range.total {
            let importer = Importer::from(&state);
            importer.end_upload(member.workspace, id).await?;
        }
        Ok::<_, ApiError>(received)
    };
    let stored = tracker.spawn(storing.in_current_span());
    let received = stored.await.map_err(|_| ApiError::internal())??;
    Ok(Json(ReceivedArchive { received }))
}

/// Get what an import would do; nothing is stored yet
#[utoipa::path(get, path = "/v1/imports/{id}/preview", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = ImportId, Path)), responses((status = 200, body = ImportPreview)))]
async fn get_preview(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ImportId>,
) -> Result<Json<ImportPreview>, ApiError> {
    let member = member_of(&state, caller, id).await?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await.map_err(|e| hide(e.into()))?;
    Ok(Json(imports::get_preview(&mut c, &actor, id).await?))
}

async fn step(
    state: &State,
    caller: Caller,
    id: ImportId,
    step: ImportStep,
) -> Result<Response, ApiError> {
    let member = member_of(state, caller, id).await?;
    let changed = member.write(&state.db, async move |c, actor| {
        imports::step(c, actor, id, step).await
    });
    let changed = changed.await.map_err(hide)?;
    Ok((StatusCode::ACCEPTED, Json(changed)).into_response())
}

/// Start an import that is ready
#[utoipa::path(post, path = "/v1/imports/{id}/start", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = ImportId, Path)), responses((status = 202, body = ArchiveImport)))]
async fn start_import(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ImportId>,
    Body(_): NoFields,
) -> Result<Response, ApiError> {
    step(&state, caller, id, ImportStep::Start).await
}

/// Pause a running import; what is being stored is stored
#[utoipa::path(post, path = "/v1/imports/{id}/pause", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = ImportId, Path)), responses((status = 202, body = ArchiveImport)))]
async fn pause_import(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ImportId>,
    Body(_): NoFields,
) -> Result<Response, ApiError> {
    step(&state, caller, id, ImportStep::Pause).await
}

/// Resume a paused import where it was
#[utoipa::path(post, path = "/v1/imports/{id}/resume", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = ImportId, Path)), responses((status = 202, body = ArchiveImport)))]
async fn resume_import(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ImportId>,
    Body(_): NoFields,
) -> Result<Response, ApiError> {
    step(&state, caller, id, ImportStep::Resume).await
}

text_enum! {
    enum ReportFormat {
        Json = "json",
        Md = "md",
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ReportQuery {
    /// `json`, the default, or `md` for Markdown.
    #[param(inline)]
    format: Option<ReportFormat>,
}

/// Get what became of each record that was read
#[utoipa::path(get, path = "/v1/imports/{id}/report", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = ImportId, Path), ReportQuery),
    responses((status = 200, body = ImportReport)))]
async fn get_report(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ImportId>,
    Query(query): Query<ReportQuery>,
) -> Result<Response, ApiError> {
    let member = member_of(&state, caller, id).await?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await.map_err(|e| hide(e.into()))?;
    let report = imports::get(&mut c, &actor, id).await?.report.0;
    if query.format == Some(ReportFormat::Md) {
        let kind = HeaderValue::from_static("text/markdown; charset=utf-8");
        return Ok(([(header::CONTENT_TYPE, kind)], report.to_markdown()).into_response());
    }
    Ok(Json(report).into_response())
}

/// Maximum number of placeholders in a table.
const PLACEHOLDERS_MAX: i64 = 100_000;

text_enum! {
    enum PlaceholdersFormat {
        Json = "json",
        Csv = "csv",
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PlaceholdersQuery {
    /// `json`, the default, or `csv` for a table of all, with their addresses in the archive.
    #[param(inline)]
    format: Option<PlaceholdersFormat>,
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// Only people who were imported after this one.
    after: Option<UserId>,
    /// Only people who were imported before this one.
    before: Option<UserId>,
}

/// A cell of a table. Programs for tables would run a text that begins like a formula.
fn csv_cell(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        "'"
    } else {
        ""
    };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

/// List placeholders, the oldest first: people of imported archives who have no account here
#[utoipa::path(get, path = "/v1/members/placeholders", tag = "people",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(PlaceholdersQuery),
    responses((status = 200, description = "A page of placeholders, or a table of all", content((List<Member> = "application/json"), (String = "text/csv")))))]
async fn list_placeholders(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<PlaceholdersQuery>,
) -> Result<Response, ApiError> {
    let page = PageQuery {
        limit: query.limit,
        after: query.after,
        before: query.before,
    };
    let page = page.page(20)?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    if query.format == Some(PlaceholdersFormat::Csv) {
        let all = placeholders::list_addresses(&mut c, &actor, PLACEHOLDERS_MAX).await?;
        let mut table = "name,handle,address\r\n".to_owned();
        for person in all {
            let email = person.email.unwrap_or_default();
            let cells = [person.name, person.handle, email].map(|text| csv_cell(&text));
            table.push_str(&cells.join(","));
            table.push_str("\r\n");
        }
        let kind = HeaderValue::from_static("text/csv; charset=utf-8");
        return Ok(([(header::CONTENT_TYPE, kind)], table).into_response());
    }
    let limit = page.limit + 1;
    let rows = placeholders::list_placeholders(&mut c, &actor, page.range(), limit).await?;
    Ok(Json(List::new(
        rows,
        page.limit,
        page.before.is_some(),
        |m: &Member| m.user_id.to_string(),
    ))
    .into_response())
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct MergeForm {
    /// The member who the placeholder is.
    into: UserId,
}

/// Merge a placeholder into a member
///
/// The member gets the placeholder's channels, private and direct ones too, at once, and then its messages, mentions, and reactions. The
/// placeholder is deleted. This cannot be undone.
#[utoipa::path(post, path = "/v1/members/{user_id}/merge", tag = "people",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("user_id" = UserId, Path)),
    request_body(content = MergeForm, example = json!({"into": "user_01k5t3h8xze4bs4p8v2m9qwd7a"})),
    responses((status = 202, body = Member)))]
async fn merge_member(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path(user): Path<UserId>,
    Body(form): Body<MergeForm>,
) -> Result<Response, ApiError> {
    let into = member
        .write(&state.db, async move |c, actor| {
            imports::merge(c, actor, user, form.into).await
        })
        .await?;
    Ok((StatusCode::ACCEPTED, Json(into)).into_response())
}

impl From<&State> for Importer {
    fn from(state: &State) -> Self {
        Self {
            db: state.db.clone(),
            blobs: state.blobs.clone(),
            hub: state.hub.clone(),
            shutdown: state.shutdown.clone(),
            hosts: SourceHosts::new(
                state.config.import_allow.clone(),
                OwnServer::new(state.address, &state.public_url),
            ),
            upload_bytes_max: state.config.upload_bytes_max,
            archive_bytes_max: state.config.import_bytes_max,
            keyring: Arc::clone(&state.keyring),
            directory: state.config.import_dir.clone(),
        }
    }
}
