//! Action items of published resolutions.

use serde::Serialize;
use uuid::Uuid;

use super::{
    ForkError,
    card::markdown,
    event::{EventPlace, announce_resolution, append},
    form::{Day, member_name},
    inbox::close_assigned,
    resolution::{self, item_columns},
};
use crate::{
    auth::{AuthError, Caller, Scope},
    chat::{
        ChatError, access,
        follows::{self, FollowCause},
        messages,
    },
    cursor::PageRange,
    db::{Conn, DbError, Json, is_in_visible_channel, now},
    forks::resolution::ResolutionStatus,
    ids::{
        ActionItemId, ChannelId, ForkId, MessageId, ResolutionId, ThreadId, UserId, WorkspaceId,
    },
    inbox::{
        Existing, InboxReason, InboxSubject, InboxSubjectKind, NewItem, Place, open::open_with,
    },
    realtime::{Audience, EventData, EventType, log},
    time::Timestamp,
};

/// An action item and its resolution.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct ActionItem {
    /// ID of the item, which stays the same across versions of the resolution.
    pub id: ActionItemId,
    pub text: String,
    pub owner_id: Option<UserId>,
    pub owner_name: Option<String>,
    /// Due date as `YYYY-MM-DD`.
    pub due: Option<String>,
    pub done: bool,
    #[schema(value_type = Vec<MessageId>)]
    pub sources: Json<Vec<MessageId>>,
    pub done_at: Option<Timestamp>,
    pub done_by: Option<UserId>,
    pub created_at: Timestamp,
    pub workspace_id: WorkspaceId,
    pub channel_id: ChannelId,
    pub thread_id: ThreadId,
    pub fork_id: ForkId,
    pub resolution_id: ResolutionId,
    /// The resolution message.
    pub message_id: Option<MessageId>,
    /// Headline of the resolution.
    pub headline: String,
}

macro_rules! action_item_sql {
    ($tail:expr) => {
        concat!(
            "select ",
            item_columns!(),
            ", i.done_at, i.done_by, i.created_at, i.workspace_id, r.channel_id, r.thread_id, r.fork_id, r.id as resolution_id, \
             r.message_id, r.headline from action_items i join resolutions r on r.id = i.resolution_id \
             left join users ou on ou.id = i.owner_id ",
            $tail
        )
    };
}

#[derive(Serialize, utoipa::ToSchema)]
pub struct ActionItemEvent<'a> {
    action_item: &'a ActionItem,
}

impl EventData for ActionItemEvent<'_> {
    const TYPES: &'static [EventType] = &[EventType::ActionItemUpdated];
}

/// Appends `action_item.updated`.
async fn announce_item(c: &mut Conn, item: &ActionItem, audience: Audience) -> Result<(), DbError> {
    let place = EventPlace {
        workspace: item.workspace_id,
        thread: item.thread_id,
        fork: item.fork_id,
    };
    let data = ActionItemEvent { action_item: item };
    append(c, EventType::ActionItemUpdated, place, &data, audience).await
}

/// Finds the item in the published resolution.
///
/// # Errors
/// `ItemNotFound`.
async fn get(c: &mut Conn, id: ActionItemId) -> Result<ActionItem, ForkError> {
    c.q(action_item_sql!(
        "where i.id = $1 and r.status = 'published'"
    ))
    .bind(id)
    .opt()
    .await?
    .ok_or(ForkError::ItemNotFound)
}

/// Filter by owner.
#[derive(Debug, Clone, Copy, Default)]
pub enum OwnedBy {
    #[default]
    Anyone,
    Nobody,
    Member(UserId),
}

/// Checks that a list can be filtered by this owner: a member, or a former one who still owns items.
///
/// # Errors
/// `MemberNotFound`.
pub async fn check_owner(
    c: &mut Conn,
    workspace: WorkspaceId,
    owner: UserId,
) -> Result<(), AuthError> {
    c.q(
        "select user_id from members where workspace_id = $1 and user_id = $2 \
         union select owner_id from action_items where workspace_id = $1 and owner_id = $2 limit 1",
    )
    .bind(workspace)
    .bind(owner)
    .opt::<(UserId,)>()
    .await?
    .ok_or_else(|| AuthError::MemberNotFound(owner.to_string()))?;
    Ok(())
}

