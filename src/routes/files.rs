//! HTTP routes for files.

use axum::{
    Extension, Json,
    extract::Request,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use tracing::Instrument;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    agents::derived::{self, Change, SourceId},
    auth::{Actor, AuthError, Caller, Scope, WorkspaceCaller, quota},
    chat::{ChatError, access, descriptions, post, search::passages::find::FileReader},
    collections,
    db::{Conn, DbError},
    failpoint,
    files::{
        self, Bounds, Delivery, File, FileError, FileObject, FilePurpose, KeptFile, Kind, NewFile,
        Received, Stored, UploadBytes,
        documents::{self, DocumentReason, DocumentRow, DocumentState, FileWithText},
        pictures::PICTURE_TYPES,
    },
    http::{
        ApiError,
        bodies::UploadPace,
        error::ErrorCode,
        extract::{Body, NoFields, Path, Query},
        page::{LIMIT_MAX, Limit, List, Page},
        routing::routes,
    },
    ids::{FileId, WorkspaceId},
    replies::{attached, description::suggest_description, utility::Utility},
    responses::ResponseError,
    server::{State, caller::workspace_of},
    tasks::{actions, queue::tenancy},
    text_enum::text_enum,
    time::Timestamp,
};

use super::vector_stores::ListOrder;

type St = axum::extract::State<State>;

/// Maximum length of a text that is searched in a file.
const FIND_CHARS_MAX: usize = 200;
/// Maximum number of uploads with a purpose that are listed.
const KEPT_MAX: i64 = 10_000;
/// Number of parts that are searched at a time.
const PARTS_AT_ONCE: i64 = 50;
/// Scope of `client_id` for uploads.
const PLACE: &str = "files";

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_kept_files, upload))
        .routes(routes!(serve, describe_file, remove))
        .routes(routes!(file_content))
        .routes(routes!(metadata))
        .routes(routes!(suggest_alt))
        .routes(routes!(file_text))
}

#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "documents the parts of an upload")]
struct UploadForm {
    /// The bytes, with a `filename`; at most 25 MiB by default.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
    /// ID chosen by the client. An upload that repeats an ID returns the first file with status 200.
    client_id: Option<String>,
    /// `assistants`, `user_data`, or `vision`, as in the `OpenAI` API: the upload is kept until it is deleted, and the response is an
    /// `OpenAI` file with status 200.
    purpose: Option<String>,
}

text_enum! {
    /// State of the text of a file, in the terms of the `OpenAI` API.
    enum OpenAiFileStatus {
        Uploaded = "uploaded",
        Processed = "processed",
        Error = "error",
    }
}

/// A file as in the `OpenAI` API.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct OpenAiFile {
    id: FileId,
    #[schema(inline)]
    object: FileObject,
    bytes: i64,
    /// Seconds since 1970.
    created_at: i64,
    expires_at: Option<i64>,
    filename: String,
    purpose: FilePurpose,
    status: OpenAiFileStatus,
}

impl OpenAiFile {
    async fn of(c: &mut Conn, stored: Stored) -> Result<Self, DbError> {
        let document = documents::find_document(c, &stored.blob.hash).await?;
        Ok(Self::from(KeptFile {
            id: stored.about.id,
            name: stored.about.name,
            size_bytes: stored.about.size_bytes,
            created_at: stored.about.created_at,
            purpose: stored.purpose.unwrap_or(FilePurpose::UserData),
            state: document.map(|row| row.state),
        }))
    }
}

impl From<KeptFile> for OpenAiFile {
    fn from(file: KeptFile) -> Self {
        Self {
            id: file.id,
            object: FileObject,
            bytes: file.size_bytes,
            created_at: file.created_at.unix_s(),
            expires_at: None,
            filename: file.name,
            purpose: file.purpose,
            status: match file.state {
                Some(DocumentState::Waiting) => OpenAiFileStatus::Uploaded,
                Some(DocumentState::Failed) => OpenAiFileStatus::Error,
                Some(
                    DocumentState::Ready
                    | DocumentState::Partial
                    | DocumentState::None
                    | DocumentState::Off,
                )
                | None => OpenAiFileStatus::Processed,
            },
        }
    }
}

