//! Rounds of a task: model calls with their tool calls.

use super::{Lease, LeaseLost};
use crate::{
    db::{Conn, DbError, Json},
    ids::TaskId,
    model::VendorMembers,
};

/// A round of a task.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Round {
    pub round: i64,
    /// Text that the model wrote before its calls.
    pub text: String,
    /// Model that made the calls; `None` if its server wants nothing back.
    pub model: Option<String>,
    /// Members that the model's server wants back, as JSON. The column is a text, because `jsonb` cannot contain NUL characters.
    vendor: Option<String>,
}

impl Round {
    /// Returns the members that the model's server wants back.
    pub fn members(&self) -> Option<VendorMembers> {
        serde_json::from_str(self.vendor.as_ref()?).ok()
    }
}

/// Text and calls of a model before they are stored as a round.
#[derive(Debug, Clone)]
pub struct RoundAnswer {
    pub text: String,
    pub calls: usize,
    pub model: String,
    /// Members that the model's server wants back.
    pub vendor: VendorMembers,
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
    answer: &RoundAnswer,
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
    let vendor = Some(&answer.vendor).filter(|members| !members.is_empty());
    c.q(
        "insert into task_rounds (task_id, round, text, calls, model, vendor) \
        values ($1, $2, $3, $4, $5, $6)",
    )
    .bind(lease.task)
    .bind(next.round)
    .bind(answer.text.clone())
    .bind(i64::try_from(answer.calls).unwrap_or(i64::MAX))
    .bind(vendor.map(|_| answer.model.clone()))
    .bind(vendor.and_then(|members| serde_json::to_string(members).ok()))
    .run()
    .await?;
    Ok(next)
}

/// Rounds of a task that has not ended, oldest first.
pub async fn rounds_of(c: &mut Conn, task: TaskId) -> Result<Vec<Round>, DbError> {
    c.q("select round, text, model, vendor from task_rounds where task_id = $1 order by round limit 100")
        .bind(task)
        .all()
        .await
}
