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

/// Condition on an active task that `$parent` waits for: its child, but no later link of a chain.
macro_rules! is_awaited_by {
    ($parent:expr) => {
        concat!(
            "parent_task_id = ",
            $parent,
            " and child_key is not null and after_task_id is null and status in ('queued', 'running')"
        )
    };
}

/// Reason why a task cannot go on: people must decide about its actions or end a deep dive of its run, or tasks that it started have
/// not ended.
pub async fn obstacle(c: &mut Conn, task: TaskId) -> Result<Option<WaitReason>, DbError> {
    let (is_asking, is_in_fork, has_children): (bool, bool, bool) = c
        .q(concat!(
            "select exists (select 1 from actions where task_id = $1 and state in ('waiting', 'unknown')), \
             exists (select 1 from run_steps s join forks f on f.id = s.fork_id where s.run_id = $1 and s.state = 'waiting' \
               and f.status = 'active' and (s.due_at is null or s.due_at > $2)), \
             exists (select 1 from tasks where ",
            is_awaited_by!("$1"),
            ")"
        ))
        .bind(task)
        .bind(now())
        .one()
        .await?;
    Ok(if is_asking || is_in_fork {
        Some(WaitReason::Approval)
    } else {
        has_children.then_some(WaitReason::Children)
    })
}

/// Parks a running task for this reason, and stores how long its rounds ran. The caller has checked the lease in this transaction.
pub async fn park(
    c: &mut Conn,
    lease: &Lease,
    ran_ms: u64,
    reason: WaitReason,
) -> Result<Task, DbError> {
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
        .bind(reason)
        .bind(Json(counts))
        .bind(now().unix_ms())
        .one()
        .await?;
    announce(c, &task, lease.audience).await?;
    // Its turn in the conversation is free.
    c.notify(Box::new(Wake));
    Ok(task)
}

/// Queues a parked task again if it can go on; otherwise it waits for the reason that is left. Links of a chain wait for the link
/// before them.
pub async fn wake(c: &mut Conn, task: TaskId, audience: Audience) -> Result<(), DbError> {
    let reason = obstacle(c, task).await?;
    let changed: Option<Task> = c
        .q(task_sql!(
            "update tasks set parked = $2, wait_reason = $3 where id = $1 and status = 'queued' and parked \
             and wait_reason in ('approval', 'children') and wait_reason is distinct from $3 returning",
            ""
        ))
        .bind(task)
        .bind(reason.is_some())
        .bind(reason)
        .opt()
        .await?;
    let Some(task) = changed else {
        return Ok(());
    };
    if reason.is_none() {
        actions::approve_again(c, task.id).await?;
        c.notify(Box::new(Wake));
    }
    announce(c, &task, audience).await
}

/// Wakes the task that waits for one that has just ended.
pub(super) async fn wake_parent(
    c: &mut Conn,
    ended: &Task,
    audience: Audience,
) -> Result<(), DbError> {
    match ended.parent_task_id {
        Some(parent) => wake(c, parent, audience).await,
        None => Ok(()),
    }
}

/// Queues a link of a chain after the one before it. It reads all messages so far.
pub async fn wake_link(c: &mut Conn, link: &Task, audience: Audience) -> Result<(), DbError> {
    let seq = log::reserve(c, link.workspace_id, 1).await?;
    let woken: Option<Task> = c
        .q(task_sql!(
            "update tasks set parked = FALSE, wait_reason = null, before_seq = $2 \
             where id = $1 and status = 'queued' and parked and wait_reason = 'chain' returning",
            ""
        ))
        .bind(link.id)
        .bind(seq)
        .opt()
        .await?;
    let Some(task) = woken else {
        return Ok(());
    };
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
        wake_parent(c, task, audience).await?;
    }
    Ok(())
}
