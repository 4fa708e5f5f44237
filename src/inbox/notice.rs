//! Notices: items about something in the workspace that needs attention. They notify nobody, and close when it is settled.

use uuid::Uuid;

use super::{
    close,
    item::{InboxReason, InboxSubject, Place},
    open::{Existing, NewItem, open_with},
};
use crate::{
    db::{Conn, DbError},
    ids::{ChannelId, UserId, WorkspaceId},
    realtime::log,
};

/// Maximum number of admins who get a notice.
const ADMINS_MAX: i64 = 100;

/// Something that needs attention.
#[derive(Debug, Clone, Copy)]
pub struct Notice {
    pub workspace: WorkspaceId,
    pub subject: InboxSubject,
    /// Person who caused the notice, who does not get it.
    pub actor: Option<UserId>,
    /// Channel that the notice is about; only its readers get the notice.
    pub channel: Option<ChannelId>,
}

/// Opens a notice for a person; one that is done opens again.
pub async fn open_notice(c: &mut Conn, user: UserId, notice: &Notice) -> Result<(), DbError> {
    let (seq, _) = log::head(c, notice.workspace).await?;
    let item = NewItem {
        workspace: notice.workspace,
        reason: InboxReason::Notice,
        subject: notice.subject,
        actor: notice.actor.map(|user| user.0),
        place: None::<Place>,
        channel: notice.channel,
        message: None,
        seq,
        changed_seq: seq,
        is_quiet: true,
    };
    open_with(c, user, &item, Existing::ReopenDone).await?;
    Ok(())
}

/// Closes the notices about an object for everyone, or only for one person.
pub async fn close_notice(
    c: &mut Conn,
    workspace: WorkspaceId,
    subject: Uuid,
    only: Option<UserId>,
) -> Result<(), DbError> {
    close::close(c, workspace, InboxReason::Notice, subject, only).await
}

/// Opens a notice for the workspace's admins.
pub async fn open_for_admins(c: &mut Conn, notice: &Notice) -> Result<(), DbError> {
    for admin in admins(c, notice.workspace).await? {
        open_notice(c, admin, notice).await?;
    }
    Ok(())
}

/// Admins of a workspace, in the order in which they joined, at most 100.
pub async fn admins(c: &mut Conn, workspace: WorkspaceId) -> Result<Vec<UserId>, DbError> {
    let rows: Vec<(UserId,)> = c
        .q("select user_id from members where workspace_id = $1 and role = 'admin' order by joined_at, user_id limit $2")
        .bind(workspace)
        .bind(ADMINS_MAX)
        .all()
        .await?;
    Ok(rows.into_iter().map(|(user,)| user).collect())
}
