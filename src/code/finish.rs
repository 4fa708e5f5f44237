//! The end of a turn: its changes, its reply, its task, and the push that people are asked for, in one transaction.

use openvibe_runner::{Changes, Check, StopReason};

use super::{
    push::{self, CommitText},
    reply::{self, ActiveTurn, is_commit},
    sessions::{self, CodeCheckState, CodeFile, SessionState},
    turns::{self, Told},
};
use crate::{
    agents::profiles,
    chat::{
        messages::{self, MessageState, ReplyText},
        post, remove,
    },
    db::{Conn, Db, DbError, Json, now},
    ids::{CodeSessionId, MessageId, TaskId},
    realtime::{Audience, CodeStepState},
    tasks::{
        Task, TaskOutput,
        attempts::{self, AttemptOutcome},
        queue::{self, End},
    },
};

/// Maximum number of files in a session.
const FILES_MAX: usize = 300;
const PATH_CHARS_MAX: usize = 1000;
const NOTES_MAX: usize = 20;
const NOTE_CHARS_MAX: usize = 500;
/// Maximum number of tasks in a series of retries whose leftovers are removed.
const RETRIES_MAX: usize = 20;

/// What a runner reports at the end of a turn.
pub(super) struct Done {
    pub(super) stop: StopReason,
    pub(super) changes: Changes,
    pub(super) check: Check,
    /// Numbers of `steer` commands that the agent has not read.
    pub(super) unread_steers: Vec<u64>,
    /// Number of the last command that the runner had: later ones were on their way.
    pub(super) received: Option<u64>,
    /// Size of the reply's text after the last step, without white space at its end.
    pub(super) last_text_bytes: u64,
}

/// Prepares the text of a reply that is about to be completed; `None` if there is none.
pub(super) async fn prepare(db: &Db, task: TaskId) -> Result<Option<ReplyText>, DbError> {
    let mut c = db.read().await?;
    let Some(task) = queue::find_task(&mut c, task).await? else {
        return Ok(None);
    };
    let content: Option<(String,)> = c
        .q("select content from messages where id = $1 and state = $2 and deleted_at is null")
        .bind(task.reply_message_id)
        .bind(MessageState::Streaming)
        .opt()
        .await?;
    drop(c);
    let content = content.map(|(content,)| content.trim_end().to_owned());
    match content.filter(|content| !content.is_empty()) {
        Some(content) => Ok(Some(ReplyText::of_long(task.requested_by, content).await?)),
        None => Ok(None),
    }
}

fn path(path: &str) -> String {
    let clean = path.replace('\0', "");
    clean.chars().take(PATH_CHARS_MAX).collect()
}

