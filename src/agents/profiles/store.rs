//! Stores agents: the row, its version, its search index, and the agents that inherit from it.

use sha2::{Digest, Sha256};

use super::{
    Agent, AgentStatus, Brief, Profile, Row,
    announce::{Before, People, announce},
    find::get_row,
    inherit::{self, Merged, check_size},
    part_versions::{PartVersions, changed_by, part_versions},
    refresh,
    version_rows::{Version, insert_version, instructions_bytes, size_of, stored_bytes},
};
use crate::agents::AgentError;
use crate::{
    auth::{handles, look_alikes::Skeletons, quota, shown_names},
    db::{Conn, DbError, Json, now},
    ids::{AgentId, UserId, WorkspaceId},
    realtime::EventType,
};

/// A new agent in its first version.
#[derive(Debug, Clone)]
pub struct FirstVersion {
    pub name: String,
    pub status: AgentStatus,
    pub mentionable: bool,
    pub profile: Profile,
    pub created_by: Option<UserId>,
    /// Summary of the version.
    pub summary: String,
}

/// Inserts an agent with its first version and its handle. Does not append an event.
///
/// # Errors
/// `NameTaken`, or an error from resolving its base.
pub async fn insert_agent(
    c: &mut Conn,
    workspace: WorkspaceId,
    first: &FirstVersion,
) -> Result<AgentId, AgentError> {
    let id = AgentId::new();
    let merged = inherit::resolve(c, workspace, None, None, &first.profile).await?;
    check_size(&first.name, &merged)?;
    quota::check_agents(c, workspace).await?;
    quota::check_bytes(c, workspace, size_of(&first.profile, &merged)).await?;
    if !handles::claim(c, workspace, &first.name, handles::OwnerType::Agent, id.0).await? {
        return Err(AgentError::NameTaken(first.name.clone()));
    }
    let shown = first.profile.shown_name(&first.name);
    shown_names::check_agent(c, workspace, None, shown, param_of(&first.profile)).await?;
    let skeletons = Skeletons::of(shown);
    c.q("insert into agents (id, workspace_id, name, status, is_system, mentionable, version, profile, summary, access, base_id, \
         created_by, created_at, updated_at, instructions_bytes, profile_bytes, persona_id, name_skeleton, name_folded) \
         values ($1, $2, $3, $4, FALSE, $5, 1, $6, $7, $8, $9, $10, $11, $11, $12, $13, $14, $15, $16)")
        .bind(id)
        .bind(workspace)
        .bind(first.name.clone())
        .bind(first.status)
        .bind(first.mentionable)
        .bind(Json(first.profile.clone()))
        .bind(Json(Brief::new(&first.profile, &merged.profile)))
        .bind(merged.profile.access_control.clone().map(Json))
        .bind(first.profile.base_profile_id)
        .bind(first.created_by)
        .bind(now())
        .bind(instructions_bytes(&first.profile))
        .bind(stored_bytes(&first.profile))
        .bind(first.profile.persona_id)
        .bind(skeletons.exact)
        .bind(skeletons.folded)
        .run()
        .await?;
    let version = Version {
        agent: id,
        version: 1,
        name: &first.name,
        status: first.status,
        mentionable: first.mentionable,
        profile: &first.profile,
        merged: &merged,
        has_same_profile: false,
        parts: PartVersions::all_in(1),
    };
    insert_version(c, workspace, &version, first.created_by, &first.summary).await?;
    index_metadata(c, workspace, id, &first.profile).await?;
    Ok(id)
}

/// A change to an agent: the state to store.
pub(super) struct ProfileWrite<'a> {
    pub(super) name: &'a str,
    pub(super) status: AgentStatus,
    pub(super) mentionable: bool,
    pub(super) profile: Profile,
    /// Summary of the version; `None` generates one from the changed fields. With a summary, a version is stored even if nothing has
    /// changed.
    pub(super) summary: Option<String>,
    /// Summary by the person who makes the change, which takes precedence.
    pub(super) comment: Option<String>,
    /// The version from `If-Match`.
    pub(super) expected: Option<i64>,
    pub(super) origin: Origin,
}

impl ProfileWrite<'_> {
    fn is_unchanged(&self, row: &Row) -> bool {
        self.summary.is_none()
            && self.name == row.name
            && self.profile == row.profile.0
            && self.mentionable == row.mentionable
            && self.status == row.status
    }
}

