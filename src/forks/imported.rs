//! Forks of an archive, their resolutions, and action items. They have no event and no inbox item, and nothing runs because of them.

use uuid::Uuid;

use super::{
    draft::{
        ACTION_ITEMS_MAX, CONCLUSION_UNITS_MAX, DEFERRED_ITEMS_MAX, HEADLINE_UNITS_MAX,
        KEY_POINTS_MAX, OPEN_QUESTIONS_MAX, OWNER_NAME_UNITS_MAX, SOURCES_MAX, TEXT_UNITS_MAX,
    },
    drafts::{Content, delete_draft, insert_items},
    error::ACTIVE_FORKS_MAX,
    resolution::{
        Resolution, ResolutionItem, ResolutionStatus, SourcedText, find_draft, find_published,
    },
    start::count_active,
};
use crate::{
    chat::{
        forks::{Fork, ForkContext, ForkStatus, title_after},
        messages::{AuthorKind, Message, MessageKind, MessageMetadata},
    },
    db::{Conn, DbError, Json},
    ids::{ActionItemId, BEFORE_ALL_SEQS, ChannelId, ForkId, ResolutionId, UserId, WorkspaceId},
    time::Timestamp,
};

/// A fork of an archive.
#[derive(Debug, Clone)]
pub struct ImportedFork {
    /// ID made from the archive's key.
    pub id: ForkId,
    pub title: String,
    pub description: Option<String>,
    pub context: ForkContext,
    pub status: ForkStatus,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub resolved_at: Option<Timestamp>,
}

/// Inserts a fork that starts from a message, unless it is here. An active one above the limit of its thread is stored as abandoned. The
/// workspace must be locked.
///
/// # Errors
/// Only database errors.
pub async fn insert_imported_fork(
    c: &mut Conn,
    origin: &Message,
    new: &ImportedFork,
) -> Result<(), DbError> {
    let is_full = new.status == ForkStatus::Active
        && count_active(c, origin.thread_id).await? >= ACTIVE_FORKS_MAX;
    let status = if is_full {
        ForkStatus::Abandoned
    } else {
        new.status
    };
    c.q("insert into forks (id, workspace_id, channel_id, thread_id, message_id, title, title_from, description, context, status, stale, \
         message_count, last_seq, created_by, created_at, resolved_at) \
         values ($1, $2, $3, $4, $5, $6, $14, $7, $8, $9, FALSE, 0, $10, $11, $12, $13) on conflict (id) do nothing")
        .bind(new.id)
        .bind(origin.workspace_id)
        .bind(origin.channel_id)
        .bind(origin.thread_id)
        .bind(origin.id)
        .bind(new.title.clone())
        .bind(new.description.clone())
        .bind(new.context)
        .bind(status)
        .bind(BEFORE_ALL_SEQS)
        .bind(new.created_by)
        .bind(new.created_at)
        .bind(new.resolved_at)
        // The title is deleted with the message that it was derived from.
        .bind((title_after(origin) == new.title).then_some(origin.id))
        .run()
        .await?;
    Ok(())
}

