//! Storage limits of a workspace: messages, uploads, stored responses, agents with their versions and files, and texts of turns on runners.
//!
//! The limits are rows in `meta`, written at startup, so that each transaction can check them.

use super::AuthError;
use crate::{
    db::{Conn, DbError},
    ids::{MessageId, WorkspaceId},
};

const BYTES_MAX: &str = "workspace_bytes_max";
const AGENTS_MAX: &str = "agents_max";
/// Approximate size of a row without its texts.
pub const ROW_BYTES: i64 = 1024;
/// Approximate size of a message without its texts.
const MESSAGE_ROW_BYTES: i64 = 512;

/// Divisor: changes without new text may exceed the limit by this fraction (1/n) of it.
const RESERVE_FRACTION: i64 = 10;

/// Storage use of a workspace and its limit.
#[derive(Debug, Clone, Copy, serde::Serialize, utoipa::ToSchema)]
pub struct Storage {
    /// Messages, uploads, stored responses, agents, their versions, and their files, and patches and logs of turns on runners.
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

/// Bytes reserved in workspace `$1` for the versions that outdated agents will get.
macro_rules! reserved_bytes {
    () => {
        "coalesce((select sum(reserved_bytes) from agent_refreshes where workspace_id = $1), 0) \
         + coalesce((select sum(reserved_bytes) from persona_refreshes where workspace_id = $1), 0)"
    };
}

/// Storage use, including the versions that outdated agents will get.
async fn stored_bytes(c: &mut Conn, workspace: WorkspaceId) -> Result<i64, DbError> {
    c.q(concat!(
        "select cast(coalesce((select agent_bytes + message_bytes + file_bytes + response_bytes + code_bytes \
         from workspace_sizes where workspace_id = $1), 0) + ",
        reserved_bytes!(),
        " as bigint)"
    ))
    .bind(workspace)
    .value()
    .await
}

/// A part of the storage use that is counted separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Agents,
    Messages,
    Files,
    Responses,
    Code,
}

/// Adds bytes, which are negative for deletions, to a part of the storage use, and returns the new total.
async fn add(c: &mut Conn, workspace: WorkspaceId, part: Part, bytes: i64) -> Result<i64, DbError> {
    let added = |to: Part| if to == part { bytes } else { 0 };
    c.q(concat!(
        "insert into workspace_sizes as s (workspace_id, agent_bytes, message_bytes, file_bytes, response_bytes, code_bytes) \
         values ($1, $2, $3, $4, $5, $6) on conflict (workspace_id) do update set \
         agent_bytes = s.agent_bytes + excluded.agent_bytes, \
         message_bytes = s.message_bytes + excluded.message_bytes, \
         file_bytes = s.file_bytes + excluded.file_bytes, \
         response_bytes = s.response_bytes + excluded.response_bytes, \
         code_bytes = s.code_bytes + excluded.code_bytes \
         returning cast(agent_bytes + message_bytes + file_bytes + response_bytes + code_bytes + ",
        reserved_bytes!(),
        " as bigint)"
    ))
    .bind(workspace)
    .bind(added(Part::Agents))
    .bind(added(Part::Messages))
    .bind(added(Part::Files))
    .bind(added(Part::Responses))
    .bind(added(Part::Code))
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

/// Checks that this number of additional bytes does not exceed the limit.
///
/// # Errors
/// `QuotaExceeded`.
pub async fn check_bytes(c: &mut Conn, workspace: WorkspaceId, more: i64) -> Result<(), AuthError> {
    let max = limit(c, BYTES_MAX).await?;
    check_against(c, workspace, more, max, max).await
}

/// Like `check_bytes`, for changes that do not add text: they may exceed the limit by a tenth, so that admins of a
/// full workspace can still turn agents off and restrict access to them.
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
    check_against(c, workspace, more, max, with_reserve).await
}

async fn check_against(
    c: &mut Conn,
    workspace: WorkspaceId,
    more: i64,
    max: i64,
    allowed: i64,
) -> Result<(), AuthError> {
    if stored_bytes(c, workspace).await?.saturating_add(more) > allowed {
        return Err(bytes_exceeded(max));
    }
    Ok(())
}

fn bytes_exceeded(max: i64) -> AuthError {
    AuthError::QuotaExceeded(format!(
        "this workspace has reached its storage limit of {max} bytes: delete messages, uploads, stored responses, or agents, or ask the operator for more"
    ))
}

/// Fails if the workspace cannot store a message with these texts.
///
/// # Errors
/// `QuotaExceeded`.
pub async fn check_message(
    c: &mut Conn,
    workspace: WorkspaceId,
    content: &str,
    plain: &str,
) -> Result<(), AuthError> {
    check_bytes(c, workspace, message_bytes(content, plain)).await
}

