//! HTTP routes for runs of workflows.

use std::sync::Arc;

use axum::{Json, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use super::{
    St,
    workflows::{hide, member_of},
};
use crate::{
    auth::{Actor, AuthError, Caller, Scope, WorkspaceCaller},
    chat::post::parse_client_id,
    cursor,
    db::{Conn, DbError},
    http::{
        ApiError, ErrorCode,
        extract::{Body, NoFields, Path, Query},
        page::{Limit, List},
        routing::routes,
    },
    ids::{ChannelId, RunId, ThreadId, WorkflowId},
    routes::chat::brief_reader_of,
    runs::{self, RunWish, RunsError},
    server::State,
    tasks::Task,
    tools::briefs,
    workflows::{
        WorkflowError,
        run::{self, RunFilter, RunStatus, WorkflowRun},
    },
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(start_run))
        .routes(routes!(list_runs))
        .routes(routes!(get_run))
        .routes(routes!(cancel_run))
        .routes(routes!(resume_run))
}

#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct RunForm {
    /// Value of `{{input}}` in the texts of steps; at most 8 KiB.
    #[serde(default)]
    input: String,
    /// Thread in which the run posts.
    #[serde(default)]
    thread_id: Option<ThreadId>,
    /// Channel in which the first message of the run starts a thread.
    #[serde(default)]
    channel_id: Option<ChannelId>,
    /// ID chosen by the client. A request that repeats an ID returns the first run.
    #[serde(default)]
    client_id: Option<String>,
}

/// A run that was started, and its root task.
#[derive(Serialize, utoipa::ToSchema)]
struct StartedRun {
    run: WorkflowRun,
    task: Task,
}

/// Start a run of a workflow for yourself
#[utoipa::path(post, path = "/v1/workflows/{id}/runs", tag = "workflows",
    security(("session" = ["member"]), ("key" = ["agents:use", "chat:write"])),
    params(("id" = WorkflowId, Path)),
    request_body(content = Option<RunForm>, example = json!({"input": "the new member"})),
    responses((status = 202, body = StartedRun), (status = 200, body = StartedRun, description = "Resend: the first run")))]
async fn start_run(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkflowId>,
    Body(form): Body<RunForm>,
) -> Result<(StatusCode, Json<StartedRun>), ApiError> {
    let wish = RunWish {
        input: form.input,
        thread: form.thread_id,
        channel: form.channel_id,
        client_id: parse_client_id(form.client_id)?,
    };
    let member = member_of(&mut state.db.read().await?, caller.clone(), id).await?;
    let started = member
        .write(&state.db, async move |c, actor| {
            runs::start_by_person(c, &caller, actor, id, &wish).await
        })
        .await
        .map_err(|e| match e {
            RunsError::Auth(e) => RunsError::Workflow(hide(e.into())),
            other => other,
        })?;
    let runs::ManualRun { run, task, is_new } = started;
    let status = if is_new {
        StatusCode::ACCEPTED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(StartedRun { run, task })))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct RunsQuery {
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// Only runs of this workflow.
    workflow_id: Option<WorkflowId>,
    /// Only runs with this status.
    #[param(inline)]
    status: Option<RunStatus>,
    /// `next_cursor` from the previous page.
    cursor: Option<String>,
}

/// Cursor kind of the list of runs.
const CURSOR: &str = "runs";

/// # Errors
/// 400 for a cursor of another list.
fn parse_cursor(text: &str) -> Result<RunId, ApiError> {
    cursor::read_id(CURSOR, text).map(RunId).ok_or_else(|| {
        let text =
            "the cursor does not belong to a list of runs: use `next_cursor` of the previous page"
                .to_owned();
        ApiError::invalid(ErrorCode::InvalidCursor, text, "cursor")
    })
}

/// List the runs that you can see, newest first
///
/// Includes runs in channels that you can read. Runs without a channel are visible to their requester, the workflow's owner, and
/// admins.
#[utoipa::path(get, path = "/v1/runs", tag = "workflows",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(RunsQuery), responses((status = 200, body = List<WorkflowRun>)))]
async fn list_runs(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<RunsQuery>,
) -> Result<Json<List<WorkflowRun>>, ApiError> {
    let limit = Limit::or(query.limit, 20);
    let before = query.cursor.as_deref().map(parse_cursor).transpose()?;
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::ChatRead)?;
    if let Some(workflow) = query.workflow_id {
        let found = crate::workflows::find_workflow(&mut c, actor.workspace, workflow).await?;
        found.ok_or(WorkflowError::NotFound)?;
    }
    let filter = RunFilter {
        workflow: query.workflow_id,
        status: query.status,
    };
    let reader = runs::reader_of(&actor);
    let rows = run::list_runs(&mut c, actor.workspace, reader, &filter, before, limit + 1).await?;
    let last = rows.get(usize::try_from(limit - 1).unwrap_or_default());
    let next = last.map(|run| cursor::write_id(CURSOR, run.id.0));
    let mut shown = Vec::with_capacity(rows.len());
    for run in rows {
        shown.push(seen_by(&mut c, &actor, run).await?);
    }
    let list = List::new(shown, limit, false, |run: &WorkflowRun| run.id.to_string());
    let next = next.filter(|_| list.has_more);
    Ok(Json(list.continued_at(next)))
}