/// An uploaded file: as in the `OpenAI` API if it was uploaded with a `purpose`.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(untagged)]
enum UploadAnswer {
    Upload(File),
    Kept(OpenAiFile),
}

/// Checks whether the client accepts only JSON, as clients of the `OpenAI` API do.
fn wants_json(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .is_some_and(|accept| accept.as_bytes() == b"application/json")
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct KeptQuery {
    /// 1 to 100; 100 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// Only files after the one with this ID.
    after: Option<FileId>,
    /// `desc` by default.
    #[param(inline)]
    order: Option<ListOrder>,
    /// Only files with this purpose.
    #[param(inline)]
    purpose: Option<FilePurpose>,
}

/// List your uploads that were made with a `purpose`
#[utoipa::path(get, path = "/v1/files", tag = "files",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(KeptQuery), responses((status = 200, body = List<OpenAiFile>)))]
async fn list_kept_files(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<KeptQuery>,
) -> Result<Json<List<OpenAiFile>>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::ChatRead)?;
    let mut rows = files::list_kept(&mut c, actor.workspace, actor.user, KEPT_MAX).await?;
    if query.order != Some(ListOrder::Asc) {
        rows.reverse();
    }
    rows.retain(|file| query.purpose.is_none_or(|wanted| file.purpose == wanted));
    let page = Page {
        limit: Limit::or(query.limit, LIMIT_MAX),
        after: query.after,
        before: None,
    };
    let files: Vec<OpenAiFile> = rows.into_iter().map(OpenAiFile::from).collect();
    Ok(Json(page.cut(files, |file| file.id)?))
}

/// Upload a file, to be attached to a message by its ID within a day
#[utoipa::path(post, path = "/v1/files", tag = "files",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    request_body(content = UploadForm, content_type = "multipart/form-data"),
    responses((status = 201, body = File),
        (status = 200, body = UploadAnswer, description = "Resend: the first file; with `purpose`, an OpenAI file")))]
async fn upload(
    axum::extract::State(state): St,
    caller: Caller,
    headers: HeaderMap,
    Extension(UploadPace(pace_within)): Extension<UploadPace>,
    Extension(upload_bytes): Extension<UploadBytes>,
    request: Request,
) -> Result<Response, ApiError> {
    let workspace = workspace_of(&state, &headers, &caller).await?;
    // Access is checked before any bytes are read.
    let actor = caller.enter(&mut state.db.read().await?, workspace).await?;
    actor.require(Scope::ChatWrite)?;
    state.disk.check().await?;
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let body = request.into_body().into_data_stream();
    let bounds = Bounds {
        bytes_max: state.config.upload_bytes_max,
        pace_within,
    };
    let permit = upload_bytes.permit(&state.db, caller.user, workspace);
    let received = files::receive(&state.blobs, permit, content_type, body, bounds).await?;
    let client_id = post::parse_client_id(received.client_id.clone())?;
    let has_purpose = received.purpose.is_some();
    let id = FileId::new();
    let (status, file) = store(&state, caller, workspace, received, client_id, id).await?;
    if !has_purpose {
        return Ok((status, Json(UploadAnswer::Upload(file))).into_response());
    }
    let mut c = state.db.read().await?;
    let stored = files::find(&mut c, file.id)
        .await?
        .ok_or(FileError::NotFound)?;
    let kept = OpenAiFile::of(&mut c, stored).await?;
    Ok(Json(UploadAnswer::Kept(kept)).into_response())
}

fn parse_purpose(text: Option<&str>) -> Result<Option<FilePurpose>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        let text = "purpose must be assistants, user_data, or vision".to_owned();
        ApiError::invalid(ErrorCode::InvalidValue, text, "purpose")
    })
}

