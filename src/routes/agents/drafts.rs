//! HTTP route that drafts an agent from a description.

use axum::Json;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;

use super::{St, no_answer, utility_of};
use crate::{
    auth::{Scope, WorkspaceCaller},
    http::{ApiError, ErrorCode, extract::Body, routing::routes},
    replies::agent_draft::{self, DraftedAgent},
    responses::ResponseError,
    server::State,
    tasks::queue::tenancy,
};

const DESCRIPTION_UNITS_MAX: usize = 2000;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(draft_agent))
}

/// Fields of `POST /v1/agents/draft`.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct AgentDraftForm {
    /// Purpose of the agent in 1 to 2,000 characters.
    description: String,
}

/// Draft an agent from a description; stores nothing
///
/// The draft can be sent to `POST /v1/agents` unchanged. Each person can draft 10 agents per hour.
#[utoipa::path(post, path = "/v1/agents/draft", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    request_body(content = AgentDraftForm,
        example = json!({"description": "Drafts release notes from a list of changes, friendly and short"})),
    responses((status = 200, body = DraftedAgent)))]
async fn draft_agent(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<AgentDraftForm>,
) -> Result<Json<DraftedAgent>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::AgentsWrite)?;
    let user = actor.user;
    let tenancy = tenancy(&mut c).await?;
    drop(c);
    let description = form.description.trim();
    if !(1..=DESCRIPTION_UNITS_MAX).contains(&description.encode_utf16().count()) {
        let text = format!(
            "the description must have 1 to {DESCRIPTION_UNITS_MAX} characters: describe what the agent should do"
        );
        return Err(ApiError::unprocessable(ErrorCode::InvalidValue, text).param("description"));
    }
    let utility = utility_of(&state, member.workspace, "fill in the fields yourself").await?;
    // The request waits for the model, so it counts as one of the concurrent calls of `/v1/responses`.
    let slots = &state.responses_of_all.slots;
    let _permit = slots.take(member.workspace, user, tenancy).await?;
    state.limits.draft_agent(user)?;
    let drafted = agent_draft::draft_agent(&utility, member.workspace, user, description).await?;
    let drafted = drafted.map_err(ResponseError::OverBudget)?.ok_or_else(|| {
        no_answer(
            "the model did not draft a usable agent: try again, or fill in the fields yourself",
        )
    })?;
    Ok(Json(drafted))
}
