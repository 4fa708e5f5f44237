//! Agents whose preset is deleted.

use super::{
    find::get_row,
    store::{Origin, ProfileWrite, store},
};
use crate::{agents::AgentError, auth::Actor, db::Conn, ids::AgentId};

/// Unsets a preset in the profiles of all agents of the workspace that name it; each gets a version. The workspace must
/// be locked.
///
/// # Errors
/// An error from storing a version.
pub(in crate::agents) async fn unset_preset(
    c: &mut Conn,
    actor: &Actor<'_>,
    preset: &str,
) -> Result<(), AgentError> {
    let named: Vec<(AgentId,)> = c
        .q("select id from agents where workspace_id = $1 and profile -> 'prompting' ->> 'profile' = $2 order by id")
        .bind(actor.workspace)
        .bind(preset.to_owned())
        .all()
        .await?;
    for (id,) in named {
        // Read here, because a base that was changed before may have changed it, too.
        let row = get_row(c, actor.workspace, id).await?;
        let mut profile = row.profile.0.clone();
        if let Some(prompting) = &mut profile.prompting {
            prompting.profile = None;
        }
        let wanted = ProfileWrite {
            name: &row.name,
            status: row.status,
            mentionable: row.mentionable,
            profile,
            summary: Some(format!("the reply style {preset} was deleted")),
            expected: None,
            origin: Origin::Edit,
        };
        Box::pin(store(c, actor.user, &row, wanted)).await?;
    }
    Ok(())
}