/// Stores a received file, which gets the ID `id`. This is its own task, so that the bytes and the row are stored together even if the
/// client disconnects.
pub(super) async fn store(
    state: &State,
    caller: Caller,
    workspace: WorkspaceId,
    received: Received,
    client_id: Option<String>,
    id: FileId,
) -> Result<(StatusCode, File), ApiError> {
    let (tracker, state) = (state.tracker.clone(), state.clone());
    let storing = async move { publish(&state, caller, workspace, received, client_id, id).await };
    let storing = tracker.spawn(storing.in_current_span());
    storing.await.map_err(|_| ApiError::internal())?
}

async fn publish(
    state: &State,
    caller: Caller,
    workspace: WorkspaceId,
    received: Received,
    client_id: Option<String>,
    id: FileId,
) -> Result<(StatusCode, File), ApiError> {
    let purpose = parse_purpose(received.purpose.as_deref())?;
    let Received {
        whole,
        size_bytes,
        name,
        ..
    } = received;
    let Some(whole) = whole else {
        let client_id = client_id.as_deref();
        return find_first(state, &caller, workspace, size_bytes, client_id).await;
    };
    let kind = Kind::of(&whole.head, &name);
    let published = state.blobs.publish(whole).await?;
    failpoint!("file_stored");
    let new = NewFile {
        id,
        blob: published.reference(),
        name,
        kind,
        client_id,
        purpose,
    };
    let insert = async move |c: &mut Conn| {
        // Access may have changed during the upload.
        let actor = caller.enter(c, workspace).await?;
        actor.require(Scope::ChatWrite)?;
        let client_id = new.client_id.as_deref();
        if let Some(known) = post::claim_client_id(c, &actor, client_id, PLACE, new.id.0).await? {
            let stored = files::find(c, FileId(known)).await?;
            let stored = stored.ok_or(FileError::NotFound)?;
            return Ok((StatusCode::OK, File::from(stored), None));
        }
        let (file, upload) = files::insert(c, &actor, &new).await?;
        Ok::<_, ChatError>((StatusCode::CREATED, file, Some(upload)))
    };
    match state.db.write(workspace.0, insert).await {
        Ok((status, file, upload)) => {
            published.settle(upload);
            state.documents.wake();
            Ok((status, file))
        }
        Err(e) => {
            if !e.is_of_database() {
                published.settle(None);
            }
            Err(e.into())
        }
    }
}

/// Responds to an upload that the workspace has no space left for. A resend returns the first file; any other upload fails.
async fn find_first(
    state: &State,
    caller: &Caller,
    workspace: WorkspaceId,
    size_bytes: u64,
    client_id: Option<&str>,
) -> Result<(StatusCode, File), ApiError> {
    let mut c = state.db.read().await?;
    // Access may have changed during the upload.
    let actor = caller.enter(&mut c, workspace).await?;
    actor.require(Scope::ChatWrite)?;
    if let Some(client_id) = client_id
        && let Some(known) = post::find_client_id(&mut c, &actor, client_id, PLACE).await?
    {
        let stored = files::find(&mut c, FileId(known)).await?;
        let stored = stored.ok_or(FileError::NotFound)?;
        return Ok((StatusCode::OK, File::from(stored)));
    }
    let size_bytes = i64::try_from(size_bytes).unwrap_or(i64::MAX);
    quota::check_bytes(&mut c, workspace, quota::file_bytes(1, size_bytes)).await?;
    Err(FileError::WorkspaceFull.into())
}

/// Finds a file that the caller can see.
async fn visible<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    id: FileId,
) -> Result<(Stored, Actor<'a>), ApiError> {
    let stored = files::find(c, id).await?.ok_or(FileError::NotFound)?;
    let actor = match stored.message_id {
        Some(message) => match access::message(c, caller, message).await {
            Ok(access) => access.channel_access.actor,
            Err(ChatError::MessageNotFound) => store_reader(c, caller, &stored).await?,
            Err(e) => return Err(e.into()),
        },
        None if stored.is_avatar || stored.about.created_by == caller.user => {
            // The picture of a person can be read in all their workspaces.
            let shared = if stored.is_avatar {
                files::find_shared_workspace(c, caller, &stored).await?
            } else {
                None
            };
            let workspace = shared.unwrap_or(stored.workspace_id);
            caller.enter(c, workspace).await.map_err(|e| match e {
                AuthError::WorkspaceNotFound => FileError::NotFound.into(),
                other => ApiError::from(other),
            })?
        }
        None => store_reader(c, caller, &stored).await?,
    };
    Ok((stored, actor))
}

