//! Selects the next task to run, and recovers tasks from lost workers.

use std::{collections::HashSet, time::Duration};

use crate::time::Timestamp;
use uuid::Uuid;

use super::{LOST_MAX, Lease, LeaseLost, Wake, announce, audience_in, lease_length};
use crate::tasks::{Task, TaskTarget, calls};
use crate::{
    db::{Conn, DbError, Json, dialect},
    ids::{AgentId, ChannelId, ForkId, TaskId, ThreadId, WorkspaceId},
    sql_with_texts,
    tasks::TaskKind,
};

/// Maximum number of tasks of a tree that run at once.
const RUNNING_IN_TREE_MAX: i64 = 5;

/// Condition for tasks that take turns in their conversation: foreground tasks that reply themselves. Delegated tasks,
/// collaborations, and runs with their conditions do not, so they take no turn, and trees cannot block each other.
macro_rules! takes_turns {
    ($task:literal) => {
        concat!(
            "(",
            $task,
            ".lane = 'foreground' and ",
            $task,
            ".kind not in ('delegate', 'collaborate', 'utility', 'workflow'))"
        )
    };
}

/// Condition for queued tasks whose turn it is: no other task of the same agent in the same conversation is running or comes
/// first. A task that keeps its turn during a short wait, or while it waits for a runner, comes first, even if an older task was parked and
/// is due again.
macro_rules! has_turn {
    ($task:literal, $now:literal) => {
        concat!(
            "(not ",
            takes_turns!($task),
            " or not exists (select 1 from tasks o where o.conversation_id = ",
            $task,
            ".conversation_id and o.agent_id = ",
            $task,
            ".agent_id and ",
            takes_turns!("o"),
            " and o.id <> ",
            $task,
            ".id and (o.status = 'running' or (not ",
            $task,
            ".holds_slot and o.status = 'queued' and (o.holds_slot or (not o.parked and o.id < ",
            $task,
            ".id and (o.retry_at is null or o.retry_at <= ",
            $now,
            ")))))))"
        )
    };
}

/// A due task and its workspace.
#[derive(Debug, sqlx::FromRow)]
pub struct Due {
    pub id: TaskId,
    pub workspace_id: WorkspaceId,
}

/// Maximum concurrent tasks of one worker for one workspace, and for one person across workspaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shares {
    workspace: i64,
    person: i64,
}

impl Shares {
    /// Three quarters of the slots for a workspace and half for a person, so that nobody can occupy all slots of a worker.
    fn of(slots: usize) -> Self {
        let share = |part: usize| i64::try_from(part.max(1)).unwrap_or(i64::MAX);
        Self {
            workspace: share(slots * 3 / 4),
            person: share(slots / 2),
        }
    }
}

/// Number of workspaces on the server: one, or several that share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tenancy {
    Single,
    Shared,
}

pub async fn tenancy(c: &mut Conn) -> Result<Tenancy, DbError> {
    let workspaces: i64 = c
        .q("select count(*) from (select id from workspaces limit 2) some_workspaces")
        .value()
        .await?;
    Ok(if workspaces > 1 {
        Tenancy::Shared
    } else {
        Tenancy::Single
    })
}

/// A worker that claims tasks.
#[derive(Debug, Clone, Copy)]
pub struct Claimer {
    pub worker: Uuid,
    /// `None` on a server with a single workspace, which can use all slots.
    shares: Option<Shares>,
    /// Maximum number of concurrent background tasks: half of the slots.
    background_max: i64,
}

impl Claimer {
    pub fn new(worker: Uuid, slots: usize, tenancy: Tenancy) -> Self {
        Self {
            worker,
            shares: (tenancy == Tenancy::Shared).then(|| Shares::of(slots)),
            background_max: i64::try_from((slots / 2).max(1)).unwrap_or(i64::MAX),
        }
    }

    fn workspace_max(self) -> i64 {
        self.shares.map_or(i64::MAX, |shares| shares.workspace)
    }

