//! Creates and updates channels.

use super::{
    ChannelAgent, DIRECT_MEMBERS_MAX, MyChannel,
    agent::{ANNOUNCED_MAX, set_agent},
    direct::{find_direct, insert_direct_bot, insert_direct_member},
    get_mine,
    members::{insert_member, join},
    stores::set_stores,
};
use crate::{
    agents::profiles,
    auth::{self, Actor, Caller, Scope},
    chat::{
        ChatError, access,
        event::{ChannelChange, ChannelEvent},
        rows::channel::{Channel, ChannelKind, DirectPartner, audience, direct_key, get_channel},
    },
    db::{Conn, DbError, now},
    ids::{AgentId, BotId, ChannelId, UserId, WorkspaceId},
    realtime::{EventType, MembershipChange, NewEvent, log},
};

/// Input for a new channel.
#[derive(Debug, Clone)]
pub struct NewChannel {
    pub workspace: WorkspaceId,
    pub kind: ChannelKind,
    pub name: Option<String>,
    pub topic: Option<String>,
    pub direct_key: Option<String>,
    pub agent: Option<AgentId>,
    pub joined_by_all: bool,
    /// `None` for a bot.
    pub created_by: Option<UserId>,
    pub members: Vec<UserId>,
}

/// Inserts a channel with its members. Returns `None` if the name is taken, or if a direct channel with these participants exists.
/// Does not append an event.
pub(in crate::chat) async fn insert(
    c: &mut Conn,
    new: &NewChannel,
) -> Result<Option<ChannelId>, ChatError> {
    let id = ChannelId::new();
    let n = c
        .q("insert into channels (id, workspace_id, kind, name, topic, direct_key, agent_id, joined_by_all, created_by, created_at, archived_at) \
            values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, null) on conflict do nothing")
        .bind(id)
        .bind(new.workspace)
        .bind(new.kind)
        .bind(new.name.clone())
        .bind(new.topic.clone())
        .bind(new.direct_key.clone())
        .bind(new.agent)
        .bind(new.joined_by_all)
        .bind(new.created_by)
        .bind(now())
        .run()
        .await?;
    if n == 0 {
        return Ok(None);
    }
    for user in &new.members {
        insert_member(c, new.workspace, id, *user).await?;
        if new.kind == ChannelKind::Direct {
            insert_direct_member(c, id, *user).await?;
        }
    }
    Ok(Some(id))
}

/// Appends an event whose data is the channel.
async fn announce(
    c: &mut Conn,
    channel: &Channel,
    kind: EventType,
    change: Option<ChannelChange>,
) -> Result<(), ChatError> {
    let seq = log::reserve(c, channel.workspace_id, 1).await?;
    let data = ChannelEvent { channel, change };
    let event = NewEvent::new(seq, kind, audience(channel), &data)?;
    Ok(log::append(c, channel.workspace_id, event).await?)
}

/// Appends `channel.created`.
async fn announce_created(
    c: &mut Conn,
    channel: &Channel,
    access: MembershipChange,
) -> Result<(), ChatError> {
    let seq = log::reserve(c, channel.workspace_id, 1).await?;
    let data = ChannelEvent {
        channel,
        change: None,
    };
    let event = NewEvent::new(seq, EventType::ChannelCreated, audience(channel), &data)?;
    let event = event.changing(access);
    Ok(log::append(c, channel.workspace_id, event).await?)
}

/// # Errors
/// `NameTaken`, or any error from `Actor::require`.
pub async fn create(
    c: &mut Conn,
    actor: &Actor<'_>,
    name: &str,
    topic: Option<String>,
    private: bool,
) -> Result<MyChannel, ChatError> {
    actor.require(Scope::ChatWrite)?;
    let new = NewChannel {
        workspace: actor.workspace,
        kind: if private {
            ChannelKind::Private
        } else {
            ChannelKind::Public
        },
        name: Some(name.to_owned()),
        topic,
        direct_key: None,
        agent: None,
        joined_by_all: false,
        created_by: Some(actor.user),
        members: vec![actor.user],
    };
    let id = insert(c, &new)
        .await?
        .ok_or_else(|| ChatError::NameTaken(name.to_owned()))?;
    let channel = get_channel(c, id).await?;
    let users = vec![actor.user];
    let access = if private {
        MembershipChange::Granted { channel: id, users }
    } else {
        MembershipChange::Joined { channel: id, users }
    };
    announce_created(c, &channel, access).await?;
    get_mine(c, actor.user, id).await
}

