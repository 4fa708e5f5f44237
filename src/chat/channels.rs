//! Channels: public, private and direct.

use crate::time::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::{ChatError, access, event::ChannelData, event::ChannelMemberData, reads};
use crate::{
    agents::profiles,
    auth::{self, Actor, Caller, Member, Scope, slugify},
    db::{Conn, now},
    ids::{AgentId, ChannelId, UserId, WorkspaceId},
    realtime::{Access, Audience, NewEvent, log},
};

pub const NAME_CHARS_MAX: usize = 80;
const TOPIC_UNITS_MAX: usize = 250;
/// People of a direct channel, its maker included.
const DIRECT_MEMBERS_MAX: usize = 9;

/// A channel as everyone in it sees it.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Channel {
    pub id: ChannelId,
    pub workspace_id: WorkspaceId,
    /// `public`, `private` or `direct`; it never changes.
    pub kind: String,
    /// Null for direct channels.
    pub name: Option<String>,
    pub topic: Option<String>,
    /// Of a direct channel with an agent: it answers everything there.
    pub agent_id: Option<AgentId>,
    /// Of direct channels only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_ids: Option<Vec<UserId>>,
    pub created_by: Option<UserId>,
    pub created_at: Timestamp,
    pub archived_at: Option<Timestamp>,
}

/// A channel as one person sees it.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct MyChannel {
    #[serde(flatten)]
    pub channel: Channel,
    pub is_member: bool,
    pub unread_count: i64,
    pub mention_count: i64,
    /// Everything up to here is read, save in threads with a mark of their own.
    pub read_seq: i64,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: ChannelId,
    workspace_id: WorkspaceId,
    kind: String,
    name: Option<String>,
    topic: Option<String>,
    direct_key: Option<String>,
    agent_id: Option<AgentId>,
    created_by: Option<UserId>,
    created_at: Timestamp,
    archived_at: Option<Timestamp>,
}

#[derive(sqlx::FromRow)]
struct MyRow {
    #[sqlx(flatten)]
    row: Row,
    read_seq: Option<i64>,
}

impl From<Row> for Channel {
    fn from(row: Row) -> Self {
        let member_ids = row.direct_key.as_deref().map(members_of_key);
        Self {
            id: row.id,
            workspace_id: row.workspace_id,
            kind: row.kind,
            name: row.name,
            topic: row.topic,
            agent_id: row.agent_id,
            member_ids,
            created_by: row.created_by,
            created_at: row.created_at,
            archived_at: row.archived_at,
        }
    }
}

/// A direct channel's people and agent, in a fixed order: the same ones have the same key.
fn direct_key(members: &[UserId], agent: Option<AgentId>) -> String {
    let mut ids: Vec<String> = members.iter().map(ToString::to_string).collect();
    ids.sort();
    ids.dedup();
    ids.extend(agent.map(|id| id.to_string()));
    ids.join(" ")
}

fn members_of_key(key: &str) -> Vec<UserId> {
    key.split(' ').filter_map(|id| id.parse().ok()).collect()
}

macro_rules! channel_sql {
    ($extra:literal, $tail:literal) => {
        concat!(
            "select ch.id, ch.workspace_id, ch.kind, ch.name, ch.topic, ch.direct_key, ch.agent_id, ch.created_by, ch.created_at, \
             ch.archived_at",
            $extra,
            " from channels ch ",
            $tail
        )
    };
}

pub(super) async fn get_channel(c: &mut Conn, id: ChannelId) -> Result<Channel, ChatError> {
    let row: Option<Row> = c
        .q(channel_sql!("", "where ch.id = $1"))
        .bind(id)
        .opt()
        .await?;
    row.map(Channel::from).ok_or(ChatError::ChannelNotFound)
}

/// A channel as the person sees it, with counts.
///
/// # Errors
/// `ChannelNotFound`.
pub async fn get_mine(c: &mut Conn, user: UserId, id: ChannelId) -> Result<MyChannel, ChatError> {
    let row: Option<MyRow> = c
        .q(channel_sql!(
            ", cm.read_seq",
            "left join channel_members cm on cm.channel_id = ch.id and cm.user_id = $2 where ch.id = $1"
        ))
        .bind(id)
        .bind(user)
        .opt()
        .await?;
    let row = row.ok_or(ChatError::ChannelNotFound)?;
    let counts = reads::of_channels(c, user, Some(id)).await?;
    Ok(mine(row, &counts))
}

