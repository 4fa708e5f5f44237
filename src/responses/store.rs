//! Stored responses, and the tasks that record the usage of calls.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::{ResponseError, items::Item, kept_rounds, object::ResponseObject};
use crate::{
    auth::{Actor, AuthError, Caller, Scope, quota},
    db::{Conn, Db, DbError, Json, now},
    ids::{AgentId, ResponseId, UserId, WorkspaceId},
    tasks::queue::{self, Call},
    time::Timestamp,
};

/// Maximum number of responses deleted in one cleanup round.
const TIDY_ROWS_MAX: i64 = 500;

/// Row of a response that will be inserted.
pub(super) struct NewRow {
    pub id: ResponseId,
    pub previous: Option<ResponseId>,
    pub input: Vec<Item>,
    pub response: Value,
    /// Size that counts toward the storage quota.
    pub counted_bytes: i64,
    /// Time for which the response is kept.
    pub kept: Duration,
}

/// Records a finished call, and stores its response if requested. If the caller has lost access, the usage is still recorded, and the
/// result is `Err` inside `Ok`.
pub(super) async fn record(
    c: &mut Conn,
    caller: &Caller,
    call: &Call,
    row: Option<&NewRow>,
) -> Result<Result<(), AuthError>, DbError> {
    queue::record_call(c, call).await?;
    let Some(row) = row else { return Ok(Ok(())) };
    let entered = caller.enter(c, call.workspace).await;
    match entered.and_then(|actor| actor.require(Scope::AgentsUse)) {
        Ok(()) => {}
        Err(AuthError::Db(e)) => return Err(e),
        Err(refused) => return Ok(Err(refused)),
    }
    let at = now();
    // The limit was checked before the call. A model's answer is always stored in full.
    quota::count_response_bytes(c, call.workspace, row.counted_bytes).await?;
    c.q("insert into responses (id, workspace_id, user_id, previous_id, agent_id, agent_version, task_id, input, response, created_at, expires_at, \
         counted_bytes) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)")
        .bind(row.id)
        .bind(call.workspace)
        .bind(call.requested_by)
        .bind(row.previous)
        .bind(call.agent.map(|(agent, _)| agent))
        .bind(call.agent.map(|(_, version)| version))
        .bind(call.id)
        .bind(Json(row.input.clone()))
        .bind(Json(row.response.clone()))
        .bind(at)
        .bind(at + row.kept)
        .bind(row.counted_bytes)
        .run()
        .await?;
    Ok(Ok(()))
}

/// Returns the size that a response and its input count toward the storage quota, or only the size of the input if there is no
/// response yet.
pub(super) fn counted_bytes(input: &[Item], response: Option<&Value>) -> i64 {
    let input = serde_json::to_vec(input).map_or(0, |json| json.len());
    let response = response.map_or(0, |response| response.to_string().len());
    quota::response_bytes(input + response)
}

#[derive(sqlx::FromRow)]
struct Removed {
    counted_bytes: i64,
}

async fn uncount(
    c: &mut Conn,
    workspace: WorkspaceId,
    removed: Vec<Removed>,
) -> Result<(), DbError> {
    let bytes: i64 = removed.iter().map(|row| row.counted_bytes).sum();
    if bytes == 0 {
        return Ok(());
    }
    quota::count_response_bytes(c, workspace, -bytes).await
}

async fn remove(c: &mut Conn, workspace: WorkspaceId, id: ResponseId) -> Result<(), DbError> {
    let removed = c
        .q("delete from responses where id = $1 returning counted_bytes")
        .bind(id)
        .all()
        .await?;
    uncount(c, workspace, removed).await
}

/// Deletes all stored responses of a person in a workspace, and what is kept for their function calls.
pub async fn forget_person(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), DbError> {
    kept_rounds::forget_person(c, workspace, user).await?;
    let removed = c
        .q("delete from responses where workspace_id = $1 and user_id = $2 returning counted_bytes")
        .bind(workspace)
        .bind(user)
        .all()
        .await?;
    uncount(c, workspace, removed).await
}

/// A stored response as a link in a conversation.
#[derive(sqlx::FromRow)]
pub(super) struct Link {
    pub previous_id: Option<ResponseId>,
    pub agent_id: Option<AgentId>,
    pub agent_version: Option<i64>,
    pub input: Json<Vec<Item>>,
    pub response: Json<Value>,
}

