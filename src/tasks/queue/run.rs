//! Writes by the worker that runs a task, under the task's lease. This module also cancels tasks, and records calls that have ended.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    time::Duration,
};

use crate::time::Timestamp;

use super::{
    Lease, LeaseLost, Stopped, Wake, add_usage, announce, announce_as, audience_in,
    insert::{count, count_all},
    later_links, lease_length,
    tree::forget_compared,
    waking::wake_parent,
};
use crate::tasks::{
    Task, TaskError, TaskInput, TaskOutput, TokenUsage,
    actions::{self, Closing},
    calls, usage,
};
use crate::{
    db::{
        Conn, DbError, Json,
        dialect::{self, hexadecimal_ids},
        now,
    },
    ids::{AgentId, MessageId, TaskId, ThreadId, UserId, WorkspaceId},
    realtime::{Audience, log},
    sql_with_ids,
    tasks::{TaskKind, TaskStatus, WaitReason},
};

/// Renews a lease.
///
/// # Errors
/// `Gone` if the task no longer belongs to this worker.
pub async fn renew(c: &mut Conn, lease: &Lease) -> Result<(), LeaseLost> {
    let at = crate::db::dialect::clock(c).await?;
    let n = c
        .q("update tasks set lease_until = $3 where id = $1 and lease_token = $2 and status = 'running'")
        .bind(lease.task)
        .bind(lease.token)
        .bind(at + lease_length())
        .run()
        .await?;
    if n == 1 { Ok(()) } else { Err(LeaseLost::Gone) }
}

/// Checks a lease inside a transaction that writes for its task.
///
/// # Errors
/// `Gone` if the task no longer belongs to this worker.
pub async fn lock_lease(c: &mut Conn, lease: &Lease) -> Result<Task, LeaseLost> {
    crate::db::dialect::lock_workspace(c, lease.workspace.0).await?;
    c.q(task_sql!(
        "select",
        "from tasks where id = $1 and lease_token = $2 and status = 'running'"
    ))
    .bind(lease.task)
    .bind(lease.token)
    .opt()
    .await?
    .ok_or(LeaseLost::Gone)
}

/// Final state of a running task.
#[derive(Debug, Clone)]
pub enum End {
    Completed {
        output: TaskOutput,
        /// Model name to show if no model was called.
        model: String,
    },
    Failed {
        error: TaskError,
        notice: Option<MessageId>,
    },
}

/// Ends a running task and appends its event. The caller must have checked the lease in this transaction.
pub async fn finish(c: &mut Conn, lease: &Lease, end: &End) -> Result<Task, DbError> {
    let at = dialect::clock(c).await?;
    let (status, output, unused, error, notice) = match end {
        End::Completed { output, model } => (
            TaskStatus::Completed,
            Some(Json(output.clone())),
            Some(Json(TokenUsage::none(model))),
            None,
            None,
        ),
        End::Failed { error, notice } => (
            TaskStatus::Failed,
            None,
            None,
            Some(Json(error.clone())),
            *notice,
        ),
    };
    let task: Task = c
        .q(task_sql!(
            concat!(
                "update tasks set status = $3, output = $4, token_usage = coalesce(token_usage, $5), error = $6, notice_message_id = $7, completed_at = $8, \
                 holds_slot = FALSE, lease_token = null, lease_until = null, worker_id = null, ",
                ends_run!("$9"),
                " where id = $1 and lease_token = $2 returning"
            ),
            ""
        ))
        .bind(lease.task)
        .bind(lease.token)
        .bind(status)
        .bind(output)
        .bind(unused)
        .bind(error)
        .bind(notice)
        .bind(at)
        .bind(at.unix_ms())
        .one()
        .await?;
    count(c, &task).await?;
    end_rounds(c, &task, lease.audience).await?;
    announce(c, &task, lease.audience).await?;
    cancel_awaited(c, task.id, lease.audience).await?;
    wake_parent(c, &task, lease.audience).await?;
    forget_compared(c, task.root_task_id).await?;
    c.notify(Box::new(Wake));
    Ok(task)
}

