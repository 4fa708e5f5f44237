//! Work that neither a runner nor a request does: turns of runners that are away, and copies that nobody uses.

use std::time::Duration;

use openvibe_runner::Command;

use super::{
    CodeError, commands,
    push::{self, enter_as_starter},
    sessions::{self, CodeSession, SessionState},
    texts,
    turns::{self, Told},
};
use crate::{
    auth::Caller,
    chat::remove,
    db::{Conn, Db, DbError, Json, dialect::lock_workspace, now},
    ids::{ActionId, CodeSessionId, TaskId, ThreadId, WorkspaceId},
    realtime::Audience,
    tasks::{
        FailCode,
        actions::{ActionKind, ActionState},
        attempts, queue,
    },
};

/// Time without a turn after which the copy of a session is deleted.
const UNUSED_MAX: Duration = Duration::from_hours(14 * 24);
const AT_ONCE: i64 = 50;

/// Ends what can no longer continue: turns whose tasks have ended, and those whose runners have been away for too long. Turns of runners that
/// are away for a short time wait again.
///
/// # Errors
/// Only database errors.
pub async fn end_due(db: &Db) -> Result<(), DbError> {
    let mut c = db.read().await?;
    let away = turns::list_away(&mut c).await?;
    let stopped = turns::list_stopped(&mut c).await?;
    let unanswered = list_unanswered(&mut c).await?;
    let unsent = list_unsent(&mut c).await?;
    drop(c);
    let due = away.into_iter().map(Due::Away);
    let due = due
        .chain(stopped.into_iter().map(|(task, of)| Due::Stopped(task, of)))
        .chain(
            unanswered
                .into_iter()
                .map(|(task, of)| Due::Unanswered(task, of)),
        )
        .chain(
            unsent
                .into_iter()
                .map(|(action, of)| Due::Unsent(action, of)),
        );
    for one in due {
        // One workspace does not stop the others.
        if let Err(e) = end(db, one).await {
            tracing::warn!(error = %e, "could not end work on a runner; retrying");
        }
    }
    Ok(())
}

/// Something that ends because of its time.
enum Due {
    Away(turns::Away),
    Stopped(TaskId, WorkspaceId),
    Unanswered(TaskId, WorkspaceId),
    Unsent(ActionId, WorkspaceId),
}

async fn end(db: &Db, due: Due) -> Result<(), DbError> {
    let workspace = match &due {
        Due::Away(turn) if !turn.is_running() && !turn.is_over() => return Ok(()),
        Due::Away(turn) => turn.workspace_id,
        Due::Stopped(_, of) | Due::Unanswered(_, of) | Due::Unsent(_, of) => *of,
    };
    db.write(workspace.0, async move |c: &mut Conn| {
        lock_workspace(c, workspace.0).await?;
        match &due {
            Due::Away(turn) if turn.is_over() => {
                let text = turn.text();
                turns::fail(c, turn.task_id, FailCode::RunnerOffline, Some(&text)).await
            }
            Due::Away(turn) => queue::lose_outside(c, turn.task_id).await.map(drop),
            Due::Stopped(task, _) => turns::end_stopped(c, *task).await,
            Due::Unanswered(task, _) => {
                let text =
                    "Nobody answered the question in time, so the work stopped. Please ask again.";
                turns::fail(c, *task, FailCode::Timeout, Some(text)).await
            }
            Due::Unsent(action, _) => push::start_approved(c, *action).await,
        }
    })
    .await
}

/// Closes sessions that nobody uses.
///
/// # Errors
/// Only database errors.
pub async fn close_unused(db: &Db) -> Result<(), DbError> {
    let mut c = db.read().await?;
    let unused = list_unused(&mut c).await?;
    drop(c);
    for (session, workspace) in unused {
        db.write(workspace.0, async move |c: &mut Conn| {
            lock_workspace(c, workspace.0).await?;
            // A turn can have begun, or another node can have closed the session.
            if list_unused(c).await?.iter().any(|(id, _)| *id == session) {
                close(c, session).await?;
            }
            Ok::<_, DbError>(())
        })
        .await?;
    }
    Ok(())
}

