//! Texts of turns that go with messages: a log and steps with any message of the prompt, changes that were not pushed with their reply.

use openvibe_runner::Command;
use uuid::Uuid;

use super::{
    commands, push, sessions,
    texts::{self, TextOwner},
};
use crate::{
    db::{Conn, Db, DbError, Json, dialect::lock_workspace},
    ids::{CodeSessionId, MessageId, TaskId, WorkspaceId},
    tasks::{
        actions::{
            self, ActionState,
            texts::{self as context_texts, SourceType},
        },
        queue,
    },
};

/// Source type with which the markers of turns are hashed.
const TURN_SOURCE: &str = "turn";
const AT_ONCE: i64 = 50;

/// Stores a marker for the texts of a turn: a text that is removed together with the messages of the prompt.
pub(super) async fn remember(
    c: &mut Conn,
    workspace: WorkspaceId,
    task: TaskId,
    session: CodeSessionId,
) -> Result<(), DbError> {
    let text = context_texts::put_of(c, workspace, TURN_SOURCE, task.0, "turn").await?;
    context_texts::cite_prompt(c, task, text).await?;
    c.q("insert into code_turns (task_id, session_id, text_id) values ($1, $2, $3) on conflict do nothing")
        .bind(task)
        .bind(session)
        .bind(text)
        .run()
        .await?;
    Ok(())
}

/// Makes the texts of a turn depend on further messages that its agent has received.
///
/// # Errors
/// Only database errors.
pub async fn cite(
    c: &mut Conn,
    task: TaskId,
    messages: impl IntoIterator<Item = MessageId>,
) -> Result<(), DbError> {
    let marker: Option<(Uuid,)> = c
        .q("select text_id from code_turns where task_id = $1")
        .bind(task)
        .opt()
        .await?;
    let Some((marker,)) = marker else {
        return Ok(());
    };
    let kind = SourceType::Message.as_str();
    let sources = messages.into_iter().map(|message| (kind, message.0));
    context_texts::cite(c, marker, sources).await
}

#[derive(Debug, Clone, Copy, sqlx::FromRow)]
struct Forgotten {
    task_id: TaskId,
    session_id: CodeSessionId,
    workspace_id: WorkspaceId,
}

/// Ended turns whose marker was removed.
async fn list_turns(c: &mut Conn) -> Result<Vec<Forgotten>, DbError> {
    c.q("select t.task_id, t.session_id, s.workspace_id from code_turns t join code_sessions s on s.id = t.session_id \
         left join context_texts x on x.id = t.text_id where (x.id is null or x.hash is null) \
         and not exists (select 1 from task_keys k where k.task_id = t.task_id) order by t.task_id limit $1")
        .bind(AT_ONCE)
        .all()
        .await
}

/// Sessions without a turn whose last reply was deleted.
async fn list_sessions(c: &mut Conn) -> Result<Vec<(CodeSessionId, WorkspaceId)>, DbError> {
    c.q("select s.id, s.workspace_id from code_sessions s join messages m on m.id = s.reply_id where m.deleted_at is not null \
         and not exists (select 1 from task_keys k where k.session_id = s.id) order by s.id limit $1")
        .bind(AT_ONCE)
        .all()
        .await
}

/// Removes the texts whose messages were deleted, here and on the runners.
///
/// # Errors
/// Only database errors.
pub async fn forget_due(db: &Db) -> Result<(), DbError> {
    let mut c = db.read().await?;
    let turns = list_turns(&mut c).await?;
    let sessions = list_sessions(&mut c).await?;
    drop(c);
    for turn in turns {
        db.write(turn.workspace_id.0, async move |c: &mut Conn| {
            lock_workspace(c, turn.workspace_id.0).await?;
            forget_turn(c, turn).await
        })
        .await?;
    }
    for (session, workspace) in sessions {
        db.write(workspace.0, async move |c: &mut Conn| {
            lock_workspace(c, workspace.0).await?;
            // A turn can have begun, or another node can have removed them.
            if list_sessions(c).await?.iter().any(|(id, _)| *id == session) {
                forget_changes(c, session).await?;
            }
            Ok::<_, DbError>(())
        })
        .await?;
    }
    Ok(())
}

async fn forget_turn(c: &mut Conn, turn: Forgotten) -> Result<(), DbError> {
    texts::delete(c, turn.session_id, TextOwner::Log(turn.task_id)).await?;
    for sql in [
        "delete from code_steps where task_id = $1",
        "delete from code_turns where task_id = $1",
    ] {
        c.q(sql).bind(turn.task_id).run().await?;
    }
    let task = Some(turn.task_id.to_string());
    let command = Command::Forget { task };
    commands::insert(c, turn.session_id, None, &command).await?;
    Ok(())
}

/// Removes the changes of a session whose reply was deleted, unless they were pushed.
async fn forget_changes(c: &mut Conn, session: CodeSessionId) -> Result<(), DbError> {
    let Some(row) = sessions::find_row(c, session).await? else {
        return Ok(());
    };
    let push = match row.action_id {
        Some(action) => {
            if commands::forget_push(c, session, action).await? || !row.push_sent {
                push::fail_approved(c, session, "The reply was deleted.").await?;
            }
            actions::find(c, action).await?
        }
        None => None,
    };
    let is_pushed = push.is_some_and(|push| push.state == ActionState::Done);
    if !is_pushed {
        let audience = queue::audience_in(c, Some(row.channel_id)).await?;
        push::withdraw(c, session, audience).await?;
        texts::delete(c, session, TextOwner::Patch(session)).await?;
        c.q("update code_sessions set tree = null, files = $2, file_count = 0, additions = 0, deletions = 0, notes = $2 where id = $1")
            .bind(session)
            .bind(Json(Vec::<()>::new()))
            .run()
            .await?;
        let command = Command::Forget { task: None };
        commands::insert(c, session, None, &command).await?;
    }
    // The text of the commit is that of the reply. A stopped turn can no longer bring the changes back.
    c.q("update code_sessions set title = null, body = null, reply_id = null, late_task_id = null where id = $1")
        .bind(session)
        .run()
        .await?;
    sessions::announce(c, session).await
}