/// Returns the direct channel of these people and this agent or bot, and whether it was created. The
/// caller always takes part; a bot as the partner.
///
/// # Errors
/// `NoSuchMember`, `NoSuchAgent`, `Invalid` for too many people, or any error from `Actor::require`.
pub async fn open_direct(
    c: &mut Conn,
    actor: &Actor<'_>,
    mut members: Vec<UserId>,
    partner: Option<DirectPartner>,
) -> Result<(MyChannel, bool), ChatError> {
    actor.require(Scope::ChatWrite)?;
    let is_bot = partner == Some(DirectPartner::Bot(BotId(actor.user.0)));
    members.extend((!is_bot).then_some(actor.user));
    members.sort_unstable();
    members.dedup();
    if members.len() > DIRECT_MEMBERS_MAX {
        let text = format!(
            "a direct channel can have at most {DIRECT_MEMBERS_MAX} people: create a private channel"
        );
        return Err(ChatError::Invalid(text, "member_ids"));
    }
    for user in &members {
        let is_member = auth::find_member(c, actor.workspace, *user)
            .await?
            .is_some();
        if !is_member || !auth::sees_person(c, actor, *user).await? {
            return Err(ChatError::NoSuchMember(user.to_string()));
        }
    }
    let agent = match partner {
        Some(DirectPartner::Agent(id)) => Some(id),
        Some(DirectPartner::Bot(_)) | None => None,
    };
    if let Some(id) = agent {
        actor.require(Scope::AgentsUse)?;
        if profiles::find_invocable(c, actor, id).await?.is_none() {
            return Err(ChatError::NoSuchAgent(id.to_string()));
        }
    }
    let key = direct_key(&members, partner);
    if let Some(id) = find_direct(c, actor.workspace, &key).await? {
        // A member may have left the workspace and returned.
        for user in members {
            join(c, actor.workspace, id, user).await?;
        }
        return Ok((get_mine(c, actor.user, id).await?, false));
    }
    let new = NewChannel {
        workspace: actor.workspace,
        kind: ChannelKind::Direct,
        name: None,
        topic: None,
        direct_key: Some(key),
        agent,
        joined_by_all: false,
        created_by: (!is_bot).then_some(actor.user),
        members: members.clone(),
    };
    let id = insert(c, &new).await?.ok_or(ChatError::DirectIsFixed)?;
    if let Some(DirectPartner::Bot(bot)) = partner {
        insert_direct_bot(c, id, bot).await?;
    }
    let channel = get_channel(c, id).await?;
    let access = MembershipChange::Granted {
        channel: id,
        users: members,
    };
    announce_created(c, &channel, access).await?;
    Ok((get_mine(c, actor.user, id).await?, true))
}

/// Changes of a channel; absent fields stay as they are. `Some(None)` clears the topic or the agent.
#[derive(Debug, Default, Clone, Copy)]
pub struct ChannelUpdate<'a> {
    pub name: Option<&'a str>,
    pub topic: Option<Option<&'a str>>,
    pub agent: Option<Option<ChannelAgent>>,
    /// Names of vector stores whose passages agents read for each question.
    pub stores: Option<&'a [String]>,
}

