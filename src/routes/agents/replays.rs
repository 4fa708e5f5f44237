//! HTTP routes for replays: recent replies of an agent, written again with a draft.

use axum::{
    Extension, Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use super::{AgentRef, St};
use crate::{
    agents::profiles::{AgentPatch, TrialProfile},
    auth::{Caller, Scope},
    http::{
        ApiError, ErrorCode,
        extract::{Body, Path, Query},
        routing::routes,
        unsent::ReadOnly,
    },
    ids::{TaskId, WorkspaceId},
    replies::replay::{
        ReplayEstimate, Replayer,
        read::{self, Replay},
        start::{self, CASES_MAX, NewReplay},
    },
    routes::chat::reader_of,
    server::State,
    tasks::{Task, costs},
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(start_replay))
        .routes(routes!(get_replay))
}

/// Fields of `POST /v1/agents/{id}/replays`; requires either `draft` or `version`.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ReplayForm {
    /// Unsaved changes, as for `PATCH /v1/agents/{id}`.
    #[serde(default)]
    draft: Option<AgentPatch>,
    /// A stored version of the agent.
    #[serde(default)]
    version: Option<i64>,
    /// Maximum number of replies, 1 to 20; 20 by default.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 20)]
    count: Option<i64>,
}

impl ReplayForm {
    /// # Errors
    /// 422 if neither or both of `draft` and `version` are set, or if `count` is out of range.
    fn into_new(self) -> Result<NewReplay, ApiError> {
        let invalid = |text: &str, param: &str| {
            ApiError::unprocessable(ErrorCode::InvalidValue, text.to_owned()).param(param)
        };
        let trial = match (self.draft, self.version) {
            (Some(draft), None) => TrialProfile::Draft(draft),
            (None, Some(version)) => TrialProfile::Version(version),
            _ => return Err(invalid("either `draft` or `version` is required", "draft")),
        };
        let count = self.count.unwrap_or(CASES_MAX);
        if !(1..=CASES_MAX).contains(&count) {
            return Err(invalid("the count must be 1 to 20", "count"));
        }
        Ok(NewReplay { trial, count })
    }
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ReplayQuery {
    /// `true` returns the estimated usage without starting the replay.
    #[serde(default)]
    estimate: bool,
}

#[derive(Serialize, utoipa::ToSchema)]
struct StartedReplay {
    /// Root task of the replay; `GET /v1/tasks/{id}/replay` returns its cases.
    task: Task,
}

/// # Errors
/// `no_model` if the workspace has no language model.
async fn replayer_of(state: &State, workspace: WorkspaceId) -> Result<Replayer, ApiError> {
    let provider = state.providers.of(workspace).await?;
    if provider.is_offline() {
        let text = "this workspace has no language model: connect one first";
        return Err(ApiError::unprocessable(ErrorCode::NoModel, text.to_owned()));
    }
    Ok(Replayer {
        db: state.db.clone(),
        provider,
        calls: state.calls.clone(),
        tools: state.tools.clone(),
        delays: state.config.retry_delays.clone(),
        task_timeout: state.config.task_timeout,
        attempt_max: state.config.attempt_max,
    })
}

async fn estimate(
    state: &State,
    named: &AgentRef,
    new: &NewReplay,
) -> Result<ReplayEstimate, ApiError> {
    let mut c = state.db.scan(named.member.share()).await?;
    let actor = named.enter(&mut c).await?;
    let (agent, cases) = start::plan(&mut c, &actor, &named.reference, new).await?;
    let shows_costs = costs::are_visible(&mut c, actor.workspace, reader_of(&actor)).await?;
    drop(c);
    let replayer = replayer_of(state, actor.workspace).await?;
    let estimate = replayer.estimate(&cases, &agent, actor.user).await?;
    Ok(ReplayEstimate {
        cost_usd_max: estimate.cost_usd_max.filter(|_| shows_costs),
        ..estimate
    })
}

/// Rewrite the most recent replies of an agent with a draft, for the caller only
///
/// Covers the most recent completed replies in conversations that the caller can read. Nothing is posted, no tools run, and the
/// caller's budgets apply. Each person can run one replay per agent at a time.
#[utoipa::path(post, path = "/v1/agents/{id}/replays", tag = "agents",
    security(("session" = ["member"]), ("key" = ["agents:write"])),
    params(("id" = inline(AgentRef), Path), ReplayQuery),
    request_body(content = ReplayForm, example = json!({"draft": {"temperature": 0.2}, "count": 5})),
    responses((status = 202, body = StartedReplay, description = "The replay is queued"),
        (status = 200, body = ReplayEstimate, description = "With `estimate=true`")))]
async fn start_replay(
    axum::extract::State(state): St,
    named: AgentRef,
    Query(query): Query<ReplayQuery>,
    Body(form): Body<ReplayForm>,
) -> Result<Response, ApiError> {
    let new = form.into_new()?;
    if query.estimate {
        let estimate = estimate(&state, &named, &new).await?;
        return Ok((Extension(ReadOnly), Json(estimate)).into_response());
    }
    let workspace = {
        let mut c = state.db.read().await?;
        let actor = named.enter(&mut c).await?;
        actor.require(Scope::AgentsWrite)?;
        actor.workspace
    };
    replayer_of(&state, workspace).await?;
    let chosen = {
        let mut c = state.db.scan(named.member.share()).await?;
        let actor = named.enter(&mut c).await?;
        start::choose(&mut c, &actor, &named.reference, &new).await?
    };
    let task = named
        .write(&state.db, async move |c, actor, reference| {
            start::start(c, actor, reference, &new, chosen.as_slice()).await
        })
        .await?;
    Ok((StatusCode::ACCEPTED, Json(StartedReplay { task })).into_response())
}

/// Get the cases of a replay, which are kept for 7 days
///
/// Only the person who started the replay can get it. Replies in conversations that the caller can no longer read are listed as
/// skipped.
#[utoipa::path(get, path = "/v1/tasks/{id}/replay", tag = "tasks",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = TaskId, Path)), responses((status = 200, body = Replay)))]
async fn get_replay(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<TaskId>,
) -> Result<Json<Replay>, ApiError> {
    let workspace = read::own_replay(&mut state.db.read().await?, &caller, id).await?;
    let mut c = state.db.scan(caller.share(workspace)).await?;
    Ok(Json(read::get_replay(&mut c, &caller, id).await?))
}
