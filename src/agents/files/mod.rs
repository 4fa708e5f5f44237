//! Agent files: stored rows, and views of the profile that are always consistent with it.
//!
//! SOUL.md is a view of the agent's instructions and IDENTITY.md of its identity: writing either one changes the
//! profile. The other files are rows with their own versions. AGENTS.md and TOOLS.md fall back to the workspace's
//! (`shared`).

use std::collections::BTreeMap;

use serde::Serialize;
use uuid::Uuid;

use super::{
    AgentError,
    profiles::{self, Agent},
};
use crate::{
    auth::{Actor, Scope},
    db::{Conn, DbError},
    ids::UserId,
    text_enum::text_enum,
    time::Timestamp,
};

mod path;
mod shared;
mod write;

pub use path::FilePath;
pub(in crate::agents) use shared::instruction_files;
pub use shared::{delete_shared, list_shared, read_shared, write_shared};
pub(in crate::agents) use write::seed;
pub use write::{delete, write};

/// Maximum number of file rows per agent.
const FILES_MAX: i64 = 1000;
/// Maximum size of all files in one export; JSON may need a multiple of it.
const EXPORT_BYTES_MAX: i64 = 8 * 1024 * 1024;

pub const SOUL: &str = "SOUL.md";
pub const IDENTITY: &str = "IDENTITY.md";
pub const MEMORY: &str = "MEMORY.md";
/// Files that a workspace can define for all of its agents.
pub const SHARED: [&str; 2] = ["AGENTS.md", "TOOLS.md"];

text_enum! {
    /// Origin of a file.
    pub enum FileSource {
        /// View of the agent's profile.
        Profile = "profile",
        Agent = "agent",
        /// Used if the agent does not have its own.
        Workspace = "workspace",
    }
}

/// A file as an entry in a list.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct FileSummary {
    /// Always `agent_file`.
    pub object: &'static str,
    pub path: String,
    pub source: FileSource,
    pub size_bytes: usize,
    /// For `profile`, the agent's version. 0 if the file was never written.
    pub version: i64,
    pub updated_at: Option<Timestamp>,
    pub updated_by: Option<UserId>,
}

#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct File {
    #[serde(flatten)]
    pub summary: FileSummary,
    pub content: String,
}

#[derive(sqlx::FromRow)]
struct Row {
    owner_id: Uuid,
    path: String,
    content: Option<String>,
    version: i64,
    updated_by: UserId,
    updated_at: Timestamp,
}

fn shown(row: Row, source: FileSource) -> Option<File> {
    let content = row.content?;
    Some(File {
        summary: FileSummary {
            object: "agent_file",
            path: row.path,
            source,
            size_bytes: content.len(),
            version: row.version,
            updated_at: Some(row.updated_at),
            updated_by: Some(row.updated_by),
        },
        content,
    })
}

/// Builds a file that is a view of the profile.
fn view(agent: &Agent, path: &str, content: String) -> File {
    File {
        summary: FileSummary {
            object: "agent_file",
            path: path.to_owned(),
            source: FileSource::Profile,
            size_bytes: content.len(),
            version: agent.summary.version,
            updated_at: Some(agent.summary.updated_at),
            updated_by: None,
        },
        content,
    }
}

fn soul(agent: &Agent) -> File {
    view(agent, SOUL, agent.instructions.clone())
}

fn identity(agent: &Agent) -> File {
    view(agent, IDENTITY, agent.identity_text())
}

/// MEMORY.md of an agent that has not stored any memory yet.
fn blank_memory() -> File {
    empty(MEMORY, FileSource::Agent, 0)
}

/// A file without content: never written, or deleted.
fn empty(path: &str, source: FileSource, version: i64) -> File {
    File {
        summary: FileSummary {
            object: "agent_file",
            path: path.to_owned(),
            source,
            size_bytes: 0,
            version,
            updated_at: None,
            updated_by: None,
        },
        content: String::new(),
    }
}

async fn find_row(c: &mut Conn, owner: Uuid, path: &str) -> Result<Option<Row>, DbError> {
    c.q("select owner_id, path, content, version, updated_by, updated_at from agent_files where owner_id = $1 and path = $2")
        .bind(owner)
        .bind(path.to_owned())
        .opt()
        .await
}

/// A row without its content, which may be large.
#[derive(sqlx::FromRow)]
struct SizeRow {
    path: String,
    size_bytes: i64,
    version: i64,
    updated_by: UserId,
    updated_at: Timestamp,
}

