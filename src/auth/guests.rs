//! Routes that accept guests, and the people whom guests see.

use super::{AuthError, Scope, Scopes};
use crate::{
    db::{Conn, DbError, has_guests, now},
    ids::{ChannelId, UserId, WorkspaceId},
    time::Timestamp,
};

/// Maximum number of people whose presence a guest sees.
const PEOPLE_MAX: i64 = 10_000;

/// Roles that a route accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteReach {
    /// All roles except for guests.
    Members,
    /// All roles.
    Guests,
}

/// Routes in a workspace that accept guests; all others refuse them. Their handlers show what `is_visible_channel!` and
/// `is_visible_person!` permit.
const ROUTES: &[(&str, &str)] = &[
    ("GET", "/v1/workspaces/{id}"),
    ("GET", "/v1/snapshot"),
    ("GET", "/v1/emoji"),
    ("GET", "/v1/events"),
    ("GET", "/v1/ws"),
    ("GET", "/v1/members"),
    ("GET", "/v1/members/{user_id}"),
    ("DELETE", "/v1/members/{user_id}"),
    ("POST", "/v1/direct"),
    ("GET", "/v1/channels"),
    ("GET", "/v1/channels/{id}"),
    ("GET", "/v1/channels/{id}/members"),
    ("GET", "/v1/channels/{id}/pins"),
    ("GET", "/v1/channels/{id}/threads"),
    ("POST", "/v1/channels/{id}/threads"),
    ("GET", "/v1/channels/{id}/catch-up"),
    ("POST", "/v1/channels/{id}/leave"),
    ("PUT", "/v1/channels/{id}/level"),
    ("POST", "/v1/channels/{id}/read"),
    ("GET", "/v1/threads/{id}"),
    ("GET", "/v1/threads/{id}/messages"),
    ("POST", "/v1/threads/{id}/messages"),
    ("POST", "/v1/commands/{name}"),
    ("GET", "/v1/threads/{id}/catch-up"),
    ("GET", "/v1/threads/{id}/forks"),
    ("POST", "/v1/threads/{id}/forks"),
    ("PUT", "/v1/threads/{id}/read"),
    ("PUT", "/v1/threads/{id}/follow"),
    ("DELETE", "/v1/threads/{id}/follow"),
    ("GET", "/v1/forks/{id}"),
    ("PATCH", "/v1/forks/{id}"),
    ("GET", "/v1/forks/{id}/messages"),
    ("POST", "/v1/forks/{id}/messages"),
    ("POST", "/v1/forks/{id}/resolve"),
    ("GET", "/v1/forks/{id}/resolution"),
    ("PATCH", "/v1/forks/{id}/resolution"),
    ("POST", "/v1/forks/{id}/publish"),
    ("POST", "/v1/forks/{id}/abandon"),
    ("POST", "/v1/forks/{id}/reopen"),
    ("GET", "/v1/forks/{id}/resolutions"),
    ("PUT", "/v1/forks/{id}/read"),
    ("PUT", "/v1/forks/{id}/follow"),
    ("DELETE", "/v1/forks/{id}/follow"),
    ("GET", "/v1/messages/{id}"),
    ("PATCH", "/v1/messages/{id}"),
    ("DELETE", "/v1/messages/{id}"),
    ("POST", "/v1/messages/{id}/buttons/{button_id}"),
    ("PUT", "/v1/messages/{id}/reactions/{emoji}"),
    ("DELETE", "/v1/messages/{id}/reactions/{emoji}"),
    ("PUT", "/v1/messages/{id}/saved"),
    ("DELETE", "/v1/messages/{id}/saved"),
    ("GET", "/v1/search"),
    ("GET", "/v1/decisions"),
    ("GET", "/v1/action-items"),
    ("PATCH", "/v1/action-items/{id}"),
    ("GET", "/v1/files"),
    ("POST", "/v1/files"),
    ("GET", "/v1/files/{id}"),
    ("GET", "/v1/files/{id}/content"),
    ("DELETE", "/v1/files/{id}"),
    ("PATCH", "/v1/files/{id}"),
    ("POST", "/v1/files/{id}/suggest-alt"),
    ("GET", "/v1/files/{id}/metadata"),
    ("GET", "/v1/files/{id}/text"),
    ("GET", "/v1/inbox"),
    ("GET", "/v1/inbox/asked"),
    ("GET", "/v1/inbox/catch-up"),
    ("GET", "/v1/inbox/changes"),
    ("PUT", "/v1/inbox/state"),
    ("GET", "/v1/following"),
    ("GET", "/v1/tasks/{id}"),
    ("POST", "/v1/tasks/{id}/cancel"),
    ("POST", "/v1/tasks/{id}/retry"),
];

