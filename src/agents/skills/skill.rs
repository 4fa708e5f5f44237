//! Skills as they are stored and shown.

use std::collections::HashMap;

use serde::Serialize;

use crate::{
    agents::profiles::{AgentStatus, SkillList},
    auth::Actor,
    db::{Conn, DbError, is_readable_skill, is_visible_channel},
    ids::{ChannelId, SkillId, UserId, WorkspaceId},
    text_enum::constant,
    time::Timestamp,
};

constant! { pub SkillObject = "skill" }

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct SkillFile {
    pub path: String,
    /// Size in bytes.
    pub bytes: i64,
    /// Text of the file; omitted in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub content: Option<String>,
}

/// A skill: a folder of texts that agents read when they need them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Skill {
    pub id: SkillId,
    #[schema(inline)]
    pub object: SkillObject,
    /// Unique in the workspace; from the front matter of `SKILL.md`.
    pub name: String,
    pub description: String,
    /// Sorted by path.
    pub files: Vec<SkillFile>,
    /// Channels whose readers can read the skill and in which agents can use it, except for channels that the caller cannot read.
    /// Null for everyone in the workspace except for guests.
    pub channel_ids: Option<Vec<ChannelId>>,
    /// Number of agents that have the skill, including those that inherit it, but not archived ones.
    pub used_by: i64,
    pub version: i64,
    pub created_by: UserId,
    /// The person who last changed the texts.
    pub written_by: UserId,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: SkillId,
    name: String,
    description: String,
    for_all: bool,
    version: i64,
    created_by: UserId,
    written_by: UserId,
    created_at: Timestamp,
    updated_at: Timestamp,
}

macro_rules! skill_sql {
    ($tail:expr) => {
        concat!(
            "select s.id, s.name, s.description, s.for_all, s.version, s.created_by, s.written_by, s.created_at, s.updated_at \
             from skills s where s.workspace_id = $1 and ",
            is_readable_skill!("$2"),
            $tail
        )
    };
}

/// Parts of skills that are in other tables, by skill.
#[derive(Default)]
struct Parts {
    files: HashMap<SkillId, Vec<SkillFile>>,
    channels: HashMap<SkillId, Vec<ChannelId>>,
    used: Vec<SkillList>,
}

