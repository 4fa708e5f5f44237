//! Files of an agent: rows, and views of its profile that cannot differ from it.
//!
//! SOUL.md is the agent's instructions and IDENTITY.md its identity: writing one is a change of the profile. The others are
//! rows with versions of their own. AGENTS.md and TOOLS.md fall back to the workspace's.

use std::collections::BTreeMap;

use serde::Serialize;
use uuid::Uuid;

use super::{
    AgentError,
    profiles::{self, Agent, AgentPatch, Profile},
};
use crate::{
    auth::{Actor, Scope},
    db::{Conn, DbError, now},
    ids::{UserId, WorkspaceId},
    time::Timestamp,
};

/// UTF-8 bytes.
const FILE_BYTES_MAX: usize = 256 * 1024;
const PATH_BYTES_MAX: usize = 200;
const PARTS_MAX: usize = 8;
/// Rows of one agent.
const FILES_MAX: i64 = 1000;

pub const SOUL: &str = "SOUL.md";
pub const IDENTITY: &str = "IDENTITY.md";
pub const MEMORY: &str = "MEMORY.md";
/// A workspace can have these for all its agents.
pub const SHARED: [&str; 2] = ["AGENTS.md", "TOOLS.md"];

/// A file in a list.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct FileSummary {
    /// Always `agent_file`.
    pub object: &'static str,
    pub path: String,
    /// `profile` (a view of the agent's profile), `agent`, or `workspace` (the agent has none of its own).
    pub source: &'static str,
    pub size_bytes: usize,
    /// Of `profile` the agent's version. 0: it was never written.
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

/// A path that a file can have: relative, of parts of `[A-Za-z0-9._-]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePath(String);