/// Get a run
#[utoipa::path(get, path = "/v1/runs/{id}", tag = "workflows",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = RunId, Path)), responses((status = 200, body = WorkflowRun)))]
async fn get_run(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<RunId>,
) -> Result<Json<WorkflowRun>, ApiError> {
    let mut c = state.db.read().await?;
    Ok(Json(visible(&mut c, &caller, id, Scope::ChatRead).await?))
}

/// # Errors
/// `RunNotFound`, or any error from `Actor::require`.
async fn visible(
    c: &mut Conn,
    caller: &Caller,
    id: RunId,
    scope: Scope,
) -> Result<WorkflowRun, WorkflowError> {
    let workspace = run::workspace_of_run(c, id).await?;
    let workspace = workspace.ok_or(WorkflowError::RunNotFound)?;
    let actor = caller.enter(c, workspace).await.map_err(|e| match e {
        AuthError::WorkspaceNotFound => WorkflowError::RunNotFound,
        other => other.into(),
    })?;
    let found = run::find_visible_run(c, id, runs::reader_of(&actor)).await?;
    let found = found.ok_or(WorkflowError::RunNotFound)?;
    actor.require(scope)?;
    Ok(seen_by(c, &actor, found).await?)
}

/// Returns the run without messages from channels that the actor cannot read, and without agents' answers if the actor is not allowed
/// to see their tool results.
async fn seen_by(
    c: &mut Conn,
    actor: &Actor<'_>,
    mut run: WorkflowRun,
) -> Result<WorkflowRun, DbError> {
    run::hide_messages(c, &mut run, actor.user).await?;
    let is_visible = briefs::are_visible(c, run.root_task_id, brief_reader_of(actor)).await?;
    Ok(if is_visible {
        run
    } else {
        run.without_answers()
    })
}

/// Cancel a run and its tasks; a run that has ended is returned unchanged
///
/// Only the run's requester, the workflow's owner, and admins can cancel a run. Keys of admins need `agents:admin`.
#[utoipa::path(post, path = "/v1/runs/{id}/cancel", tag = "workflows",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = RunId, Path)), responses((status = 200, body = WorkflowRun)))]
async fn cancel_run(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<RunId>,
    _: NoFields,
) -> Result<Json<WorkflowRun>, ApiError> {
    let (hub, by) = (Arc::clone(&state.hub), caller.clone());
    let key = key_of(&mut state.db.read().await?, id).await?;
    let cancel = async move |c: &mut Conn| runs::cancel_run(c, &by, id, &hub).await;
    state.db.write(key, cancel).await?;
    let mut c = state.db.read().await?;
    Ok(Json(visible(&mut c, &caller, id, Scope::ChatWrite).await?))
}

/// Resume a failed run at the step that failed; completed steps keep their outputs
///
/// Only the run's requester, the workflow's owner, and admins can resume a run. Keys of admins need `agents:admin`. The run continues
/// with the requester's permissions.
#[utoipa::path(post, path = "/v1/runs/{id}/resume", tag = "workflows",
    security(("session" = ["member"]), ("key" = ["agents:use", "chat:write"])),
    params(("id" = RunId, Path)), responses((status = 200, body = WorkflowRun)))]
async fn resume_run(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<RunId>,
    _: NoFields,
) -> Result<Json<WorkflowRun>, ApiError> {
    let by = caller.clone();
    let key = key_of(&mut state.db.read().await?, id).await?;
    let resume = async move |c: &mut Conn| runs::resume_run(c, &by, id).await;
    state.db.write(key, resume).await?;
    let mut c = state.db.read().await?;
    Ok(Json(visible(&mut c, &caller, id, Scope::ChatWrite).await?))
}

/// Returns the workspace whose writer runs commands for a run.
async fn key_of(c: &mut Conn, id: RunId) -> Result<uuid::Uuid, WorkflowError> {
    let workspace = run::workspace_of_run(c, id).await?;
    Ok(workspace.ok_or(WorkflowError::RunNotFound)?.0)
}