/// Changes the name, the topic, the agent, or the vector stores.
///
/// # Errors
/// `NameTaken`, `DirectIsFixed`, `NoSuchAgent`, `Invalid` for the agent of a direct channel or too many vector stores,
/// `AgentError::NoSuchVectorStore`, `ChannelNotFound`, or any error from `Actor::require`.
pub async fn update(
    c: &mut Conn,
    caller: &Caller,
    id: ChannelId,
    change: ChannelUpdate<'_>,
) -> Result<MyChannel, ChatError> {
    let ChannelUpdate {
        name,
        topic,
        agent,
        stores,
    } = change;
    let access = access::channel(c, caller, id).await?.writing()?;
    crate::db::dialect::lock_workspace(c, access.actor.workspace.0).await?;
    let mut renamed = 0;
    if let Some(name) = name {
        if access.kind == ChannelKind::Direct {
            return Err(ChatError::DirectIsFixed);
        }
        let other = c
            .q("select id from channels where workspace_id = $1 and name = $2 and id <> $3")
            .bind(access.actor.workspace)
            .bind(name.to_owned())
            .bind(id)
            .opt::<(ChannelId,)>()
            .await?;
        if other.is_some() {
            return Err(ChatError::NameTaken(name.to_owned()));
        }
        renamed = c
            .q("update channels set name = $2 where id = $1 and name <> $2")
            .bind(id)
            .bind(name.to_owned())
            .run()
            .await?;
    }
    if let Some(topic) = topic {
        c.q("update channels set topic = $2 where id = $1")
            .bind(id)
            .bind(topic.map(str::to_owned))
            .run()
            .await?;
    }
    if let Some(agent) = agent {
        set_agent(c, &access, agent).await?;
    }
    if let Some(stores) = stores {
        set_stores(c, &access, stores).await?;
    }
    let change = (renamed > 0).then_some(ChannelChange::Renamed);
    announce_update(c, id, change).await?;
    get_mine(c, caller.user, id).await
}

/// Removes an agent from all channels because it is being permanently deleted. Appends `channel.updated` for at most `ANNOUNCED_MAX`
/// channels.
pub(in crate::chat) async fn forget_agent(c: &mut Conn, gone: AgentId) -> Result<(), DbError> {
    let channels: Vec<(ChannelId,)> = c
        .q("select channel_id from channel_agents where agent_id = $1 order by channel_id desc limit $2")
        .bind(gone)
        .bind(ANNOUNCED_MAX)
        .all()
        .await?;
    c.q("update channel_agents set agent_id = null where agent_id = $1")
        .bind(gone)
        .run()
        .await?;
    for (id,) in channels {
        if let Err(ChatError::Db(e)) = announce_update(c, id, None).await {
            return Err(e);
        }
    }
    Ok(())
}

async fn announce_update(
    c: &mut Conn,
    id: ChannelId,
    change: Option<ChannelChange>,
) -> Result<(), ChatError> {
    let channel = get_channel(c, id).await?;
    announce(c, &channel, EventType::ChannelUpdated, change).await
}

/// Archives or unarchives a channel. Allowed for its creator and for admins. Direct channels cannot be archived.
///
/// # Errors
/// `ChannelNotFound`, `DirectIsFixed`, or any error from `Actor::require`.
pub async fn set_archived(
    c: &mut Conn,
    caller: &Caller,
    id: ChannelId,
    archived: bool,
) -> Result<MyChannel, ChatError> {
    let access = access::channel(c, caller, id).await?;
    access.actor.require(Scope::ChatWrite)?;
    let channel = get_channel(c, id).await?;
    if channel.created_by != Some(caller.user) {
        access.actor.require(Scope::WorkspaceAdmin)?;
    }
    if archived && access.kind == ChannelKind::Direct {
        return Err(ChatError::DirectIsFixed);
    }
    if channel.archived_at.is_some() == archived {
        return get_mine(c, caller.user, id).await;
    }
    if channel.created_by != Some(caller.user) {
        let action = if archived {
            auth::AuditAction::ChannelArchived
        } else {
            auth::AuditAction::ChannelUnarchived
        };
        let data = serde_json::json!({"name": channel.name});
        auth::record_audit(c, &access.actor, action, id.to_string(), data).await?;
    }
    c.q("update channels set archived_at = $2 where id = $1")
        .bind(id)
        .bind(archived.then(now))
        .run()
        .await?;
    let channel = get_channel(c, id).await?;
    let (kind, change) = if archived {
        (EventType::ChannelArchived, None)
    } else {
        (EventType::ChannelUpdated, Some(ChannelChange::Unarchived))
    };
    announce(c, &channel, kind, change).await?;
    get_mine(c, caller.user, id).await
}