/// Origin of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A person changed the agent.
    Edit,
    /// A person accepted all parts of the agent, and becomes their author.
    Acceptance,
    /// The agent's persona was approved, and the storage for the versions was reserved. Agents that inherit from the agent are
    /// refreshed later.
    Approval,
    /// The agent's preset was deleted. Agents that inherit from the agent are refreshed later.
    PresetDeletion,
}

/// Stores a change as a new version and announces it. Does nothing if there are no changes and no summary was given.
/// The workspace must be locked.
///
/// # Errors
/// `Stale` with the current agent, `NameTaken`, or an error from resolving its base.
pub(super) async fn store(
    c: &mut Conn,
    by: UserId,
    row: &Row,
    wanted: ProfileWrite<'_>,
) -> Result<Agent, AgentError> {
    if wanted.is_unchanged(row) && wanted.expected.is_none_or(|version| version == row.version) {
        return Ok(row.clone().into());
    }
    let before_base = row.profile.0.base_profile_id;
    let merged = inherit::resolve(
        c,
        row.workspace_id,
        Some(row.id),
        before_base,
        &wanted.profile,
    )
    .await?;
    check_size(wanted.name, &merged)?;
    let followers = refresh::plan(c, row.id, &merged.profile).await?;
    let bytes = size_of(&wanted.profile, &merged).saturating_add(followers.more_bytes);
    if wanted.origin != Origin::Approval {
        check_room(c, row, &wanted.profile, bytes).await?;
    }
    refresh::check_sizes(c, row.id, merged.profile.instructions.len()).await?;
    rename(c, row, wanted.name).await?;
    check_shown_name(c, row, &wanted).await?;
    let updated = update_row(c, row, &wanted, &merged).await?;
    let Some(version) = updated else {
        return Err(AgentError::Stale(Box::new(row.clone().into())));
    };
    let parts = match wanted.origin {
        Origin::Acceptance => PartVersions::all_in(version),
        Origin::Edit | Origin::Approval | Origin::PresetDeletion => {
            let (before, after) = (&row.profile.0, &wanted.profile);
            let changed = changed_by(c, row.workspace_id, by, before, after).await?;
            let parts = part_versions(c, row.id, row.version).await?;
            parts.after(version, changed)
        }
    };
    let summary = match wanted.comment.as_ref().or(wanted.summary.as_ref()) {
        Some(summary) => summary.clone(),
        None => change_summary(row, &wanted),
    };
    let stored = Version {
        agent: row.id,
        version,
        name: wanted.name,
        status: wanted.status,
        mentionable: wanted.mentionable,
        profile: &wanted.profile,
        merged: &merged,
        has_same_profile: false,
        parts,
    };
    insert_version(c, row.workspace_id, &stored, Some(by), &summary).await?;
    if wanted.profile.metadata != row.profile.0.metadata {
        index_metadata(c, row.workspace_id, row.id, &wanted.profile).await?;
    }
    let agent: Agent = get_row(c, row.workspace_id, row.id).await?.into();
    let mut people = None;
    announce_change(c, row, &agent, &merged, &mut people).await?;
    match wanted.origin {
        Origin::Edit | Origin::Acceptance => {
            refresh::begin(c, by, row.workspace_id, row.id, followers, &mut people).await?;
        }
        Origin::Approval | Origin::PresetDeletion => {
            refresh::request(c, by, row.workspace_id, row.id, followers.bytes).await?;
        }
    }
    Ok(agent)
}

/// Updates the row of an agent, and returns the new version; `None` if the version has changed in the meantime. The version is
/// checked in the update itself, so that only one of several concurrent edits succeeds.
async fn update_row(
    c: &mut Conn,
    row: &Row,
    wanted: &ProfileWrite<'_>,
    merged: &Merged,
) -> Result<Option<i64>, AgentError> {
    let skeletons = Skeletons::of(wanted.profile.shown_name(wanted.name));
    let updated: Option<(i64,)> = c
        .q("update agents set profile = $3, mentionable = $4, status = $5, name = $6, summary = $7, access = $8, base_id = $9, \
            version = version + 1, updated_at = $10, instructions_bytes = $12, profile_bytes = $13, persona_id = $14, name_skeleton = $15, name_folded = $16 \
            where workspace_id = $1 and id = $2 and version = $11 returning version")
        .bind(row.workspace_id)
        .bind(row.id)
        .bind(Json(wanted.profile.clone()))
        .bind(wanted.mentionable)
        .bind(wanted.status)
        .bind(wanted.name.to_owned())
        .bind(Json(Brief::new(&wanted.profile, &merged.profile)))
        .bind(merged.profile.access_control.clone().map(Json))
        .bind(wanted.profile.base_profile_id)
        .bind(now())
        .bind(wanted.expected.unwrap_or(row.version))
        .bind(instructions_bytes(&wanted.profile))
        .bind(stored_bytes(&wanted.profile))
        .bind(wanted.profile.persona_id)
        .bind(skeletons.exact)
        .bind(skeletons.folded)
        .opt()
        .await?;
    Ok(updated.map(|(version,)| version))
}

