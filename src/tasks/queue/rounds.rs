//! Rounds of a task: a model call and its calls of tools. A task whose actions wait for people is parked.

use super::{Lease, LeaseLost, Wake, announce, counts_of};
use crate::{
    db::{Conn, DbError, Json, is_reader},
    ids::{TaskId, WorkspaceId},
    realtime::Audience,
    tasks::{Task, WaitReason, actions},
};

/// A round of a task.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Round {
    pub round: i64,
    /// Text that the model wrote before its calls.
    pub text: String,
}

/// Numbers after a round was stored.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub struct NextRound {
    /// Number of the stored round.
    pub round: i64,
    /// Number of the next model call.
    pub attempt: i64,
}

/// Begins the round whose calls follow, and stores the text before them.
pub async fn begin_round(
    c: &mut Conn,
    lease: &Lease,
    (text, calls): (&str, usize),
    counts: serde_json::Value,
) -> Result<NextRound, LeaseLost> {
    let next: Option<NextRound> = c
        .q(
            "update tasks set round = round + 1, attempt = attempt + 1, retry_counts = $3 \
            where id = $1 and lease_token = $2 and status = 'running' returning round, attempt",
        )
        .bind(lease.task)
        .bind(lease.token)
        .bind(Json(counts))
        .opt()
        .await?;
    let next = next.ok_or(LeaseLost::Gone)?;
    c.q("insert into task_rounds (task_id, round, text, calls) values ($1, $2, $3, $4)")
        .bind(lease.task)
        .bind(next.round)
        .bind(text.to_owned())
        .bind(i64::try_from(calls).unwrap_or(i64::MAX))
        .run()
        .await?;
    Ok(next)
}

/// Rounds of a task that has not ended, oldest first.
pub async fn rounds_of(c: &mut Conn, task: TaskId) -> Result<Vec<Round>, DbError> {
    c.q("select round, text from task_rounds where task_id = $1 order by round limit 100")
        .bind(task)
        .all()
        .await
}

/// Number of parked tasks in a workspace.
pub async fn count_parked(c: &mut Conn, workspace: WorkspaceId) -> Result<i64, DbError> {
    c.q("select count(*) from tasks where workspace_id = $1 and status = 'queued' and parked")
        .bind(workspace)
        .value()
        .await
}

/// Parked tasks whose requester can no longer read their conversation, and so cannot decide.
pub async fn list_left(c: &mut Conn, limit: i64) -> Result<Vec<Task>, DbError> {
    c.q(task_sql!(
        "select",
        concat!(
            "from tasks t where t.parked and t.status = 'queued' and t.channel_id is not null and not ",
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
            "update tasks set status = 'queued', parked = TRUE, holds_slot = FALSE, retry_at = null, wait_reason = $3, \
             retry_counts = $4, lease_token = null, lease_until = null, worker_id = null where id = $1 and lease_token = $2 returning",
            ""
        ))
        .bind(lease.task)
        .bind(lease.token)
        .bind(WaitReason::Approval)
        .bind(Json(counts))
        .one()
        .await?;
    announce(c, &task, lease.audience).await?;
    // Its turn in the conversation is free.
    c.notify(Box::new(Wake));
    Ok(task)
}

/// Queues a parked task again if none of its actions needs a person any more.
pub async fn wake_if_decided(
    c: &mut Conn,
    task: TaskId,
    audience: Audience,
) -> Result<(), DbError> {
    let task: Option<Task> = c
        .q(task_sql!(
            "update tasks set parked = FALSE, wait_reason = null where id = $1 and status = 'queued' and parked and not exists \
             (select 1 from actions a where a.task_id = tasks.id and a.state in ('waiting', 'unknown')) returning",
            ""
        ))
        .bind(task)
        .opt()
        .await?;
    if let Some(task) = task {
        actions::approve_again(c, task.id).await?;
        announce(c, &task, audience).await?;
        c.notify(Box::new(Wake));
    }
    Ok(())
}
