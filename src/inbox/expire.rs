//! The `inbox` job: opens items that are due, and deletes old ones.

use std::{collections::BTreeMap, time::Duration};

use uuid::Uuid;

use super::{
    event::{ItemOpened, ItemStateChange, announce},
    item::InboxState,
};
use crate::{
    db::{Conn, Db, DbError, dialect::hexadecimal_ids, now},
    ids::{InboxItemId, UserId, WorkspaceId},
    realtime::log,
    sql_with_ids,
    time::Timestamp,
};

/// Maximum number of items that one transaction opens or deletes.
const AT_ONCE: i64 = 500;
/// Maximum number of workspaces with due items in one round.
const WORKSPACES_MAX: i64 = 1000;
const DAY: Duration = Duration::from_hours(24);
/// Time after which items that are done, and items of channels, are deleted.
const DONE_FOR: Duration = Duration::from_hours(30 * 24);
/// Time after which other items are deleted.
const OPEN_FOR: Duration = Duration::from_hours(365 * 24);
/// Time after the last message of a conversation, in days, after which automatic levels in it are deleted.
const FOLLOWED_DAYS: u32 = 180;

/// Opens the items and replies that are due. Each workspace gets transactions of at most 500.
///
/// # Errors
/// Only database errors.
pub async fn open_due(db: &Db) -> Result<(), DbError> {
    let workspaces: Vec<(WorkspaceId,)> = db
        .read()
        .await?
        .q(
            "select i.workspace_id from inbox_items i where i.until <= $1 and i.until is not null \
            union select t.workspace_id from follows f join threads t on t.id = f.thread_id \
            where f.until <= $1 and f.until is not null order by 1 limit $2",
        )
        .bind(now())
        .bind(WORKSPACES_MAX)
        .all()
        .await?;
    for (workspace,) in workspaces {
        loop {
            let count = db
                .write(workspace.0, async move |c: &mut Conn| {
                    open_some(c, workspace).await
                })
                .await?;
            if count < AT_ONCE {
                break;
            }
        }
    }
    Ok(())
}

/// Items that are due, by person: rows of `inbox_items`, and conversations with replies.
#[derive(Default)]
struct Due {
    items: Vec<Uuid>,
    conversations: Vec<Uuid>,
}

async fn open_some(c: &mut Conn, workspace: WorkspaceId) -> Result<i64, DbError> {
    let at = now();
    let items: Vec<(UserId, Uuid)> = c
        .q("select recipient_id, id from inbox_items where workspace_id = $1 and until <= $2 and until is not null \
            order by until limit $3")
        .bind(workspace)
        .bind(at)
        .bind(AT_ONCE)
        .all()
        .await?;
    let conversations: Vec<(UserId, Uuid)> = c
        .q("select f.user_id, f.conversation_id from follows f join threads t on t.id = f.thread_id \
            where t.workspace_id = $1 and f.until <= $2 and f.until is not null order by f.until limit $3")
        .bind(workspace)
        .bind(at)
        .bind(AT_ONCE)
        .all()
        .await?;
    let count = items.len().max(conversations.len());
    let mut of_person: BTreeMap<UserId, Due> = BTreeMap::new();
    for (user, id) in items {
        of_person.entry(user).or_default().items.push(id);
    }
    for (user, id) in conversations {
        of_person.entry(user).or_default().conversations.push(id);
    }
    for (user, due) in of_person {
        let seq = log::reserve(c, workspace, 1).await?;
        reopen(c, user, seq, at, &due).await?;
        let ids = due.items.into_iter().chain(due.conversations);
        let changes: Vec<ItemStateChange> = ids
            .map(|id| ItemStateChange {
                id: InboxItemId(id),
                state: InboxState::Open,
                until: None,
            })
            .collect();
        announce(c, workspace, user, seq, &changes).await?;
        c.notify(Box::new(ItemOpened {
            workspace,
            user,
            seq,
        }));
    }
    Ok(i64::try_from(count).unwrap_or(AT_ONCE))
}

/// Opens one person's due items, which then are the newest of their list.
async fn reopen(
    c: &mut Conn,
    user: UserId,
    seq: i64,
    at: Timestamp,
    due: &Due,
) -> Result<(), DbError> {
    let sql = sql_with_ids!(
        c,
        "update inbox_items set state = 'open', until = null, seq = $3, changed_seq = $3, changed_at = $4 \
         where recipient_id = $1 and id in",
        2,
        ""
    );
    c.q(sql)
        .bind(user)
        .bind(hexadecimal_ids(due.items.iter().copied()))
        .bind(seq)
        .bind(at)
        .run()
        .await?;
    let sql = sql_with_ids!(
        c,
        "update follows set until = null, changed_seq = $3 where user_id = $1 and conversation_id in",
        2,
        ""
    );
    c.q(sql)
        .bind(user)
        .bind(hexadecimal_ids(due.conversations.iter().copied()))
        .bind(seq)
        .run()
        .await?;
    Ok(())
}

/// Deletes old items and automatic levels.
///
/// # Errors
/// Only database errors.
pub async fn delete_old(db: &Db) -> Result<(), DbError> {
    let at = now();
    db.delete_expired(
        at - DONE_FOR,
        "select exists (select 1 from inbox_items where changed_at < $1 and (state = 'done' or recipient_id = channel_id) \
         and not (reason = 'saved' and state <> 'done'))",
        "delete from inbox_items where (recipient_id, id) in (select recipient_id, id from inbox_items where changed_at < $1 \
         and (state = 'done' or recipient_id = channel_id) and not (reason = 'saved' and state <> 'done') order by changed_at limit $2)",
    )
    .await?;
    db.delete_expired(
        at - OPEN_FOR,
        "select exists (select 1 from inbox_items where changed_at < $1 and not (reason = 'saved' and state <> 'done'))",
        "delete from inbox_items where (recipient_id, id) in (select recipient_id, id from inbox_items where changed_at < $1 \
         and not (reason = 'saved' and state <> 'done') order by changed_at limit $2)",
    )
    .await?;
    db.delete_expired(
        at - DAY * FOLLOWED_DAYS,
        "select exists (select 1 from follows f join threads t on t.id = f.thread_id \
         where t.last_activity_at < $1 and f.cause <> 'manual')",
        "delete from follows where (conversation_id, user_id) in (select f.conversation_id, f.user_id from follows f \
         join threads t on t.id = f.thread_id where t.last_activity_at < $1 and f.cause <> 'manual' limit $2)",
    )
    .await?;
    Ok(())
}
