//! Draft rows: the editable content of a resolution, and its storage.

use super::resolution::{Resolution, ResolutionItem, SourcedText};
use crate::{
    chat::forks::Fork,
    db::{Conn, DbError, Json, now},
    ids::{MessageId, ResolutionId, UserId, WorkspaceId},
    tasks::FailCode,
    time::Timestamp,
};

/// The validated, editable part of a resolution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    pub headline: String,
    pub conclusion: String,
    pub key_points: Vec<SourcedText>,
    pub action_items: Vec<ResolutionItem>,
    pub open_questions: Vec<SourcedText>,
    pub deferred_items: Vec<SourcedText>,
}

impl From<&Resolution> for Content {
    fn from(known: &Resolution) -> Self {
        Self {
            headline: known.headline.clone(),
            conclusion: known.conclusion.clone(),
            key_points: known.key_points.clone(),
            action_items: known.action_items.clone(),
            open_questions: known.open_questions.clone(),
            deferred_items: known.deferred_items.clone(),
        }
    }
}

impl Content {
    /// Every source of the content.
    pub fn sources(&self) -> impl Iterator<Item = MessageId> + '_ {
        self.key_points
            .iter()
            .chain(&self.open_questions)
            .chain(&self.deferred_items)
            .flat_map(|point| &point.sources)
            .chain(self.action_items.iter().flat_map(|item| &item.sources))
            .copied()
    }

    /// The entire text in lower case, for searching.
    pub(super) fn search_text(&self) -> String {
        let points = self
            .key_points
            .iter()
            .chain(&self.open_questions)
            .chain(&self.deferred_items)
            .map(|point| point.text.as_str());
        let items = self.action_items.iter().map(|item| item.text.as_str());
        [self.headline.as_str(), self.conclusion.as_str()]
            .into_iter()
            .chain(points)
            .chain(items)
            .collect::<Vec<_>>()
            .join("\n")
            .to_lowercase()
    }
}

/// A draft to insert.
#[derive(Debug, Clone)]
pub struct NewDraft {
    pub generated_by: Option<String>,
    /// Reason why the draft was extracted although there is a model.
    pub fallback_reason: Option<FailCode>,
    pub edited_by: Vec<UserId>,
    pub covers_seq: i64,
    /// Revision of the draft that this one replaces; 0 if there was none.
    pub replaces_revision: i64,
}

/// Inserts the draft of a fork that has none. Its version number follows that of the newest
/// published version.
pub async fn insert_draft(
    c: &mut Conn,
    fork: &Fork,
    new: &NewDraft,
    content: &Content,
) -> Result<ResolutionId, DbError> {
    let id = ResolutionId::new();
    let at = now();
    // Revisions continue across the drafts of a fork, so that an ETag identifies one state.
    let (version, revision): (i64, i64) = c
        .q("select coalesce(max(case when status <> 'draft' then version end), 0) + 1, coalesce(max(revision), 0) + 1 \
            from resolutions where fork_id = $1")
        .bind(fork.id)
        .one()
        .await?;
    let revision = revision.max(new.replaces_revision + 1);
    c.q("insert into resolutions (id, workspace_id, channel_id, thread_id, fork_id, version, status, revision, generated_by, edited_by, \
         headline, conclusion, key_points, open_questions, deferred_items, search_text, covers_seq, is_announced, announced_at, \
         created_at, updated_at, fallback_reason) \
         values ($1, $2, $3, $4, $5, $6, 'draft', $17, $7, $8, $9, $10, $11, $12, $13, $14, $15, TRUE, $16, $16, $16, $18)")
        .bind(id)
        .bind(fork.workspace_id)
        .bind(fork.channel_id)
        .bind(fork.thread_id)
        .bind(fork.id)
        .bind(version)
        .bind(new.generated_by.clone())
        .bind(Json(new.edited_by.clone()))
        .bind(content.headline.clone())
        .bind(content.conclusion.clone())
        .bind(Json(content.key_points.clone()))
        .bind(Json(content.open_questions.clone()))
        .bind(Json(content.deferred_items.clone()))
        .bind(content.search_text())
        .bind(new.covers_seq)
        .bind(at)
        .bind(revision)
        .bind(new.fallback_reason)
        .run()
        .await?;
    insert_items(c, fork.workspace_id, id, &content.action_items, at).await?;
    Ok(id)
}

/// Replaces the content of a draft if it is still at `revision`. Otherwise returns `false`.
pub async fn replace_content(
    c: &mut Conn,
    draft: &Resolution,
    edited_by: &[UserId],
    content: &Content,
) -> Result<bool, DbError> {
    let n = c
        .q("update resolutions set headline = $3, conclusion = $4, key_points = $5, open_questions = $6, deferred_items = $7, \
            search_text = $8, edited_by = $9, updated_at = $10, revision = revision + 1, is_announced = FALSE \
            where id = $1 and revision = $2 and status = 'draft'")
        .bind(draft.id)
        .bind(draft.revision)
        .bind(content.headline.clone())
        .bind(content.conclusion.clone())
        .bind(Json(content.key_points.clone()))
        .bind(Json(content.open_questions.clone()))
        .bind(Json(content.deferred_items.clone()))
        .bind(content.search_text())
        .bind(Json(edited_by.to_vec()))
        .bind(now())
        .run()
        .await?;
    if n == 0 {
        return Ok(false);
    }
    c.q("delete from action_items where resolution_id = $1")
        .bind(draft.id)
        .run()
        .await?;
    let items = &content.action_items;
    insert_items(c, draft.workspace_id, draft.id, items, now()).await?;
    Ok(true)
}

/// Deletes a draft so that the next one can replace it.
pub async fn delete_draft(c: &mut Conn, id: ResolutionId) -> Result<(), DbError> {
    c.q("delete from resolutions where id = $1 and status = 'draft'")
        .bind(id)
        .run()
        .await?;
    Ok(())
}

pub(super) async fn insert_items(
    c: &mut Conn,
    workspace: WorkspaceId,
    resolution: ResolutionId,
    items: &[ResolutionItem],
    created_at: Timestamp,
) -> Result<(), DbError> {
    for (position, item) in items.iter().enumerate() {
        c.q("insert into action_items (resolution_id, id, workspace_id, position, text, owner_id, owner_name, due, done, sources, \
             created_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)")
            .bind(resolution)
            .bind(item.id)
            .bind(workspace)
            .bind(i64::try_from(position).unwrap_or(i64::MAX))
            .bind(item.text.clone())
            .bind(item.owner_id)
            .bind(item.owner_name.clone())
            .bind(item.due.clone())
            .bind(item.done)
            .bind(Json(item.sources.clone()))
            .bind(created_at)
            .run()
            .await?;
    }
    Ok(())
}