fn count(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn files_of(changes: &Changes) -> Vec<CodeFile> {
    let files = changes.files.iter().take(FILES_MAX);
    files
        .map(|file| CodeFile {
            path: path(&file.path),
            old_path: file.old_path.as_deref().map(path),
            status: file.status.into(),
            additions: count(file.additions),
            deletions: count(file.deletions),
            binary: file.binary,
        })
        .collect()
}

/// Text of a reply whose agent has written nothing.
fn summary(files: u64) -> String {
    match files {
        0 => "Nothing was changed.".to_owned(),
        1 => "Changed 1 file.".to_owned(),
        n => format!("Changed {n} files."),
    }
}

/// Ends a turn whose task has ended before, such as after Stop: only its changes count, unless the next turn has begun, people have deleted
/// the changes or the reply, or the repository is no longer allowed.
pub(super) async fn finish_late(
    c: &mut Conn,
    session: CodeSessionId,
    task: TaskId,
    done: &Done,
) -> Result<(), DbError> {
    let is_accepted =
        turns::accepts_changes(c, session, task).await? && turns::is_allowed(c, session).await?;
    let turn = turns::find(c, task).await?;
    if let Some(turn) = turn.filter(|turn| turn.session_id == session) {
        turns::end(c, turn, Told::Knows).await?;
    }
    if !is_accepted {
        return Ok(());
    }
    turns::set_late(c, session, None).await?;
    if turns::claim_reply(c, session, task).await? {
        finish(c, session, None, done, None).await?;
    }
    Ok(())
}

/// Ends a turn. `turn` is `None` if its task has ended before. `text` is the reply.
pub(super) async fn finish(
    c: &mut Conn,
    session: CodeSessionId,
    turn: Option<&ActiveTurn>,
    done: &Done,
    text: Option<&ReplyText>,
) -> Result<(), DbError> {
    let has_changed = store_changes(c, session, done).await?;
    if let Some(turn) = turn {
        let found = turns::find(c, turn.task.id).await?;
        if done.stop == StopReason::Canceled {
            cancel(c, &turn.task, turn.lease.audience).await?;
        } else {
            complete(c, session, turn, done, text).await?;
        }
        if let Some(found) = found {
            turns::end(c, found, Told::Knows).await?;
        }
        if has_changed && done.stop != StopReason::Canceled {
            push::offer(c, session, &turn.task, turn.lease.audience).await?;
        }
    }
    if !has_changed {
        c.q("update code_sessions set title = null, body = null where id = $1")
            .bind(session)
            .run()
            .await?;
    }
    sessions::announce(c, session).await
}

/// Stores the changes of a session. Returns whether there are any.
async fn store_changes(c: &mut Conn, session: CodeSessionId, done: &Done) -> Result<bool, DbError> {
    let changes = &done.changes;
    let tree = changes.tree.clone().filter(|tree| is_commit(tree));
    let files = files_of(changes);
    let has_changes = changes.file_count > 0 || !files.is_empty();
    let notes = changes.notes.iter().take(NOTES_MAX).map(|note| {
        let note = note.replace(char::is_control, " ");
        note.chars().take(NOTE_CHARS_MAX).collect::<String>()
    });
    let notes: Vec<String> = notes.collect();
    let row = sessions::find_row(c, session).await?;
    // The late end of a turn does not open a session again that was closed meanwhile.
    let ended = row.filter(|row| !row.is_open());
    let state = ended.map_or(SessionState::Ready, |row| row.state);
    c.q("update code_sessions set tree = $2, files = $3, file_count = $4, additions = $5, deletions = $6, check_state = $7, check_ms = $8, \
         notes = $9, state = $10, turn_at = $11 where id = $1")
        .bind(session)
        .bind(tree.clone())
        .bind(Json(files))
        .bind(count(changes.file_count))
        .bind(count(changes.additions))
        .bind(count(changes.deletions))
        .bind(CodeCheckState::from(done.check.state))
        .bind(count(done.check.ms))
        .bind(Json(notes))
        .bind(state)
        .bind(now())
        .run()
        .await?;
    Ok(has_changes && tree.is_some())
}

/// Cancels the task of a turn that its runner has stopped.
async fn cancel(c: &mut Conn, task: &Task, audience: Audience) -> Result<(), DbError> {
    if let Some(reply) = task.reply_message_id {
        remove::interrupt_reply(c, reply, None, audience).await?;
    }
    attempts::cancel_attempts(c, &[task.id], now()).await?;
    queue::cancel(c, task.id, audience).await?;
    Ok(())
}

/// Completes the reply and the task.
async fn complete(
    c: &mut Conn,
    session: CodeSessionId,
    turn: &ActiveTurn,
    done: &Done,
    text: Option<&ReplyText>,
) -> Result<(), DbError> {
    let lease = &turn.lease;
    let message = match turn.task.reply_message_id {
        Some(message) => message,
        None => reply::open_reply(c, session, turn).await?,
    };
    let own;
    let text = if let Some(text) = text {
        text
    } else {
        own = ReplyText::of(summary(done.changes.file_count));
        &own
    };
    let steps = reply::list_steps(c, turn.task.id).await?;
    let failed = steps
        .iter()
        .filter(|step| step.state == CodeStepState::Failed);
    let failed = i64::try_from(failed.count()).unwrap_or(i64::MAX);
    let all = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    let metadata = messages::MessageMetadata {
        truncated: done.stop == StopReason::Truncated,
        steps: (all > 0).then_some(all),
        steps_failed: (failed > 0).then_some(failed),
        ..reply::metadata_of(session, turn)
    };
    messages::finish_reply(c, message, text, &metadata, lease.audience).await?;
    let last = last_text(text.content(), done.last_text_bytes);
    store_commit_text(c, session, turn, message, last).await?;
    for n in &done.unread_steers {
        c.q("update task_steers set round = null where task_id = $1 and round = $2")
            .bind(turn.task.id)
            .bind(count(*n))
            .run()
            .await?;
    }
    if let Some(received) = done.received {
        c.q("update task_steers set round = null where task_id = $1 and round > $2")
            .bind(turn.task.id)
            .bind(count(received))
            .run()
            .await?;
    }
    attempts::end_attempt(c, turn.task.id, AttemptOutcome::Completed, None, 0, now()).await?;
    let engine: Option<(String,)> = c
        .q("select engine from code_sessions where id = $1")
        .bind(session)
        .opt()
        .await?;
    let output = TaskOutput {
        message_id: Some(message),
        response_length: i64::try_from(text.content().encode_utf16().count()).unwrap_or(i64::MAX),
        ..TaskOutput::default()
    };
    let model = engine.map(|(engine,)| engine).unwrap_or_default();
    queue::finish(c, lease, &End::Completed { output, model }).await?;
    remove_superseded(c, turn.task.retry_of, lease.audience).await?;
    post::continue_chain(c, &turn.task, lease.audience).await?;
    post::start_unread(c, &turn.task, lease.audience).await
}

/// Turns the partial replies and notices of retried tasks into tombstones.
async fn remove_superseded(
    c: &mut Conn,
    retry_of: Option<TaskId>,
    audience: Audience,
) -> Result<(), DbError> {
    let mut next = retry_of;
    for _ in 0..RETRIES_MAX {
        let Some(id) = next else { break };
        let left = queue::left_behind(c, id).await?;
        for id in [left.reply_message_id, left.notice_message_id] {
            let Some(id) = id else { continue };
            if let Some(message) = messages::find_message(c, id).await?
                && message.deleted_at.is_none()
            {
                remove::tombstone(c, &message, audience).await?;
            }
        }
        next = left.retry_of;
    }
    Ok(())
}

/// The end of a reply that describes the work: agents often write "Let me look" before their first step. All of it if the size does not fit.
fn last_text(content: &str, bytes: u64) -> &str {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let start = content.len().checked_sub(bytes);
    match start.and_then(|start| content.split_at_checked(start)) {
        // A step ends a paragraph.
        Some((before, last)) if before.ends_with("\n\n") && !last.trim().is_empty() => last,
        _ => content,
    }
}

/// Stores the reply of a session, and the title and text of its next commit, which are in `text`.
async fn store_commit_text(
    c: &mut Conn,
    session: CodeSessionId,
    turn: &ActiveTurn,
    reply: MessageId,
    text: &str,
) -> Result<(), DbError> {
    let agent = profiles::shown_name(c, turn.lease.target.agent).await?;
    // A repository can have other readers than the conversation.
    let commit = match turn.lease.audience {
        Audience::Public(_) => CommitText::of_reply(text, &agent),
        _ => CommitText::without_text(&agent),
    };
    c.q("update code_sessions set reply_id = $2, title = $3, body = $4 where id = $1")
        .bind(session)
        .bind(reply)
        .bind(commit.title)
        .bind(commit.body)
        .run()
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_agent_has_a_summary() {
        assert_eq!(summary(0), "Nothing was changed.");
        assert_eq!(summary(1), "Changed 1 file.");
        assert_eq!(summary(7), "Changed 7 files.");
    }

    #[test]
    fn a_commit_is_described_by_the_text_after_the_last_step() {
        let content = "Let me look.\n\nFix the lögin\n\nThe cookie was missing.";
        let end = "Fix the lögin\n\nThe cookie was missing.";
        assert_eq!(last_text(content, end.len() as u64), end);
        // Sizes of another text, within a paragraph or a character, and of nothing.
        let inside = "gin\n\nThe cookie was missing.".len() as u64;
        for bytes in [0, 1, inside, inside + 1, content.len() as u64, u64::MAX] {
            assert_eq!(last_text(content, bytes), content, "{bytes}");
        }
    }

    #[test]
    fn a_session_keeps_at_most_300_files() {
        let file = openvibe_runner::ChangedFile {
            path: "a\0b".to_owned(),
            old_path: None,
            status: openvibe_runner::FileStatus::Added,
            additions: u64::MAX,
            deletions: 0,
            binary: false,
        };
        let changes = Changes {
            files: vec![file; 400],
            ..Changes::default()
        };
        let files = files_of(&changes);
        assert_eq!((files.len(), files[0].path.as_str()), (300, "ab"));
        assert_eq!(files[0].additions, i64::MAX);
    }
}
