//! Notices for admins about what providers wanted but could not do. Each closes when it is settled.

use crate::{
    auth::AuthError,
    db::{Conn, Db, dialect},
    ids::{IdentityId, IdentityProviderId, UserId, WorkspaceId},
    inbox::{
        InboxSubject, InboxSubjectKind,
        notice::{self, Notice},
    },
};

/// Maximum number of notices that are closed per round.
const CLOSED_AT_ONCE: i64 = 100;

fn about(workspace: WorkspaceId, subject: InboxSubject) -> Notice {
    Notice {
        workspace,
        subject,
        // The person can be the only admin.
        actor: None,
        channel: None,
    }
}

/// Opens a notice about an account that keeps its address, because another one has the provider's new address.
///
/// # Errors
/// Only database errors.
pub(crate) async fn address_kept(
    c: &mut Conn,
    workspace: WorkspaceId,
    identity: IdentityId,
) -> Result<(), AuthError> {
    dialect::lock_workspace(c, workspace.0).await?;
    let subject = InboxSubject::new(InboxSubjectKind::Identity, identity.0);
    Ok(notice::open_for_admins(c, &about(workspace, subject)).await?)
}

/// Opens a notice about the last admin, or an admin of the server, whom a provider wanted to demote or suspend.
///
/// # Errors
/// Only database errors.
pub(crate) async fn role_kept(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), AuthError> {
    let subject = InboxSubject::new(InboxSubjectKind::Role, user.0);
    Ok(notice::open_for_admins(c, &about(workspace, subject)).await?)
}

/// Closes the notice about a role, which is the one that the provider wants now.
///
/// # Errors
/// Only database errors.
pub(super) async fn role_settled(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), AuthError> {
    Ok(notice::close_notice(c, workspace, user.0, None).await?)
}

/// Opens a notice about a provider that fails, in the oldest workspace, whose admins are those of the server.
///
/// # Errors
/// Only database errors.
pub(super) async fn provider_fails(
    c: &mut Conn,
    oldest: WorkspaceId,
    provider: IdentityProviderId,
) -> Result<(), AuthError> {
    let subject = InboxSubject::new(InboxSubjectKind::IdentityProvider, provider.0);
    Ok(notice::open_for_admins(c, &about(oldest, subject)).await?)
}

/// Closes the notices about accounts that have the provider's address by now, or are no longer connected with it.
///
/// # Errors
/// Only database errors.
pub async fn close_settled(db: &Db) -> Result<(), AuthError> {
    let settled: Vec<(WorkspaceId, IdentityId)> = db
        .read()
        .await?
        .q("select distinct i.workspace_id, i.subject_id from inbox_items i where i.subject_type = 'identity' and i.state <> 'done' \
            and not exists (select 1 from identities x join users u on u.id = x.user_id where x.id = i.subject_id \
              and x.noticed_email is not null and x.email <> u.email) order by i.workspace_id, i.subject_id limit $1")
        .bind(CLOSED_AT_ONCE)
        .all()
        .await?;
    for (workspace, identity) in settled {
        db.write(workspace.0, async move |c: &mut Conn| {
            dialect::lock_workspace(c, workspace.0).await?;
            notice::close_notice(c, workspace, identity.0, None).await
        })
        .await?;
    }
    Ok(())
}
