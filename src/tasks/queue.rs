//! The statements of the queue. Every state change appends its `task.status_changed` in the same transaction.

use std::time::Duration;

use crate::time::Timestamp;
use tokio::sync::Notify;
use uuid::Uuid;

use super::{Task, TaskError, TaskEvent, TaskInput, TaskOutput, TokenUsage};
use crate::{
    db::{Conn, DbError, Json, now},
    ids::{AgentId, ChannelId, ForkId, MessageId, TaskId, ThreadId, UserId, WorkspaceId},
    realtime::{Audience, NewEvent, log},
};

/// With so many queued in a workspace, further ones fail at once (PROTOCOL §5).
pub const QUEUED_MAX: i64 = 200;
/// How long a worker may be silent before its task is given to another (PROTOCOL §5).
pub const LEASE: Duration = Duration::from_secs(15);
/// A task whose worker was lost so often fails.
pub const LOST_MAX: i64 = 3;

/// Wakes the worker of this process when something may be due.
#[derive(Default)]
pub struct Queue {
    pub wake: Notify,
    /// How to stop what runs here.
    pub running: dashmap::DashMap<TaskId, tokio_util::sync::CancellationToken>,
}

impl Queue {
    /// Ends the model call of a task that runs in this process.
    pub fn stop(&self, task: TaskId) {
        if let Some(token) = self.running.get(&task) {
            token.cancel();
        }
    }
}

/// Something was queued; a notice for after the commit.
pub struct Wake;

macro_rules! task_sql {
    ($head:literal, $tail:literal) => {
        concat!(
            $head,
            " id, workspace_id, kind, status, agent_id, agent_version, channel_id, thread_id, fork_id, trigger_message_id, \
             reply_message_id, requested_by, retry_of, attempt, retry_at, wait_reason, input, output, token_usage, error, \
             queued_at, started_at, completed_at ",
            $tail
        )
    };
}

/// A task was cancelled; a notice for after the commit, so that its model call ends whoever cancelled it.
pub struct Stopped {
    pub workspace: WorkspaceId,
    pub task: TaskId,
}

/// A task to put into the queue.
#[derive(Debug, Clone)]
pub struct NewTask {
    pub workspace: WorkspaceId,
    pub kind: &'static str,
    pub agent: AgentId,
    pub agent_version: i64,
    pub channel: ChannelId,
    pub thread: ThreadId,
    pub fork: Option<ForkId>,
    pub trigger: Option<MessageId>,
    pub requested_by: UserId,
    pub retry_of: Option<TaskId>,
    pub prompt: String,
}

/// What a running task's writes must show; a worker that lost its lease can change nothing.
#[derive(Debug, Clone, Copy)]
pub struct Lease {
    pub workspace: WorkspaceId,
    pub task: TaskId,
    pub token: Uuid,
    pub audience: Audience,
}

