//! HTTP routes for the caller's own adaptation states. Nobody can read another person's states, not even an admin.

use axum::{Json, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use super::{AgentRef, St};
use crate::{
    agents::AgentError,
    auth::{AuthError, WorkspaceCaller},
    http::{
        ApiError, ErrorCode,
        extract::{Body, Query},
        page::{Limit, List},
        routing::routes,
    },
    ids::{ForkId, ThreadId},
    realtime::hub::Conversation,
    replies::adaptation::{
        AdaptationError,
        own::{self, ReflectRequest},
        state::AdaptationState,
    },
    server::State,
    tasks::Task,
};

const STATES_PAGE: i64 = 100;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(get_state, delete_state))
        .routes(routes!(reflect))
        .routes(routes!(list_states, delete_states))
}

/// Reports an agent of another workspace as absent.
fn hide(error: AdaptationError) -> AdaptationError {
    match error {
        AdaptationError::Auth(AuthError::WorkspaceNotFound) => AgentError::NotFound.into(),
        other => other,
    }
}

/// # Errors
/// 400 unless exactly one of `thread` and `fork` is given.
fn conversation(thread: Option<ThreadId>, fork: Option<ForkId>) -> Result<Conversation, ApiError> {
    match (thread, fork) {
        (Some(thread), None) => Ok(Conversation::Thread(thread)),
        (None, Some(fork)) => Ok(Conversation::Fork(fork)),
        _ => {
            let text = "specify exactly one of thread_id and fork_id".to_owned();
            Err(ApiError::invalid(ErrorCode::OnePlace, text, "thread_id"))
        }
    }
}

async fn scrub(state: &State) {
    if let Err(e) = state.db.scrub().await {
        tracing::warn!(error = %e, "deleted scores may remain in the write-ahead log until the next checkpoint");
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct StateQuery {
    /// Thread whose main line the state belongs to; exactly one of `thread_id` and `fork_id` is required.
    thread_id: Option<ThreadId>,
    /// Fork that the state belongs to; exactly one of `thread_id` and `fork_id` is required.
    fork_id: Option<ForkId>,
}

/// Get your adaptation state with an agent in a conversation
///
/// Returns a neutral state if none is stored. A state is deleted 30 days after your last message to the agent in that conversation.
#[utoipa::path(get, path = "/v1/agents/{id}/state", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = inline(AgentRef), Path), StateQuery),
    responses((status = 200, body = AdaptationState)))]
async fn get_state(
    axum::extract::State(state): St,
    named: AgentRef,
    Query(query): Query<StateQuery>,
) -> Result<Json<AdaptationState>, ApiError> {
    let conversation = conversation(query.thread_id, query.fork_id)?;
    let mut c = state.db.snapshot().await?;
    let actor = named.enter(&mut c).await?;
    let (caller, reference) = (&named.member.caller, &named.reference);
    let found = own::get(&mut c, caller, &actor, reference, conversation).await?;
    Ok(Json(found))
}

/// Response of `DELETE /v1/agents/{id}/state`.
#[derive(Serialize, utoipa::ToSchema)]
struct DeletedState {
    /// Always true.
    deleted: bool,
}

/// Delete your adaptation state with an agent in a conversation
#[utoipa::path(delete, path = "/v1/agents/{id}/state", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["chat:write"])),
    params(("id" = inline(AgentRef), Path), StateQuery),
    responses((status = 200, body = DeletedState)))]
async fn delete_state(
    axum::extract::State(state): St,
    named: AgentRef,
    Query(query): Query<StateQuery>,
) -> Result<Json<DeletedState>, ApiError> {
    let conversation = conversation(query.thread_id, query.fork_id)?;
    let AgentRef { member, reference } = named;
    let caller = member.caller.clone();
    member
        .write(&state.db, async move |c, actor| {
            own::delete(c, &caller, actor, &reference, conversation).await
        })
        .await
        .map_err(hide)?;
    scrub(&state).await;
    Ok(Json(DeletedState { deleted: true }))
}

/// Fields of `POST /v1/agents/{id}/reflect`.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ReflectForm {
    /// Thread whose main line the state belongs to; exactly one of `thread_id` and `fork_id` is required.
    #[serde(default)]
    thread_id: Option<ThreadId>,
    /// Fork that the state belongs to; exactly one of `thread_id` and `fork_id` is required.
    #[serde(default)]
    fork_id: Option<ForkId>,
    /// ID of one of the agent's metaprompts with the trigger `manual`.
    metaprompt_id: String,
}

/// The task that runs the reflection; visible only to you.
#[derive(Serialize, utoipa::ToSchema)]
struct Reflecting {
    task: Task,
}

/// Start a reflection on your adaptation state in a conversation
///
/// Requires `adaptation_allowed` in the policy, `reflection` in the agent's profile, and `adapt` in your memory settings. If the same
/// reflection is already queued or running, its task is returned.
#[utoipa::path(post, path = "/v1/agents/{id}/reflect", tag = "agents",
    security(("session" = ["member"]), ("key" = ["chat:write", "agents:use"])),
    params(("id" = inline(AgentRef), Path)),
    request_body(content = ReflectForm,
        example = json!({"thread_id": "thread_01k5t3h8xze4bs4p8v2m9qwd7a", "metaprompt_id": "check-in"})),
    responses((status = 202, body = Reflecting, description = "The task is queued")))]
async fn reflect(
    axum::extract::State(state): St,
    named: AgentRef,
    Body(form): Body<ReflectForm>,
) -> Result<(StatusCode, Json<Reflecting>), ApiError> {
    let conversation = conversation(form.thread_id, form.fork_id)?;
    let provider = state.providers.of(named.member.workspace).await?;
    let AgentRef { member, reference } = named;
    let caller = member.caller.clone();
    let request = ReflectRequest {
        agent: reference,
        conversation,
        metaprompt: form.metaprompt_id,
        has_model: !provider.is_offline(),
    };
    let task = member
        .write(&state.db, async move |c, actor| {
            own::reflect(c, &caller, actor, &request).await
        })
        .await
        .map_err(hide)?;
    Ok((StatusCode::ACCEPTED, Json(Reflecting { task })))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct StatesQuery {
    /// 1 to 100; 100 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// List your adaptation states, newest conversation first
///
/// Returns only your own states, including those in conversations that you can no longer read.
#[utoipa::path(get, path = "/v1/adaptation", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(StatesQuery), responses((status = 200, body = List<AdaptationState>)))]
async fn list_states(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<StatesQuery>,
) -> Result<Json<List<AdaptationState>>, ApiError> {
    let limit = Limit::or(query.limit, STATES_PAGE);
    let before = own::parse_cursor(query.cursor.as_deref())?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    let (states, next_cursor) = own::list(&mut c, &actor, before, limit).await?;
    let mut list = List::new(states, limit, false, |state: &AdaptationState| {
        state.agent_id.to_string()
    });
    // States have no IDs of their own.
    (list.first_id, list.last_id) = (None, None);
    Ok(Json(list.continued_at(next_cursor)))
}

/// Number of states that were deleted.
#[derive(Serialize, utoipa::ToSchema)]
struct DeletedStates {
    deleted: u64,
}

/// Delete all of your adaptation states in the workspace
#[utoipa::path(delete, path = "/v1/adaptation", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["chat:write"])),
    responses((status = 200, body = DeletedStates)))]
async fn delete_states(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
) -> Result<Json<DeletedStates>, ApiError> {
    let deleted = member
        .write(&state.db, async move |c, actor| {
            own::delete_all(c, actor).await
        })
        .await?;
    scrub(&state).await;
    Ok(Json(DeletedStates { deleted }))
}
