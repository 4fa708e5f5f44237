//! HTTP routes for vector stores, as the clients of the `OpenAI` API call them.

use axum::{
    Json,
    http::{HeaderName, StatusCode},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;

use super::agents::tagged;
use crate::{
    auth::{Actor, Scope, WorkspaceCaller},
    chat::search::passages::find::PassageQuestion,
    collections::{
        self, Attributes, BATCH_FILES_MAX, BatchForm, CollectionError, CollectionId, FileBatch,
        StoreFile, StoreFileForm, StoreFileState, StoreForm, StoreHit, StorePatch, StoreRef,
        StoreSearch, VectorStore,
    },
    db::Conn,
    files::documents,
    http::{
        ApiError, ErrorCode,
        extract::{Body, IfMatch, Path, Query},
        page::{Limit, List, Page},
        routing::routes,
    },
    ids::{FileId, StoreBatchId, VectorStoreId},
    server::State,
    text_enum::{constant, text_enum},
};

type St = axum::extract::State<State>;

constant! { pub(crate) DeletedStoreObject = "vector_store.deleted" }
constant! { pub(crate) DeletedStoreFileObject = "vector_store.file.deleted" }
constant! { pub(crate) StoreResultsObject = "vector_store.search_results.page" }
constant! { pub(crate) StoreContentObject = "vector_store.file_content.page" }
constant! { pub(crate) TextContentType = "text" }

/// Response header with the parts of the request that have no effect.
const IGNORED: HeaderName = HeaderName::from_static("openvibe-ignored");
const LIST_DEFAULT: i64 = 20;
const RESULTS_DEFAULT: i64 = 10;
const RESULTS_MAX: i64 = 50;
const QUERY_CHARS_MAX: usize = 4_096;
/// Maximum number of parts of a file that are returned as its content.
const CONTENT_PARTS_MAX: i64 = 5_000;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_stores, create_store))
        .routes(routes!(get_store, update_store, patch_store, delete_store))
        .routes(routes!(search_store))
        .routes(routes!(list_store_files, add_store_file))
        .routes(routes!(
            get_store_file,
            update_store_file,
            remove_store_file
        ))
        .routes(routes!(get_store_file_content))
        .routes(routes!(create_file_batch))
        .routes(routes!(get_file_batch))
        .routes(routes!(cancel_file_batch))
        .routes(routes!(list_file_batch_files))
}

text_enum! {
    /// Order of a list by creation time.
    pub(super) enum ListOrder {
        Asc = "asc",
        Desc = "desc",
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct StoreListQuery {
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// `desc` by default.
    #[param(inline)]
    order: Option<ListOrder>,
    /// Only objects after the one with this ID.
    after: Option<String>,
    /// Only objects before the one with this ID.
    before: Option<String>,
    /// Only files with this status.
    #[param(inline)]
    filter: Option<StoreFileState>,
}

impl StoreListQuery {
    fn cut<T: Serialize, Id>(
        &self,
        mut rows: Vec<T>,
        parse: impl Fn(&str) -> Option<Id>,
        id: impl Fn(&T) -> Id,
    ) -> Result<List<T>, ApiError>
    where
        Id: PartialEq + Copy + std::fmt::Display,
    {
        if self.after.is_some() && self.before.is_some() {
            let text = "send either `after` or `before`, not both".to_owned();
            return Err(ApiError::invalid(ErrorCode::InvalidCursor, text, "before"));
        }
        if self.order != Some(ListOrder::Asc) {
            rows.reverse();
        }
        let named = |text: Option<&str>, param: &'static str| match text {
            None => Ok(None),
            Some(text) => parse(text).map(Some).ok_or_else(|| {
                ApiError::invalid(
                    ErrorCode::InvalidId,
                    format!("`{param}` is not an ID"),
                    param,
                )
            }),
        };
        let page = Page {
            limit: Limit::or(self.limit, LIST_DEFAULT),
            after: named(self.after.as_deref(), "after")?,
            before: named(self.before.as_deref(), "before")?,
        };
        page.cut(rows, id)
    }
}

pub(super) fn named(text: &str) -> Result<StoreRef, CollectionError> {
    StoreRef::parse(text).ok_or(CollectionError::NotFound)
}

/// Adds the names of fields without effect to a response.
fn with_ignored(mut response: Response, ignored: &[(&str, bool)]) -> Response {
    let names: Vec<&str> = ignored
        .iter()
        .filter(|(_, is_given)| *is_given)
        .map(|(name, _)| *name)
        .collect();
    if let (false, Ok(value)) = (names.is_empty(), names.join(", ").parse()) {
        response.headers_mut().insert(IGNORED, value);
    }
    response
}

/// Enters the workspace to read.
pub(super) async fn enter<'a>(
    c: &mut Conn,
    member: &'a WorkspaceCaller,
) -> Result<Actor<'a>, ApiError> {
    let actor = member.enter(c).await?;
    actor.require(Scope::ChatRead)?;
    Ok(actor)
}

