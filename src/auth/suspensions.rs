//! Suspended memberships. They keep their role, handle, and channels, but move out of `members`, so that no access check finds them.

use super::{
    AuthError, Role,
    members::{self, MemberEvent},
    sessions, workspaces,
};
use crate::{
    db::{Conn, dialect, now},
    failpoint,
    ids::{UserId, WorkspaceId},
    realtime::{Audience, EventType, MembershipChange, NewEvent, log},
};

const SUSPEND: &[&str] = &[
    "insert into suspended_channels (workspace_id, user_id, channel_id, joined_seq, read_seq, level, joined_at) \
     select $1, user_id, channel_id, joined_seq, read_seq, level, joined_at from channel_members \
     where user_id = $2 and channel_id in (select id from channels where workspace_id = $1)",
    "insert into suspended_follows (conversation_id, thread_id, user_id, channel_id, level, cause, done_seq, until, changed_seq, created_at) \
     select conversation_id, thread_id, user_id, channel_id, level, cause, done_seq, until, changed_seq, created_at from follows \
     where user_id = $2 and channel_id in (select id from channels where workspace_id = $1)",
    "delete from channel_members where user_id = $2 and channel_id in (select id from channels where workspace_id = $1)",
    // Deletes the keys too.
    "delete from members where workspace_id = $1 and user_id = $2",
];

const RESTORE: &[&str] = &[
    "insert into members (workspace_id, user_id, role, handle, joined_at, managed_by) \
     select workspace_id, user_id, role, handle, joined_at, managed_by from suspended_members where workspace_id = $1 and user_id = $2",
    "insert into channel_members (channel_id, user_id, joined_seq, read_seq, level, joined_at) \
     select channel_id, user_id, joined_seq, read_seq, level, joined_at from suspended_channels where workspace_id = $1 and user_id = $2",
    "insert into follows (conversation_id, thread_id, user_id, channel_id, level, cause, done_seq, until, changed_seq, created_at) \
     select f.conversation_id, f.thread_id, f.user_id, f.channel_id, f.level, f.cause, f.done_seq, f.until, f.changed_seq, f.created_at \
     from suspended_follows f join channels ch on ch.id = f.channel_id where ch.workspace_id = $1 and f.user_id = $2",
    "delete from suspended_members where workspace_id = $1 and user_id = $2",
];

/// Suspends a membership, in the transaction of the caller: deletes the person's keys, withdraws their open invites, closes their sockets,
/// and ends their sessions unless they are in another workspace. Returns false if the person is not an active member. The caller checks
/// that an admin remains.
///
/// # Errors
/// Only database errors.
pub async fn suspend(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<bool, AuthError> {
    dialect::lock_workspace(c, workspace.0).await?;
    let suspended = c
        .q("insert into suspended_members (workspace_id, user_id, role, handle, joined_at, managed_by, suspended_at) \
            select workspace_id, user_id, role, handle, joined_at, managed_by, $3 from members \
            where workspace_id = $1 and user_id = $2 and status <> 'placeholder'")
        .bind(workspace)
        .bind(user)
        .bind(now())
        .run()
        .await?;
    if suspended == 0 {
        return Ok(false);
    }
    for sql in SUSPEND {
        c.q(sql).bind(workspace).bind(user).run().await?;
    }
    failpoint!("suspending");
    members::withdraw_invites(c, workspace, user).await?;
    let member = members::get_listed(c, workspace, user).await?;
    let seq = log::reserve(c, workspace, 1).await?;
    let event = NewEvent::new(
        seq,
        EventType::MemberUpdated,
        Audience::Workspace,
        &MemberEvent { member: &member },
    )?
    .changing(MembershipChange::Expelled { user });
    log::append(c, workspace, event).await?;
    if workspaces::ids_of(c, user).await?.is_empty() {
        sessions::end_all(c, user, None).await?;
    }
    Ok(true)
}

/// Restores a suspended membership with its role and channels, and adds the channels that everyone joins. Returns false if the membership
/// is not suspended.
///
/// # Errors
/// Only database errors.
pub async fn restore(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<bool, AuthError> {
    dialect::lock_workspace(c, workspace.0).await?;
    let Some(suspended) = members::find_suspended(c, workspace, user).await? else {
        return Ok(false);
    };
    for sql in RESTORE {
        c.q(sql).bind(workspace).bind(user).run().await?;
    }
    members::announce(c, workspace, user, EventType::MemberUpdated).await?;
    if suspended.role != Role::Guest {
        members::join_common_channels(c, workspace, user).await?;
    }
    Ok(true)
}
