//! HTTP routes for compaction.

use axum::{Json, http::StatusCode};
use futures::FutureExt;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use super::{ScannedObject, St, WhichObject, scan_for, write_for};
use crate::{
    agents::segments::CompactionState,
    auth::Caller,
    chat::access,
    db::Conn,
    http::{
        ApiError, ErrorCode,
        extract::{Body, NoFields, Path},
        page::List,
        routing::routes,
    },
    ids::{CompactionId, ForkId, ThreadId},
    realtime::hub::Conversation,
    replies::compaction::{
        profile::CompactionSettings,
        record::{
            self, CompactionError, CompactionObject, CompactionRecord, LISTED_MAX, ManualPass,
            SentWindow,
        },
        store,
    },
    server::State,
    tasks::Task,
};

const KEEP_DEFAULT: i64 = 10;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_thread_compactions, compact_thread))
        .routes(routes!(list_fork_compactions, compact_fork))
        .routes(routes!(get_compaction, delete_compaction))
        .routes(routes!(expand_compaction))
        .routes(routes!(collapse_compaction))
        .routes(routes!(redo_compaction))
}

#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct CompactForm {
    /// Number of most recent messages that are not compacted: 10 to 50; 10 by default.
    keep: Option<i64>,
    /// Maximum size of the sentences of each segment, in tokens: 200 to 2,000; 450 by default.
    max_tokens: Option<u64>,
}

impl CompactForm {
    fn parse(&self) -> Result<ManualPass, ApiError> {
        let invalid =
            |text: &str, param| ApiError::invalid(ErrorCode::InvalidValue, text.to_owned(), param);
        let keep = self.keep.unwrap_or(KEEP_DEFAULT);
        if !(10..=50).contains(&keep) {
            return Err(invalid("keep must be a number from 10 to 50", "keep"));
        }
        if self
            .max_tokens
            .is_some_and(|tokens| !(200..=2_000).contains(&tokens))
        {
            return Err(invalid(
                "max_tokens must be a number from 200 to 2000",
                "max_tokens",
            ));
        }
        Ok(ManualPass {
            keep,
            max_tokens: self.max_tokens,
        })
    }
}

#[derive(Serialize, utoipa::ToSchema)]
struct Compacting {
    task: Task,
}

#[derive(Serialize, utoipa::ToSchema)]
struct CompactionList {
    #[serde(flatten)]
    list: List<CompactionRecord>,
    /// Messages that agents receive; null if they receive all messages.
    window: Option<SentWindow>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct DeletedCompaction {
    id: CompactionId,
    #[schema(inline)]
    object: CompactionObject,
    deleted: bool,
}

async fn list(
    state: &State,
    caller: Caller,
    conversation: Conversation,
) -> Result<Json<CompactionList>, ApiError> {
    let settings = CompactionSettings::of(&state.config);
    let object = ScannedObject::Conversation(conversation);
    let read = scan_for(state, &caller, object).await?.run(move |c| {
        async move {
            let access = access::find_conversation(c, &caller, conversation).await?;
            let access = access.reading()?;
            let window = record::window(c, &access, conversation, settings).await?;
            let segments = store::list(c, conversation.id(), LISTED_MAX).await?;
            Ok::<_, ApiError>((record::records(c, segments).await?, window))
        }
        .boxed()
    });
    let (records, window) = read.await?;
    let list = List::new(records, LISTED_MAX, false, |record: &CompactionRecord| {
        record.id.to_string()
    });
    Ok(Json(CompactionList { list, window }))
}

/// # Errors
/// `CompactionError` if the operator has turned compaction off.
fn require_on(state: &State) -> Result<(), CompactionError> {
    if state.config.compaction {
        Ok(())
    } else {
        Err(CompactionError::Off)
    }
}

async fn compact(
    state: &State,
    caller: Caller,
    conversation: Conversation,
    form: &CompactForm,
) -> Result<(StatusCode, Json<Compacting>), ApiError> {
    let wish = form.parse()?;
    require_on(state)?;
    let start = async move |c: &mut Conn| record::start(c, &caller, conversation, wish).await;
    let task = write_for(state, conversation.into(), start).await?;
    Ok((StatusCode::ACCEPTED, Json(Compacting { task })))
}

/// List the records of compacted messages of a thread, in creation order
#[utoipa::path(get, path = "/v1/threads/{id}/compactions", tag = "threads",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ThreadId, Path)), responses((status = 200, body = CompactionList)))]
async fn list_thread_compactions(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
) -> Result<Json<CompactionList>, ApiError> {
    list(&state, caller, Conversation::Thread(id)).await
}

/// List the records of compacted messages of a fork, in creation order
#[utoipa::path(get, path = "/v1/forks/{id}/compactions", tag = "forks",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ForkId, Path)), responses((status = 200, body = CompactionList)))]
async fn list_fork_compactions(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
) -> Result<Json<CompactionList>, ApiError> {
    list(&state, caller, Conversation::Fork(id)).await
}

/// Summarize the older messages of a thread for agents
#[utoipa::path(post, path = "/v1/threads/{id}/compactions", tag = "threads",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ThreadId, Path)),
    request_body(content = Option<CompactForm>, example = json!({"keep": 10})),
    responses((status = 202, body = Compacting, description = "The task is queued")))]