/// Cancels the tasks that a task was waiting for, because the task has ended without them.
async fn cancel_awaited(c: &mut Conn, task: TaskId, audience: Audience) -> Result<(), DbError> {
    let awaited: Vec<(TaskId,)> = c
        .q(concat!(
            "select id from tasks where ",
            is_awaited_by!("$1"),
            " order by id"
        ))
        .bind(task)
        .all()
        .await?;
    for (child,) in awaited {
        cancel(c, child, audience).await?;
    }
    Ok(())
}

/// Counts and announces tasks that were just ended from outside their workers, and wakes the tasks that wait for them. `audience`
/// is the audience of one of their channels.
async fn close_all(c: &mut Conn, tasks: &[Task], audience: Audience) -> Result<(), DbError> {
    let Some(first) = tasks.first() else {
        return Ok(());
    };
    count_all(c, tasks).await?;
    let mut audiences = HashMap::from([(audience.channel(), audience)]);
    for task in tasks {
        if let Entry::Vacant(unknown) = audiences.entry(task.channel_id) {
            unknown.insert(audience_in(c, task.channel_id).await?);
        }
    }
    let of = |task: &Task| *audiences.get(&task.channel_id).unwrap_or(&audience);
    let with_rounds = tasks.iter().filter(|task| task.round > 0);
    let with_rounds: Vec<TaskId> = with_rounds.map(|task| task.id).collect();
    let open = actions::tasks_with_open(c, &with_rounds).await?;
    for task in tasks.iter().filter(|task| open.contains(&task.id)) {
        actions::close(c, task.id, of(task), Closing::Stopped).await?;
    }
    delete_rounds(c, &with_rounds).await?;
    let seq = log::reserve(c, first.workspace_id, tasks.len()).await?;
    for (seq, task) in (seq..).zip(tasks) {
        announce_as(c, seq, task, of(task)).await?;
    }
    // A parent that has just ended as well is not woken.
    let mut woken: HashSet<TaskId> = tasks.iter().map(|task| task.id).collect();
    let mut roots = HashSet::new();
    for task in tasks {
        if task
            .parent_task_id
            .is_some_and(|parent| woken.insert(parent))
        {
            wake_parent(c, task, of(task)).await?;
        }
        if roots.insert(task.root_task_id) {
            forget_compared(c, task.root_task_id).await?;
        }
        c.notify(Box::new(Stopped {
            workspace: task.workspace_id,
            task: task.id,
        }));
    }
    c.notify(Box::new(Wake));
    Ok(())
}

async fn delete_rounds(c: &mut Conn, tasks: &[TaskId]) -> Result<(), DbError> {
    if tasks.is_empty() {
        return Ok(());
    }
    let sql = sql_with_ids!(c, "delete from task_rounds where task_id in", 1, "");
    c.q(sql)
        .bind(hexadecimal_ids(tasks.iter().map(|id| id.0)))
        .run()
        .await?;
    Ok(())
}

/// Ends the open actions of a task's rounds, and removes the texts of the rounds.
async fn end_rounds(c: &mut Conn, task: &Task, audience: Audience) -> Result<(), DbError> {
    if task.round == 0 {
        return Ok(());
    }
    actions::close(c, task.id, audience, Closing::Ended).await?;
    delete_rounds(c, &[task.id]).await
}

/// Requeues a running task for another attempt after `delay`, measured by the database clock, and stores its retry counts.
/// `keeps_slot` is set only for a short wait, during which the task keeps its turn in the conversation. If a budget was exceeded, no
/// call was made, so the attempt is not counted.
pub async fn requeue(
    c: &mut Conn,
    lease: &Lease,
    counts: serde_json::Value,
    delay: Duration,
    reason: WaitReason,
    keeps_slot: bool,
) -> Result<Task, DbError> {
    let at = dialect::clock(c).await?;
    let task: Task = c
        .q(task_sql!(
            concat!(
                "update tasks set status = 'queued', retry_at = $3, wait_reason = $4, holds_slot = $5, retry_counts = $6, \
                 attempt = attempt + case when $4 = 'budget' then 0 else 1 end, lease_token = null, lease_until = null, worker_id = null, ",
                ends_run!("$7"),
                " where id = $1 and lease_token = $2 returning"
            ),
            ""
        ))
        .bind(lease.task)
        .bind(lease.token)
        .bind(at + delay)
        .bind(reason)
        .bind(keeps_slot)
        .bind(Json(counts))
        .bind(at.unix_ms())
        .one()
        .await?;
    announce(c, &task, lease.audience).await?;
    c.notify(Box::new(Wake));
    Ok(task)
}

