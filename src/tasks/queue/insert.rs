//! Adds tasks to the queue.

use super::{Wake, announce_as, tree};

use crate::{
    db::{Conn, DbError, Json, now},
    ids::{AgentId, ApiKeyId, ChannelId, MessageId, TaskId, ThreadId, UserId, WorkspaceId},
    realtime::{Audience, log},
    tasks::{
        ChainStep, Lane, Task, TaskError, TaskInput, TaskKind, TaskStatus, TaskTarget, WaitReason,
        calls,
        usage::{self, Ended},
    },
};

/// Key of the setting for the maximum number of queued tasks per workspace. It is stored in the database so that every command
/// uses the same value.
const QUEUED_MAX: &str = "tasks_queued_max";
const QUEUED_MAX_DEFAULT: i64 = 200;

/// Position of a task in a chain.
#[derive(Debug, Clone, Copy)]
pub struct NewLink {
    pub id: TaskId,
    /// The previous link. This link is parked until the previous one has completed.
    pub after: Option<TaskId>,
    pub step: ChainStep,
}

/// A task to queue.
#[derive(Debug, Clone)]
pub struct NewTask {
    pub workspace: WorkspaceId,
    pub kind: TaskKind,
    pub requested_by: UserId,
    /// Agent and conversation. The thread is stored only if it already exists: the reply of a scheduled task can start it after the
    /// task has delegated.
    pub target: TaskTarget,
    pub trigger: Option<MessageId>,
    pub retry_of: Option<TaskId>,
    /// The task that starts this one.
    pub parent: Option<TaskId>,
    pub link: Option<NewLink>,
    /// Key that is unique among the children of `parent`; set for a child that its parent waits for.
    pub child_key: Option<String>,
    /// The task reads only messages before this sequence number. Links after the first get the number when they are woken.
    pub before_seq: Option<i64>,
    /// API key with which a chain was posted or retried, or a replay was started.
    pub api_key: Option<ApiKeyId>,
    pub lane: Lane,
    pub prompt: String,
    pub options: Option<serde_json::Value>,
}

impl NewTask {
    /// A task with an empty prompt and without a trigger message, in the lane of its kind.
    pub fn new(
        workspace: WorkspaceId,
        kind: TaskKind,
        requested_by: UserId,
        target: TaskTarget,
    ) -> Self {
        Self {
            workspace,
            kind,
            requested_by,
            target,
            trigger: None,
            retry_of: None,
            parent: None,
            link: None,
            child_key: None,
            before_seq: None,
            api_key: None,
            lane: kind.lane(),
            prompt: String::new(),
            options: None,
        }
    }

    /// Key among the children of `parent`: `child_key`, or the step of the link.
    fn key(&self) -> Option<String> {
        self.parent?;
        let step = self.link.map(|link| link.step.step.to_string());
        self.child_key.clone().or(step)
    }

    fn input(&self) -> TaskInput {
        TaskInput {
            prompt: self.prompt.clone(),
            chain: self.link.map(|link| link.step),
            options: self.options.clone(),
            brief: None,
        }
    }
}

/// Sets the maximum number of queued tasks per workspace. Additional tasks fail immediately.
pub async fn set_queued_max(c: &mut Conn, max: i64) -> Result<(), DbError> {
    c.q("insert into meta (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value")
        .bind(QUEUED_MAX)
        .bind(max.to_string())
        .run()
        .await?;
    Ok(())
}

/// Remaining queue capacity of the workspace; negative if the maximum is exceeded. Background tasks and parked tasks do not count.
pub async fn free_slots(c: &mut Conn, workspace: WorkspaceId) -> Result<i64, DbError> {
    c.q(
        "select coalesce((select cast(value as bigint) from meta where key = $2), $3) \
         - (select count(*) from tasks where workspace_id = $1 and status = 'queued' and not parked and lane = 'foreground')",
    )
    .bind(workspace)
    .bind(QUEUED_MAX)
    .bind(QUEUED_MAX_DEFAULT)
    .value()
    .await
}