fn mine(row: MyRow, counts: &reads::ByChannel) -> MyChannel {
    let found = counts.get(&row.row.id).copied().unwrap_or_default();
    MyChannel {
        is_member: row.read_seq.is_some(),
        unread_count: found.unread_count,
        mention_count: found.mention_count,
        read_seq: row.read_seq.unwrap_or(0),
        channel: row.row.into(),
    }
}

/// Channels that the person may see, oldest first.
pub async fn list_mine(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    (after, before): (Option<ChannelId>, Option<ChannelId>),
    limit: i64,
) -> Result<Vec<MyChannel>, ChatError> {
    if let Some(id) = after.or(before) {
        c.q("select ch.id from channels ch left join channel_members cm on cm.channel_id = ch.id and cm.user_id = $3 \
             where ch.id = $1 and ch.workspace_id = $2 and (ch.kind = 'public' or cm.user_id is not null)")
            .bind(id)
            .bind(workspace)
            .bind(user)
            .opt::<(ChannelId,)>()
            .await?
            .ok_or(ChatError::ChannelNotFound)?;
    }
    let q = if before.is_some() {
        c.q(channel_sql!(
            ", cm.read_seq",
            "left join channel_members cm on cm.channel_id = ch.id and cm.user_id = $2 \
             where ch.workspace_id = $1 and (ch.kind = 'public' or cm.user_id is not null) and ch.id > $3 and ch.id < $4 \
             order by ch.id desc limit $5"
        ))
    } else {
        c.q(channel_sql!(
            ", cm.read_seq",
            "left join channel_members cm on cm.channel_id = ch.id and cm.user_id = $2 \
             where ch.workspace_id = $1 and (ch.kind = 'public' or cm.user_id is not null) and ch.id > $3 and ch.id < $4 \
             order by ch.id limit $5"
        ))
    };
    let mut rows: Vec<MyRow> = q
        .bind(workspace)
        .bind(user)
        .bind(after.unwrap_or(ChannelId(Uuid::nil())))
        .bind(before.unwrap_or(ChannelId(Uuid::max())))
        .bind(limit)
        .all()
        .await?;
    if before.is_some() {
        rows.reverse();
    }
    let counts = reads::of_channels(c, user, None).await?;
    Ok(rows.into_iter().map(|row| mine(row, &counts)).collect())
}

/// A channel's name as it is stored.
///
/// # Errors
/// `Invalid` when nothing of it is left, or it is too long.
pub fn parse_name(text: &str) -> Result<String, ChatError> {
    if text.trim().chars().count() > NAME_CHARS_MAX {
        return Err(ChatError::Invalid(
            format!("a channel's name has at most {NAME_CHARS_MAX} characters"),
            "name",
        ));
    }
    let trimmed = text.trim().trim_start_matches('#');
    let mut name = slugify(trimmed, NAME_CHARS_MAX);
    if name.is_empty() {
        // Names in scripts that have no Latin form keep their letters.
        let kept = |c: char| if c.is_alphanumeric() { c } else { '-' };
        let parts: String = trimmed.to_lowercase().chars().map(kept).collect();
        name = parts
            .split('-')
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("-");
    }
    if name.is_empty() {
        return Err(ChatError::Invalid(
            "the channel's name is blank: write at least one letter or digit".to_owned(),
            "name",
        ));
    }
    Ok(name)
}

/// # Errors
/// `Invalid` when it is too long.
pub fn parse_topic(text: Option<&str>) -> Result<Option<String>, ChatError> {
    let topic = text.map(str::trim).filter(|t| !t.is_empty());
    if topic.is_some_and(|t| t.encode_utf16().count() > TOPIC_UNITS_MAX) {
        return Err(ChatError::Invalid(
            format!("a topic has at most {TOPIC_UNITS_MAX} characters"),
            "topic",
        ));
    }
    Ok(topic.map(str::to_owned))
}

/// What a channel is made from.
#[derive(Debug, Clone)]
pub struct NewChannel {
    pub workspace: WorkspaceId,
    pub kind: &'static str,
    pub name: Option<String>,
    pub topic: Option<String>,
    pub direct_key: Option<String>,
    pub agent: Option<AgentId>,
    pub joined_by_all: bool,
    pub created_by: UserId,
    pub members: Vec<UserId>,
}

/// Inserts a channel with its members; `None` when its name or its people are taken. Appends no event.
pub(super) async fn insert(c: &mut Conn, new: &NewChannel) -> Result<Option<ChannelId>, ChatError> {
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
    }
    Ok(Some(id))
}

