//! Channels of an archive.

use super::{
    direct::{find_direct, insert_direct_member},
    members::{insert_member, join},
};
use crate::{
    chat::{
        ChatError,
        event::{ChannelEvent, ChannelImportedEvent},
        rows::channel::{
            ChannelKind, audience, direct_key, get_channel, members_of_key, partner_of_key,
        },
    },
    db::{Conn, now},
    ids::{ChannelId, UserId, WorkspaceId},
    realtime::{EventType, MembershipChange, NewEvent, log},
    time::Timestamp,
};

/// A channel of an archive, translated.
#[derive(Debug, Clone)]
pub struct ImportedChannel {
    /// ID made from the source's key.
    pub id: ChannelId,
    pub kind: ChannelKind,
    /// `None` for a direct channel.
    pub name: Option<String>,
    pub topic: Option<String>,
    pub created_by: Option<UserId>,
    pub created_at: Timestamp,
    pub archived_at: Option<Timestamp>,
    pub members: Vec<UserId>,
}

/// A free name: the wanted one, or with a number.
async fn free_name(
    c: &mut Conn,
    workspace: WorkspaceId,
    wanted: &str,
) -> Result<String, ChatError> {
    let mut name = wanted.to_owned();
    let mut n = 1;
    loop {
        let is_taken: bool = c
            .q("select exists (select 1 from channels where workspace_id = $1 and name = $2)")
            .bind(workspace)
            .bind(name.clone())
            .value()
            .await?;
        if !is_taken {
            return Ok(name);
        }
        n += 1;
        name = format!("{wanted}-{n}");
    }
}