/// Requeues a running task that has not begun its work, because it has to wait for a turn.
///
/// # Errors
/// `Gone` if the task no longer belongs to this worker.
pub async fn postpone(c: &mut Conn, lease: &Lease, delay: Duration) -> Result<(), LeaseLost> {
    lock_lease(c, lease).await?;
    let at = dialect::clock(c).await?;
    let task: Task = c
        .q(task_sql!(
            concat!(
                "update tasks set status = 'queued', retry_at = $3, lease_token = null, lease_until = null, worker_id = null, ",
                ends_run!("$4"),
                " where id = $1 and lease_token = $2 returning"
            ),
            ""
        ))
        .bind(lease.task)
        .bind(lease.token)
        .bind(at + delay)
        .bind(at.unix_ms())
        .one()
        .await?;
    announce(c, &task, lease.audience).await?;
    c.notify(Box::new(Wake));
    Ok(())
}

/// Requeues a running task immediately because its process is shutting down. This does not count as a lost worker.
pub async fn requeue_on_shutdown(c: &mut Conn, lease: &Lease) -> Result<Option<Task>, DbError> {
    dialect::lock_workspace(c, lease.workspace.0).await?;
    let at = dialect::clock(c).await?;
    let task: Option<Task> = c
        .q(task_sql!(
            concat!(
                "update tasks set status = 'queued', attempt = attempt + 1, lease_token = null, lease_until = null, worker_id = null, ",
                ends_run!("$3"),
                " where id = $1 and lease_token = $2 and status = 'running' returning"
            ),
            ""
        ))
        .bind(lease.task)
        .bind(lease.token)
        .bind(at.unix_ms())
        .opt()
        .await?;
    if let Some(task) = &task {
        announce(c, task, lease.audience).await?;
    }
    Ok(task)
}

/// Records the start of another model call under the same lease.
pub async fn next_attempt(
    c: &mut Conn,
    lease: &Lease,
    counts: serde_json::Value,
) -> Result<i64, LeaseLost> {
    let row: Option<(i64,)> = c
        .q("update tasks set attempt = attempt + 1, retry_counts = $3 where id = $1 and lease_token = $2 and status = 'running' returning attempt")
        .bind(lease.task)
        .bind(lease.token)
        .bind(Json(counts))
        .opt()
        .await?;
    row.map(|row| row.0).ok_or(LeaseLost::Gone)
}

/// The task's retry counts, as they were last stored, for example by `requeue`.
pub async fn counts_of(c: &mut Conn, task: TaskId) -> Result<serde_json::Value, DbError> {
    let counts: Json<serde_json::Value> = c
        .q("select retry_counts from tasks where id = $1")
        .bind(task)
        .value()
        .await?;
    Ok(counts.0)
}

/// Records the reply of the task.
pub async fn set_reply(c: &mut Conn, task: TaskId, message: MessageId) -> Result<(), DbError> {
    c.q("update tasks set reply_message_id = $2 where id = $1")
        .bind(task)
        .bind(message)
        .run()
        .await?;
    Ok(())
}

/// Moves a scheduled task or the root of a run, and the tasks below it, into the thread that its first message started.
pub async fn set_thread(c: &mut Conn, task: TaskId, thread: ThreadId) -> Result<(), DbError> {
    c.q("update tasks set thread_id = $2, conversation_id = $2 \
         where id = $1 or (root_task_id = $1 and parent_task_id is not null and thread_id is null)")
        .bind(task)
        .bind(thread)
        .run()
        .await?;
    Ok(())
}

/// Completes a queued task that has nothing to do.
pub async fn complete_queued(
    c: &mut Conn,
    task: TaskId,
    audience: Audience,
) -> Result<Task, DbError> {
    let task: Task = c
        .q(task_sql!(
            "update tasks set status = 'completed', output = $2, token_usage = $3, completed_at = $4 \
             where id = $1 and status = 'queued' returning",
            ""
        ))
        .bind(task)
        .bind(Json(TaskOutput::default()))
        .bind(Json(TokenUsage::none("")))
        .bind(now())
        .one()
        .await?;
    count(c, &task).await?;
    announce(c, &task, audience).await?;
    Ok(task)
}