/// List vector stores
#[utoipa::path(get, path = "/v1/vector_stores", tag = "files",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(StoreListQuery), responses((status = 200, body = List<VectorStore>)))]
async fn list_stores(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<StoreListQuery>,
) -> Result<Json<List<VectorStore>>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = enter(&mut c, &member).await?;
    let rows = collections::list(&mut c, &actor).await?;
    let parse = |text: &str| VectorStoreId::parse(text).ok().map(CollectionId::Store);
    Ok(Json(query.cut(rows, parse, |store| store.id)?))
}

/// Create a vector store: files that are searched together
///
/// `channel_id` decides who can read it, and cannot be changed; without it, everyone in the workspace except for guests can.
#[utoipa::path(post, path = "/v1/vector_stores", tag = "files",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    request_body(content = StoreForm, example = json!({"name": "Handbook", "handle": "handbook"})),
    responses((status = 200, body = VectorStore)))]
async fn create_store(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<StoreForm>,
) -> Result<Response, ApiError> {
    let ignored = [("chunking_strategy", form.chunking_strategy.is_some())];
    let caller = member.caller.clone();
    let added = form.file_ids.as_ref().map_or(0, Vec::len);
    state.limits.collect_files(caller.user, added)?;
    let store = member
        .write(&state.db, async move |c, actor| {
            collections::create(c, &caller, actor, &form).await
        })
        .await?;
    let response = tagged(StatusCode::OK, store.version, &store);
    Ok(with_ignored(response, &ignored))
}

/// Get a vector store by its ID or `vs_HANDLE`
#[utoipa::path(get, path = "/v1/vector_stores/{id}", tag = "files",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`")), responses((status = 200, body = VectorStore)))]
async fn get_store(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    let actor = enter(&mut c, &member).await?;
    let store = collections::get(&mut c, &actor, &named(&id)?).await?;
    Ok(tagged(StatusCode::OK, store.version, &store))
}

async fn change(
    state: &State,
    member: WorkspaceCaller,
    id: &str,
    expected: Option<i64>,
    patch: StorePatch,
) -> Result<Response, ApiError> {
    let named = named(id)?;
    let store = member.write(&state.db, async move |c, actor| {
        collections::update(c, actor, &named, expected, &patch).await
    });
    let store = store.await?;
    Ok(tagged(StatusCode::OK, store.version, &store))
}

/// Change a vector store
#[utoipa::path(post, path = "/v1/vector_stores/{id}", tag = "files",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`"),
        ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = StorePatch, example = json!({"name": "Handbook 2"})),
    responses((status = 200, body = VectorStore)))]
async fn update_store(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path(id): Path<String>,
    IfMatch(expected): IfMatch,
    Body(patch): Body<StorePatch>,
) -> Result<Response, ApiError> {
    change(&state, member, &id, expected, patch).await
}

