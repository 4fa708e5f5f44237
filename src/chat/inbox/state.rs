//! Changes that a person makes to their items, and saved messages.

use std::{collections::HashMap, time::Duration};

use serde::Serialize;

use super::{
    item::{InboxItem, items_of},
    list::reader_of,
    posted::place_of,
    rows::{self, Row},
};
use crate::{
    auth::{Actor, Caller, Scope},
    chat::{ChatError, access, rows::message::get_message},
    db::{Conn, DbError, now},
    ids::{InboxItemId, MessageId, UserId},
    inbox::{InboxReason, InboxState, InboxSubjectKind, ItemStateChange, close, event::announce},
    realtime::log,
    time::Timestamp,
};

/// Maximum number of items in one change.
pub const CHANGED_MAX: usize = 200;
/// Maximum number of saved messages of a person in a workspace.
const SAVED_MAX: i64 = 1000;
const LATER_MIN: Duration = Duration::from_mins(1);
const LATER_MAX: Duration = Duration::from_hours(366 * 24);

/// A new state of items.
#[derive(Debug, Clone, Copy)]
pub struct NewState {
    pub state: InboxState,
    pub until: Option<Timestamp>,
}

/// Response of `PUT /v1/inbox/state`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ChangedItems {
    /// The items after the change, in the order of the request.
    pub data: Vec<InboxItem>,
    /// IDs of the request that are not items of the caller.
    pub missing: Vec<InboxItemId>,
}

/// Checks the time at which items open again.
///
/// # Errors
/// `UntilRequired`.
fn check_until(until: Timestamp) -> Result<Timestamp, ChatError> {
    let at = now();
    if until < at + LATER_MIN || until > at + LATER_MAX {
        return Err(ChatError::UntilRequired);
    }
    Ok(until)
}

/// Viewers can change their own items; a key needs the scope for writing.
fn check_rights(actor: &Actor<'_>) -> Result<(), ChatError> {
    Ok(actor.require(if actor.key.is_some() {
        Scope::ChatWrite
    } else {
        Scope::ChatRead
    })?)
}

/// Sets the state of items; idempotent.
///
/// # Errors
/// `UntilRequired`, `DecideFirst`, or any error from `Actor::require`.
pub async fn set(
    c: &mut Conn,
    actor: &Actor<'_>,
    ids: &[InboxItemId],
    to: NewState,
) -> Result<ChangedItems, ChatError> {
    check_rights(actor)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let until = match (to.state, to.until) {
        (InboxState::Later, Some(until)) => Some(check_until(until)?),
        (_, None) => None,
        (_, Some(_)) => return Err(ChatError::UntilRequired),
    };
    let found = rows::find(c, reader_of(actor), ids).await?;
    for row in &found {
        let is_saved = row.reason == InboxReason::Saved;
        if to.state == InboxState::Later && until.is_none() && !is_saved {
            return Err(ChatError::UntilRequired);
        }
        if to.state == InboxState::Done && row.reason == InboxReason::Approval {
            return Err(ChatError::DecideFirst);
        }
    }
    let to = NewState {
        state: to.state,
        until,
    };
    let changed: Vec<&Row> = found
        .iter()
        .filter(|row| row.state != to.state || row.until != to.until)
        .collect();
    if !changed.is_empty() {
        let seq = log::reserve(c, actor.workspace, 1).await?;
        let mut changes = Vec::with_capacity(changed.len());
        for row in changed {
            change(c, actor, row, to, seq).await?;
            changes.push(ItemStateChange {
                id: row.id,
                state: to.state,
                until: to.until,
            });
        }
        announce(c, actor.workspace, actor.user, seq, &changes).await?;
    }
    changed_items(c, actor, ids).await
}

/// The items with these IDs, in this order.
async fn changed_items(
    c: &mut Conn,
    actor: &Actor<'_>,
    ids: &[InboxItemId],
) -> Result<ChangedItems, ChatError> {
    let reader = reader_of(actor);
    let rows = rows::find(c, reader, ids).await?;
    let items = items_of(c, reader, rows).await?;
    let mut items: HashMap<InboxItemId, InboxItem> =
        items.into_iter().map(|item| (item.id, item)).collect();
    let mut changed = ChangedItems {
        data: Vec::with_capacity(ids.len()),
        missing: Vec::new(),
    };
    for id in ids {
        match items.remove(id) {
            Some(item) => changed.data.push(item),
            None if changed.data.iter().any(|item| item.id == *id) => {}
            None => changed.missing.push(*id),
        }
    }
    Ok(changed)
}