pub async fn set_notice(c: &mut Conn, task: TaskId, message: MessageId) -> Result<(), DbError> {
    c.q("update tasks set notice_message_id = $2 where id = $1")
        .bind(task)
        .bind(message)
        .run()
        .await?;
    Ok(())
}

/// Cancels an active task together with the tasks that it started and the later links of its chain, and appends the events. Returns
/// all canceled tasks, starting with the given one. If the task has already ended, changes nothing and returns an empty list.
pub async fn cancel(c: &mut Conn, task: TaskId, audience: Audience) -> Result<Vec<Task>, DbError> {
    let is_active: Option<(TaskId,)> = c
        .q("select id from tasks where id = $1 and status in ('queued', 'running')")
        .bind(task)
        .opt()
        .await?;
    if is_active.is_none() {
        return Ok(Vec::new());
    }
    let mut tasks = vec![task];
    tasks.extend(active_descendants(c, task).await?);
    cancel_all(c, &tasks, audience).await
}

/// The active tasks that a task started, directly or indirectly, and the later links of its chain, oldest first.
async fn active_descendants(c: &mut Conn, task: TaskId) -> Result<Vec<TaskId>, DbError> {
    let descendants: Vec<(TaskId,)> = c
        .q("with recursive descendants (id) as (select id from tasks where parent_task_id = $1 or after_task_id = $1 union \
            select t.id from tasks t join descendants d on t.parent_task_id = d.id or t.after_task_id = d.id) \
            select t.id from tasks t join descendants d on d.id = t.id where t.status in ('queued', 'running') order by t.id")
        .bind(task)
        .all()
        .await?;
    Ok(descendants.into_iter().map(|(id,)| id).collect())
}

/// Cancels the links after a failed task, and returns them in chain order.
pub async fn cancel_later(
    c: &mut Conn,
    failed: TaskId,
    audience: Audience,
) -> Result<Vec<Task>, DbError> {
    let later = later_links(c, failed).await?;
    let later: Vec<TaskId> = later.into_iter().map(|link| link.id).collect();
    cancel_all(c, &later, audience).await
}

/// Cancels the given tasks that are still active, and appends their events in the given order. `audience` is the audience of one of
/// their channels. Returns the canceled tasks.
pub async fn cancel_all(
    c: &mut Conn,
    tasks: &[TaskId],
    audience: Audience,
) -> Result<Vec<Task>, DbError> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    calls::end_running(c, tasks).await?;
    let at = dialect::clock(c).await?;
    let sql = sql_with_ids!(
        c,
        concat!(
            "update tasks set status = 'cancelled', completed_at = $2, holds_slot = FALSE, parked = FALSE, retry_at = null, wait_reason = null, \
             lease_token = null, lease_until = null, worker_id = null, ",
            ends_run!("$3"),
            " where status in ('queued', 'running') and id in"
        ),
        1,
        task_sql!("returning", "")
    );
    let cancelled: Vec<Task> = c
        .q(sql)
        .bind(hexadecimal_ids(tasks.iter().map(|id| id.0)))
        .bind(at)
        .bind(at.unix_ms())
        .all()
        .await?;
    let mut by_id: HashMap<TaskId, Task> =
        cancelled.into_iter().map(|task| (task.id, task)).collect();
    let cancelled: Vec<Task> = tasks.iter().filter_map(|id| by_id.remove(id)).collect();
    close_all(c, &cancelled, audience).await?;
    Ok(cancelled)
}

