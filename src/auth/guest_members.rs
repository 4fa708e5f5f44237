//! Channels of guests, and the end of their membership.

use std::collections::BTreeSet;

use super::{Actor, AuditAction, AuthError, Role, audit};
use crate::{
    db::{Conn, DbError, dialect, is_visible_channel, now},
    ids::{ChannelId, UserId, WorkspaceId},
    inbox::notice,
    time::Timestamp,
};

/// Maximum number of channels for which someone can be invited as a guest.
pub const CHANNELS_MAX: usize = 50;

/// Channels of a guest, and the end of the membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestTerms {
    pub channels: Vec<ChannelId>,
    /// `Some(None)` means never; `None` keeps the end that a guest has.
    pub expires_at: Option<Option<Timestamp>>,
}

impl GuestTerms {
    /// The terms in a request; `None` if it names none.
    ///
    /// # Errors
    /// `Invalid` for an end without channels.
    pub fn of_request(
        channels: Option<Vec<ChannelId>>,
        expires_at: Option<Option<Timestamp>>,
        param: &'static str,
    ) -> Result<Option<Self>, AuthError> {
        match (channels, expires_at) {
            (None, None) => Ok(None),
            (None, Some(_)) => {
                let problem = format!("{param} needs channel_ids");
                Err(AuthError::Invalid(problem, param))
            }
            (Some(channels), expires_at) => {
                let channels: BTreeSet<ChannelId> = channels.into_iter().collect();
                Ok(Some(Self {
                    channels: channels.into_iter().collect(),
                    expires_at,
                }))
            }
        }
    }
}

/// Checks that a membership with this role has terms only if it is a guest's, and that the actor can read the channels.
///
/// # Errors
/// `Invalid`.
pub(super) async fn check(
    c: &mut Conn,
    actor: &Actor<'_>,
    role: Role,
    terms: Option<&GuestTerms>,
) -> Result<(), AuthError> {
    let invalid = |problem: String| AuthError::Invalid(problem, "channel_ids");
    let terms = match (role, terms) {
        (Role::Guest, Some(terms)) if (1..=CHANNELS_MAX).contains(&terms.channels.len()) => terms,
        (Role::Guest, _) => {
            return Err(invalid(format!(
                "a guest needs 1 to {CHANNELS_MAX} channels"
            )));
        }
        (_, Some(_)) => return Err(invalid("only guests have channel_ids".to_owned())),
        (_, None) => return Ok(()),
    };
    if terms.expires_at.flatten().is_some_and(|at| at <= now()) {
        let problem = "a guest's membership must end in the future".to_owned();
        return Err(AuthError::Invalid(problem, "expires_at"));
    }
    let found: Vec<(ChannelId,)> = c
        .q(crate::sql_with_ids!(
            c,
            concat!(
                "select ch.id from channels ch where ch.workspace_id = $1 and ch.kind <> 'direct' and ch.archived_at is null and ",
                is_visible_channel!("ch", "$2"),
                " and ch.id in"
            ),
            3,
            "order by ch.id"
        ))
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(dialect::hexadecimal_ids(
            terms.channels.iter().map(|id| id.0),
        ))
        .all()
        .await?;
    let known: BTreeSet<ChannelId> = found.into_iter().map(|(id,)| id).collect();
    match terms.channels.iter().find(|id| !known.contains(id)) {
        None => Ok(()),
        Some(id) => Err(invalid(format!(
            "the channel {id} does not exist, is archived or direct, or you are not in it"
        ))),
    }
}

/// Stores the inviter of a guest and the end of the membership.
pub(super) async fn store(
    c: &mut Conn,
    workspace: WorkspaceId,
    guest: UserId,
    invited_by: UserId,
    expires_at: Option<Timestamp>,
) -> Result<(), AuthError> {
    notice::close_notice(c, workspace, guest.0, None).await?;
    c.q("insert into guests (workspace_id, user_id, invited_by, expires_at, noticed_at) values ($1, $2, $3, $4, null) \
         on conflict (workspace_id, user_id) do update set invited_by = excluded.invited_by, expires_at = excluded.expires_at, \
         noticed_at = null")
        .bind(workspace)
        .bind(guest)
        .bind(invited_by)
        .bind(expires_at)
        .run()
        .await?;
    Ok(())
}

/// Checks whether an admin decided about a guest. Guests whom a provider made have no terms.
pub(super) async fn has_terms(
    c: &mut Conn,
    workspace: WorkspaceId,
    guest: UserId,
) -> Result<bool, DbError> {
    c.q("select exists (select 1 from guests where workspace_id = $1 and user_id = $2)")
        .bind(workspace)
        .bind(guest)
        .value()
        .await
}

/// Forgets the terms of someone who is no longer a guest.
pub(super) async fn forget(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), AuthError> {
    notice::close_notice(c, workspace, user.0, None).await?;
    c.q("delete from guests where workspace_id = $1 and user_id = $2")
        .bind(workspace)
        .bind(user)
        .run()
        .await?;
    Ok(())
}

/// Records that an admin decided about a guest's channels and the end of the membership.
pub(super) async fn record(
    c: &mut Conn,
    actor: &Actor<'_>,
    guest: UserId,
    channels: &[ChannelId],
    expires_at: Option<Timestamp>,
) -> Result<(), DbError> {
    let data = serde_json::json!({"channel_ids": channels, "expires_at": expires_at});
    audit::record(c, actor, AuditAction::GuestChanged, guest.to_string(), data).await
}