/// The caller as a reader of a vector store with the file.
async fn store_reader<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    stored: &Stored,
) -> Result<Actor<'a>, ApiError> {
    let found = collections::find_reader(c, caller, stored.workspace_id, stored.about.id).await?;
    Ok(found.ok_or(FileError::NotFound)?)
}

/// Finds a file whose bytes the caller can read.
pub(super) async fn readable(
    state: &State,
    caller: &Caller,
    id: FileId,
) -> Result<Stored, ApiError> {
    let mut c = state.db.read().await?;
    let (stored, actor) = visible(&mut c, caller, id).await?;
    actor.require(Scope::ChatRead)?;
    Ok(stored)
}

/// Checks that the caller can read a file of a workspace.
pub(super) async fn check_visible(
    c: &mut Conn,
    caller: &Caller,
    workspace: WorkspaceId,
    id: FileId,
) -> Result<(), ApiError> {
    let (stored, _) = visible(c, caller, id).await?;
    if stored.workspace_id != workspace {
        return Err(FileError::NotFound.into());
    }
    Ok(())
}

/// A file, and whether agents can use it.
#[derive(Serialize, utoipa::ToSchema)]
struct FileMetadata {
    #[serde(flatten)]
    file: FileWithText,
    /// For pictures, whether the default model of the workspace can see them; null for other files.
    seen: Option<bool>,
    /// True if agents get the whole text with a question, and not only the parts that fit; null for files without text.
    fits: Option<bool>,
}

/// Checks whether the default model can see a picture.
async fn is_seen(state: &State, stored: &Stored) -> Result<Option<bool>, ApiError> {
    if !PICTURE_TYPES.contains(&&*stored.about.content_type) {
        return Ok(None);
    }
    let provider = state.providers.of(stored.workspace_id).await?;
    let model = provider.effective_model(None).await;
    Ok(Some(
        model.is_some_and(|model| provider.takes_pictures(&model)),
    ))
}

/// Get the metadata of a file
///
/// Until the file is attached to a message or is in a vector store, only its uploader can access it.
#[utoipa::path(get, path = "/v1/files/{id}/metadata", tag = "files",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = FileId, Path)), responses((status = 200, body = FileMetadata)))]
async fn metadata(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<FileId>,
) -> Result<Json<FileMetadata>, ApiError> {
    let stored = readable(&state, &caller, id).await?;
    let seen = is_seen(&state, &stored).await?;
    let mut c = state.db.read().await?;
    let row = documents::find_document(&mut c, &stored.blob.hash).await?;
    let fits = row
        .filter(DocumentRow::has_text)
        .map(|row| attached::fits(&row));
    let file = stored.with_text(&mut c).await?;
    Ok(Json(FileMetadata { file, seen, fits }))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct TextQuery {
    /// Number of a part, starting at 1. Default: the first part that contains `q`, or else 1.
    #[param(minimum = 1)]
    part: Option<u32>,
    /// Text to find, regardless of case; at most 200 characters.
    q: Option<String>,
}

/// Occurrences of the searched text in a part.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct TextMatch {
    part: i64,
    count: usize,
}

/// The text of a file, part by part.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct FileText {
    file: File,
    state: DocumentState,
    reason: Option<DocumentReason>,
    /// Number of parts.
    parts: i64,
    /// Numbers of parts that were not read; at most 100.
    unread_parts: Vec<i64>,
    /// Number of the returned part; null if the file has no text.
    part: Option<i64>,
    /// Name of the part, such as `page 12`.
    label: Option<String>,
    heading: Option<String>,
    text: Option<String>,
    /// Parts that contain `q`, in order; empty without `q`.
    matches: Vec<TextMatch>,
    /// Time at which another file replaced this one in a vector store: it is not found anymore, and can be read for another 90 days.
    replaced_at: Option<Timestamp>,
    /// The file that replaced this one.
    replaced_by: Option<FileId>,
}

