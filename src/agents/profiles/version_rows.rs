//! Rows of versions, and their size.
//!
//! A text is stored once for each agent: a version that was created by a change to a base refers to the version that stores
//! the profile, and the merged profile does not repeat the agent's own instructions and files.

use std::{borrow::Cow, collections::BTreeMap};

use super::{
    AgentStatus, Profile, inherit::Merged, merged_columns::without_start,
    part_versions::PartVersions,
};
use crate::{
    auth::quota,
    db::{Conn, DbError, Json, now},
    ids::{AgentId, UserId, WorkspaceId},
};

pub(super) struct Version<'a> {
    pub(super) agent: AgentId,
    pub(super) version: i64,
    pub(super) name: &'a str,
    pub(super) status: AgentStatus,
    pub(super) mentionable: bool,
    pub(super) profile: &'a Profile,
    pub(super) merged: &'a Merged,
    /// True if the agent's previous version has the same profile.
    pub(super) has_same_profile: bool,
    /// The versions that last changed the parts.
    pub(super) parts: PartVersions,
}

/// The merged profile without the agent's own instructions or files; `None` if it has no bases.
fn split(profile: &Profile, merged: &Merged) -> Option<Profile> {
    if merged.bases.is_empty() {
        return None;
    }
    let own = without_start(&profile.instructions);
    let inherited = merged.profile.instructions.strip_suffix(own)?;
    Some(Profile {
        instructions: inherited.to_owned(),
        files: BTreeMap::new(),
        ..merged.profile.clone()
    })
}

pub(super) async fn insert_version(
    c: &mut Conn,
    workspace: WorkspaceId,
    stored: &Version<'_>,
    changed_by: Option<UserId>,
    summary: &str,
) -> Result<(), DbError> {
    let split = split(stored.profile, stored.merged);
    let is_split = split.is_some();
    let resolved = split.map_or(Cow::Borrowed(&stored.merged.profile), Cow::Owned);
    let mut bytes = quota::ROW_BYTES + stored_bytes(&resolved);
    let profile = if stored.has_same_profile {
        serde_json::json!({})
    } else {
        bytes += stored_bytes(stored.profile);
        serde_json::to_value(stored.profile).unwrap_or_default()
    };
    c.q("insert into agent_versions (agent_id, version, name, status, mentionable, profile, resolved, bases, change_summary, \
         changed_by, changed_at, bytes, is_split, part_versions, profile_of) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, \
         $13, $14, case when $15 then (select coalesce(profile_of, version) from agent_versions where agent_id = $1 and version = $2 - 1) end)")
        .bind(stored.agent)
        .bind(stored.version)
        .bind(stored.name.to_owned())
        .bind(stored.status)
        .bind(stored.mentionable)
        .bind(Json(profile))
        .bind(Json(resolved.into_owned()))
        .bind(Json(stored.merged.bases.clone()))
        .bind(summary.to_owned())
        .bind(changed_by)
        .bind(now())
        .bind(bytes)
        .bind(is_split)
        .bind(Json(stored.parts.clone()))
        .bind(stored.has_same_profile)
        .run()
        .await?;
    quota::count_agent_bytes(c, workspace, bytes).await
}

/// Stored size of a version with a new profile: the profile as written, plus the rest of the merged profile.
pub(super) fn size_of(profile: &Profile, merged: &Merged) -> i64 {
    let resolved = split(profile, merged);
    let resolved = resolved.as_ref().unwrap_or(&merged.profile);
    quota::ROW_BYTES + stored_bytes(profile) + stored_bytes(resolved)
}

/// Length of a profile as JSON.
pub(super) fn stored_bytes(profile: &Profile) -> i64 {
    let bytes = serde_json::to_string(profile).map_or(0, |text| text.len());
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

pub(super) fn instructions_bytes(profile: &Profile) -> i64 {
    i64::try_from(profile.instructions.len()).unwrap_or(i64::MAX)
}
