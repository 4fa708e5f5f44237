//! Rows and views of files.

use serde::Serialize;
use uuid::Uuid;

use crate::{
    agents::profiles::Agent,
    db::{Conn, DbError},
    ids::UserId,
    text_enum::{constant, text_enum},
    time::Timestamp,
};

/// Maximum number of file rows per agent.
pub(super) const FILES_MAX: i64 = 1000;
pub const SOUL: &str = "SOUL.md";
pub const IDENTITY: &str = "IDENTITY.md";
pub const MEMORY: &str = "MEMORY.md";
/// File with the prompt of the agent's heartbeats.
pub const HEARTBEAT: &str = "HEARTBEAT.md";
/// Maximum size of HEARTBEAT.md.
pub(super) const HEARTBEAT_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of tokens from the beginning of MEMORY.md that are included in the prompt of every reply.
pub const NOTES_TOKENS_MAX: u64 = 2_000;
/// Files that a workspace can define for all of its agents.
pub const SHARED: [&str; 2] = ["AGENTS.md", "TOOLS.md"];

text_enum! {
    /// Origin of a file.
    pub enum FileSource {
        /// View of the agent's profile.
        Profile = "profile",
        Agent = "agent",
        /// File of the workspace, used if the agent does not have its own.
        Workspace = "workspace",
    }
}

constant! { pub AgentFileObject = "agent_file" }

/// A file as an entry in a list.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct FileSummary {
    #[schema(inline)]
    pub object: AgentFileObject,
    pub path: String,
    pub source: FileSource,
    pub size_bytes: usize,
    /// Version of the file, or of the agent for `profile`; 0 if the file was never written.
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
pub(super) struct Row {
    pub(super) path: String,
    pub(super) content: Option<String>,
    pub(super) version: i64,
    pub(super) updated_by: UserId,
    pub(super) updated_at: Timestamp,
}

pub(super) fn shown(row: Row, source: FileSource) -> Option<File> {
    let content = row.content?;
    Some(File {
        summary: FileSummary {
            object: AgentFileObject,
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
pub(super) fn view(agent: &Agent, path: &str, content: String) -> File {
    File {
        summary: FileSummary {
            object: AgentFileObject,
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

pub(super) fn soul(agent: &Agent) -> File {
    view(agent, SOUL, agent.instructions.clone())
}

pub(super) fn identity(agent: &Agent) -> File {
    view(agent, IDENTITY, agent.identity_text())
}

/// The agent's own AGENTS.md or TOOLS.md.
pub(super) fn instruction_file(agent: &Agent, path: &str) -> Option<File> {
    let content = agent.files.get(path)?.clone();
    let mut file = view(agent, path, content);
    file.summary.source = FileSource::Agent;
    Some(file)
}

/// Returns the date of a log, such as memory/2026-11-20.md; `None` for another path.
pub fn log_date(path: &str) -> Option<chrono::NaiveDate> {
    let date = path.strip_prefix("memory/")?.strip_suffix(".md")?;
    let is_plain = date.len() == "2026-11-20".len();
    let date = chrono::NaiveDate::parse_from_str(date, "%Y-%m-%d").ok();
    date.filter(|_| is_plain)
}

/// MEMORY.md of an agent that has not stored any memory yet.
pub(super) fn blank_memory() -> File {
    empty(MEMORY, FileSource::Agent, 0)
}

/// A file without content, because it was never written or was deleted.
pub(super) fn empty(path: &str, source: FileSource, version: i64) -> File {
    File {
        summary: FileSummary {
            object: AgentFileObject,
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

pub(super) async fn find_row(
    c: &mut Conn,
    owner: Uuid,
    path: &str,
) -> Result<Option<Row>, DbError> {
    c.q("select path, content, version, updated_by, updated_at from agent_files where owner_id = $1 and path = $2")
        .bind(owner)
        .bind(path.to_owned())
        .opt()
        .await
}

/// Row of a file without the content, which may be large.
#[derive(sqlx::FromRow)]
pub(super) struct SizeRow {
    pub(super) path: String,
    pub(super) size_bytes: i64,
    pub(super) version: i64,
    pub(super) updated_by: UserId,
    pub(super) updated_at: Timestamp,
}

/// Files of an owner that have content, ordered by path; their contents are not read.
pub(super) async fn list_rows(
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
        object: AgentFileObject,
        path: row.path,
        source,
        size_bytes: usize::try_from(row.size_bytes).unwrap_or(0),
        version: row.version,
        updated_at: Some(row.updated_at),
        updated_by: Some(row.updated_by),
    };
    Ok(rows.into_iter().map(summary).collect())
}
