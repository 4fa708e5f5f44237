//! Announces budgets to admins, and wakes tasks that wait for a budget.

use super::{budget::BudgetEvent, version::find_version};
use crate::{
    db::{Conn, DbError, dialect},
    ids::{UserId, WorkspaceId},
    realtime::{
        Audience, EventType, NewEvent,
        log::{self, Recipients},
    },
    tasks::queue::Wake,
};

/// Maximum number of recipients of an event.
const ADMINS_MAX: i64 = 1000;
/// Maximum number of tasks that are woken at once, so that they do not all compete for the same amount.
const WOKEN_MAX: i64 = 8;

/// Appends `budget.updated` for the admins. The event contains no amounts, because keys without `workspace:admin` and
/// former admins may read it.
pub(super) async fn announce(c: &mut Conn, workspace: WorkspaceId) -> Result<(), DbError> {
    let admins: Vec<(UserId,)> = c
        .q("select user_id from members where workspace_id = $1 and role = 'admin' order by joined_at, user_id limit $2")
        .bind(workspace)
        .bind(ADMINS_MAX)
        .all()
        .await?;
    let only = Recipients {
        users: admins.into_iter().map(|admin| admin.0).collect(),
        managers: false,
    };
    let seq = log::reserve(c, workspace, 1).await?;
    let version = find_version(c, workspace).await?;
    let data = BudgetEvent { version };
    let event = NewEvent::new(seq, EventType::BudgetUpdated, Audience::Workspace, &data)?
        .only_to(Some(only));
    log::append(c, workspace, event).await
}

/// Makes the oldest tasks that wait for a budget due now.
pub(super) async fn wake(c: &mut Conn, workspace: WorkspaceId) -> Result<(), DbError> {
    let at = dialect::clock(c).await?;
    let woken = c
        .q("update tasks set retry_at = $2 where id in (select id from tasks where workspace_id = $1 and status = 'queued' \
            and wait_reason = 'budget' and retry_at > $2 order by id limit $3)")
        .bind(workspace)
        .bind(at)
        .bind(WOKEN_MAX)
        .run()
        .await?;
    if woken > 0 {
        c.notify(Box::new(Wake));
    }
    Ok(())
}
