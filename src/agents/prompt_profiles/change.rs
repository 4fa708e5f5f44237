//! Replaces the prompt profiles of a workspace.

use super::{
    PromptProfilesForm,
    document::{PromptContent, PromptProfiles, find_prompt_profiles},
};
use crate::{
    agents::{AgentError, profiles},
    auth::{self, Actor, Scope},
    db::{Conn, Json, dialect::lock_workspace, now},
};

/// A new document, and the presets that it no longer contains.
pub struct Changed {
    pub profiles: PromptProfiles,
    pub deleted: Vec<String>,
}

/// Replaces the prompt profiles of a workspace. Agents that use a deleted preset get a version without it. `expected` is the version
/// from `If-Match`.
///
/// # Errors
/// `Invalid`, `PromptProfilesStale` with the current document, or an error from `Actor::require`.
pub async fn put_prompt_profiles(
    c: &mut Conn,
    actor: &Actor<'_>,
    form: PromptProfilesForm,
    expected: Option<i64>,
) -> Result<Changed, AgentError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let content = form.into_content()?;
    lock_workspace(c, actor.workspace.0).await?;
    let before = find_prompt_profiles(c, actor.workspace).await?;
    if expected.is_some_and(|version| version != before.version) {
        return Err(AgentError::PromptProfilesStale(Box::new(before)));
    }
    c.q("insert into prompt_profiles (workspace_id, document, version, updated_by, updated_at) values ($1, $2, $3, $4, $5) \
         on conflict (workspace_id) do update set document = excluded.document, version = excluded.version, \
         updated_by = excluded.updated_by, updated_at = excluded.updated_at")
        .bind(actor.workspace)
        .bind(Json(content.clone()))
        .bind(before.version + 1)
        .bind(actor.user)
        .bind(now())
        .run()
        .await?;
    let deleted = deleted(&before.content, &content);
    Box::pin(profiles::unset_presets(
        c,
        actor.user,
        actor.workspace,
        &deleted,
    ))
    .await?;
    let profiles = PromptProfiles {
        version: before.version + 1,
        content,
        ..before
    };
    let presets: Vec<&String> = (profiles.content.presets.iter())
        .map(|preset| &preset.id)
        .collect();
    auth::record_audit(
        c,
        actor,
        auth::AuditAction::PromptProfilesChanged,
        actor.workspace.to_string(),
        serde_json::json!({"version": profiles.version, "presets": presets}),
    )
    .await?;
    Ok(Changed { profiles, deleted })
}

fn deleted(before: &PromptContent, after: &PromptContent) -> Vec<String> {
    let gone = |id: &&String| after.preset(id).is_none();
    let ids = before.presets.iter().map(|preset| &preset.id);
    ids.filter(gone).cloned().collect()
}
