//! Tasks over HTTP.

use axum::{Json, http::StatusCode};
use futures::FutureExt;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;

use super::{St, WhichObject, write_for};
use crate::{
    auth::{Actor, Caller, Role, Scope, WorkspaceCaller},
    chat::{
        ChatError, access, post,
        remove::{self, CancelScope},
    },
    cursor,
    db::Conn,
    http::{
        ApiError, ErrorCode,
        extract::{Body, Path, Query},
        page::{Limit, List, Page, PageQuery},
        routing::routes,
    },
    ids::{AgentId, TaskId, ThreadId},
    server::State,
    tasks::{
        self, GUARD_MAX, GUARD_MIN, Task, TaskKind, TaskStatus,
        costs::{self, CostReader},
        queue,
    },
    text_enum::text_enum,
    tools::briefs::{self, BriefReader},
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
    #[param(inline)]
    limit: Option<Limit>,
    /// Only tasks created after the one with this ID.
    after: Option<TaskId>,
    /// Only tasks created before the one with this ID.
    before: Option<TaskId>,
    /// Only tasks with this status.
    #[param(inline)]
    status: Option<TaskStatus>,
    /// Only tasks of this thread.
    thread_id: Option<ThreadId>,
    /// Only tasks of this agent.
    agent_id: Option<AgentId>,
    /// `oldest` first (default), paged by `after` and `before`, or `newest` first, paged by `cursor`.
    #[param(inline)]
    order: Option<TaskOrder>,
    /// `next_cursor` of the previous page; only with `order=newest`.
    cursor: Option<String>,
}

text_enum! {
    enum TaskOrder {
        Oldest = "oldest",
        Newest = "newest",
    }
}

/// Cursor kind of a list of the newest tasks.
const CURSOR: &str = "tasks";

/// Returns the cursor that continues a list after a task. Cursors contain 63-bit numbers, so the lower half of the ID is split in
/// two.
fn cursor_at(task: TaskId) -> String {
    let (high, low) = task.0.as_u64_pair();
    let number = |part: u64| i64::try_from(part).unwrap_or_default();
    cursor::write(
        CURSOR,
        &[number(high), number(low >> 32), number(low & 0xffff_ffff)],
    )
}

/// # Errors
/// 400 for a cursor of another list.
fn parse_cursor(text: &str) -> Result<TaskId, ApiError> {
    let parts = cursor::read::<3>(CURSOR, text).and_then(|[high, upper, lower]| {
        let (upper, lower) = (u32::try_from(upper).ok()?, u32::try_from(lower).ok()?);
        let low = (u64::from(upper) << 32) | u64::from(lower);
        Some(TaskId(uuid::Uuid::from_u64_pair(
            u64::try_from(high).ok()?,
            low,
        )))
    });
    parts.ok_or_else(|| {
        let text = "the cursor does not belong to a list of the newest tasks: use `next_cursor` of the previous page".to_owned();
        ApiError::invalid(ErrorCode::InvalidCursor, text, "cursor")
    })
}

impl TasksQuery {
    /// # Errors
    /// 400 for paging parameters that belong to the other order, or for an invalid cursor.
    fn range(&self, page: &Page<TaskId>) -> Result<queue::Range, ApiError> {
        let cursor = self.cursor.as_deref();
        match self.order.unwrap_or(TaskOrder::Oldest) {
            TaskOrder::Oldest => {
                if cursor.is_some() {
                    let text =
                        "cursor requires order=newest: use after or before instead".to_owned();
                    return Err(ApiError::invalid(ErrorCode::InvalidCursor, text, "cursor"));
                }
                Ok(match page.before {
                    Some(before) => queue::Range::Newest {
                        before: Some(before),
                    },
                    None => queue::Range::Oldest { after: page.after },
                })
            }
            TaskOrder::Newest => {
                if page.after.is_some() || page.before.is_some() {
                    let text = "order=newest does not support after and before: use cursor";
                    return Err(ApiError::invalid(
                        ErrorCode::InvalidCursor,
                        text.to_owned(),
                        "order",
                    ));
                }
                let before = cursor.map(parse_cursor).transpose()?;
                Ok(queue::Range::Newest { before })
            }
        }
    }
}

