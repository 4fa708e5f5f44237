//! Items of forks that wait for a person: to be resolved, or to publish a draft.

use uuid::Uuid;

use crate::{
    db::{Conn, DbError},
    ids::{ChannelId, ForkId, ThreadId, UserId, WorkspaceId},
    inbox::{
        Existing, InboxReason, NewItem, Place, close,
        open::{open, open_with},
    },
    realtime::log,
};

#[derive(sqlx::FromRow)]
struct ForkRow {
    workspace_id: WorkspaceId,
    channel_id: ChannelId,
    thread_id: ThreadId,
    created_by: UserId,
    is_of_run: bool,
}

/// Active fork without a draft; `None` if a person does not have to resolve the fork.
async fn find_unresolved(c: &mut Conn, fork: ForkId) -> Result<Option<ForkRow>, DbError> {
    c.q("select f.workspace_id, f.channel_id, f.thread_id, f.created_by, \
         exists (select 1 from run_steps s where s.fork_id = f.id) as is_of_run from forks f where f.id = $1 and f.status = 'active' \
         and not exists (select 1 from resolutions r where r.fork_id = f.id and r.status = 'draft')")
        .bind(fork)
        .opt()
        .await
}

async fn item(
    c: &mut Conn,
    fork: ForkId,
    row: &ForkRow,
    reason: InboxReason,
    actor: Option<Uuid>,
) -> Result<NewItem, DbError> {
    let (seq, _) = log::head(c, row.workspace_id).await?;
    Ok(NewItem {
        workspace: row.workspace_id,
        reason,
        subject: fork.into(),
        actor,
        place: Some(Place {
            channel: row.channel_id,
            thread: row.thread_id,
            fork: Some(fork),
        }),
        channel: None,
        message: None,
        seq,
        changed_seq: seq,
        is_quiet: false,
    })
}

/// Opens the item of a fork that a run's step has opened, for the person who started the run, once.
///
/// # Errors
/// Only database errors.
pub async fn open_resolve(c: &mut Conn, fork: ForkId) -> Result<(), DbError> {
    if let Some(row) = find_unresolved(c, fork).await? {
        let item = item(c, fork, &row, InboxReason::Resolve, None).await?;
        open_with(c, row.created_by, &item, Existing::Keep).await?;
    }
    Ok(())
}

/// Opens the item of a collaboration that ended without a draft, for the person who started it. A run opens the items of its own forks.
pub(in crate::chat) async fn open_ended(c: &mut Conn, fork: ForkId) -> Result<(), DbError> {
    if let Some(row) = find_unresolved(c, fork).await?
        && !row.is_of_run
    {
        let item = item(c, fork, &row, InboxReason::Resolve, None).await?;
        open(c, row.created_by, &item).await?;
    }
    Ok(())
}

/// Opens the item of a draft for the person who requested it. `actor` wrote the draft.
///
/// # Errors
/// Only database errors.
pub async fn open_draft(
    c: &mut Conn,
    fork: ForkId,
    requester: UserId,
    actor: Uuid,
) -> Result<(), DbError> {
    let row: Option<ForkRow> = c
        .q("select workspace_id, channel_id, thread_id, created_by, FALSE as is_of_run from forks where id = $1")
        .bind(fork)
        .opt()
        .await?;
    if let Some(row) = row {
        let item = item(c, fork, &row, InboxReason::Draft, Some(actor)).await?;
        open(c, requester, &item).await?;
    }
    Ok(())
}

/// Closes the item of a fork that no longer has to be resolved.
///
/// # Errors
/// Only database errors.
pub async fn close_resolve(
    c: &mut Conn,
    workspace: WorkspaceId,
    fork: ForkId,
) -> Result<(), DbError> {
    close::close(c, workspace, InboxReason::Resolve, fork.0, None).await
}

/// Closes the item about the draft of a fork that was published or abandoned.
pub(in crate::chat) async fn close_draft(
    c: &mut Conn,
    workspace: WorkspaceId,
    fork: ForkId,
) -> Result<(), DbError> {
    close::close(c, workspace, InboxReason::Draft, fork.0, None).await
}