/// A version of a fork's resolution in an archive.
#[derive(Debug, Clone)]
pub struct ImportedResolution {
    /// ID made from the archive's key.
    pub id: ResolutionId,
    pub version: i64,
    pub status: ResolutionStatus,
    pub generated_by: Option<String>,
    pub edited_by: Vec<UserId>,
    pub content: Content,
    /// The resolution message, which must be an imported one of the fork's thread; `None` only for a draft.
    pub message: Option<Message>,
    /// Draft that this version publishes, and that it replaces.
    pub draft: Option<ResolutionId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub published_at: Option<Timestamp>,
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Checks the limits of `form`, which an archive need not keep.
fn fits(content: &Content) -> bool {
    let is_point = |point: &SourcedText| {
        (1..=TEXT_UNITS_MAX).contains(&units(&point.text)) && point.sources.len() <= SOURCES_MAX
    };
    let is_item = |item: &ResolutionItem| {
        let name = item.owner_name.as_deref().unwrap_or_default();
        (1..=TEXT_UNITS_MAX).contains(&units(&item.text))
            && units(name) <= OWNER_NAME_UNITS_MAX
            && item.sources.len() <= SOURCES_MAX
    };
    let lists = [
        (&content.key_points, KEY_POINTS_MAX),
        (&content.open_questions, OPEN_QUESTIONS_MAX),
        (&content.deferred_items, DEFERRED_ITEMS_MAX),
    ];
    units(&content.headline) <= HEADLINE_UNITS_MAX
        && units(&content.conclusion) <= CONCLUSION_UNITS_MAX
        && content.action_items.len() <= ACTION_ITEMS_MAX
        && content.action_items.iter().all(is_item)
        && lists
            .iter()
            .all(|(points, max)| points.len() <= *max && points.iter().all(is_point))
}

/// Checks whether a published resolution came from an archive.
async fn is_imported(c: &mut Conn, known: &Resolution) -> Result<bool, DbError> {
    let seq: Option<i64> = c
        .q("select published_seq from resolutions where id = $1")
        .bind(known.id)
        .value()
        .await?;
    Ok(seq.is_some_and(|seq| seq < 0))
}

/// Status of a new version here, and the version that it replaces.
struct StatusHere {
    status: ResolutionStatus,
    replaced: Option<ResolutionId>,
}

impl From<ResolutionStatus> for StatusHere {
    fn from(status: ResolutionStatus) -> Self {
        Self {
            status,
            replaced: None,
        }
    }
}

/// The status of a new version here, or the reason why it cannot be here. A newer version replaces one of an archive, but none that was
/// made here.
async fn status_here(
    c: &mut Conn,
    fork: &Fork,
    new: &ImportedResolution,
) -> Result<Result<StatusHere, &'static str>, DbError> {
    if new.status == ResolutionStatus::Superseded {
        return Ok(Ok(ResolutionStatus::Superseded.into()));
    }
    if new.status == ResolutionStatus::Draft {
        let has_draft = find_draft(c, fork.id).await?.is_some();
        return Ok(if has_draft {
            Err("the deep dive here has a draft")
        } else {
            Ok(ResolutionStatus::Draft.into())
        });
    }
    let Some(known) = find_published(c, fork.id).await? else {
        return Ok(Ok(ResolutionStatus::Published.into()));
    };
    if known.version > new.version {
        return Ok(Ok(ResolutionStatus::Superseded.into()));
    }
    if !is_imported(c, &known).await? {
        return Ok(Err("the deep dive has a result that was made here"));
    }
    c.q("update resolutions set status = $2 where id = $1")
        .bind(known.id)
        .bind(ResolutionStatus::Superseded)
        .run()
        .await?;
    Ok(Ok(StatusHere {
        status: ResolutionStatus::Published,
        replaced: Some(known.id),
    }))
}

/// Completes the action items of a version that people completed in the version that it replaces.
async fn keep_done(c: &mut Conn, old: ResolutionId, new: ResolutionId) -> Result<(), DbError> {
    let done: Vec<(ActionItemId, Option<Timestamp>, Option<UserId>)> = c
        .q("select id, done_at, done_by from action_items where resolution_id = $1 and done = TRUE order by id limit 100")
        .bind(old)
        .all()
        .await?;
    for (item, at, by) in done {
        c.q("update action_items set done = TRUE, done_at = $3, done_by = $4 where resolution_id = $1 and id = $2 and done = FALSE")
            .bind(new)
            .bind(item)
            .bind(at)
            .bind(by)
            .run()
            .await?;
    }
    Ok(())
}

/// Inserts a version of a resolution. Returns the reason why it is not possible here. The workspace must be locked.
///
/// # Errors
/// Only database errors.
pub async fn insert_imported_resolution(
    c: &mut Conn,
    fork: &Fork,
    new: &ImportedResolution,
) -> Result<Result<(), &'static str>, DbError> {
    let is_draft = new.status == ResolutionStatus::Draft;
    if !fits(&new.content) || (new.content.headline.is_empty() && !is_draft) {
        return Ok(Err("a text or list in it is not possible here"));
    }
    if new.message.is_some() == is_draft {
        return Ok(Err("the message that publishes it does not exist here"));
    }
    let is_taken: bool = c
        .q("select exists (select 1 from resolutions where ((fork_id = $1 and version = $2) or message_id = $3 or id = $4) and id <> $5)")
        .bind(fork.id)
        .bind(new.version)
        .bind(new.message.as_ref().map(|card| card.id))
        .bind(new.id)
        .bind(new.draft.unwrap_or(ResolutionId(Uuid::nil())))
        .value()
        .await?;
    if is_taken {
        return Ok(Err("the deep dive here has this version"));
    }
    let StatusHere { status, replaced } = match status_here(c, fork, new).await? {
        Ok(status) => status,
        Err(reason) => return Ok(Err(reason)),
    };
    if let Some(draft) = new.draft {
        delete_draft(c, draft).await?;
    }
    let card = new.message.as_ref();
    let publisher = card.filter(|card| card.author.kind == AuthorKind::Human);
    let publisher = publisher.and_then(|card| UserId::parse(card.author.id.as_deref()?).ok());
    c.q("insert into resolutions (id, workspace_id, channel_id, thread_id, fork_id, version, status, revision, generated_by, edited_by, \
         headline, conclusion, key_points, open_questions, deferred_items, search_text, covers_seq, message_id, published_seq, \
         publisher_type, publisher_id, is_announced, announced_at, created_at, updated_at, published_at) \
         values ($1, $2, $3, $4, $5, $6, $7, 1, $8, $9, $10, $11, $12, $13, $14, $15, \
           (select last_seq from forks where id = $5), $16, $17, $18, $19, TRUE, $20, $21, $20, $22)")
        .bind(new.id)
        .bind(fork.workspace_id)
        .bind(fork.channel_id)
        .bind(fork.thread_id)
        .bind(fork.id)
        .bind(new.version)
        .bind(status)
        .bind(new.generated_by.clone())
        .bind(Json(new.edited_by.clone()))
        .bind(new.content.headline.clone())
        .bind(new.content.conclusion.clone())
        .bind(Json(new.content.key_points.clone()))
        .bind(Json(new.content.open_questions.clone()))
        .bind(Json(new.content.deferred_items.clone()))
        .bind(new.content.search_text())
        .bind(card.map(|card| card.id))
        .bind(card.map(|card| card.seq))
        .bind(publisher.map(|_| AuthorKind::Human))
        .bind(publisher)
        .bind(new.updated_at)
        .bind(new.created_at)
        .bind(card.map(|card| new.published_at.unwrap_or(card.created_at)))
        .run()
        .await?;
    let items = &new.content.action_items;
    insert_items(c, fork.workspace_id, new.id, items, new.created_at).await?;
    if let Some(replaced) = replaced {
        keep_done(c, replaced, new.id).await?;
    }
    if let Some(card) = card {
        set_card(c, fork, new.id, card).await?;
    }
    if status == ResolutionStatus::Published {
        c.q("update forks set resolution_id = $2 where id = $1")
            .bind(fork.id)
            .bind(new.id)
            .run()
            .await?;
    }
    Ok(Ok(()))
}

