//! What all code about runners shares.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    auth::hash_token,
    db::{Conn, DbError, now},
    ids::{RunnerId, WorkspaceId},
    registry::RUNNER_SEEN_WITHIN,
    time::Timestamp,
};

/// Time without a frame after which a runner counts as away.
pub(super) const SEEN_WITHIN: Duration = RUNNER_SEEN_WITHIN;
/// Time without a sign of life after which the turns of a runner fail.
pub(super) const AWAY_MAX: Duration = Duration::from_mins(10);
/// Engine that uses the models of the workspace.
pub const BUILTIN: &str = "builtin";

/// An engine of a runner: an agent that it can start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunnerEngine {
    pub name: String,
    /// Host of the engine's own provider, through which its agent can reach the web; null for an engine that only uses the models of this
    /// workspace.
    pub to: Option<String>,
}

/// The runner whose key was sent.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub struct RunnerIdentity {
    pub id: RunnerId,
    pub workspace_id: WorkspaceId,
}

/// Checks whether a runner that has a connection is online.
pub(super) fn is_online(is_connected: bool, seen_at: Option<Timestamp>) -> bool {
    is_connected && seen_at.is_some_and(|at| at > now() - SEEN_WITHIN)
}

/// The workspace of a runner; `None` if there is no such runner.
///
/// # Errors
/// Only database errors.
pub async fn workspace_of_runner(
    c: &mut Conn,
    id: RunnerId,
) -> Result<Option<WorkspaceId>, DbError> {
    let row: Option<(WorkspaceId,)> = c
        .q("select workspace_id from runners where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|(workspace,)| workspace))
}

/// The runner with a key; `None` if there is none.
///
/// # Errors
/// Only database errors.
pub async fn find_by_key(c: &mut Conn, key: &str) -> Result<Option<RunnerIdentity>, DbError> {
    c.q("select id, workspace_id from runners where key_hash = $1")
        .bind(hash_token(key))
        .opt()
        .await
}