/// Finds one of the actor's own responses in the actor's workspace. Returns `None` if it does not exist or has expired.
pub(super) async fn find_link(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: ResponseId,
) -> Result<Option<Link>, DbError> {
    c.q(
        "select previous_id, agent_id, agent_version, input, response from responses \
         where id = $1 and workspace_id = $2 and user_id = $3 and expires_at > $4",
    )
    .bind(id)
    .bind(actor.workspace)
    .bind(actor.user)
    .bind(now())
    .opt()
    .await
}

#[derive(sqlx::FromRow)]
struct Kept {
    workspace_id: WorkspaceId,
    user_id: UserId,
    response: Json<Value>,
    expires_at: Timestamp,
}

/// Finds a response that the caller created.
async fn find_own(
    c: &mut Conn,
    caller: &Caller,
    reference: &str,
) -> Result<(ResponseId, Kept), ResponseError> {
    let absent = || ResponseError::NotFound(reference.to_owned());
    let id: ResponseId = reference.parse().map_err(|_| {
        let text = format!("`{reference}` is not a response ID: response IDs start with resp_");
        ResponseError::invalid("response_id", text)
    })?;
    let row: Option<Kept> = c
        .q("select workspace_id, user_id, response, expires_at from responses where id = $1")
        .bind(id)
        .opt()
        .await?;
    let row = row
        .filter(|row| row.user_id == caller.user && row.expires_at > now())
        .ok_or_else(absent)?;
    let actor = caller.enter(c, row.workspace_id).await;
    let actor = actor.map_err(|e| match e {
        AuthError::WorkspaceNotFound => absent(),
        other => other.into(),
    })?;
    actor.require(Scope::AgentsUse)?;
    Ok((id, row))
}

/// Returns a stored response as it was sent.
///
/// # Errors
/// `NotFound`, also for another user's or an expired response; `Invalid` for an invalid ID; or an error from
/// `Actor::require`.
pub async fn get(c: &mut Conn, caller: &Caller, reference: &str) -> Result<Value, ResponseError> {
    Ok(find_own(c, caller, reference).await?.1.response.0)
}

/// Returns the ID of a stored response, and the input items of the request that created it.
///
/// # Errors
/// Same as `get`.
pub(super) async fn get_input(
    c: &mut Conn,
    caller: &Caller,
    reference: &str,
) -> Result<(ResponseId, Vec<Item>), ResponseError> {
    let (id, _) = find_own(c, caller, reference).await?;
    let row: Option<(Json<Vec<Item>>,)> = c
        .q("select input from responses where id = $1")
        .bind(id)
        .opt()
        .await?;
    let (input,) = row.ok_or_else(|| ResponseError::NotFound(reference.to_owned()))?;
    Ok((id, input.0))
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct DeletedResponse {
    pub id: ResponseId,
    #[schema(inline)]
    pub object: ResponseObject,
    pub deleted: bool,
}

/// Deletes a stored response and its input. Responses that continue it are kept; their conversation then starts after the deleted
/// response.
///
/// # Errors
/// Same as `get`.
pub async fn delete(
    db: &Db,
    caller: Caller,
    reference: String,
) -> Result<DeletedResponse, ResponseError> {
    let (_, row) = find_own(&mut db.read().await?, &caller, &reference).await?;
    let id = db
        .write(row.workspace_id.0, async move |c: &mut Conn| {
            let (id, row) = find_own(c, &caller, &reference).await?;
            remove(c, row.workspace_id, id).await?;
            Ok::<_, ResponseError>(id)
        })
        .await?;
    if let Err(e) = db.scrub().await {
        tracing::warn!(error = %e, "deleted text may remain in the write-ahead log until the next checkpoint");
    }
    Ok(DeletedResponse {
        id,
        object: ResponseObject,
        deleted: true,
    })
}

/// Deletes a limited number of expired responses. Clients cannot see expired responses even before they are deleted.
pub async fn cleanup(db: &Db) -> Result<(), DbError> {
    kept_rounds::delete_expired(db).await?;
    let due: Vec<(ResponseId, WorkspaceId)> = db
        .read()
        .await?
        .q("select id, workspace_id from responses where expires_at <= $1 order by expires_at, id limit $2")
        .bind(now())
        .bind(TIDY_ROWS_MAX)
        .all()
        .await?;
    if due.is_empty() {
        return Ok(());
    }
    for (id, workspace) in due {
        db.write(workspace.0, async move |c: &mut Conn| {
            remove(c, workspace, id).await
        })
        .await?;
    }
    // The write-ahead log still contains the deleted texts.
    db.scrub().await
}
