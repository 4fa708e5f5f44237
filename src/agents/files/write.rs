//! Writing and deleting files: each state of a row is a version.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{
    FilePath, SHARED,
    rows::{
        FILES_MAX, File, HEARTBEAT, HEARTBEAT_BYTES_MAX, IDENTITY, SOUL, empty, find_row, identity,
        instruction_file, shown, soul,
    },
};
use crate::agents::{
    AgentError,
    profiles::{self, Agent, AgentPatch},
};
use crate::{
    agents::files::FileSource,
    auth::{Actor, Scope, quota},
    db::{Conn, now},
};

/// Maximum file size in UTF-8 bytes.
const FILE_BYTES_MAX: usize = 256 * 1024;

/// Writes a file. Writing a view of the profile changes the profile. `expected` is the version from `If-Match`.
///
/// # Errors
/// `NotFound`, `NotEditor`, `InvalidLogDate`, `FileTooLarge`, `FileStale`, `FileRefused` if the agent already has the maximum number of files, an
/// error from changing the profile, or an error from `Actor::require`.
pub async fn write(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    path: &FilePath,
    content: &str,
    expected: Option<i64>,
) -> Result<File, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    path.check_date()?;
    if path.as_str() == HEARTBEAT && content.len() > HEARTBEAT_BYTES_MAX {
        return Err(AgentError::FileRefused(
            HEARTBEAT.to_owned(),
            "this file can have at most 16 KiB",
        ));
    }
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let missing = || AgentError::FileNotFound(path.as_str().to_owned());
    let field = match path.as_str() {
        SOUL => "instructions",
        IDENTITY => "identity",
        _ if path.is_shared() => {
            check_size(content)?;
            let (path, content) = (path.as_str(), Some(content));
            let agent = profiles::put_file(c, actor, reference, path, content, expected).await?;
            return instruction_file(&agent, path).ok_or_else(missing);
        }
        _ => {
            let agent = profiles::get_editable(c, actor, reference).await?;
            let owner = agent.summary.id.0;
            let (source, content) = (FileSource::Agent, Some(content));
            let written = write_row(c, actor, owner, source, path, content, expected).await?;
            return written.ok_or_else(missing);
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

/// Deletes a file. After IDENTITY.md is deleted, it is generated from the profile's fields again.
///
/// # Errors
/// `NotFound`, `NotEditor`, `FileNotFound`, `FileStale`, `FileRefused` for SOUL.md, or an error from `Actor::require`.
pub async fn delete(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    path: &FilePath,
    expected: Option<i64>,
) -> Result<(), AgentError> {
    actor.require(Scope::AgentsWrite)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    match path.as_str() {
        SOUL => Err(AgentError::FileRefused(
            SOUL.to_owned(),
            "an agent cannot exist without its instructions",
        )),
        IDENTITY => {
            let patch = AgentPatch::of("identity", serde_json::Value::Null);
            profiles::patch_agent(c, actor, reference, &patch, expected).await?;
            Ok(())
        }
        _ if path.is_shared() => {
            let agent = profiles::get_editable(c, actor, reference).await?;
            if !agent.files.contains_key(path.as_str()) {
                return Err(AgentError::FileNotFound(path.as_str().to_owned()));
            }
            profiles::put_file(c, actor, reference, path.as_str(), None, expected).await?;
            Ok(())
        }
        _ => {
            let agent = profiles::get_editable(c, actor, reference).await?;
            delete_row(c, actor, agent.summary.id.0, path, expected).await
        }
    }
}

pub(super) async fn delete_row(
    c: &mut Conn,
    actor: &Actor<'_>,
    owner: Uuid,
    path: &FilePath,
    expected: Option<i64>,
) -> Result<(), AgentError> {
    let known = find_row(c, owner, path.as_str()).await?;
    if known.is_none_or(|row| row.content.is_none()) {
        return Err(AgentError::FileNotFound(path.as_str().to_owned()));
    }
    write_row(c, actor, owner, FileSource::Agent, path, None, expected).await?;
    Ok(())
}

fn check_size(content: &str) -> Result<(), AgentError> {
    if content.len() > FILE_BYTES_MAX {
        return Err(AgentError::FileTooLarge(content.len()));
    }
    Ok(())
}

/// Stores new content of a file as a new version. `None` removes the content and returns `None`.
pub(super) async fn write_row(
    c: &mut Conn,
    actor: &Actor<'_>,
    owner: Uuid,
    source: FileSource,
    path: &FilePath,
    content: Option<&str>,
    expected: Option<i64>,
) -> Result<Option<File>, AgentError> {
    check_size(content.unwrap_or_default())?;
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
                path.as_str().to_owned(),
                "the agent has reached the limit of 1000 files: delete some first",
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
    let text_bytes = text.as_deref().map_or(0, str::len);
    let bytes = quota::ROW_BYTES.saturating_add(i64::try_from(text_bytes).unwrap_or(i64::MAX));
    if text.is_some() {
        quota::check_bytes(c, actor.workspace, bytes).await?;
    }
    quota::count_agent_bytes(c, actor.workspace, bytes).await?;
    c.q("insert into agent_files (workspace_id, owner_id, path, content, version, updated_by, updated_at) \
         values ($1, $2, $3, $4, $5, $6, $7) on conflict (owner_id, path) do update set content = excluded.content, \
         version = excluded.version, updated_by = excluded.updated_by, updated_at = excluded.updated_at")
        .bind(actor.workspace)
        .bind(owner)
        .bind(path.as_str().to_owned())
        .bind(text.clone())
        .bind(version + 1)
        .bind(actor.user)
        .bind(now())
        .run()
        .await?;
    c.q("insert into agent_file_versions (owner_id, path, version, content, changed_by, changed_at) values ($1, $2, $3, $4, $5, $6)")
        .bind(owner)
        .bind(path.as_str().to_owned())
        .bind(version + 1)
        .bind(text)
        .bind(actor.user)
        .bind(now())
        .run()
        .await?;
    let stored = find_row(c, owner, path.as_str()).await?;
    Ok(stored.and_then(|row| shown(row, source)))
}

/// Removes AGENTS.md and TOOLS.md from `files` and returns them, because they are part of a new agent's profile.
pub(in crate::agents) fn take_instructions(
    files: &mut BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, AgentError> {
    let mut taken = BTreeMap::new();
    for path in SHARED {
        if let Some(content) = files.remove(path) {
            check_size(&content)?;
            taken.insert(path.to_owned(), content);
        }
    }
    Ok(taken)
}

/// Inserts the other initial files of a new agent.
pub(in crate::agents) async fn seed(
    c: &mut Conn,
    actor: &Actor<'_>,
    agent: &Agent,
    files: &BTreeMap<String, String>,
) -> Result<(), AgentError> {
    for (path, content) in files {
        let path = FilePath::parse(path)?;
        path.check_date()?;
        let owner = agent.summary.id.0;
        write_row(
            c,
            actor,
            owner,
            FileSource::Agent,
            &path,
            Some(content),
            None,
        )
        .await?;
    }
    Ok(())
}
