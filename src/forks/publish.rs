//! Publishes a draft: posts it as a resolution message in the thread, activates its action items,
//! and closes the fork.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{
    ForkError, card,
    drafts::Content,
    edit,
    event::announce_resolution,
    form::ResolutionForm,
    inbox::open_published,
    resolution::{self, Resolution, find_draft, find_published},
    start::stop_tasks,
};
use crate::{
    auth::{Caller, Scope, quota},
    chat::{
        ChatError, access, channels,
        follows::{self, FollowCause},
        forks::{self, Fork, ForkStatus},
        messages::{self, AuthorKind, Message, MessageKind, MessageMetadata, MessageState},
        plain, post,
        search::index::{self, SearchDocument, ThreadRoot},
    },
    db::{Conn, DbError, is_in_visible_channel, now},
    failpoint,
    ids::{AgentId, ForkId, MessageId, ResolutionId, TaskId, UserId},
    inbox::Place,
    realtime::{Audience, EventType, Hub, log},
    workflows::run,
};

/// Maximum number of people who are notified of a resolution.
const TOLD_MAX: i64 = 500;

/// Result of a publication.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Published {
    pub fork: Fork,
    /// The resolution message.
    pub message: Message,
    pub resolution: Resolution,
}

/// Author of a resolution message.
#[derive(Debug, Clone, Copy)]
pub(super) enum Author {
    Person(UserId),
    /// An agent whose draft nobody reviewed, and the task that wrote it.
    Agent {
        agent: AgentId,
        version: i64,
        task: TaskId,
    },
}

/// Publishes the draft of a fork after applying `form` to it. If the fork is already resolved, returns its published resolution.
///
/// # Errors
/// `NoDraft`, `Stale` if the draft is no longer at revision `expected`, `DraftGone` if it no longer exists, `Invalid` for a blank
/// headline, any error from `ResolutionForm::apply`, or `ChatError`: `ForkNotFound`, `ForkClosed`, or any error from `writing`.
pub async fn publish(
    c: &mut Conn,
    caller: &Caller,
    id: ForkId,
    expected: Option<i64>,
    form: Option<&ResolutionForm>,
    hub: &Hub,
) -> Result<Published, ForkError> {
    let access = access::fork(c, caller, id).await?;
    access.channel_access.actor.require(Scope::ChatWrite)?;
    let workspace = access.channel_access.actor.workspace;
    crate::db::dialect::lock_workspace(c, workspace.0).await?;
    let fork = forks::get_fork(c, id).await?;
    if fork.status == ForkStatus::Resolved {
        return already(c, fork).await;
    }
    let access = access.writing()?;
    let audience = access.channel_access.audience();
    let draft = find_draft(c, id).await?;
    let revision = draft.as_ref().map_or(0, |draft| draft.revision);
    if expected.is_some_and(|expected| expected != revision) {
        return Err(draft.map_or(ForkError::DraftGone, |draft| {
            ForkError::Stale(Box::new(draft))
        }));
    }
    let draft = match (draft, form) {
        (Some(draft), None) => draft.id,
        (Some(draft), Some(form)) => {
            let base = Content::from(&draft);
            let content = form.apply(c, &fork, &base, caller.user).await?;
            if content == base {
                draft.id
            } else {
                edit::replace(c, &draft, caller.user, &content, audience)
                    .await?
                    .id
            }
        }
        (None, Some(form)) => {
            let published = find_published(c, id).await?;
            let base = published.as_ref().map(Content::from).unwrap_or_default();
            let content = form.apply(c, &fork, &base, caller.user).await?;
            edit::begin(c, &fork, caller.user, published.as_ref(), &content).await?
        }
        (None, None) => return Err(ForkError::NoDraft),
    };
    if !access.channel_access.joined {
        channels::join(c, workspace, access.channel_access.channel, caller.user).await?;
    }
    publish_draft(c, &fork, draft, Author::Person(caller.user), audience, hub).await
}

