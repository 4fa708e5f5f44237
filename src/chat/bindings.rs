//! Bindings: the agent, at a pinned version, that replies in a thread or a fork if the message
//! mentions no other agent.

use std::time::Duration;

use super::{
    ChatError,
    access::ThreadAccess,
    channels, forks, messages,
    post::insert::{NoticeTarget, insert_notice},
    rows::{
        message::{Message, find_message},
        thread::binding_holds,
    },
};
use crate::{
    agents::profiles::{self, AccessControl, AgentStatus, InvocableAgent},
    auth::{Actor, guests},
    chat::announce,
    db::{Conn, DbError, Json, now},
    ids::{AgentId, ChannelId, MessageId, ThreadId, UserId, WorkspaceId},
    realtime::hub::Conversation,
    tasks::queue,
};

pub use super::rows::thread::BoundBy;

/// A handoff by the same person within this time replaces the notice of the previous one, so
/// repeated changes do not fill the thread.
const HANDOFF_REPLACED_WITHIN: Duration = Duration::from_secs(10);

/// Availability of a bound agent for replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundState {
    Active,
    /// The agent is turned off. It keeps its conversations, and the default agent replies in the meantime.
    Off,
    /// Archived or deleted.
    Gone,
}

/// The agent that replies in a conversation if the message mentions no other agent.
#[derive(Debug)]
pub struct Binding {
    pub agent: AgentId,
    pub version: i64,
    pub auto_reply: bool,
    pub state: BoundState,
    /// True if a notice has already announced the fallback agent.
    pub stood_in: bool,
    pub bound_by: BoundBy,
    access: Option<AccessControl>,
}

impl Binding {
    pub fn is_active(&self) -> bool {
        self.state == BoundState::Active
    }

    /// Checks whether the agent replies to this person.
    pub fn can_be_invoked_by(&self, actor: &Actor<'_>) -> bool {
        profiles::can_invoke(self.access.as_ref(), actor)
    }
}

#[derive(sqlx::FromRow)]
struct BindingRow {
    agent_id: AgentId,
    agent_version: i64,
    auto_reply: bool,
    stood_in: bool,
    bound_by: BoundBy,
    status: Option<AgentStatus>,
    access: Option<Json<AccessControl>>,
}

pub async fn find_binding(
    c: &mut Conn,
    conversation: Conversation,
) -> Result<Option<Binding>, DbError> {
    let row: Option<BindingRow> = c
        .q(concat!(
            "select b.agent_id, b.agent_version, b.auto_reply, b.stood_in, b.bound_by, a.status, a.access from bindings b \
            left join agents a on a.id = b.agent_id where b.conversation_id = $1 and b.is_bound and ",
            binding_holds!("b")
        ))
        .bind(conversation.id())
        .opt()
        .await?;
    Ok(row.map(|row| Binding {
        agent: row.agent_id,
        version: row.agent_version,
        auto_reply: row.auto_reply,
        state: match row.status {
            Some(AgentStatus::Active) => BoundState::Active,
            Some(AgentStatus::Inactive) => BoundState::Off,
            _ => BoundState::Gone,
        },
        stood_in: row.stood_in,
        bound_by: row.bound_by,
        access: row.access.map(|access| access.0),
    }))
}

/// Binds a conversation of `thread` to an agent at the given version on behalf of a person, and
/// turns on automatic replies.
pub async fn bind(
    c: &mut Conn,
    workspace: WorkspaceId,
    thread: ThreadId,
    conversation: Conversation,
    agent: AgentId,
    version: i64,
) -> Result<(), DbError> {
    let by = BoundBy::Person;
    bind_by(c, workspace, thread, conversation, agent, version, by).await
}

