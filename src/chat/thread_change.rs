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
        rows::thread::{ThreadMemory, ThreadStatus},
    },
    db::Conn,
    ids::ThreadId,
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
        c.q("update threads set title = $2 where id = $1")
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