/// False when the person is in already.
async fn insert_member(
    c: &mut Conn,
    workspace: WorkspaceId,
    channel: ChannelId,
    user: UserId,
) -> Result<bool, ChatError> {
    let (seq, _) = log::head(c, workspace).await?;
    let n = c
        .q("insert into channel_members (channel_id, user_id, joined_seq, read_seq, joined_at) values ($1, $2, $3, $3, $4) \
            on conflict (channel_id, user_id) do nothing")
        .bind(channel)
        .bind(user)
        .bind(seq)
        .bind(now())
        .run()
        .await?;
    Ok(n == 1)
}

fn audience(channel: &Channel) -> Audience {
    if channel.kind == "public" {
        Audience::Public(channel.id)
    } else {
        Audience::Members(channel.id)
    }
}

async fn announce(
    c: &mut Conn,
    channel: &Channel,
    kind: &'static str,
    access: Option<Access>,
) -> Result<(), ChatError> {
    let seq = log::reserve(c, channel.workspace_id, 1).await?;
    let mut event = NewEvent::new(seq, kind, audience(channel), &ChannelData { channel })?;
    event.access = access;
    Ok(log::append(c, channel.workspace_id, event).await?)
}

/// # Errors
/// `NameTaken`, or what `Actor::require` says.
pub async fn create(
    c: &mut Conn,
    actor: &Actor,
    name: &str,
    topic: Option<String>,
    private: bool,
) -> Result<MyChannel, ChatError> {
    actor.require(Scope::ChatWrite)?;
    let new = NewChannel {
        workspace: actor.workspace,
        kind: if private { "private" } else { "public" },
        name: Some(name.to_owned()),
        topic,
        direct_key: None,
        agent: None,
        joined_by_all: false,
        created_by: actor.user,
        members: vec![actor.user],
    };
    let id = insert(c, &new)
        .await?
        .ok_or_else(|| ChatError::NameTaken(name.to_owned()))?;
    let channel = get_channel(c, id).await?;
    let access = private.then(|| Access::Granted {
        channel: id,
        users: vec![actor.user],
    });
    announce(c, &channel, "channel.created", access).await?;
    get_mine(c, actor.user, id).await
}

/// The direct channel of these people and this agent, and whether it is new. The maker is always one of them.
///
/// # Errors
/// `NoSuchMember`, `NoSuchAgent`, `Invalid` for too many or nobody, or what `Actor::require` says.
pub async fn open_direct(
    c: &mut Conn,
    actor: &Actor,
    mut members: Vec<UserId>,
    agent: Option<AgentId>,
) -> Result<(MyChannel, bool), ChatError> {
    actor.require(Scope::ChatWrite)?;
    members.push(actor.user);
    members.sort_unstable();
    members.dedup();
    if members.len() > DIRECT_MEMBERS_MAX {
        let text = format!(
            "a direct channel has at most {DIRECT_MEMBERS_MAX} people: make a private channel"
        );
        return Err(ChatError::Invalid(text, "member_ids"));
    }
    for user in &members {
        if auth::find_member(c, actor.workspace, *user)
            .await?
            .is_none()
        {
            return Err(ChatError::NoSuchMember(user.to_string()));
        }
    }
    if let Some(id) = agent {
        actor.require(Scope::AgentsUse)?;
        if profiles::find_askable(c, actor.workspace, id)
            .await?
            .is_none()
        {
            return Err(ChatError::NoSuchAgent(id.to_string()));
        }
    }
    let key = direct_key(&members, agent);
    let existing: Option<(ChannelId,)> = c
        .q("select id from channels where workspace_id = $1 and direct_key = $2")
        .bind(actor.workspace)
        .bind(key.clone())
        .opt()
        .await?;
    if let Some((id,)) = existing {
        return Ok((get_mine(c, actor.user, id).await?, false));
    }
    let new = NewChannel {
        workspace: actor.workspace,
        kind: "direct",
        name: None,
        topic: None,
        direct_key: Some(key),
        agent,
        joined_by_all: false,
        created_by: actor.user,
        members: members.clone(),
    };
    let id = insert(c, &new).await?.ok_or(ChatError::DirectIsFixed)?;
    let channel = get_channel(c, id).await?;
    announce(
        c,
        &channel,
        "channel.created",
        Some(Access::Granted {
            channel: id,
            users: members,
        }),
    )
    .await?;
    Ok((get_mine(c, actor.user, id).await?, true))
}