/// Fails an active task from outside its worker: a link of a chain that cannot start, the root of a tree that has to stop, or a step
/// of a run. The tasks that it started and the later links of its chain are canceled.
pub async fn fail(
    c: &mut Conn,
    task: TaskId,
    error: TaskError,
    notice: Option<MessageId>,
    audience: Audience,
) -> Result<(), DbError> {
    calls::end_running(c, &[task]).await?;
    let at = dialect::clock(c).await?;
    let task: Option<Task> = c
        .q(task_sql!(
            concat!(
                "update tasks set status = 'failed', parked = FALSE, holds_slot = FALSE, retry_at = null, wait_reason = null, error = $2, \
                 notice_message_id = $3, completed_at = $4, lease_token = null, lease_until = null, worker_id = null, ",
                ends_run!("$5"),
                " where id = $1 and status in ('queued', 'running') returning"
            ),
            ""
        ))
        .bind(task)
        .bind(Json(error))
        .bind(notice)
        .bind(at)
        .bind(at.unix_ms())
        .opt()
        .await?;
    let Some(task) = task else {
        return Ok(());
    };
    let descendants = active_descendants(c, task.id).await?;
    cancel_all(c, &descendants, audience).await?;
    close_all(c, &[task], audience).await
}

/// Removes the text of a deleted message from the tasks that it triggered.
pub async fn blank_prompt(c: &mut Conn, trigger: MessageId) -> Result<(), DbError> {
    c.q("update tasks set input = $2 where trigger_message_id = $1")
        .bind(trigger)
        .bind(Json(TaskInput::default()))
        .run()
        .await?;
    Ok(())
}

/// Removes the prompt and the options of a task.
pub async fn blank_input(c: &mut Conn, task: TaskId) -> Result<(), DbError> {
    set_input(c, task, TaskInput::default()).await
}

pub async fn set_input(c: &mut Conn, task: TaskId, input: TaskInput) -> Result<(), DbError> {
    c.q("update tasks set input = $2 where id = $1")
        .bind(task)
        .bind(Json(input))
        .run()
        .await?;
    Ok(())
}

/// An ended request whose model calls were not queued, because the client waited for them.
#[derive(Debug, Clone)]
pub struct Call {
    /// ID under which its model calls were stored.
    pub id: TaskId,
    pub workspace: WorkspaceId,
    pub kind: TaskKind,
    /// Final status: `Completed`, `Failed`, or `Cancelled`.
    pub status: TaskStatus,
    pub agent: Option<(AgentId, i64)>,
    pub requested_by: UserId,
    /// Turn on a runner whose agent made the call.
    pub turn: Option<TaskId>,
    /// Number of model calls.
    pub attempt: i64,
    pub output: Option<TaskOutput>,
    pub error: Option<TaskError>,
    pub started_at: Timestamp,
}

/// Records a call as a task that has ended. The task has no conversation, so there is no event.
pub async fn record_call(c: &mut Conn, call: &Call) -> Result<(), DbError> {
    let usage = calls::token_usage_of(c, call.id).await?;
    if let Some((turn, usage)) = call.turn.zip(usage.clone()) {
        dialect::lock_workspace(c, call.workspace.0).await?;
        add_usage(c, turn, usage).await?;
    }
    let model = match &usage {
        Some(usage) => Some(usage.model.clone()),
        None => calls::running_model(c, call.id).await?,
    };
    c.q("insert into tasks (id, workspace_id, kind, status, agent_id, agent_version, requested_by, root_task_id, depth, attempt, \
         retry_counts, holds_slot, input, output, token_usage, error, queued_at, started_at, completed_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $1, 0, $8, $9, FALSE, $10, $11, $12, $13, $14, $14, $15)")
        .bind(call.id)
        .bind(call.workspace)
        .bind(call.kind)
        .bind(call.status)
        .bind(call.agent.map(|(agent, _)| agent))
        .bind(call.agent.map(|(_, version)| version))
        .bind(call.requested_by)
        .bind(call.attempt)
        .bind(Json(serde_json::json!({})))
        .bind(Json(TaskInput::default()))
        .bind(call.output.clone().map(Json))
        .bind(usage.map(Json))
        .bind(call.error.clone().map(Json))
        .bind(call.started_at)
        .bind(now())
        .run()
        .await?;
    let ended = usage::Ended {
        workspace: call.workspace,
        kind: call.kind,
        requested_by: call.requested_by,
        agent: call.agent.map(|(agent, _)| agent),
        status: call.status,
        model: model.unwrap_or_default(),
    };
    usage::count(c, &[ended]).await
}
