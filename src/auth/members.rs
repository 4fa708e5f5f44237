//! Members of a workspace and their roles.

use crate::time::Timestamp;
use serde::Serialize;

use super::{
    Actor, AuthError, GuestTerms, Role, guest_members, handles,
    revocations::{self, Revocation},
    shown_names,
};
use crate::{
    db::{Conn, DbError, is_visible_person, now},
    ids::{ChannelId, UserId, WorkspaceId},
    inbox,
    realtime::{Audience, EventData, EventType, MembershipChange, NewEvent, log},
    text_enum::text_enum,
};

#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct Member {
    pub user_id: UserId,
    pub name: String,
    pub handle: String,
    pub email: String,
    pub avatar_url: Option<String>,
    pub role: Role,
    #[schema(inline)]
    pub status: MemberStatus,
    pub joined_at: Timestamp,
    /// End of a guest's membership.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    #[sqlx(default)]
    pub expires_at: Option<Timestamp>,
}

text_enum! {
    /// State of a membership. A suspended one gives no access, and keeps its role and channels until it is restored; a placeholder is a
    /// person of an imported archive, who has no account.
    pub enum MemberStatus {
        Active = "active",
        Suspended = "suspended",
        Placeholder = "placeholder",
    }
}

#[derive(Serialize, utoipa::ToSchema)]
pub struct MemberEvent<'a> {
    pub member: &'a Member,
}

impl EventData for MemberEvent<'_> {
    const TYPES: &'static [EventType] = &[
        EventType::MemberJoined,
        EventType::MemberUpdated,
        EventType::MemberRemoved,
    ];
}

/// A person who becomes a member.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Newcomer<'a> {
    pub user: UserId,
    pub name: &'a str,
    /// The handle that the person chose; `None` derives one.
    pub handle: Option<&'a str>,
}

impl Newcomer<'_> {
    pub(super) async fn claim_handle(
        &self,
        c: &mut Conn,
        workspace: WorkspaceId,
    ) -> Result<String, AuthError> {
        handles::claim_for_member(c, workspace, self.handle, self.name, self.user.0).await
    }
}

/// Selects members of workspace `$1` in a table of memberships; `$status` begins the statement, with the column `status`.
macro_rules! member_sql {
    ($status:literal, $table:literal, $kept:literal, $tail:expr) => {
        concat!(
            $status,
            ", m.user_id, u.name, m.handle, u.email, u.avatar_url, m.role, m.joined_at, \
             (select g.expires_at from guests g where g.workspace_id = m.workspace_id and g.user_id = m.user_id) as expires_at from ",
            $table,
            " m join users u on u.id = m.user_id where m.workspace_id = $1 and ",
            $kept,
            $tail
        )
    };
}
pub(super) use member_sql;

/// The same for members with access, and placeholders.
macro_rules! present {
    ($tail:literal) => {
        member_sql!("select m.status", "members", "", $tail)
    };
}

macro_rules! suspended {
    ($tail:expr) => {
        member_sql!(
            "select 'suspended' as status",
            "suspended_members",
            "",
            $tail
        )
    };
}

/// The same statement for active members and for suspended ones, without placeholders.
macro_rules! of_both {
    ($tail:expr) => {
        [
            member_sql!(
                "select m.status",
                "members",
                "m.status <> 'placeholder' and ",
                $tail
            ),
            suspended!($tail),
        ]
    };
}

