//! Texts that runners send: patches before the end of a turn, and logs.

use super::{
    CodeError,
    link::is_of_runner,
    runner::RunnerIdentity,
    texts::{self, TextOwner},
    turns,
};
use crate::{
    db::{Conn, DbError, dialect::lock_workspace},
    ids::{CodeSessionId, TaskId},
};

/// Checks that a session belongs to a runner.
///
/// # Errors
/// `SessionNotFound`.
pub async fn check_session(
    c: &mut Conn,
    runner: RunnerIdentity,
    session: CodeSessionId,
) -> Result<(), CodeError> {
    if is_of_runner(c, runner.id, session).await? {
        Ok(())
    } else {
        Err(CodeError::SessionNotFound)
    }
}

/// Checks that a runner works on a task in one of its sessions.
///
/// # Errors
/// `SessionNotFound`.
pub async fn check_turn(
    c: &mut Conn,
    runner: RunnerIdentity,
    session: CodeSessionId,
    task: TaskId,
) -> Result<(), CodeError> {
    check_session(c, runner, session).await?;
    match turns::find(c, task).await? {
        Some(turn) if turn.session_id == session => Ok(()),
        Some(_) | None => Err(CodeError::SessionNotFound),
    }
}

/// Checks that a runner can send texts of a turn: one of its own, or one that was stopped and whose changes are still to come.
///
/// # Errors
/// `SessionNotFound`.
pub async fn check_text(
    c: &mut Conn,
    runner: RunnerIdentity,
    session: CodeSessionId,
    task: TaskId,
) -> Result<(), CodeError> {
    check_session(c, runner, session).await?;
    if let Some(turn) = turns::find(c, task).await? {
        return if turn.session_id == session {
            Ok(())
        } else {
            Err(CodeError::SessionNotFound)
        };
    }
    let of_session: Option<(i64,)> = c
        .q("select cast(1 as bigint) from code_sessions s join tasks t on t.id = $2 where s.id = $1 \
            and t.conversation_id = s.conversation_id and t.agent_id = s.agent_id")
        .bind(session)
        .bind(task)
        .opt()
        .await?;
    of_session.map(drop).ok_or(CodeError::SessionNotFound)
}

/// Checks whether a text of a turn is kept: not if people have deleted it together with a message, if the turn has ended because the
/// repository is no longer allowed, or for changes, if another turn has begun.
async fn is_kept(
    c: &mut Conn,
    session: CodeSessionId,
    task: TaskId,
    owner: TextOwner,
) -> Result<bool, DbError> {
    let has_ended = turns::find(c, task).await?.is_none();
    if has_ended && !turns::is_allowed(c, session).await? {
        return Ok(false);
    }
    if owner == TextOwner::Patch(session) {
        return Ok(turns::accepts_changes(c, session, task).await?
            && (!has_ended || turns::claim_reply(c, session, task).await?));
    }
    c.q("select exists (select 1 from code_turns where task_id = $1 and session_id = $2)")
        .bind(task)
        .bind(session)
        .value()
        .await
}

/// Stores a compressed text of a turn, if it is kept.
///
/// # Errors
/// Same as `check_text`.
pub async fn put_text(
    c: &mut Conn,
    runner: RunnerIdentity,
    session: CodeSessionId,
    task: TaskId,
    owner: TextOwner,
    content: Vec<u8>,
) -> Result<(), CodeError> {
    lock_workspace(c, runner.workspace_id.0).await?;
    check_text(c, runner, session, task).await?;
    if is_kept(c, session, task, owner).await? {
        texts::put(c, session, owner, content).await?;
    }
    Ok(())
}
