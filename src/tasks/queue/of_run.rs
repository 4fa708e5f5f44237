//! Tasks of workflow runs, which do not need an agent or a conversation.

use super::{Wake, announce, tree};
use crate::{
    db::{Conn, DbError, Json, now},
    ids::{AgentId, ApiKeyId, ChannelId, MessageId, RunId, TaskId, ThreadId, UserId, WorkspaceId},
    realtime::Audience,
    tasks::{Task, TaskInput, TaskKind, TaskStatus, items},
};

/// The root task of a run, or a task of one of its steps.
#[derive(Debug, Clone)]
pub struct NewRunTask {
    pub id: TaskId,
    pub workspace: WorkspaceId,
    pub kind: TaskKind,
    pub run: RunId,
    /// Step, and a key that is unique among the tasks of the run; `None` for the root.
    pub step: Option<(String, String)>,
    pub agent: Option<(AgentId, i64)>,
    pub channel: Option<ChannelId>,
    pub thread: Option<ThreadId>,
    pub trigger: Option<MessageId>,
    pub requested_by: UserId,
    /// The task reads only messages before this sequence number.
    pub before_seq: Option<i64>,
    /// API key that started the run.
    pub api_key: Option<ApiKeyId>,
    pub input: TaskInput,
}

/// Inserts a queued task and announces it. Returns `None` if the task already exists or the run was stopped.
pub async fn insert_of_run(
    c: &mut Conn,
    new: &NewRunTask,
    audience: Audience,
) -> Result<Option<Task>, DbError> {
    let root = TaskId(new.run.0);
    let parent = new.step.as_ref().map(|_| root);
    if parent.is_some() && !tree::lock_running(c, root).await? {
        return Ok(None);
    }
    let (step, key) = new.step.clone().unzip();
    let task: Option<Task> = c
        .q(task_sql!(
            "insert into tasks (id, workspace_id, kind, status, agent_id, agent_version, channel_id, thread_id, conversation_id, \
             trigger_message_id, requested_by, parent_task_id, root_task_id, depth, lane, attempt, retry_counts, holds_slot, input, \
             queued_at, child_key, before_seq, parked, api_key_id, run_id, step_id) \
             values ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9, $10, $11, $12, $13, $14, 1, $15, FALSE, $16, $17, $18, $19, FALSE, $20, $21, $22) \
             on conflict do nothing returning",
            ""
        ))
        .bind(new.id)
        .bind(new.workspace)
        .bind(new.kind)
        .bind(TaskStatus::Queued)
        .bind(new.agent.map(|(agent, _)| agent))
        .bind(new.agent.map(|(_, version)| version))
        .bind(new.channel)
        .bind(new.thread)
        .bind(new.trigger)
        .bind(new.requested_by)
        .bind(parent)
        .bind(root)
        .bind(i64::from(parent.is_some()))
        .bind(new.kind.lane())
        .bind(Json(serde_json::json!({})))
        .bind(Json(new.input.clone()))
        .bind(now())
        .bind(key)
        .bind(new.before_seq)
        .bind(new.api_key)
        .bind(new.run)
        .bind(step)
        .opt()
        .await?;
    if let Some(task) = &task {
        c.notify(Box::new(Wake));
        tracing::debug!(task.id = %task.id, task.kind = %task.kind, "task of a run requested");
        announce(c, task, audience).await?;
    }
    Ok(task)
}

/// Queues the failed root of a run again, even if its tree was stopped. Returns `None` if the root has not failed. `api_key` is the
/// API key of the request.
pub async fn reopen(
    c: &mut Conn,
    run: RunId,
    api_key: Option<ApiKeyId>,
    audience: Audience,
) -> Result<Option<Task>, DbError> {
    let task: Option<Task> = c
        .q(task_sql!(
            "update tasks set status = 'queued', parked = FALSE, error = null, completed_at = null, attempt = attempt + 1, \
             retry_counts = $2, api_key_id = coalesce($3, api_key_id) where id = $1 and kind = 'workflow' and status = 'failed' returning",
            ""
        ))
        .bind(run)
        .bind(Json(serde_json::json!({})))
        .bind(api_key)
        .opt()
        .await?;
    if let Some(task) = &task {
        c.q("update task_trees set stopped_at = null where root_task_id = $1")
            .bind(run)
            .run()
            .await?;
        items::close_failure(c, task).await?;
        c.notify(Box::new(Wake));
        announce(c, task, audience).await?;
    }
    Ok(task)
}
