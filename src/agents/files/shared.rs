//! The workspace's AGENTS.md and TOOLS.md, used by agents that do not have their own.

use std::collections::BTreeMap;

use super::{
    FilePath,
    rows::{File, FileSummary, Row, SHARED, find_row, list_rows, shown},
    write::{delete_row, write_row},
};
use crate::agents::AgentError;
use crate::{
    agents::files::FileSource,
    auth::{self, Actor, Scope},
    db::{Conn, DbError},
    ids::WorkspaceId,
};

/// The AGENTS.md and the TOOLS.md that apply to an agent, in this order. `own` contains the agent's
/// own files.
pub(in crate::agents) async fn instruction_files(
    c: &mut Conn,
    workspace: WorkspaceId,
    own: &BTreeMap<String, String>,
) -> Result<[String; 2], DbError> {
    let rows: Vec<Row> = c
        .q("select path, content, version, updated_by, updated_at from agent_files \
            where owner_id = $1 and path in ('AGENTS.md', 'TOOLS.md') and content is not null order by path limit 2")
        .bind(workspace)
        .all()
        .await?;
    let text_of = |path: &str| {
        let shared = || rows.iter().find(|row| row.path == path)?.content.clone();
        own.get(path).cloned().or_else(shared)
    };
    Ok(SHARED.map(|path| text_of(path).unwrap_or_default()))
}

/// Lists the files that the workspace defines for all of its agents.
///
/// # Errors
/// An error from `Actor::require`.
pub async fn list_shared(c: &mut Conn, actor: &Actor<'_>) -> Result<Vec<FileSummary>, AgentError> {
    actor.require(Scope::AgentsRead)?;
    Ok(list_rows(c, actor.workspace.0, FileSource::Workspace).await?)
}

/// # Errors
/// `FileNotFound`.
pub async fn read_shared(
    c: &mut Conn,
    workspace: WorkspaceId,
    path: &FilePath,
) -> Result<File, AgentError> {
    find_row(c, workspace.0, path.as_str())
        .await?
        .and_then(|row| shown(row, FileSource::Workspace))
        .ok_or_else(|| AgentError::FileNotFound(path.as_str().to_owned()))
}

fn require_shared(path: &FilePath) -> Result<(), AgentError> {
    if path.is_shared() {
        return Ok(());
    }
    Err(AgentError::FileRefused(
        path.as_str().to_owned(),
        "a workspace can only have AGENTS.md and TOOLS.md",
    ))
}

/// # Errors
/// `FileRefused` for another path, `FileTooLarge`, `FileStale`, or an error from `Actor::require`.
pub async fn write_shared(
    c: &mut Conn,
    actor: &Actor<'_>,
    path: &FilePath,
    content: &str,
    expected: Option<i64>,
) -> Result<File, AgentError> {
    actor.require(Scope::WorkspaceAdmin)?;
    require_shared(path)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let (owner, source) = (actor.workspace.0, FileSource::Workspace);
    let written = write_row(c, actor, owner, source, path, Some(content), expected).await?;
    audit(c, actor, auth::AuditAction::FileChanged, path).await?;
    written.ok_or_else(|| AgentError::FileNotFound(path.as_str().to_owned()))
}

/// # Errors
/// `FileNotFound`, `FileStale`, or an error from `Actor::require`.
pub async fn delete_shared(
    c: &mut Conn,
    actor: &Actor<'_>,
    path: &FilePath,
    expected: Option<i64>,
) -> Result<(), AgentError> {
    actor.require(Scope::WorkspaceAdmin)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    delete_row(c, actor, actor.workspace.0, path, expected).await?;
    audit(c, actor, auth::AuditAction::FileDeleted, path).await
}

async fn audit(
    c: &mut Conn,
    actor: &Actor<'_>,
    action: auth::AuditAction,
    path: &FilePath,
) -> Result<(), AgentError> {
    let (target, none) = (path.as_str().to_owned(), serde_json::json!({}));
    Ok(auth::record_audit(c, actor, action, target, none).await?)
}
