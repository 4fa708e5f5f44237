//! Model calls of a task, recorded with its context.

use serde::{Deserialize, Serialize};

use super::FailCode;
use crate::{
    db::{Conn, DbError, Json, dialect::hexadecimal_ids},
    ids::TaskId,
    sql_with_ids,
    text_enum::text_enum,
    time::Timestamp,
};

text_enum! {
    /// Result of a model call; `retry` if another attempt followed.
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
    /// Delay between this attempt and the next one, in milliseconds.
    pub waited_ms: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AttemptError {
    pub code: FailCode,
    pub message: String,
}

/// Records how the newest call ended, unless its end is already recorded.
pub async fn end_attempt(
    c: &mut Conn,
    task: TaskId,
    outcome: AttemptOutcome,
    error: Option<AttemptError>,
    waited_ms: i64,
    at: Timestamp,
) -> Result<(), DbError> {
    let attempts = attempts_of(c, task).await?;
    let end = AttemptEnd {
        outcome,
        error,
        waited_ms,
        at,
    };
    end_newest(c, task, attempts, end).await
}

/// End of a model call.
struct AttemptEnd {
    outcome: AttemptOutcome,
    error: Option<AttemptError>,
    waited_ms: i64,
    at: Timestamp,
}

async fn end_newest(
    c: &mut Conn,
    task: TaskId,
    mut attempts: Vec<AttemptRecord>,
    end: AttemptEnd,
) -> Result<(), DbError> {
    let Some(last) = attempts.last_mut().filter(|last| last.ended_at.is_none()) else {
        return Ok(());
    };
    last.ended_at = Some(end.at);
    last.outcome = end.outcome;
    last.error = end.error;
    last.waited_ms = end.waited_ms;
    c.q("update task_contexts set attempts = $2 where task_id = $1")
        .bind(task)
        .bind(Json(attempts))
        .run()
        .await?;
    Ok(())
}

/// Records that the newest calls of tasks were canceled, unless their ends are already recorded.
pub async fn cancel_attempts(c: &mut Conn, tasks: &[TaskId], at: Timestamp) -> Result<(), DbError> {
    if tasks.is_empty() {
        return Ok(());
    }
    let sql = sql_with_ids!(
        c,
        "select task_id, attempts from task_contexts where task_id in",
        1,
        "order by task_id"
    );
    let rows: Vec<(TaskId, Json<Vec<AttemptRecord>>)> = c
        .q(sql)
        .bind(hexadecimal_ids(tasks.iter().map(|id| id.0)))
        .all()
        .await?;
    for (task, Json(attempts)) in rows {
        let end = AttemptEnd {
            outcome: AttemptOutcome::Cancelled,
            error: None,
            waited_ms: 0,
            at,
        };
        end_newest(c, task, attempts, end).await?;
    }
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