impl FilePath {
    /// # Errors
    /// `InvalidPath`, or `FileRefused` for USER.md.
    pub fn parse(text: &str) -> Result<Self, AgentError> {
        let part_fits = |part: &str| {
            !part.is_empty()
                && part != "."
                && part != ".."
                && part
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        };
        let parts: Vec<&str> = text.split('/').collect();
        if text.len() > PATH_BYTES_MAX
            || parts.len() > PARTS_MAX
            || !parts.into_iter().all(part_fits)
        {
            let shown = text.chars().take(80).collect();
            return Err(AgentError::InvalidPath(shown));
        }
        if text.eq_ignore_ascii_case("USER.md") {
            return Err(AgentError::FileRefused(
                text.to_owned(),
                "it belongs to a person, not to an agent",
            ));
        }
        // A file system that does not tell cases apart would lose one of the two.
        let known = [SOUL, IDENTITY, MEMORY, SHARED[0], SHARED[1]];
        if known
            .iter()
            .any(|name| text.eq_ignore_ascii_case(name) && text != *name)
        {
            return Err(AgentError::FileRefused(
                text.to_owned(),
                "files of this name are written SOUL.md, IDENTITY.md, MEMORY.md, AGENTS.md and TOOLS.md",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_shared(&self) -> bool {
        SHARED.contains(&self.0.as_str())
    }
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

fn shown(row: Row, source: &'static str) -> Option<File> {
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

/// A view of the profile.
fn view(agent: &Agent, path: &str, content: String) -> File {
    File {
        summary: FileSummary {
            object: "agent_file",
            path: path.to_owned(),
            source: "profile",
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
    let profile = Profile {
        display_name: agent.summary.display_name.clone(),
        description: agent.summary.description.clone(),
        avatar: agent.summary.avatar.clone(),
        identity: agent.identity.clone(),
        ..Profile::default()
    };
    let text = profiles::shown_identity(&agent.summary.name, &profile);
    view(agent, IDENTITY, text)
}

/// MEMORY.md of an agent that has kept nothing yet.
fn blank_memory() -> File {
    empty(MEMORY, "agent", 0)
}

/// A file that is not there, or no longer.
fn empty(path: &str, source: &'static str, version: i64) -> File {
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

/// Every file of an agent, by path: its views, its own, and the workspace's where it has none.
///
/// # Errors
/// `NotFound`, or what `Actor::require` says.
pub async fn list(
    c: &mut Conn,
    actor: &Actor,
    reference: &str,
) -> Result<Vec<FileSummary>, AgentError> {
    actor.require(Scope::AgentsRead)?;
    let agent = profiles::get_by_reference(c, actor, reference).await?;
    let own = read_all(c, agent.summary.id.0, "agent").await?;
    let shared = read_all(c, actor.workspace.0, "workspace").await?;
    let mut files: BTreeMap<String, FileSummary> = BTreeMap::new();
    let blank = [blank_memory(), soul(&agent), identity(&agent)];
    for file in shared.into_iter().chain(blank).chain(own) {
        files.insert(file.summary.path.clone(), file.summary);
    }
    Ok(files.into_values().collect())
}

/// Files of an owner that have content, by path.
async fn read_all(c: &mut Conn, owner: Uuid, source: &'static str) -> Result<Vec<File>, DbError> {
    let rows: Vec<Row> = c
        .q(
            "select owner_id, path, content, version, updated_by, updated_at from agent_files \
            where owner_id = $1 and content is not null order by path limit $2",
        )
        .bind(owner)
        .bind(FILES_MAX)
        .all()
        .await?;
    Ok(rows
        .into_iter()
        .filter_map(|row| shown(row, source))
        .collect())
}

/// # Errors
/// `NotFound`, `FileNotFound`, or what `Actor::require` says.
pub async fn read(
    c: &mut Conn,
    actor: &Actor,
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
    if let Some(file) = own.and_then(|row| shown(row, "agent")) {
        return Ok(file);
    }
    if path.as_str() == MEMORY {
        return Ok(blank_memory());
    }
    if path.is_shared() {
        return read_shared(c, actor.workspace, path).await;
    }
    Err(AgentError::FileNotFound(path.0.clone()))
}

/// An earlier version of a file; of a view that of the agent's version.
///
/// # Errors
/// `NotFound`, `VersionNotFound`, or what `Actor::require` says.
pub async fn read_version(
    c: &mut Conn,
    actor: &Actor,
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
        let profile = Profile {
            display_name: form.display_name,
            description: form.description,
            avatar: form.avatar,
            identity: form.identity,
            ..Profile::default()
        };
        let content = if path.as_str() == SOUL {
            form.instructions
        } else {
            profiles::shown_identity(&form.name, &profile)
        };
        (content, old.summary.changed_at, old.summary.changed_by)
    } else {
        let row: Option<(Option<String>, Timestamp, UserId)> = c
            .q("select content, changed_at, changed_by from agent_file_versions where owner_id = $1 and path = $2 and version = $3")
            .bind(agent.summary.id)
            .bind(path.0.clone())
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
            path: path.0.clone(),
            source: if of_view { "profile" } else { "agent" },
            size_bytes: content.len(),
            version,
            updated_at: Some(changed_at),
            updated_by: changed_by,
        },
        content,
    })
}

/// Writes a file; of a view it changes the profile. `expected` is the version of `If-Match`.
///
/// # Errors
/// `NotFound`, `FileTooLarge`, `FileStale`, `FileRefused` for one file too many, those of a change of the profile, or what
/// `Actor::require` says.
pub async fn write(
    c: &mut Conn,
    actor: &Actor,
    reference: &str,
    path: &FilePath,
    content: &str,
    expected: Option<i64>,
) -> Result<File, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let field = match path.as_str() {
        SOUL => "instructions",
        IDENTITY => "identity",
        _ => {
            let agent = profiles::get_by_reference(c, actor, reference).await?;
            let owner = agent.summary.id.0;
            let owner = (owner, "agent");
            let written = write_row(c, actor, owner, path, Some(content), expected).await?;
            return written.ok_or_else(|| AgentError::FileNotFound(path.0.clone()));
        }
    };
    let patch = AgentPatch::of(field, content);
    let agent = profiles::patch_agent(c, actor, reference, &patch, expected).await?;
    Ok(if path.as_str() == SOUL {
        soul(&agent)
    } else {
        identity(&agent)
    })
}

/// Deletes a file; IDENTITY.md is then made of the profile's fields again.
///
/// # Errors
/// `NotFound`, `FileNotFound`, `FileStale`, `FileRefused` for SOUL.md, or what `Actor::require` says.
pub async fn delete(
    c: &mut Conn,
    actor: &Actor,
    reference: &str,
    path: &FilePath,
    expected: Option<i64>,
) -> Result<(), AgentError> {
    actor.require(Scope::AgentsWrite)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    match path.as_str() {
        SOUL => Err(AgentError::FileRefused(
            SOUL.to_owned(),
            "it is the agent's instructions, which it cannot be without",
        )),
        IDENTITY => {
            let patch = AgentPatch::of("identity", serde_json::Value::Null);
            profiles::patch_agent(c, actor, reference, &patch, expected).await?;
            Ok(())
        }
        _ => {
            let agent = profiles::get_by_reference(c, actor, reference).await?;
            delete_row(c, actor, agent.summary.id.0, path, expected).await
        }
    }
}

async fn delete_row(
    c: &mut Conn,
    actor: &Actor,
    owner: Uuid,
    path: &FilePath,
    expected: Option<i64>,
) -> Result<(), AgentError> {
    let known = find_row(c, owner, path.as_str()).await?;
    if known.is_none_or(|row| row.content.is_none()) {
        return Err(AgentError::FileNotFound(path.0.clone()));
    }
    write_row(c, actor, (owner, "agent"), path, None, expected).await?;
    Ok(())
}

/// Stores a state of a file and its version; `None` takes the content away, and then there is no file to answer.
async fn write_row(
    c: &mut Conn,
    actor: &Actor,
    (owner, source): (Uuid, &'static str),
    path: &FilePath,
    content: Option<&str>,
    expected: Option<i64>,
) -> Result<Option<File>, AgentError> {
    let bytes = content.map_or(0, str::len);
    if bytes > FILE_BYTES_MAX {
        return Err(AgentError::FileTooLarge(bytes));
    }
    let known = find_row(c, owner, path.as_str()).await?;
    let version = known.as_ref().map_or(0, |row| row.version);
    if expected.is_some_and(|expected| expected != version) {
        let now = known.and_then(|row| shown(row, source));
        return Err(AgentError::FileStale(Box::new(
            now.unwrap_or_else(|| empty(path.as_str(), source, version)),
        )));
    }
    if known.is_none() {
        let n: i64 = c
            .q("select count(*) from agent_files where owner_id = $1")
            .bind(owner)
            .value()
            .await?;
        if n >= FILES_MAX {
            return Err(AgentError::FileRefused(
                path.0.clone(),
                "there are 1000 files already: delete some first",
            ));
        }
    }
    if let Some(row) = known
        && content.is_some()
        && row.content.as_deref() == content
    {
        return Ok(shown(row, source));
    }
    let text = content.map(str::to_owned);
    c.q("insert into agent_files (workspace_id, owner_id, path, content, version, updated_by, updated_at) \
         values ($1, $2, $3, $4, $5, $6, $7) on conflict (owner_id, path) do update set content = excluded.content, \
         version = excluded.version, updated_by = excluded.updated_by, updated_at = excluded.updated_at")
        .bind(actor.workspace)
        .bind(owner)
        .bind(path.0.clone())
        .bind(text.clone())
        .bind(version + 1)
        .bind(actor.user)
        .bind(now())
        .run()
        .await?;
    c.q("insert into agent_file_versions (owner_id, path, version, content, changed_by, changed_at) values ($1, $2, $3, $4, $5, $6)")
        .bind(owner)
        .bind(path.0.clone())
        .bind(version + 1)
        .bind(text)
        .bind(actor.user)
        .bind(now())
        .run()
        .await?;
    let stored = find_row(c, owner, path.as_str()).await?;
    Ok(stored.and_then(|row| shown(row, source)))
}

/// Rows that a new agent begins with.
pub(super) async fn plant(
    c: &mut Conn,
    actor: &Actor,
    agent: &Agent,
    files: &BTreeMap<String, String>,
) -> Result<(), AgentError> {
    for (path, content) in files {
        let path = FilePath::parse(path)?;
        let owner = (agent.summary.id.0, "agent");
        write_row(c, actor, owner, &path, Some(content), None).await?;
    }
    Ok(())
}

/// The rows of an agent, for an export.
pub(super) async fn own(c: &mut Conn, agent: &Agent) -> Result<BTreeMap<String, String>, DbError> {
    let files = read_all(c, agent.summary.id.0, "agent").await?;
    Ok(files
        .into_iter()
        .map(|file| (file.summary.path, file.content))
        .collect())
}

/// AGENTS.md and TOOLS.md as they count for an agent, in that order.
pub(super) async fn standing_orders(
    c: &mut Conn,
    workspace: WorkspaceId,
    agent: Option<crate::ids::AgentId>,
) -> Result<Vec<String>, DbError> {
    let own = agent.map_or(Uuid::nil(), |agent| agent.0);
    let rows: Vec<Row> = c
        .q("select owner_id, path, content, version, updated_by, updated_at from agent_files \
            where owner_id in ($1, $2) and path in ('AGENTS.md', 'TOOLS.md') and content is not null order by path limit 4")
        .bind(own)
        .bind(workspace)
        .all()
        .await?;
    let text_of = |path: &str| {
        let of = |owner: Uuid| {
            rows.iter()
                .find(|row| row.path == path && row.owner_id == owner)
        };
        of(own).or(of(workspace.0))?.content.clone()
    };
    Ok(SHARED
        .into_iter()
        .filter_map(text_of)
        .filter(|text| !text.trim().is_empty())
        .collect())
}

/// The workspace's own files for all its agents.
///
/// # Errors
/// What `Actor::require` says.
pub async fn list_shared(c: &mut Conn, actor: &Actor) -> Result<Vec<FileSummary>, AgentError> {
    actor.require(Scope::AgentsRead)?;
    let files = read_all(c, actor.workspace.0, "workspace").await?;
    Ok(files.into_iter().map(|file| file.summary).collect())
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
        .and_then(|row| shown(row, "workspace"))
        .ok_or_else(|| AgentError::FileNotFound(path.0.clone()))
}

fn require_shared(path: &FilePath) -> Result<(), AgentError> {
    if path.is_shared() {
        return Ok(());
    }
    Err(AgentError::FileRefused(
        path.0.clone(),
        "a workspace has AGENTS.md and TOOLS.md only",
    ))
}

/// # Errors
/// `FileRefused` for another path, `FileTooLarge`, `FileStale`, or what `Actor::require` says.
pub async fn write_shared(
    c: &mut Conn,
    actor: &Actor,
    path: &FilePath,
    content: &str,
    expected: Option<i64>,
) -> Result<File, AgentError> {
    actor.require(Scope::WorkspaceAdmin)?;
    require_shared(path)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let owner = (actor.workspace.0, "workspace");
    let written = write_row(c, actor, owner, path, Some(content), expected).await?;
    written.ok_or_else(|| AgentError::FileNotFound(path.0.clone()))
}

/// # Errors
/// `FileNotFound`, `FileStale`, or what `Actor::require` says.
pub async fn delete_shared(
    c: &mut Conn,
    actor: &Actor,
    path: &FilePath,
    expected: Option<i64>,
) -> Result<(), AgentError> {
    actor.require(Scope::WorkspaceAdmin)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    delete_row(c, actor, actor.workspace.0, path, expected).await
}

#[cfg(test)]
mod tests {
    use super::FilePath;

    #[test]
    fn only_relative_names_of_plain_parts_are_paths() {
        for good in ["MEMORY.md", "memory/2026-11-20.md", "a/b/c-d_e.txt", "..."] {
            assert!(FilePath::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/etc/passwd",
            "../SOUL.md",
            "memory/..",
            "a//b",
            "a/",
            "./a",
            "a\\b",
            "a b",
            "ü.md",
            "a/b/c/d/e/f/g/h/i",
            "C:/x",
            "%2e%2e/x",
            "USER.md",
            "soul.md",
            "user.MD",
        ] {
            assert!(FilePath::parse(bad).is_err(), "{bad}");
        }
        assert!(FilePath::parse(&"x".repeat(201)).is_err());
    }
}
