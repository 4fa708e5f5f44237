//! Unsets deleted presets in agents.
//!
//! As after the approval of a persona (`follow`), the first few agents get a version in the transaction of the deletion, and the
//! others later. Until then, their replies ignore the deleted preset.

use super::{
    batch::Batch,
    find::find_row,
    refresh::{self, FIRST},
    store::{Origin, ProfileWrite, store},
};
use crate::{
    agents::{AgentError, prompt_profiles::find_prompt_profiles},
    db::{Conn, DbError, now},
    ids::{AgentId, UserId, WorkspaceId},
};

/// A deleted preset that some agents may still use.
#[derive(Debug, Clone, sqlx::FromRow)]
struct PresetRemoval {
    preset: String,
    requested_by: UserId,
    after_id: AgentId,
}

/// Unsets deleted presets in the profiles of all agents of the workspace that use them; each agent gets a new version. The
/// workspace must be locked.
///
/// # Errors
/// Only database errors.
pub(in crate::agents) async fn unset_presets(
    c: &mut Conn,
    by: UserId,
    workspace: WorkspaceId,
    deleted: &[String],
) -> Result<(), DbError> {
    if deleted.is_empty() {
        return Ok(());
    }
    for preset in deleted {
        c.q("insert into preset_removals (workspace_id, preset, requested_by, after_id, created_at) values ($1, $2, $3, $4, $5) \
             on conflict (workspace_id, preset) do update set requested_by = excluded.requested_by, after_id = excluded.after_id")
            .bind(workspace)
            .bind(preset.clone())
            .bind(by)
            .bind(FIRST)
            .bind(now())
            .run()
            .await?;
    }
    advance_presets(c, workspace).await?;
    refresh::advance(c, workspace, &mut None).await
}

/// Unsets deleted presets in the next few agents of a workspace.
pub(super) async fn advance_presets(c: &mut Conn, workspace: WorkspaceId) -> Result<(), DbError> {
    let mut batch = Batch::new();
    while !batch.is_full() {
        let removal: Option<PresetRemoval> = c
            .q("select preset, requested_by, after_id from preset_removals where workspace_id = $1 order by created_at, preset limit 1")
            .bind(workspace)
            .opt()
            .await?;
        let Some(removal) = removal else {
            return Ok(());
        };
        let found = agents_after(c, workspace, &removal, batch.limit()).await?;
        let page = batch.take(&found);
        for agent in page.items {
            unset_preset(c, workspace, agent, &removal).await?;
        }
        match page.next {
            Some(last) => {
                c.q("update preset_removals set after_id = $3 where workspace_id = $1 and preset = $2")
                    .bind(workspace)
                    .bind(removal.preset)
                    .bind(last)
                    .run()
                    .await?;
            }
            None => {
                c.q("delete from preset_removals where workspace_id = $1 and preset = $2")
                    .bind(workspace)
                    .bind(removal.preset)
                    .run()
                    .await?;
            }
        }
    }
    Ok(())
}

/// Lists the next agents that use a deleted preset, with the sizes of their profiles. The list is empty if a preset with the same ID
/// has been created again.
async fn agents_after(
    c: &mut Conn,
    workspace: WorkspaceId,
    removal: &PresetRemoval,
    limit: i64,
) -> Result<Vec<(AgentId, i64)>, DbError> {
    let profiles = find_prompt_profiles(c, workspace).await?;
    if profiles.content.preset(&removal.preset).is_some() {
        return Ok(Vec::new());
    }
    c.q("select id, profile_bytes from agents where workspace_id = $1 and profile -> 'prompting' ->> 'profile' = $2 and id > $3 order by id limit $4")
        .bind(workspace)
        .bind(removal.preset.clone())
        .bind(removal.after_id)
        .bind(limit)
        .all()
        .await
}

/// Creates a version of an agent without the preset.
async fn unset_preset(
    c: &mut Conn,
    workspace: WorkspaceId,
    agent: AgentId,
    removal: &PresetRemoval,
) -> Result<(), DbError> {
    let Some(row) = find_row(c, workspace, agent).await? else {
        return Ok(());
    };
    let mut profile = row.profile.0.clone();
    if let Some(prompting) = &mut profile.prompting {
        prompting.profile = None;
    }
    let wanted = ProfileWrite {
        name: &row.name,
        status: row.status,
        mentionable: row.mentionable,
        profile,
        summary: Some(format!("the reply style {} was deleted", removal.preset)),
        comment: None,
        expected: None,
        origin: Origin::PresetDeletion,
    };
    match Box::pin(store(c, removal.requested_by, &row, wanted)).await {
        Ok(_) => Ok(()),
        Err(AgentError::Db(e)) => Err(e),
        Err(e) => {
            tracing::warn!(agent.id = %agent, error = %e, "could not remove a deleted preset from an agent");
            Ok(())
        }
    }
}
