//! Invite links to a workspace.

use std::time::Duration;

use crate::time::Timestamp;
use serde::Serialize;

use super::{
    Actor, AuthError, GuestTerms, Member, Role,
    flows::{self, FlowKind},
    guest_members, hash_token,
    members::{self, Newcomer},
    names::parse_email,
    new_token, placeholders, readable_channels,
};
use crate::{
    db::{Conn, Json, now},
    ids::{ChannelId, InviteId, UserId, WorkspaceId},
    text_enum::text_enum,
};

/// Default lifetime of an invite: one week.
pub(crate) const LIFETIME_S: i64 = 7 * 86_400;
const LIFETIME_S_MAX: i64 = 365 * 86_400;
const USES_MAX: i64 = 100_000;

text_enum! {
    /// Delivery of an invite by email: the state of the newest email.
    pub enum InviteDelivery {
        /// The server sends no email, or the invite has no address.
        Off = "off",
        Queued = "queued",
        Sent = "sent",
        /// The mail server refused it for good.
        Refused = "refused",
        /// There was no success within a day.
        Failed = "failed",
    }
}

/// Columns of `Invite`.
macro_rules! columns {
    () => {
        "id, workspace_id, email, role, placeholder_id as member_id, channel_ids, guest_expires_at, max_uses, uses, created_by, created_at, expires_at, \
         coalesce((select m.state from mails m where m.invite_id = invites.id order by m.created_at desc limit 1), 'off') as mail"
    };
}

#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct Invite {
    pub id: InviteId,
    #[serde(skip)]
    pub workspace_id: WorkspaceId,
    /// If set, only this email address can use the invite.
    pub email: Option<String>,
    pub role: Role,
    /// Placeholder of an import who the person becomes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub member_id: Option<UserId>,
    /// Channels of a guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<ChannelId>>, nullable = false)]
    pub channel_ids: Option<Json<Vec<ChannelId>>>,
    /// End of a guest's membership.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub guest_expires_at: Option<Timestamp>,
    /// Maximum number of uses; unlimited if null.
    pub max_uses: Option<i64>,
    pub uses: i64,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    #[schema(inline)]
    pub mail: InviteDelivery,
    /// True if the invite was found with the token of an email.
    #[serde(skip)]
    #[sqlx(skip)]
    pub is_mailed: bool,
}

impl Invite {
    pub(super) fn is_open(&self) -> bool {
        self.expires_at.is_none_or(|at| at > now())
            && self.max_uses.is_none_or(|max| self.uses < max)
    }
}

pub(crate) struct NewInvite {
    pub id: InviteId,
    pub email: Option<String>,
    pub role: Role,
    /// Placeholder for whom the invite is.
    pub member: Option<UserId>,
    /// Terms of a guest.
    pub terms: Option<GuestTerms>,
    pub max_uses: Option<i64>,
    pub expires_in_s: Option<i64>,
}

/// Creates an invite; returns it with the token for its link.
///
/// # Errors
/// `Invalid`, or an error from `Actor::require`.
pub(crate) async fn create(
    c: &mut Conn,
    actor: &Actor<'_>,
    new: &NewInvite,
) -> Result<(Invite, String), AuthError> {
    actor.require(super::Scope::WorkspaceAdmin)?;
    let email = new.email.as_deref().map(parse_email).transpose()?;
    if new.max_uses.is_some_and(|n| !(1..=USES_MAX).contains(&n)) {
        return Err(AuthError::Invalid(
            format!("max_uses must be from 1 to {USES_MAX}"),
            "max_uses",
        ));
    }
    let lifetime = new.expires_in_s.unwrap_or(LIFETIME_S);
    if !(1..=LIFETIME_S_MAX).contains(&lifetime) {
        return Err(AuthError::Invalid(
            format!("expires_in_s must be from 1 to {LIFETIME_S_MAX}"),
            "expires_in_s",
        ));
    }
    guest_members::check(c, actor, new.role, new.terms.as_ref()).await?;
    if let Some(member) = new.member {
        placeholders::check_invited(c, actor.workspace, member, new.role).await?;
    }
    let terms = new.terms.as_ref();
    let token = new_token();
    let invite = Invite {
        id: new.id,
        workspace_id: actor.workspace,
        email,
        role: new.role,
        member_id: new.member,
        channel_ids: terms.map(|terms| Json(terms.channels.clone())),
        guest_expires_at: terms.and_then(|terms| terms.expires_at.flatten()),
        // Only one person can be the placeholder.
        max_uses: new.member.map(|_| 1).or(new.max_uses),
        uses: 0,
        created_by: actor.user,
        created_at: now(),
        expires_at: Some(now() + Duration::from_secs(lifetime.unsigned_abs())),
        mail: InviteDelivery::Off,
        is_mailed: false,
    };
    c.q("insert into invites (id, workspace_id, token_hash, email, role, max_uses, uses, created_by, created_at, expires_at, \
         channel_ids, guest_expires_at, placeholder_id) values ($1, $2, $3, $4, $5, $6, 0, $7, $8, $9, $10, $11, $12)")
        .bind(invite.id)
        .bind(invite.workspace_id)
        .bind(hash_token(&token))
        .bind(invite.email.clone())
        .bind(invite.role)
        .bind(invite.max_uses)
        .bind(invite.created_by)
        .bind(invite.created_at)
        .bind(invite.expires_at)
        .bind(invite.channel_ids.clone())
        .bind(invite.guest_expires_at)
        .bind(invite.member_id)
        .run()
        .await?;
    super::record_audit(
        c,
        actor,
        super::AuditAction::InviteCreated,
        invite.id.to_string(),
        serde_json::json!({
            "role": invite.role, "email": invite.email, "channel_ids": invite.channel_ids, "member_id": invite.member_id,
        }),
    )
    .await?;
    Ok((invite, token))
}

