//! Changing a thread: its title, its status, and who answers in it.

use super::{
    ChatError,
    access::{self, ChannelAccess},
    post,
    threads::{self, MyThread},
};
use crate::{
    agents::profiles::{self, Askable},
    auth::{Caller, Scope},
    db::{Conn, now},
    ids::{AgentId, ThreadId},
};

/// What `PATCH /v1/threads/{id}` changes. `Some(None)` empties.
#[derive(Debug, Clone, Default)]
pub struct ThreadPatch {
    pub title: Option<Option<String>>,
    pub agent: Option<Option<AgentId>>,
    pub auto_reply: Option<bool>,
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
    }
    match patch.agent {
        Some(Some(agent)) => {
            actor.require(Scope::AgentsUse)?;
            let found = profiles::find_askable(c, actor.workspace, agent).await?;
            let to = found.ok_or_else(|| ChatError::NoSuchAgent(agent.to_string()))?;
            hand_over(c, &access.place, id, &to).await?;
        }
        Some(None) => {
            c.q("update threads set agent_id = null where id = $1")
                .bind(id)
                .run()
                .await?;
        }
        None => {}
    }
    if let Some(auto_reply) = patch.auto_reply {
        let n = c
            .q(
                "update bindings set auto_reply = $2, updated_at = $3 where place_id = $1 \
                and agent_id = (select agent_id from threads where id = $1)",
            )
            .bind(id)
            .bind(auto_reply)
            .bind(now())
            .run()
            .await?;
        if n == 0 {
            return Err(ChatError::Invalid(
                "the thread has no agent that could answer: set agent_id too".to_owned(),
                "auto_reply",
            ));
        }
    }
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

/// Gives a thread to an agent. When another one had it, a notice says who handed over to whom.
async fn hand_over(
    c: &mut Conn,
    place: &ChannelAccess,
    thread: ThreadId,
    to: &Askable,
) -> Result<(), ChatError> {
    let before = threads::binding(c, thread).await?.map(|bound| bound.agent);
    threads::bind(c, place.actor.workspace, thread, to).await?;
    let Some(from) = before.filter(|from| *from != to.id) else {
        return Ok(());
    };
    let (gave, took) = (
        profiles::shown_name(c, from).await?,
        profiles::shown_name(c, to.id).await?,
    );
    let text = format!(
        "{} handed this thread over from {gave} to {took}.",
        place.actor.name
    );
    let notice = post::NoticePlace {
        workspace: place.actor.workspace,
        channel: place.channel,
        thread,
        fork: None,
        agent: to.id,
        task: None,
    };
    post::insert_notice(c, notice, place.audience(), None, text).await?;
    Ok(())
}