/// Get the text of a file, one part at a time
///
/// Parts are pages, slides, sheets, sections between headings, or 200 lines. `state` and `reason` are the result of reading.
#[utoipa::path(get, path = "/v1/files/{id}/text", tag = "files",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = FileId, Path), TextQuery),
    responses((status = 200, body = FileText), (status = 404, body = crate::http::error::ErrorBody)))]
async fn file_text(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<FileId>,
    Query(query): Query<TextQuery>,
) -> Result<Json<FileText>, ApiError> {
    let stored = readable(&state, &caller, id).await?;
    let wanted = query.q.as_deref().map(str::trim).filter(|q| !q.is_empty());
    if wanted.is_some_and(|q| q.chars().count() > FIND_CHARS_MAX) {
        let text =
            format!("the searched text is longer than {FIND_CHARS_MAX} characters: shorten it");
        return Err(ApiError::invalid(ErrorCode::InvalidQuery, text, "q"));
    }
    let mut c = state.db.read().await?;
    let row = documents::find_document(&mut c, &stored.blob.hash).await?;
    let (mut matches, mut part) = (Vec::new(), None);
    if let Some(row) = row.as_ref().filter(|row| row.has_text()) {
        if let Some(q) = wanted {
            matches = find_in(&mut c, &row.hash, q).await?;
        }
        let first = matches.first().map_or(1, |found: &TextMatch| found.part);
        let n = query.part.map_or(first, i64::from);
        part = documents::find_part(&mut c, &row.hash, n).await?;
    }
    let is_waiting = row
        .as_ref()
        .is_some_and(|row| row.state == DocumentState::Waiting);
    if part.is_none() && query.part.is_some() && !is_waiting {
        return Err(FileError::NoSuchPart.into());
    }
    let reader = FileReader {
        workspace: stored.workspace_id,
        user: caller.user,
        shared_in: None,
    };
    let successor = match stored.message_id {
        Some(_) => None,
        None => collections::find_successor(&mut c, reader, id).await?,
    };
    let name = stored.about.name.clone();
    Ok(Json(FileText {
        replaced_at: successor.map(|new| new.replaced_at),
        replaced_by: successor.map(|new| new.replaced_by),
        file: stored.into(),
        state: row.as_ref().map_or(DocumentState::None, |row| row.state),
        reason: row.as_ref().and_then(|row| row.reason),
        parts: row.as_ref().map_or(0, |row| row.parts),
        unread_parts: row.map(|row| row.unread_parts()).unwrap_or_default(),
        part: part.as_ref().map(|part| part.n),
        label: part.as_ref().map(|part| part.name(&name).to_owned()),
        heading: part.as_ref().and_then(|part| part.heading.clone()),
        text: part.map(|part| part.text),
        matches,
    }))
}

/// Counts the occurrences of a text in each part.
async fn find_in(c: &mut Conn, hash: &str, q: &str) -> Result<Vec<TextMatch>, ApiError> {
    let q = q.to_lowercase();
    let (mut matches, mut after) = (Vec::new(), 0);
    loop {
        let parts = documents::list_parts(c, hash, after, PARTS_AT_ONCE).await?;
        let Some(last) = parts.last() else {
            return Ok(matches);
        };
        after = last.n;
        for part in parts {
            let count = part.text.to_lowercase().matches(&q).count();
            if count > 0 {
                matches.push(TextMatch {
                    part: part.n,
                    count,
                });
            }
        }
        // Other requests of this thread come first.
        tokio::task::yield_now().await;
    }
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct FileDescription {
    /// Description of a picture for those who cannot see it; at most 1,000 characters. Null or blank to remove it.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required)]
    alt: Option<String>,
}

/// Describe your own file
///
/// Agents whose models cannot see pictures, screen readers, and search use the description. Only the uploader can change it.
#[utoipa::path(patch, path = "/v1/files/{id}", tag = "files",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = FileId, Path)),
    request_body(content = FileDescription, example = json!({"alt": "Two people at a whiteboard"})),
    responses((status = 200, body = File)))]
