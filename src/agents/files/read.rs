//! Reads files: views, rows, and their versions.

use std::collections::BTreeMap;

use crate::{
    agents::{
        AgentError,
        profiles::{self, Agent},
    },
    auth::{Actor, Scope},
    db::{Conn, DbError},
    ids::{AgentId, UserId},
    time::Timestamp,
};

use super::{
    FilePath,
    rows::{
        AgentFileObject, FILES_MAX, File, FileSource, FileSummary, HEARTBEAT, IDENTITY, MEMORY,
        SHARED, SOUL, blank_memory, find_row, identity, instruction_file, list_rows, shown, soul,
    },
    shared::read_shared,
};

/// Maximum size of all files in one export; their JSON can be several times larger.
const EXPORT_BYTES_MAX: i64 = 8 * 1024 * 1024;

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
    let instructions = SHARED
        .iter()
        .filter_map(|path| instruction_file(&agent, path));
    let own = own.into_iter().chain(instructions.map(|file| file.summary));
    for file in shared.into_iter().chain(blank).chain(own) {
        files.insert(file.path.clone(), file);
    }
    Ok(files.into_values().collect())
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
    if path.is_shared() {
        return match instruction_file(&agent, path.as_str()) {
            Some(file) => Ok(file),
            None => read_shared(c, actor.workspace, path).await,
        };
    }
    let own = find_row(c, agent.summary.id.0, path.as_str()).await?;
    if let Some(file) = own.and_then(|row| shown(row, FileSource::Agent)) {
        return Ok(file);
    }
    if path.as_str() == MEMORY {
        return Ok(blank_memory());
    }
    Err(AgentError::FileNotFound(path.as_str().to_owned()))
}

/// Returns an earlier version of a file. For a file that is part of the profile, `version` is a version of the agent.
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
    let (content, changed_at, changed_by) = if of_view || path.is_shared() {
        let mut old = profiles::get_version(c, actor, reference, version).await?;
        let content = match path.as_str() {
            SOUL => Some(old.snapshot.instructions),
            IDENTITY => Some(old.snapshot.identity_text()),
            own => old.files.remove(own),
        };
        let content = content.ok_or(AgentError::VersionNotFound(version))?;
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
            object: AgentFileObject,
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

/// A file that is not blank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthoredFile {
    pub text: String,
    /// The person who wrote the file last.
    pub updated_by: UserId,
}

/// MEMORY.md of an agent; `None` if it is blank.
pub async fn notes(c: &mut Conn, agent: AgentId) -> Result<Option<AuthoredFile>, DbError> {
    authored(c, agent, MEMORY).await
}

/// HEARTBEAT.md of an agent; `None` if it is missing or blank.
pub async fn heartbeat(c: &mut Conn, agent: AgentId) -> Result<Option<AuthoredFile>, DbError> {
    authored(c, agent, HEARTBEAT).await
}

async fn authored(
    c: &mut Conn,
    agent: AgentId,
    path: &str,
) -> Result<Option<AuthoredFile>, DbError> {
    let Some(row) = find_row(c, agent.0, path).await? else {
        return Ok(None);
    };
    let text = row.content.filter(|text| !text.trim().is_empty());
    Ok(text.map(|text| AuthoredFile {
        text,
        updated_by: row.updated_by,
    }))
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
    let mut files = agent.files.clone();
    let rows: Vec<(String, String)> = c
        .q("select path, content from agent_files where owner_id = $1 and content is not null order by path limit $2")
        .bind(owner)
        .bind(FILES_MAX)
        .all()
        .await?;
    files.extend(rows);
    Ok(files)
}
