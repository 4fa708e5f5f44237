//! Items that notify their person, as they are at the time of a notification.

use super::{
    item::{InboxItem, items_of},
    position::Position,
    rows::{self, Filter, Reader},
};
use crate::{
    agents::policy,
    chat::rows::channel::ChannelKind,
    db::{Conn, DbError, now},
    ids::{InboxItemId, UserId, WorkspaceId},
    inbox::{InboxReason, InboxState, NotificationPreview},
    time::Timestamp,
};

/// Maximum number of items that are counted for a summary, in each workspace.
const COUNTED_MAX: i64 = 100;
const OPEN_MAX: i64 = 1000;

/// An item that notifies, with what a notification shows beside it.
#[derive(Debug)]
pub struct NotifiedItem {
    pub item: InboxItem,
    /// Name of the channel; `None` in direct channels and outside of channels.
    pub channel_name: Option<String>,
    pub slug: String,
    pub preview_max: ItemPreviewMax,
    /// Number of the person's open items in the workspace.
    pub open: i64,
}

/// Most that notifications of an item show, by the policy of its workspace.
#[derive(Debug, Clone, Copy)]
pub struct ItemPreviewMax {
    pub push: NotificationPreview,
    pub mail: NotificationPreview,
}

/// Checks whether an item is open, its level notifies, and its person has not read it.
fn is_notifying(item: &InboxItem) -> bool {
    let is_unread = item.unread || item.message_id.is_none() || item.reason == InboxReason::Saved;
    item.state == InboxState::Open && item.notifies && is_unread
}

/// The item, if the person is a member, can see it, and is to be notified.
///
/// # Errors
/// Only database errors.
pub async fn find_notifying(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    id: InboxItemId,
) -> Result<Option<NotifiedItem>, DbError> {
    let slug: Option<(String,)> = c
        .q("select w.slug from members m join workspaces w on w.id = m.workspace_id where m.workspace_id = $1 and m.user_id = $2")
        .bind(workspace)
        .bind(user)
        .opt()
        .await?;
    let Some((slug,)) = slug else {
        return Ok(None);
    };
    let reader = Reader { workspace, user };
    let mut rows = rows::find(c, reader, &[id]).await?;
    rows.truncate(1);
    let items = items_of(c, reader, rows).await?;
    let Some(item) = items.into_iter().find(is_notifying) else {
        return Ok(None);
    };
    let channel: Option<(ChannelKind, Option<String>)> = c
        .q("select kind, name from channels where id = $1")
        .bind(item.channel_id)
        .opt()
        .await?;
    let max = policy::find_preview_max(c, workspace).await?;
    let is_public = matches!(channel, Some((ChannelKind::Public, _)));
    let preview_max = if is_public {
        ItemPreviewMax {
            push: max.public,
            mail: max.public,
        }
    } else {
        ItemPreviewMax {
            push: max.private,
            mail: max.private_mail,
        }
    };
    let channel_name =
        channel.and_then(|(kind, name)| name.filter(|_| kind != ChannelKind::Direct));
    let open = rows::count_open(c, reader, OPEN_MAX).await?;
    Ok(Some(NotifiedItem {
        item,
        channel_name,
        slug,
        preview_max,
        open,
    }))
}

/// Number of items in all of the person's workspaces that were created at or after a time, and notify.
///
/// # Errors
/// Only database errors.
pub async fn count_notifying(
    c: &mut Conn,
    user: UserId,
    since: Timestamp,
) -> Result<usize, DbError> {
    let workspaces: Vec<(WorkspaceId,)> = c
        .q("select workspace_id from members where user_id = $1 order by workspace_id")
        .bind(user)
        .all()
        .await?;
    let mut count = 0;
    for (workspace,) in workspaces {
        let reader = Reader { workspace, user };
        let filter = Filter {
            state: InboxState::Open,
            reason: None,
            channel: None,
        };
        let newest = Position {
            seq: i64::MAX,
            id: uuid::Uuid::max(),
        };
        let rows = rows::list(c, reader, filter, newest, COUNTED_MAX).await?;
        let items = items_of(c, reader, rows).await?;
        let held = items
            .iter()
            .filter(|item| item.created_at >= since && item.created_at <= now());
        count += held.filter(|item| is_notifying(item)).count();
    }
    Ok(count)
}