async fn describe_file(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<FileId>,
    Body(body): Body<FileDescription>,
) -> Result<Json<File>, ApiError> {
    let alt = descriptions::parse_alt(body.alt.as_deref())?;
    let workspace = files::find(&mut state.db.read().await?, id)
        .await?
        .ok_or(FileError::NotFound)?
        .workspace_id;
    let change =
        async move |c: &mut Conn| descriptions::describe(c, &caller, id, alt.as_deref()).await;
    let stored = state.db.write(workspace.0, change).await;
    let stored = stored.map_err(|e| match e {
        // Without `attachments` as the field, as for a file that does not exist.
        ChatError::File(e) => ApiError::from(e),
        e => e.into(),
    })?;
    Ok(Json(stored.into()))
}

/// Suggested description of a picture.
#[derive(Serialize, utoipa::ToSchema)]
struct SuggestedAlt {
    alt: String,
}

/// Suggest a description of your own picture; nothing is stored
///
/// A small model of the workspace that can see pictures writes it.
#[utoipa::path(post, path = "/v1/files/{id}/suggest-alt", tag = "files",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = FileId, Path)), responses((status = 200, body = SuggestedAlt)))]
async fn suggest_alt(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<FileId>,
    _: NoFields,
) -> Result<Json<SuggestedAlt>, ApiError> {
    let mut c = state.db.read().await?;
    let (stored, actor) = visible(&mut c, &caller, id).await?;
    actor.require(Scope::ChatWrite)?;
    if stored.about.created_by != caller.user {
        return Err(FileError::NotYours.into());
    }
    let (workspace, user) = (stored.workspace_id, caller.user);
    let tenancy = tenancy(&mut c).await?;
    drop(c);
    let provider = state.providers.of(workspace).await?;
    if provider.is_offline() {
        let text = "this workspace has no language model: describe the picture yourself";
        return Err(ApiError::unprocessable(ErrorCode::NoModel, text.to_owned()));
    }
    let utility = Utility {
        db: state.db.clone(),
        provider,
        calls: state.calls.clone(),
        delays: state.config.retry_delays.clone(),
    };
    // The request waits for the model, so it counts as one of the concurrent calls of `/v1/responses`.
    let slots = &state.responses_of_all.slots;
    let _permit = slots.take(workspace, user, tenancy).await?;
    let picture = state.pictures.read(&stored.blob, stored.about.size_bytes);
    let missing = || {
        let (status, code) = (StatusCode::SERVICE_UNAVAILABLE, ErrorCode::ModelUnavailable);
        let text = "no model described the picture: describe it yourself";
        ApiError::new(status, code, text.to_owned())
    };
    let picture = picture.await?.ok_or_else(missing)?;
    let found = suggest_description(&utility, workspace, user, &picture).await?;
    let found = found.map_err(ResponseError::OverBudget)?;
    let alt = found.ok_or_else(missing)?;
    Ok(Json(SuggestedAlt { alt }))
}

/// Confirms that a file was deleted, as in the `OpenAI` API.
#[derive(Serialize, utoipa::ToSchema)]
struct DeletedFile {
    id: FileId,
    #[schema(inline)]
    object: FileObject,
    deleted: bool,
}

/// Delete your own upload that is not attached to a message yet
///
/// Only the uploader can delete a file, and only before it is attached to a message (409 `in_use`). It also leaves its vector stores. For
/// uploads with a `purpose`, and with `Accept: application/json`, the response is that of the `OpenAI` API.
#[utoipa::path(delete, path = "/v1/files/{id}", tag = "files",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = FileId, Path)),
    responses((status = 204, description = "The file was deleted"), (status = 200, body = DeletedFile)))]
async fn remove(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<FileId>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let purpose = delete_own(&state, caller, id).await?;
    if purpose.is_none() && !wants_json(&headers) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let deleted = DeletedFile {
        id,
        object: FileObject,
        deleted: true,
    };
    Ok(Json(deleted).into_response())
}

