//! Profiles to try out: unsaved changes, or a stored version.

use super::{
    AgentPatch, Resolved,
    find::{find_resolved, get_visible_row},
    form::{check, check_names},
    identity,
    inherit::{self, check_size},
    see_base,
};
use crate::agents::AgentError;
use crate::{
    auth::{Actor, Scope},
    db::Conn,
};

/// Profile to try out.
#[derive(Debug, Clone)]
pub enum TrialProfile {
    /// Changes to the current profile.
    Draft(AgentPatch),
    Version(i64),
}

/// Resolves a profile as if it were saved, without storing anything. A draft gets the number of the current version.
///
/// # Errors
/// `NotFound`, `VersionNotFound`, an error from changing the agent's profile, or an error from `Actor::require`.
pub async fn resolve_trial(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    trial: &TrialProfile,
) -> Result<Resolved, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    let row = get_visible_row(c, actor, reference).await?;
    let patch = match trial {
        TrialProfile::Draft(patch) => patch,
        TrialProfile::Version(version) => {
            let found = find_resolved(c, row.id, *version).await?;
            return found.ok_or(AgentError::VersionNotFound(*version));
        }
    };
    let parts = patch.over(&row)?.into_parts()?;
    let (mut profile, before) = (parts.profile, &row.profile.0);
    profile.files.clone_from(&before.files);
    identity::reconcile(Some(before), &mut profile);
    check(&profile)?;
    check_names(c, actor, &mut profile, Some(before)).await?;
    see_base(c, actor, &profile, before.base_profile_id).await?;
    let base = before.base_profile_id;
    let merged = inherit::resolve(c, actor.workspace, Some(row.id), base, &profile).await?;
    check_size(&parts.name, &merged)?;
    let shown_name = merged.profile.shown_name(&parts.name).to_owned();
    Ok(Resolved {
        agent: row.id,
        version: row.version,
        name: parts.name,
        shown_name,
        own_instructions: (!merged.bases.is_empty()).then_some(profile.instructions),
        profile: merged.profile,
    })
}
