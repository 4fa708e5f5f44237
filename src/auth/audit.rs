//! What was done with the powers of an admin.

use crate::time::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::Actor;
use crate::{
    db::{Conn, DbError, Json, now},
    ids::{AuditEntryId, UserId, WorkspaceId},
};

#[derive(Debug, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct AuditEntry {
    pub id: AuditEntryId,
    pub actor_id: UserId,
    /// Such as `member.role_changed`.
    pub action: String,
    /// The id of what it was done to.
    pub target: Option<String>,
    #[schema(value_type = Object)]
    pub data: Json<serde_json::Value>,
    pub created_at: Timestamp,
}

pub async fn record(
    c: &mut Conn,
    actor: &Actor,
    action: &'static str,
    target: String,
    data: serde_json::Value,
) -> Result<(), DbError> {
    c.q("insert into audit_log (id, workspace_id, actor_id, action, target, data, created_at) values ($1, $2, $3, $4, $5, $6, $7)")
        .bind(AuditEntryId::new())
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(action)
        .bind(target)
        .bind(Json(data))
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Newest first.
pub(super) async fn list(
    c: &mut Conn,
    workspace: WorkspaceId,
    after: Option<AuditEntryId>,
    limit: i64,
) -> Result<Vec<AuditEntry>, DbError> {
    c.q(
        "select id, actor_id, action, target, data, created_at from audit_log \
         where workspace_id = $1 and id < $2 order by id desc limit $3",
    )
    .bind(workspace)
    .bind(after.unwrap_or(AuditEntryId(Uuid::max())))
    .bind(limit)
    .all()
    .await
}