/// Filter of a list of items.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub owner: OwnedBy,
    pub done: Option<bool>,
    pub channel: Option<ChannelId>,
}

/// Items of published resolutions that `user` can see, oldest first. If `before` is set, returns the last items before it.
pub async fn list(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    filter: &Filter,
    PageRange { after, before }: PageRange<ActionItemId>,
    limit: i64,
) -> Result<Vec<ActionItem>, DbError> {
    macro_rules! listed_sql {
        ($order:literal) => {
            action_item_sql!(concat!(
                "where i.workspace_id = $1 and i.id > $2 and i.id < $3 and r.status = 'published' \
                 and (i.owner_id = $4 or $4 is null) and (i.owner_id is null or $5 = 0) and (i.done = $6 or $6 is null) \
                 and (r.channel_id = $7 or $7 is null) and ",
                is_in_visible_channel!("r.channel_id", "$8"),
                " order by ",
                $order,
                " limit $9"
            ))
        };
    }
    let backwards = before.is_some();
    let q = if backwards {
        c.q(listed_sql!("i.id desc"))
    } else {
        c.q(listed_sql!("i.id"))
    };
    let (owner, unowned) = match filter.owner {
        OwnedBy::Anyone => (None, 0_i64),
        OwnedBy::Nobody => (None, 1),
        OwnedBy::Member(user) => (Some(user), 0),
    };
    let mut items: Vec<ActionItem> = q
        .bind(workspace)
        .bind(after.unwrap_or(ActionItemId(Uuid::nil())))
        .bind(before.unwrap_or(ActionItemId(Uuid::max())))
        .bind(owner)
        .bind(unowned)
        .bind(filter.done)
        .bind(filter.channel)
        .bind(user)
        .bind(limit)
        .all()
        .await?;
    if backwards {
        items.reverse();
    }
    Ok(items)
}

/// Input of `PATCH /v1/action-items/{id}`. `Some(None)` clears a field.
#[derive(Debug, Clone, Default)]
pub struct ItemPatch {
    pub done: Option<bool>,
    pub owner: Option<Option<UserId>>,
    pub due: Option<Option<Day>>,
}

/// Returns an item of this workspace if the person can see it.
///
/// # Errors
/// `ItemNotFound`, or any error from `reading`.
pub async fn visible(
    c: &mut Conn,
    caller: &Caller,
    workspace: WorkspaceId,
    id: ActionItemId,
) -> Result<ActionItem, ForkError> {
    let item = get(c, id).await?;
    if item.workspace_id != workspace {
        return Err(ForkError::ItemNotFound);
    }
    access::fork(c, caller, item.fork_id)
        .await
        .map_err(|_| ForkError::ItemNotFound)?
        .reading()?;
    Ok(item)
}

/// Changes an item's done state, owner, or due date. Also allowed in an archived thread, because
/// work continues after the discussion.
///
/// # Errors
/// `ItemNotFound`, `NoSuchMember`, or any error from `Actor::require`.
pub async fn change(
    c: &mut Conn,
    caller: &Caller,
    id: ActionItemId,
    patch: &ItemPatch,
) -> Result<ActionItem, ForkError> {
    let item = get(c, id).await?;
    let access = access::fork(c, caller, item.fork_id)
        .await
        .map_err(|e| match e {
            ChatError::Db(e) => ForkError::Db(e),
            _ => ForkError::ItemNotFound,
        })?;
    let actor = &access.channel_access.actor;
    actor.require(Scope::ChatWrite)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let before = get(c, id).await?;
    if let Some(done) = patch.done.filter(|done| *done != before.done) {
        c.q("update action_items set done = $3, done_at = $4, done_by = $5 where resolution_id = $1 and id = $2")
            .bind(before.resolution_id)
            .bind(id)
            .bind(done)
            .bind(done.then(now))
            .bind(done.then_some(caller.user))
            .run()
            .await?;
    }
    if let Some(owner) = patch.owner {
        let name = match owner {
            Some(user) => {
                let name = member_name(c, actor.workspace, user, actor.user).await?;
                Some(name.ok_or_else(|| {
                    ForkError::NoSuchMember(user.to_string(), "owner_id".to_owned())
                })?)
            }
            None => None,
        };
        c.q("update action_items set owner_id = $3, owner_name = $4 where resolution_id = $1 and id = $2")
            .bind(before.resolution_id)
            .bind(id)
            .bind(owner)
            .bind(name)
            .run()
            .await?;
        if let Some(owner) = owner {
            let place = Place {
                channel: before.channel_id,
                thread: before.thread_id,
                fork: None,
            };
            follows::follow_as_member(c, place, owner, FollowCause::Assigned, 0).await?;
        }
    }
    if let Some(due) = &patch.due {
        c.q("update action_items set due = $3 where resolution_id = $1 and id = $2")
            .bind(before.resolution_id)
            .bind(id)
            .bind(due.as_ref().map(|day| day.0.clone()))
            .run()
            .await?;
    }
    let item = get(c, id).await?;
    let is_changed = (item.done, item.owner_id, &item.owner_name, &item.due)
        != (
            before.done,
            before.owner_id,
            &before.owner_name,
            &before.due,
        );
    if is_changed {
        announce_item(c, &item, access.channel_access.audience()).await?;
        follow_change(c, &before, &item, caller.user).await?;
    }
    Ok(item)
}

