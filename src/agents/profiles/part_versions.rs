//! Authors of what an agent is told: the person whose write last changed a part of its profile, or the server.
//!
//! A version stores the number of the version that last changed each part, and the writer of that version is the part's author. Later
//! versions copy these numbers, so a change of the temperature does not make anybody the author of the instructions.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use super::{
    Profile,
    authors::{AgentPart, Authors},
    identity::without_fields,
};
use crate::{
    agents::files::SHARED,
    auth::Role,
    db::{Conn, DbError, Json},
    ids::{AgentId, UserId, WorkspaceId},
    time::Timestamp,
};

impl AgentPart {
    /// Name of the part in a sentence, such as "Vibe's instructions".
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Identity => "identity",
            Self::Agency => "agency",
            Self::Tools => "tools",
            Self::AgentsMd => SHARED[0],
            Self::ToolsMd => SHARED[1],
            Self::Summary => "description",
        }
    }

    /// The part's text in a profile; empty if the profile does not have the part.
    pub(super) fn text(self, profile: &Profile) -> Cow<'_, str> {
        let json = |value: Option<serde_json::Value>| {
            Cow::Owned(value.map(|value| value.to_string()).unwrap_or_default())
        };
        let file = |path: &str| Cow::Borrowed(profile.files.get(path).map_or("", String::as_str));
        match self {
            Self::Instructions => Cow::Borrowed(&profile.instructions),
            // The lines with the name and the emoji follow the profile's fields.
            Self::Identity => Cow::Owned(without_fields(profile.identity.as_deref().unwrap_or(""))),
            Self::Agency => json(
                profile
                    .agency
                    .as_ref()
                    .map(|agency| serde_json::json!(agency)),
            ),
            Self::Tools if profile.tools.is_empty() => Cow::Borrowed(""),
            Self::Tools => json(Some(serde_json::json!(profile.tools))),
            Self::AgentsMd => file(SHARED[0]),
            Self::ToolsMd => file(SHARED[1]),
            Self::Summary if !profile.has_summary() => Cow::Borrowed(""),
            Self::Summary => json(Some(serde_json::json!([
                profile.description,
                profile.capabilities
            ]))),
        }
    }

    pub(super) fn is_empty(self, profile: &Profile) -> bool {
        self.text(profile).trim().is_empty()
    }
}

/// The version of the agent that last changed each part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct PartVersions(BTreeMap<AgentPart, i64>);

impl PartVersions {
    /// All parts were written in this version.
    pub(super) fn all_in(version: i64) -> Self {
        let parts = AgentPart::ALL.iter().map(|part| (*part, version));
        Self(parts.collect())
    }

    /// The numbers after a version that changed these parts.
    pub(super) fn after(&self, version: i64, changed: impl IntoIterator<Item = AgentPart>) -> Self {
        let mut parts = self.clone();
        parts
            .0
            .extend(changed.into_iter().map(|part| (part, version)));
        parts
    }

    pub(super) fn of(&self, part: AgentPart) -> i64 {
        self.0.get(&part).copied().unwrap_or(1)
    }
}

/// Parts that differ between two profiles of an agent.
pub(super) fn differing(before: &Profile, after: &Profile) -> impl Iterator<Item = AgentPart> {
    let parts = AgentPart::ALL.iter().copied();
    parts.filter(|part| part.text(before) != part.text(after))
}

/// Parts that a write changed. A new display name counts as part of the instructions, except by an admin, who would otherwise become
/// the author of another person's instructions.
pub(super) async fn changed_by(
    c: &mut Conn,
    workspace: WorkspaceId,
    by: UserId,
    before: &Profile,
    after: &Profile,
) -> Result<Vec<AgentPart>, DbError> {
    let mut changed: Vec<AgentPart> = differing(before, after).collect();
    if before.display_name != after.display_name && !changed.contains(&AgentPart::Instructions) {
        let role: Option<(Role,)> = c
            .q("select role from members where workspace_id = $1 and user_id = $2")
            .bind(workspace)
            .bind(by)
            .opt()
            .await?;
        if role.is_none_or(|(role,)| role != Role::Admin) {
            changed.push(AgentPart::Instructions);
        }
    }
    Ok(changed)
}

/// Numbers of the versions that last changed the parts of a version; all in the next version if it does not exist.
pub(super) async fn part_versions(
    c: &mut Conn,
    agent: AgentId,
    version: i64,
) -> Result<PartVersions, DbError> {
    let written = find_written(c, agent, version).await?;
    Ok(written.map_or_else(
        || PartVersions::all_in(version + 1),
        |(numbers, _)| numbers.0,
    ))
}

pub(super) type Written = (Json<PartVersions>, Json<Profile>);

/// The profile of a version as written.
pub(super) async fn find_written(
    c: &mut Conn,
    agent: AgentId,
    version: i64,
) -> Result<Option<Written>, DbError> {
    c.q(concat!(
        "select v.part_versions, coalesce(o.profile, v.profile) from agent_versions v",
        profile_row_sql!(),
        "where v.agent_id = $1 and v.version = $2"
    ))
    .bind(agent)
    .bind(version)
    .opt()
    .await
}

/// Author of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TextAuthor {
    Server,
    Person(UserId),
    /// The record of the change no longer exists.
    Unknown,
}

/// The last change of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartChange {
    pub author: TextAuthor,
    pub version: i64,
    /// `None` for an unknown author.
    pub changed_at: Option<Timestamp>,
}

/// Last changes of all parts of an agent's version.
pub async fn part_changes(
    c: &mut Conn,
    agent: AgentId,
    version: i64,
) -> Result<BTreeMap<AgentPart, PartChange>, DbError> {
    let versions = part_versions(c, agent, version).await?;
    let number = |part| versions.of(part);
    let rows: Vec<(i64, Option<UserId>, Timestamp)> = c
        .q(
            "select version, changed_by, changed_at from agent_versions \
            where agent_id = $1 and version in ($2, $3, $4, $5, $6, $7, $8) order by version",
        )
        .bind(agent)
        .bind(number(AgentPart::Instructions))
        .bind(number(AgentPart::Identity))
        .bind(number(AgentPart::Agency))
        .bind(number(AgentPart::Tools))
        .bind(number(AgentPart::AgentsMd))
        .bind(number(AgentPart::ToolsMd))
        .bind(number(AgentPart::Summary))
        .all()
        .await?;
    let change = |part: AgentPart| {
        let version = versions.of(part);
        let row = rows.iter().find(|row| row.0 == version);
        PartChange {
            version,
            author: row.map_or(TextAuthor::Unknown, |row| {
                row.1.map_or(TextAuthor::Server, TextAuthor::Person)
            }),
            changed_at: row.map(|row| row.2),
        }
    };
    Ok(AgentPart::ALL
        .iter()
        .map(|part| (*part, change(*part)))
        .collect())
}

impl Authors {
    /// Authors of the parts of a version with this profile as written.
    pub(super) async fn read(
        c: &mut Conn,
        agent: AgentId,
        version: i64,
        profile: &Profile,
    ) -> Result<Self, DbError> {
        let mut changes = part_changes(c, agent, version).await?;
        changes.retain(|part, _| AgentPart::TOLD.contains(part));
        let author = |(part, change): (AgentPart, PartChange)| match change.author {
            TextAuthor::Person(user) if !part.is_empty(profile) => (part, Some(user)),
            _ => (part, None),
        };
        Ok(Self(changes.into_iter().map(author).collect()))
    }
}
