//! Messages with which requesters steer their running replies: rows that name a task, which reads the messages in its next model
//! call. They have no tasks of their own.

use crate::{
    db::{Conn, DbError},
    ids::{MessageId, TaskId},
};

/// Maximum number of steering messages of a task.
pub const STEERS_MAX: i64 = 20;
/// Maximum length of a denial's note in characters.
const NOTE_CHARS_MAX: usize = 500;

/// Commit signal: a message that steers a task was posted.
pub struct Steered {
    pub task: TaskId,
}

/// Adds a message to those that a task has to read.
pub async fn insert(c: &mut Conn, task: TaskId, message: MessageId) -> Result<(), DbError> {
    c.q("insert into task_steers (task_id, message_id) values ($1, $2)")
        .bind(task)
        .bind(message)
        .run()
        .await?;
    c.notify(Box::new(Steered { task }));
    Ok(())
}

/// Number of messages that have steered a task, including those that were deleted.
pub async fn count(c: &mut Conn, task: TaskId) -> Result<i64, DbError> {
    c.q("select count(*) from task_steers where task_id = $1")
        .bind(task)
        .value()
        .await
}

/// Checks whether a task has messages, read or not.
pub async fn has_any(c: &mut Conn, task: TaskId) -> Result<bool, DbError> {
    c.q("select exists (select 1 from task_steers where task_id = $1)")
        .bind(task)
        .value()
        .await
}

/// Checks whether a task has messages that its model has not read. Deleted messages do not count.
pub async fn has_unread(c: &mut Conn, task: TaskId) -> Result<bool, DbError> {
    c.q(
        "select exists (select 1 from task_steers s join messages m on m.id = s.message_id \
         where s.task_id = $1 and s.round is null and m.deleted_at is null)",
    )
    .bind(task)
    .value()
    .await
}

/// Messages that steer a task, read or not, including those that were deleted.
pub async fn list(c: &mut Conn, task: TaskId) -> Result<Vec<MessageId>, DbError> {
    let rows: Vec<(MessageId,)> = c
        .q("select message_id from task_steers where task_id = $1")
        .bind(task)
        .all()
        .await?;
    Ok(rows.into_iter().map(|(message,)| message).collect())
}

/// Messages that the model of a task has not read, oldest first. Deleted messages are left out.
pub async fn list_unread(c: &mut Conn, task: TaskId) -> Result<Vec<MessageId>, DbError> {
    let rows: Vec<(MessageId,)> = c
        .q("select m.id from task_steers s join messages m on m.id = s.message_id \
            where s.task_id = $1 and s.round is null and m.deleted_at is null order by m.seq limit $2")
        .bind(task)
        .bind(STEERS_MAX)
        .all()
        .await?;
    Ok(rows.into_iter().map(|(message,)| message).collect())
}

/// Makes the unread messages part of all further model calls of a task, after this round. The caller must hold the task's lease.
pub async fn take(c: &mut Conn, task: TaskId, round: i64) -> Result<(), DbError> {
    c.q("update task_steers set round = $2 where task_id = $1 and round is null")
        .bind(task)
        .bind(round)
        .run()
        .await?;
    Ok(())
}

/// Gives all messages of a task to the task that retries it, which reads them again.
pub async fn copy(c: &mut Conn, from: TaskId, to: TaskId) -> Result<(), DbError> {
    c.q("insert into task_steers (task_id, message_id) select $2, message_id from task_steers where task_id = $1")
        .bind(from)
        .bind(to)
        .run()
        .await?;
    Ok(())
}

/// Gives the unread messages of an ended task to the task that one of them, `trigger`, starts.
pub async fn move_unread(
    c: &mut Conn,
    from: TaskId,
    to: TaskId,
    trigger: MessageId,
) -> Result<(), DbError> {
    c.q("delete from task_steers where task_id = $1 and message_id = $2")
        .bind(from)
        .bind(trigger)
        .run()
        .await?;
    c.q("update task_steers set task_id = $2 where task_id = $1 and round is null")
        .bind(from)
        .bind(to)
        .run()
        .await?;
    Ok(())
}

/// Returns the note of actions that are denied because a message with this content steers their task: its beginning, on one line.
/// `None` without text.
pub fn note_of(content: &str) -> Option<String> {
    let words: Vec<&str> = content
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let note: String = words.join(" ").chars().take(NOTE_CHARS_MAX).collect();
    (!note.is_empty()).then_some(note)
}

/// Removes the notes that repeat a message, which is about to be edited or deleted. `steered` is the task that the message was posted
/// for, which may have passed it on to another task.
pub async fn forget_notes(
    c: &mut Conn,
    message: MessageId,
    steered: TaskId,
    content: &str,
) -> Result<(), DbError> {
    let Some(note) = note_of(content) else {
        return Ok(());
    };
    c.q("update actions set note = null where note = $3 \
         and task_id in (select $2 union select task_id from task_steers where message_id = $1)")
        .bind(message)
        .bind(steered)
        .bind(note)
        .run()
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_one_line_of_at_most_500_characters() {
        assert_eq!(
            note_of(" not\nthis\u{7} one ").as_deref(),
            Some("not this one")
        );
        assert_eq!(note_of(" \n"), None);
        let long = note_of(&"ä ".repeat(600)).unwrap_or_default();
        assert_eq!(long.chars().count(), NOTE_CHARS_MAX);
    }
}
