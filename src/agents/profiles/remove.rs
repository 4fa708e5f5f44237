//! Archiving agents and deleting them permanently.

use serde::Serialize;

use super::{
    Agent, AgentStatus, Row,
    agent::AgentObject,
    announce::announce,
    batch::{Batch, Page},
    change::{audit, get_editable_row},
    store::{Origin, ProfileWrite, store},
};
use crate::agents::{AgentError, derived};
use crate::{
    auth::{Actor, AuditAction, Scope, handles, quota},
    db::{Conn, dialect::lock_workspace, now},
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

/// Archives an agent. It can no longer be invoked, but its versions, files, and name are kept.
///
/// # Errors
/// `NotFound`, `NotEditor`, `DefaultMustStay`, `Stale`, or an error from `Actor::require`.
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
        comment: None,
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

/// Deletes some of the oldest versions and entries of an agent to prepare for `delete_agent`, because deleting much data in one
/// transaction would delay other writes. An agent with so much data is archived first. Returns true if the function has to be called
/// again.
///
/// # Errors
/// Same as `delete_agent`.
pub async fn delete_history(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    expected: Option<i64>,
) -> Result<bool, AgentError> {
    actor.require(Scope::AgentsAdmin)?;
    let row = removable(c, actor, reference, expected).await?;
    check_childless(c, row.id).await?;
    let mut batch = Batch::new();
    let versions = old_versions(c, &row, &mut batch).await?;
    let files = old_file_versions(c, row.id, &mut batch).await?;
    let entries = derived::entries_of(c, row.id, batch.limit()).await?;
    let has_few_entries = i64::try_from(entries.len()).is_ok_and(|n| n < batch.limit());
    let has_few_versions = versions.next.is_none() && files.next.is_none() && !batch.is_full();
    if has_few_versions && has_few_entries {
        return Ok(false);
    }
    if row.status != AgentStatus::Archived {
        // No version is created, because a full workspace cannot store any.
        c.q("update agents set status = $2, updated_at = $3 where id = $1")
            .bind(row.id)
            .bind(AgentStatus::Archived)
            .bind(now())
            .run()
            .await?;
        announce_archived(c, &row).await?;
        return Ok(true);
    }
    for version in versions.items {
        c.q("delete from agent_versions where agent_id = $1 and version = $2")
            .bind(row.id)
            .bind(version)
            .run()
            .await?;
    }
    if let Some((path, version)) = files.items.last() {
        c.q("delete from agent_file_versions where owner_id = $1 and (path < $2 or (path = $2 and version <= $3))")
            .bind(row.id)
            .bind(path.clone())
            .bind(*version)
            .run()
            .await?;
    }
    derived::forget_all(c, entries).await?;
    quota::count_agent_bytes(c, actor.workspace, -(versions.bytes + files.bytes)).await?;
    Ok(true)
}

/// Selects a batch of an agent's earlier versions, the latest ones first, because these can read their profiles from older ones. The
/// version from which the current one reads its profile is left out.
async fn old_versions(c: &mut Conn, row: &Row, batch: &mut Batch) -> Result<Page<i64>, AgentError> {
    let found: Vec<(i64, i64)> = c
        .q("select version, bytes from agent_versions where agent_id = $1 and version < $2 and version <> \
            coalesce((select v.profile_of from agent_versions v where v.agent_id = $1 and v.version = $2), 0) \
            order by version desc limit $3")
        .bind(row.id)
        .bind(row.version)
        .bind(batch.limit())
        .all()
        .await?;
    Ok(batch.take(&found))
}

async fn old_file_versions(
    c: &mut Conn,
    agent: AgentId,
    batch: &mut Batch,
) -> Result<Page<(String, i64)>, AgentError> {
    let found: Vec<(String, i64, i64)> = c
        .q("select path, version, cast(coalesce(octet_length(content), 0) + $2 as bigint) from agent_file_versions where owner_id = $1 \
            order by path, version limit $3")
        .bind(agent)
        .bind(quota::ROW_BYTES)
        .bind(batch.limit())
        .all()
        .await?;
    let sized = |(path, version, bytes)| ((path, version), bytes);
    let found: Vec<_> = found.into_iter().map(sized).collect();
    Ok(batch.take(&found))
}

async fn check_childless(c: &mut Conn, agent: AgentId) -> Result<(), AgentError> {
    let child: Option<(AgentId,)> = c
        .q("select id from agents where base_id = $1 limit 1")
        .bind(agent)
        .opt()
        .await?;
    child.map_or(Ok(()), |_| Err(AgentError::HasChildren))
}

/// Deletes an agent with its versions, files, and name. `delete_history` must have returned false before, and the caller must have
/// ended the tasks of the agent.
///
/// # Errors
/// `NotFound`, `NotEditor`, `DefaultMustStay`, `HasChildren`, `Stale`, or an error from `Actor::require`.
pub async fn delete_agent(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    expected: Option<i64>,
) -> Result<Archived, AgentError> {
    actor.require(Scope::AgentsAdmin)?;
    let row = removable(c, actor, reference, expected).await?;
    check_childless(c, row.id).await?;
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
    // Keeps the agent's name, because its messages still show it.
    c.q("insert into agent_names (agent_id, workspace_id, name) values ($1, $2, $3) on conflict (agent_id) do nothing")
        .bind(row.id)
        .bind(actor.workspace)
        .bind(row.profile.0.shown_name(&row.name).to_owned())
        .run()
        .await?;
    let entries = derived::entries_of(c, row.id, i64::MAX).await?;
    derived::forget_all(c, entries).await?;
    // Versions and metadata are deleted by a cascade.
    c.q("delete from agents where workspace_id = $1 and id = $2")
        .bind(actor.workspace)
        .bind(row.id)
        .run()
        .await?;
    let data = serde_json::json!({"name": row.name, "version": row.version});
    audit(c, actor, AuditAction::AgentDeleted, row.id, data).await?;
    announce_archived(c, &row).await?;
    Ok(row.id.into())
}

async fn announce_archived(c: &mut Conn, row: &Row) -> Result<(), AgentError> {
    let mut shown = Agent::from(row.clone());
    shown.summary.status = AgentStatus::Archived;
    let (archived, access) = (EventType::AgentArchived, row.access());
    Ok(announce(c, archived, &shown, access, None, &mut None).await?)
}

async fn removable(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    expected: Option<i64>,
) -> Result<Row, AgentError> {
    lock_workspace(c, actor.workspace.0).await?;
    let row = get_editable_row(c, actor, reference).await?;
    if expected.is_some_and(|version| version != row.version) {
        return Err(AgentError::Stale(Box::new(row.into())));
    }
    if row.is_default() {
        return Err(AgentError::DefaultMustStay);
    }
    Ok(row)
}