/// Changes one item: a reply in its level, another one in its row, which a member of a channel gets with the first change.
async fn change(
    c: &mut Conn,
    actor: &Actor<'_>,
    row: &Row,
    to: NewState,
    seq: i64,
) -> Result<(), DbError> {
    if row.reason == InboxReason::Reply {
        return change_reply(c, actor.user, row, to, seq).await;
    }
    c.q("insert into inbox_items (id, workspace_id, recipient_id, reason, subject_type, subject_id, actor_id, channel_id, thread_id, \
         conversation_id, message_id, seq, changed_seq, state, until, is_quiet, created_at, changed_at) \
         select i.id, i.workspace_id, $2, i.reason, i.subject_type, i.subject_id, i.actor_id, i.channel_id, i.thread_id, \
         i.conversation_id, i.message_id, i.seq, $3, $4, $5, i.is_quiet, i.created_at, $6 from inbox_items i \
         where i.id = $1 and i.recipient_id in ($2, i.channel_id) order by case when i.recipient_id = $2 then 0 else 1 end limit 1 \
         on conflict (recipient_id, id) do update set state = excluded.state, until = excluded.until, \
         changed_seq = excluded.changed_seq, changed_at = excluded.changed_at")
        .bind(row.id)
        .bind(actor.user)
        .bind(seq)
        .bind(to.state)
        .bind(to.until)
        .bind(now())
        .run()
        .await?;
    if to.state == InboxState::Done && row.conversation_id.is_some() {
        // The conversation opens no reply for anything older than the item.
        c.q("update follows set changed_seq = $3, \
             done_seq = (select case when m.seq > follows.done_seq then m.seq else follows.done_seq end from messages m where m.id = $4) \
             where conversation_id = $1 and user_id = $2 and exists (select 1 from messages m where m.id = $4)")
            .bind(row.conversation_id)
            .bind(actor.user)
            .bind(seq)
            .bind(row.message_id)
            .run()
            .await?;
    }
    Ok(())
}

async fn change_reply(
    c: &mut Conn,
    user: UserId,
    row: &Row,
    to: NewState,
    seq: i64,
) -> Result<(), DbError> {
    let done = match to.state {
        InboxState::Done => row.seq,
        InboxState::Open | InboxState::Later => row.done_seq.min(row.seq - 1),
    };
    c.q("update follows set done_seq = $3, until = $4, changed_seq = $5 where conversation_id = $1 and user_id = $2")
        .bind(row.conversation_id)
        .bind(user)
        .bind(done)
        .bind(to.until)
        .bind(seq)
        .run()
        .await?;
    Ok(())
}

/// ID of the caller's item for a saved message.
async fn find_saved(
    c: &mut Conn,
    user: UserId,
    message: MessageId,
) -> Result<Option<InboxItemId>, DbError> {
    let row: Option<(InboxItemId,)> = c
        .q("select id from inbox_items where recipient_id = $1 and reason = 'saved' and subject_id = $2")
        .bind(user)
        .bind(message)
        .opt()
        .await?;
    Ok(row.map(|(id,)| id))
}

/// Saves a message, with a reminder if `until` is set; idempotent.
///
/// # Errors
/// `MessageNotFound`, `MessageDeleted`, `TooManySaved`, `UntilRequired`, or any error from `Actor::require`.
pub async fn save(
    c: &mut Conn,
    caller: &Caller,
    id: MessageId,
    until: Option<Timestamp>,
) -> Result<InboxItem, ChatError> {
    let access = access::message(c, caller, id).await?.reading()?;
    let actor = &access.channel_access.actor;
    check_rights(actor)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let until = until.map(check_until).transpose()?;
    let message = get_message(c, id).await?;
    if message.deleted_at.is_some() {
        return Err(ChatError::MessageDeleted);
    }
    let known = find_saved(c, actor.user, id).await?;
    let item = known.unwrap_or_default();
    if known.is_none() {
        let count: i64 = c
            .q("select count(*) from (select 1 from inbox_items where recipient_id = $1 and workspace_id = $2 and reason = 'saved' \
                and state <> 'done' limit $3) x")
            .bind(actor.user)
            .bind(actor.workspace)
            .bind(SAVED_MAX)
            .value()
            .await?;
        if count >= SAVED_MAX {
            return Err(ChatError::TooManySaved(SAVED_MAX));
        }
        let place = place_of(&message);
        c.q("insert into inbox_items (id, workspace_id, recipient_id, reason, subject_type, subject_id, actor_id, channel_id, thread_id, \
             conversation_id, message_id, seq, changed_seq, state, until, is_quiet, created_at, changed_at) \
             values ($1, $2, $3, $4, $5, $6, $3, $7, $8, $9, $6, $10, $10, $11, null, FALSE, $12, $12)")
            .bind(item)
            .bind(actor.workspace)
            .bind(actor.user)
            .bind(InboxReason::Saved)
            .bind(InboxSubjectKind::Message)
            .bind(id)
            .bind(place.channel)
            .bind(place.thread)
            .bind(place.conversation())
            .bind(message.seq)
            .bind(InboxState::Done)
            .bind(now())
            .run()
            .await?;
    }
    let to = NewState {
        state: InboxState::Later,
        until,
    };
    let mut changed = set(c, actor, &[item], to).await?;
    changed.data.pop().ok_or(ChatError::MessageNotFound)
}

/// Removes a message from the saved ones; does nothing if it is not saved.
///
/// # Errors
/// `MessageNotFound`, or any error from `Actor::require`.
pub async fn unsave(c: &mut Conn, caller: &Caller, id: MessageId) -> Result<(), ChatError> {
    let access = access::message(c, caller, id).await?.reading()?;
    let actor = &access.channel_access.actor;
    check_rights(actor)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let (workspace, user) = (actor.workspace, actor.user);
    Ok(close::delete_own(c, workspace, user, InboxReason::Saved, id.0).await?)
}
