//! Search over HTTP.

use axum::Json;
use futures::FutureExt;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        Ref, RefOr,
        schema::{AnyOfBuilder, Schema},
    },
};
use utoipa_axum::router::OpenApiRouter;

use super::St;
use crate::{
    auth::{Actor, Caller, Scope, WorkspaceCaller},
    chat::{
        ChatError, access,
        search::{
            find::{self, Search, SearchPage, Start},
            passages::{
                self,
                find::{PassageFilter, PassagePage, PassageStart},
            },
            query::Question,
        },
    },
    collections::{self, CollectionError, StoreRef},
    db::Conn,
    http::{ApiError, ErrorCode, extract::Query, page::Limit, routing::routes},
    ids::{ChannelId, FileId, ThreadId},
    meaning::VectorAnswer,
    server::State,
    text_enum::UnknownText,
};

const HITS_PAGE: i64 = 20;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(search))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SearchQuery {
    /// Words that must all match (the last one also matches longer words), `"phrases"`, `-without`,
    /// and filters: `from:HANDLE` or `from:me`, `in:CHANNEL`, `has:file|link|code|reaction|result`,
    /// `before:YYYY-MM-DD`, `after:YYYY-MM-DD`. Case and accents are ignored. At most 500
    /// characters.
    #[param(example = "release plan from:ada has:link")]
    q: Option<String>,
    /// `all` (default): every word must match. `any`: at least one word must match, in any of its forms; returns the
    /// best 200 hits by relevance, and names of authors count as words.
    #[serde(rename = "match")]
    #[param(inline)]
    match_mode: Option<find::MatchMode>,
    /// `thread` returns only the best hit of each thread; requires `match=any` or `order=relevance`.
    #[param(inline)]
    group: Option<find::Group>,
    /// Only in this channel.
    channel_id: Option<ChannelId>,
    /// Only in this thread, without its forks.
    thread_id: Option<ThreadId>,
    /// Only by this user or agent: `user_…` or `agent_…`.
    author_id: Option<String>,
    /// `text`, `resolution` (resolution messages), `thread` (root messages, which also match by
    /// the title of the thread), and `fork` (deep dives by their titles, newest first, selected by `q`,
    /// `channel_id`, and `thread_id`); separate several with commas. Or `file`: passages of files, selected by `q`, `match`,
    /// `channel_id`, `file_id`, and `vector_store_id`, and sorted by `order`.
    #[serde(default, deserialize_with = "kinds")]
    #[param(value_type = Option<String>, example = "thread,fork")]
    kind: Vec<find::Kind>,
    /// Only passages of this file; requires `kind=file`.
    file_id: Option<FileId>,
    /// Only passages of the files in this vector store: an ID, `vs_HANDLE`, or the ID of a channel; requires `kind=file`.
    vector_store_id: Option<String>,
    /// `file`, `link`, `code`, `reaction`, or `result`; separate several with commas.
    has: Option<String>,
    /// Only messages before the start of this day (UTC), this time (RFC 3339), or this message
    /// (`msg_…`).
    before: Option<String>,
    /// Only messages at or after the start of this day (UTC) or this time (RFC 3339).
    after: Option<String>,
    /// `newest` first (default), `oldest` first, or by `relevance` among the newest 1,000 hits. With `match=any`, only
    /// `relevance`.
    #[param(inline)]
    order: Option<find::SearchOrder>,
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
}

impl SearchQuery {
    /// True if passages of files are searched.
    fn finds_files(&self) -> bool {
        self.kind == [find::Kind::File]
    }
}

/// Reads kinds that are separated by commas.
fn kinds<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<find::Kind>, D::Error> {
    let text = String::deserialize(d)?;
    let kinds = text
        .split(',')
        .map(|name| name.trim().parse::<find::Kind>());
    let kinds: Result<Vec<find::Kind>, UnknownText> = kinds.collect();
    let kinds = kinds.map_err(D::Error::custom)?;
    if kinds.len() > 1 && kinds.contains(&find::Kind::File) {
        return Err(D::Error::custom("`file` must be the only kind"));
    }
    Ok(kinds)
}

