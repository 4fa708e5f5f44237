//! Channel membership.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::{MyChannel, get_mine};
use crate::{
    auth::{self, Caller, Member, Role, Scope, oidc::membership::ChannelChange},
    chat::{
        ChatError, access,
        event::ChannelMemberEvent,
        rows::channel::{ChannelKind, audience, get_channel},
    },
    cursor::PageRange,
    db::{Conn, dialect::hexadecimal_ids, now},
    ids::{ChannelId, UserId, WorkspaceId},
    inbox,
    realtime::{EventType, MembershipChange, NewEvent, log},
    sql_with_ids,
    time::Timestamp,
};

/// Inserts a channel member. Returns false if the person is already a member.
pub(super) async fn insert_member(
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

/// Adds a person to a channel; does nothing if they are already a member. Appends
/// `channel.member_added`.
pub async fn join(
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
    let users = vec![user];
    let change = if channel.kind == ChannelKind::Public {
        MembershipChange::Joined { channel: id, users }
    } else {
        MembershipChange::Granted { channel: id, users }
    };
    let event = NewEvent::new(
        seq,
        EventType::ChannelMemberAdded,
        audience(&channel),
        &ChannelMemberEvent {
            channel: &channel,
            user_id: user,
        },
    )?
    .also_to(user)
    .changing(change);
    Ok(log::append(c, workspace, event).await?)
}

/// Removes a person from a channel; does nothing if they are not a member. Appends
/// `channel.member_removed`.
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
    inbox::close::delete_in_channel(c, id, user).await?;
    let channel = get_channel(c, id).await?;
    let seq = log::reserve(c, workspace, 1).await?;
    let change = if channel.kind == ChannelKind::Public {
        MembershipChange::Left { channel: id, user }
    } else {
        MembershipChange::Revoked { channel: id, user }
    };
    let event = NewEvent::new(
        seq,
        EventType::ChannelMemberRemoved,
        audience(&channel),
        &ChannelMemberEvent {
            channel: &channel,
            user_id: user,
        },
    )?
    .also_to(user)
    .changing(change);
    Ok(log::append(c, workspace, event).await?)
}

/// # Errors
/// `ChannelNotFound`, `ChannelArchived`, or any error from `Actor::require`.
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
/// `ChannelNotFound`, `DirectIsFixed`, or any error from `Actor::require`.
pub async fn leave(c: &mut Conn, caller: &Caller, id: ChannelId) -> Result<MyChannel, ChatError> {
    let access = access::channel(c, caller, id).await?;
    access.actor.require(Scope::ChatWrite)?;
    if access.kind == ChannelKind::Direct {
        return Err(ChatError::DirectIsFixed);
    }
    part(c, access.actor.workspace, id, caller.user).await?;
    get_mine(c, caller.user, id).await
}

/// # Errors
/// `ChannelNotFound`, `NoSuchMember`, `DirectIsFixed`, or any error from `Actor::require`; adding a guest needs `workspace:admin`.
pub async fn add_member(
    c: &mut Conn,
    caller: &Caller,
    id: ChannelId,
    user: UserId,
) -> Result<Member, ChatError> {
    let access = access::channel(c, caller, id).await?.writing()?;
    if access.kind == ChannelKind::Direct {
        return Err(ChatError::DirectIsFixed);
    }
    let member = auth::find_member(c, access.actor.workspace, user).await?;
    let member = member.ok_or_else(|| ChatError::NoSuchMember(user.to_string()))?;
    // Admins decide what guests see.
    if member.role == Role::Guest {
        access.actor.require(Scope::WorkspaceAdmin)?;
    }
    join(c, access.actor.workspace, id, user).await?;
    Ok(member)
}