/// Lists all files of an agent by path: its views, its own files, and the workspace's files that it does not
/// override.
///
/// # Errors
/// `NotFound`, or an error from `Actor::require`.
pub async fn list(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
) -> Result<Vec<FileSummary>, AgentError> {
    actor.require(Scope::AgentsRead)?;
    let agent = profiles::get_by_reference(c, actor, reference).await?;
    let own = list_rows(c, agent.summary.id.0, FileSource::Agent).await?;
    let shared = list_rows(c, actor.workspace.0, FileSource::Workspace).await?;
    let mut files: BTreeMap<String, FileSummary> = BTreeMap::new();
    let blank = [blank_memory(), soul(&agent), identity(&agent)].map(|file| file.summary);
    for file in shared.into_iter().chain(blank).chain(own) {
        files.insert(file.path.clone(), file);
    }
    Ok(files.into_values().collect())
}

/// Files of an owner that have content, ordered by path; their contents are not read.
async fn list_rows(
    c: &mut Conn,
    owner: Uuid,
    source: FileSource,
) -> Result<Vec<FileSummary>, DbError> {
    let rows: Vec<SizeRow> = c
        .q(
            "select path, cast(octet_length(content) as bigint) as size_bytes, version, updated_by, updated_at from agent_files \
            where owner_id = $1 and content is not null order by path limit $2",
        )
        .bind(owner)
        .bind(FILES_MAX)
        .all()
        .await?;
    let summary = |row: SizeRow| FileSummary {
        object: "agent_file",
        path: row.path,
        source,
        size_bytes: usize::try_from(row.size_bytes).unwrap_or(0),
        version: row.version,
        updated_at: Some(row.updated_at),
        updated_by: Some(row.updated_by),
    };
    Ok(rows.into_iter().map(summary).collect())
}

/// # Errors
/// `NotFound`, `FileNotFound`, or an error from `Actor::require`.
pub async fn read(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    path: &FilePath,
) -> Result<File, AgentError> {
    actor.require(Scope::AgentsRead)?;
    let agent = profiles::get_by_reference(c, actor, reference).await?;
    match path.as_str() {
        SOUL => return Ok(soul(&agent)),
        IDENTITY => return Ok(identity(&agent)),
        _ => {}
    }
    let own = find_row(c, agent.summary.id.0, path.as_str()).await?;
    if let Some(file) = own.and_then(|row| shown(row, FileSource::Agent)) {
        return Ok(file);
    }
    if path.as_str() == MEMORY {
        return Ok(blank_memory());
    }
    if path.is_shared() {
        return read_shared(c, actor.workspace, path).await;
    }
    Err(AgentError::FileNotFound(path.as_str().to_owned()))
}

/// Returns an earlier version of a file. For a view, the version is that of the agent.
///
/// # Errors
/// `NotFound`, `VersionNotFound`, or an error from `Actor::require`.
pub async fn read_version(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    path: &FilePath,
    version: i64,
) -> Result<File, AgentError> {
    actor.require(Scope::AgentsRead)?;
    let agent = profiles::get_by_reference(c, actor, reference).await?;
    let of_view = [SOUL, IDENTITY].contains(&path.as_str());
    let (content, changed_at, changed_by) = if of_view {
        let old = profiles::get_version(c, actor, reference, version).await?;
        let form = old.snapshot;
        let content = if path.as_str() == SOUL {
            form.instructions
        } else {
            form.identity_text()
        };
        (content, old.summary.changed_at, old.summary.changed_by)
    } else {
        let row: Option<(Option<String>, Timestamp, UserId)> = c
            .q("select content, changed_at, changed_by from agent_file_versions where owner_id = $1 and path = $2 and version = $3")
            .bind(agent.summary.id)
            .bind(path.as_str().to_owned())
            .bind(version)
            .opt()
            .await?;
        match row {
            Some((Some(content), at, by)) => (content, at, Some(by)),
            _ => return Err(AgentError::VersionNotFound(version)),
        }
    };
    Ok(File {
        summary: FileSummary {
            object: "agent_file",
            path: path.as_str().to_owned(),
            source: if of_view {
                FileSource::Profile
            } else {
                FileSource::Agent
            },
            size_bytes: content.len(),
            version,
            updated_at: Some(changed_at),
            updated_by: changed_by,
        },
        content,
    })
}

/// Contents of an agent's own files by path, for an export.
///
/// # Errors
/// `ExportTooLarge`, before any content is read.
pub(in crate::agents) async fn own(
    c: &mut Conn,
    agent: &Agent,
) -> Result<BTreeMap<String, String>, AgentError> {
    let owner = agent.summary.id;
    let size_bytes: i64 = c
        .q("select cast(coalesce(sum(octet_length(content)), 0) as bigint) from agent_files where owner_id = $1")
        .bind(owner)
        .value()
        .await?;
    if size_bytes > EXPORT_BYTES_MAX {
        return Err(AgentError::ExportTooLarge(size_bytes));
    }
    let files: Vec<(String, String)> = c
        .q("select path, content from agent_files where owner_id = $1 and content is not null order by path limit $2")
        .bind(owner)
        .bind(FILES_MAX)
        .all()
        .await?;
    Ok(files.into_iter().collect())
}
