//! Ends the membership of guests at its time.

use super::{
    AuditAction, AuthError, Role, audit,
    members::{self, MemberStatus},
    suspensions,
};
use crate::{
    db::{Conn, Db, dialect, now},
    ids::{UserId, WorkspaceId},
};

/// Number of guests that are suspended per round.
const SUSPENDED_AT_ONCE: i64 = 100;

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
        .bind(SUSPENDED_AT_ONCE)
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
    }
    Ok(())
}
