//! Tasks over HTTP.

use axum::{Json, http::StatusCode};
use serde::Deserialize;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{St, WhichObject, write_for};
use crate::{
    auth::{Actor, Caller, Role, Scope},
    chat::{
        ChatError, access,
        post::{self},
        remove,
    },
    db::Conn,
    http::{
        ApiError, State,
        extract::{Path, Query},
        page::{List, PageQuery, parse_id},
    },
    ids::{AgentId, TaskId, ThreadId},
    tasks::{Task, queue},
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_tasks))
        .routes(routes!(get_task))
        .routes(routes!(cancel_task))
        .routes(routes!(retry_task))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct TasksQuery {
    /// 1 to 100; 20 by default.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 100)]
    limit: Option<String>,
    after: Option<String>,
    before: Option<String>,
    /// `queued`, `running`, `completed`, `failed` or `cancelled`.
    status: Option<String>,
    thread_id: Option<String>,
    agent_id: Option<String>,
}

/// Tasks in places that one may see, and one's own of `/v1/responses`, oldest first
#[utoipa::path(get, path = "/v1/tasks", tag = "tasks", params(TasksQuery), responses((status = 200, body = List<Task>)))]
async fn list_tasks(
    axum::extract::State(state): St,
    caller: Caller,
    actor: Actor,
    Query(query): Query<TasksQuery>,
) -> Result<Json<List<Task>>, ApiError> {
    actor.require(Scope::ChatRead)?;
    let page = PageQuery {
        limit: query.limit,
        after: query.after,
        before: query.before,
    }
    .parse::<TaskId>(20)?;
    let status = query.status.filter(|s| !s.is_empty());
    if let Some(status) = &status
        && !["queued", "running", "completed", "failed", "cancelled"].contains(&status.as_str())
    {
        let text =
            format!("`{status}` is no status: use queued, running, completed, failed or cancelled");
        return Err(ApiError::invalid("invalid_status", text, "status"));
    }
    let thread = parse_id::<ThreadId>(query.thread_id.as_deref(), "thread_id")?;
    let agent = parse_id::<AgentId>(query.agent_id.as_deref(), "agent_id")?;
    let mut c = state.db.read().await?;
    if let Some(thread) = thread {
        access::thread(&mut c, &caller, thread).await?;
    }
    if let Some(agent) = agent {
        crate::agents::profiles::get_visible(&mut c, &actor, agent).await?;
    }
    if let Some(id) = page.after.or(page.before) {
        visible_task(&mut c, &caller, id).await?;
    }
    let filter = queue::Filter {
        status,
        thread,
        agent,
    };
    let rows = queue::list(
        &mut c,
        actor.workspace,
        queue::Reader {
            user: actor.user,
            is_admin: actor.role == Role::Admin,
        },
        &filter,
        (page.after, page.before),
        page.limit + 1,
    )
    .await?;
    Ok(Json(List::new(
        rows,
        page.limit,
        page.before.is_some(),
        |task: &Task| task.id.to_string(),
    )))
}

/// A task that the person may see.
///
/// # Errors
/// `TaskNotFound`, or what `reading` says.
pub async fn visible_task(c: &mut Conn, caller: &Caller, id: TaskId) -> Result<Task, ChatError> {
    let task = queue::find_task(c, id)
        .await?
        .ok_or(ChatError::TaskNotFound)?;
    let Some(thread) = task.thread_id else {
        access::placeless(c, caller, &task)
            .await?
            .require(Scope::ChatRead)?;
        return Ok(task);
    };
    access::thread(c, caller, thread)
        .await
        .map_err(|_| ChatError::TaskNotFound)?
        .reading()?;
    Ok(task)
}

/// A task
#[utoipa::path(get, path = "/v1/tasks/{id}", tag = "tasks", params(("id" = TaskId, Path)), responses((status = 200, body = Task)))]
async fn get_task(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<TaskId>,
) -> Result<Json<Task>, ApiError> {
    Ok(Json(
        visible_task(&mut state.db.read().await?, &caller, id).await?,
    ))
}

/// Stop a task; what it has written stays
#[utoipa::path(post, path = "/v1/tasks/{id}/cancel", tag = "tasks", params(("id" = TaskId, Path)),
    responses((status = 200, body = Task, description = "Cancelled, or as it ended before")))]
async fn cancel_task(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<TaskId>,
) -> Result<Json<Task>, ApiError> {
    let hub = std::sync::Arc::clone(&state.hub);
    let cancel = async move |c: &mut Conn| remove::cancel_task(c, &caller, id, &hub).await;
    Ok(Json(
        write_for(&state, WhichObject::Task(id), cancel).await?,
    ))
}

/// Try a failed or cancelled task again
#[utoipa::path(post, path = "/v1/tasks/{id}/retry", tag = "tasks", params(("id" = TaskId, Path)), responses((status = 201, body = Task)))]
async fn retry_task(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<TaskId>,
) -> Result<(StatusCode, Json<Task>), ApiError> {
    let retry = async move |c: &mut Conn| post::retry_task(c, &caller, id).await;
    Ok((
        StatusCode::CREATED,
        Json(write_for(&state, WhichObject::Task(id), retry).await?),
    ))
}
