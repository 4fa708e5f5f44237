//! Workflows as people see them who cannot change them: without the channels that they cannot read. Those who can change a workflow see
//! all of its channels, because a change replaces all steps.

use super::{Workflow, WorkflowVersion, definition::WorkflowContent};
use crate::{
    auth::{Actor, Scope, readable_channels},
    db::{Conn, DbError},
    ids::{ChannelId, UserId},
};

/// Checks whether the actor can change a workflow of this owner.
pub(super) fn can_change(actor: &Actor<'_>, owner: UserId) -> bool {
    owner == actor.user || actor.scopes.has(Scope::AgentsAdmin)
}

/// Removes channels that the actor cannot read from the workflows that the actor cannot change.
///
/// # Errors
/// Only database errors.
pub async fn hide_channels(
    c: &mut Conn,
    actor: &Actor<'_>,
    workflows: &mut [Workflow],
) -> Result<(), DbError> {
    let others = workflows
        .iter_mut()
        .filter(|workflow| !can_change(actor, workflow.owner_id));
    hide(c, actor, others.map(|other| &mut other.content).collect()).await
}

/// Like `hide_channels`, for versions of a workflow of this owner.
///
/// # Errors
/// Only database errors.
pub async fn hide_channels_of_versions(
    c: &mut Conn,
    actor: &Actor<'_>,
    owner: UserId,
    versions: &mut [WorkflowVersion],
) -> Result<(), DbError> {
    if can_change(actor, owner) {
        return Ok(());
    }
    let contents = versions
        .iter_mut()
        .map(|version| &mut version.snapshot.content);
    hide(c, actor, contents.collect()).await
}

async fn hide(
    c: &mut Conn,
    actor: &Actor<'_>,
    contents: Vec<&mut WorkflowContent>,
) -> Result<(), DbError> {
    let named = contents.iter().flat_map(|content| content.channels());
    let named: Vec<ChannelId> = named.collect();
    let readable = readable_channels(c, actor.user, &named).await?;
    for content in contents {
        content.retain_channels(&readable);
    }
    Ok(())
}