/// Change a vector store; the same as POST
#[utoipa::path(patch, path = "/v1/vector_stores/{id}", tag = "files",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`"),
        ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = StorePatch, example = json!({"name": "Handbook 3"})),
    responses((status = 200, body = VectorStore)))]
async fn patch_store(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path(id): Path<String>,
    IfMatch(expected): IfMatch,
    Body(patch): Body<StorePatch>,
) -> Result<Response, ApiError> {
    change(&state, member, &id, expected, patch).await
}

/// Confirms that a vector store was deleted.
#[derive(Serialize, utoipa::ToSchema)]
struct DeletedStore {
    id: VectorStoreId,
    #[schema(inline)]
    object: DeletedStoreObject,
    deleted: bool,
}

/// Delete a vector store
///
/// Files that were uploaded with a `purpose` stay; the others are deleted.
#[utoipa::path(delete, path = "/v1/vector_stores/{id}", tag = "files",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`"),
        ("If-Match" = inline(Option<IfMatch>), Header)),
    responses((status = 200, body = DeletedStore)))]
async fn delete_store(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path(id): Path<String>,
    IfMatch(expected): IfMatch,
) -> Result<Json<DeletedStore>, ApiError> {
    let named = named(&id)?;
    let deleted = member.write(&state.db, async move |c, actor| {
        collections::delete(c, actor, &named, expected).await
    });
    let id = deleted.await?;
    state.documents.wake();
    Ok(Json(DeletedStore {
        id,
        object: DeletedStoreObject,
        deleted: true,
    }))
}

/// Words to search for: a text, or a list of texts.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
enum StoreQuery {
    One(String),
    Several(Vec<String>),
}

#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct StoreRanking {
    /// Minimum share of the score of the best hit, from 0 to 1.
    #[serde(default)]
    score_threshold: Option<f64>,
    /// No effect.
    #[serde(default)]
    ranker: Option<String>,
    /// No effect.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    hybrid_search: Option<Value>,
}

/// A search in a vector store.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct StoreSearchForm {
    query: StoreQuery,
    /// Comparisons `{type, key, value}` of attributes with `eq`, `ne`, `gt`, `gte`, `lt`, `lte`, `in`, or `nin`, and `{type, filters}`
    /// with `and` or `or`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    filters: Option<Value>,
    /// 1 to 50; 10 by default.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 50)]
    max_num_results: Option<i64>,
    #[serde(default)]
    ranking_options: Option<StoreRanking>,
    /// No effect.
    #[serde(default)]
    rewrite_query: Option<bool>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct StoreText {
    #[schema(inline)]
    r#type: TextContentType,
    text: String,
}

fn text_content(text: String) -> Vec<StoreText> {
    vec![StoreText {
        r#type: TextContentType,
        text,
    }]
}

/// A passage that was found in a vector store.
#[derive(Serialize, utoipa::ToSchema)]
struct StoreResult {
    file_id: FileId,
    filename: String,
    /// Share of the score of the best hit.
    score: f64,
    #[schema(value_type = Object)]
    attributes: Attributes,
    content: Vec<StoreText>,
    /// Number and name of the part, such as the page.
    part: i64,
    label: String,
    /// Position in the text of the part, in UTF-16 code units.
    from: i64,
    to: i64,
}

impl From<StoreHit> for StoreResult {
    fn from(hit: StoreHit) -> Self {
        let StoreHit {
            passage,
            attributes,
        } = hit;
        let text = match passage.header {
            Some(header) => format!("{header}\n{}", passage.text),
            None => passage.text,
        };
        Self {
            file_id: passage.file,
            filename: passage.name,
            score: passage.score,
            attributes,
            content: text_content(text),
            part: passage.part,
            label: passage.label,
            from: passage.from,
            to: passage.to,
        }
    }
}

