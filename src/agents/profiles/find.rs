//! Reading agents.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{Agent, AgentSummary, Profile, Row};
use crate::agents::AgentError;
use crate::{
    db::{Conn, DbError, Json},
    ids::{AgentId, UserId, WorkspaceId},
};

/// What a turn runs with: an agent's version with everything merged in.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub agent: AgentId,
    pub version: i64,
    pub name: String,
    pub profile: Profile,
}

/// An agent that may be asked, with the version that a loose mention runs.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Askable {
    pub id: AgentId,
    pub version: i64,
}

/// Who has a handle.
#[derive(Debug, Clone)]
pub enum HandleOwner {
    Person(UserId),
    /// Only an agent that can be asked: active, mentionable, no system agent.
    Agent(Askable),
}

/// `None` when nobody has it, or an agent that cannot be asked.
pub async fn find_by_handle(
    c: &mut Conn,
    workspace: WorkspaceId,
    handle: &str,
) -> Result<Option<HandleOwner>, DbError> {
    let row: Option<HandleRow> = c
        .q("select h.owner_type, h.owner_id, a.version, \
            coalesce(a.status = 'active' and a.mentionable and not a.is_system, FALSE) as askable \
            from handles h left join agents a on h.owner_type = 'agent' and a.id = h.owner_id \
            where h.workspace_id = $1 and h.handle = $2")
        .bind(workspace)
        .bind(handle.to_owned())
        .opt()
        .await?;
    Ok(
        row.and_then(|row| match (row.owner_type.as_str(), row.version) {
            ("user", _) => Some(HandleOwner::Person(UserId(row.owner_id))),
            (_, Some(version)) if row.askable => Some(HandleOwner::Agent(Askable {
                id: AgentId(row.owner_id),
                version,
            })),
            _ => None,
        }),
    )
}

#[derive(sqlx::FromRow)]
struct HandleRow {
    owner_type: String,
    owner_id: Uuid,
    version: Option<i64>,
    askable: bool,
}

/// An agent by id that can be asked; `None` when it is inactive, archived, or of another workspace.
pub async fn find_askable(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: AgentId,
) -> Result<Option<Askable>, DbError> {
    c.q("select id, version from agents where workspace_id = $1 and id = $2 and status = 'active' and not is_system")
        .bind(workspace)
        .bind(id)
        .opt()
        .await
}

/// The workspace's default agent, which is always active.
pub async fn find_default(
    c: &mut Conn,
    workspace: WorkspaceId,
) -> Result<Option<Askable>, DbError> {
    c.q("select a.id, a.version from workspaces w join agents a on a.id = w.default_agent_id where w.id = $1 and a.status = 'active'")
        .bind(workspace)
        .opt()
        .await
}

/// The newest version of an agent, whatever its status.
pub async fn newest_version(c: &mut Conn, id: AgentId) -> Result<i64, DbError> {
    c.q("select version from agents where id = $1")
        .bind(id)
        .value()
        .await
}

/// The text that a version's tasks run with.
pub async fn get_resolved(c: &mut Conn, id: AgentId, version: i64) -> Result<Resolved, DbError> {
    let (name, profile): (String, Json<Profile>) = c
        .q("select a.name, v.resolved from agent_versions v join agents a on a.id = v.agent_id where v.agent_id = $1 and v.version = $2")
        .bind(id)
        .bind(version)
        .one()
        .await?;
    Ok(Resolved {
        agent: id,
        version,
        name,
        profile: profile.0,
    })
}

/// What people call the agent.
pub async fn shown_name(c: &mut Conn, id: AgentId) -> Result<String, DbError> {
    c.q("select coalesce(profile ->> 'display_name', name) from agents where id = $1")
        .bind(id)
        .value()
        .await
}

/// # Errors
/// `NotFound` also for an agent of another workspace.
pub async fn get_agent(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: AgentId,
) -> Result<Agent, AgentError> {
    let row: Option<Row> = c
        .q(agent_sql!("where a.workspace_id = $1 and a.id = $2"))
        .bind(workspace)
        .bind(id)
        .opt()
        .await?;
    row.map(Agent::from).ok_or(AgentError::NotFound)
}

/// `agent_…`, or `main` for the workspace's default.
///
/// # Errors
/// `NotFound`, or `BadId` when it is neither.
pub async fn get_by_reference(
    c: &mut Conn,
    workspace: WorkspaceId,
    reference: &str,
) -> Result<Agent, AgentError> {
    if reference == "main" {
        let id: Option<AgentId> = c
            .q("select default_agent_id from workspaces where id = $1")
            .bind(workspace)
            .value()
            .await?;
        return get_agent(c, workspace, id.ok_or(AgentError::NotFound)?).await;
    }
    get_agent(c, workspace, reference.parse()?).await
}

/// Which agents to list.
#[derive(Debug, Default)]
pub struct Filter {
    pub status: Option<String>,
    pub name: Option<String>,
    /// Every pair has to be there.
    pub metadata: BTreeMap<String, String>,
}

/// In the order in which they were made, after or before an agent.
///
/// # Errors
/// `NotFound` when that is no agent of this workspace.
pub async fn list_agents(
    c: &mut Conn,
    workspace: WorkspaceId,
    filter: &Filter,
    (after, before): (Option<AgentId>, Option<AgentId>),
    limit: i64,
) -> Result<Vec<AgentSummary>, AgentError> {
    if let Some(id) = after.or(before) {
        get_agent(c, workspace, id).await?;
    }
    let (mut low, mut high) = (
        after.unwrap_or(AgentId(Uuid::nil())),
        before.unwrap_or(AgentId(Uuid::max())),
    );
    let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut found: Vec<AgentSummary> = Vec::new();
    // Metadata is compared here, the same way for both engines; without it one round is enough.
    loop {
        let q = if before.is_some() {
            c.q(agent_sql!(
                "where a.workspace_id = $1 and a.id > $2 and a.id < $3 and (a.status = $4 or $4 is null) and (a.name = $5 or $5 is null) \
                 order by a.id desc limit $6"
            ))
        } else {
            c.q(agent_sql!(
                "where a.workspace_id = $1 and a.id > $2 and a.id < $3 and (a.status = $4 or $4 is null) and (a.name = $5 or $5 is null) \
                 order by a.id limit $6"
            ))
        };
        let rows: Vec<Row> = q
            .bind(workspace)
            .bind(low)
            .bind(high)
            .bind(filter.status.clone())
            .bind(filter.name.clone())
            .bind(limit)
            .all()
            .await?;
        let Some(last) = rows.last().map(|row| row.id) else {
            break;
        };
        let full = rows.len() == wanted;
        let has = |row: &Row, key: &String, value: &String| {
            row.profile.0.metadata.get(key) == Some(value)
        };
        let fits = |row: &Row| {
            filter
                .metadata
                .iter()
                .all(|(key, value)| has(row, key, value))
        };
        found.extend(
            rows.into_iter()
                .filter(fits)
                .map(|row| Agent::from(row).summary),
        );
        if !full || found.len() >= wanted {
            break;
        }
        *(if before.is_some() {
            &mut high
        } else {
            &mut low
        }) = last;
    }
    found.truncate(wanted);
    if before.is_some() {
        found.reverse();
    }
    Ok(found)
}
