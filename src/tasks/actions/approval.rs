//! Actions that only ask people: approvals for steps of runs and for pushes, and questions. What asks continues after the decision.

use uuid::Uuid;

use super::{
    row::{ActionSource, Ending, Need, announce, store_needs},
    state::{ActionKind, ActionState, NeededPerson},
};
use crate::{
    db::{Conn, DbError, Json, is_in_visible_channel, now},
    ids::{ActionId, ChannelId, TaskId, UserId, WorkspaceId},
    mcp::Effect,
    realtime::{Audience, EventType},
    time::Timestamp,
};

/// An approval or an answer to request.
#[derive(Debug, Clone)]
pub struct NewApproval {
    pub id: ActionId,
    pub kind: ActionKind,
    /// What asks, if not the task: a session, or the question of an agent outside of the server; empty for a step of a run.
    pub call_id: String,
    pub workspace: WorkspaceId,
    pub task: TaskId,
    /// Number from `next_round`.
    pub round: i64,
    /// Name for approval rules; also the name of the function.
    pub name: &'static str,
    pub title: String,
    pub effect: Effect,
    pub arguments_hash: String,
    pub call_hash: String,
    pub arguments_id: Uuid,
    pub sources: Vec<ActionSource>,
    pub needs: Vec<Need>,
    pub timeout_s: u32,
    pub expires_at: Timestamp,
}

/// Checks whether there is a person who can give an approval: someone whom `need` permits, who can read the channel and is not a
/// viewer.
pub async fn has_approver(
    c: &mut Conn,
    workspace: WorkspaceId,
    channel: ChannelId,
    requester: UserId,
    need: &Need,
) -> Result<bool, DbError> {
    let person = match need.who {
        NeededPerson::Requester => Some(requester),
        NeededPerson::User => need.user_id,
        NeededPerson::Admin | NeededPerson::AnyMember => None,
    };
    c.q(concat!(
        "select exists (select 1 from members m where m.workspace_id = $1 and (m.user_id = $3 or $3 is null) \
         and ($4 = FALSE or m.role = 'admin') and m.role not in ('viewer', 'guest') and m.status <> 'placeholder' and ",
        is_in_visible_channel!("$2", "m.user_id"),
        ")"
    ))
    .bind(workspace)
    .bind(channel)
    .bind(person)
    .bind(need.who == NeededPerson::Admin)
    .value()
    .await
}

/// Increments a task's round counter, and returns the new round's number.
pub async fn next_round(c: &mut Conn, task: TaskId) -> Result<i64, DbError> {
    c.q("update tasks set round = round + 1 where id = $1 returning round")
        .bind(task)
        .value()
        .await
}

/// Stores a waiting approval and announces it.
pub async fn ask(c: &mut Conn, new: &NewApproval, audience: Audience) -> Result<(), DbError> {
    c.q("insert into actions (id, workspace_id, task_id, kind, round, call, call_id, name, function, title, effect, state, definition_hash, \
         arguments_hash, call_hash, arguments_id, sources, runs, timeout_s, is_extended, expires_at, created_at, is_grantable) \
         values ($1, $2, $3, $4, $5, 1, $17, $6, $6, $7, $8, $9, '', $10, $11, $12, $13, 0, $14, FALSE, $15, $16, FALSE)")
        .bind(new.id)
        .bind(new.workspace)
        .bind(new.task)
        .bind(new.kind)
        .bind(new.round)
        .bind(new.name.to_owned())
        .bind(new.title.clone())
        .bind(new.effect)
        .bind(ActionState::Waiting)
        .bind(new.arguments_hash.clone())
        .bind(new.call_hash.clone())
        .bind(new.arguments_id)
        .bind(Json(new.sources.clone()))
        .bind(i64::from(new.timeout_s))
        .bind(new.expires_at)
        .bind(now())
        .bind(new.call_id.clone())
        .run()
        .await?;
    store_needs(c, new.id, &new.needs).await?;
    announce(c, new.id, EventType::ActionRequested, audience).await
}

/// Ends an approved action whose work was done outside of the server, or a question that was answered. Returns false if it is not approved.
pub async fn end(
    c: &mut Conn,
    id: ActionId,
    ending: Ending,
    result: Uuid,
    audience: Audience,
) -> Result<bool, DbError> {
    let ended = c
        .q("update actions set state = $2, error = $3, result_id = $4, started_at = granted_at, ended_at = $5 where id = $1 and state = $6")
        .bind(id)
        .bind(ending.state)
        .bind(ending.error)
        .bind(result)
        .bind(now())
        .bind(ActionState::Approved)
        .run()
        .await?;
    if ended == 1 {
        announce(c, id, EventType::ActionUpdated, audience).await?;
    }
    Ok(ended == 1)
}

/// Ends an approval action that people have approved. Returns false if it is not approved.
pub async fn use_up(c: &mut Conn, id: ActionId, audience: Audience) -> Result<bool, DbError> {
    let used = c
        .q("update actions set state = 'done', started_at = $2, ended_at = $2 where id = $1 and kind = 'approval' and state = 'approved'")
        .bind(id)
        .bind(now())
        .run()
        .await?;
    if used == 1 {
        announce(c, id, EventType::ActionUpdated, audience).await?;
    }
    Ok(used == 1)
}
