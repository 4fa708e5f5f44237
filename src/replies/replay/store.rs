//! Rows of replays: drafts, cases, and answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{
    agents::profiles::{Profile, Resolved},
    db::{
        Conn, Db, DbError, Json,
        dialect::context::{self as rows, TextRow},
        now,
    },
    ids::{AgentId, TaskId, UserId, WorkspaceId},
    tasks::{Task, actions::texts},
};

use super::{CaseAnswer, SkipReason};

/// Retention period of a replay.
pub(super) const KEPT: Duration = Duration::from_hours(7 * 24);

/// Profile that a replay uses, with the agent's names.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Draft {
    version: i64,
    name: String,
    shown_name: String,
    profile: Profile,
}

/// Stores the draft of a root.
pub(super) async fn insert(c: &mut Conn, root: &Task, agent: &Resolved) -> Result<(), DbError> {
    let draft = Draft {
        version: agent.version,
        name: agent.name.clone(),
        shown_name: agent.shown_name.clone(),
        profile: agent.profile.clone(),
    };
    c.q("insert into replays (task_id, workspace_id, user_id, agent_id, draft, created_at) values ($1, $2, $3, $4, $5, $6)")
        .bind(root.id)
        .bind(root.workspace_id)
        .bind(root.requested_by)
        .bind(agent.agent)
        .bind(Json(draft))
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Stores the reply that a child writes again.
pub(super) async fn insert_case(
    c: &mut Conn,
    root: TaskId,
    child: TaskId,
    reply: TaskId,
) -> Result<(), DbError> {
    c.q("insert into replay_cases (task_id, replay_id, reply_task_id) values ($1, $2, $3)")
        .bind(child)
        .bind(root)
        .bind(reply)
        .run()
        .await?;
    Ok(())
}

/// Finds the reply that a child writes again, and the draft. Returns `None` if the replay was deleted.
pub(super) async fn find_case(
    c: &mut Conn,
    child: TaskId,
) -> Result<Option<(TaskId, Resolved)>, DbError> {
    let found: Option<(TaskId, AgentId, Json<Draft>)> = c
        .q("select k.reply_task_id, p.agent_id, p.draft from replay_cases k join replays p on p.task_id = k.replay_id \
            where k.task_id = $1")
        .bind(child)
        .opt()
        .await?;
    Ok(found.map(|(reply, agent, Json(draft))| {
        let agent = Resolved {
            agent,
            version: draft.version,
            name: draft.name,
            shown_name: draft.shown_name,
            profile: draft.profile,
            own_instructions: None,
        };
        (reply, agent)
    }))
}

/// Stores the reason why a case has no answer.
pub(super) async fn skip(c: &mut Conn, child: TaskId, reason: SkipReason) -> Result<(), DbError> {
    c.q("update replay_cases set skip_reason = $2 where task_id = $1")
        .bind(child)
        .bind(reason)
        .run()
        .await?;
    Ok(())
}

/// Stores the answer of a case. The answer cites everything that the reply's prompt cites, because a model can copy any part of
/// the prompt.
pub(super) async fn put_answer(
    c: &mut Conn,
    child: &Task,
    reply: TaskId,
    answer: &CaseAnswer,
    is_partial: bool,
) -> Result<(), DbError> {
    let text = serde_json::to_string(answer).unwrap_or_default();
    let mut hash = Sha256::new();
    hash.update("replay");
    hash.update(child.id.0);
    hash.update(&text);
    let row = TextRow {
        id: Uuid::now_v7(),
        hash: Some(hex::encode(hash.finalize())),
        text: text.replace('\0', ""),
    };
    let (text_id, at) = (row.id, now());
    rows::insert_texts(c, child.workspace_id.0, vec![row], at, at).await?;
    texts::cite_prompt(c, reply, text_id).await?;
    c.q("update replay_cases set text_id = $2, is_partial = $3 where task_id = $1")
        .bind(child.id)
        .bind(text_id)
        .bind(is_partial)
        .run()
        .await?;
    Ok(())
}

/// Statements that delete replays and the texts of their answers.
macro_rules! delete_sql {
    ($condition:literal) => {
        [
            concat!(
                "delete from citations where owner_type = 'context_text' and owner_id in \
                 (select k.text_id from replay_cases k join replays p on p.task_id = k.replay_id where ",
                $condition,
                ")"
            ),
            concat!(
                "delete from context_texts where id in \
                 (select k.text_id from replay_cases k join replays p on p.task_id = k.replay_id where ",
                $condition,
                ")"
            ),
            concat!(
                "delete from replay_cases where replay_id in (select p.task_id from replays p where ",
                $condition,
                ")"
            ),
            concat!(
                "delete from replays where task_id in (select p.task_id from replays p where ",
                $condition,
                ")"
            ),
        ]
    };
}

/// Deletes expired replays.
///
/// # Errors
/// Only database errors.
pub async fn delete_expired(db: &Db) -> Result<(), DbError> {
    let before = now() - KEPT;
    db.write(Uuid::nil(), async move |c: &mut Conn| {
        for sql in delete_sql!("p.created_at <= $1") {
            c.q(sql).bind(before).run().await?;
        }
        Ok::<_, DbError>(())
    })
    .await
}

/// Deletes the replays of a person.
///
/// # Errors
/// Only database errors.
pub async fn forget_person(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), DbError> {
    for sql in delete_sql!("p.workspace_id = $1 and p.user_id = $2") {
        c.q(sql).bind(workspace).bind(user).run().await?;
    }
    Ok(())
}