/// Changes name or topic. `topic` of `Some(None)` empties it.
///
/// # Errors
/// `NameTaken`, `DirectIsFixed`, `ChannelNotFound`, or what `Actor::require` says.
pub async fn update(
    c: &mut Conn,
    caller: &Caller,
    id: ChannelId,
    name: Option<&str>,
    topic: Option<Option<String>>,
) -> Result<MyChannel, ChatError> {
    let access = access::channel(c, caller, id).await?.writing()?;
    crate::db::dialect::lock_workspace(c, access.actor.workspace.0).await?;
    if let Some(name) = name {
        if access.kind == "direct" {
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
        c.q("update channels set name = $2 where id = $1")
            .bind(id)
            .bind(name.to_owned())
            .run()
            .await?;
    }
    if let Some(topic) = topic {
        c.q("update channels set topic = $2 where id = $1")
            .bind(id)
            .bind(topic)
            .run()
            .await?;
    }
    let channel = get_channel(c, id).await?;
    announce(c, &channel, "channel.updated", None).await?;
    get_mine(c, caller.user, id).await
}

/// Archives a channel or opens it again; its maker or an admin may.
///
/// # Errors
/// `ChannelNotFound`, `Invalid` for #general, or what `Actor::require` says.
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
    if channel.archived_at.is_some() == archived {
        return get_mine(c, caller.user, id).await;
    }
    c.q("update channels set archived_at = $2 where id = $1")
        .bind(id)
        .bind(archived.then(now))
        .run()
        .await?;
    let channel = get_channel(c, id).await?;
    announce(
        c,
        &channel,
        if archived {
            "channel.archived"
        } else {
            "channel.updated"
        },
        None,
    )
    .await?;
    get_mine(c, caller.user, id).await
}

/// Adds a person; nothing when they are in. Appends `channel.member_added`.
pub(super) async fn join(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: ChannelId,
    user: UserId,
) -> Result<(), ChatError> {
    if !insert_member(c, workspace, id, user).await? {
        return Ok(());
    }
    let channel = get_channel(c, id).await?;
    let seq = log::reserve(c, workspace, 1).await?;
    let mut event = NewEvent::new(
        seq,
        "channel.member_added",
        audience(&channel),
        &ChannelMemberData {
            channel: &channel,
            user_id: user,
        },
    )?
    .also_to(user);
    if channel.kind != "public" {
        event = event.changing(Access::Granted {
            channel: id,
            users: vec![user],
        });
    }
    Ok(log::append(c, workspace, event).await?)
}

/// Takes a person out; nothing when they are not in. Appends `channel.member_removed`.
async fn part(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: ChannelId,
    user: UserId,
) -> Result<(), ChatError> {
    let n = c
        .q("delete from channel_members where channel_id = $1 and user_id = $2")
        .bind(id)
        .bind(user)
        .run()
        .await?;
    if n == 0 {
        return Ok(());
    }
    c.q("delete from reads where channel_id = $1 and user_id = $2")
        .bind(id)
        .bind(user)
        .run()
        .await?;
    let channel = get_channel(c, id).await?;
    let seq = log::reserve(c, workspace, 1).await?;
    let mut event = NewEvent::new(
        seq,
        "channel.member_removed",
        audience(&channel),
        &ChannelMemberData {
            channel: &channel,
            user_id: user,
        },
    )?
    .also_to(user);
    if channel.kind != "public" {
        event = event.changing(Access::Revoked { channel: id, user });
    }
    Ok(log::append(c, workspace, event).await?)
}

/// # Errors
/// `ChannelNotFound`, `ChannelArchived`, or what `Actor::require` says.
pub async fn join_self(
    c: &mut Conn,
    caller: &Caller,
    id: ChannelId,
) -> Result<MyChannel, ChatError> {
    let access = access::channel(c, caller, id).await?.writing()?;
    join(c, access.actor.workspace, id, caller.user).await?;
    get_mine(c, caller.user, id).await
}

/// # Errors
/// `ChannelNotFound`, `DirectIsFixed`, or what `Actor::require` says.
pub async fn leave(c: &mut Conn, caller: &Caller, id: ChannelId) -> Result<MyChannel, ChatError> {
    let access = access::channel(c, caller, id).await?;
    access.actor.require(Scope::ChatWrite)?;
    if access.kind == "direct" {
        return Err(ChatError::DirectIsFixed);
    }
    part(c, access.actor.workspace, id, caller.user).await?;
    get_mine(c, caller.user, id).await
}

/// # Errors
/// `ChannelNotFound`, `NoSuchMember`, `DirectIsFixed`, or what `Actor::require` says.
pub async fn add_member(
    c: &mut Conn,
    caller: &Caller,
    id: ChannelId,
    user: UserId,
) -> Result<Member, ChatError> {
    let access = access::channel(c, caller, id).await?.writing()?;
    if access.kind == "direct" {
        return Err(ChatError::DirectIsFixed);
    }
    let member = auth::find_member(c, access.actor.workspace, user).await?;
    let member = member.ok_or_else(|| ChatError::NoSuchMember(user.to_string()))?;
    join(c, access.actor.workspace, id, user).await?;
    Ok(member)
}