/// Passages of a vector store, best first.
#[derive(Serialize, utoipa::ToSchema)]
struct StoreResults {
    #[schema(inline)]
    object: StoreResultsObject,
    search_query: Vec<String>,
    data: Vec<StoreResult>,
    has_more: bool,
    /// Always null: one page has all results.
    next_page: Option<String>,
}

/// Search the passages of a vector store
///
/// With the ID of a channel, the files in its messages are searched.
#[utoipa::path(post, path = "/v1/vector_stores/{id}/search", tag = "files",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = String, Path, description = "ID of a vector store, `vs_HANDLE`, or the ID of a channel")),
    request_body(content = StoreSearchForm, example = json!({"query": "Which trains are preferred?"})),
    responses((status = 200, body = StoreResults)))]
async fn search_store(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path(id): Path<String>,
    Body(form): Body<StoreSearchForm>,
) -> Result<Response, ApiError> {
    let queries = match form.query {
        StoreQuery::One(query) => vec![query],
        StoreQuery::Several(queries) => queries,
    };
    let query = queries.join("\n");
    let invalid = |text: &str, param: &'static str| {
        ApiError::invalid(ErrorCode::InvalidQuery, text.to_owned(), param)
    };
    if query.trim().is_empty() || query.chars().count() > QUERY_CHARS_MAX {
        return Err(invalid(
            "the query must have 1 to 4,096 characters",
            "query",
        ));
    }
    let limit = form.max_num_results.unwrap_or(RESULTS_DEFAULT);
    if !(1..=RESULTS_MAX).contains(&limit) {
        return Err(invalid(
            "max_num_results must be from 1 to 50",
            "max_num_results",
        ));
    }
    let ranking = form.ranking_options.unwrap_or_default();
    let score_min = ranking.score_threshold.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&score_min) {
        return Err(invalid(
            "score_threshold must be from 0 to 1",
            "ranking_options.score_threshold",
        ));
    }
    let named = named(&id)?;
    let mut c = state.db.read().await?;
    enter(&mut c, &member).await?;
    drop(c);
    let (workspace, user) = (member.workspace, member.caller.user);
    let asked = state.meaning.ask(workspace, user, &query).await;
    let mut c = state.db.scan(member.share()).await?;
    let actor = enter(&mut c, &member).await?;
    let search = StoreSearch {
        question: PassageQuestion::of(&query, &asked),
        filters: form.filters.as_ref(),
        limit: usize::try_from(limit).unwrap_or(1),
        score_min,
    };
    let found = collections::search(&mut c, &actor, &named, &search).await?;
    drop(c);
    if let Some(last) = found.to_note {
        let note = async move |c: &mut Conn| collections::note_use(c, last).await;
        state.db.write(member.workspace.0, note).await?;
    }
    let ignored = [
        ("rewrite_query", form.rewrite_query == Some(true)),
        (
            "ranking_options.ranker",
            ranking.ranker.is_some_and(|ranker| ranker != "auto"),
        ),
        (
            "ranking_options.hybrid_search",
            ranking.hybrid_search.is_some(),
        ),
    ];
    let results = StoreResults {
        object: StoreResultsObject,
        search_query: queries,
        data: found.hits.into_iter().map(StoreResult::from).collect(),
        has_more: false,
        next_page: None,
    };
    Ok(with_ignored(Json(&results).into_response(), &ignored))
}

/// List the files of a vector store
#[utoipa::path(get, path = "/v1/vector_stores/{id}/files", tag = "files",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`"), StoreListQuery), responses((status = 200, body = List<StoreFile>)))]
async fn list_store_files(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path(id): Path<String>,
    Query(query): Query<StoreListQuery>,
) -> Result<Json<List<StoreFile>>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = enter(&mut c, &member).await?;
    let rows = collections::list_files(&mut c, &actor, &named(&id)?).await?;
    Ok(Json(cut_files(&query, rows)?))
}