/// Search messages, resolutions, and titles of threads and deep dives
///
/// Returns messages that the caller can currently see, but never deleted messages, notices, or unfinished replies. Only the
/// first 64 KiB of a message are searched. With `kind=fork`, a hit is the message from which a deep dive starts, with the ID of the
/// deep dive as `fork_id`; a page has all hits of a message. With `kind=file`, the hits are passages of files that the caller can
/// currently read.
#[utoipa::path(get, path = "/v1/search", tag = "search",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(SearchQuery), responses((status = 200, body = SearchAnswer)))]
async fn search(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<SearchQuery>,
) -> Result<Json<SearchAnswer>, ApiError> {
    let asked = ask(&state, &member, &query).await?;
    let read = state.db.scan(member.share()).await?.run(move |c| {
        async move {
            let actor = member.enter(c).await?;
            actor.require(Scope::ChatRead)?;
            let limit = Limit::or(query.limit, HITS_PAGE);
            if query.finds_files() {
                let page = find_files(c, &member.caller, &actor, &query, limit, &asked).await?;
                return Ok(SearchAnswer::Passages(page));
            }
            let others = [
                ("file_id", query.file_id.is_some()),
                ("vector_store_id", query.vector_store_id.is_some()),
            ];
            if let Some(name) = first_given(&others) {
                let text = format!("{name} needs kind=file: add it");
                return Err(ApiError::invalid(ErrorCode::InvalidQuery, text, name));
            }
            let (search, start) = parse(&query)?;
            let page = find::find(c, &member.caller, &actor, &search, start, limit).await?;
            Ok::<_, ApiError>(SearchAnswer::Messages(page))
        }
        .boxed()
    });
    Ok(Json(read.await?))
}

/// Requests the vector of the question, for the first page of files by relevance. Quoted and excluded words are searched by words alone.
async fn ask(
    state: &State,
    member: &WorkspaceCaller,
    query: &SearchQuery,
) -> Result<VectorAnswer, ApiError> {
    let is_ranked = query.match_mode == Some(find::MatchMode::Any)
        || query.order == Some(find::SearchOrder::Relevance);
    if !query.finds_files() || !is_ranked || query.cursor.is_some() {
        return Ok(VectorAnswer::Unused);
    }
    let text = query.q.as_deref();
    // An invalid question is rejected later.
    let Ok(question) = find::parse_question(text) else {
        return Ok(VectorAnswer::Unused);
    };
    let has_quotes = text.is_some_and(|text| text.contains(['"', '“', '”', '„']));
    if has_quotes || !question.without.is_empty() {
        return Ok(VectorAnswer::Unused);
    }
    let mut c = state.db.read().await?;
    member.enter(&mut c).await?.require(Scope::ChatRead)?;
    drop(c);
    let (workspace, user) = (member.workspace, member.caller.user);
    Ok(state.meaning.ask(workspace, user, &question.text).await)
}