/// Finds an invite that can still be used. If an email address is given, that person must be allowed to use it.
///
/// # Errors
/// `InviteNotFound` or `InviteForAnother`.
pub(crate) async fn find_open(
    c: &mut Conn,
    token: &str,
    email: Option<&str>,
) -> Result<Invite, AuthError> {
    let invite: Option<Invite> = c
        .q(concat!(
            "select ",
            columns!(),
            " from invites where token_hash = $1"
        ))
        .bind(hash_token(token))
        .opt()
        .await?;
    let invite = match invite {
        None => find_mailed(c, token).await?,
        invite => invite,
    };
    let invite = invite.filter(Invite::is_open);
    let invite = invite.ok_or(AuthError::InviteNotFound)?;
    if let (Some(wanted), Some(email)) = (&invite.email, email)
        && wanted != email
    {
        return Err(AuthError::InviteForAnother);
    }
    Ok(invite)
}

/// Finds an invite by the token of an email.
async fn find_mailed(c: &mut Conn, token: &str) -> Result<Option<Invite>, AuthError> {
    let link = flows::find(c, token).await?;
    let link = link.filter(|link| link.kind == FlowKind::Invite);
    let Some(id) = link.and_then(|link| link.invite_id) else {
        return Ok(None);
    };
    let invite: Option<Invite> = c
        .q(concat!(
            "select ",
            columns!(),
            " from invites where id = $1"
        ))
        .bind(id)
        .opt()
        .await?;
    Ok(invite.map(|invite| Invite {
        is_mailed: true,
        ..invite
    }))
}

/// Open invites for an address: those that name it, and the one that the person holds.
pub(super) async fn open_for(
    c: &mut Conn,
    email: &str,
    held: Option<InviteId>,
    limit: i64,
) -> Result<Vec<Invite>, AuthError> {
    Ok(c.q(concat!(
        "select ",
        columns!(),
        " from invites where (email = $1 or (id = $2 and email is null)) and (expires_at is null or expires_at > $3) \
         and (max_uses is null or uses < max_uses) order by workspace_id, id limit $4"
    ))
    .bind(email.to_owned())
    .bind(held)
    .bind(now())
    .bind(limit)
    .all()
    .await?)
}

/// # Errors
/// `NotFound`.
pub(super) async fn get(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: InviteId,
) -> Result<Invite, AuthError> {
    c.q(concat!(
        "select ",
        columns!(),
        " from invites where id = $1 and workspace_id = $2"
    ))
    .bind(id)
    .bind(workspace)
    .opt()
    .await?
    .ok_or(AuthError::NotFound("invite"))
}

/// Counts one use of an invite.
///
/// # Errors
/// `InviteNotFound` if it was the last one.
async fn count_use(c: &mut Conn, invite: &Invite) -> Result<(), AuthError> {
    let n = c
        .q("update invites set uses = uses + 1 where id = $1 and (max_uses is null or uses < max_uses)")
        .bind(invite.id)
        .run()
        .await?;
    if n == 0 {
        return Err(AuthError::InviteNotFound);
    }
    Ok(())
}