fn cut_files(
    query: &StoreListQuery,
    mut rows: Vec<StoreFile>,
) -> Result<List<StoreFile>, ApiError> {
    rows.retain(|file| query.filter.is_none_or(|wanted| file.status == wanted));
    query.cut(rows, |text| FileId::parse(text).ok(), |file| file.id)
}

/// Add your upload to a vector store
///
/// The file must have been uploaded by the caller, and not be attached to a message.
#[utoipa::path(post, path = "/v1/vector_stores/{id}/files", tag = "files",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`")),
    request_body(content = StoreFileForm, example = json!({"file_id": "file_01k5t00000e008000000000000"})),
    responses((status = 200, body = StoreFile)))]
async fn add_store_file(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path(id): Path<String>,
    Body(form): Body<StoreFileForm>,
) -> Result<Response, ApiError> {
    let ignored = [("chunking_strategy", form.chunking_strategy.is_some())];
    let named = named(&id)?;
    state.limits.collect_files(member.caller.user, 1)?;
    let file = member
        .write(&state.db, async move |c, actor| {
            collections::add_file(c, actor, &named, &form).await
        })
        .await?;
    Ok(with_ignored(Json(&file).into_response(), &ignored))
}

/// Get a file of a vector store
#[utoipa::path(get, path = "/v1/vector_stores/{id}/files/{file_id}", tag = "files",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`"), ("file_id" = FileId, Path)), responses((status = 200, body = StoreFile)))]
async fn get_store_file(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path((id, file)): Path<(String, FileId)>,
) -> Result<Json<StoreFile>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = enter(&mut c, &member).await?;
    Ok(Json(
        collections::find_file(&mut c, &actor, &named(&id)?, file).await?,
    ))
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct AttributesForm {
    /// Null removes all.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required, value_type = Option<Object>)]
    attributes: Option<Attributes>,
}

/// Replace the attributes of a file of a vector store
#[utoipa::path(post, path = "/v1/vector_stores/{id}/files/{file_id}", tag = "files",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`"), ("file_id" = FileId, Path)),
    request_body(content = AttributesForm, example = json!({"attributes": {"year": 2026}})),
    responses((status = 200, body = StoreFile)))]
async fn update_store_file(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path((id, file)): Path<(String, FileId)>,
    Body(form): Body<AttributesForm>,
) -> Result<Json<StoreFile>, ApiError> {
    let named = named(&id)?;
    let attributes = form.attributes.unwrap_or_default();
    let changed = member.write(&state.db, async move |c, actor| {
        collections::set_attributes(c, actor, &named, file, &attributes).await
    });
    Ok(Json(changed.await?))
}

/// Confirms that a file was removed from a vector store.
#[derive(Serialize, utoipa::ToSchema)]
struct RemovedStoreFile {
    id: FileId,
    #[schema(inline)]
    object: DeletedStoreFileObject,
    deleted: bool,
}

/// Remove a file from a vector store
///
/// The file stays if it was uploaded with a `purpose`.
#[utoipa::path(delete, path = "/v1/vector_stores/{id}/files/{file_id}", tag = "files",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`"), ("file_id" = FileId, Path)), responses((status = 200, body = RemovedStoreFile)))]
async fn remove_store_file(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path((id, file)): Path<(String, FileId)>,
) -> Result<Json<RemovedStoreFile>, ApiError> {
    let named = named(&id)?;
    member
        .write(&state.db, async move |c, actor| {
            collections::remove_file(c, actor, &named, file).await
        })
        .await?;
    Ok(Json(RemovedStoreFile {
        id: file,
        object: DeletedStoreFileObject,
        deleted: true,
    }))
}

/// The text of a file.
#[derive(Serialize, utoipa::ToSchema)]
struct StoreContent {
    #[schema(inline)]
    object: StoreContentObject,
    data: Vec<StoreText>,
    has_more: bool,
    next_page: Option<String>,
}