/// Deletes an upload of the caller that is not attached to a message, and returns its purpose.
pub(super) async fn delete_own(
    state: &State,
    caller: Caller,
    id: FileId,
) -> Result<Option<FilePurpose>, ApiError> {
    let workspace = files::find(&mut state.db.read().await?, id)
        .await?
        .ok_or(FileError::NotFound)?
        .workspace_id;
    let delete = async move |c: &mut Conn| {
        let (stored, actor) = visible(c, &caller, id).await?;
        actor.require(Scope::ChatWrite)?;
        if stored.about.created_by != caller.user {
            return Err(FileError::NotYours.into());
        }
        collections::announce_deletion(c, id).await?;
        if !files::delete_loose(c, id).await? {
            return Err::<_, ApiError>(FileError::Attached.into());
        }
        // Agents may have read it in a vector store.
        derived::changed(c, SourceId::File(id), Change::Deleted).await?;
        actions::forget_files(c, &[id], derived::DELETED).await?;
        Ok(stored.purpose)
    };
    let purpose = state.db.write(workspace.0, delete).await?;
    state.documents.wake();
    Ok(purpose)
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ServeQuery {
    /// `1` serves the file as a download, regardless of its type.
    download: Option<String>,
}

/// Get the bytes of a file
///
/// Supports `Range` with a single range, and `If-None-Match`. Types that browsers could run are served as plain text
/// or bytes, and as a download.
///
/// Until the file is attached to a message or is in a vector store, only its uploader can access it. With `Accept: application/json`
/// alone, the response is an `OpenAI` file.
#[utoipa::path(get, path = "/v1/files/{id}", tag = "files",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = FileId, Path), ServeQuery,
        ("Range" = Option<String>, Header, description = "A single range, such as `bytes=0-1023`."),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of a cached copy.")),
    responses((status = 200, content_type = "*/*", description = "The bytes, with the content type of the file"),
        (status = 416, body = crate::http::error::ErrorBody, description = "The range is beyond the end of the file"),
        (status = 206, content_type = "*/*", description = "The requested range"),
        (status = 304, description = "The cached copy is current")))]
async fn serve(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<FileId>,
    Query(query): Query<ServeQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let stored = readable(&state, &caller, id).await?;
    if wants_json(&headers) {
        let mut c = state.db.read().await?;
        return Ok(Json(OpenAiFile::of(&mut c, stored).await?).into_response());
    }
    send(&state, stored, &query, &headers).await
}

/// Get the bytes of a file, as clients of the `OpenAI` API do
#[utoipa::path(get, path = "/v1/files/{id}/content", tag = "files",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = FileId, Path)),
    responses((status = 200, content_type = "*/*", description = "The bytes, with the content type of the file")))]
async fn file_content(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<FileId>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let stored = readable(&state, &caller, id).await?;
    let query = ServeQuery { download: None };
    send(&state, stored, &query, &headers).await
}

/// Sends the bytes of a file, or the requested range of them.
async fn send(
    state: &State,
    stored: Stored,
    query: &ServeQuery,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let tag = format!("\"{}\"", stored.blob.hash);
    let given = |name: header::HeaderName| headers.get(name).and_then(|v| v.to_str().ok());
    let delivery = match query.download.as_deref() {
        None | Some("0" | "false") => stored.delivery(),
        Some(_) => Delivery::Attachment,
    };
    let mut response = if given(header::IF_NONE_MATCH).is_some_and(|tags| is_among(&tag, tags)) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let range = given(header::RANGE)
            .filter(|_| given(header::IF_RANGE).is_none_or(|known| known.trim() == tag));
        bytes_of(state, &stored, range).await?
    };
    describe(&mut response, &stored, delivery, &tag);
    Ok(response)
}

/// Part of a body that a response contains.
pub(super) struct BodyPart {
    pub(super) status: StatusCode,
    pub(super) from: u64,
    pub(super) len: u64,
}

