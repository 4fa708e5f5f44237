//! Version history of an agent: each version as written and as resolved.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::{
    AgentStatus, Base, NewAgent, Profile, Row, find::get_visible_row,
    merged_columns::MergedColumns, tools::NamedTools,
};
use crate::agents::{AgentError, files::SHARED, personas::find_named, skills::find_missing};
use crate::{
    auth::Actor,
    db::{Conn, DbError, Json},
    ids::{AgentId, UserId},
    text_enum::constant,
    time::Timestamp,
};

constant! { pub VersionObject = "agent_version" }

/// A version as an entry in a list.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct VersionSummary {
    #[schema(inline)]
    pub object: VersionObject,
    pub agent_id: AgentId,
    pub version: i64,
    /// Short summary of the change.
    pub change_summary: Option<String>,
    /// Null for the first version of a workspace's initial agents.
    pub changed_by: Option<UserId>,
    pub changed_at: Timestamp,
}

/// A complete version.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct AgentVersion {
    #[serde(flatten)]
    pub summary: VersionSummary,
    /// The profile as written.
    pub snapshot: NewAgent,
    /// The profile with its bases merged in, as used by tasks.
    pub resolved: NewAgent,
    /// The bases that were merged in, most distant first.
    pub resolved_from: Vec<Base>,
    /// The agent's own AGENTS.md and TOOLS.md, by path.
    #[serde(skip)]
    pub files: BTreeMap<String, String>,
}

/// A field whose value differs between two versions.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct FieldChange {
    pub field: String,
    pub before: Value,
    pub after: Value,
}

constant! { pub DiffObject = "agent_diff" }

/// Differences between two versions, as written.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct AgentDiff {
    #[schema(inline)]
    pub object: DiffObject,
    pub agent_id: AgentId,
    pub from: i64,
    pub to: i64,
    pub changes: Vec<FieldChange>,
}

#[derive(sqlx::FromRow)]
pub(super) struct Stored {
    version: i64,
    name: Option<String>,
    pub(super) mentionable: Option<bool>,
    status: Option<AgentStatus>,
    pub(super) profile: Json<Profile>,
    #[sqlx(flatten)]
    merged: MergedColumns,
    bases: Option<Json<Vec<Base>>>,
    change_summary: Option<String>,
    changed_by: Option<UserId>,
    changed_at: Timestamp,
}

impl Stored {
    /// A profile of this version with the fields stored in the version's row. For older versions without a name or `mentionable`, the
    /// agent's current value is used.
    fn form(&self, row: &Row, profile: Profile) -> NewAgent {
        NewAgent {
            name: self.name.clone().unwrap_or_else(|| row.name.clone()),
            mentionable: Some(self.mentionable.unwrap_or(row.mentionable)),
            status: self.status,
            ..NewAgent::of_profile(profile)
        }
    }

    fn summary(&self, agent: AgentId) -> VersionSummary {
        VersionSummary {
            object: VersionObject,
            agent_id: agent,
            version: self.version,
            change_summary: self.change_summary.clone(),
            changed_by: self.changed_by,
            changed_at: self.changed_at,
        }
    }
}

/// Lists versions of an agent below `before`, newest first.
///
/// # Errors
/// `NotFound`.
pub async fn list_versions(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<VersionSummary>, AgentError> {
    let row = get_visible_row(c, actor, reference).await?;
    let rows: Vec<(i64, Option<String>, Option<UserId>, Timestamp)> = c
        .q(
            "select version, change_summary, changed_by, changed_at from agent_versions \
            where agent_id = $1 and version < $2 order by version desc limit $3",
        )
        .bind(row.id)
        .bind(before.unwrap_or(i64::MAX))
        .bind(limit)
        .all()
        .await?;
    let summary = |(version, change_summary, changed_by, changed_at)| VersionSummary {
        object: VersionObject,
        agent_id: row.id,
        version,
        change_summary,
        changed_by,
        changed_at,
    };
    Ok(rows.into_iter().map(summary).collect())
}

async fn find(c: &mut Conn, agent: AgentId, version: i64) -> Result<Option<Stored>, DbError> {
    c.q(concat!(
        "select v.version, v.name, v.mentionable, v.status, coalesce(o.profile, v.profile) as profile, ",
        merged_sql!(),
        ", v.bases, v.change_summary, v.changed_by, v.changed_at from agent_versions v",
        profile_row_sql!(),
        "where v.agent_id = $1 and v.version = $2"
    ))
        .bind(agent)
        .bind(version)
        .opt()
        .await
}

pub(super) async fn stored(c: &mut Conn, row: &Row, version: i64) -> Result<Stored, AgentError> {
    find(c, row.id, version)
        .await?
        .ok_or(AgentError::VersionNotFound(version))
}

/// # Errors
/// `NotFound`, `VersionNotFound`.
pub async fn get_version(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    version: i64,
) -> Result<AgentVersion, AgentError> {
    let row = get_visible_row(c, actor, reference).await?;
    let stored = stored(c, &row, version).await?;
    Ok(AgentVersion {
        summary: stored.summary(row.id),
        snapshot: stored.form(&row, stored.profile.0.clone()),
        resolved: stored.form(&row, stored.merged.profile()),
        resolved_from: stored.bases.map(|bases| bases.0).unwrap_or_default(),
        files: stored.profile.0.files,
    })
}

/// Returns the changes from version `from` to version `to`.
///
/// # Errors
/// `NotFound`, `VersionNotFound`.
pub async fn diff(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    from: i64,
    to: i64,
) -> Result<AgentDiff, AgentError> {
    let row = get_visible_row(c, actor, reference).await?;
    let (old, new) = (stored(c, &row, from).await?, stored(c, &row, to).await?);
    let fields = |stored: &Stored| {
        let form = stored.form(&row, stored.profile.0.clone());
        let mut fields = match serde_json::to_value(form) {
            Ok(Value::Object(fields)) => fields,
            _ => serde_json::Map::new(),
        };
        for path in SHARED {
            let text = stored.profile.0.files.get(path).cloned();
            fields.insert(path.to_owned(), text.into());
        }
        fields
    };
    let (mut before, after) = (fields(&old), fields(&new));
    let changes = after
        .into_iter()
        .filter_map(|(field, after)| {
            let before = before.remove(&field).unwrap_or_default();
            (before != after).then_some(FieldChange {
                field,
                before,
                after,
            })
        })
        .collect();
    Ok(AgentDiff {
        object: DiffObject,
        agent_id: row.id,
        from,
        to,
        changes,
    })
}

/// The current version of an agent with its bases merged in, and those bases.
///
/// # Errors
/// `NotFound`.
pub async fn get_resolved_agent(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
) -> Result<(super::Agent, Vec<Base>), AgentError> {
    let mut row = get_visible_row(c, actor, reference).await?;
    let stored = stored(c, &row, row.version).await?;
    let mut from = stored.bases.map(|bases| bases.0).unwrap_or_default();
    from.push(Base {
        id: row.id,
        name: row.name.clone(),
        version: row.version,
    });
    let mut profile = stored.merged.profile();
    profile.max_output_tokens = Some(profile.output_tokens_max());
    let is_sent = profile.persona_text.is_some();
    row.servers = NamedTools::read(c, actor.workspace, &profile.tools).await?;
    row.missing_skills = find_missing(c, actor.workspace, profile.skills.as_ref()).await?;
    let mut agent = row.with_profile(profile);
    if agent.persona.is_none()
        && let Some(persona) = agent.persona_id
    {
        agent.persona = find_named(c, actor.workspace, persona, is_sent).await?;
    }
    Ok((agent, from))
}
