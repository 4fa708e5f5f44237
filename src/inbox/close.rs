//! Closing and deleting items.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{
    event::{ItemStateChange, announce},
    item::{InboxReason, InboxState},
};
use crate::{
    db::{Conn, DbError, dialect::hexadecimal_ids, now},
    ids::{ChannelId, InboxItemId, MessageId, UserId, WorkspaceId},
    realtime::log,
    sql_with_ids,
};

/// Maximum number of items that one change closes; a cause has at most one item for each of 500 followers.
const CLOSED_MAX: i64 = 1000;

/// Marks items as done, and announces them to their people. The IDs are unique for a person only.
async fn finish(
    c: &mut Conn,
    workspace: WorkspaceId,
    items: Vec<(UserId, InboxItemId)>,
) -> Result<(), DbError> {
    let mut of_person: BTreeMap<UserId, Vec<InboxItemId>> = BTreeMap::new();
    for (user, id) in items {
        of_person.entry(user).or_default().push(id);
    }
    for (user, ids) in of_person {
        let seq = log::reserve(c, workspace, 1).await?;
        let sql = sql_with_ids!(
            c,
            "update inbox_items set state = $3, until = null, changed_seq = $4, changed_at = $5 where recipient_id = $1 and id in",
            2,
            ""
        );
        c.q(sql)
            .bind(user)
            .bind(hexadecimal_ids(ids.iter().map(|id| id.0)))
            .bind(InboxState::Done)
            .bind(seq)
            .bind(now())
            .run()
            .await?;
        let changes: Vec<ItemStateChange> = ids
            .into_iter()
            .map(|id| ItemStateChange {
                id,
                state: InboxState::Done,
                until: None,
            })
            .collect();
        announce(c, workspace, user, seq, &changes).await?;
    }
    Ok(())
}

/// Closes the items about an object for everyone, or only for one person.
pub async fn close(
    c: &mut Conn,
    workspace: WorkspaceId,
    reason: InboxReason,
    subject: Uuid,
    only: Option<UserId>,
) -> Result<(), DbError> {
    let items: Vec<(UserId, InboxItemId)> = c
        .q("select recipient_id, id from inbox_items where subject_id = $1 and reason = $2 and workspace_id = $3 and state <> 'done' \
            and ($4 is null or recipient_id = $4) order by recipient_id limit $5")
        .bind(subject)
        .bind(reason)
        .bind(workspace)
        .bind(only)
        .bind(CLOSED_MAX)
        .all()
        .await?;
    finish(c, workspace, items).await
}

/// Closes a person's items whose message was read: those of a conversation up to `seq`.
pub async fn close_read(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    conversation: Uuid,
    seq: i64,
) -> Result<(), DbError> {
    let items: Vec<(UserId, InboxItemId)> = c
        .q("select recipient_id, id from inbox_items where recipient_id = $1 and conversation_id = $2 and state = 'open' and seq <= $3 \
            and reason in ('direct', 'group', 'thread', 'result', 'answer') order by id limit $4")
        .bind(user)
        .bind(conversation)
        .bind(seq)
        .bind(CLOSED_MAX)
        .all()
        .await?;
    finish(c, workspace, items).await
}

/// Closes a person's items whose message was read: those in the main lines of a channel's threads.
pub async fn close_read_channel(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    channel: ChannelId,
) -> Result<(), DbError> {
    let items: Vec<(UserId, InboxItemId)> = c
        .q("select recipient_id, id from inbox_items where recipient_id = $1 and channel_id = $2 and state = 'open' \
            and conversation_id = thread_id \
            and reason in ('direct', 'group', 'thread', 'result', 'answer') order by id limit $3")
        .bind(user)
        .bind(channel)
        .bind(CLOSED_MAX)
        .all()
        .await?;
    finish(c, workspace, items).await
}

/// Deletes the items of a message. The event about the message announces this.
pub async fn delete_of_message(c: &mut Conn, message: MessageId) -> Result<(), DbError> {
    c.q("delete from inbox_items where message_id = $1 or subject_id = $1")
        .bind(message)
        .run()
        .await?;
    Ok(())
}

/// Deletes a person's item about an object, because its cause is gone, and announces it as done. Does nothing if there is none.
pub async fn delete_own(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    reason: InboxReason,
    subject: Uuid,
) -> Result<(), DbError> {
    let item: Option<(InboxItemId,)> = c
        .q("delete from inbox_items where recipient_id = $1 and reason = $2 and subject_id = $3 returning id")
        .bind(user)
        .bind(reason)
        .bind(subject)
        .opt()
        .await?;
    let Some((id,)) = item else {
        return Ok(());
    };
    let seq = log::reserve(c, workspace, 1).await?;
    let change = ItemStateChange {
        id,
        state: InboxState::Done,
        until: None,
    };
    announce(c, workspace, user, seq, &[change]).await
}

/// Deletes the items of a person who left a channel.
pub async fn delete_in_channel(
    c: &mut Conn,
    channel: ChannelId,
    user: UserId,
) -> Result<(), DbError> {
    c.q("delete from inbox_items where channel_id = $1 and recipient_id = $2")
        .bind(channel)
        .bind(user)
        .run()
        .await?;
    Ok(())
}

/// Deletes the items of a person who left the workspace.
pub async fn delete_in_workspace(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), DbError> {
    c.q("delete from inbox_items where workspace_id = $1 and recipient_id = $2")
        .bind(workspace)
        .bind(user)
        .run()
        .await?;
    Ok(())
}
