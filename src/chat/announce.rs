//! Events about threads.

use super::{
    ChatError,
    access::ChannelAccess,
    event::ThreadEvent,
    rows::thread::{Thread, get_thread},
};
use crate::{
    db::{Conn, DbError},
    ids::{MessageId, ThreadId, WorkspaceId},
    realtime::{Audience, EventType, NewEvent, log},
};

/// Appends `thread.updated` with the current thread.
pub(super) async fn thread_updated(
    c: &mut Conn,
    channel_access: &ChannelAccess<'_>,
    id: ThreadId,
) -> Result<Thread, ChatError> {
    thread_updated_as(
        c,
        channel_access.actor.workspace,
        channel_access.audience(),
        id,
    )
    .await
}

/// Like `thread_updated`, but for a change by someone who is not necessarily a member of the channel.
pub(super) async fn thread_updated_as(
    c: &mut Conn,
    workspace: WorkspaceId,
    audience: Audience,
    id: ThreadId,
) -> Result<Thread, ChatError> {
    let thread = get_thread(c, id).await?;
    let title_from: Option<MessageId> = c
        .q("select title_from from threads where id = $1")
        .bind(id)
        .value()
        .await?;
    let seq = log::reserve(c, workspace, 1).await?;
    let event = NewEvent::new(
        seq,
        EventType::ThreadUpdated,
        audience,
        &ThreadEvent { thread: &thread },
    )?
    .in_conversation(id, None)
    .about(title_from);
    log::append(c, workspace, event).await?;
    Ok(thread)
}

/// Like `thread_updated_as`, but returns only database errors, because the thread must exist.
pub(super) async fn existing_thread_updated(
    c: &mut Conn,
    workspace: WorkspaceId,
    audience: Audience,
    id: ThreadId,
) -> Result<(), DbError> {
    match thread_updated_as(c, workspace, audience, id).await {
        Ok(_) => Ok(()),
        Err(ChatError::Db(e)) => Err(e),
        Err(_) => Err(sqlx::Error::RowNotFound.into()),
    }
}
