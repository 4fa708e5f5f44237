//! Thread updates: title, status, and agent.

use super::{
    ChatError, access,
    bindings::{self, BindingPatch},
    search::index,
    threads::{self, MyThread},
};
use crate::{
    auth::{Caller, Scope},
    chat::{
        announce,
        rows::{
            message::Message,
            thread::{ThreadMemory, ThreadStatus},
        },
    },
    db::{Conn, DbError},
    ids::{MessageId, ThreadId, WorkspaceId},
    realtime::Audience,
};

/// Input of `PATCH /v1/threads/{id}`. `Some(None)` clears a field.
#[derive(Debug, Clone, Default)]
pub struct ThreadPatch {
    pub title: Option<Option<String>>,
    pub binding: BindingPatch,
    pub status: Option<ThreadStatus>,
    pub memory: Option<ThreadMemory>,
}

/// # Errors
/// `ThreadNotFound`, `NoSuchAgent`, `Invalid` for `auto_reply` without an agent, or any error from `writing`.
pub async fn update(
    c: &mut Conn,
    caller: &Caller,
    id: ThreadId,
    patch: &ThreadPatch,
) -> Result<MyThread, ChatError> {
    let access = access::thread(c, caller, id).await?;
    // Reopening is the only change that an archived thread allows.
    let access = if patch.status == Some(ThreadStatus::Open) {
        access.channel_access.actor.require(Scope::ChatWrite)?;
        access
    } else {
        access.writing()?
    };
    let actor = &access.channel_access.actor;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    if let Some(title) = &patch.title {
        c.q("update threads set title = $2, title_from = null where id = $1")
            .bind(id)
            .bind(title.clone())
            .run()
            .await?;
        let root = c
            .q("select root_message_id from threads where id = $1")
            .bind(id)
            .value()
            .await?;
        index::reindex_stored(c, root).await?;
    }
    bindings::change(c, &access, &patch.binding).await?;
    if let Some(status) = patch.status {
        c.q("update threads set status = $2 where id = $1")
            .bind(id)
            .bind(status)
            .run()
            .await?;
    }
    if let Some(memory) = patch.memory {
        c.q("update threads set memory = $2 where id = $1")
            .bind(id)
            .bind(memory)
            .run()
            .await?;
    }
    let thread = announce::thread_updated(c, &access.channel_access, id).await?;
    let mut found =
        threads::with_details(c, caller.user, access.channel_access.channel, vec![thread]).await?;
    found.pop().ok_or(ChatError::ThreadNotFound)
}

/// Sets the title that a model made from a message, unless the thread has a title or the message was deleted. Appends
/// `thread.updated`.
///
/// # Errors
/// Only database errors.
pub async fn set_made_title(
    c: &mut Conn,
    id: ThreadId,
    title: &str,
    from: MessageId,
    audience: Audience,
) -> Result<(), DbError> {
    let workspace: Option<(WorkspaceId,)> = c
        .q("update threads set title = $2, title_from = $3 where id = $1 and title is null \
            and exists (select 1 from messages m where m.id = $3 and m.deleted_at is null) returning workspace_id")
        .bind(id)
        .bind(title.to_owned())
        .bind(from)
        .opt()
        .await?;
    let Some((workspace,)) = workspace else {
        return Ok(());
    };
    index::reindex_stored(c, from).await?;
    announce::existing_thread_updated(c, workspace, audience, id).await
}

/// Removes the title that a model made from a deleted message. Appends `thread.updated`.
pub(super) async fn erase_made_title(
    c: &mut Conn,
    message: &Message,
    audience: Audience,
) -> Result<(), DbError> {
    let had = c
        .q("update threads set title = null, title_from = null where id = $1 and title_from = $2")
        .bind(message.thread_id)
        .bind(message.id)
        .run()
        .await?;
    if had == 0 {
        return Ok(());
    }
    announce::existing_thread_updated(c, message.workspace_id, audience, message.thread_id).await
}
