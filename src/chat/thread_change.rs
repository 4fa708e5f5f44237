//! Changing a thread: its title, its status, and who answers in it.

use super::{
    ChatError, access,
    bindings::{self, BindingPatch},
    search::index,
    threads::{self, MyThread},
};
use crate::{
    auth::{Caller, Scope},
    db::Conn,
    ids::ThreadId,
};

/// What `PATCH /v1/threads/{id}` changes. `Some(None)` empties.
#[derive(Debug, Clone, Default)]
pub struct ThreadPatch {
    pub title: Option<Option<String>>,
    pub binding: BindingPatch,
    /// `open` or `archived`.
    pub status: Option<&'static str>,
}

/// # Errors
/// `ThreadNotFound`, `NoSuchAgent`, `Invalid` for `auto_reply` without an agent, or what `writing` says.
pub async fn update(
    c: &mut Conn,
    caller: &Caller,
    id: ThreadId,
    patch: &ThreadPatch,
) -> Result<MyThread, ChatError> {
    let access = access::thread(c, caller, id).await?;
    // An archived thread can be opened again, and nothing else.
    let access = if patch.status == Some("open") {
        access.place.actor.require(Scope::ChatWrite)?;
        access
    } else {
        access.writing()?
    };
    let actor = &access.place.actor;
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
        index::renew_stored(c, root).await?;
    }
    bindings::change(c, &access, &patch.binding).await?;
    if let Some(status) = patch.status {
        c.q("update threads set status = $2 where id = $1")
            .bind(id)
            .bind(status)
            .run()
            .await?;
    }
    let thread = threads::announce_update(c, &access.place, id).await?;
    let mut found =
        threads::with_details(c, caller.user, access.place.channel, vec![thread]).await?;
    found.pop().ok_or(ChatError::ThreadNotFound)
}