impl Parts {
    fn skill(&mut self, row: Row) -> Skill {
        let mut files = self.files.remove(&row.id).unwrap_or_default();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let mut channels = self.channels.remove(&row.id).unwrap_or_default();
        channels.sort_unstable();
        let used_by = self.used.iter().filter(|list| list.has(&row.name)).count();
        Skill {
            id: row.id,
            object: SkillObject,
            files,
            channel_ids: (!row.for_all).then_some(channels),
            used_by: i64::try_from(used_by).unwrap_or(i64::MAX),
            name: row.name,
            description: row.description,
            version: row.version,
            created_by: row.created_by,
            written_by: row.written_by,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// Channels of skills that the person can read; of all skills if `skill` is `None`.
async fn visible_channels(
    c: &mut Conn,
    actor: &Actor<'_>,
    skill: Option<SkillId>,
) -> Result<HashMap<SkillId, Vec<ChannelId>>, DbError> {
    let rows: Vec<(SkillId, ChannelId)> = c
        .q(concat!(
            "select k.skill_id, k.channel_id from skill_channels k join skills s on s.id = k.skill_id \
             join channels h on h.id = k.channel_id where s.workspace_id = $1 and (s.id = $3 or $3 is null) and ",
            is_visible_channel!("h", "$2")
        ))
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(skill)
        .all()
        .await?;
    let mut channels: HashMap<SkillId, Vec<ChannelId>> = HashMap::new();
    for (skill, channel) in rows {
        channels.entry(skill).or_default().push(channel);
    }
    Ok(channels)
}

/// Lists of skills of the workspace's agents, with those that they inherit. Archived agents do not count.
async fn used_lists(c: &mut Conn, workspace: WorkspaceId) -> Result<Vec<SkillList>, DbError> {
    let rows: Vec<(String,)> = c
        .q("select CAST(a.summary -> 'skills' AS TEXT) from agents a \
            where a.workspace_id = $1 and a.status <> $2 and a.summary -> 'skills' is not null")
        .bind(workspace)
        .bind(AgentStatus::Archived)
        .all()
        .await?;
    let lists = rows
        .into_iter()
        .filter_map(|(text,)| serde_json::from_str(&text).ok());
    Ok(lists.collect())
}

/// Lists the skills that the person can read, by name. Texts of files are omitted.
///
/// # Errors
/// Only database errors.
pub async fn list_skills(c: &mut Conn, actor: &Actor<'_>) -> Result<Vec<Skill>, DbError> {
    let rows: Vec<Row> = c
        .q(skill_sql!(""))
        .bind(actor.workspace)
        .bind(actor.user)
        .all()
        .await?;
    let found: Vec<(SkillId, String, i64)> = c
        .q(
            "select f.skill_id, f.path, cast(octet_length(f.content) as bigint) from skill_files f \
            join skills s on s.id = f.skill_id where s.workspace_id = $1",
        )
        .bind(actor.workspace)
        .all()
        .await?;
    let mut files: HashMap<SkillId, Vec<SkillFile>> = HashMap::new();
    for (skill, path, bytes) in found {
        files.entry(skill).or_default().push(SkillFile {
            path,
            bytes,
            content: None,
        });
    }
    let mut parts = Parts {
        files,
        channels: visible_channels(c, actor, None).await?,
        used: used_lists(c, actor.workspace).await?,
    };
    let mut skills: Vec<Skill> = rows.into_iter().map(|row| parts.skill(row)).collect();
    skills.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(skills)
}

/// Returns a skill with the texts of its files; `None` if the person cannot read it.
///
/// # Errors
/// Only database errors.
pub async fn get_skill(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: SkillId,
) -> Result<Option<Skill>, DbError> {
    let row: Option<Row> = c
        .q(skill_sql!(" and s.id = $3"))
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(id)
        .opt()
        .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let found: Vec<(String, String)> = c
        .q("select path, content from skill_files where skill_id = $1")
        .bind(id)
        .all()
        .await?;
    let files = found.into_iter().map(|(path, content)| SkillFile {
        path,
        bytes: i64::try_from(content.len()).unwrap_or(i64::MAX),
        content: Some(content),
    });
    let mut parts = Parts {
        files: HashMap::from([(id, files.collect())]),
        channels: visible_channels(c, actor, Some(id)).await?,
        used: used_lists(c, actor.workspace).await?,
    };
    Ok(Some(parts.skill(row)))
}

/// # Errors
/// Only database errors.
pub async fn workspace_of(c: &mut Conn, id: SkillId) -> Result<Option<WorkspaceId>, DbError> {
    let row: Option<(WorkspaceId,)> = c
        .q("select workspace_id from skills where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|(workspace,)| workspace))
}

/// Names in a list that no skill of the workspace has.
///
/// # Errors
/// Only database errors.
pub async fn find_missing(
    c: &mut Conn,
    workspace: WorkspaceId,
    list: Option<&SkillList>,
) -> Result<Vec<String>, DbError> {
    let names = list.map_or(&[][..], SkillList::names);
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let known: Vec<(String,)> = c
        .q("select name from skills where workspace_id = $1")
        .bind(workspace)
        .all()
        .await?;
    let is_missing = |name: &&String| known.iter().all(|(known,)| known != *name);
    Ok(names.iter().filter(is_missing).cloned().collect())
}

/// The first of these names that no skill has that the person can read.
///
/// # Errors
/// Only database errors.
pub async fn find_unreadable(
    c: &mut Conn,
    actor: &Actor<'_>,
    names: &[String],
) -> Result<Option<String>, DbError> {
    if names.is_empty() {
        return Ok(None);
    }
    let rows: Vec<Row> = c
        .q(skill_sql!(""))
        .bind(actor.workspace)
        .bind(actor.user)
        .all()
        .await?;
    let is_unknown = |name: &&String| rows.iter().all(|row| row.name != **name);
    Ok(names.iter().find(is_unknown).cloned())
}