/// Counts one use of the invite and adds the person to the workspace. A use by a current member counts only if the invite is for a
/// placeholder, whom the member becomes.
///
/// # Errors
/// `InviteNotFound` if somebody else takes the last use at the same time; `Invalid` or `HandleTaken` for a chosen handle.
pub(crate) async fn accept(
    c: &mut Conn,
    invite: &Invite,
    new: &Newcomer<'_>,
) -> Result<(WorkspaceId, Member), AuthError> {
    let workspace = invite.workspace_id;
    crate::db::dialect::lock_workspace(c, workspace.0).await?;
    if let Some(member) = members::find_member(c, workspace, new.user).await? {
        if let Some(placeholder) = invite.member_id.filter(|_| member.role != Role::Guest) {
            count_use(c, invite).await?;
            placeholders::claim(c, workspace, placeholder, &member).await?;
        }
        return Ok((workspace, member));
    }
    count_use(c, invite).await?;
    if let (true, Some(email)) = (invite.is_mailed, &invite.email) {
        flows::confirm_address(c, new.user, email).await?;
    }
    let handle = match invite.member_id {
        Some(placeholder) => {
            placeholders::give_up_handle(c, workspace, placeholder, new.handle).await?
        }
        None => None,
    };
    let new = &Newcomer {
        user: new.user,
        name: new.name,
        handle: new.handle.or(handle.as_deref()),
    };
    let member = members::join(c, workspace, new, invite.role).await?;
    if let Some(placeholder) = invite.member_id {
        placeholders::claim(c, workspace, placeholder, &member).await?;
    }
    if invite.role == Role::Guest {
        let (inviter, end) = (invite.created_by, invite.guest_expires_at);
        guest_members::store(c, workspace, new.user, inviter, end).await?;
        let channels = invite.channel_ids.as_ref();
        let channels = channels.map(|list| list.0.as_slice()).unwrap_or_default();
        members::join_channels(c, workspace, new.user, channels).await?;
    }
    Ok((workspace, member))
}

/// Lists invites after `after` or before `before`, oldest first.
pub(crate) async fn list(
    c: &mut Conn,
    actor: &Actor<'_>,
    after: Option<InviteId>,
    before: Option<InviteId>,
    limit: i64,
) -> Result<Vec<Invite>, AuthError> {
    actor.require(super::Scope::WorkspaceAdmin)?;
    if let Some(id) = after.or(before) {
        c.q("select id from invites where id = $1 and workspace_id = $2")
            .bind(id)
            .bind(actor.workspace)
            .opt::<(InviteId,)>()
            .await?
            .ok_or(AuthError::NotFound("invite"))?;
    }
    let mut rows: Vec<Invite> = if let Some(before) = before {
        c.q(concat!(
            "select ",
            columns!(),
            " from invites where workspace_id = $1 and id < $2 order by id desc limit $3"
        ))
        .bind(actor.workspace)
        .bind(before)
        .bind(limit)
        .all()
        .await?
    } else {
        c.q(concat!(
            "select ",
            columns!(),
            " from invites where workspace_id = $1 and id > $2 order by id limit $3"
        ))
        .bind(actor.workspace)
        .bind(after.unwrap_or(InviteId(uuid::Uuid::nil())))
        .bind(limit)
        .all()
        .await?
    };
    if before.is_some() {
        rows.reverse();
    }
    let named = rows.iter().filter_map(|invite| invite.channel_ids.as_ref());
    let named: Vec<ChannelId> = named.flat_map(|ids| ids.0.iter().copied()).collect();
    let readable = readable_channels(c, actor.user, &named).await?;
    for channels in rows
        .iter_mut()
        .filter_map(|invite| invite.channel_ids.as_mut())
    {
        channels.0.retain(|channel| readable.contains(channel));
    }
    Ok(rows)
}

/// # Errors
/// `NotFound`, or an error from `Actor::require`.
pub(crate) async fn withdraw(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: InviteId,
) -> Result<(), AuthError> {
    get(c, actor.workspace, id).await?;
    actor.require(super::Scope::WorkspaceAdmin)?;
    let n = c
        .q("delete from invites where workspace_id = $1 and id = $2")
        .bind(actor.workspace)
        .bind(id)
        .run()
        .await?;
    if n == 0 {
        return Err(AuthError::NotFound("invite"));
    }
    super::record_audit(
        c,
        actor,
        super::AuditAction::InviteWithdrawn,
        id.to_string(),
        serde_json::json!({}),
    )
    .await?;
    Ok(())
}
