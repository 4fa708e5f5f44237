//! Parked tasks: queued, but waiting for people or for another task. They are not due, have no worker, take no turn, and do
//! not count toward the limit of the queue.

use super::{Lease, Wake, announce, announce_as, counts_of, insert::count};
use crate::{
    db::{Conn, DbError, Json, is_reader, now},
    ids::{MessageId, TaskId, WorkspaceId},
    realtime::{Audience, log},
    tasks::{Task, TaskError, WaitReason, actions},
};

/// Number of tasks in a workspace that are parked for approvals.
pub async fn count_parked(c: &mut Conn, workspace: WorkspaceId) -> Result<i64, DbError> {
    c.q("select count(*) from tasks where workspace_id = $1 and status = 'queued' and parked and wait_reason = 'approval'")
        .bind(workspace)
        .value()
        .await
}

/// Tasks parked for approvals whose requester can no longer read their conversation, and so cannot decide.
pub async fn list_left(c: &mut Conn, limit: i64) -> Result<Vec<Task>, DbError> {
    c.q(task_sql!(
        "select",
        concat!(
            "from tasks t where t.parked and t.status = 'queued' and t.wait_reason = 'approval' and t.channel_id is not null and not ",
            is_reader!("t.workspace_id", "t.channel_id", "t.requested_by"),
            " order by t.id limit $1"
        )
    ))
    .bind(limit)
    .all()
    .await
}

/// Parks a running task until people have decided about its actions, and stores how long its rounds ran. The caller has checked the
/// lease in this transaction.
pub async fn park(c: &mut Conn, lease: &Lease, ran_ms: u64) -> Result<Task, DbError> {
    let mut counts = counts_of(c, lease.task).await?;
    counts["ran_ms"] = ran_ms.into();
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
        .bind(WaitReason::Approval)
        .bind(Json(counts))
        .bind(now().unix_ms())
        .one()
        .await?;
    announce(c, &task, lease.audience).await?;
    // Its turn in the conversation is free.
    c.notify(Box::new(Wake));
    Ok(task)
}

/// Makes a task due that is parked for this reason; not if people still have to decide about its actions.
async fn unpark(c: &mut Conn, task: TaskId, reason: WaitReason) -> Result<Option<Task>, DbError> {
    c.q(task_sql!(
        "update tasks set parked = FALSE, wait_reason = null where id = $1 and status = 'queued' and parked and wait_reason = $2 \
         and not exists (select 1 from actions a where a.task_id = tasks.id and a.state in ('waiting', 'unknown')) returning",
        ""
    ))
    .bind(task)
    .bind(reason)
    .opt()
    .await
}

/// Queues a parked task again if none of its actions needs a person any more.
pub async fn wake_if_decided(
    c: &mut Conn,
    task: TaskId,
    audience: Audience,
) -> Result<(), DbError> {
    if let Some(task) = unpark(c, task, WaitReason::Approval).await? {
        actions::approve_again(c, task.id).await?;
        announce(c, &task, audience).await?;
        c.notify(Box::new(Wake));
    }
    Ok(())
}

/// Queues a link of a chain after the one before it. It reads all messages so far.
pub async fn wake_link(c: &mut Conn, link: &Task, audience: Audience) -> Result<(), DbError> {
    let Some(task) = unpark(c, link.id, WaitReason::Chain).await? else {
        return Ok(());
    };
    let seq = log::reserve(c, task.workspace_id, 1).await?;
    c.q("update tasks set before_seq = $2 where id = $1")
        .bind(task.id)
        .bind(seq)
        .run()
        .await?;
    announce_as(c, seq, &task, audience).await?;
    c.notify(Box::new(Wake));
    Ok(())
}

/// Ends a link of a chain that cannot start.
pub async fn fail_parked(
    c: &mut Conn,
    link: TaskId,
    error: TaskError,
    notice: MessageId,
    audience: Audience,
) -> Result<(), DbError> {
    let task: Option<Task> = c
        .q(task_sql!(
            "update tasks set status = 'failed', parked = FALSE, wait_reason = null, error = $2, notice_message_id = $3, \
             completed_at = $4 where id = $1 and status = 'queued' and parked returning",
            ""
        ))
        .bind(link)
        .bind(Json(error))
        .bind(notice)
        .bind(now())
        .opt()
        .await?;
    if let Some(task) = &task {
        count(c, task).await?;
        announce(c, task, audience).await?;
    }
    Ok(())
}
