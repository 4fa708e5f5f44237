//! Storage limits of a workspace: uploads, and agents with their versions and files.
//!
//! The limits are rows in `meta`, written at startup, so that each transaction can check them.

use super::AuthError;
use crate::{
    db::{Conn, DbError},
    ids::WorkspaceId,
};

const BYTES_MAX: &str = "workspace_bytes_max";
const AGENTS_MAX: &str = "agents_max";
/// Approximate size of a row without its texts.
pub const ROW_BYTES: usize = 1024;

/// Part of the limit that only changes without more text may use beyond it.
const RESERVE_FRACTION: i64 = 10;

/// Storage use of a workspace and its limit.
#[derive(Debug, Clone, Copy, serde::Serialize, utoipa::ToSchema)]
pub struct Storage {
    /// Uploads, agents, their versions, and their files.
    pub bytes: i64,
    pub bytes_max: i64,
    pub agents: i64,
    pub agents_max: i64,
}

/// Sets the limits that apply to every workspace.
pub async fn set_quotas(c: &mut Conn, bytes_max: i64, agents_max: i64) -> Result<(), DbError> {
    for (key, value) in [(BYTES_MAX, bytes_max), (AGENTS_MAX, agents_max)] {
        c.q("insert into meta (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value")
            .bind(key)
            .bind(value.to_string())
            .run()
            .await?;
    }
    Ok(())
}

async fn limit(c: &mut Conn, key: &'static str) -> Result<i64, DbError> {
    let row: Option<(String,)> = c
        .q("select value from meta where key = $1")
        .bind(key)
        .opt()
        .await?;
    Ok(row
        .and_then(|(value,)| value.parse().ok())
        .unwrap_or(i64::MAX))
}

async fn stored_bytes(c: &mut Conn, workspace: WorkspaceId) -> Result<i64, DbError> {
    c.q("select cast(coalesce((select sum(size_bytes) from files where workspace_id = $1), 0) \
         + coalesce((select agent_bytes from workspace_sizes where workspace_id = $1), 0) as bigint)")
        .bind(workspace)
        .value()
        .await
}

async fn agents(c: &mut Conn, workspace: WorkspaceId) -> Result<i64, DbError> {
    c.q("select count(*) from agents where workspace_id = $1")
        .bind(workspace)
        .value()
        .await
}

/// Current storage use of a workspace.
pub async fn get_storage(c: &mut Conn, workspace: WorkspaceId) -> Result<Storage, DbError> {
    Ok(Storage {
        bytes: stored_bytes(c, workspace).await?,
        bytes_max: limit(c, BYTES_MAX).await?,
        agents: agents(c, workspace).await?,
        agents_max: limit(c, AGENTS_MAX).await?,
    })
}

/// Fails if this many more bytes would exceed the limit.
///
/// # Errors
/// `QuotaExceeded`.
pub async fn check_bytes(c: &mut Conn, workspace: WorkspaceId, more: i64) -> Result<(), AuthError> {
    let max = limit(c, BYTES_MAX).await?;
    check_against(c, workspace, more, (max, max)).await
}

/// As `check_bytes`, for changes that add no text of their own: they may use a tenth more, so that a full workspace can still turn
/// its agents off and close them to people.
///
/// # Errors
/// `QuotaExceeded`.
pub async fn check_reserve(
    c: &mut Conn,
    workspace: WorkspaceId,
    more: i64,
) -> Result<(), AuthError> {
    let max = limit(c, BYTES_MAX).await?;
    let with_reserve = max.saturating_add(max / RESERVE_FRACTION);
    check_against(c, workspace, more, (max, with_reserve)).await
}

async fn check_against(
    c: &mut Conn,
    workspace: WorkspaceId,
    more: i64,
    (max, allowed): (i64, i64),
) -> Result<(), AuthError> {
    if stored_bytes(c, workspace).await?.saturating_add(more) > allowed {
        return Err(AuthError::QuotaExceeded(format!(
            "this workspace has reached its storage limit of {max} bytes: delete uploads or agents, or ask the operator for more"
        )));
    }
    Ok(())
}

/// Fails if the workspace has the maximum number of agents.
///
/// # Errors
/// `QuotaExceeded`.
pub async fn check_agents(c: &mut Conn, workspace: WorkspaceId) -> Result<(), AuthError> {
    let max = limit(c, AGENTS_MAX).await?;
    if agents(c, workspace).await? >= max {
        return Err(AuthError::QuotaExceeded(format!(
            "this workspace has reached its limit of {max} agents: delete one permanently first"
        )));
    }
    Ok(())
}

/// Adds to the storage use of agents; negative for deletions.
pub async fn count_agent_bytes(
    c: &mut Conn,
    workspace: WorkspaceId,
    more: i64,
) -> Result<(), DbError> {
    c.q("insert into workspace_sizes (workspace_id, agent_bytes) values ($1, $2) \
         on conflict (workspace_id) do update set agent_bytes = workspace_sizes.agent_bytes + excluded.agent_bytes")
        .bind(workspace)
        .bind(more)
        .run()
        .await?;
    Ok(())
}
