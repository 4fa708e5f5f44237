//! Changes and ends collaborations.

use super::state::{Collaboration, CollaborationState, find_collaboration, set_collaboration};
use crate::{
    agents::profiles,
    chat::{bindings, forks, inbox::forks::open_ended},
    db::{Conn, DbError},
    ids::{ForkId, ThreadId, WorkspaceId},
    realtime::{Audience, hub::Conversation},
};

/// Stores the state of a collaboration, and appends `fork.updated`.
pub async fn update_collaboration(
    c: &mut Conn,
    fork: ForkId,
    collaboration: &Collaboration,
    audience: Audience,
) -> Result<(), DbError> {
    set_collaboration(c, fork, collaboration).await?;
    forks::announced(c, fork, audience).await
}

/// Ends a running collaboration with the given state, and binds its fork to the first agent unless people have bound
/// another one. If the collaboration has not written a draft, the person who started it gets an inbox item.
pub async fn end_collaboration(
    c: &mut Conn,
    fork: ForkId,
    state: CollaborationState,
    audience: Audience,
) -> Result<(), DbError> {
    let found = find_collaboration(c, fork).await?;
    let Some(running) = found.filter(Collaboration::is_running) else {
        return Ok(());
    };
    let ended = Collaboration { state, ..running };
    bind_first(c, fork, &ended).await?;
    update_collaboration(c, fork, &ended, audience).await?;
    if state == CollaborationState::Done {
        return Ok(());
    }
    open_ended(c, fork).await
}

async fn bind_first(
    c: &mut Conn,
    fork: ForkId,
    collaboration: &Collaboration,
) -> Result<(), DbError> {
    let conversation = Conversation::Fork(fork);
    let Some(first) = collaboration.agents.first().copied() else {
        return Ok(());
    };
    if bindings::find_binding(c, conversation).await?.is_some() {
        return Ok(());
    }
    let Some(version) = profiles::newest_version(c, first).await? else {
        return Ok(());
    };
    let (workspace, thread): (WorkspaceId, ThreadId) = c
        .q("select workspace_id, thread_id from forks where id = $1")
        .bind(fork)
        .one()
        .await?;
    bindings::bind(c, workspace, thread, conversation, first, version).await
}