/// The part of a body of this size that `range` requests, or everything; `None` if the range is not within the body. Anything other than
/// a single byte range is ignored (RFC 9110 §14.2).
pub(super) fn requested_part(range: Option<&str>, size: u64) -> Option<BodyPart> {
    let asked = range.and_then(|text| http_range_header::parse_range_header(text.trim()).ok());
    let Some(asked) = asked.filter(|asked| asked.ranges.len() == 1) else {
        return Some(BodyPart {
            status: StatusCode::OK,
            from: 0,
            len: size,
        });
    };
    // No range is within an empty file, which the library does not check.
    let valid = match size {
        0 => Vec::new(),
        size => asked.validate(size).unwrap_or_default(),
    };
    let part = valid.first()?;
    Some(BodyPart {
        status: StatusCode::PARTIAL_CONTENT,
        from: *part.start(),
        len: part.end() - part.start() + 1,
    })
}

/// Serves the bytes, or the part requested by `range`.
async fn bytes_of(
    state: &State,
    stored: &Stored,
    range: Option<&str>,
) -> Result<Response, ApiError> {
    let size = u64::try_from(stored.about.size_bytes).unwrap_or(0);
    let Some(BodyPart { status, from, len }) = requested_part(range, size) else {
        let mut response = ApiError::range_not_satisfiable(size).into_response();
        let known = format!("bytes */{size}");
        set(&mut response, header::CONTENT_RANGE, &known);
        return Ok(response);
    };
    let bytes = state.blobs.read(&stored.blob, from, len).await?;
    let mut response = (status, axum::body::Body::from_stream(bytes)).into_response();
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {from}-{}/{size}", from + len - 1);
        set(&mut response, header::CONTENT_RANGE, &range);
    }
    set(&mut response, header::CONTENT_LENGTH, &len.to_string());
    set(&mut response, header::CONTENT_TYPE, stored.served_type());
    Ok(response)
}

fn is_among(tag: &str, tags: &str) -> bool {
    tags.split(',')
        .map(|known| known.trim().trim_start_matches("W/"))
        .any(|known| known == tag || known == "*")
}

fn set(response: &mut Response, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// Sets headers that prevent uploaded content from acting with the origin's authority.
fn describe(response: &mut Response, stored: &Stored, delivery: Delivery, tag: &str) {
    let media = ["image/", "audio/", "video/"]
        .iter()
        .any(|kind| stored.served_type().starts_with(kind));
    // Browsers show an image or a video in a generated page, and this policy must allow that page to load the file.
    let policy = if media && delivery == Delivery::Inline {
        "sandbox; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'"
    } else {
        "sandbox; default-src 'none'"
    };
    set(response, header::CONTENT_SECURITY_POLICY, policy);
    set(response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    let resource_policy = header::HeaderName::from_static("cross-origin-resource-policy");
    set(response, resource_policy, "same-origin");
    if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
        return;
    }
    // Browsers must revalidate each time so that access is checked; the tag avoids transferring the bytes again.
    set(response, header::CACHE_CONTROL, "private, no-cache");
    set(response, header::ETAG, tag);
    set(response, header::ACCEPT_RANGES, "bytes");
    let disposition = disposition(delivery, &stored.about.name);
    set(response, header::CONTENT_DISPOSITION, &disposition);
}

/// Returns `inline` or `attachment`, with the name in both forms that clients support (RFC 6266).
fn disposition(delivery: Delivery, name: &str) -> String {
    use std::fmt::Write;
    let kind = match delivery {
        Delivery::Inline => "inline",
        Delivery::Attachment => "attachment",
    };
    let plain: String = name
        .chars()
        .map(|c| {
            if (c.is_ascii_graphic() || c == ' ') && !matches!(c, '"' | '\\' | '%') {
                c
            } else {
                '_'
            }
        })
        .collect();
    let mut encoded = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string never fails.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    format!("{kind}; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_cannot_break_out_of_its_header() {
        assert_eq!(
            disposition(Delivery::Inline, "a\"; b=ü.png"),
            "inline; filename=\"a_; b=_.png\"; filename*=UTF-8''a%22%3B%20b%3D%C3%BC.png"
        );
    }

    #[test]
    fn etags_are_compared_weakly() {
        assert!(is_among("\"a\"", "W/\"b\", W/\"a\""));
        assert!(is_among("\"a\"", "*"));
        assert!(!is_among("\"a\"", "a"));
    }
}
