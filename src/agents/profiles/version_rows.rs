//! Rows of versions, and their size.

use super::{AgentStatus, Profile, inherit::Merged};
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
}

pub(super) async fn insert_version(
    c: &mut Conn,
    workspace: WorkspaceId,
    stored: &Version<'_>,
    changed_by: Option<UserId>,
    summary: &str,
) -> Result<(), DbError> {
    c.q("insert into agent_versions (agent_id, version, name, status, mentionable, profile, resolved, bases, change_summary, \
         changed_by, changed_at, bytes) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)")
        .bind(stored.agent)
        .bind(stored.version)
        .bind(stored.name.to_owned())
        .bind(stored.status)
        .bind(stored.mentionable)
        .bind(Json(stored.profile.clone()))
        .bind(Json(stored.merged.profile.clone()))
        .bind(Json(stored.merged.bases.clone()))
        .bind(summary.to_owned())
        .bind(changed_by)
        .bind(now())
        .bind(size_of(stored.profile, stored.merged))
        .run()
        .await?;
    let bytes = size_of(stored.profile, stored.merged);
    quota::count_agent_bytes(c, workspace, bytes).await
}

/// Stored size of a version: the profile as written, plus the profile merged with its bases.
pub(super) fn size_of(profile: &Profile, merged: &Merged) -> i64 {
    quota::ROW_BYTES + stored_bytes(profile) + stored_bytes(&merged.profile)
}

/// Length of a profile as JSON.
pub(super) fn stored_bytes(profile: &Profile) -> i64 {
    let bytes = serde_json::to_string(profile).map_or(0, |text| text.len());
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

pub(super) fn instructions_bytes(profile: &Profile) -> i64 {
    i64::try_from(profile.instructions.len()).unwrap_or(i64::MAX)
}