async fn compact_thread(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
    Body(form): Body<CompactForm>,
) -> Result<(StatusCode, Json<Compacting>), ApiError> {
    compact(&state, caller, Conversation::Thread(id), &form).await
}

/// Summarize the older messages of a fork for agents
#[utoipa::path(post, path = "/v1/forks/{id}/compactions", tag = "forks",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ForkId, Path)),
    request_body(content = Option<CompactForm>, example = json!({"keep": 10})),
    responses((status = 202, body = Compacting, description = "The task is queued")))]
async fn compact_fork(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
    Body(form): Body<CompactForm>,
) -> Result<(StatusCode, Json<Compacting>), ApiError> {
    compact(&state, caller, Conversation::Fork(id), &form).await
}

/// Get a record of compacted messages
#[utoipa::path(get, path = "/v1/compactions/{id}", tag = "threads",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = CompactionId, Path)), responses((status = 200, body = CompactionRecord)))]
async fn get_compaction(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<CompactionId>,
) -> Result<Json<CompactionRecord>, ApiError> {
    let mut c = scan_for(&state, &caller, ScannedObject::Compaction(id)).await?;
    Ok(Json(record::get(&mut c, &caller, id).await?))
}

/// Send agents the messages instead of their summary, as many as fit
#[utoipa::path(post, path = "/v1/compactions/{id}/expand", tag = "threads",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = CompactionId, Path)), responses((status = 200, body = CompactionRecord)))]
async fn expand_compaction(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<CompactionId>,
    _: NoFields,
) -> Result<Json<CompactionRecord>, ApiError> {
    let expand = async move |c: &mut Conn| {
        record::set_expanded(c, &caller, id, CompactionState::Expanded).await
    };
    Ok(Json(
        write_for(&state, WhichObject::Compaction(id), expand).await?,
    ))
}

/// Send agents the summary again instead of the messages
#[utoipa::path(post, path = "/v1/compactions/{id}/collapse", tag = "threads",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = CompactionId, Path)), responses((status = 200, body = CompactionRecord)))]
async fn collapse_compaction(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<CompactionId>,
    _: NoFields,
) -> Result<Json<CompactionRecord>, ApiError> {
    let collapse = async move |c: &mut Conn| {
        record::set_expanded(c, &caller, id, CompactionState::Active).await
    };
    Ok(Json(
        write_for(&state, WhichObject::Compaction(id), collapse).await?,
    ))
}

/// Redo a summary
#[utoipa::path(post, path = "/v1/compactions/{id}/redo", tag = "threads",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = CompactionId, Path)),
    responses((status = 202, body = Compacting, description = "The task is queued")))]
async fn redo_compaction(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<CompactionId>,
    _: NoFields,
) -> Result<(StatusCode, Json<Compacting>), ApiError> {
    require_on(&state)?;
    let redo = async move |c: &mut Conn| record::redo(c, &caller, id).await;
    let task = write_for(&state, WhichObject::Compaction(id), redo).await?;
    Ok((StatusCode::ACCEPTED, Json(Compacting { task })))
}

/// Delete a record of compacted messages, with the sentences made from it
///
/// Its messages are compacted again by the next pass. Deleting someone else's record requires the admin role.
#[utoipa::path(delete, path = "/v1/compactions/{id}", tag = "threads",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = CompactionId, Path)), responses((status = 200, body = DeletedCompaction)))]
async fn delete_compaction(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<CompactionId>,
) -> Result<Json<DeletedCompaction>, ApiError> {
    let delete = async move |c: &mut Conn| record::delete(c, &caller, id).await;
    write_for(&state, WhichObject::Compaction(id), delete).await?;
    if let Err(e) = state.db.scrub().await {
        tracing::warn!(error = %e, "deleted texts may remain in the write-ahead log until the next checkpoint");
    }
    Ok(Json(DeletedCompaction {
        id,
        object: CompactionObject,
        deleted: true,
    }))
}
