//! HTTP route for task trees.

use std::collections::{BTreeMap, HashMap};

use axum::Json;
use futures::FutureExt;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

use super::{
    ScannedObject, St, scan_for,
    tasks::{brief_reader_of, reader_of, visible_task},
};
use crate::{
    auth::Caller,
    chat::{ChatError, access},
    db::Conn,
    http::{ApiError, extract::Path, routing::routes},
    ids::TaskId,
    server::State,
    tasks::{
        self, DELEGATIONS_IN_ROUND_MAX, TREE_CALLS_MAX, TREE_DEPTH_MAX, TREE_RUN_MAX,
        TREE_TASKS_MAX, Task, TaskKind, TaskStatus, TokenUsage, costs,
        queue::{self, TreeUse},
    },
    text_enum::{constant, text_enum},
    tools::briefs,
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(get_task_tree))
}

constant! { TreeObject = "task_tree" }

text_enum! {
    /// State of a tree.
    enum TreeStatus {
        /// A task is queued or running.
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

/// A task of a tree in a conversation that the caller cannot read.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct HiddenTask {
    id: TaskId,
    status: TaskStatus,
    /// Always true.
    hidden: bool,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
enum TreeTask {
    Task(Box<Task>),
    Hidden(HiddenTask),
}

/// Calls, tokens, costs, and run time of a tree so far, not counting personal tasks.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct TreeSpent {
    /// Number of model calls whose records are still stored.
    calls: i64,
    /// Input tokens of ended tasks that the caller can see.
    input_tokens: i64,
    output_tokens: i64,
    /// Costs in US dollars; null if a price is unknown or the policy hides costs from the caller.
    cost_usd: Option<f64>,
    /// Total run time of the tasks in milliseconds.
    run_ms: i64,
    /// Tokens and costs by the model of the tasks, ordered by its name.
    by_model: Vec<ModelSpent>,
}

/// Tokens and costs of the tasks with one model.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct ModelSpent {
    model: String,
    input_tokens: i64,
    output_tokens: i64,
    /// As in `spent`.
    cost_usd: Option<f64>,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
struct TreeLimits {
    calls: i64,
    run_ms: i64,
    tasks: i64,
    /// Maximum number of ancestors of a task.
    depth: i64,
    /// Maximum number of delegations per round.
    delegations: i64,
}

/// A root task and all tasks that were started for it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct TaskTree {
    #[schema(inline)]
    object: TreeObject,
    root_task_id: TaskId,
    status: TreeStatus,
    /// At most 200 tasks, in the order of their creation.
    tasks: Vec<TreeTask>,
    spent: TreeSpent,
    limits: TreeLimits,
    score: i64,
}

/// Get the tree of a task: its root and all tasks that were started for it
///
/// For tasks in conversations that the caller cannot read, only the ID and the status are returned. Personal tasks of other people
/// are left out. Briefs and answers are shown to every reader until the tree calls an outward function, and after that only to people
/// who can see the arguments of its calls.
#[utoipa::path(get, path = "/v1/tasks/{id}/tree", tag = "tasks",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = TaskId, Path)), responses((status = 200, body = TaskTree)))]
async fn get_task_tree(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<TaskId>,
) -> Result<Json<TaskTree>, ApiError> {
    let c = scan_for(&state, &caller, ScannedObject::Task(id)).await?;
    let read = c.run(move |c| async move { read_tree(c, &caller, id).await }.boxed());
    Ok(Json(read.await?))
}

/// # Errors
/// Any error from `visible_task`.
async fn read_tree(c: &mut Conn, caller: &Caller, id: TaskId) -> Result<TaskTree, ApiError> {
    let task = visible_task(c, caller, id).await?;
    let root = task.root_task_id;
    let mut tasks = queue::list_tree(c, root).await?;
    let status = status_of(&tasks, root);
    tasks.retain(|task| !task.kind.is_personal() || task.requested_by == caller.user);
    let used = queue::use_of(c, root).await?;
    let score = queue::score_of(c, root).await?;
    let actor = caller.enter(c, task.workspace_id).await?;
    if briefs::are_visible(c, root, brief_reader_of(&actor)).await? {
        tasks::briefs::show(c, &mut tasks).await?;
    }
    if !costs::are_visible(c, task.workspace_id, reader_of(&actor)).await? {
        tasks = tasks.into_iter().map(Task::without_cost).collect();
    }
    let tasks = seen_tasks(c, caller, tasks).await?;
    Ok(TaskTree {
        object: TreeObject,
        root_task_id: root,
        status,
        spent: TreeSpent::of(&tasks, used),
        tasks,
        limits: TreeLimits {
            calls: TREE_CALLS_MAX,
            run_ms: i64::try_from(TREE_RUN_MAX.as_millis()).unwrap_or(i64::MAX),
            tasks: TREE_TASKS_MAX,
            depth: TREE_DEPTH_MAX,
            delegations: DELEGATIONS_IN_ROUND_MAX,
        },
        score,
    })
}