/// Takes someone out of a channel: its maker or an admin may, and everyone for themselves.
///
/// # Errors
/// `ChannelNotFound`, `NoSuchMember`, `DirectIsFixed`, or what `Actor::require` says.
pub async fn remove_member(
    c: &mut Conn,
    caller: &Caller,
    id: ChannelId,
    user: UserId,
) -> Result<(), ChatError> {
    let access = access::channel(c, caller, id).await?;
    access.actor.require(Scope::ChatWrite)?;
    if access.kind == "direct" {
        return Err(ChatError::DirectIsFixed);
    }
    let channel = get_channel(c, id).await?;
    if user != caller.user && channel.created_by != Some(caller.user) {
        access.actor.require(Scope::WorkspaceAdmin)?;
    }
    let inside: Option<(UserId,)> = c
        .q("select user_id from channel_members where channel_id = $1 and user_id = $2")
        .bind(id)
        .bind(user)
        .opt()
        .await?;
    if inside.is_none() {
        return Err(not_a_member(user));
    }
    part(c, access.actor.workspace, id, user).await
}

fn not_a_member(user: UserId) -> ChatError {
    auth::AuthError::MemberNotFound(user.to_string()).into()
}

/// In the order in which they joined the channel; `joined_at` is when they did.
pub async fn list_members(
    c: &mut Conn,
    access: &access::ChannelAccess,
    (after, before): (Option<UserId>, Option<UserId>),
    limit: i64,
) -> Result<Vec<Member>, ChatError> {
    let mark: Option<(Timestamp,)> = match after.or(before) {
        Some(user) => Some(
            c.q("select joined_at from channel_members where channel_id = $1 and user_id = $2")
                .bind(access.channel)
                .bind(user)
                .opt()
                .await?
                .ok_or_else(|| not_a_member(user))?,
        ),
        None => None,
    };
    let q = if before.is_some() {
        c.q("select m.user_id, u.name, m.handle, u.email, u.avatar_url, m.role, cm.joined_at from channel_members cm \
             join members m on m.workspace_id = $5 and m.user_id = cm.user_id join users u on u.id = cm.user_id \
             where cm.channel_id = $1 and (cm.joined_at, cm.user_id) < ($2, $3) \
             order by cm.joined_at desc, cm.user_id desc limit $4")
    } else {
        c.q("select m.user_id, u.name, m.handle, u.email, u.avatar_url, m.role, cm.joined_at from channel_members cm \
             join members m on m.workspace_id = $5 and m.user_id = cm.user_id join users u on u.id = cm.user_id \
             where cm.channel_id = $1 and (cm.joined_at, cm.user_id) > ($2, $3) \
             order by cm.joined_at, cm.user_id limit $4")
    };
    let mut members: Vec<Member> = q
        .bind(access.channel)
        .bind(mark.map_or(Timestamp::EPOCH, |mark| mark.0))
        .bind(after.or(before).unwrap_or(UserId(Uuid::nil())))
        .bind(limit)
        .bind(access.actor.workspace)
        .all()
        .await?;
    if before.is_some() {
        members.reverse();
    }
    Ok(members)
}

/// Marks a whole channel read.
///
/// # Errors
/// `ChannelNotFound`, or what `Actor::require` says.
pub async fn read_all(
    c: &mut Conn,
    caller: &Caller,
    id: ChannelId,
) -> Result<MyChannel, ChatError> {
    let access = access::channel(c, caller, id).await?.reading()?;
    reads::mark_channel(c, access.actor.workspace, caller.user, id).await?;
    get_mine(c, caller.user, id).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channels_name_is_made_plain() {
        assert_eq!(parse_name(" #Launch Plan! ").unwrap(), "launch-plan");
        assert_eq!(parse_name("設計").unwrap(), "設計");
        assert!(parse_name("  ").is_err());
        assert!(parse_name("!!!").is_err());
        assert!(parse_name(&"x".repeat(81)).is_err());
    }

    #[test]
    fn the_same_people_have_the_same_key() {
        let (a, b) = (UserId::new(), UserId::new());
        assert_eq!(direct_key(&[a, b], None), direct_key(&[b, a, b], None));
        assert_ne!(
            direct_key(&[a], None),
            direct_key(&[a], Some(AgentId::new()))
        );
        assert_eq!(
            members_of_key(&direct_key(&[a, b], Some(AgentId::new()))).len(),
            2
        );
    }
}