/// Turns whose agents wait for an answer that nobody gave in time.
async fn list_unanswered(c: &mut Conn) -> Result<Vec<(TaskId, WorkspaceId)>, DbError> {
    c.q("select k.task_id, s.workspace_id from task_keys k join code_sessions s on s.id = k.session_id \
         where exists (select 1 from actions a where a.task_id = k.task_id and a.kind = $1 and a.state = $2) order by k.task_id limit $3")
        .bind(ActionKind::Question)
        .bind(ActionState::Expired)
        .bind(AT_ONCE)
        .all()
        .await
}

/// Newest pushes of sessions that are approved, but for which no command was stored.
async fn list_unsent(c: &mut Conn) -> Result<Vec<(ActionId, WorkspaceId)>, DbError> {
    c.q(
        "select a.id, a.workspace_id from code_sessions s join actions a on a.id = s.action_id \
         where s.push_sent = FALSE and a.state = $1 order by a.id limit $2",
    )
    .bind(ActionState::Approved)
    .bind(AT_ONCE)
    .all()
    .await
}

async fn list_unused(c: &mut Conn) -> Result<Vec<(CodeSessionId, WorkspaceId)>, DbError> {
    c.q("select s.id, s.workspace_id from code_sessions s where s.turn_at < $1 and s.state <> $2 \
         and not exists (select 1 from task_keys k where k.session_id = s.id) order by s.turn_at, s.id limit $3")
        .bind(now() - UNUSED_MAX)
        .bind(SessionState::Closed)
        .bind(AT_ONCE)
        .all()
        .await
}

/// Closes a session: its copy is deleted, and the patch stays.
async fn close(c: &mut Conn, id: CodeSessionId) -> Result<(), DbError> {
    commands::insert(c, id, None, &Command::Close).await?;
    c.q("update code_sessions set base_commit = null where id = $1")
        .bind(id)
        .run()
        .await?;
    sessions::set_state(c, id, SessionState::Closed).await
}

/// Closes a session. Its turns are stopped, and a push that waits is withdrawn.
///
/// # Errors
/// `SessionNotFound`, `NotStarter`, or any error from `Actor::require`.
pub async fn close_session(
    c: &mut Conn,
    caller: &Caller,
    id: CodeSessionId,
) -> Result<CodeSession, CodeError> {
    let (row, audience) = enter_as_starter(c, caller, id).await?;
    if row.state != SessionState::Closed {
        push::withdraw(c, id, audience).await?;
        stop_turns(c, id, audience).await?;
        close(c, id).await?;
    }
    sessions::changed(c, id).await
}

/// Closes the sessions of a thread that is about to be removed, and removes their texts, here and on the runners. Its tasks have been stopped.
/// The thread must stay until the runners have the commands (`has_commands_in`).
///
/// # Errors
/// Only database errors.
pub async fn forget_thread(
    c: &mut Conn,
    thread: ThreadId,
    audience: Audience,
) -> Result<(), DbError> {
    let sessions: Vec<(CodeSessionId,)> = c
        .q("select id from code_sessions where thread_id = $1 order by id")
        .bind(thread)
        .all()
        .await?;
    for (session,) in sessions {
        push::withdraw(c, session, audience).await?;
        commands::replace(c, session, &Command::Close).await?;
        for turn in turns::list_of_session(c, session).await? {
            turns::end(c, turn, Told::Cancel).await?;
        }
        texts::delete_all(c, session).await?;
        c.q("delete from code_turns where session_id = $1")
            .bind(session)
            .run()
            .await?;
        c.q("update code_sessions set tree = null, files = $2, file_count = 0, additions = 0, deletions = 0, notes = $2, title = null, \
             body = null, reply_id = null, action_id = null, late_task_id = null where id = $1")
            .bind(session)
            .bind(Json(Vec::<()>::new()))
            .run()
            .await?;
        close(c, session).await?;
    }
    Ok(())
}

async fn stop_turns(c: &mut Conn, id: CodeSessionId, audience: Audience) -> Result<(), DbError> {
    for turn in turns::list_of_session(c, id).await? {
        if let Some(task) = queue::find_task(c, turn.task_id).await? {
            if let Some(reply) = task.reply_message_id {
                remove::interrupt_reply(c, reply, None, audience).await?;
            }
            let cancelled = queue::cancel(c, task.id, audience).await?;
            let cancelled: Vec<TaskId> = cancelled.iter().map(|task| task.id).collect();
            attempts::cancel_attempts(c, &cancelled, now()).await?;
        }
        turns::end(c, turn, Told::Cancel).await?;
    }
    Ok(())
}
