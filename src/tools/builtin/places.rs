//! Finds channels and people by ID, handle, or name, within the rights of a task.

use uuid::Uuid;

use crate::{
    db::{Conn, is_shared_channel, is_visible_person},
    ids::{AgentId, ChannelId, UserId, WorkspaceId},
    time::Timestamp,
    tool_fault::{ToolErrorCode, ToolFault},
    tools::{output::one_line, rights::Rights, runner::CallError},
};

/// Error for an object that does not exist or is hidden.
pub(super) fn missing(what: &str) -> CallError {
    ToolFault::new(ToolErrorCode::NotFound, what.to_owned()).into()
}

/// Finds a channel that the task, or a single person, may read.
///
/// # Errors
/// `not_found`.
pub async fn channel(
    c: &mut Conn,
    workspace: WorkspaceId,
    rights: &Rights,
    named: &str,
) -> Result<ChannelId, CallError> {
    let name = named.trim_start_matches('#');
    let row: Option<(ChannelId,)> = c
        .q(concat!(
            "select ch.id from channels ch where ch.workspace_id = $1 and (ch.name = $2 or ch.id = $3) and ",
            is_shared_channel!("ch.id", "$4", "$5"),
            " order by ch.id limit 1"
        ))
        .bind(workspace)
        .bind(name.to_lowercase())
        .bind(ChannelId::parse(name).ok())
        .bind(rights.requester)
        .bind(rights.shared_in)
        .opt()
        .await?;
    row.map(|(id,)| id)
        .ok_or_else(|| missing(&format!("no channel `{}`", one_line(named))))
}

/// Finds a member whom the requester can see, or an agent of the workspace.
///
/// # Errors
/// `not_found`.
pub async fn author(
    c: &mut Conn,
    workspace: WorkspaceId,
    rights: &Rights,
    named: &str,
) -> Result<Uuid, CallError> {
    let name = named.trim_start_matches('@');
    let id = UserId::parse(name).map(|id| id.0).ok();
    let id = id.or_else(|| AgentId::parse(name).map(|id| id.0).ok());
    let row: Option<(Uuid,)> = c
        .q(concat!(
            "select x.id from (\
               select m.user_id as id, m.handle as handle, u.name as name from members m join users u on u.id = m.user_id \
               where m.workspace_id = $1 and ",
            is_visible_person!("$1", "m.user_id", "$5"),
            " union all select a.id as id, a.name as handle, coalesce(a.summary ->> 'display_name', a.name) as name from agents a \
               where a.workspace_id = $1) x \
             where x.id = $2 or x.handle = $3 or x.name = $4 order by case when x.name = $4 then 1 else 0 end, x.id limit 1"
        ))
        .bind(workspace)
        .bind(id)
        .bind(name.to_lowercase())
        .bind(name.to_owned())
        .bind(rights.requester)
        .opt()
        .await?;
    row.map(|(id,)| id)
        .ok_or_else(|| missing(&format!("nobody named `{}`", one_line(named))))
}

/// Name of a channel in results.
pub(super) fn place(channel: Option<&str>) -> String {
    channel.map_or_else(|| "a direct message".to_owned(), |name| format!("#{name}"))
}

/// Date of a message in results.
pub(super) fn day(at: Timestamp) -> String {
    at.to_text().chars().take(10).collect()
}

/// Date and time of a message in results, in UTC.
pub(super) fn minute(at: Timestamp) -> String {
    at.to_text()
        .chars()
        .take(16)
        .collect::<String>()
        .replace('T', " ")
}