/// Like `bind`, and also records the origin of the binding.
pub(super) async fn bind_by(
    c: &mut Conn,
    workspace: WorkspaceId,
    thread: ThreadId,
    conversation: Conversation,
    agent: AgentId,
    version: i64,
    by: BoundBy,
) -> Result<(), DbError> {
    unbind(c, conversation).await?;
    c.q("insert into bindings (conversation_id, agent_id, workspace_id, thread_id, agent_version, is_bound, auto_reply, bound_by, created_at, updated_at) \
         values ($1, $2, $3, $4, $5, TRUE, TRUE, $6, $7, $7) \
         on conflict (conversation_id, agent_id) do update set agent_version = excluded.agent_version, is_bound = TRUE, auto_reply = TRUE, \
           bound_by = excluded.bound_by, updated_at = excluded.updated_at")
        .bind(conversation.id())
        .bind(agent)
        .bind(workspace)
        .bind(thread)
        .bind(version)
        .bind(by)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Records whether a notice has announced that the fallback agent replies for an agent that is
/// turned off.
pub(super) async fn set_stood_in(
    c: &mut Conn,
    conversation: Conversation,
    agent: AgentId,
    stood_in: bool,
) -> Result<(), DbError> {
    c.q("update bindings set stood_in = $3 where conversation_id = $1 and agent_id = $2")
        .bind(conversation.id())
        .bind(agent)
        .bind(stood_in)
        .run()
        .await?;
    Ok(())
}

/// Maximum number of threads announced when their agent is deleted. The most recently active ones are announced; clients reload the
/// others when they open them.
const REBOUND_ANNOUNCED_MAX: i64 = 100;

/// Rebinds every conversation of an agent that is being permanently deleted to the newest version of the default agent, or to no
/// agent if there is no default. Channels with this agent, and threads whose binding came from such a channel, are left without an
/// agent. The caller must hold the workspace lock.
pub async fn move_from(c: &mut Conn, workspace: WorkspaceId, gone: AgentId) -> Result<(), DbError> {
    channels::forget_agent(c, gone).await?;
    let default = profiles::find_default(c, workspace).await?;
    let default = default.filter(|agent| agent.id != gone);
    let announced: Vec<(ThreadId, ChannelId)> = c
        .q(
            "select t.id, t.channel_id from bindings b join threads t on t.id = b.conversation_id \
            where b.agent_id = $1 and b.is_bound order by t.last_activity_at desc limit $2",
        )
        .bind(gone)
        .bind(REBOUND_ANNOUNCED_MAX)
        .all()
        .await?;
    c.q("delete from bindings where agent_id = $1 and bound_by = $2")
        .bind(gone)
        .bind(BoundBy::Channel)
        .run()
        .await?;
    if let Some(agent) = &default {
        // Earlier bindings to the default agent are deleted in conversations that are rebound to
        // it.
        c.q(
            "delete from bindings where agent_id = $2 and conversation_id in \
             (select conversation_id from bindings where agent_id = $1 and is_bound)",
        )
        .bind(gone)
        .bind(agent.id)
        .run()
        .await?;
        c.q("update bindings set agent_id = $2, agent_version = $3, stood_in = FALSE, handed_over_by = null, handed_over_from = null, \
             handed_over_at = null, handoff_notice_id = null, created_at = $4, updated_at = $4 where agent_id = $1 and is_bound")
            .bind(gone)
            .bind(agent.id)
            .bind(agent.version)
            .bind(now())
            .run()
            .await?;
    }
    c.q("delete from bindings where agent_id = $1")
        .bind(gone)
        .run()
        .await?;
    for (thread, channel) in announced {
        let audience = queue::audience_of(c, channel).await?;
        if let Err(ChatError::Db(e)) =
            announce::thread_updated_as(c, workspace, audience, thread).await
        {
            return Err(e);
        }
    }
    Ok(())
}

/// Removes the bound agent from a conversation.
async fn unbind(c: &mut Conn, conversation: Conversation) -> Result<(), DbError> {
    c.q("update bindings set is_bound = FALSE where conversation_id = $1 and is_bound")
        .bind(conversation.id())
        .run()
        .await?;
    Ok(())
}

/// Rebinds a conversation to another agent and announces the changed thread or fork.
pub(super) async fn rebind(
    c: &mut Conn,
    access: &ThreadAccess<'_>,
    agent: &InvocableAgent,
) -> Result<(), ChatError> {
    let conversation = access.conversation();
    bind(
        c,
        access.channel_access.actor.workspace,
        access.thread,
        conversation,
        agent.id,
        agent.version,
    )
    .await?;
    match conversation {
        Conversation::Thread(thread) => {
            announce::thread_updated(c, &access.channel_access, thread).await?;
        }
        Conversation::Fork(fork) => {
            forks::announce_update(c, fork, access.channel_access.audience()).await?;
        }
    }
    Ok(())
}

/// Changes to the agent of a conversation.
#[derive(Debug, Clone, Default)]
pub struct BindingPatch {
    /// `Some(None)` removes the agent.
    pub agent: Option<Option<AgentId>>,
    pub auto_reply: Option<bool>,
}

/// Changes the agent of a conversation or its automatic replies. The caller must announce the
/// thread or fork.
///
/// # Errors
/// `NoSuchAgent`, `Invalid` for `auto_reply` without an agent, or any error from `Actor::require`.
pub async fn change(
    c: &mut Conn,
    access: &ThreadAccess<'_>,
    patch: &BindingPatch,
) -> Result<(), ChatError> {
    let (actor, conversation) = (&access.channel_access.actor, access.conversation());
    match patch.agent {
        Some(Some(agent)) => {
            actor.require(crate::auth::Scope::AgentsUse)?;
            profiles::refresh_first(c, actor.workspace, agent).await?;
            let found = profiles::find_invocable(c, actor, agent).await?;
            let to = found.ok_or_else(|| ChatError::NoSuchAgent(agent.to_string()))?;
            handoff(c, access, &to).await?;
        }
        Some(None) => unbind(c, conversation).await?,
        None => {}
    }
    let Some(auto_reply) = patch.auto_reply else {
        return Ok(());
    };
    let agent = find_binding(c, conversation)
        .await?
        .map(|bound| bound.agent);
    let Some(agent) = agent else {
        return Err(ChatError::Invalid(
            "auto_reply needs an agent: set agent_id too".to_owned(),
            "auto_reply",
        ));
    };
    c.q("update bindings set auto_reply = $3, updated_at = $4 where conversation_id = $1 and agent_id = $2")
        .bind(conversation.id())
        .bind(agent)
        .bind(auto_reply)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Hands a conversation over to an agent. If another agent was bound, a notice announces the
/// handoff. It replaces the notice of a handoff that the same person made less than
/// `HANDOFF_REPLACED_WITHIN` ago.
async fn handoff(
    c: &mut Conn,
    access: &ThreadAccess<'_>,
    to: &InvocableAgent,
) -> Result<(), ChatError> {
    let (actor, conversation) = (&access.channel_access.actor, access.conversation());
    let before = find_binding(c, conversation)
        .await?
        .map(|bound| bound.agent);
    bind(
        c,
        actor.workspace,
        access.thread,
        conversation,
        to.id,
        to.version,
    )
    .await?;
    let Some(from) = before.filter(|from| *from != to.id) else {
        return Ok(());
    };
    let earlier = recent_handoff(c, conversation, from, actor.user).await?;
    // The notice names the first and the last agent of a chain of handoffs, unless the chain led
    // back to the first.
    let named = earlier.as_ref().map(|earlier| earlier.from);
    let named = named.filter(|agent| *agent != to.id).unwrap_or(from);
    let (gave, took) = (
        profiles::shown_name(c, named).await?,
        profiles::shown_name(c, to.id).await?,
    );
    let what = match conversation {
        Conversation::Thread(_) => "thread",
        Conversation::Fork(_) => "deep dive",
    };
    let place = &access.channel_access;
    // Guests see the names of people in their channels only.
    let is_hidden = !place.joined && guests::has_guests(c, actor.workspace, place.channel).await?;
    let text = if is_hidden {
        format!("This {what} was handed over from {gave} to {took}.")
    } else {
        let name = actor.name;
        format!("{name} handed this {what} over from {gave} to {took}.")
    };
    let audience = access.channel_access.audience();
    let notice = if let Some(earlier) = earlier {
        messages::rewrite_notice(c, &earlier.notice, to.id, text, audience).await?;
        earlier.notice.id
    } else {
        let notice = NoticeTarget {
            workspace: actor.workspace,
            channel: access.channel_access.channel,
            thread: access.thread,
            fork: access.fork_id(),
            agent: to.id,
            task: None,
        };
        let notice = insert_notice(c, notice, audience, None, text).await?;
        notice.id
    };
    c.q("update bindings set handed_over_by = $3, handed_over_from = $4, handed_over_at = $5, handoff_notice_id = $6 \
         where conversation_id = $1 and agent_id = $2")
        .bind(conversation.id())
        .bind(to.id)
        .bind(actor.user)
        .bind(named)
        .bind(now())
        .bind(notice)
        .run()
        .await?;
    Ok(())
}

/// A handoff whose notice the next handoff replaces.
struct RecentHandoff {
    from: AgentId,
    notice: Message,
}

#[derive(sqlx::FromRow)]
struct HandoffRow {
    handed_over_from: AgentId,
    handoff_notice_id: MessageId,
}

/// Returns the handoff to `agent` if the same person made it less than `HANDOFF_REPLACED_WITHIN`
/// ago.
async fn recent_handoff(
    c: &mut Conn,
    conversation: Conversation,
    agent: AgentId,
    user: UserId,
) -> Result<Option<RecentHandoff>, DbError> {
    let row: Option<HandoffRow> = c
        .q("select handed_over_from, handoff_notice_id from bindings \
            where conversation_id = $1 and agent_id = $2 and handed_over_by = $3 and handed_over_at > $4 \
              and handed_over_from is not null and handoff_notice_id is not null")
        .bind(conversation.id())
        .bind(agent)
        .bind(user)
        .bind(now() - HANDOFF_REPLACED_WITHIN)
        .opt()
        .await?;
    let Some(row) = row else { return Ok(None) };
    let notice = find_message(c, row.handoff_notice_id).await?;
    Ok(notice
        .filter(|notice| notice.deleted_at.is_none())
        .map(|notice| RecentHandoff {
            from: row.handed_over_from,
            notice,
        }))
}