/// Inserts a queued task, or a task that has failed with `queue_full` if `full` is set. The caller must append its event.
///
/// Returns `None` if `retry_of` was already retried, if the link or child already exists, or if its tree was stopped.
pub async fn insert(
    c: &mut Conn,
    new: &NewTask,
    full: Option<&TaskError>,
) -> Result<Option<Task>, DbError> {
    let link = new.link;
    let id = link.map_or_else(TaskId::new, |link| link.id);
    let key = new.key();
    if let Some(parent) = new.parent.filter(|_| key.is_some())
        && !tree::lock_running(c, parent).await?
    {
        return Ok(None);
    }
    let is_parked = full.is_none() && link.is_some_and(|link| link.after.is_some());
    let at = now();
    if full.is_none() {
        c.notify(Box::new(Wake));
    }
    // The thread may not exist yet, because the parent may start it later.
    let task: Option<Task> = c.q(task_sql!(
        "insert into tasks (id, workspace_id, kind, status, agent_id, agent_version, channel_id, thread_id, conversation_id, \
         trigger_message_id, requested_by, retry_of, parent_task_id, root_task_id, depth, lane, attempt, retry_counts, holds_slot, input, \
         error, queued_at, completed_at, after_task_id, child_key, before_seq, parked, wait_reason, api_key_id) \
         values ($1, $2, $3, $4, $5, $6, $7, (select id from threads where id = $8), coalesce($9, (select id from threads where id = $8)), \
         $10, $11, $12, $13, coalesce((select root_task_id from tasks where id = $13), $1), \
         coalesce((select depth + 1 from tasks where id = $13), 0), $14, 1, $15, FALSE, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25) \
         on conflict do nothing returning",
        ""
    ))
    .bind(id)
    .bind(new.workspace)
    .bind(new.kind)
    .bind(if full.is_some() { TaskStatus::Failed } else { TaskStatus::Queued })
    .bind(new.target.agent)
    .bind(new.target.agent_version)
    .bind(new.target.channel)
    .bind(new.target.thread)
    .bind(new.target.fork)
    .bind(new.trigger)
    .bind(new.requested_by)
    .bind(new.retry_of)
    .bind(new.parent)
    .bind(new.lane)
    .bind(Json(serde_json::json!({})))
    .bind(Json(new.input()))
    .bind(full.map(|error| Json(error.clone())))
    .bind(at)
    .bind(full.map(|_| at))
    .bind(link.and_then(|link| link.after))
    .bind(key)
    .bind(new.before_seq)
    .bind(is_parked)
    .bind(is_parked.then_some(WaitReason::Chain))
    .bind(new.api_key)
    .opt()
    .await?;
    if let Some(task) = &task {
        // Links the log lines of the request with those of the task.
        tracing::debug!(task.id = %task.id, task.kind = %task.kind, status = %task.status, "task requested");
        if full.is_some() {
            count(c, task).await?;
        }
    }
    Ok(task)
}

/// A scheduled task to queue.
#[derive(Debug, Clone)]
pub struct NewScheduled {
    pub id: TaskId,
    pub workspace: WorkspaceId,
    pub agent: AgentId,
    pub agent_version: i64,
    pub channel: ChannelId,
    /// `None` if the reply starts a thread.
    pub thread: Option<ThreadId>,
    pub requested_by: UserId,
    /// API key with which the prompt was written or the task was started.
    pub api_key: Option<ApiKeyId>,
    pub prompt: String,
    pub options: serde_json::Value,
}

/// Queues a scheduled task and announces it. The task reads only the thread messages that precede its own event.
pub async fn insert_scheduled(
    c: &mut Conn,
    new: &NewScheduled,
    audience: Audience,
) -> Result<Task, DbError> {
    let seq = log::reserve(c, new.workspace, 1).await?;
    c.notify(Box::new(Wake));
    let task: Task = c
        .q(task_sql!(
            "insert into tasks (id, workspace_id, kind, status, agent_id, agent_version, channel_id, thread_id, conversation_id, \
             requested_by, root_task_id, depth, lane, attempt, retry_counts, holds_slot, input, queued_at, before_seq, api_key_id) \
             values ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9, $1, 0, $10, 1, $11, FALSE, $12, $13, $14, $15) returning",
            ""
        ))
        .bind(new.id)
        .bind(new.workspace)
        .bind(TaskKind::Schedule)
        .bind(TaskStatus::Queued)
        .bind(new.agent)
        .bind(new.agent_version)
        .bind(new.channel)
        .bind(new.thread)
        .bind(new.requested_by)
        .bind(TaskKind::Schedule.lane())
        .bind(Json(serde_json::json!({})))
        .bind(Json(TaskInput {
            prompt: new.prompt.clone(),
            options: Some(new.options.clone()),
            ..TaskInput::default()
        }))
        .bind(now())
        .bind(seq)
        .bind(new.api_key)
        .one()
        .await?;
    announce_as(c, seq, &task, audience).await?;
    Ok(task)
}

/// Adds a task that has just ended to the usage.
pub(super) async fn count(c: &mut Conn, task: &Task) -> Result<(), DbError> {
    let model = match &task.token_usage {
        Some(usage) => Some(usage.0.model.clone()),
        None => calls::running_model(c, task.id).await?,
    };
    usage::count(c, &[Ended::new(task, model.unwrap_or_default())]).await
}

/// Like `count`, for several tasks.
pub(super) async fn count_all(c: &mut Conn, tasks: &[Task]) -> Result<(), DbError> {
    let without_usage = tasks.iter().filter(|task| task.token_usage.is_none());
    let without_usage: Vec<TaskId> = without_usage.map(|task| task.id).collect();
    let mut running = calls::running_models(c, &without_usage).await?;
    let ended = tasks.iter().map(|task| {
        let used = task.token_usage.as_ref().map(|usage| usage.0.model.clone());
        let model = used.or_else(|| running.remove(&task.id));
        Ended::new(task, model.unwrap_or_default())
    });
    let ended: Vec<Ended> = ended.collect();
    usage::count(c, &ended).await
}
