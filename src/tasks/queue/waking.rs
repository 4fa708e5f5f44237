//! Wakes tasks that can continue because people have approved or denied their actions, the tasks for which they waited have ended, or
//! the previous link has completed.

use super::{Wake, announce, announce_as};
use crate::{
    db::{Conn, DbError},
    ids::TaskId,
    realtime::{Audience, log},
    tasks::{Task, WaitReason, actions},
};

/// Reason why a task cannot continue: people must approve or deny its actions, or tasks that it started have not ended. `None` if it
/// can continue.
pub async fn obstacle(c: &mut Conn, task: TaskId) -> Result<Option<WaitReason>, DbError> {
    let (is_asking, has_children): (bool, bool) = c
        .q(concat!(
            "select exists (select 1 from actions where task_id = $1 and state in ('waiting', 'unknown')), \
             exists (select 1 from tasks where ",
            is_awaited_by!("$1"),
            ")"
        ))
        .bind(task)
        .one()
        .await?;
    Ok(if is_asking {
        Some(WaitReason::Approval)
    } else {
        has_children.then_some(WaitReason::Children)
    })
}

/// Queues a parked task again if it can continue. Otherwise, stores the reason why it still has to wait. A run always continues,
/// because it may have other steps to execute. Does not wake links of a chain, which wait for the previous link.
pub async fn wake(c: &mut Conn, task: TaskId, audience: Audience) -> Result<(), DbError> {
    let reason = obstacle(c, task).await?;
    let changed: Option<Task> = c
        .q(task_sql!(
            "update tasks set parked = ($2 and kind <> 'workflow'), wait_reason = case when kind = 'workflow' then null else $3 end \
             where id = $1 and status = 'queued' and parked and wait_reason in ('approval', 'children') \
             and (kind = 'workflow' or wait_reason is distinct from $3) returning",
            ""
        ))
        .bind(task)
        .bind(reason.is_some())
        .bind(reason)
        .opt()
        .await?;
    let Some(task) = changed else {
        return Ok(());
    };
    if task.wait_reason.is_none() {
        actions::approve_again(c, task.id).await?;
        c.notify(Box::new(Wake));
    }
    announce(c, &task, audience).await
}

/// Wakes the parent of a task that has just ended.
pub(super) async fn wake_parent(
    c: &mut Conn,
    ended: &Task,
    audience: Audience,
) -> Result<(), DbError> {
    match ended.parent_task_id {
        Some(parent) => wake(c, parent, audience).await,
        None => Ok(()),
    }
}

/// Queues a link of a chain after the previous link has completed. The link reads all messages posted so far.
pub async fn wake_link(c: &mut Conn, link: &Task, audience: Audience) -> Result<(), DbError> {
    let seq = log::reserve(c, link.workspace_id, 1).await?;
    let woken: Option<Task> = c
        .q(task_sql!(
            "update tasks set parked = FALSE, wait_reason = null, before_seq = $2 \
             where id = $1 and status = 'queued' and parked and wait_reason = 'chain' returning",
            ""
        ))
        .bind(link.id)
        .bind(seq)
        .opt()
        .await?;
    let Some(task) = woken else {
        return Ok(());
    };
    announce_as(c, seq, &task, audience).await?;
    c.notify(Box::new(Wake));
    Ok(())
}