/// Removes a member from a channel. Allowed for the channel's creator, for admins, and for the member being removed.
///
/// # Errors
/// `ChannelNotFound`, `MemberNotFound`, `DirectIsFixed`, or any error from `Actor::require`.
pub async fn remove_member(
    c: &mut Conn,
    caller: &Caller,
    id: ChannelId,
    user: UserId,
) -> Result<(), ChatError> {
    let access = access::channel(c, caller, id).await?;
    access.actor.require(Scope::ChatWrite)?;
    if access.kind == ChannelKind::Direct {
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
    if user != caller.user && channel.created_by != Some(caller.user) {
        let data = serde_json::json!({"user_id": user});
        let action = auth::AuditAction::ChannelMemberRemoved;
        auth::record_audit(c, &access.actor, action, id.to_string(), data).await?;
    }
    part(c, access.actor.workspace, id, user).await
}

/// Brings the channels of a guest up to date: they join the given ones, and leave all others except for direct ones, with what they follow
/// there.
pub async fn keep_guest_in(
    c: &mut Conn,
    workspace: WorkspaceId,
    guest: UserId,
    channels: &[ChannelId],
) -> Result<(), ChatError> {
    let present: Vec<(ChannelId,)> = c
        .q(
            "select ch.id from channel_members cm join channels ch on ch.id = cm.channel_id \
            where cm.user_id = $2 and ch.workspace_id = $1 and ch.kind <> 'direct' order by ch.id",
        )
        .bind(workspace)
        .bind(guest)
        .all()
        .await?;
    let present: BTreeSet<ChannelId> = present.into_iter().map(|(id,)| id).collect();
    let kept: BTreeSet<ChannelId> = channels.iter().copied().collect();
    for channel in present.difference(&kept) {
        part(c, workspace, *channel, guest).await?;
    }
    for channel in kept.difference(&present) {
        join(c, workspace, *channel, guest).await?;
    }
    c.q("delete from follows where user_id = $2 and channel_id in (select id from channels where workspace_id = $1) \
         and channel_id not in (select channel_id from channel_members where user_id = $2)")
        .bind(workspace)
        .bind(guest)
        .run()
        .await?;
    Ok(())
}

/// Channel that a rule of a provider names.
#[derive(sqlx::FromRow)]
struct RuledChannel {
    id: ChannelId,
    /// False for an archived channel, which nobody joins or leaves.
    is_open: bool,
    is_inside: bool,
}

/// Brings a person into the channels that rules of a provider give to them, and out of others. Membership in channels that are archived
/// stays as it is; those that are direct, or no longer in the workspace, are left out.
pub(crate) async fn follow_rules(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    change: &ChannelChange,
) -> Result<(), ChatError> {
    if *change == ChannelChange::default() {
        return Ok(());
    }
    // Rules can name thousands of channels, and this happens at each sign-in.
    let ids = change.join.iter().chain(&change.leave).map(|id| id.0);
    let ids = hexadecimal_ids(ids);
    let sql = sql_with_ids!(
        c,
        "select ch.id, ch.archived_at is null as is_open, exists (select 1 from channel_members cm where cm.channel_id = ch.id \
         and cm.user_id = $2) as is_inside from channels ch where ch.workspace_id = $1 and ch.kind <> 'direct' and ch.id in",
        3,
        "order by ch.id"
    );
    let ruled: Vec<RuledChannel> = c.q(sql).bind(workspace).bind(user).bind(ids).all().await?;
    let given: BTreeSet<ChannelId> = change.join.iter().copied().collect();
    if change.is_guest {
        let kept: Vec<ChannelId> = ruled
            .iter()
            .filter(|channel| given.contains(&channel.id))
            .filter(|channel| channel.is_open || channel.is_inside)
            .map(|channel| channel.id)
            .collect();
        return keep_guest_in(c, workspace, user, &kept).await;
    }
    for channel in ruled.iter().filter(|channel| channel.is_open) {
        match (given.contains(&channel.id), channel.is_inside) {
            (true, false) => join(c, workspace, channel.id, user).await?,
            (false, true) => part(c, workspace, channel.id, user).await?,
            _ => {}
        }
    }
    Ok(())
}

fn not_a_member(user: UserId) -> ChatError {
    auth::AuthError::MemberNotFound(user.to_string()).into()
}

/// Members in the order in which they joined the channel; their `joined_at` is the time at which
/// they joined the channel.
pub async fn list_members(
    c: &mut Conn,
    access: &access::ChannelAccess<'_>,
    PageRange { after, before }: PageRange<UserId>,
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
        c.q("select m.user_id, u.name, m.handle, u.email, u.avatar_url, m.role, m.status, cm.joined_at from channel_members cm \
             join members m on m.workspace_id = $5 and m.user_id = cm.user_id join users u on u.id = cm.user_id \
             where cm.channel_id = $1 and m.status <> 'placeholder' and (cm.joined_at, cm.user_id) < ($2, $3) \
             order by cm.joined_at desc, cm.user_id desc limit $4")
    } else {
        c.q("select m.user_id, u.name, m.handle, u.email, u.avatar_url, m.role, m.status, cm.joined_at from channel_members cm \
             join members m on m.workspace_id = $5 and m.user_id = cm.user_id join users u on u.id = cm.user_id \
             where cm.channel_id = $1 and m.status <> 'placeholder' and (cm.joined_at, cm.user_id) > ($2, $3) \
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