/// Beginnings of the routes that concern an account and no workspace. Guests have accounts like everyone.
const ACCOUNT_ROUTES: &[&str] = &[
    "/v1/auth/",
    "/v1/mail/",
    "/v1/push",
    "/v1/notification-settings",
];
/// Further routes that concern only an account.
const OTHER_ACCOUNT_ROUTES: &[(&str, &str)] = &[
    ("GET", "/v1/workspaces"),
    ("POST", "/v1/workspaces"),
    ("GET", "/v1/invites/{id}"),
    ("POST", "/v1/invites/{id}/accept"),
];

/// Reach of a route.
pub fn reach_of(method: &str, path: &str) -> RouteReach {
    let method = if method == "HEAD" { "GET" } else { method };
    let is_listed = |list: &[(&str, &str)]| {
        list.iter()
            .any(|(known, route)| *known == method && *route == path)
    };
    let is_of_account = ACCOUNT_ROUTES.iter().any(|begin| path.starts_with(begin));
    if is_listed(ROUTES) || is_listed(OTHER_ACCOUNT_ROUTES) || is_of_account {
        RouteReach::Guests
    } else {
        RouteReach::Members
    }
}

/// Admits a guest to a workspace on a route with this reach. Removes the scopes for agents if guests cannot use them there.
///
/// # Errors
/// `NotForGuests`, or `WorkspaceNotFound` if the membership has ended.
pub(super) async fn admit(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    reach: RouteReach,
    scopes: &mut Scopes,
) -> Result<(), AuthError> {
    if reach == RouteReach::Members {
        return Err(AuthError::NotForGuests);
    }
    let row: Option<(bool, Option<Timestamp>)> = c
        .q(
            "select w.guests_use_agents, g.expires_at from workspaces w \
            left join guests g on g.workspace_id = w.id and g.user_id = $2 where w.id = $1",
        )
        .bind(workspace)
        .bind(user)
        .opt()
        .await?;
    let (use_agents, expires_at) = row.ok_or(AuthError::WorkspaceNotFound)?;
    if expires_at.is_some_and(|at| at <= now()) {
        return Err(AuthError::WorkspaceNotFound);
    }
    if !use_agents {
        scopes.0.remove(&Scope::AgentsRead);
        scopes.0.remove(&Scope::AgentsUse);
    }
    Ok(())
}

/// Checks whether a channel has guests.
///
/// # Errors
/// Only database errors.
pub async fn has_guests(
    c: &mut Conn,
    workspace: WorkspaceId,
    channel: ChannelId,
) -> Result<bool, DbError> {
    c.q(concat!("select ", has_guests!("$1", "$2")))
        .bind(workspace)
        .bind(channel)
        .value()
        .await
}

/// People who share a channel with a guest, and the guest.
///
/// # Errors
/// Only database errors.
pub async fn people_of(
    c: &mut Conn,
    workspace: WorkspaceId,
    guest: UserId,
) -> Result<Vec<UserId>, DbError> {
    let rows: Vec<(UserId,)> = c
        .q("select distinct pt.user_id from channel_members po join channels pc on pc.id = po.channel_id \
            join channel_members pt on pt.channel_id = po.channel_id \
            where po.user_id = $2 and pc.workspace_id = $1 order by pt.user_id limit $3")
        .bind(workspace)
        .bind(guest)
        .bind(PEOPLE_MAX)
        .all()
        .await?;
    Ok(rows.into_iter().map(|(user,)| user).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_that_nothing_names_refuse_guests() {
        for (method, path, expected) in [
            ("GET", "/v1/channels/{id}", RouteReach::Guests),
            ("HEAD", "/v1/files/{id}", RouteReach::Guests),
            ("POST", "/v1/auth/passkeys", RouteReach::Guests),
            ("PATCH", "/v1/channels/{id}", RouteReach::Members),
            ("POST", "/v1/channels/{id}/join", RouteReach::Members),
            ("POST", "/v1/api-keys", RouteReach::Members),
            ("GET", "/v1/members/{user_id}/export", RouteReach::Members),
            ("POST", "/v1/invites", RouteReach::Members),
            ("GET", "/v1/hooks", RouteReach::Members),
            ("GET", "/v1/unknown", RouteReach::Members),
        ] {
            assert_eq!(reach_of(method, path), expected, "{method} {path}");
        }
    }
}