    fn person_max(self) -> i64 {
        self.shares.map_or(i64::MAX, |shares| shares.person)
    }
}

/// Returns the part of a share that background tasks can use, so that replies do not wait for them.
fn half(share: i64) -> i64 {
    (share / 2).max(1)
}

/// Tasks that this worker can run now. Foreground tasks come first; within a lane, tasks of workspaces for which the worker runs
/// nothing come first, then those of the workspace with the least recent claim, then the oldest ones. At most one task per agent runs
/// in a conversation, no child starts while five tasks of its tree are running, and no task overtakes one that keeps its turn during
/// a short wait. Tasks of kinds that only a newer version knows are left to nodes of that version.
pub async fn due(c: &mut Conn, claimer: Claimer, limit: i64) -> Result<Vec<Due>, DbError> {
    let at = dialect::clock(c).await?;
    let sql = sql_with_texts!(
        c,
        "select t.id, t.workspace_id from tasks t join workspaces w on w.id = t.workspace_id \
         left join (select workspace_id, count(*) as running from tasks \
           where status = 'running' and worker_id = $3 group by workspace_id) of_workspace on of_workspace.workspace_id = t.workspace_id \
         left join (select requested_by, count(*) as running from tasks \
           where status = 'running' and worker_id = $3 group by requested_by) of_person on of_person.requested_by = t.requested_by \
         where t.status = 'queued' and not t.parked and (t.retry_at is null or t.retry_at <= $1) \
           and coalesce(of_workspace.running, 0) < case t.lane when 'foreground' then $4 else $7 end \
           and coalesce(of_person.running, 0) < case t.lane when 'foreground' then $5 else $8 end \
           and (t.lane = 'foreground' or $6 > (select count(*) from tasks b where b.status = 'running' and b.worker_id = $3 \
             and b.lane = 'background')) \
           and (t.parent_task_id is null or $9 > (select count(*) from tasks r where r.root_task_id = t.root_task_id and r.status = 'running')) \
           and t.kind in",
        10,
        concat!(
            "and ",
            has_turn!("t", "$1"),
            " \
         order by case t.lane when 'foreground' then 0 else 1 end, case when of_workspace.running is null then 0 else 1 end, w.last_claim, t.id limit $2"
        )
    );
    c.q(sql)
        .bind(at)
        .bind(limit)
        .bind(claimer.worker)
        .bind(claimer.workspace_max())
        .bind(claimer.person_max())
        .bind(claimer.background_max)
        .bind(half(claimer.workspace_max()))
        .bind(half(claimer.person_max()))
        .bind(RUNNING_IN_TREE_MAX)
        .bind(known_kinds())
        .all()
        .await
}

/// Kinds of tasks that this version can run. A newer node that shares the database can queue others.
fn known_kinds() -> Json<&'static [TaskKind]> {
    Json(TaskKind::ALL)
}

/// Time until the next waiting task becomes due; `None` if no task waits.
pub async fn next_due_in(c: &mut Conn) -> Result<Option<Duration>, DbError> {
    let at = dialect::clock(c).await?;
    let next: Option<Timestamp> = c
        .q("select min(retry_at) from tasks where status = 'queued' and retry_at > $1")
        .bind(at)
        .value()
        .await?;
    Ok(next.map(|next| next.since(at)))
}