/// The published resolution of a fork that is already resolved.
async fn already(c: &mut Conn, fork: Fork) -> Result<Published, ForkError> {
    let result = match fork.resolution_id {
        Some(id) => resolution::find(c, id).await?,
        None => None,
    };
    let card = match result.as_ref().and_then(|result| result.message_id) {
        Some(id) => messages::find_message(c, id).await?,
        None => None,
    };
    match (result, card) {
        (Some(resolution), Some(message)) => Ok(Published {
            fork,
            message,
            resolution,
        }),
        // The resolution message was deleted.
        _ => Err(ChatError::ForkClosed.into()),
    }
}

/// Posts a draft as a resolution message. The caller must have checked that the fork is active and
/// writable.
pub(super) async fn publish_draft(
    c: &mut Conn,
    fork: &Fork,
    id: ResolutionId,
    author: Author,
    audience: Audience,
    hub: &Hub,
) -> Result<Published, ForkError> {
    let before = find_published(c, fork.id).await?;
    let draft = resolution::find(c, id).await?.ok_or(ForkError::DraftGone)?;
    if draft.headline.is_empty() {
        return Err(ForkError::Invalid(
            "a result requires a headline: add one".to_owned(),
            "headline".to_owned(),
        ));
    }
    let content = card::markdown(&draft);
    let plain = plain::to_plain(&content);
    quota::check_message(c, fork.workspace_id, &content, &plain)
        .await
        .map_err(ChatError::from)?;
    if let Some(before) = &before {
        replace(c, before.id, id).await?;
    }
    let seq = log::reserve(c, fork.workspace_id, 1).await?;
    let new = NewCard {
        draft: &draft,
        content,
        plain,
    };
    let card = insert_card(c, seq, fork, new, author, audience).await?;
    set_published(c, fork.id, id, &card, author).await?;
    let place = Place {
        channel: fork.channel_id,
        thread: fork.thread_id,
        fork: None,
    };
    let owners = draft.action_items.iter().filter_map(|item| item.owner_id);
    for owner in owners.collect::<BTreeSet<_>>() {
        follows::follow_as_member(c, place, owner, FollowCause::Assigned, 0).await?;
    }
    let but = match author {
        Author::Person(_) => None,
        Author::Agent { task, .. } => Some(task),
    };
    stop_tasks(c, fork.id, but, hub, audience).await?;
    let published = resolution::find(c, id).await?.ok_or(ForkError::DraftGone)?;
    announce_resolution(c, EventType::ResolutionPublished, &published, audience).await?;
    let actor = match author {
        Author::Person(user) => user.0,
        Author::Agent { agent, .. } => agent.0,
    };
    open_published(c, fork, &published, before.as_ref(), &card, actor).await?;
    if let Some(before) = before
        && let Some(before) = resolution::find(c, before.id).await?
    {
        announce_resolution(c, EventType::ResolutionUpdated, &before, audience).await?;
    }
    let fork = forks::announce_update(c, fork.id, audience).await?;
    run::wake_of_fork(c, fork.id, audience).await?;
    failpoint!("publish");
    Ok(Published {
        fork,
        message: card,
        resolution: published,
    })
}

/// Marks a resolution as published with this message, and the fork as resolved.
async fn set_published(
    c: &mut Conn,
    fork: ForkId,
    id: ResolutionId,
    card: &Message,
    author: Author,
) -> Result<(), DbError> {
    let (kind, by) = match author {
        Author::Person(user) => (AuthorKind::Human, user.0),
        Author::Agent { agent, .. } => (AuthorKind::Agent, agent.0),
    };
    c.q("update resolutions set status = 'published', published_at = $2, published_seq = $3, message_id = $4, publisher_type = $5, \
         publisher_id = $6, is_announced = TRUE where id = $1")
        .bind(id)
        .bind(card.created_at)
        .bind(card.seq)
        .bind(card.id)
        .bind(kind)
        .bind(by)
        .run()
        .await?;
    // Publishing does not change `stale`: a stale draft becomes a stale resolution.
    c.q("update forks set status = 'resolved', resolved_at = $2, resolution_id = $3 where id = $1")
        .bind(fork)
        .bind(card.created_at)
        .bind(id)
        .run()
        .await?;
    Ok(())
}

