//! Versions of a workflow.

use serde::Serialize;

use super::{
    Workflow,
    definition::{WorkflowContent, WorkflowStatus},
};
use crate::{
    auth::quota,
    db::{Conn, DbError, Json},
    ids::{UserId, WorkflowId},
    text_enum::constant,
    time::Timestamp,
};

constant! { pub WorkflowVersionObject = "workflow_version" }

/// Fields of a version.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct WorkflowSnapshot {
    pub name: String,
    pub status: WorkflowStatus,
    #[serde(flatten)]
    pub content: WorkflowContent,
}

/// A version of a workflow.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct WorkflowVersion {
    #[schema(inline)]
    pub object: WorkflowVersionObject,
    pub workflow_id: WorkflowId,
    pub version: i64,
    /// Short summary of the change.
    pub change_summary: String,
    pub changed_by: UserId,
    pub changed_at: Timestamp,
    pub snapshot: WorkflowSnapshot,
}

#[derive(sqlx::FromRow)]
struct Row {
    version: i64,
    name: String,
    content: Json<WorkflowContent>,
    status: WorkflowStatus,
    change_summary: String,
    changed_by: UserId,
    changed_at: Timestamp,
}

/// Lists versions below `before`, newest first.
///
/// # Errors
/// Only database errors.
pub async fn list_versions(
    c: &mut Conn,
    workflow: WorkflowId,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<WorkflowVersion>, DbError> {
    let rows: Vec<Row> = c
        .q("select version, name, content, status, change_summary, changed_by, changed_at from workflow_versions \
            where workflow_id = $1 and version < $2 order by version desc limit $3")
        .bind(workflow)
        .bind(before.unwrap_or(i64::MAX))
        .bind(limit)
        .all()
        .await?;
    let shown = |row: Row| WorkflowVersion {
        object: WorkflowVersionObject,
        workflow_id: workflow,
        version: row.version,
        change_summary: row.change_summary,
        changed_by: row.changed_by,
        changed_at: row.changed_at,
        snapshot: WorkflowSnapshot {
            name: row.name,
            status: row.status,
            content: row.content.0,
        },
    };
    Ok(rows.into_iter().map(shown).collect())
}

/// Returns the content of a version; `None` if there is no such version.
///
/// # Errors
/// Only database errors.
pub async fn find_content(
    c: &mut Conn,
    workflow: WorkflowId,
    version: i64,
) -> Result<Option<WorkflowContent>, DbError> {
    let row: Option<(Json<WorkflowContent>,)> = c
        .q("select content from workflow_versions where workflow_id = $1 and version = $2")
        .bind(workflow)
        .bind(version)
        .opt()
        .await?;
    Ok(row.map(|(content,)| content.0))
}

/// Stores the current state as a version.
pub(super) async fn insert_version(
    c: &mut Conn,
    workflow: &Workflow,
    changed_by: UserId,
    summary: &str,
) -> Result<(), DbError> {
    let bytes = size_of(&workflow.content);
    c.q("insert into workflow_versions (workflow_id, version, name, content, status, bytes, change_summary, changed_by, changed_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)")
        .bind(workflow.id)
        .bind(workflow.version)
        .bind(workflow.name.clone())
        .bind(Json(workflow.content.clone()))
        .bind(workflow.status)
        .bind(bytes)
        .bind(summary.to_owned())
        .bind(changed_by)
        .bind(workflow.updated_at)
        .run()
        .await?;
    quota::count_agent_bytes(c, workflow.workspace_id, bytes).await
}

/// Stored size of a version.
pub(super) fn size_of(content: &WorkflowContent) -> i64 {
    let bytes = serde_json::to_vec(content).map_or(0, |json| json.len());
    quota::ROW_BYTES.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX))
}
