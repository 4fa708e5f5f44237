//! Parked tasks: queued, but waiting for people or for another task. They are not due, occupy no worker, take no turn, and do not
//! count toward the queue limit.

use super::{Lease, Wake, announce, counts_of};
use crate::{
    db::{Conn, DbError, Json, dialect, is_reader},
    ids::WorkspaceId,
    tasks::{Task, WaitReason},
};

/// Number of tasks in a workspace that are parked for approvals, except for runs, which have their own limit and also wait for
/// forks.
pub async fn count_parked(c: &mut Conn, workspace: WorkspaceId) -> Result<i64, DbError> {
    c.q("select count(*) from tasks where workspace_id = $1 and status = 'queued' and parked and wait_reason = 'approval' \
         and kind <> 'workflow'")
        .bind(workspace)
        .value()
        .await
}

/// Tasks whose requester can no longer read the conversation, and therefore cannot decide: those parked for approvals, and those that a
/// machine outside of the server works on or should, which can ask the requester at any time.
pub async fn list_left(c: &mut Conn, limit: i64) -> Result<Vec<Task>, DbError> {
    let mut left: Vec<Task> = c
        .q(task_sql!(
            "select",
            concat!(
                "from tasks t where t.parked and t.status = 'queued' and t.wait_reason in ('approval', 'runner') and t.channel_id is not null \
                 and not ",
                is_reader!("t.workspace_id", "t.channel_id", "t.requested_by"),
                " order by t.id limit $1"
            )
        ))
        .bind(limit)
        .all()
        .await?;
    let outside: Vec<Task> = c
        .q(task_sql!(
            "select",
            concat!(
                "from tasks t where t.status = 'running' and t.lease_until is null and t.worker_id is null and t.channel_id is not null and not ",
                is_reader!("t.workspace_id", "t.channel_id", "t.requested_by"),
                " order by t.lease_until, t.id limit $1"
            )
        ))
        .bind(limit)
        .all()
        .await?;
    left.extend(outside);
    Ok(left)
}

/// Parks a running task for the given reason, and stores the run time of its rounds. The caller must have checked the lease in
/// this transaction.
pub async fn park(
    c: &mut Conn,
    lease: &Lease,
    ran_ms: u64,
    reason: WaitReason,
) -> Result<Task, DbError> {
    let mut counts = counts_of(c, lease.task).await?;
    counts["ran_ms"] = ran_ms.into();
    let at = dialect::clock(c).await?;
    let task: Task = c
        .q(task_sql!(
            concat!(
                "update tasks set status = 'queued', parked = TRUE, holds_slot = FALSE, retry_at = null, wait_reason = $3, \
                 retry_counts = $4, lease_token = null, lease_until = null, worker_id = null, ",
                ends_run!("$5"),
                " where id = $1 and lease_token = $2 returning"
            ),
            ""
        ))
        .bind(lease.task)
        .bind(lease.token)
        .bind(reason)
        .bind(Json(counts))
        .bind(at.unix_ms())
        .one()
        .await?;
    announce(c, &task, lease.audience).await?;
    // Another task can now take the turn in the conversation.
    c.notify(Box::new(Wake));
    Ok(task)
}
