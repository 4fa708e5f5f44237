//! Tasks that a machine outside of the server works on. They have no worker and no time at which their lease ends: the connection of the
//! machine is the lease, and whoever watches it parks the task again.

use uuid::Uuid;

use super::{Lease, Wake, announce, audience_in};
use crate::{
    db::{Conn, DbError, dialect},
    ids::TaskId,
    tasks::{Task, TaskStatus, WaitReason},
};

/// Parks a running task until a machine has begun with it. It keeps its turn in the conversation. The caller must have checked the lease
/// in this transaction.
pub async fn park_outside(c: &mut Conn, lease: &Lease) -> Result<Task, DbError> {
    let at = dialect::clock(c).await?;
    let task: Task = c
        .q(task_sql!(
            concat!(
                "update tasks set status = $3, parked = TRUE, holds_slot = TRUE, retry_at = null, wait_reason = $4, lease_token = null, \
                 lease_until = null, worker_id = null, ",
                ends_run!("$5"),
                " where id = $1 and lease_token = $2 returning"
            ),
            ""
        ))
        .bind(lease.task)
        .bind(lease.token)
        .bind(TaskStatus::Queued)
        .bind(WaitReason::Runner)
        .bind(at.unix_ms())
        .one()
        .await?;
    announce(c, &task, lease.audience).await?;
    c.notify(Box::new(Wake));
    Ok(task)
}

/// Starts a task that waits for a machine. Returns `None` if it does not wait for one.
pub async fn begin_outside(c: &mut Conn, task: TaskId) -> Result<Option<Task>, DbError> {
    let at = dialect::clock(c).await?;
    let begun: Option<Task> = c
        .q(task_sql!(
            "update tasks set status = $2, parked = FALSE, wait_reason = null, lease_token = $3, lease_until = null, worker_id = null, \
             started_at = coalesce(started_at, $4), run_since = $5 \
             where id = $1 and status = $6 and parked and wait_reason = $7 returning",
            ""
        ))
        .bind(task)
        .bind(TaskStatus::Running)
        .bind(Uuid::now_v7())
        .bind(at)
        .bind(at.unix_ms())
        .bind(TaskStatus::Queued)
        .bind(WaitReason::Runner)
        .opt()
        .await?;
    if let Some(task) = &begun {
        let audience = audience_in(c, task.channel_id).await?;
        announce(c, task, audience).await?;
    }
    Ok(begun)
}

/// Parks a running task again, because its machine is away. Returns `None` if it does not run outside.
pub async fn lose_outside(c: &mut Conn, task: TaskId) -> Result<Option<Task>, DbError> {
    let at = dialect::clock(c).await?;
    let lost: Option<Task> = c
        .q(task_sql!(
            concat!(
                "update tasks set status = $2, parked = TRUE, holds_slot = TRUE, wait_reason = $3, lease_token = null, ",
                ends_run!("$4"),
                " where id = $1 and status = $5 and worker_id is null and lease_until is null returning"
            ),
            ""
        ))
        .bind(task)
        .bind(TaskStatus::Queued)
        .bind(WaitReason::Runner)
        .bind(at.unix_ms())
        .bind(TaskStatus::Running)
        .opt()
        .await?;
    if let Some(task) = &lost {
        let audience = audience_in(c, task.channel_id).await?;
        announce(c, task, audience).await?;
    }
    Ok(lost)
}

/// The lease of a task that runs outside; `None` if it does not.
pub async fn find_outside_lease(c: &mut Conn, task: &Task) -> Result<Option<Lease>, DbError> {
    let row: Option<(Uuid,)> = c
        .q("select lease_token from tasks where id = $1 and status = $2 and lease_token is not null and lease_until is null")
        .bind(task.id)
        .bind(TaskStatus::Running)
        .opt()
        .await?;
    let Some(((token,), target)) = row.zip(task.target()) else {
        return Ok(None);
    };
    Ok(Some(Lease {
        workspace: task.workspace_id,
        task: task.id,
        token,
        audience: audience_in(c, task.channel_id).await?,
        target,
    }))
}
