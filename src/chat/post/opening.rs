//! Starts threads and selects their first agent.

use super::{
    KeyPost, PostDraft, Posted, claim_client_id, commit_post,
    insert::{NoticeTarget, insert_notice},
    is_fallback, start_with_key, stored,
};
use crate::{
    agents::profiles::{self, InvocableAgent},
    auth::{Actor, AuthError, Caller, Scope},
    chat::{
        ChatError,
        access::{self, ChannelAccess, ThreadAccess},
        bindings::{self, BoundBy},
        channels::{self, ChannelAgent, ChannelAgentMode},
        rows::thread::{ThreadMemory, get_thread},
        text::Text,
        threads::{self, ThreadStart},
    },
    db::{Conn, DbError},
    ids::{AgentId, ChannelId, MessageId, ThreadId},
    realtime::hub::Conversation,
};

/// Input for a new thread.
#[derive(Debug, Clone)]
pub struct NewThread {
    pub title: Option<String>,
    /// Agent that replies to messages without mentions. `Some(None)` means no agent; `None` inherits the agent of `from` or of the
    /// channel.
    pub agent: Option<Option<AgentId>>,
    /// Thread from which the new one is opened and whose agent it inherits.
    pub from: Option<ThreadId>,
    pub memory: ThreadMemory,
    pub client_id: Option<String>,
}

/// Initial agent of a new thread.
pub(super) struct Opening {
    agent: Option<InvocableAgent>,
    bound_by: BoundBy,
    /// Agent that replies to the first message without being bound.
    root_agent: Option<InvocableAgent>,
    /// Text of the notice that announces that the default agent replaces the inherited one.
    notice: Option<String>,
}

impl Opening {
    /// Creates an opening with an agent that a person has chosen.
    fn of(agent: Option<InvocableAgent>) -> Self {
        Self {
            agent,
            bound_by: BoundBy::Person,
            root_agent: None,
            notice: None,
        }
    }
}

/// Selects the agent chosen by the creator, otherwise the agent of `new.from`, otherwise the agent of the channel. An agent that was
/// archived or deleted is replaced by the default agent, and a notice announces this.
pub(super) async fn opening_agent(
    c: &mut Conn,
    caller: &Caller,
    channel_access: &ChannelAccess<'_>,
    channel_agent: Option<ChannelAgent>,
    new: &NewThread,
) -> Result<Opening, ChatError> {
    let actor = &channel_access.actor;
    let of = Opening::of;
    if let Some(chosen) = new.agent {
        let Some(id) = chosen else {
            return Ok(of(None));
        };
        actor.require(Scope::AgentsUse)?;
        profiles::refresh_first(c, actor.workspace, id).await?;
        let found = profiles::find_invocable(c, actor, id).await?;
        let agent = found.ok_or_else(|| ChatError::NoSuchAgent(id.to_string()))?;
        return Ok(of(Some(agent)));
    }
    let mut inherited = None;
    if let Some(from) = new.from {
        let source = access::thread(c, caller, from).await?;
        if source.channel_access.actor.workspace != actor.workspace {
            return Err(ChatError::ThreadNotFound);
        }
        let bound = bindings::find_binding(c, Conversation::Thread(from)).await?;
        let bound = bound.filter(|bound| bound.bound_by == BoundBy::Person);
        inherited = bound.map(|bound| bound.agent);
    }
    if inherited.is_none() {
        inherited = c
            .q("select agent_id from channels where id = $1")
            .bind(channel_access.channel)
            .value()
            .await?;
    }
    let Some(id) = inherited else {
        return Ok(channel_opening(c, actor, channel_agent).await?);
    };
    profiles::refresh_first(c, actor.workspace, id).await?;
    let found = profiles::find_invocable(c, actor, id).await?;
    // An active agent that this person cannot invoke stays hidden: the thread gets neither an agent nor a notice.
    if found.is_some() || profiles::is_active(c, id).await? {
        return Ok(of(found));
    }
    // An agent that is turned off stays bound; the default agent replies in the meantime.
    let off = profiles::find_turned_off(c, actor, id).await?;
    if off.is_some() {
        return Ok(of(off));
    }
    let default = profiles::find_default(c, actor.workspace).await?;
    let Some(default) = default.filter(|agent| agent.can_be_invoked_by(actor)) else {
        return Ok(of(None));
    };
    let notice = is_fallback(c, id, default.id).await?;
    tracing::warn!(channel.id = %channel_access.channel, agent.id = %id, "agent of the new thread no longer exists; using the default agent");
    Ok(Opening {
        notice: Some(notice),
        ..of(Some(default))
    })
}