/// Opens or closes the item about an action item after a person has changed its owner or completed it.
async fn follow_change(
    c: &mut Conn,
    before: &ActionItem,
    after: &ActionItem,
    actor: UserId,
) -> Result<(), DbError> {
    let workspace = after.workspace_id;
    let is_reassigned = before.owner_id != after.owner_id;
    if is_reassigned || after.done {
        close_assigned(c, workspace, after.id).await?;
    }
    let is_reopened = before.done && !after.done;
    let Some(owner) = after
        .owner_id
        .filter(|_| !after.done && (is_reassigned || is_reopened))
    else {
        return Ok(());
    };
    let (changed_seq, _) = log::head(c, workspace).await?;
    let new = NewItem {
        workspace,
        reason: InboxReason::Assigned,
        subject: InboxSubject::new(InboxSubjectKind::ActionItem, after.id.0),
        actor: Some(actor.0),
        place: Some(Place {
            channel: after.channel_id,
            thread: after.thread_id,
            fork: None,
        }),
        channel: None,
        message: after.message_id,
        seq: changed_seq,
        changed_seq,
        is_quiet: false,
    };
    open_with(c, owner, &new, Existing::Reopen).await?;
    Ok(())
}

/// Removes a person from a resolution: from its editors, publisher, and item owners, and from the
/// text of its message.
pub async fn erase_person(
    c: &mut Conn,
    id: ResolutionId,
    user: UserId,
    alias: UserId,
    nobody: &str,
    audience: Audience,
) -> Result<(), ForkError> {
    let (Json(mut edited_by),): (Json<Vec<UserId>>,) = c
        .q("select edited_by from resolutions where id = $1")
        .bind(id)
        .one()
        .await?;
    for by in edited_by.iter_mut().filter(|by| **by == user) {
        *by = alias;
    }
    c.q("update resolutions set edited_by = $2, publisher_id = case when publisher_id = $3 then $4 else publisher_id end where id = $1")
        .bind(id)
        .bind(Json(edited_by))
        .bind(user)
        .bind(alias)
        .run()
        .await?;
    c.q("update action_items set done_by = $3 where resolution_id = $1 and done_by = $2")
        .bind(id)
        .bind(user)
        .bind(alias)
        .run()
        .await?;
    let owned: Vec<(ActionItemId,)> = c
        .q("update action_items set owner_id = null, owner_name = $3 where resolution_id = $1 and owner_id = $2 returning id")
        .bind(id)
        .bind(user)
        .bind(nobody.to_owned())
        .all()
        .await?;
    let Some(result) = resolution::find(c, id).await? else {
        return Ok(());
    };
    if result.status == ResolutionStatus::Published {
        for (item,) in owned {
            let item = get(c, item).await?;
            announce_item(c, &item, audience).await?;
        }
    }
    if let Some(card) = result.message_id {
        let card = messages::get_message(c, card).await?;
        let content = markdown(&result);
        if card.deleted_at.is_none() && card.content != content {
            messages::rewrite(c, &card, content, audience).await?;
        }
    }
    announce_resolution(c, EventType::ResolutionUpdated, &result, audience).await?;
    Ok(())
}