/// Checks whether the workspace has no room for another reply. Replies that have started are stored in full.
pub async fn is_full(c: &mut Conn, workspace: WorkspaceId) -> Result<bool, DbError> {
    let bytes = stored_bytes(c, workspace).await?;
    Ok(bytes.saturating_add(MESSAGE_ROW_BYTES) > limit(c, BYTES_MAX).await?)
}

/// Counted size of a message with these texts.
pub fn message_bytes(content: &str, plain: &str) -> i64 {
    let texts = content.len().saturating_add(plain.len());
    MESSAGE_ROW_BYTES.saturating_add(i64::try_from(texts).unwrap_or(i64::MAX))
}

/// Counts a new message that is stored even beyond the limit: a notice or the start of a reply.
pub async fn count_message(
    c: &mut Conn,
    workspace: WorkspaceId,
    bytes: i64,
) -> Result<(), DbError> {
    add(c, workspace, Part::Messages, bytes).await?;
    Ok(())
}

/// Adds bytes of messages to the storage use, and fails if it grows beyond the limit.
///
/// # Errors
/// `QuotaExceeded`.
pub async fn count_message_within_limit(
    c: &mut Conn,
    workspace: WorkspaceId,
    more: i64,
) -> Result<(), AuthError> {
    let stored = add(c, workspace, Part::Messages, more).await?;
    if more <= 0 {
        return Ok(());
    }
    let max = limit(c, BYTES_MAX).await?;
    if stored > max {
        return Err(bytes_exceeded(max));
    }
    Ok(())
}

/// Updates the counted size of a message to match its new texts, and returns the bytes to add to the storage use.
async fn set_message_bytes(
    c: &mut Conn,
    id: MessageId,
    content: &str,
    plain: &str,
) -> Result<i64, DbError> {
    let bytes = message_bytes(content, plain);
    let counted: i64 = c
        .q("select counted_bytes from messages where id = $1")
        .bind(id)
        .value()
        .await?;
    if bytes != counted {
        c.q("update messages set counted_bytes = $2 where id = $1")
            .bind(id)
            .bind(bytes)
            .run()
            .await?;
    }
    Ok(bytes - counted)
}

/// Counts the new texts of a message, which are stored even beyond the limit. The caller must have locked the
/// workspace.
pub async fn recount_message(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: MessageId,
    content: &str,
    plain: &str,
) -> Result<(), DbError> {
    match set_message_bytes(c, id, content, plain).await? {
        0 => Ok(()),
        more => count_message(c, workspace, more).await,
    }
}

/// Like `recount_message`, for an edit; fails if the growth of the message exceeds the limit.
///
/// # Errors
/// `QuotaExceeded`.
pub async fn recount_edit(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: MessageId,
    content: &str,
    plain: &str,
) -> Result<(), AuthError> {
    let more = set_message_bytes(c, id, content, plain).await?;
    count_message_within_limit(c, workspace, more).await
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

/// Adds bytes, which are negative for deletions, to the storage use of agents.
pub async fn count_agent_bytes(
    c: &mut Conn,
    workspace: WorkspaceId,
    more: i64,
) -> Result<(), DbError> {
    add(c, workspace, Part::Agents, more).await?;
    Ok(())
}

/// Counted size of a number of uploads with a total number of bytes.
pub fn file_bytes(files: i64, content_bytes: i64) -> i64 {
    content_bytes.saturating_add(files.saturating_mul(ROW_BYTES))
}

/// Maximum content size of one more upload, in bytes.
pub async fn file_bytes_left(c: &mut Conn, workspace: WorkspaceId) -> Result<u64, DbError> {
    let left = limit(c, BYTES_MAX)
        .await?
        .saturating_sub(stored_bytes(c, workspace).await?)
        .saturating_sub(file_bytes(1, 0));
    Ok(u64::try_from(left).unwrap_or(0))
}

/// Adds bytes, which are negative for deletions, to the storage use of uploads.
pub async fn count_file_bytes(
    c: &mut Conn,
    workspace: WorkspaceId,
    more: i64,
) -> Result<(), DbError> {
    add(c, workspace, Part::Files, more).await?;
    Ok(())
}

/// Counted size of a stored response with its input.
pub fn response_bytes(texts_bytes: usize) -> i64 {
    ROW_BYTES.saturating_add(i64::try_from(texts_bytes).unwrap_or(i64::MAX))
}

/// Adds bytes, which are negative for deletions, to the storage use of stored responses.
pub async fn count_response_bytes(
    c: &mut Conn,
    workspace: WorkspaceId,
    more: i64,
) -> Result<(), DbError> {
    add(c, workspace, Part::Responses, more).await?;
    Ok(())
}

/// Adds bytes, which are negative for deletions, to the storage use of texts of turns on runners. They are stored even beyond the limit,
/// from which no turn begins.
pub async fn count_code_bytes(
    c: &mut Conn,
    workspace: WorkspaceId,
    more: i64,
) -> Result<(), DbError> {
    add(c, workspace, Part::Code, more).await?;
    Ok(())
}