/// Makes an imported message the one that publishes a resolution.
async fn set_card(
    c: &mut Conn,
    fork: &Fork,
    id: ResolutionId,
    card: &Message,
) -> Result<(), DbError> {
    let metadata = MessageMetadata {
        resolution_id: Some(id),
        fork_id: Some(fork.id),
        ..card.metadata.clone()
    };
    c.q("update messages set kind = $2, parent_id = $3, metadata = $4 where id = $1")
        .bind(card.id)
        .bind(MessageKind::Resolution)
        .bind(fork.message_id)
        .bind(Json(metadata))
        .run()
        .await?;
    Ok(())
}

/// Data of an action item that an archive has beside its resolution.
#[derive(Debug, Clone, Copy)]
pub struct ImportedItem {
    pub resolution: ResolutionId,
    pub id: ActionItemId,
    pub created_at: Timestamp,
    pub done_at: Option<Timestamp>,
    pub done_by: Option<UserId>,
}

/// Completes the row of an action item that was stored with its resolution. Returns false if there is none in the channel.
///
/// # Errors
/// Only database errors.
pub async fn complete_imported_item(
    c: &mut Conn,
    channel: ChannelId,
    new: ImportedItem,
) -> Result<bool, DbError> {
    let n = c
        .q("update action_items set created_at = $4, done_at = case when done then coalesce(done_at, $5) end, \
            done_by = case when done then coalesce(done_by, $6) end \
            where resolution_id = $1 and id = $2 and exists (select 1 from resolutions r where r.id = $1 and r.channel_id = $3)")
        .bind(new.resolution)
        .bind(new.id)
        .bind(channel)
        .bind(new.created_at)
        .bind(new.done_at)
        .bind(new.done_by)
        .run()
        .await?;
    Ok(n == 1)
}

/// Names a member instead of a placeholder in forks, resolutions, and action items.
///
/// # Errors
/// Only database errors.
pub async fn reassign_forks(
    c: &mut Conn,
    workspace: WorkspaceId,
    from: UserId,
    to: UserId,
) -> Result<(), DbError> {
    for sql in [
        "update forks set created_by = $3 where workspace_id = $1 and created_by = $2",
        "update resolutions set publisher_id = $3 where workspace_id = $1 and publisher_id = $2",
        "update action_items set owner_id = $3 where workspace_id = $1 and owner_id = $2",
        "update action_items set done_by = $3 where workspace_id = $1 and done_by = $2",
    ] {
        c.q(sql).bind(workspace).bind(from).bind(to).run().await?;
    }
    let edited: Vec<(ResolutionId, Json<Vec<UserId>>)> = c
        .q("select id, edited_by from resolutions where workspace_id = $1 and CAST(edited_by AS TEXT) like $2 order by id")
        .bind(workspace)
        .bind(format!("%{from}%"))
        .all()
        .await?;
    for (id, Json(mut people)) in edited {
        let has_both = people.contains(&to);
        people.retain(|person| *person != from || !has_both);
        for person in people.iter_mut().filter(|person| **person == from) {
            *person = to;
        }
        c.q("update resolutions set edited_by = $2 where id = $1")
            .bind(id)
            .bind(Json(people))
            .run()
            .await?;
    }
    Ok(())
}
