//! What a task's model was sent, kept for "What it saw", and how each call went.
//!
//! The parts of the prompt are stored as they were sent, each with the message it came from, so that deleting a message can
//! take its text out of here too.

use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    prompt::{Author, Prompt, Source},
    retry::Failure,
};
use crate::{
    db::{Conn, DbError, Json},
    ids::{MessageId, TaskId, ThreadId, UserId},
};

/// Ids of one reason that are named; the count says how many there were.
pub const LEFT_OUT_IDS_MAX: usize = 50;

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AskedBy {
    pub id: UserId,
    pub name: String,
    pub role: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LeftOut {
    /// `older_than_newest_50`, `deleted`, `notice`, `streaming`, `superseded` (the card of a result that a newer version
    /// replaced), `context_too_large` or `summarised`.
    pub reason: String,
    pub count: i64,
    /// The newest of them, at most 50.
    pub message_ids: Vec<MessageId>,
}

/// Stands for the text of a deleted message.
pub const DELETED: &str = "(deleted)";

/// One call of the model.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AttemptRecord {
    pub attempt: i64,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// `running`, `completed`, `failed`, `cancelled` or `retry`.
    pub outcome: String,
    pub error: Option<AttemptError>,
    /// Waited after it, before the next.
    pub waited_ms: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AttemptError {
    pub code: String,
    pub message: String,
}

impl From<&Failure> for AttemptError {
    fn from(failure: &Failure) -> Self {
        let message = match failure {
            Failure::Model(e) => e.to_string(),
            Failure::Timeout => "no answer in time".to_owned(),
        };
        Self {
            code: failure.code().text(),
            message,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    /// The model that was called.
    pub model: String,
    pub attempt: i64,
    pub asked_by: AskedBy,
    pub prompt: Prompt,
    pub left_out: Vec<LeftOut>,
    /// Messages that a summary in the prompt stands for.
    pub summarised: Vec<MessageId>,
    /// In tokens.
    pub context_window: u64,
    /// Tokens kept free for the answer.
    pub reserve: u64,
}

/// Stores what is being sent now, in place of what was sent before.
pub async fn save(
    c: &mut Conn,
    task: TaskId,
    manifest: &Manifest,
    attempt: &AttemptRecord,
) -> Result<(), DbError> {
    let mut attempts = attempts_of(c, task).await?;
    // A call whose worker was lost never said how it ended.
    if let Some(last) = attempts.last_mut().filter(|last| last.ended_at.is_none()) {
        last.ended_at = Some(attempt.started_at);
        "retry".clone_into(&mut last.outcome);
    }
    attempts.push(attempt.clone());
    c.q("insert into task_contexts (task_id, manifest, attempts) values ($1, $2, $3) \
         on conflict (task_id) do update set manifest = excluded.manifest, attempts = excluded.attempts")
        .bind(task)
        .bind(Json(manifest.clone()))
        .bind(Json(attempts))
        .run()
        .await?;
    Ok(())
}

/// Notes how the newest call ended, if that is not noted yet.
pub async fn end_attempt(
    c: &mut Conn,
    task: TaskId,
    outcome: &str,
    error: Option<AttemptError>,
    waited_ms: i64,
    at: Timestamp,
) -> Result<(), DbError> {
    let mut attempts = attempts_of(c, task).await?;
    let Some(last) = attempts.last_mut().filter(|last| last.ended_at.is_none()) else {
        return Ok(());
    };
    last.ended_at = Some(at);
    outcome.clone_into(&mut last.outcome);
    last.error = error;
    last.waited_ms = waited_ms;
    c.q("update task_contexts set attempts = $2 where task_id = $1")
        .bind(task)
        .bind(Json(attempts))
        .run()
        .await?;
    Ok(())
}

async fn attempts_of(c: &mut Conn, task: TaskId) -> Result<Vec<AttemptRecord>, DbError> {
    let row: Option<(Json<Vec<AttemptRecord>>,)> = c
        .q("select attempts from task_contexts where task_id = $1")
        .bind(task)
        .opt()
        .await?;
    Ok(row.map(|row| row.0.0).unwrap_or_default())
}

/// `None` before the first call of the model.
pub async fn find(
    c: &mut Conn,
    task: TaskId,
) -> Result<Option<(Manifest, Vec<AttemptRecord>)>, DbError> {
    let row: Option<(Json<Manifest>, Json<Vec<AttemptRecord>>)> = c
        .q("select manifest, attempts from task_contexts where task_id = $1")
        .bind(task)
        .opt()
        .await?;
    Ok(row.map(|(manifest, attempts)| (manifest.0, attempts.0)))
}

/// Takes a deleted message's text out of everything that models of its thread were sent.
pub async fn blank_message(
    c: &mut Conn,
    thread: ThreadId,
    message: MessageId,
) -> Result<(), DbError> {
    let rows: Vec<(TaskId, Json<Manifest>)> = c
        .q("select tc.task_id, tc.manifest from task_contexts tc join tasks t on t.id = tc.task_id \
            where t.thread_id = $1 and CAST(tc.manifest AS TEXT) like $2")
        .bind(thread)
        .bind(format!("%{message}%"))
        .all()
        .await?;
    for (task, Json(mut manifest)) in rows {
        let summary_is_stained = manifest.summarised.contains(&message);
        for part in &mut manifest.prompt.parts {
            let stained = match &part.source {
                Source::Message { message_id, .. } | Source::Trigger { message_id, .. } => {
                    *message_id == message
                }
                Source::Summary => summary_is_stained,
                Source::Dive { message_id } => *message_id == Some(message),
                Source::Requester | Source::LeftOut => false,
            };
            if stained {
                DELETED.clone_into(&mut part.text);
            }
        }
        c.q("update task_contexts set manifest = $2 where task_id = $1")
            .bind(task)
            .bind(Json(manifest))
            .run()
            .await?;
    }
    Ok(())
}

/// Takes a person's name out of what a task's model was sent; `alias` takes the place of their id.
pub async fn forget_person(
    c: &mut Conn,
    task: TaskId,
    (user, alias): (UserId, UserId),
    nobody: &str,
) -> Result<(), DbError> {
    let Some((mut manifest, _)) = find(c, task).await? else {
        return Ok(());
    };
    let asked = manifest.asked_by.id == user;
    if asked {
        manifest.asked_by.id = alias;
        nobody.clone_into(&mut manifest.asked_by.name);
    }
    for part in &mut manifest.prompt.parts {
        match &mut part.source {
            Source::Message {
                author: Author::Human { id, name },
                ..
            }
            | Source::Trigger {
                author: Author::Human { id, name },
                ..
            } if *id == user => {
                *id = alias;
                nobody.clone_into(name);
                DELETED.clone_into(&mut part.text);
            }
            Source::Requester if asked => DELETED.clone_into(&mut part.text),
            _ => {}
        }
    }
    c.q("update task_contexts set manifest = $2 where task_id = $1")
        .bind(task)
        .bind(Json(manifest))
        .run()
        .await?;
    Ok(())
}