/// Claims a due task for a worker. Returns `None` if another worker was faster, the task is no
/// longer due, or a share is used up.
pub async fn claim(
    c: &mut Conn,
    due: &Due,
    claimer: Claimer,
) -> Result<Option<(Task, Lease)>, DbError> {
    dialect::lock_workspace(c, due.workspace_id.0).await?;
    let at = dialect::clock(c).await?;
    let token = Uuid::now_v7();
    let task: Option<Task> = c
        .q(task_sql!(
            concat!("update tasks set status = 'running', worker_id = $2, lease_token = $3, lease_until = $4, retry_at = null, \
             wait_reason = null, holds_slot = TRUE, started_at = coalesce(started_at, $5), run_since = $11 \
             where id = $1 and status = 'queued' and not parked and (retry_at is null or retry_at <= $5) \
               and ", has_turn!("tasks", "$5"), " \
               and (select count(*) from tasks r where r.status = 'running' and r.worker_id = $2 \
                 and r.workspace_id = tasks.workspace_id) < case lane when 'foreground' then $6 else $9 end \
               and (select count(*) from tasks r where r.status = 'running' and r.worker_id = $2 \
                 and r.requested_by = tasks.requested_by) < case lane when 'foreground' then $7 else $10 end \
               and (lane = 'foreground' or (select count(*) from tasks b where b.status = 'running' and b.worker_id = $2 \
                 and b.lane = 'background') < $8) \
               and (parent_task_id is null or (select count(*) from tasks r where r.root_task_id = tasks.root_task_id \
                 and r.status = 'running') < $12) \
             returning"),
            ""
        ))
        .bind(due.id)
        .bind(claimer.worker)
        .bind(token)
        .bind(at + lease_length())
        .bind(at)
        .bind(claimer.workspace_max())
        .bind(claimer.person_max())
        .bind(claimer.background_max)
        .bind(half(claimer.workspace_max()))
        .bind(half(claimer.person_max()))
        .bind(at.unix_ms())
        .bind(RUNNING_IN_TREE_MAX)
        .opt()
        .await?;
    let started = announce_start(c, task, token).await?;
    if started.is_some() {
        c.q("update workspaces set last_claim = (select max(last_claim) from workspaces) + 1 where id = $1")
            .bind(due.workspace_id)
            .run()
            .await?;
    }
    Ok(started)
}

/// Announces a task that was just started, and returns it with its lease.
async fn announce_start(
    c: &mut Conn,
    task: Option<Task>,
    token: Uuid,
) -> Result<Option<(Task, Lease)>, DbError> {
    let Some(task) = task else {
        return Ok(None);
    };
    let target = task.queued_target();
    let audience = audience_in(c, task.channel_id).await?;
    announce(c, &task, audience).await?;
    let lease = Lease {
        workspace: task.workspace_id,
        task: task.id,
        token,
        audience,
        target,
    };
    Ok(Some((task, lease)))
}

/// Starts a queued task for a caller that waits for it, without occupying a slot of a worker. Returns `None` if the task has already
/// started, is waiting for a retry, or has ended.
pub async fn take(
    c: &mut Conn,
    id: TaskId,
    time_max: Duration,
) -> Result<Option<(Task, Lease)>, DbError> {
    let at = dialect::clock(c).await?;
    let token = Uuid::now_v7();
    let task: Option<Task> = c
        .q(task_sql!(
            "update tasks set status = 'running', worker_id = null, lease_token = $2, lease_until = $3, retry_at = null, wait_reason = null, \
             started_at = coalesce(started_at, $4), run_since = $5 where id = $1 and status = 'queued' and not parked and (retry_at is null or retry_at <= $4) returning",
            ""
        ))
        .bind(id)
        .bind(token)
        .bind(at + time_max)
        .bind(at)
        .bind(at.unix_ms())
        .opt()
        .await?;
    announce_start(c, task, token).await
}

/// A task whose lease has expired.
#[derive(Debug, sqlx::FromRow)]
pub struct Lost {
    pub id: TaskId,
    pub workspace_id: WorkspaceId,
    pub lease_token: Uuid,
    pub kind: TaskKind,
    pub agent_id: Option<AgentId>,
    pub agent_version: Option<i64>,
    pub channel_id: Option<ChannelId>,
    pub thread_id: ThreadId,
    pub fork_id: Option<ForkId>,
}

impl Lost {
    pub fn target(&self) -> TaskTarget {
        TaskTarget::of_queued(
            self.agent_id.zip(self.agent_version),
            self.channel_id,
            self.thread_id,
            self.fork_id,
        )
    }
}

