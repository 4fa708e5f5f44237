//! Inbox items of published resolutions: results for followers, and action items for their owners.

use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

use super::resolution::Resolution;
use crate::{
    chat::{forks::Fork, messages::Message},
    db::{Conn, DbError},
    ids::{ActionItemId, UserId, WorkspaceId},
    inbox::{
        Existing, InboxReason, InboxSubject, InboxSubjectKind, NewItem, Place, close,
        open::{open_unread, open_with},
    },
};

/// Maximum number of followers of a fork and its thread.
const FOLLOWERS_MAX: i64 = 1000;

fn item(card: &Message, reason: InboxReason, subject: InboxSubject, actor: Uuid) -> NewItem {
    NewItem {
        workspace: card.workspace_id,
        reason,
        subject,
        actor: Some(actor),
        place: Some(Place {
            channel: card.channel_id,
            thread: card.thread_id,
            fork: None,
        }),
        channel: None,
        message: Some(card.id),
        seq: card.seq,
        changed_seq: card.seq,
        is_quiet: false,
    }
}

/// Opens the items of a resolution that was just published by `actor` in the message `card`: for the owners of its action items, and
/// for other followers of the fork and the thread. `before` is the version that it replaces.
pub(super) async fn open_published(
    c: &mut Conn,
    fork: &Fork,
    published: &Resolution,
    before: Option<&Resolution>,
    card: &Message,
    actor: Uuid,
) -> Result<(), DbError> {
    let workspace = fork.workspace_id;
    let mut owned: HashMap<ActionItemId, UserId> = HashMap::new();
    for item in before.iter().flat_map(|before| &before.action_items) {
        let kept = published
            .action_items
            .iter()
            .find(|kept| kept.id == item.id);
        match item.owner_id {
            Some(owner) if kept.is_some_and(|kept| kept.owner_id == Some(owner)) => {
                owned.insert(item.id, owner);
            }
            Some(_) => close_assigned(c, workspace, item.id).await?,
            None => {}
        }
    }
    let mut owners = BTreeSet::new();
    for assigned in &published.action_items {
        let Some(owner) = assigned.owner_id.filter(|_| !assigned.done) else {
            continue;
        };
        let subject = InboxSubject::new(InboxSubjectKind::ActionItem, assigned.id.0);
        let new = item(card, InboxReason::Assigned, subject, actor);
        let existing = if owned.contains_key(&assigned.id) {
            Existing::Keep
        } else {
            Existing::Reopen
        };
        open_with(c, owner, &new, existing).await?;
        owners.insert(owner);
    }
    let followers: Vec<(UserId,)> = c
        .q("select f.user_id from follows f join channel_members cm on cm.channel_id = f.channel_id and cm.user_id = f.user_id \
            where f.conversation_id in ($1, $2) and f.level = 'all' and (cm.level <> 'none' or f.cause = 'manual') \
            and not exists (select 1 from follows x where x.conversation_id = $2 and x.user_id = f.user_id and x.level = 'none') \
            group by f.user_id order by f.user_id limit $3")
        .bind(fork.id)
        .bind(fork.thread_id)
        .bind(FOLLOWERS_MAX)
        .all()
        .await?;
    let new = item(card, InboxReason::Result, fork.id.into(), actor);
    for (user,) in followers {
        if !owners.contains(&user) {
            open_unread(c, user, &new).await?;
        }
    }
    Ok(())
}

/// Closes the items about an action item.
pub(super) async fn close_assigned(
    c: &mut Conn,
    workspace: WorkspaceId,
    item: ActionItemId,
) -> Result<(), DbError> {
    close::close(c, workspace, InboxReason::Assigned, item.0, None).await
}