/// Checks whether a person can be added to a channel of an archive. Members and placeholders can; guests cannot, because an admin chooses
/// their channels.
async fn is_admitted(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<bool, ChatError> {
    Ok(
        c.q("select exists (select 1 from members where workspace_id = $1 and user_id = $2 and role <> 'guest')")
            .bind(workspace)
            .bind(user)
            .value()
            .await?,
    )
}

/// Inserts a channel with these members, except guests and those who have left the workspace, and appends `channel.created`; returns the
/// direct channel of the same people if there is one. The workspace must be locked.
///
/// # Errors
/// Only database errors.
pub async fn insert_imported_channel(
    c: &mut Conn,
    workspace: WorkspaceId,
    new: &ImportedChannel,
) -> Result<ChannelId, ChatError> {
    let key = (new.kind == ChannelKind::Direct).then(|| direct_key(&new.members, None));
    if let Some(key) = &key
        && let Some(known) = find_direct(c, workspace, key).await?
    {
        return Ok(known);
    }
    let name = match &new.name {
        Some(name) => Some(free_name(c, workspace, name).await?),
        None => None,
    };
    c.q("insert into channels (id, workspace_id, kind, name, topic, direct_key, agent_id, joined_by_all, created_by, created_at, archived_at) \
         values ($1, $2, $3, $4, $5, $6, null, FALSE, $7, $8, $9)")
        .bind(new.id)
        .bind(workspace)
        .bind(new.kind)
        .bind(name)
        .bind(new.topic.clone())
        .bind(key)
        .bind(new.created_by)
        .bind(new.created_at)
        .bind(new.archived_at)
        .run()
        .await?;
    let mut users = Vec::new();
    for user in &new.members {
        // People of earlier imports can have left the workspace.
        if is_admitted(c, workspace, *user).await? {
            insert_member(c, workspace, new.id, *user).await?;
            users.push(*user);
        }
        if new.kind == ChannelKind::Direct {
            insert_direct_member(c, new.id, *user).await?;
        }
    }
    let channel = get_channel(c, new.id).await?;
    let access = if new.kind == ChannelKind::Public {
        MembershipChange::Joined {
            channel: new.id,
            users,
        }
    } else {
        MembershipChange::Granted {
            channel: new.id,
            users,
        }
    };
    let seq = log::reserve(c, workspace, 1).await?;
    let event = NewEvent::new(
        seq,
        EventType::ChannelCreated,
        audience(&channel),
        &ChannelEvent {
            channel: &channel,
            change: None,
        },
    )?
    .changing(access);
    log::append(c, workspace, event).await?;
    Ok(new.id)
}

/// Appends `channel.imported`: messages were added to the channel, or removed from it, without events of their own.
///
/// # Errors
/// Only database errors.
pub async fn announce_imported(c: &mut Conn, channel: ChannelId) -> Result<(), ChatError> {
    let channel = get_channel(c, channel).await?;
    let data = ChannelImportedEvent {
        channel_id: channel.id,
    };
    log::append_one(
        c,
        channel.workspace_id,
        EventType::ChannelImported,
        audience(&channel),
        &data,
    )
    .await?;
    Ok(())
}

/// Deletes a channel of an archive that nothing uses: without threads, webhooks, bots, agents, and schedules. Returns false if something
/// uses it. Clients receive `channel.archived`. The workspace must be locked.
///
/// # Errors
/// Only database errors.
pub async fn remove_imported_channel(c: &mut Conn, id: ChannelId) -> Result<bool, ChatError> {
    let is_used: bool = c
        .q("select exists (select 1 from threads where channel_id = $1) or exists (select 1 from hooks where channel_id = $1) \
            or exists (select 1 from bot_channels where channel_id = $1) or exists (select 1 from schedules where channel_id = $1) \
            or exists (select 1 from channel_agents where channel_id = $1 and agent_id is not null)")
        .bind(id)
        .value()
        .await?;
    if is_used {
        return Ok(false);
    }
    c.q("update channels set archived_at = $2 where id = $1 and archived_at is null")
        .bind(id)
        .bind(now())
        .run()
        .await?;
    let channel = get_channel(c, id).await?;
    log::append_one(
        c,
        channel.workspace_id,
        EventType::ChannelArchived,
        audience(&channel),
        &ChannelEvent {
            channel: &channel,
            change: None,
        },
    )
    .await?;
    c.q("delete from channels where id = $1")
        .bind(id)
        .run()
        .await?;
    Ok(true)
}

/// Makes a person a member of all channels of a placeholder, who leaves them. The workspace must be locked.
///
/// # Errors
/// Only database errors.
pub async fn take_over_channels(
    c: &mut Conn,
    workspace: WorkspaceId,
    placeholder: UserId,
    into: UserId,
) -> Result<(), ChatError> {
    let channels: Vec<(ChannelId, Option<String>)> = c
        .q("select ch.id, ch.direct_key from channels ch where ch.workspace_id = $1 \
            and (exists (select 1 from channel_members cm where cm.channel_id = ch.id and cm.user_id = $2) \
              or exists (select 1 from direct_members dm where dm.channel_id = ch.id and dm.user_id = $2)) order by ch.id")
        .bind(workspace)
        .bind(placeholder)
        .all()
        .await?;
    for (channel, key) in channels {
        if let Some(key) = key {
            insert_direct_member(c, channel, into).await?;
            c.q("delete from direct_members where channel_id = $1 and user_id = $2")
                .bind(channel)
                .bind(placeholder)
                .run()
                .await?;
            let mut members = members_of_key(&key);
            members.retain(|user| *user != placeholder);
            members.push(into);
            let key = direct_key(&members, partner_of_key(&key));
            // Another direct channel of the same people keeps its key.
            if find_direct(c, workspace, &key).await?.is_none() {
                c.q("update channels set direct_key = $2 where id = $1")
                    .bind(channel)
                    .bind(key)
                    .run()
                    .await?;
            }
        }
        c.q("delete from channel_members where channel_id = $1 and user_id = $2")
            .bind(channel)
            .bind(placeholder)
            .run()
            .await?;
        join(c, workspace, channel, into).await?;
    }
    c.q("update channels set created_by = $3 where workspace_id = $1 and created_by = $2")
        .bind(workspace)
        .bind(placeholder)
        .bind(into)
        .run()
        .await?;
    Ok(())
}
