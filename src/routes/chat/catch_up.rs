//! Catch-up over HTTP.

use std::time::Duration;

use axum::{Json, http::StatusCode};
use futures::FutureExt;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use super::{ScannedObject, St, WhichObject, scan_for, write_for};
use crate::{
    auth::{Caller, Scope, WorkspaceCaller},
    chat::{
        access,
        inbox::unread::{self, UnreadSummary},
    },
    db::Conn,
    http::{
        ApiError, ErrorCode,
        error::ErrorBody,
        extract::{NoFields, Path, Query},
        routing::routes,
    },
    ids::{ChannelId, ThreadId, UserId},
    realtime::hub::Conversation,
    replies::compaction::catch_up::{CatchUp, read, start},
    server::State,
    tasks::{Task, queue::tenancy},
};

/// Maximum wait for a turn.
const TURN_WITHIN: Duration = Duration::from_secs(10);

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(get_catch_up, write_catch_up))
        .routes(routes!(get_channel_catch_up))
        .routes(routes!(get_inbox_catch_up))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct CatchUpQuery {
    /// Only messages after this `seq`, or all if it is 0; by default, only messages that the caller has not read.
    since: Option<i64>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct WritingCatchUp {
    task: Task,
}

/// Get a summary of the most recent messages of a thread
///
/// The summary is written without a model. If the caller has requested a summary with `POST`, the one that the model wrote is
/// returned instead, until a message is added, edited, or deleted, but for at most 24 hours. Up to 500 messages with 1 MiB of text are
/// read, the newest ones. Forks are summarized by their resolutions. Each person can have one summary written at a time; other requests
/// wait for up to 10 seconds.
#[utoipa::path(get, path = "/v1/threads/{id}/catch-up", tag = "threads",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ThreadId, Path), CatchUpQuery), responses((status = 200, body = CatchUp),
        (status = 503, description = "Too many summaries are being written", body = ErrorBody)))]
async fn get_catch_up(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
    Query(query): Query<CatchUpQuery>,
) -> Result<Json<CatchUp>, ApiError> {
    let mut c = state.db.read().await?;
    let access = access::thread(&mut c, &caller, id).await?.reading()?;
    let workspace = access.channel_access.actor.workspace;
    let tenancy = tenancy(&mut c).await?;
    drop(c);
    state.limits.catch_up(caller.user)?;
    let turn = state.catch_ups.take_within(caller.user, TURN_WITHIN).await;
    let turn = turn.ok_or_else(ApiError::overloaded)?;
    // Reading many messages takes about as much CPU time as a call of `/v1/responses`.
    let slots = &state.responses_of_all.slots;
    let permit = slots.take(workspace, caller.user, tenancy).await?;
    let thread = ScannedObject::Conversation(Conversation::Thread(id));
    let c = scan_for(&state, &caller, thread).await?;
    let mut found = read::catch_up(c, (turn, permit), &caller, id, query.since).await?;
    if !found.lines.is_empty() {
        let mut c = scan_for(&state, &caller, thread).await?;
        read::attribute(&mut c, &mut found.lines, caller.user).await?;
    }
    Ok(Json(found))
}

/// Get what is unread in a channel: one line per thread
///
/// Reads the newest 90 days, 200 threads, and 10,000 messages. Nothing is marked as read. Each person can have one summary written at a
/// time; other requests wait for up to 10 seconds.
#[utoipa::path(get, path = "/v1/channels/{id}/catch-up", tag = "channels",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ChannelId, Path)), responses((status = 200, body = UnreadSummary),
        (status = 503, description = "Too many summaries are being written", body = ErrorBody)))]
async fn get_channel_catch_up(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ChannelId>,
) -> Result<Json<UnreadSummary>, ApiError> {
    let _turn = take_turn(&state, caller.user).await?;
    let channel = ScannedObject::Channel(id);
    let read = scan_for(&state, &caller, channel).await?.run(move |c| {
        async move {
            let access = access::channel(c, &caller, id).await?.reading()?;
            Ok::<_, ApiError>(unread::summary(c, &access.actor, Some(id)).await?)
        }
        .boxed()
    });
    Ok(Json(read.await?))
}

/// Get what is unread in the caller's channels: one line per thread
///
/// Like the catch-up of a channel.
#[utoipa::path(get, path = "/v1/inbox/catch-up", tag = "inbox",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    responses((status = 200, body = UnreadSummary),
        (status = 503, description = "Too many summaries are being written", body = ErrorBody)))]
async fn get_inbox_catch_up(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
) -> Result<Json<UnreadSummary>, ApiError> {
    let _turn = take_turn(&state, member.caller.user).await?;
    let read = state.db.scan(member.share()).await?.run(move |c| {
        async move {
            let actor = member.enter(c).await?;
            actor.require(Scope::ChatRead)?;
            Ok::<_, ApiError>(unread::summary(c, &actor, None).await?)
        }
        .boxed()
    });
    Ok(Json(read.await?))
}

/// Waits until the caller's other catch-ups have been written.
async fn take_turn(state: &State, user: UserId) -> Result<impl Send + use<>, ApiError> {
    state.limits.catch_up(user)?;
    let turn = state.catch_ups.take_within(user, TURN_WITHIN).await;
    turn.ok_or_else(ApiError::overloaded)
}

/// Have a model write the summary of a thread, for the caller only
///
/// Requires 20 or more messages. `GET` returns the result. Each person can request 20 summaries per hour. If a task for the same
/// messages is active, that task is returned.
#[utoipa::path(post, path = "/v1/threads/{id}/catch-up", tag = "threads",
    security(("session" = ["member"]), ("key" = ["chat:read", "agents:use"])),
    params(("id" = ThreadId, Path), CatchUpQuery),
    responses((status = 202, body = WritingCatchUp, description = "The task is queued")))]
async fn write_catch_up(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
    Query(query): Query<CatchUpQuery>,
    _: NoFields,
) -> Result<(StatusCode, Json<WritingCatchUp>), ApiError> {
    let mut c = state.db.read().await?;
    let access = start::enter(&mut c, &caller, id).await?;
    let workspace = access.channel_access.actor.workspace;
    drop(c);
    if state.providers.of(workspace).await?.is_offline() {
        let text = "this workspace has no language model: use GET for a summary without one";
        return Err(ApiError::unprocessable(ErrorCode::NoModel, text.to_owned()));
    }
    state.limits.write_catch_up(caller.user)?;
    let thread = ScannedObject::Conversation(Conversation::Thread(id));
    let mut c = scan_for(&state, &caller, thread).await?;
    let options = start::plan(&mut c, &caller, id, query.since).await?;
    drop(c);
    let start = async move |c: &mut Conn| start::start(c, &caller, id, options).await;
    let task = write_for(&state, WhichObject::Thread(id), start).await?;
    Ok((StatusCode::ACCEPTED, Json(WritingCatchUp { task })))
}