pub async fn find_member(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<Option<Member>, AuthError> {
    Ok(c.q(present!("m.user_id = $2"))
        .bind(workspace)
        .bind(user)
        .opt()
        .await?)
}

/// Checks whether the actor can see a person, if the person is in the workspace.
///
/// # Errors
/// Only database errors.
pub async fn sees_person(c: &mut Conn, actor: &Actor<'_>, person: UserId) -> Result<bool, DbError> {
    if actor.role != Role::Guest {
        return Ok(true);
    }
    c.q(concat!("select ", is_visible_person!("$1", "$3", "$2")))
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(person)
        .value()
        .await
}

pub async fn get_member(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<Member, AuthError> {
    find_member(c, workspace, user)
        .await?
        .ok_or_else(|| AuthError::MemberNotFound(user.to_string()))
}

/// Finds a suspended member.
pub(super) async fn find_suspended(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<Option<Member>, AuthError> {
    Ok(c.q(suspended!("m.user_id = $2"))
        .bind(workspace)
        .bind(user)
        .opt()
        .await?)
}

/// Returns an active or suspended member.
pub async fn get_listed(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<Member, AuthError> {
    if let Some(member) = find_member(c, workspace, user).await? {
        return Ok(member);
    }
    let suspended = find_suspended(c, workspace, user).await?;
    suspended.ok_or_else(|| AuthError::MemberNotFound(user.to_string()))
}

/// Lists the active and suspended members whom the actor can see, in the order in which they joined, after `after` or before `before`.
pub async fn list_members(
    c: &mut Conn,
    actor: &Actor<'_>,
    after: Option<UserId>,
    before: Option<UserId>,
    limit: i64,
) -> Result<Vec<Member>, AuthError> {
    let cursor = after.or(before);
    if let Some(user) = cursor
        && !sees_person(c, actor, user).await?
    {
        return Err(AuthError::MemberNotFound(user.to_string()));
    }
    let joined_at = match cursor {
        Some(user) => get_listed(c, actor.workspace, user).await?.joined_at,
        None => Timestamp::EPOCH,
    };
    let (statements, user) = if let Some(user) = before {
        let newest_first = of_both!(concat!(
            is_visible_person!("$1", "m.user_id", "$5"),
            " and (m.joined_at, m.user_id) < ($2, $3) order by m.joined_at desc, m.user_id desc limit $4"
        ));
        (newest_first, user)
    } else {
        let oldest_first = of_both!(concat!(
            is_visible_person!("$1", "m.user_id", "$5"),
            " and (m.joined_at, m.user_id) > ($2, $3) order by m.joined_at, m.user_id limit $4"
        ));
        (oldest_first, after.unwrap_or(UserId(uuid::Uuid::nil())))
    };
    let mut rows: Vec<Member> = Vec::new();
    for sql in statements {
        let found: Vec<Member> = c
            .q(sql)
            .bind(actor.workspace)
            .bind(joined_at)
            .bind(user)
            .bind(limit)
            .bind(actor.user)
            .all()
            .await?;
        rows.extend(found);
    }
    rows.sort_unstable_by_key(|member| (member.joined_at, member.user_id));
    let kept = usize::try_from(limit).unwrap_or(0);
    if before.is_some() {
        rows.drain(..rows.len().saturating_sub(kept));
    } else {
        rows.truncate(kept);
    }
    Ok(rows)
}

pub(super) async fn insert(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    role: Role,
    handle: &str,
) -> Result<(), AuthError> {
    shown_names::check_new_member(c, workspace, user).await?;
    c.q("insert into members (workspace_id, user_id, role, handle, joined_at) values ($1, $2, $3, $4, $5)")
        .bind(workspace)
        .bind(user)
        .bind(role)
        .bind(handle.to_owned())
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Appends `member.joined` or `member.updated` with the current member.
pub(super) async fn announce(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    kind: EventType,
) -> Result<Member, AuthError> {
    let member = get_member(c, workspace, user).await?;
    log::append_one(
        c,
        workspace,
        kind,
        Audience::Workspace,
        &MemberEvent { member: &member },
    )
    .await?;
    Ok(member)
}

/// Adds a person: membership, handle, and the channels that everyone joins. Does nothing for current members.
///
/// # Errors
/// `MemberSuspended`, `Invalid`, or `HandleTaken`.
pub(super) async fn join(
    c: &mut Conn,
    workspace: WorkspaceId,
    new: &Newcomer<'_>,
    role: Role,
) -> Result<Member, AuthError> {
    let user = new.user;
    if let Some(member) = find_member(c, workspace, user).await? {
        return Ok(member);
    }
    if find_suspended(c, workspace, user).await?.is_some() {
        return Err(AuthError::MemberSuspended);
    }
    let handle = new.claim_handle(c, workspace).await?;
    insert(c, workspace, user, role, &handle).await?;
    let member = announce(c, workspace, user, EventType::MemberJoined).await?;
    if role != Role::Guest {
        join_common_channels(c, workspace, user).await?;
    }
    Ok(member)
}

/// Adds a member to the channels that everyone joins.
pub(super) async fn join_common_channels(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), AuthError> {
    let channels: Vec<(ChannelId,)> = c
        .q("select id from channels where workspace_id = $1 and joined_by_all and archived_at is null order by id")
        .bind(workspace)
        .all()
        .await?;
    let channels: Vec<ChannelId> = channels.into_iter().map(|(id,)| id).collect();
    join_channels(c, workspace, user, &channels).await
}

/// Adds a new member to those of the channels that are neither archived nor deleted.
pub(super) async fn join_channels(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    channels: &[ChannelId],
) -> Result<(), AuthError> {
    let (seq, _) = log::head(c, workspace).await?;
    for channel in channels {
        c.q("insert into channel_members (channel_id, user_id, joined_seq, read_seq, joined_at) \
             select id, $2, $3, $3, $4 from channels where id = $1 and workspace_id = $5 and kind <> 'direct' and archived_at is null \
             on conflict (channel_id, user_id) do nothing")
            .bind(*channel)
            .bind(user)
            .bind(seq)
            .bind(now())
            .bind(workspace)
            .run()
            .await?;
    }
    Ok(())
}

async fn is_last_admin(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<bool, AuthError> {
    let other = c
        .q("select user_id from members where workspace_id = $1 and role = 'admin' and status <> 'placeholder' and user_id <> $2 limit 1")
        .bind(workspace)
        .bind(user)
        .opt::<(UserId,)>()
        .await?;
    Ok(other.is_none())
}

/// # Errors
/// `LastAdmin`.
pub async fn check_not_last_admin(
    c: &mut Conn,
    member: &Member,
    workspace: WorkspaceId,
) -> Result<(), AuthError> {
    if member.role == Role::Admin && is_last_admin(c, workspace, member.user_id).await? {
        return Err(AuthError::LastAdmin);
    }
    Ok(())
}

/// Changes to a member; omitted ones leave it as it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemberChange {
    pub role: Option<Role>,
    pub handle: Option<String>,
    /// Channels of a guest, which the caller brings up to date, and the end of the membership.
    pub terms: Option<GuestTerms>,
}

/// Changes a role, a handle, or the terms of a guest. Admins can change them for anyone; people can change their own handle.
///
/// # Errors
/// `MemberNotFound`, `LastAdmin`, `HandleTaken`, `Invalid`, or an error from `Actor::require`.
pub(crate) async fn update(
    c: &mut Conn,
    actor: &Actor<'_>,
    user: UserId,
    change: &MemberChange,
) -> Result<Member, AuthError> {
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let member = get_member(c, actor.workspace, user).await?;
    if change.role.is_some() || change.terms.is_some() || user != actor.user {
        actor.require(super::Scope::WorkspaceAdmin)?;
    } else {
        actor.require(super::Scope::ChatWrite)?;
    }
    let handle = change.handle.as_deref();
    if let Some(handle) = handle {
        handles::check(handle, "handle")?;
    }
    let role = change.role.filter(|role| *role != member.role);
    if role.is_some() || change.terms.is_some() {
        let role = role.unwrap_or(member.role);
        guest_members::check(c, actor, role, change.terms.as_ref()).await?;
    }
    if let Some(role) = role {
        set_role(c, actor, &member, role).await?;
        if role == Role::Guest {
            delete_keys(c, actor.workspace, user).await?;
            withdraw_invites(c, actor.workspace, user).await?;
        } else if member.role == Role::Guest {
            guest_members::forget(c, actor.workspace, user).await?;
            join_common_channels(c, actor.workspace, user).await?;
        }
    }
    if let Some(terms) = &change.terms {
        let kept = member.expires_at.filter(|_| member.role == Role::Guest);
        let end = terms.expires_at.unwrap_or(kept);
        guest_members::store(c, actor.workspace, user, actor.user, end).await?;
        guest_members::record(c, actor, user, &terms.channels, end).await?;
    }
    if let Some(handle) = handle.filter(|handle| *handle != member.handle) {
        set_handle(c, actor, &member, handle).await?;
    }
    announce(c, actor.workspace, user, EventType::MemberUpdated).await
}

/// Deletes the open invites in a workspace that a person created, or that are for their address.
pub(super) async fn withdraw_invites(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), AuthError> {
    c.q("delete from invites where workspace_id = $1 and (created_by = $2 or email = (select email from users where id = $2)) \
         and (expires_at is null or expires_at > $3) and (max_uses is null or uses < max_uses)")
        .bind(workspace)
        .bind(user)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Deletes the keys of someone who becomes a guest.
pub(super) async fn delete_keys(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), AuthError> {
    c.q("delete from api_keys where workspace_id = $1 and user_id = $2")
        .bind(workspace)
        .bind(user)
        .run()
        .await?;
    Ok(())
}

pub(super) async fn store_role(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    role: Role,
) -> Result<(), AuthError> {
    c.q("update members set role = $3 where workspace_id = $1 and user_id = $2")
        .bind(workspace)
        .bind(user)
        .bind(role)
        .run()
        .await?;
    Ok(())
}

async fn set_role(
    c: &mut Conn,
    actor: &Actor<'_>,
    member: &Member,
    role: Role,
) -> Result<(), AuthError> {
    check_not_last_admin(c, member, actor.workspace).await?;
    let user = member.user_id;
    store_role(c, actor.workspace, user, role).await?;
    super::record_audit(
        c,
        actor,
        super::AuditAction::MemberRoleChanged,
        user.to_string(),
        serde_json::json!({"from": member.role, "to": role}),
    )
    .await?;
    let revocation = Revocation::User {
        user,
        workspace: Some(actor.workspace),
    };
    Ok(revocations::record(c, revocation).await?)
}

async fn set_handle(
    c: &mut Conn,
    actor: &Actor<'_>,
    member: &Member,
    handle: &str,
) -> Result<(), AuthError> {
    let (workspace, user) = (actor.workspace, member.user_id);
    handles::release(c, workspace, user.0).await?;
    handles::claim_chosen(c, workspace, handle, user.0).await?;
    c.q("update members set handle = $3 where workspace_id = $1 and user_id = $2")
        .bind(workspace)
        .bind(user)
        .bind(handle.to_owned())
        .run()
        .await?;
    if user != actor.user {
        super::record_audit(
            c,
            actor,
            super::AuditAction::MemberHandleChanged,
            user.to_string(),
            serde_json::json!({"from": member.handle, "to": handle}),
        )
        .await?;
    }
    Ok(())
}

/// Removes a person from the workspace, with their keys, channel memberships, and personal memory entries. Their messages stay.
///
/// # Errors
/// `MemberNotFound`, `LastAdmin`; an error from `Actor::require` when removing someone else; `SessionRequired` for a key that would
/// remove its own creator.
pub(crate) async fn remove(c: &mut Conn, actor: &Actor<'_>, user: UserId) -> Result<(), AuthError> {
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let member = get_listed(c, actor.workspace, user).await?;
    if !sees_person(c, actor, user).await? {
        return Err(AuthError::MemberNotFound(user.to_string()));
    }
    if user == actor.user {
        actor.require_person()?;
    } else {
        actor.require(super::Scope::WorkspaceAdmin)?;
    }
    if member.status == MemberStatus::Active {
        check_not_last_admin(c, &member, actor.workspace).await?;
    }
    remove_member(c, actor.workspace, &member, &member).await?;
    super::record_audit(
        c,
        actor,
        super::AuditAction::MemberRemoved,
        user.to_string(),
        serde_json::json!({"name": member.name}),
    )
    .await
    .map_err(Into::into)
}

/// Removes an active or suspended member, with their keys, channel memberships, and personal memory entries; `shown` is the member as included in the
/// event.
pub async fn remove_member(
    c: &mut Conn,
    workspace: WorkspaceId,
    member: &Member,
    shown: &Member,
) -> Result<(), AuthError> {
    let user = member.user_id;
    c.q("delete from channel_members where user_id = $2 and channel_id in (select id from channels where workspace_id = $1)")
        .bind(workspace)
        .bind(user)
        .run()
        .await?;
    inbox::close::delete_in_workspace(c, workspace, user).await?;
    handles::release(c, workspace, user.0).await?;
    c.q("delete from members where workspace_id = $1 and user_id = $2")
        .bind(workspace)
        .bind(user)
        .run()
        .await?;
    c.q("delete from suspended_members where workspace_id = $1 and user_id = $2")
        .bind(workspace)
        .bind(user)
        .run()
        .await?;
    guest_members::forget(c, workspace, user).await?;
    // The cleanup forgets expired entries.
    c.q("update memories set expires_at = $3 where workspace_id = $1 and user_id = $2 and forgotten_at is null")
        .bind(workspace)
        .bind(user)
        .bind(now())
        .run()
        .await?;
    // Consent and rights end with the membership.
    for sql in [
        "delete from repository_starters where user_id = $2 and repository_id in (select id from repositories where workspace_id = $1)",
        "delete from adaptation_states where workspace_id = $1 and user_id = $2",
        "update memory_settings set adapt = FALSE where workspace_id = $1 and user_id = $2",
    ] {
        c.q(sql).bind(workspace).bind(user).run().await?;
    }
    let seq = log::reserve(c, workspace, 1).await?;
    let event = NewEvent::new(
        seq,
        EventType::MemberRemoved,
        Audience::Workspace,
        &MemberEvent { member: shown },
    )?
    .changing(MembershipChange::Expelled { user });
    log::append(c, workspace, event).await?;
    Ok(())
}