/// Get the text of a file of a vector store, a text for each part
#[utoipa::path(get, path = "/v1/vector_stores/{id}/files/{file_id}/content", tag = "files",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`"), ("file_id" = FileId, Path)), responses((status = 200, body = StoreContent)))]
async fn get_store_file_content(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path((id, file)): Path<(String, FileId)>,
) -> Result<Json<StoreContent>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = enter(&mut c, &member).await?;
    collections::find_file(&mut c, &actor, &named(&id)?, file).await?;
    let stored = crate::files::find(&mut c, file).await?;
    let hash = stored.ok_or(CollectionError::FileNotFound)?.blob.hash;
    let parts = documents::list_parts(&mut c, &hash, 0, CONTENT_PARTS_MAX).await?;
    Ok(Json(StoreContent {
        object: StoreContentObject,
        data: parts
            .into_iter()
            .flat_map(|part| text_content(part.text))
            .collect(),
        has_more: false,
        next_page: None,
    }))
}

/// Add several of your uploads to a vector store
#[utoipa::path(post, path = "/v1/vector_stores/{id}/file_batches", tag = "files",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`")),
    request_body(content = BatchForm, example = json!({"file_ids": ["file_01k5t00000e008000000000000"]})),
    responses((status = 200, body = FileBatch)))]
async fn create_file_batch(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path(id): Path<String>,
    Body(form): Body<BatchForm>,
) -> Result<Response, ApiError> {
    let ignored = [("chunking_strategy", form.chunking_strategy.is_some())];
    let named = named(&id)?;
    let counted = form.count().min(BATCH_FILES_MAX);
    state.limits.collect_files(member.caller.user, counted)?;
    let batch = member
        .write(&state.db, async move |c, actor| {
            collections::create_batch(c, actor, &named, &form).await
        })
        .await?;
    Ok(with_ignored(Json(&batch).into_response(), &ignored))
}

/// Get a batch of files
#[utoipa::path(get, path = "/v1/vector_stores/{id}/file_batches/{batch_id}", tag = "files",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`"), ("batch_id" = StoreBatchId, Path)), responses((status = 200, body = FileBatch)))]
async fn get_file_batch(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path((id, batch)): Path<(String, StoreBatchId)>,
) -> Result<Json<FileBatch>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = enter(&mut c, &member).await?;
    Ok(Json(
        collections::find_batch(&mut c, &actor, &named(&id)?, batch).await?,
    ))
}

/// Cancel a batch: files that have not been read yet leave the vector store
#[utoipa::path(post, path = "/v1/vector_stores/{id}/file_batches/{batch_id}/cancel", tag = "files",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`"), ("batch_id" = StoreBatchId, Path)),
    responses((status = 200, body = FileBatch)))]
async fn cancel_file_batch(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path((id, batch)): Path<(String, StoreBatchId)>,
) -> Result<Json<FileBatch>, ApiError> {
    let named = named(&id)?;
    let cancelled = member.write(&state.db, async move |c, actor| {
        collections::cancel_batch(c, actor, &named, batch).await
    });
    Ok(Json(cancelled.await?))
}

/// List the files of a batch
#[utoipa::path(get, path = "/v1/vector_stores/{id}/file_batches/{batch_id}/files", tag = "files",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = String, Path, description = "ID of a vector store, or `vs_HANDLE`"), ("batch_id" = StoreBatchId, Path), StoreListQuery),
    responses((status = 200, body = List<StoreFile>)))]
async fn list_file_batch_files(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path((id, batch)): Path<(String, StoreBatchId)>,
    Query(query): Query<StoreListQuery>,
) -> Result<Json<List<StoreFile>>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = enter(&mut c, &member).await?;
    let rows = collections::list_batch_files(&mut c, &actor, &named(&id)?, batch).await?;
    Ok(Json(cut_files(&query, rows)?))
}