/// List the tasks in conversations that the caller can see, and the caller's own tasks from `/v1/responses`
///
/// Tasks of the kinds `reflect`, `utility`, `catch_up`, and `replay` are listed only for their requester.
#[utoipa::path(get, path = "/v1/tasks", tag = "tasks",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(TasksQuery), responses((status = 200, body = List<Task>)))]
async fn list_tasks(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<TasksQuery>,
) -> Result<Json<List<Task>>, ApiError> {
    let read = state.db.scan(member.share()).await?.run(move |c| {
        async move {
            let caller = &member.caller;
            let actor = member.enter(c).await?;
            actor.require(Scope::ChatRead)?;
            let page = PageQuery {
                limit: query.limit,
                after: query.after,
                before: query.before,
            }
            .page(20)?;
            let range = query.range(&page)?;
            let is_newest = query.order == Some(TaskOrder::Newest);
            let thread = query.thread_id;
            let agent = query.agent_id;
            if let Some(thread) = thread {
                let found = access::thread(c, caller, thread).await?;
                found.within(actor.workspace)?;
            }
            if let Some(agent) = agent {
                crate::agents::profiles::get_visible(c, &actor, agent).await?;
            }
            if let Some(id) = page.after.or(page.before)
                && visible_task(c, caller, id).await?.workspace_id != actor.workspace
            {
                return Err(ChatError::TaskNotFound.into());
            }
            let filter = queue::Filter {
                status: query.status,
                thread,
                agent,
            };
            let mut rows = queue::list(
                c,
                actor.workspace,
                queue::Reader {
                    user: actor.user,
                    is_admin: actor.role == Role::Admin,
                },
                &filter,
                range,
                page.limit + 1,
            )
            .await?;
            if page.before.is_some() {
                rows.reverse();
            }
            let last = rows.get(usize::try_from(page.limit - 1).unwrap_or_default());
            let cursor = last.map(|task| cursor_at(task.id));
            if !costs::are_visible(c, actor.workspace, reader_of(&actor)).await? {
                rows = rows.into_iter().map(Task::without_cost).collect();
            }
            let list = List::new(rows, page.limit, page.before.is_some(), |task: &Task| {
                task.id.to_string()
            });
            let next = cursor.filter(|_| list.has_more);
            Ok::<_, ApiError>(if is_newest {
                list.continued_at(next)
            } else {
                list
            })
        }
        .boxed()
    });
    Ok(Json(read.await?))
}

/// Returns a task that the caller can see.
///
/// # Errors
/// `TaskNotFound`, or any error from `reading`.
pub async fn visible_task(c: &mut Conn, caller: &Caller, id: TaskId) -> Result<Task, ChatError> {
    let task = queue::find_task(c, id)
        .await?
        .ok_or(ChatError::TaskNotFound)?;
    access::check_personal(caller, &task)?;
    let Some(access) = access::channel_of_task(c, caller, &task).await? else {
        access::unplaced(c, caller, &task)
            .await?
            .require(Scope::ChatRead)?;
        return Ok(task);
    };
    access.reading()?;
    Ok(task)
}

/// Get a task
///
/// A task of the Responses API is visible to its requester and to admins. Delegated tasks and tasks of runs include the brief and
/// the answer if the caller can see them.
#[utoipa::path(get, path = "/v1/tasks/{id}", tag = "tasks",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = TaskId, Path)), responses((status = 200, body = Task)))]
async fn get_task(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<TaskId>,
) -> Result<Json<Task>, ApiError> {
    let mut c = state.db.read().await?;
    let mut task = visible_task(&mut c, &caller, id).await?;
    if task.kind == TaskKind::Delegate || task.step_id.is_some() {
        let actor = caller.enter(&mut c, task.workspace_id).await?;
        let reader = brief_reader_of(&actor);
        if briefs::are_visible(&mut c, task.root_task_id, reader).await? {
            tasks::briefs::show(&mut c, std::slice::from_mut(&mut task)).await?;
        }
    }
    Ok(Json(seen(&mut c, &caller, task).await?))
}

