//! HTTP routes for the reply styles in conversations.

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use super::{St, write_for};
use crate::{
    auth::Caller,
    chat::presets::{self, ConversationPreset},
    db::Conn,
    http::{
        ApiError,
        extract::{Body, Path, Query},
        routing::routes,
    },
    ids::{AgentId, ForkId, ThreadId},
    realtime::hub::Conversation,
    server::State,
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(choose_in_thread, reset_in_thread))
        .routes(routes!(choose_in_fork, reset_in_fork))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct PresetForm {
    agent_id: AgentId,
    /// ID of a preset of the workspace.
    preset: String,
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PresetQuery {
    agent_id: AgentId,
}

/// Presets of a conversation after they were changed.
#[derive(Serialize, utoipa::ToSchema)]
struct Presets {
    presets: Vec<ConversationPreset>,
}

async fn choose(
    state: &State,
    caller: Caller,
    conversation: Conversation,
    agent: AgentId,
    preset: Option<String>,
) -> Result<Json<Presets>, ApiError> {
    let choose = async move |c: &mut Conn| {
        presets::choose(c, &caller, conversation, agent, preset.as_deref()).await
    };
    let presets = write_for(state, conversation.into(), choose).await?;
    Ok(Json(Presets { presets }))
}

/// Choose the reply style of an agent in a thread
#[utoipa::path(put, path = "/v1/threads/{id}/preset", tag = "threads",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ThreadId, Path)),
    request_body(content = PresetForm,
        example = json!({"agent_id": "agent_01k5t3h8xze4bs4p8v2m9qwd7a", "preset": "concise"})),
    responses((status = 200, body = Presets)))]
async fn choose_in_thread(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
    Body(form): Body<PresetForm>,
) -> Result<Json<Presets>, ApiError> {
    let conversation = Conversation::Thread(id);
    choose(
        &state,
        caller,
        conversation,
        form.agent_id,
        Some(form.preset),
    )
    .await
}

/// Choose the reply style of an agent in a fork
#[utoipa::path(put, path = "/v1/forks/{id}/preset", tag = "forks",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ForkId, Path)),
    request_body(content = PresetForm,
        example = json!({"agent_id": "agent_01k5t3h8xze4bs4p8v2m9qwd7a", "preset": "concise"})),
    responses((status = 200, body = Presets)))]
async fn choose_in_fork(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
    Body(form): Body<PresetForm>,
) -> Result<Json<Presets>, ApiError> {
    let conversation = Conversation::Fork(id);
    choose(
        &state,
        caller,
        conversation,
        form.agent_id,
        Some(form.preset),
    )
    .await
}

/// Remove the chosen reply style in a thread, so that it depends on the agent, the rules, and the defaults
#[utoipa::path(delete, path = "/v1/threads/{id}/preset", tag = "threads",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ThreadId, Path), PresetQuery),
    responses((status = 200, body = Presets)))]
async fn reset_in_thread(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ThreadId>,
    Query(query): Query<PresetQuery>,
) -> Result<Json<Presets>, ApiError> {
    let conversation = Conversation::Thread(id);
    choose(&state, caller, conversation, query.agent_id, None).await
}

/// Remove the chosen reply style in a fork, so that it depends on the agent, the rules, and the defaults
#[utoipa::path(delete, path = "/v1/forks/{id}/preset", tag = "forks",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ForkId, Path), PresetQuery),
    responses((status = 200, body = Presets)))]
async fn reset_in_fork(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ForkId>,
    Query(query): Query<PresetQuery>,
) -> Result<Json<Presets>, ApiError> {
    let conversation = Conversation::Fork(id);
    choose(&state, caller, conversation, query.agent_id, None).await
}
