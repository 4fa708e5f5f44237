//! Resolutions of forks: drafts, published versions, and superseded versions.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    chat::threads::ParticipantKind,
    db::{Conn, DbError, Json, is_in_visible_channel},
    ids::{
        ActionItemId, ChannelId, ForkId, MessageId, ResolutionId, ThreadId, UserId, WorkspaceId,
    },
    tasks::FailCode,
    text_enum::text_enum,
    time::Timestamp,
};

/// Maximum number of drafts in the list of items that wait for a person.
const WAITING_MAX: i64 = 50;

/// A statement and its sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SourcedText {
    pub text: String,
    /// Messages of the fork, or the forked message. Empty if the source is unknown.
    pub sources: Vec<MessageId>,
}

/// An action item as part of a resolution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ResolutionItem {
    /// ID of the item, which stays the same across versions.
    pub id: ActionItemId,
    pub text: String,
    pub owner_id: Option<UserId>,
    /// Current name of the member, or the name as it was mentioned if the owner is not a member.
    pub owner_name: Option<String>,
    /// Due date as `YYYY-MM-DD`.
    pub due: Option<String>,
    pub done: bool,
    pub sources: Vec<MessageId>,
}

text_enum! {
    pub enum ResolutionStatus {
        Draft = "draft",
        Published = "published",
        Superseded = "superseded",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Publisher {
    /// Kind of the publisher; `agent` if nobody reviewed the draft.
    #[serde(rename = "type")]
    pub kind: ParticipantKind,
    pub id: String,
    pub name: String,
}

/// The resolution of a fork: a draft, or a published version.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Resolution {
    pub id: ResolutionId,
    pub workspace_id: WorkspaceId,
    pub channel_id: ChannelId,
    pub thread_id: ThreadId,
    pub fork_id: ForkId,
    pub fork_title: String,
    /// Version number, starting at 1; a draft has the number that it will get when it is published.
    pub version: i64,
    pub status: ResolutionStatus,
    /// The agent that wrote the draft, `builtin` if it was extracted without a model, or null if a person wrote
    /// it.
    pub generated_by: Option<String>,
    /// Reason why the draft was extracted although a model is connected: an error code as in a task, such as `bad_response` for an
    /// unusable answer.
    pub fallback_reason: Option<FailCode>,
    /// People who edited the draft, in the order of their first edit.
    pub edited_by: Vec<UserId>,
    /// At most 120 characters; can be blank only in a draft.
    pub headline: String,
    pub conclusion: String,
    pub key_points: Vec<SourcedText>,
    pub action_items: Vec<ResolutionItem>,
    pub open_questions: Vec<SourcedText>,
    pub deferred_items: Vec<SourcedText>,
    /// `seq` of the newest message of the fork that the resolution covers.
    pub covers_seq: i64,
    /// Revision, which is also the `ETag`.
    pub revision: i64,
    /// The resolution message in the thread.
    pub message_id: Option<MessageId>,
    pub published_by: Option<Publisher>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub published_at: Option<Timestamp>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: ResolutionId,
    workspace_id: WorkspaceId,
    channel_id: ChannelId,
    thread_id: ThreadId,
    fork_id: ForkId,
    fork_title: String,
    version: i64,
    status: ResolutionStatus,
    generated_by: Option<String>,
    fallback_reason: Option<FailCode>,
    edited_by: Json<Vec<UserId>>,
    headline: String,
    conclusion: String,
    key_points: Json<Vec<SourcedText>>,
    open_questions: Json<Vec<SourcedText>>,
    deferred_items: Json<Vec<SourcedText>>,
    covers_seq: i64,
    revision: i64,
    message_id: Option<MessageId>,
    published_seq: Option<i64>,
    publisher_type: Option<ParticipantKind>,
    publisher_id: Option<Uuid>,
    publisher_name: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
    published_at: Option<Timestamp>,
}

#[derive(sqlx::FromRow)]
struct ItemRow {
    resolution_id: ResolutionId,
    id: ActionItemId,
    text: String,
    owner_id: Option<UserId>,
    owner_name: Option<String>,
    due: Option<String>,
    done: bool,
    sources: Json<Vec<MessageId>>,
}

macro_rules! resolution_sql {
    ($tail:expr) => {
        concat!(
            "select r.id, r.workspace_id, r.channel_id, r.thread_id, r.fork_id, f.title as fork_title, r.version, r.status, \
             r.generated_by, r.fallback_reason, r.edited_by, r.headline, r.conclusion, r.key_points, r.open_questions, r.deferred_items, r.covers_seq, \
             r.revision, r.message_id, r.published_seq, r.publisher_type, r.publisher_id, \
             coalesce(u.name, a.summary ->> 'display_name', a.name, \
             (select n.name from agent_names n where n.agent_id = r.publisher_id)) as publisher_name, r.created_at, r.updated_at, r.published_at \
             from resolutions r join forks f on f.id = r.fork_id \
             left join users u on r.publisher_type = 'human' and u.id = r.publisher_id \
             left join agents a on r.publisher_type = 'agent' and a.id = r.publisher_id ",
            $tail
        )
    };
}

impl Row {
    fn with(self, action_items: Vec<ResolutionItem>) -> Resolution {
        let published_by = match (self.publisher_type, self.publisher_id) {
            (Some(kind), Some(id)) => Some(Publisher {
                id: if kind == ParticipantKind::Agent {
                    crate::ids::AgentId(id).to_string()
                } else {
                    UserId(id).to_string()
                },
                kind,
                name: self
                    .publisher_name
                    .unwrap_or_else(|| "Deleted account".to_owned()),
            }),
            _ => None,
        };
        Resolution {
            id: self.id,
            workspace_id: self.workspace_id,
            channel_id: self.channel_id,
            thread_id: self.thread_id,
            fork_id: self.fork_id,
            fork_title: self.fork_title,
            version: self.version,
            status: self.status,
            generated_by: self.generated_by,
            fallback_reason: self.fallback_reason,
            edited_by: self.edited_by.0,
            headline: self.headline,
            conclusion: self.conclusion,
            key_points: self.key_points.0,
            action_items,
            open_questions: self.open_questions.0,
            deferred_items: self.deferred_items.0,
            covers_seq: self.covers_seq,
            revision: self.revision,
            message_id: self.message_id,
            published_by,
            created_at: self.created_at,
            updated_at: self.updated_at,
            published_at: self.published_at,
        }
    }
}

/// Selects the columns of an action item `i`, with the current name of its owner.
macro_rules! item_columns {
    () => {
        "i.id, i.text, i.owner_id, coalesce(ou.name, i.owner_name) as owner_name, i.due, i.done, i.sources"
    };
}
pub(super) use item_columns;

/// Adds the items to a row.
async fn with_items(c: &mut Conn, row: Option<Row>) -> Result<Option<Resolution>, DbError> {
    let Some(row) = row else { return Ok(None) };
    let items: Vec<ItemRow> = c
        .q(concat!(
            "select i.resolution_id, ",
            item_columns!(),
            " from action_items i left join users ou on ou.id = i.owner_id where i.resolution_id = $1 order by i.position limit 100"
        ))
        .bind(row.id)
        .all()
        .await?;
    Ok(Some(
        row.with(items.into_iter().map(ItemRow::item).collect()),
    ))
}

impl ItemRow {
    fn item(self) -> ResolutionItem {
        ResolutionItem {
            id: self.id,
            text: self.text,
            owner_id: self.owner_id,
            owner_name: self.owner_name,
            due: self.due,
            done: self.done,
            sources: self.sources.0,
        }
    }
}

pub async fn find(c: &mut Conn, id: ResolutionId) -> Result<Option<Resolution>, DbError> {
    let row = c
        .q(resolution_sql!("where r.id = $1"))
        .bind(id)
        .opt()
        .await?;
    with_items(c, row).await
}

/// The draft of a fork.
pub async fn find_draft(c: &mut Conn, fork: ForkId) -> Result<Option<Resolution>, DbError> {
    let row = c
        .q(resolution_sql!(
            "where r.fork_id = $1 and r.status = 'draft'"
        ))
        .bind(fork)
        .opt()
        .await?;
    with_items(c, row).await
}

/// Drafts in active forks in which agents collaborated on a goal that this person set, oldest first, at most 50.
pub async fn list_waiting(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<Vec<Resolution>, DbError> {
    let rows: Vec<Row> = c
        .q(resolution_sql!(concat!(
            "where r.workspace_id = $1 and r.status = 'draft' and f.status = 'active' and f.created_by = $2 \
             and f.collaboration is not null and ",
            is_in_visible_channel!("r.channel_id", "$2"),
            " order by r.id limit $3"
        )))
        .bind(workspace)
        .bind(user)
        .bind(WAITING_MAX)
        .all()
        .await?;
    let mut drafts = Vec::with_capacity(rows.len());
    for row in rows {
        drafts.extend(with_items(c, Some(row)).await?);
    }
    Ok(drafts)
}

/// The published resolution of a fork.
pub async fn find_published(c: &mut Conn, fork: ForkId) -> Result<Option<Resolution>, DbError> {
    let row = c
        .q(resolution_sql!(
            "where r.fork_id = $1 and r.status = 'published'"
        ))
        .bind(fork)
        .opt()
        .await?;
    with_items(c, row).await
}

/// The draft of a fork, or its published resolution if there is no draft.
pub async fn find_newest(c: &mut Conn, fork: ForkId) -> Result<Option<Resolution>, DbError> {
    match find_draft(c, fork).await? {
        Some(draft) => Ok(Some(draft)),
        None => find_published(c, fork).await,
    }
}

/// Adds the items to several rows.
fn with_all_items(rows: Vec<Row>, items: Vec<ItemRow>) -> Vec<Resolution> {
    let mut by_result: HashMap<ResolutionId, Vec<ResolutionItem>> = HashMap::new();
    for row in items {
        by_result
            .entry(row.resolution_id)
            .or_default()
            .push(row.item());
    }
    rows.into_iter()
        .map(|row| {
            let items = by_result.remove(&row.id).unwrap_or_default();
            row.with(items)
        })
        .collect()
}

/// Published and superseded versions of a fork's resolution, oldest first. If `backwards` is set, returns the last versions before
/// `before`.
pub async fn list_versions(
    c: &mut Conn,
    fork: ForkId,
    after: i64,
    before: i64,
    limit: i64,
    backwards: bool,
) -> Result<Vec<Resolution>, DbError> {
    let q = if backwards {
        c.q(resolution_sql!(
            "where r.fork_id = $1 and r.status <> 'draft' and r.version > $2 and r.version < $3 order by r.version desc limit $4"
        ))
    } else {
        c.q(resolution_sql!(
            "where r.fork_id = $1 and r.status <> 'draft' and r.version > $2 and r.version < $3 order by r.version limit $4"
        ))
    };
    let mut rows: Vec<Row> = q
        .bind(fork)
        .bind(after)
        .bind(before)
        .bind(limit)
        .all()
        .await?;
    if backwards {
        rows.reverse();
    }
    let items: Vec<ItemRow> = c
        .q(concat!(
            "select i.resolution_id, ",
            item_columns!(),
            " from action_items i join resolutions r on r.id = i.resolution_id left join users ou on ou.id = i.owner_id \
             where r.fork_id = $1 and r.version between $2 and $3 order by i.resolution_id, i.position limit 2500"
        ))
        .bind(fork)
        .bind(rows.first().map_or(0, |row| row.version))
        .bind(rows.last().map_or(0, |row| row.version))
        .all()
        .await?;
    Ok(with_all_items(rows, items))
}

/// Version number of the published resolution with this ID.
pub async fn version_of(
    c: &mut Conn,
    fork: ForkId,
    id: ResolutionId,
) -> Result<Option<i64>, DbError> {
    let row: Option<(i64,)> = c
        .q("select version from resolutions where id = $1 and fork_id = $2 and status <> 'draft'")
        .bind(id)
        .bind(fork)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

/// Filter of a list of published resolutions.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub channel: Option<ChannelId>,
    /// Lowercase `like` patterns that must all match.
    pub words: Vec<String>,
}

/// Maximum number of words in a search.
pub const WORDS_MAX: usize = 8;

/// Published resolutions that `user` can see and whose publication sequence number is below `before`, newest first. Each is returned
/// with that number.
pub async fn list_published(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    filter: &Filter,
    before: i64,
    limit: i64,
) -> Result<Vec<(i64, Resolution)>, DbError> {
    let mut q = c
        .q(resolution_sql!(concat!(
            "where r.workspace_id = $1 and r.status = 'published' and r.published_seq < $2 and (r.channel_id = $3 or $3 is null) \
             and ",
            is_in_visible_channel!("r.channel_id", "$4"),
            " and r.search_text like $6 escape '!' and r.search_text like $7 escape '!' and r.search_text like $8 escape '!' \
             and r.search_text like $9 escape '!' and r.search_text like $10 escape '!' and r.search_text like $11 escape '!' \
             and r.search_text like $12 escape '!' and r.search_text like $13 escape '!' \
             order by r.published_seq desc limit $5"
        )))
        .bind(workspace)
        .bind(before)
        .bind(filter.channel)
        .bind(user)
        .bind(limit);
    for n in 0..WORDS_MAX {
        q = q.bind(
            filter
                .words
                .get(n)
                .cloned()
                .unwrap_or_else(|| "%".to_owned()),
        );
    }
    let rows: Vec<Row> = q.all().await?;
    let bounds = (
        rows.last().and_then(|row| row.published_seq).unwrap_or(0),
        rows.first().and_then(|row| row.published_seq).unwrap_or(-1),
    );
    let items: Vec<ItemRow> = c
        .q(concat!(
            "select i.resolution_id, ",
            item_columns!(),
            " from resolutions r join action_items i on i.resolution_id = r.id left join users ou on ou.id = i.owner_id \
             where r.workspace_id = $1 and r.status = 'published' and r.published_seq between $2 and $3 \
             order by i.resolution_id, i.position"
        ))
        .bind(workspace)
        .bind(bounds.0)
        .bind(bounds.1)
        .all()
        .await?;
    let seqs: Vec<i64> = rows
        .iter()
        .map(|row| row.published_seq.unwrap_or_default())
        .collect();
    let found = with_all_items(rows, items);
    Ok(seqs.into_iter().zip(found).collect())
}