/// Name of the first parameter that the client sent.
fn first_given(parameters: &[(&'static str, bool)]) -> Option<&'static str> {
    let first = parameters.iter().find(|(_, is_given)| *is_given);
    first.map(|(name, _)| *name)
}

/// Hits: messages, or passages with `kind=file`.
#[derive(Serialize)]
#[serde(untagged)]
enum SearchAnswer {
    Messages(SearchPage),
    Passages(PassagePage),
}

/// Not `oneOf`, as derived: an empty page is a page of both kinds.
impl PartialSchema for SearchAnswer {
    fn schema() -> RefOr<Schema> {
        let pages = AnyOfBuilder::new()
            .description(Some("Hits: messages, or passages with `kind=file`."))
            .item(Ref::from_schema_name("SearchPage"))
            .item(Ref::from_schema_name("PassagePage"));
        Schema::AnyOf(pages.build()).into()
    }
}

impl ToSchema for SearchAnswer {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push(("SearchPage".to_owned(), SearchPage::schema()));
        schemas.push(("PassagePage".to_owned(), PassagePage::schema()));
        SearchPage::schemas(schemas);
        PassagePage::schemas(schemas);
    }
}

/// Rejects filters of messages, and `others`, for a kind of hits to which they do not apply.
fn reject_filters(
    query: &SearchQuery,
    question: &Question,
    kind: find::Kind,
    others: &[(&'static str, bool)],
) -> Result<(), ApiError> {
    let of_messages = [
        ("group", query.group.is_some()),
        ("author_id", query.author_id.is_some()),
        ("has", query.has.is_some()),
        ("before", query.before.is_some()),
        ("after", query.after.is_some()),
    ];
    if let Some(name) = first_given(&of_messages).or_else(|| first_given(others)) {
        let text = format!("{name} does not apply to kind={kind}: leave out one of them");
        return Err(ApiError::invalid(ErrorCode::InvalidQuery, text, name));
    }
    if question.filters.is_empty() && question.excluded.is_empty() {
        return Ok(());
    }
    let text = format!("filters such as from: do not apply to kind={kind}: leave out one of them");
    Err(ChatError::InvalidQuery(text, "q").into())
}

/// Finds passages of files.
async fn find_files(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    query: &SearchQuery,
    limit: i64,
    asked: &VectorAnswer,
) -> Result<PassagePage, ApiError> {
    let is_any = query.match_mode == Some(find::MatchMode::Any);
    let order = find::order_of(query.order, is_any, None)?;
    let search = Search {
        question: find::parse_question(query.q.as_deref())?,
        is_any,
        ..Search::default()
    };
    if search.question.is_empty() {
        let text = "the search is empty: enter a word".to_owned();
        return Err(ChatError::InvalidQuery(text, "q").into());
    }
    let others = [("thread_id", query.thread_id.is_some())];
    reject_filters(query, &search.question, find::Kind::File, &others)?;
    if let Some(channel) = query.channel_id {
        let access = access::channel(c, caller, channel).await?;
        if access.actor.workspace != actor.workspace {
            return Err(ChatError::ChannelNotFound.into());
        }
    }
    if let Some(file) = query.file_id {
        crate::routes::files::check_visible(c, caller, actor.workspace, file).await?;
    }
    let of = match &query.vector_store_id {
        Some(named) => {
            let named = StoreRef::parse(named).ok_or_else(|| {
                let text = "`vector_store_id` is neither an ID nor `vs_HANDLE`".to_owned();
                ApiError::invalid(ErrorCode::InvalidId, text, "vector_store_id")
            })?;
            let found = collections::find_for(c, actor.into(), &named).await?;
            found.ok_or(CollectionError::NotFound)?.filter()
        }
        None => PassageFilter::default(),
    };
    if of.channel.is_some() && query.channel_id.is_some() {
        let text = "the vector store is a channel: leave out channel_id".to_owned();
        return Err(ApiError::invalid(
            ErrorCode::InvalidQuery,
            text,
            "channel_id",
        ));
    }
    let filter = PassageFilter {
        channel: of.channel.or(query.channel_id),
        file: query.file_id,
        store: of.store,
    };
    let start = PassageStart {
        cursor: query.cursor.as_deref(),
        limit,
        asked,
    };
    let mut page = passages::find::find(c, actor, &search, filter, order, start).await?;
    for hit in &mut page.data {
        if hit.message_id.is_none() && hit.vector_store_id.is_none() {
            let stores = collections::stores_of(c, actor.into(), hit.file.id).await?;
            hit.vector_store_id = stores.first().copied();
        }
    }
    Ok(page)
}

fn parse(query: &SearchQuery) -> Result<(Search, Start), ApiError> {
    let author = find::parse_author(query.author_id.as_deref())
        .map_err(|e| ApiError::invalid(ErrorCode::InvalidId, e.to_string(), "author_id"))?;
    let is_any = query.match_mode == Some(find::MatchMode::Any);
    let order = find::order_of(query.order, is_any, query.group)?;
    let search = Search {
        question: find::parse_question(query.q.as_deref())?,
        is_any,
        is_grouped: query.group.is_some(),
        channel: query.channel_id,
        thread: query.thread_id,
        author,
        kinds: query.kind.clone(),
        has: find::parse_has(query.has.as_deref())?,
        before: find::parse_before(query.before.as_deref())?,
        after: find::parse_moment(query.after.as_deref(), "after")?,
    };
    let start = Start::parse(order, query.cursor.as_deref())?;
    if search.kinds.contains(&find::Kind::Fork) {
        let others = [
            ("match", is_any),
            ("order", !matches!(start, Start::Newest { .. })),
        ];
        reject_filters(query, &search.question, find::Kind::Fork, &others)?;
    }
    if search.is_empty() {
        let text = "the search is empty: enter a word or a filter such as from:me";
        return Err(ChatError::InvalidQuery(text.to_owned(), "q").into());
    }
    Ok((search, start))
}