/// Replaces the published resolution with the draft. Items in both keep their done state.
async fn replace(c: &mut Conn, old: ResolutionId, new: ResolutionId) -> Result<(), DbError> {
    c.q("update resolutions set status = 'superseded', updated_at = $2 where id = $1")
        .bind(old)
        .bind(now())
        .run()
        .await?;
    let kept: Vec<(crate::ids::ActionItemId,)> = c
        .q("select o.id from action_items o join action_items n on n.id = o.id and n.resolution_id = $2 where o.resolution_id = $1 limit 100")
        .bind(old)
        .bind(new)
        .all()
        .await?;
    for (item,) in kept {
        c.q("update action_items set \
             done = (select o.done from action_items o where o.resolution_id = $1 and o.id = $3), \
             done_at = (select o.done_at from action_items o where o.resolution_id = $1 and o.id = $3), \
             done_by = (select o.done_by from action_items o where o.resolution_id = $1 and o.id = $3), \
             created_at = (select o.created_at from action_items o where o.resolution_id = $1 and o.id = $3) \
             where resolution_id = $2 and id = $3")
            .bind(old)
            .bind(new)
            .bind(item)
            .run()
            .await?;
    }
    Ok(())
}

/// The message that publishes a draft.
struct NewCard<'a> {
    draft: &'a Resolution,
    content: String,
    plain: String,
}

async fn insert_card(
    c: &mut Conn,
    seq: i64,
    fork: &Fork,
    new: NewCard<'_>,
    author: Author,
    audience: Audience,
) -> Result<Message, DbError> {
    let NewCard {
        draft,
        content,
        plain,
    } = new;
    let notify_user_ids = recipients(c, fork, draft, author).await?;
    let mut metadata = MessageMetadata {
        resolution_id: Some(draft.id),
        fork_id: Some(fork.id),
        notify_user_ids: notify_user_ids.clone(),
        ..MessageMetadata::default()
    };
    let (author_type, author) = match author {
        Author::Person(user) => (AuthorKind::Human, user.0),
        Author::Agent {
            agent,
            version,
            task,
        } => {
            metadata.agent_id = Some(agent);
            metadata.agent_version = Some(version);
            metadata.task_id = Some(task);
            (AuthorKind::Agent, agent.0)
        }
    };
    let new = post::NewMessage {
        id: MessageId::new(),
        workspace: fork.workspace_id,
        channel: fork.channel_id,
        thread: fork.thread_id,
        fork: None,
        parent: Some(fork.message_id),
        author_type,
        author: Some(author),
        kind: MessageKind::Resolution,
        state: MessageState::Complete,
        content,
        plain,
        mentions: Vec::new(),
        attachments: Vec::new(),
        metadata,
        client_id: None,
    };
    let search_document = SearchDocument::of(&new.content, &new.plain);
    let card = post::insert_message(c, seq, &new, audience).await?;
    index::add(c, &card, &search_document, ThreadRoot::Nothing).await?;
    post::count_as_mentioned(c, &card, notify_user_ids.into_iter().map(|user| user.0)).await?;
    Ok(card)
}

/// Users to notify of a resolution: the fork's creator, people who posted in the fork, and owners of the resolution's items, if they
/// can see the message. The publisher is not notified.
async fn recipients(
    c: &mut Conn,
    fork: &Fork,
    draft: &Resolution,
    author: Author,
) -> Result<Vec<UserId>, DbError> {
    let there: Vec<(UserId,)> = c
        .q(concat!(
            "select m.user_id from members m where m.workspace_id = $1 \
            and (m.user_id = $3 or m.user_id in (select author_id from messages \
              where conversation_id = $2 and author_type = 'human' and deleted_at is null) \
              or m.user_id in (select owner_id from action_items where resolution_id = $4 and owner_id is not null)) \
            and ",
            is_in_visible_channel!("$5", "m.user_id"),
            " order by m.user_id limit $6"
        ))
        .bind(fork.workspace_id)
        .bind(fork.id)
        .bind(fork.created_by)
        .bind(draft.id)
        .bind(fork.channel_id)
        .bind(TOLD_MAX)
        .all()
        .await?;
    let publisher = match author {
        Author::Person(user) => Some(user),
        Author::Agent { .. } => None,
    };
    let recipients = there.into_iter().map(|row| row.0);
    Ok(recipients.filter(|user| Some(*user) != publisher).collect())
}
