//! HTTP routes for the reply styles of a workspace.

use axum::{http::StatusCode, response::Response};
use utoipa_axum::router::OpenApiRouter;

use super::{St, tagged};
use crate::{
    agents::{
        AgentError,
        prompt_profiles::{self, PromptProfiles, PromptProfilesForm},
    },
    auth::{Scope, WorkspaceCaller},
    chat::presets,
    http::{
        ApiError,
        extract::{Body, IfMatch},
        routing::routes,
    },
    server::State,
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(get_prompt_profiles, put_prompt_profiles))
}

/// Get the reply styles of the workspace: add-ons, presets, and the rules that choose a preset
#[utoipa::path(get, path = "/v1/prompt-profiles", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    responses((status = 200, body = PromptProfiles)))]
async fn get_prompt_profiles(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::AgentsRead)?;
    let profiles = prompt_profiles::find_prompt_profiles(&mut c, actor.workspace).await?;
    Ok(tagged(StatusCode::OK, profiles.version, &profiles))
}

/// Replace the reply styles of the workspace
///
/// A preset that no longer exists is removed from the agents and conversations that used it.
#[utoipa::path(put, path = "/v1/prompt-profiles", tag = "agents",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = PromptProfilesForm,
        example = json!({"addons": [{"id": "concise", "text": "Answer in three sentences at most."}],
            "presets": [{"id": "concise", "name": "Brief", "description": "The answer first.", "addons": ["concise"]}],
            "routing": {"review_every_n_turns": 6, "force_review_on_compaction": true, "default_preset_by_mode": {"direct": "concise"}},
            "rules": [{"keywords": ["in short"], "min_length": null, "max_length": 400, "preset": "concise", "priority": 100}]})),
    responses((status = 200, body = PromptProfiles)))]
async fn put_prompt_profiles(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    IfMatch(expected): IfMatch,
    Body(form): Body<PromptProfilesForm>,
) -> Result<Response, ApiError> {
    let profiles = member
        .write(&state.db, async move |c, actor| {
            let form = form.clone();
            let changed = prompt_profiles::put_prompt_profiles(c, actor, form, expected).await?;
            presets::forget(c, actor.workspace, &changed.deleted).await?;
            Ok::<_, AgentError>(changed.profiles)
        })
        .await?;
    Ok(tagged(StatusCode::OK, profiles.version, &profiles))
}