/// Returns the task, without its cost if the policy hides costs from the caller.
async fn seen(c: &mut Conn, caller: &Caller, task: Task) -> Result<Task, ApiError> {
    if !task.has_cost() {
        return Ok(task);
    }
    let reader = reader_of(&caller.enter(c, task.workspace_id).await?);
    Ok(task.seen_by(c, reader).await?)
}

/// Returns the caller as a reader of costs.
pub fn reader_of(actor: &Actor<'_>) -> CostReader {
    CostReader::new(actor.scopes.has(Scope::WorkspaceAdmin))
}

/// Returns the caller as a reader of briefs and answers.
pub fn brief_reader_of(actor: &Actor<'_>) -> BriefReader {
    BriefReader {
        user: actor.user,
        is_admin: actor.scopes.has(Scope::WorkspaceAdmin),
    }
}

#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct CancelForm {
    /// `task` (default) cancels the task, the tasks that it started, and the later links of its chain; `tree` cancels every
    /// active task of its tree.
    #[serde(default)]
    scope: Option<CancelScope>,
}

/// Cancel a task or its tree; partial replies are kept
///
/// A task of the Responses API can be canceled only by its requester and by admins.
#[utoipa::path(post, path = "/v1/tasks/{id}/cancel", tag = "tasks",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = TaskId, Path)), request_body(content = Option<CancelForm>, example = json!({"scope": "task"})),
    responses((status = 200, body = Task, description = "The canceled task, or the task as it ended before")))]
async fn cancel_task(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<TaskId>,
    Body(form): Body<CancelForm>,
) -> Result<Json<Task>, ApiError> {
    let hub = std::sync::Arc::clone(&state.hub);
    let sender = caller.clone();
    let scope = form.scope.unwrap_or(CancelScope::Task);
    let cancel = async move |c: &mut Conn| remove::cancel_task(c, &sender, id, scope, &hub).await;
    let task = write_for(&state, WhichObject::Task(id), cancel).await?;
    Ok(Json(
        seen(&mut state.db.read().await?, &caller, task).await?,
    ))
}

#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct RetryForm {
    /// Loop guard score at which agents that repeat themselves are stopped: 4 (default) to 8.
    #[serde(default)]
    guard: Option<i64>,
}

/// Retry a failed or canceled task
///
/// Retrying someone else's task requires the admin role; keys need `workspace:admin`.
#[utoipa::path(post, path = "/v1/tasks/{id}/retry", tag = "tasks",
    security(("session" = ["member"]), ("key" = ["chat:write", "agents:use"])),
    params(("id" = TaskId, Path)), request_body(content = Option<RetryForm>, example = json!({"guard": 8})),
    responses((status = 201, body = Task)))]
async fn retry_task(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<TaskId>,
    Body(form): Body<RetryForm>,
) -> Result<(StatusCode, Json<Task>), ApiError> {
    let guard = form.guard;
    if guard.is_some_and(|guard| !(GUARD_MIN..=GUARD_MAX).contains(&guard)) {
        let text = format!("guard must be from {GUARD_MIN} to {GUARD_MAX}");
        return Err(ApiError::unprocessable(ErrorCode::InvalidValue, text).param("guard"));
    }
    let retry = async move |c: &mut Conn| post::retry_task(c, &caller, id, guard).await;
    Ok((
        StatusCode::CREATED,
        Json(write_for(&state, WhichObject::Task(id), retry).await?),
    ))
}
