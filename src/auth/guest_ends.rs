//! Ends the membership of guests at its time.

use std::time::Duration;

use super::{
    AuditAction, AuthError, Role, audit,
    members::{self, MemberStatus},
    suspensions,
};
use crate::{
    db::{Conn, Db, dialect, now},
    ids::{UserId, WorkspaceId},
    inbox::{
        InboxSubject, InboxSubjectKind,
        notice::{self, Notice},
    },
};

/// Number of guests that are suspended, or whose end is announced, per round.
const GUESTS_AT_ONCE: i64 = 100;
/// Time before the end at which the inviter gets a notice.
const NOTICED_BEFORE: Duration = Duration::from_hours(3 * 24);

/// Suspends guests whose membership has ended.
///
/// # Errors
/// Only database errors.
pub async fn suspend_ended(db: &Db) -> Result<(), AuthError> {
    let ended: Vec<(WorkspaceId, UserId)> = db
        .read()
        .await?
        .q("select g.workspace_id, g.user_id from guests g join members m on m.workspace_id = g.workspace_id and m.user_id = g.user_id \
            where g.expires_at is not null and g.expires_at <= $1 and m.role = 'guest' order by g.expires_at limit $2")
        .bind(now())
        .bind(GUESTS_AT_ONCE)
        .all()
        .await?;
    for (workspace, guest) in ended {
        db.write(workspace.0, async move |c: &mut Conn| {
            suspend(c, workspace, guest).await
        })
        .await?;
    }
    Ok(())
}

/// Opens notices about guests whose membership ends soon, once each.
///
/// # Errors
/// Only database errors.
pub async fn announce_ends(db: &Db) -> Result<(), AuthError> {
    let ending: Vec<(WorkspaceId, UserId)> = db
        .read()
        .await?
        .q("select g.workspace_id, g.user_id from guests g join members m on m.workspace_id = g.workspace_id and m.user_id = g.user_id \
            where g.expires_at is not null and g.expires_at <= $1 and g.noticed_at is null and m.role = 'guest' \
            order by g.expires_at limit $2")
        .bind(now() + NOTICED_BEFORE)
        .bind(GUESTS_AT_ONCE)
        .all()
        .await?;
    for (workspace, guest) in ending {
        db.write(workspace.0, async move |c: &mut Conn| {
            announce_end(c, workspace, guest).await
        })
        .await?;
    }
    Ok(())
}

/// Opens a notice for the inviter, or for all admins if the inviter is no longer one.
async fn announce_end(
    c: &mut Conn,
    workspace: WorkspaceId,
    guest: UserId,
) -> Result<(), AuthError> {
    dialect::lock_workspace(c, workspace.0).await?;
    let at = now();
    let row: Option<(Option<UserId>,)> = c
        .q("update guests set noticed_at = $4 where workspace_id = $1 and user_id = $2 and noticed_at is null \
            and expires_at <= $3 returning invited_by")
        .bind(workspace)
        .bind(guest)
        .bind(at + NOTICED_BEFORE)
        .bind(at)
        .opt()
        .await?;
    let Some((invited_by,)) = row else {
        return Ok(());
    };
    let notice = Notice {
        workspace,
        subject: InboxSubject::new(InboxSubjectKind::Member, guest.0),
        actor: None,
        channel: None,
    };
    let admins = notice::admins(c, workspace).await?;
    match invited_by.filter(|inviter| admins.contains(inviter)) {
        Some(inviter) => notice::open_notice(c, inviter, &notice).await?,
        None => notice::open_for_admins(c, &notice).await?,
    }
    Ok(())
}

/// Suspends a guest, unless the end was changed meanwhile.
async fn suspend(c: &mut Conn, workspace: WorkspaceId, guest: UserId) -> Result<(), AuthError> {
    dialect::lock_workspace(c, workspace.0).await?;
    let row: Option<(Option<UserId>,)> = c
        .q("select invited_by from guests where workspace_id = $1 and user_id = $2 and expires_at <= $3")
        .bind(workspace)
        .bind(guest)
        .bind(now())
        .opt()
        .await?;
    let Some((invited_by,)) = row else {
        return Ok(());
    };
    let member = members::find_member(c, workspace, guest).await?;
    let is_guest = member
        .is_some_and(|member| member.role == Role::Guest && member.status == MemberStatus::Active);
    if is_guest && suspensions::suspend(c, workspace, guest).await? {
        let data = serde_json::json!({"invited_by": invited_by});
        audit::record_operator(
            c,
            workspace,
            AuditAction::GuestEnded,
            guest.to_string(),
            data,
        )
        .await?;
        notice::close_notice(c, workspace, guest.0, None).await?;
    }
    Ok(())
}
