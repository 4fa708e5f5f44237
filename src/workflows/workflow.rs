//! Workflows as they are stored and shown.

use serde::Serialize;
use uuid::Uuid;

use super::definition::{OnMessage, PausedReason, WorkflowContent, WorkflowStatus};
use crate::{
    cursor::PageRange,
    db::{Conn, DbError, Json},
    ids::{ChannelId, UserId, WorkflowId, WorkspaceId},
    realtime::{
        Audience, EventData, EventType, NewEvent,
        log::{self, Recipients},
    },
    tasks::queue,
    text_enum::constant,
    time::Timestamp,
};

constant! { pub WorkflowObject = "workflow" }

/// A list of steps that people, messages, and schedules start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Workflow {
    pub id: WorkflowId,
    #[schema(inline)]
    pub object: WorkflowObject,
    pub name: String,
    #[serde(flatten)]
    pub content: WorkflowContent,
    /// Owner of the workflow. Runs that messages start are on behalf of the owner.
    pub owner_id: UserId,
    pub status: WorkflowStatus,
    /// Reason for the pause; set if the server paused the workflow.
    pub paused_reason: Option<PausedReason>,
    /// Number of messages that did not start a run, because the limit per minute was reached or the run could not start, for example
    /// because too many runs were active.
    pub dropped: i64,
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    #[serde(skip)]
    pub workspace_id: WorkspaceId,
}

#[derive(Serialize, utoipa::ToSchema)]
pub struct WorkflowEvent<'a> {
    workflow: &'a Workflow,
}

impl EventData for WorkflowEvent<'_> {
    const TYPES: &'static [EventType] = &[
        EventType::WorkflowCreated,
        EventType::WorkflowUpdated,
        EventType::WorkflowArchived,
    ];
}

#[derive(sqlx::FromRow)]
struct Row {
    id: WorkflowId,
    workspace_id: WorkspaceId,
    name: String,
    content: Json<WorkflowContent>,
    status: WorkflowStatus,
    paused_reason: Option<PausedReason>,
    owner_id: UserId,
    dropped: i64,
    version: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<Row> for Workflow {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            object: WorkflowObject,
            name: row.name,
            content: row.content.0,
            owner_id: row.owner_id,
            status: row.status,
            paused_reason: row.paused_reason,
            dropped: row.dropped,
            version: row.version,
            created_at: row.created_at,
            updated_at: row.updated_at,
            workspace_id: row.workspace_id,
        }
    }
}

macro_rules! workflow_sql {
    ($tail:literal) => {
        concat!(
            "select id, workspace_id, name, content, status, paused_reason, owner_id, dropped, version, created_at, updated_at \
             from workflows ",
            $tail
        )
    };
}

/// Filter for a list of workflows.
#[derive(Debug, Default)]
pub struct Filter {
    /// Exact name.
    pub name: Option<String>,
    pub status: Option<WorkflowStatus>,
}

/// Lists workflows in order of creation, between two IDs. With `before`, returns the last ones before that ID.
///
/// # Errors
/// Only database errors.
pub async fn list_workflows(
    c: &mut Conn,
    workspace: WorkspaceId,
    filter: &Filter,
    PageRange { after, before }: PageRange<WorkflowId>,
    limit: i64,
) -> Result<Vec<Workflow>, DbError> {
    let q = if before.is_some() {
        c.q(workflow_sql!(
            "where workspace_id = $1 and id > $2 and id < $3 and (name = $5 or $5 is null) and (status = $6 or $6 is null) \
             order by id desc limit $4"
        ))
    } else {
        c.q(workflow_sql!(
            "where workspace_id = $1 and id > $2 and id < $3 and (name = $5 or $5 is null) and (status = $6 or $6 is null) \
             order by id limit $4"
        ))
    };
    let rows: Vec<Row> = q
        .bind(workspace)
        .bind(after.unwrap_or(WorkflowId(Uuid::nil())))
        .bind(before.unwrap_or(WorkflowId(Uuid::max())))
        .bind(limit)
        .bind(filter.name.clone())
        .bind(filter.status.map(|status| status.to_string()))
        .all()
        .await?;
    let mut workflows: Vec<Workflow> = rows.into_iter().map(Workflow::from).collect();
    if before.is_some() {
        workflows.reverse();
    }
    Ok(workflows)
}

/// Active workflows that messages of a channel can start, with their triggers.
pub(super) async fn list_triggered(
    c: &mut Conn,
    channel: ChannelId,
) -> Result<Vec<(WorkflowId, OnMessage)>, DbError> {
    let rows: Vec<(WorkflowId, Json<OnMessage>)> = c
        .q("select id, on_message from workflows where trigger_channel_id = $1 and status = 'active' and on_message is not null \
            order by id limit 100")
        .bind(channel)
        .all()
        .await?;
    Ok(rows.into_iter().map(|(id, on)| (id, on.0)).collect())
}

/// Returns `None` if the workflow does not exist or belongs to another workspace.
///
/// # Errors
/// Only database errors.
pub async fn find_workflow(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: WorkflowId,
) -> Result<Option<Workflow>, DbError> {
    let row: Option<Row> = c
        .q(workflow_sql!("where workspace_id = $1 and id = $2"))
        .bind(workspace)
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(Workflow::from))
}

/// # Errors
/// Only database errors.
pub async fn workspace_of(c: &mut Conn, id: WorkflowId) -> Result<Option<WorkspaceId>, DbError> {
    let row: Option<(WorkspaceId,)> = c
        .q("select workspace_id from workflows where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|(workspace,)| workspace))
}

/// Appends an event with the workflow. Recipients are the readers of its channel or, for a workflow without a channel or with another
/// private one, its owner and admins.
pub(super) async fn announce(
    c: &mut Conn,
    kind: EventType,
    workflow: &Workflow,
) -> Result<(), DbError> {
    let mut channel = workflow.content.channel();
    if let Some(of_trigger) = channel
        && !is_for_readers(c, &workflow.content, of_trigger).await?
    {
        channel = None;
    }
    let (audience, only) = match channel {
        Some(channel) => (queue::audience_of(c, channel).await?, None),
        None => (
            Audience::Workspace,
            Some(Recipients {
                users: vec![workflow.owner_id],
                managers: true,
            }),
        ),
    };
    let seq = log::reserve(c, workflow.workspace_id, 1).await?;
    let event = NewEvent::new(seq, kind, audience, &WorkflowEvent { workflow })?;
    log::append(c, workflow.workspace_id, event.only_to(only)).await
}

/// Checks whether readers of the trigger's channel can read all channels of a workflow: the others are public.
async fn is_for_readers(
    c: &mut Conn,
    content: &WorkflowContent,
    channel: ChannelId,
) -> Result<bool, DbError> {
    for other in content.channels() {
        let is_public = other == channel
            || c.q("select exists (select 1 from channels where id = $1 and kind = 'public')")
                .bind(other)
                .value()
                .await?;
        if !is_public {
            return Ok(false);
        }
    }
    Ok(true)
}
