//! Inbox items about schedules: for the owner of one that failed, missed a slot, or was paused, and for admins if its owner is gone.

use crate::{
    db::{Conn, DbError},
    ids::{ScheduleId, UserId},
    inbox::{
        InboxReason, InboxSubject, InboxSubjectKind, NewItem, close,
        notice::{self, Notice},
        open::open,
    },
    realtime::log,
};

use super::row::Row;

fn subject(id: ScheduleId) -> InboxSubject {
    InboxSubject::new(InboxSubjectKind::Schedule, id.0)
}

/// Opens the item of the owner. `actor` is the person who paused the schedule.
pub(super) async fn open_failed(
    c: &mut Conn,
    row: &Row,
    actor: Option<UserId>,
) -> Result<(), DbError> {
    let (seq, _) = log::head(c, row.workspace_id).await?;
    let item = NewItem {
        workspace: row.workspace_id,
        reason: InboxReason::Failed,
        subject: subject(row.id),
        actor: actor.map(|user| user.0),
        place: None,
        channel: row.channel_id,
        message: None,
        seq,
        changed_seq: seq,
        is_quiet: false,
    };
    open(c, row.owner_id, &item).await?;
    Ok(())
}

/// Opens the notice of the admins about a schedule whose owner is gone.
pub(super) async fn open_owner_gone(c: &mut Conn, row: &Row) -> Result<(), DbError> {
    let notice = Notice {
        workspace: row.workspace_id,
        subject: subject(row.id),
        actor: None,
        channel: row.channel_id,
    };
    notice::open_for_admins(c, &notice).await
}

/// Closes the item of the owner, because a slot was completed.
pub(super) async fn close_failed(c: &mut Conn, row: &Row) -> Result<(), DbError> {
    close::close(c, row.workspace_id, InboxReason::Failed, row.id.0, None).await
}

/// Closes all items about a schedule that was resumed or deleted.
pub(super) async fn close_all(c: &mut Conn, row: &Row) -> Result<(), DbError> {
    close_failed(c, row).await?;
    notice::close_notice(c, row.workspace_id, row.id.0, None).await
}