/// The task was cancelled, or given to another worker.
#[derive(Debug, thiserror::Error)]
pub enum LeaseLost {
    #[error("the task is no longer this worker's")]
    Gone,
    #[error(transparent)]
    Db(#[from] DbError),
}

pub async fn queued_count(c: &mut Conn, workspace: WorkspaceId) -> Result<i64, DbError> {
    c.q("select count(*) from tasks where workspace_id = $1 and status = 'queued'")
        .bind(workspace)
        .value()
        .await
}

/// Inserts a task, queued; or failed with `queue_full` when `full`. The caller appends its event.
///
/// `None` when `retry_of` has been retried already.
pub async fn insert(
    c: &mut Conn,
    new: &NewTask,
    full: Option<&TaskError>,
) -> Result<Option<Task>, DbError> {
    let id = TaskId::new();
    let at = now();
    let place = new.fork.map_or(new.thread.0, |fork| fork.0);
    if full.is_none() {
        c.notify(Box::new(Wake));
    }
    c.q(task_sql!(
        "insert into tasks (id, workspace_id, kind, status, agent_id, agent_version, channel_id, thread_id, fork_id, place_id, \
         trigger_message_id, requested_by, retry_of, root_task_id, depth, attempt, counts, holds_place, input, error, queued_at, \
         completed_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $1, 0, 1, $14, FALSE, $15, $16, $17, $18) \
         on conflict do nothing returning",
        ""
    ))
    .bind(id)
    .bind(new.workspace)
    .bind(new.kind)
    .bind(if full.is_some() { "failed" } else { "queued" })
    .bind(new.agent)
    .bind(new.agent_version)
    .bind(new.channel)
    .bind(new.thread)
    .bind(new.fork)
    .bind(place)
    .bind(new.trigger)
    .bind(new.requested_by)
    .bind(new.retry_of)
    .bind(Json(serde_json::json!({})))
    .bind(Json(TaskInput { prompt: new.prompt.clone() }))
    .bind(full.map(|error| Json(error.clone())))
    .bind(at)
    .bind(full.map(|_| at))
    .opt()
    .await
}

pub async fn find_task(c: &mut Conn, id: TaskId) -> Result<Option<Task>, DbError> {
    c.q(task_sql!("select", "from tasks where id = $1"))
        .bind(id)
        .opt()
        .await
}

/// Tasks that a message asked for, in the order of its mentions.
pub async fn tasks_of_message(c: &mut Conn, message: MessageId) -> Result<Vec<Task>, DbError> {
    c.q(task_sql!(
        "select",
        "from tasks where trigger_message_id = $1 and retry_of is null order by id limit 16"
    ))
    .bind(message)
    .all()
    .await
}

/// Which tasks to list.
#[derive(Debug, Default)]
pub struct Filter {
    pub status: Option<String>,
    pub thread: Option<ThreadId>,
    pub agent: Option<AgentId>,
}

/// Tasks in places that `user` may see, oldest first; the last ones before `before` when that is given.
pub async fn list(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    filter: &Filter,
    (after, before): (Option<TaskId>, Option<TaskId>),
    limit: i64,
) -> Result<Vec<Task>, DbError> {
    let backwards = before.is_some();
    let q = if backwards {
        c.q(task_sql!(
            "select",
            "from tasks where workspace_id = $1 and id > $2 and id < $3 \
             and ($4 is null or status = $4) and (thread_id = $5 or $5 is null) and (agent_id = $6 or $6 is null) \
             and exists (select 1 from channels ch where ch.id = tasks.channel_id and (ch.kind = 'public' \
               or exists (select 1 from channel_members cm where cm.channel_id = ch.id and cm.user_id = $7))) \
             order by id desc limit $8"
        ))
    } else {
        c.q(task_sql!(
            "select",
            "from tasks where workspace_id = $1 and id > $2 and id < $3 \
             and ($4 is null or status = $4) and (thread_id = $5 or $5 is null) and (agent_id = $6 or $6 is null) \
             and exists (select 1 from channels ch where ch.id = tasks.channel_id and (ch.kind = 'public' \
               or exists (select 1 from channel_members cm where cm.channel_id = ch.id and cm.user_id = $7))) \
             order by id limit $8"
        ))
    };
    let mut tasks: Vec<Task> = q
        .bind(workspace)
        .bind(after.unwrap_or(TaskId(Uuid::nil())))
        .bind(before.unwrap_or(TaskId(Uuid::max())))
        .bind(filter.status.clone())
        .bind(filter.thread)
        .bind(filter.agent)
        .bind(user)
        .bind(limit)
        .all()
        .await?;
    if backwards {
        tasks.reverse();
    }
    Ok(tasks)
}

/// Queued and running tasks that `user` may see, oldest first, at most 500.
pub async fn active(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<Vec<Task>, DbError> {
    c.q(task_sql!(
        "select",
        "from tasks where workspace_id = $1 and status in ('queued', 'running') \
         and exists (select 1 from channels ch where ch.id = tasks.channel_id and (ch.kind = 'public' \
           or exists (select 1 from channel_members cm where cm.channel_id = ch.id and cm.user_id = $2))) \
         order by id limit 500"
    ))
    .bind(workspace)
    .bind(user)
    .all()
    .await
}

/// Active tasks of the threads of a channel whose `last_seq` lies between two numbers.
pub async fn active_in_threads(
    c: &mut Conn,
    channel: ChannelId,
    low: i64,
    high: i64,
) -> Result<Vec<Task>, DbError> {
    c.q(task_sql!(
        "select",
        "from tasks where status in ('queued', 'running') and channel_id = $1 \
         and thread_id in (select id from threads where channel_id = $1 and last_seq between $2 and $3) order by id limit 500"
    ))
    .bind(channel)
    .bind(low)
    .bind(high)
    .all()
    .await
}

/// Appends the task's present state under the number `seq`.
pub async fn announce_as(
    c: &mut Conn,
    seq: i64,
    task: &Task,
    audience: Audience,
) -> Result<(), DbError> {
    let event = NewEvent::new(seq, "task.status_changed", audience, &TaskEvent { task })?
        .in_place(task.thread_id, task.fork_id)
        .about(task.trigger_message_id);
    log::append(c, task.workspace_id, event).await
}

/// Appends the task's present state.
pub async fn announce(c: &mut Conn, task: &Task, audience: Audience) -> Result<(), DbError> {
    let seq = log::reserve(c, task.workspace_id, 1).await?;
    announce_as(c, seq, task, audience).await
}

/// A due task and its workspace.
#[derive(Debug, sqlx::FromRow)]
pub struct Due {
    pub id: TaskId,
    pub workspace_id: WorkspaceId,
}

/// Tasks that could run now, by fair turn between workspaces and then by age. In a place at most one of an agent
/// runs, and none overtakes one that waits for a short while.
pub async fn due(c: &mut Conn, limit: i64) -> Result<Vec<Due>, DbError> {
    c.q("select t.id, t.workspace_id from tasks t join workspaces w on w.id = t.workspace_id \
         where t.status = 'queued' and (t.retry_at is null or t.retry_at <= $1) \
           and not exists (select 1 from tasks o where o.place_id = t.place_id and o.agent_id = t.agent_id and o.id <> t.id \
             and (o.status = 'running' or (o.status = 'queued' and (o.holds_place \
               or (o.id < t.id and (o.retry_at is null or o.retry_at <= $1)))))) \
         order by w.task_turn, t.id limit $2")
        .bind(now())
        .bind(limit)
        .all()
        .await
}

/// When the next waiting task becomes due.
pub async fn next_due_at(c: &mut Conn) -> Result<Option<Timestamp>, DbError> {
    c.q("select min(retry_at) from tasks where status = 'queued' and retry_at > $1")
        .bind(now())
        .value()
        .await
}

/// Where the events of a task's place go.
pub async fn audience_of(c: &mut Conn, channel: ChannelId) -> Result<Audience, DbError> {
    let kind: String = c
        .q("select kind from channels where id = $1")
        .bind(channel)
        .value()
        .await?;
    Ok(if kind == "public" {
        Audience::Public(channel)
    } else {
        Audience::Members(channel)
    })
}

/// Takes a due task for `worker`; `None` when another was faster or it is no longer due.
pub async fn claim(
    c: &mut Conn,
    due: &Due,
    worker: Uuid,
) -> Result<Option<(Task, Lease)>, DbError> {
    crate::db::dialect::lock_workspace(c, due.workspace_id.0).await?;
    let at = now();
    let token = Uuid::now_v7();
    let task: Option<Task> = c
        .q(task_sql!(
            "update tasks set status = 'running', worker_id = $2, lease_token = $3, lease_until = $4, retry_at = null, \
             wait_reason = null, holds_place = TRUE, started_at = coalesce(started_at, $5) \
             where id = $1 and status = 'queued' and (retry_at is null or retry_at <= $5) \
               and not exists (select 1 from tasks o where o.place_id = tasks.place_id and o.agent_id = tasks.agent_id \
                 and o.id <> tasks.id and (o.status = 'running' or (o.status = 'queued' and (o.holds_place \
                   or (o.id < tasks.id and (o.retry_at is null or o.retry_at <= $5)))))) \
             returning",
            ""
        ))
        .bind(due.id)
        .bind(worker)
        .bind(token)
        .bind(at + LEASE)
        .bind(at)
        .opt()
        .await?;
    let Some(task) = task else { return Ok(None) };
    c.q("update workspaces set task_turn = (select max(task_turn) from workspaces) + 1 where id = $1")
        .bind(due.workspace_id)
        .run()
        .await?;
    let audience = audience_of(c, task.channel_id).await?;
    announce(c, &task, audience).await?;
    let lease = Lease {
        workspace: task.workspace_id,
        task: task.id,
        token,
        audience,
    };
    Ok(Some((task, lease)))
}

/// Prolongs a lease.
///
/// # Errors
/// `Gone` when the task is no longer this worker's.
pub async fn renew(c: &mut Conn, lease: &Lease) -> Result<(), LeaseLost> {
    let n = c
        .q("update tasks set lease_until = $3 where id = $1 and lease_token = $2 and status = 'running'")
        .bind(lease.task)
        .bind(lease.token)
        .bind(now() + LEASE)
        .run()
        .await?;
    if n == 1 { Ok(()) } else { Err(LeaseLost::Gone) }
}

/// Checks a lease inside a transaction that writes for its task.
///
/// # Errors
/// `Gone` when the task is no longer this worker's.
pub async fn hold(c: &mut Conn, lease: &Lease) -> Result<Task, LeaseLost> {
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

/// How a running task ends.
#[derive(Debug, Clone)]
pub enum End {
    Completed {
        output: TaskOutput,
        usage: TokenUsage,
    },
    Failed {
        error: TaskError,
        notice: Option<MessageId>,
    },
}

/// Ends a running task and appends the event. The caller has checked the lease in this transaction.
pub async fn finish(c: &mut Conn, lease: &Lease, end: &End) -> Result<Task, DbError> {
    let (status, output, usage, error, notice) = match end {
        End::Completed { output, usage } => (
            "completed",
            Some(Json(output.clone())),
            Some(Json(usage.clone())),
            None,
            None,
        ),
        End::Failed { error, notice } => ("failed", None, None, Some(Json(error.clone())), *notice),
    };
    let task: Task = c
        .q(task_sql!(
            "update tasks set status = $3, output = $4, token_usage = $5, error = $6, notice_message_id = $7, completed_at = $8, \
             holds_place = FALSE, lease_token = null, lease_until = null, worker_id = null \
             where id = $1 and lease_token = $2 returning",
            ""
        ))
        .bind(lease.task)
        .bind(lease.token)
        .bind(status)
        .bind(output)
        .bind(usage)
        .bind(error)
        .bind(notice)
        .bind(now())
        .one()
        .await?;
    announce(c, &task, lease.audience).await?;
    c.notify(Box::new(Wake));
    Ok(task)
}

/// Puts a running task back until `retry_at`, with what has been counted so far. It keeps its place only for a short wait.
pub async fn put_back(
    c: &mut Conn,
    lease: &Lease,
    counts: serde_json::Value,
    retry_at: Timestamp,
    reason: &'static str,
    keeps_place: bool,
) -> Result<Task, DbError> {
    let task: Task = c
        .q(task_sql!(
            "update tasks set status = 'queued', retry_at = $3, wait_reason = $4, holds_place = $5, counts = $6, \
             attempt = attempt + 1, lease_token = null, lease_until = null, worker_id = null \
             where id = $1 and lease_token = $2 returning",
            ""
        ))
        .bind(lease.task)
        .bind(lease.token)
        .bind(retry_at)
        .bind(reason)
        .bind(keeps_place)
        .bind(Json(counts))
        .one()
        .await?;
    announce(c, &task, lease.audience).await?;
    c.notify(Box::new(Wake));
    Ok(task)
}

/// Puts a running task back at once: its process shuts down. Not counted as lost.
pub async fn hand_over(c: &mut Conn, lease: &Lease) -> Result<Option<Task>, DbError> {
    crate::db::dialect::lock_workspace(c, lease.workspace.0).await?;
    let task: Option<Task> = c
        .q(task_sql!(
            "update tasks set status = 'queued', attempt = attempt + 1, lease_token = null, lease_until = null, worker_id = null \
             where id = $1 and lease_token = $2 and status = 'running' returning",
            ""
        ))
        .bind(lease.task)
        .bind(lease.token)
        .opt()
        .await?;
    if let Some(task) = &task {
        announce(c, task, lease.audience).await?;
    }
    Ok(task)
}

/// Notes that another model call begins within this run.
pub async fn next_attempt(
    c: &mut Conn,
    lease: &Lease,
    counts: serde_json::Value,
) -> Result<i64, LeaseLost> {
    let row: Option<(i64,)> = c
        .q("update tasks set attempt = attempt + 1, counts = $3 where id = $1 and lease_token = $2 and status = 'running' returning attempt")
        .bind(lease.task)
        .bind(lease.token)
        .bind(Json(counts))
        .opt()
        .await?;
    row.map(|row| row.0).ok_or(LeaseLost::Gone)
}

/// What has been counted for the task so far: the JSON that `put_back` was given.
pub async fn counts_of(c: &mut Conn, task: TaskId) -> Result<serde_json::Value, DbError> {
    let counts: Json<serde_json::Value> = c
        .q("select counts from tasks where id = $1")
        .bind(task)
        .value()
        .await?;
    Ok(counts.0)
}

/// Cancels a task that has not ended. `None` when it has; then nothing is changed. Appends the event.
pub async fn cancel(
    c: &mut Conn,
    task: TaskId,
    audience: Audience,
) -> Result<Option<Task>, DbError> {
    let task: Option<Task> = c
        .q(task_sql!(
            "update tasks set status = 'cancelled', completed_at = $2, holds_place = FALSE, retry_at = null, wait_reason = null, \
             lease_token = null, lease_until = null, worker_id = null \
             where id = $1 and status in ('queued', 'running') returning",
            ""
        ))
        .bind(task)
        .bind(now())
        .opt()
        .await?;
    if let Some(task) = &task {
        announce(c, task, audience).await?;
        c.notify(Box::new(Stopped {
            workspace: task.workspace_id,
            task: task.id,
        }));
        c.notify(Box::new(Wake));
    }
    Ok(task)
}

/// A task whose lease has run out.
#[derive(Debug, sqlx::FromRow)]
pub struct Lost {
    pub id: TaskId,
    pub workspace_id: WorkspaceId,
    pub lease_token: Uuid,
    pub channel_id: ChannelId,
}

pub async fn lost(c: &mut Conn) -> Result<Vec<Lost>, DbError> {
    c.q("select id, workspace_id, lease_token, channel_id from tasks where status = 'running' and lease_until < $1 order by lease_until limit 100")
        .bind(now())
        .all()
        .await
}

/// Puts a lost task back, counting the loss; `false` when it was lost for the last time and the caller has to fail it.
///
/// # Errors
/// `Gone` when its worker has come back meanwhile.
pub async fn recover(c: &mut Conn, lease: &Lease) -> Result<bool, LeaseLost> {
    crate::db::dialect::lock_workspace(c, lease.workspace.0).await?;
    let row: Option<(Json<serde_json::Value>,)> = c
        .q("select counts from tasks where id = $1 and lease_token = $2 and status = 'running' and lease_until < $3")
        .bind(lease.task)
        .bind(lease.token)
        .bind(now())
        .opt()
        .await?;
    let Some((Json(mut counts),)) = row else {
        return Err(LeaseLost::Gone);
    };
    let lost = counts
        .get("lost")
        .and_then(serde_json::Value::as_i64)
        .unwrap_or(0)
        + 1;
    counts["lost"] = lost.into();
    if lost >= LOST_MAX {
        return Ok(false);
    }
    let task: Task = c
        .q(task_sql!(
            "update tasks set status = 'queued', attempt = attempt + 1, counts = $2, lease_token = null, lease_until = null, \
             worker_id = null where id = $1 returning",
            ""
        ))
        .bind(lease.task)
        .bind(Json(counts))
        .one()
        .await?;
    announce(c, &task, lease.audience).await?;
    c.notify(Box::new(Wake));
    metrics::counter!("openvibe_task_leases_lost_total").increment(1);
    Ok(true)
}

/// Notes which message is the task's reply.
pub async fn set_reply(c: &mut Conn, task: TaskId, message: MessageId) -> Result<(), DbError> {
    c.q("update tasks set reply_message_id = $2 where id = $1")
        .bind(task)
        .bind(message)
        .run()
        .await?;
    Ok(())
}

/// Reply and notice that a task left.
pub async fn left_behind(
    c: &mut Conn,
    task: TaskId,
) -> Result<(Option<MessageId>, Option<MessageId>, Option<TaskId>), DbError> {
    c.q("select reply_message_id, notice_message_id, retry_of from tasks where id = $1")
        .bind(task)
        .one()
        .await
}

pub async fn set_notice(c: &mut Conn, task: TaskId, message: MessageId) -> Result<(), DbError> {
    c.q("update tasks set notice_message_id = $2 where id = $1")
        .bind(task)
        .bind(message)
        .run()
        .await?;
    Ok(())
}

/// Takes a deleted message's text out of the tasks that it asked for.
pub async fn blank_prompt(c: &mut Conn, trigger: MessageId) -> Result<(), DbError> {
    c.q("update tasks set input = $2 where trigger_message_id = $1")
        .bind(trigger)
        .bind(Json(TaskInput {
            prompt: String::new(),
        }))
        .run()
        .await?;
    Ok(())
}

/// Tasks that a message asked for and that have not ended.
pub async fn active_of_trigger(c: &mut Conn, trigger: MessageId) -> Result<Vec<Task>, DbError> {
    c.q(task_sql!("select", "from tasks where trigger_message_id = $1 and status in ('queued', 'running') order by id limit 32"))
        .bind(trigger)
        .all()
        .await
}

/// The running or queued task whose reply the message is.
pub async fn active_of_reply(
    c: &mut Conn,
    thread: ThreadId,
    reply: MessageId,
) -> Result<Option<Task>, DbError> {
    c.q(task_sql!("select", "from tasks where thread_id = $1 and reply_message_id = $2 and status in ('queued', 'running') limit 1"))
        .bind(thread)
        .bind(reply)
        .opt()
        .await
}

/// Where the database belongs to this process alone: whatever was running when it starts has lost its worker.
pub async fn expire_leases(c: &mut Conn) -> Result<u64, DbError> {
    c.q("update tasks set lease_until = $1 where status = 'running' and lease_until > $1")
        .bind(now())
        .run()
        .await
}

/// A piece of work that was done on behalf of a task and is over.
#[derive(Debug, Clone)]
pub struct Done {
    pub kind: &'static str,
    pub usage: Option<TokenUsage>,
    pub error: Option<TaskError>,
    pub started_at: Timestamp,
}

/// Records work done for `parent` as a task of its own, and appends its one event.
pub async fn record(
    c: &mut Conn,
    parent: &Task,
    audience: Audience,
    done: &Done,
) -> Result<(), DbError> {
    let task: Task = c
        .q(task_sql!(
            "insert into tasks (id, workspace_id, kind, status, agent_id, agent_version, channel_id, thread_id, fork_id, place_id, \
             requested_by, parent_task_id, root_task_id, depth, attempt, counts, holds_place, input, token_usage, error, queued_at, \
             started_at, completed_at) \
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12, 1, 1, $13, FALSE, $14, $15, $16, $17, $17, $18) returning",
            ""
        ))
        .bind(TaskId::new())
        .bind(parent.workspace_id)
        .bind(done.kind)
        .bind(if done.error.is_some() { "failed" } else { "completed" })
        .bind(parent.agent_id)
        .bind(parent.agent_version)
        .bind(parent.channel_id)
        .bind(parent.thread_id)
        .bind(parent.fork_id)
        .bind(parent.fork_id.map_or(parent.thread_id.0, |fork| fork.0))
        .bind(parent.requested_by)
        .bind(parent.id)
        .bind(Json(serde_json::json!({})))
        .bind(Json(TaskInput { prompt: String::new() }))
        .bind(done.usage.clone().map(Json))
        .bind(done.error.clone().map(Json))
        .bind(done.started_at)
        .bind(now())
        .one()
        .await?;
    announce(c, &task, audience).await
}