pub async fn lost(c: &mut Conn) -> Result<Vec<Lost>, DbError> {
    let at = dialect::clock(c).await?;
    // For a task whose thread does not exist yet, the UUID of its root task is the thread ID, as in `Task::queued_target`.
    let sql = sql_with_texts!(
        c,
        "select id, workspace_id, lease_token, kind, agent_id, agent_version, channel_id, coalesce(thread_id, root_task_id) as thread_id, \
         nullif(conversation_id, thread_id) as fork_id from tasks where status = 'running' and lease_until < $1 and kind in",
        2,
        "order by lease_until limit 100"
    );
    c.q(sql).bind(at).bind(known_kinds()).all().await
}

/// Requeues a lost task and counts the loss. Returns `false` if the task was lost too often; the caller must then fail it.
///
/// # Errors
/// `Gone` if its worker has returned in the meantime.
pub async fn recover(c: &mut Conn, lease: &Lease) -> Result<bool, LeaseLost> {
    dialect::lock_workspace(c, lease.workspace.0).await?;
    let at = dialect::clock(c).await?;
    let row: Option<(Json<serde_json::Value>, Timestamp)> = c
        .q("select retry_counts, lease_until from tasks where id = $1 and lease_token = $2 and status = 'running' and lease_until < $3")
        .bind(lease.task)
        .bind(lease.token)
        .bind(at)
        .opt()
        .await?;
    let Some((Json(mut counts), lease_until)) = row else {
        return Err(LeaseLost::Gone);
    };
    let lost = counts
        .get("lost")
        .and_then(serde_json::Value::as_i64)
        .unwrap_or(0)
        + 1;
    counts["lost"] = lost.into();
    calls::close_lost(c, lease.task).await?;
    // The time since the lease expired does not count as run time.
    c.q(concat!(
        "update tasks set ",
        ends_run!("$2"),
        " where id = $1"
    ))
    .bind(lease.task)
    .bind(lease_until.unix_ms())
    .run()
    .await?;
    if lost >= LOST_MAX {
        return Ok(false);
    }
    let task: Task = c
        .q(task_sql!(
            "update tasks set status = 'queued', attempt = attempt + 1, retry_counts = $2, lease_token = null, lease_until = null, \
             worker_id = null where id = $1 returning",
            ""
        ))
        .bind(lease.task)
        .bind(Json(counts))
        .one()
        .await?;
    announce(c, &task, lease.audience).await?;
    c.notify(Box::new(Wake));
    Ok(true)
}

/// Expires leases at startup, because the running tasks of this node (`worker`), or of all nodes if `worker` is `None`, have lost
/// their worker.
pub async fn expire_leases(c: &mut Conn, worker: Option<Uuid>) -> Result<u64, DbError> {
    let at = dialect::clock(c).await?;
    c.q("update tasks set lease_until = $1 where status = 'running' and lease_until > $1 and ($2 is null or worker_id = $2)")
        .bind(at)
        .bind(worker)
        .run()
        .await
}

/// Returns which of the given tasks are running, with their current lease tokens.
pub async fn owned(
    c: &mut Conn,
    tasks: impl Iterator<Item = TaskId>,
) -> Result<HashSet<(TaskId, Uuid)>, DbError> {
    let rows: Vec<(TaskId, Uuid)> = c
        .q(crate::sql_with_ids!(
            c,
            "select id, lease_token from tasks where status = 'running' and lease_token is not null and id in",
            1,
            ""
        ))
        .bind(dialect::hexadecimal_ids(tasks.map(|id| id.0)))
        .all()
        .await?;
    Ok(rows.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_gets_three_quarters_of_the_slots_and_a_user_half_but_at_least_one() {
        let shares = |workspace, person| Shares { workspace, person };
        for (slots, expected) in [
            (16, shares(12, 8)),
            (4, shares(3, 2)),
            (3, shares(2, 1)),
            (2, shares(1, 1)),
            (1, shares(1, 1)),
        ] {
            assert_eq!(Shares::of(slots), expected, "{slots} places");
        }
    }
}