/// Returns `Running` while any task of the tree is active, not counting compactions, reflections, and calls of the utility model.
/// Otherwise, returns the status with which the root, or the last link of a chain, ended.
fn status_of(tasks: &[Task], root: TaskId) -> TreeStatus {
    let is_work = |task: &Task| {
        task.id == root
            || !matches!(
                task.kind,
                TaskKind::Compact | TaskKind::Reflect | TaskKind::Utility
            )
    };
    if tasks.iter().any(|task| task.is_active() && is_work(task)) {
        return TreeStatus::Running;
    }
    let last_link = tasks.iter().rfind(|task| task.after_task_id.is_some());
    let root = tasks.iter().find(|task| task.id == root);
    match last_link.or(root).map(|task| task.status) {
        Some(TaskStatus::Failed) => TreeStatus::Failed,
        Some(TaskStatus::Cancelled) => TreeStatus::Cancelled,
        _ => TreeStatus::Completed,
    }
}

/// Replaces each task that the caller cannot read with its ID and status.
async fn seen_tasks(
    c: &mut Conn,
    caller: &Caller,
    tasks: Vec<Task>,
) -> Result<Vec<TreeTask>, ApiError> {
    let mut readable: HashMap<Option<Uuid>, bool> = HashMap::new();
    let mut seen = Vec::with_capacity(tasks.len());
    for task in tasks {
        let thread = task.thread_id.map(|thread| thread.0);
        let place = thread.or(task.channel_id.map(|channel| channel.0));
        let is_readable = match readable.get(&place) {
            Some(is_readable) => *is_readable,
            None => can_read(c, caller, &task).await?,
        };
        readable.insert(place, is_readable);
        seen.push(if is_readable {
            TreeTask::Task(Box::new(task))
        } else {
            TreeTask::Hidden(HiddenTask {
                id: task.id,
                status: task.status,
                hidden: true,
            })
        });
    }
    Ok(seen)
}

async fn can_read(c: &mut Conn, caller: &Caller, task: &Task) -> Result<bool, ApiError> {
    match access::channel_of_task(c, caller, task).await {
        Ok(Some(access)) => Ok(access.reading().is_ok()),
        // Only a root and its steps can be outside a channel, and the caller can see the root.
        Ok(None) => Ok(true),
        Err(ChatError::TaskNotFound) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

impl TreeSpent {
    fn of(tasks: &[TreeTask], used: TreeUse) -> Self {
        let usages = tasks.iter().filter_map(|task| match task {
            TreeTask::Task(task) if !task.kind.is_personal() => task.token_usage.as_ref(),
            TreeTask::Task(_) | TreeTask::Hidden(_) => None,
        });
        let usages = usages.map(|usage| &usage.0);
        let mut by_model: BTreeMap<&str, TokenUsage> = BTreeMap::new();
        for usage in usages.filter(|usage| usage.input_tokens + usage.output_tokens > 0) {
            let earlier = by_model.remove(usage.model.as_str());
            by_model.insert(&usage.model, usage.clone().plus(earlier));
        }
        let all = by_model.values().cloned();
        let all = all.reduce(|sum, usage| usage.plus(Some(sum)));
        let by_model = by_model.into_values().map(|usage| ModelSpent {
            model: usage.model,
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cost_usd: usage.cost_usd,
        });
        Self {
            calls: used.calls,
            input_tokens: all.as_ref().map_or(0, |usage| usage.input_tokens),
            output_tokens: all.as_ref().map_or(0, |usage| usage.output_tokens),
            cost_usd: all.as_ref().and_then(|usage| usage.cost_usd),
            run_ms: used.run_ms,
            by_model: by_model.collect(),
        }
    }
}
