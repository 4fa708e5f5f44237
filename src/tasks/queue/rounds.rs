//! Rounds of a task: model calls with their tool calls.

use super::{Lease, LeaseLost};
use crate::{
    db::{Conn, DbError, Json},
    ids::TaskId,
};

/// A round of a task.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Round {
    pub round: i64,
    /// Text that the model wrote before its calls.
    pub text: String,
}

/// Numbers of the stored round and of the next model call.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub struct NextRound {
    /// Number of the stored round.
    pub round: i64,
    /// Number of the next model call.
    pub attempt: i64,
}

/// Starts a round and stores the text that the model wrote before its calls. The caller stores the calls afterward.
pub async fn begin_round(
    c: &mut Conn,
    lease: &Lease,
    text: &str,
    calls: usize,
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