/// Announces a new version to members who can see the agent now or could see it before.
async fn announce_change(
    c: &mut Conn,
    row: &Row,
    agent: &Agent,
    merged: &Merged,
    people: &mut Option<People>,
) -> Result<(), AgentError> {
    let kind =
        if agent.summary.status == AgentStatus::Archived && row.status != AgentStatus::Archived {
            EventType::AgentArchived
        } else {
            EventType::AgentUpdated
        };
    let known = row.clone().into();
    let before = Before {
        agent: &known,
        access: row.access(),
    };
    let access = merged.profile.access_control.as_ref();
    Ok(announce(c, kind, agent, access, Some(before), people).await?)
}

/// Field that contains the name shown for an agent.
fn param_of(profile: &Profile) -> &'static str {
    match profile.display_name {
        Some(_) => "display_name",
        None => "name",
    }
}

/// Checks a change of the name that is shown for an agent. Other changes are possible whatever its name is.
async fn check_shown_name(
    c: &mut Conn,
    row: &Row,
    wanted: &ProfileWrite<'_>,
) -> Result<(), AgentError> {
    let shown = wanted.profile.shown_name(wanted.name);
    if shown == row.profile.0.shown_name(&row.name) {
        return Ok(());
    }
    let param = param_of(&wanted.profile);
    Ok(shown_names::check_agent(c, row.workspace_id, Some(row.id), shown, param).await?)
}

/// Claims the new name of an agent, unless it is the old one.
async fn rename(c: &mut Conn, row: &Row, name: &str) -> Result<(), AgentError> {
    if name == row.name {
        return Ok(());
    }
    handles::release(c, row.workspace_id, row.id.0).await?;
    let owner = handles::OwnerType::Agent;
    if handles::claim(c, row.workspace_id, name, owner, row.id.0).await? {
        Ok(())
    } else {
        Err(AgentError::NameTaken(name.to_owned()))
    }
}

/// Checks that the workspace can store a profile and the versions of agents that inherit from it.
async fn check_room(
    c: &mut Conn,
    row: &Row,
    profile: &Profile,
    bytes: i64,
) -> Result<(), AgentError> {
    if stored_bytes(profile) > stored_bytes(&row.profile.0) {
        quota::check_bytes(c, row.workspace_id, bytes).await?;
    } else {
        // Changes without new text, such as turning an agent off or restricting access, may use the reserve.
        quota::check_reserve(c, row.workspace_id, bytes).await?;
    }
    Ok(())
}

/// Index key for agents with this metadata pair.
pub(super) fn pair(key: &str, value: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(key.as_bytes());
    hash.update([0]);
    hash.update(value.as_bytes());
    hex::encode(hash.finalize())
}

async fn index_metadata(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: AgentId,
    profile: &Profile,
) -> Result<(), DbError> {
    c.q("delete from agent_metadata where agent_id = $1")
        .bind(id)
        .run()
        .await?;
    for (key, value) in &profile.metadata {
        c.q("insert into agent_metadata (workspace_id, pair, agent_id) values ($1, $2, $3)")
            .bind(workspace)
            .bind(pair(key, value))
            .bind(id)
            .run()
            .await?;
    }
    Ok(())
}

/// Lists the changed fields.
fn change_summary(row: &Row, wanted: &ProfileWrite<'_>) -> String {
    let before = serde_json::to_value(&row.profile.0).unwrap_or_default();
    let after = serde_json::to_value(&wanted.profile).unwrap_or_default();
    let mut changed: Vec<String> = after
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| before.get(key.as_str()) != Some(value))
        .map(|(key, _)| key.clone())
        .collect();
    if wanted.name != row.name {
        changed.push(format!("name: {}", wanted.name));
    }
    if wanted.mentionable != row.mentionable {
        changed.push("mentionable".to_owned());
    }
    if wanted.status != row.status {
        changed.push(format!("status: {}", wanted.status));
    }
    format!("changed {}", changed.join(", "))
}
