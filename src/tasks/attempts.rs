//! Model calls of a task, recorded with its context.

use serde::{Deserialize, Serialize};

use super::FailCode;
use crate::{
    db::{Conn, DbError, Json},
    ids::TaskId,
    text_enum::text_enum,
    time::Timestamp,
};

text_enum! {
    /// Result of a model call; `retry` if another call followed.
    pub enum AttemptOutcome {
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        Retry = "retry",
    }
}

/// One model call.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AttemptRecord {
    pub attempt: i64,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub outcome: AttemptOutcome,
    pub error: Option<AttemptError>,
    /// Wait after this attempt, before the next one.
    pub waited_ms: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AttemptError {
    pub code: FailCode,
    pub message: String,
}

/// Records how the newest call ended, unless that is already recorded.
pub async fn end_attempt(
    c: &mut Conn,
    task: TaskId,
    outcome: AttemptOutcome,
    error: Option<AttemptError>,
    waited_ms: i64,
    at: Timestamp,
) -> Result<(), DbError> {
    let mut attempts = attempts_of(c, task).await?;
    let Some(last) = attempts.last_mut().filter(|last| last.ended_at.is_none()) else {
        return Ok(());
    };
    last.ended_at = Some(at);
    last.outcome = outcome;
    last.error = error;
    last.waited_ms = waited_ms;
    c.q("update task_contexts set attempts = $2 where task_id = $1")
        .bind(task)
        .bind(Json(attempts))
        .run()
        .await?;
    Ok(())
}

pub async fn attempts_of(c: &mut Conn, task: TaskId) -> Result<Vec<AttemptRecord>, DbError> {
    let row: Option<(Json<Vec<AttemptRecord>>,)> = c
        .q("select attempts from task_contexts where task_id = $1")
        .bind(task)
        .opt()
        .await?;
    Ok(row.map(|row| row.0.0).unwrap_or_default())
}