/// Returns the opening that the mode of the channel's agent specifies, if the agent is active and the actor can invoke it.
async fn channel_opening(
    c: &mut Conn,
    actor: &Actor<'_>,
    channel_agent: Option<ChannelAgent>,
) -> Result<Opening, DbError> {
    let nobody = Opening::of(None);
    let Some(ChannelAgent { agent_id, mode, .. }) = channel_agent else {
        return Ok(nobody);
    };
    if matches!(mode, ChannelAgentMode::Off | ChannelAgentMode::Mentions) {
        return Ok(nobody);
    }
    profiles::refresh_first(c, actor.workspace, agent_id).await?;
    let found = profiles::find_invocable(c, actor, agent_id).await?;
    Ok(if mode == ChannelAgentMode::All {
        Opening {
            bound_by: BoundBy::Channel,
            ..Opening::of(found)
        }
    } else {
        Opening {
            root_agent: found,
            ..nobody
        }
    })
}

/// Starts a thread with its first message.
///
/// # Errors
/// `ChannelNotFound`, `NoSuchAgent`, `ClientIdReused`, `TooManyAgents`, `ChainTooLong`, or any error from `writing`.
pub async fn start_thread(
    c: &mut Conn,
    caller: &Caller,
    channel: ChannelId,
    text: &Text,
    new: &NewThread,
) -> Result<Posted, ChatError> {
    if let Some(bot) = caller.bot() {
        if new.agent.flatten().is_some() {
            return Err(AuthError::NotForBots.into());
        }
        let post = KeyPost {
            title: new.title.clone(),
            client_id: new.client_id.clone(),
            ..KeyPost::default()
        };
        return start_with_key(c, caller, bot, channel, text, post).await;
    }
    let channel_access = access::channel(c, caller, channel).await?;
    channel_access.actor.require(Scope::ChatWrite)?;
    crate::db::dialect::lock_workspace(c, channel_access.actor.workspace.0).await?;
    let (message, thread) = (MessageId::new(), ThreadId::new());
    let client_id = new.client_id.as_deref();
    let (actor, place) = (&channel_access.actor, channel.to_string());
    if let Some(known) = claim_client_id(c, actor, client_id, &place, message.0).await? {
        return stored(c, known, true).await;
    }
    let channel_access = channel_access.writing()?;
    channels::check_has_reader(c, &channel_access).await?;
    if !channel_access.joined {
        channels::join(c, channel_access.actor.workspace, channel, caller.user).await?;
    }
    let channel_agent = channels::find_agent(c, &channel_access).await?;
    let opening = opening_agent(c, caller, &channel_access, channel_agent, new).await?;
    let start = ThreadStart {
        id: thread,
        root: message,
        title: new.title.as_deref(),
        memory: new.memory,
        base: None,
    };
    begin(
        c,
        channel_access,
        channel_agent,
        opening,
        start,
        text,
        client_id,
    )
    .await
}

/// Stores a new thread and its first message.
pub(super) async fn begin(
    c: &mut Conn,
    channel_access: ChannelAccess<'_>,
    channel_agent: Option<ChannelAgent>,
    opening: Opening,
    start: ThreadStart<'_>,
    text: &Text,
    client_id: Option<&str>,
) -> Result<Posted, ChatError> {
    let (channel, thread, message) = (channel_access.channel, start.id, start.root);
    let agent = opening.agent;
    let origin = (&channel_access).into();
    let row = threads::insert(c, origin, start, agent.as_ref(), opening.bound_by).await?;
    let access = ThreadAccess {
        channel_access,
        thread,
        archived: false,
        bound: agent.is_some(),
        fork: None,
    };
    let draft = PostDraft {
        access: &access,
        message,
        parent: None,
        text,
        client_id,
        channel_agent,
        root_agent: opening.root_agent,
        steers: None,
    };
    let (message, tasks) = commit_post(c, draft, Some(row)).await?;
    if let (Some(text), Some(agent)) = (opening.notice, &agent) {
        let task = tasks.first().map(|task| task.id);
        let notice = NoticeTarget {
            workspace: access.channel_access.actor.workspace,
            channel,
            thread,
            fork: None,
            agent: agent.id,
            task,
        };
        let audience = access.channel_access.audience();
        insert_notice(c, notice, audience, Some(message.id), text).await?;
    }
    let thread = get_thread(c, thread).await?;
    Ok(Posted {
        message,
        tasks,
        thread: Some(thread),
        created: true,
    })
}
