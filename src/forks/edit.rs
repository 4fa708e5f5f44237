//! Edits a draft without losing concurrent edits, and announces the changes.

use std::{collections::HashSet, time::Duration};

use super::{
    ForkError,
    drafts::{self, Content, NewDraft},
    event::announce_resolution,
    form::ResolutionForm,
    resolution::{self, Resolution, find_draft, find_published},
};
use crate::{
    auth::{Caller, Scope},
    chat::{
        access,
        forks::{self, Fork},
    },
    db::{Conn, DbError, now},
    forks::resolution::ResolutionStatus,
    ids::{ForkId, MessageId, ResolutionId, UserId, WorkspaceId},
    realtime::{Audience, EventType},
    tasks::queue,
};

/// Minimum interval between announcements of edits to the same draft.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(5);
const ANNOUNCED_AT_ONCE: i64 = 100;

/// Edits the draft of a fork. If there is no draft, creates one from the published resolution, or an empty one if nothing has been
/// published. `expected` is the current revision of the draft or the published resolution; 0 if there is neither.
///
/// # Errors
/// `PreconditionRequired`, `Stale` if the revision is not `expected`, `DraftGone`, any error from `ResolutionForm::apply`, or
/// `ChatError`: `ForkNotFound`, `ForkClosed`, or any error from `writing`.
pub async fn edit(
    c: &mut Conn,
    caller: &Caller,
    id: ForkId,
    expected: Option<i64>,
    form: &ResolutionForm,
) -> Result<Resolution, ForkError> {
    let access = access::fork(c, caller, id).await?;
    access.channel_access.actor.require(Scope::ChatWrite)?;
    let expected = expected.ok_or(ForkError::PreconditionRequired)?;
    let access = access.writing()?;
    let audience = access.channel_access.audience();
    crate::db::dialect::lock_workspace(c, access.channel_access.actor.workspace.0).await?;
    let fork = forks::get_fork(c, id).await?;
    let current = match find_draft(c, id).await? {
        Some(draft) => Some(draft),
        None => find_published(c, id).await?,
    };
    let revision = current.as_ref().map_or(0, |known| known.revision);
    let base = current.as_ref().map(Content::from).unwrap_or_default();
    if revision != expected {
        return Err(current.map_or(ForkError::DraftGone, |known| {
            ForkError::Stale(Box::new(known))
        }));
    }
    let content = form.apply(c, &fork, &base, caller.user).await?;
    match current {
        Some(draft) if draft.status == ResolutionStatus::Draft && content == base => Ok(draft),
        Some(draft) if draft.status == ResolutionStatus::Draft => {
            replace(c, &draft, caller.user, &content, audience).await
        }
        published => {
            let draft = begin(c, &fork, caller.user, published.as_ref(), &content).await?;
            let draft = resolution::find(c, draft)
                .await?
                .ok_or(ForkError::DraftGone)?;
            announce_resolution(c, EventType::ResolutionDrafted, &draft, audience).await?;
            forks::announce_update(c, id, audience).await?;
            Ok(draft)
        }
    }
}

/// Creates a draft for manual editing, based on the published resolution if there is one. It counts
/// as covering all messages so far.
pub(super) async fn begin(
    c: &mut Conn,
    fork: &Fork,
    by: UserId,
    published: Option<&Resolution>,
    content: &Content,
) -> Result<ResolutionId, ForkError> {
    let last_seq: i64 = c
        .q("select last_seq from forks where id = $1")
        .bind(fork.id)
        .value()
        .await?;
    let mut edited_by = published.map_or_else(Vec::new, |known| known.edited_by.clone());
    if !edited_by.contains(&by) {
        edited_by.push(by);
    }
    let new = NewDraft {
        generated_by: published.and_then(|known| known.generated_by.clone()),
        fallback_reason: published.and_then(|known| known.fallback_reason),
        edited_by,
        covers_seq: last_seq,
        replaces_revision: 0,
    };
    let stale = cites_deleted(c, content).await?;
    c.q("update forks set stale = $2 where id = $1")
        .bind(fork.id)
        .bind(stale)
        .run()
        .await?;
    Ok(drafts::insert_draft(c, fork, &new, content).await?)
}

/// Checks whether the content cites a deleted message. Such a draft remains stale even after an edit.
async fn cites_deleted(c: &mut Conn, content: &Content) -> Result<bool, DbError> {
    for source in content.sources().collect::<HashSet<MessageId>>() {
        let deleted: Vec<(MessageId,)> = c
            .q("select id from messages where id = $1 and deleted_at is not null")
            .bind(source)
            .all()
            .await?;
        if !deleted.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Stores an edit and announces it immediately. If the last announcement was less than `ANNOUNCE_EVERY` ago, `announce_edits` does so
/// later.
pub(super) async fn replace(
    c: &mut Conn,
    draft: &Resolution,
    by: UserId,
    content: &Content,
    audience: Audience,
) -> Result<Resolution, ForkError> {
    let mut edited_by = draft.edited_by.clone();
    if !edited_by.contains(&by) {
        edited_by.push(by);
    }
    if !drafts::replace_content(c, draft, &edited_by, content).await? {
        return Err(ForkError::DraftGone);
    }
    let draft = resolution::find(c, draft.id)
        .await?
        .ok_or(ForkError::DraftGone)?;
    announce_edit(c, &draft, audience).await?;
    Ok(draft)
}

/// Appends `resolution.updated`, unless the last event is more recent than `ANNOUNCE_EVERY`.
async fn announce_edit(
    c: &mut Conn,
    draft: &Resolution,
    audience: Audience,
) -> Result<(), DbError> {
    let at = now();
    let due = c
        .q("update resolutions set is_announced = TRUE, announced_at = $2 where id = $1 and is_announced = FALSE and announced_at <= $3")
        .bind(draft.id)
        .bind(at)
        .bind(at - ANNOUNCE_EVERY)
        .run()
        .await?;
    if due == 1 {
        announce_resolution(c, EventType::ResolutionUpdated, draft, audience).await?;
    }
    Ok(())
}

/// Drafts whose edits are due to be announced, with their workspaces.
pub async fn list_unannounced(c: &mut Conn) -> Result<Vec<(ResolutionId, WorkspaceId)>, DbError> {
    c.q("select id, workspace_id from resolutions where is_announced = false and announced_at <= $1 order by announced_at limit $2")
        .bind(now() - ANNOUNCE_EVERY)
        .bind(ANNOUNCED_AT_ONCE)
        .all()
        .await
}

/// Announces the newest edit of a draft if it is still due.
pub async fn announce_edits(c: &mut Conn, id: ResolutionId) -> Result<(), DbError> {
    let Some(draft) = resolution::find(c, id).await? else {
        return Ok(());
    };
    crate::db::dialect::lock_workspace(c, draft.workspace_id.0).await?;
    let audience = queue::audience_of(c, draft.channel_id).await?;
    announce_edit(c, &draft, audience).await
}
