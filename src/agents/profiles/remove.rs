//! Archiving agents and deleting them permanently.

use serde::Serialize;

use super::{
    Agent, AgentStatus, Row,
    agent::AgentObject,
    announce::announce,
    change::audit,
    find::get_visible_row,
    store::{Origin, ProfileWrite, store},
};
use crate::agents::{AgentError, derived};
use crate::{
    auth::{Actor, AuditAction, Scope, handles, quota},
    db::{Conn, dialect::lock_workspace},
    ids::AgentId,
    realtime::EventType,
};

/// Response of `DELETE /v1/agents/{id}`.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Archived {
    pub id: AgentId,
    #[schema(inline)]
    pub object: AgentObject,
    /// Always `archived`.
    pub status: AgentStatus,
    pub deleted: bool,
}

impl From<AgentId> for Archived {
    fn from(id: AgentId) -> Self {
        Self {
            id,
            object: AgentObject,
            status: AgentStatus::Archived,
            deleted: true,
        }
    }
}

/// Archives an agent: it can no longer be invoked; its versions, files, and name are kept.
///
/// # Errors
/// `NotFound`, `DefaultMustStay`, `Stale`, or an error from `Actor::require`.
pub async fn archive_agent(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    expected: Option<i64>,
) -> Result<Archived, AgentError> {
    actor.require(Scope::AgentsDelete)?;
    let row = removable(c, actor, reference, expected).await?;
    let wanted = ProfileWrite {
        name: &row.name,
        status: AgentStatus::Archived,
        mentionable: row.mentionable,
        profile: row.profile.0.clone(),
        summary: None,
        expected,
        origin: Origin::Edit,
    };
    let was = row.status;
    let agent = Box::pin(store(c, actor.user, &row, wanted)).await?;
    if was != AgentStatus::Archived {
        let data = serde_json::json!({"name": agent.summary.name, "status": AgentStatus::Archived});
        audit(c, actor, AuditAction::AgentStatusChanged, row.id, data).await?;
    }
    Ok(row.id.into())
}

/// Deletes an agent with its versions, files, and name. The caller must have ended its tasks.
///
/// # Errors
/// `NotFound`, `DefaultMustStay`, `HasChildren`, `Stale`, or an error from `Actor::require`.
pub async fn delete_agent(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    expected: Option<i64>,
) -> Result<Archived, AgentError> {
    actor.require(Scope::AgentsAdmin)?;
    let row = removable(c, actor, reference, expected).await?;
    let child: Option<(AgentId,)> = c
        .q("select id from agents where base_id = $1 limit 1")
        .bind(row.id)
        .opt()
        .await?;
    if child.is_some() {
        return Err(AgentError::HasChildren);
    }
    let gone = Agent::from(row.clone());
    handles::release(c, actor.workspace, row.id.0).await?;
    let bytes: i64 = c
        .q("select cast(coalesce(sum(bytes), 0) as bigint) from agent_versions where agent_id = $1")
        .bind(row.id)
        .value()
        .await?;
    let file_bytes: i64 = c
        .q("select cast(coalesce(sum(octet_length(content)), 0) + $2 * count(*) as bigint) from agent_file_versions where owner_id = $1")
        .bind(row.id)
        .bind(quota::ROW_BYTES)
        .value()
        .await?;
    quota::count_agent_bytes(c, actor.workspace, -(bytes + file_bytes)).await?;
    c.q("delete from agent_files where owner_id = $1")
        .bind(row.id)
        .run()
        .await?;
    // Messages of the agent keep showing its name.
    c.q("insert into agent_names (agent_id, workspace_id, name) values ($1, $2, $3) on conflict (agent_id) do nothing")
        .bind(row.id)
        .bind(actor.workspace)
        .bind(row.profile.0.shown_name(&row.name).to_owned())
        .run()
        .await?;
    derived::forget_agent(c, row.id).await?;
    // Versions and metadata are deleted by a cascade.
    c.q("delete from agents where workspace_id = $1 and id = $2")
        .bind(actor.workspace)
        .bind(row.id)
        .run()
        .await?;
    let data = serde_json::json!({"name": row.name, "version": row.version});
    audit(c, actor, AuditAction::AgentDeleted, row.id, data).await?;
    let mut shown = gone;
    shown.summary.status = AgentStatus::Archived;
    announce(
        c,
        EventType::AgentArchived,
        &shown,
        row.access(),
        None,
        &mut None,
    )
    .await?;
    Ok(row.id.into())
}

async fn removable(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    expected: Option<i64>,
) -> Result<Row, AgentError> {
    lock_workspace(c, actor.workspace.0).await?;
    let row = get_visible_row(c, actor, reference).await?;
    if expected.is_some_and(|version| version != row.version) {
        return Err(AgentError::Stale(Box::new(row.into())));
    }
    if row.is_default() {
        return Err(AgentError::DefaultMustStay);
    }
    Ok(row)
}
