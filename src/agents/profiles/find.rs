//! Lookup of individual agents.

use uuid::Uuid;

use super::{
    AccessControl, Agent, AgentStatus, Authors, Brief, Profile, Row, merged_columns::MergedColumns,
    parts, tools::NamedTools,
};
use crate::agents::{AgentError, skills::find_missing};
use crate::{
    auth::{Actor, Role, Scope, handles::OwnerType},
    db::{Conn, DbError, Json},
    ids::{AgentId, UserId, WorkspaceId},
};

/// A version of an agent with its bases merged in, as used for a reply.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub agent: AgentId,
    pub version: i64,
    pub name: String,
    /// The agent's current display name.
    pub shown_name: String,
    pub profile: Profile,
    /// The agent's own instructions, if those of its bases come before them in `profile`.
    pub own_instructions: Option<String>,
}

/// An agent that can be invoked, with the version that an unbound mention uses.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct InvocableAgent {
    pub id: AgentId,
    pub version: i64,
    access: Option<Json<AccessControl>>,
}

impl InvocableAgent {
    /// Returns true if the actor can invoke the agent. An agent that the actor cannot invoke is treated as absent.
    pub fn can_be_invoked_by(&self, actor: &Actor<'_>) -> bool {
        parts::can_invoke(self.access.as_ref().map(|access| &access.0), actor)
    }
}

/// Owner of a handle.
#[derive(Debug, Clone)]
pub enum HandleOwner {
    Person(UserId),
    /// Only an agent that can be invoked: active, mentionable, and not a system agent.
    Agent(InvocableAgent),
}

/// Returns `None` if the handle is unused or belongs to an agent that cannot be invoked.
pub async fn find_by_handle(
    c: &mut Conn,
    workspace: WorkspaceId,
    handle: &str,
) -> Result<Option<HandleOwner>, DbError> {
    let row: Option<HandleRow> = c
        .q("select h.owner_type, h.owner_id, a.version, a.access, \
            coalesce(a.status = 'active' and a.mentionable and not a.is_system, FALSE) as invocable \
            from handles h left join agents a on h.owner_type = 'agent' and a.id = h.owner_id \
            where h.workspace_id = $1 and h.handle = $2")
        .bind(workspace)
        .bind(handle.to_owned())
        .opt()
        .await?;
    Ok(row.and_then(|row| match (row.owner_type, row.version) {
        (OwnerType::Person, _) => Some(HandleOwner::Person(UserId(row.owner_id))),
        (OwnerType::Agent, Some(version)) if row.invocable => {
            Some(HandleOwner::Agent(InvocableAgent {
                id: AgentId(row.owner_id),
                version,
                access: row.access,
            }))
        }
        _ => None,
    }))
}

#[derive(sqlx::FromRow)]
struct HandleRow {
    owner_type: OwnerType,
    owner_id: Uuid,
    version: Option<i64>,
    access: Option<Json<AccessControl>>,
    invocable: bool,
}

/// Finds an agent by ID that the actor can bind to a conversation. Returns `None` if it is inactive, archived, in
/// another workspace, or not available to the actor.
pub async fn find_invocable(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: AgentId,
) -> Result<Option<InvocableAgent>, DbError> {
    let found: Option<InvocableAgent> = c
        .q("select id, version, access from agents where workspace_id = $1 and id = $2 and status = 'active' and not is_system")
        .bind(actor.workspace)
        .bind(id)
        .opt()
        .await?;
    Ok(found.filter(|agent| agent.can_be_invoked_by(actor)))
}

/// Finds an agent by ID that is inactive and that the actor could use if it were active.
pub async fn find_turned_off(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: AgentId,
) -> Result<Option<InvocableAgent>, DbError> {
    let found: Option<InvocableAgent> = c
        .q("select id, version, access from agents where workspace_id = $1 and id = $2 and status = 'inactive' and not is_system")
        .bind(actor.workspace)
        .bind(id)
        .opt()
        .await?;
    Ok(found.filter(|agent| agent.can_be_invoked_by(actor)))
}

/// Finds an agent that the actor can use, by ID, by name, or as `main` for the default agent. Returns `None` if it
/// is inactive, archived, in another workspace, or not available to the actor.
pub async fn find_usable(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
) -> Result<Option<InvocableAgent>, DbError> {
    if reference == "main" {
        let found = find_default(c, actor.workspace).await?;
        return Ok(found.filter(|agent| agent.can_be_invoked_by(actor)));
    }
    if let Ok(id) = reference.parse() {
        return find_invocable(c, actor, id).await;
    }
    let named = find_by_handle(c, actor.workspace, reference).await?;
    Ok(match named {
        Some(HandleOwner::Agent(agent)) if agent.can_be_invoked_by(actor) => Some(agent),
        _ => None,
    })
}

/// The workspace's default agent, which is always active.
pub async fn find_default(
    c: &mut Conn,
    workspace: WorkspaceId,
) -> Result<Option<InvocableAgent>, DbError> {
    c.q("select a.id, a.version, a.access from workspaces w join agents a on a.id = w.default_agent_id where w.id = $1 and a.status = 'active'")
        .bind(workspace)
        .opt()
        .await
}

/// Newest version of an agent, regardless of its status; `None` if the agent was permanently deleted.
pub async fn newest_version(c: &mut Conn, id: AgentId) -> Result<Option<i64>, DbError> {
    let row: Option<(i64,)> = c
        .q("select version from agents where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

/// Returns true if the agent exists in the workspace and the actor can see it.
pub async fn is_visible(c: &mut Conn, actor: &Actor<'_>, id: AgentId) -> Result<bool, DbError> {
    let row: Option<(Option<Json<AccessControl>>,)> = c
        .q("select access from agents where id = $1 and workspace_id = $2")
        .bind(id)
        .bind(actor.workspace)
        .opt()
        .await?;
    Ok(row.is_some_and(|(access,)| parts::may_see(access.as_ref().map(|a| &a.0), actor)))
}

/// Returns true if the agent exists but the actor cannot see it.
pub async fn is_hidden(c: &mut Conn, actor: &Actor<'_>, id: AgentId) -> Result<bool, DbError> {
    let row: Option<(Option<Json<AccessControl>>,)> = c
        .q("select access from agents where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.is_some_and(|(access,)| !parts::may_see(access.as_ref().map(|a| &a.0), actor)))
}

/// Agents of the workspace that the actor cannot see.
pub async fn list_hidden(c: &mut Conn, actor: &Actor<'_>) -> Result<Vec<AgentId>, DbError> {
    let limited: Vec<(AgentId, Json<AccessControl>)> = c
        .q("select id, access from agents where workspace_id = $1 and access is not null order by id")
        .bind(actor.workspace)
        .all()
        .await?;
    let hidden = limited
        .into_iter()
        .filter(|(_, access)| !parts::may_see(Some(&access.0), actor));
    Ok(hidden.map(|(id, _)| id).collect())
}

/// Returns true if the agent exists but its access lists exclude the actor.
pub async fn cannot_invoke(c: &mut Conn, actor: &Actor<'_>, id: AgentId) -> Result<bool, DbError> {
    let lists = find_lists(c, id).await?;
    Ok(lists.is_some_and(|lists| !parts::permits(lists.as_ref(), actor.user, actor.role)))
}

/// Access lists of an agent: `None` if the agent does not exist, `Some(None)` if everyone can use it.
async fn find_lists(c: &mut Conn, id: AgentId) -> Result<Option<Option<AccessControl>>, DbError> {
    let row: Option<(Option<Json<AccessControl>>,)> = c
        .q("select access from agents where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|(access,)| access.map(|access| access.0)))
}

/// Returns true if the agent is active, and false if it is inactive, archived, or permanently deleted.
pub async fn is_active(c: &mut Conn, id: AgentId) -> Result<bool, DbError> {
    let row: Option<(AgentStatus,)> = c
        .q("select status from agents where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.is_some_and(|row| row.0 == AgentStatus::Active))
}

/// Returns true if the agent is active and a person in its workspace can invoke it with a session.
pub async fn is_invocable_by(c: &mut Conn, id: AgentId, user: UserId) -> Result<bool, DbError> {
    let row: Option<(AgentStatus, Option<Json<AccessControl>>, Role)> = c
        .q("select a.status, a.access, m.role from agents a \
            join members m on m.workspace_id = a.workspace_id and m.user_id = $2 where a.id = $1")
        .bind(id)
        .bind(user)
        .opt()
        .await?;
    Ok(row.is_some_and(|(status, access, role)| {
        status == AgentStatus::Active
            && role.scopes().has(Scope::AgentsUse)
            && parts::permits(access.as_ref().map(|access| &access.0), user, role)
    }))
}

/// An agent that a person can invoke, as offered for selection.
#[derive(Debug, Clone)]
pub struct ListedAgent {
    pub id: AgentId,
    pub version: i64,
    pub handle: String,
    /// Display name.
    pub name: String,
    pub description: Option<String>,
    pub tags: Vec<String>,
}

impl ListedAgent {
    pub fn is_described(&self) -> bool {
        self.description.is_some() || !self.tags.is_empty()
    }
}

/// Maximum number of agents that `list_invocable_by` considers.
const LISTED_AMONG: i64 = 1_000;

/// Lists the agents that a person can mention, ordered by handle.
pub async fn list_invocable_by(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<Vec<ListedAgent>, DbError> {
    let rows: Vec<InvocableRow> = c
        .q("select a.id, a.version, a.name, a.summary, a.access, m.role from agents a \
            join members m on m.workspace_id = a.workspace_id and m.user_id = $2 \
            where a.workspace_id = $1 and a.status = 'active' and a.mentionable and not a.is_system order by a.name limit $3")
        .bind(workspace)
        .bind(user)
        .bind(LISTED_AMONG)
        .all()
        .await?;
    let can_invoke = |row: &InvocableRow| {
        row.role.scopes().has(Scope::AgentsUse)
            && parts::permits(row.access.as_ref().map(|access| &access.0), user, row.role)
    };
    let rows = rows.into_iter().filter(can_invoke);
    Ok(rows
        .map(|row| ListedAgent {
            id: row.id,
            version: row.version,
            name: row
                .summary
                .0
                .display_name
                .unwrap_or_else(|| row.name.clone()),
            handle: row.name,
            description: row.summary.0.description,
            tags: row.summary.0.capabilities,
        })
        .collect())
}

#[derive(sqlx::FromRow)]
struct InvocableRow {
    id: AgentId,
    version: i64,
    name: String,
    summary: Json<Brief>,
    access: Option<Json<AccessControl>>,
    role: Role,
}

/// The resolved profile that tasks of this version use.
pub async fn get_resolved(c: &mut Conn, id: AgentId, version: i64) -> Result<Resolved, DbError> {
    let found = find_resolved(c, id, version).await?;
    found.ok_or_else(|| sqlx::Error::RowNotFound.into())
}

/// The resolved profile of a version; `None` if the agent was permanently deleted.
pub async fn find_resolved(
    c: &mut Conn,
    id: AgentId,
    version: i64,
) -> Result<Option<Resolved>, DbError> {
    let found: Option<ResolvedRow> = c
        .q(concat!(
            "select a.name, coalesce(a.summary ->> 'display_name', a.name) as shown_name, ",
            merged_sql!(),
            " from agent_versions v join agents a on a.id = v.agent_id",
            profile_row_sql!(),
            "where v.agent_id = $1 and v.version = $2"
        ))
        .bind(id)
        .bind(version)
        .opt()
        .await?;
    Ok(found.map(|row| Resolved {
        agent: id,
        version,
        name: row.name,
        shown_name: row.shown_name,
        profile: row.merged.profile(),
        own_instructions: row.merged.own_instructions(),
    }))
}

#[derive(sqlx::FromRow)]
struct ResolvedRow {
    name: String,
    shown_name: String,
    #[sqlx(flatten)]
    merged: MergedColumns,
}

/// Display name of an agent, including one that was permanently deleted.
pub async fn shown_name(c: &mut Conn, id: AgentId) -> Result<String, DbError> {
    let row: Option<(String,)> = c
        .q(
            "select coalesce(summary ->> 'display_name', name) from agents where id = $1 \
            union all select name from agent_names where agent_id = $1",
        )
        .bind(id)
        .opt()
        .await?;
    Ok(row.map_or_else(|| "The agent".to_owned(), |row| row.0))
}

pub(super) async fn find_row(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: AgentId,
) -> Result<Option<Row>, DbError> {
    let row: Option<Row> = c
        .q(agent_sql!("where a.workspace_id = $1 and a.id = $2"))
        .bind(workspace)
        .bind(id)
        .opt()
        .await?;
    let Some(mut row) = row else {
        return Ok(None);
    };
    row.servers = NamedTools::read(c, workspace, &row.profile.0.tools).await?;
    row.authors = Authors::read(c, row.id, row.version, &row.profile.0).await?;
    row.missing_skills = find_missing(c, workspace, row.profile.0.skills.as_ref()).await?;
    Ok(Some(row))
}

pub(super) async fn get_row(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: AgentId,
) -> Result<Row, AgentError> {
    find_row(c, workspace, id)
        .await?
        .ok_or(AgentError::NotFound)
}

/// Finds an agent that the actor can see, by ID or as `main`.
///
/// # Errors
/// `NotFound`, or `BadId` if the reference is neither.
pub(super) async fn get_visible_row(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
) -> Result<Row, AgentError> {
    let id = id_of(c, actor.workspace, reference).await?;
    let row = get_row(c, actor.workspace, id).await?;
    if parts::may_see(row.access(), actor) {
        Ok(row)
    } else {
        Err(AgentError::NotFound)
    }
}

/// The profile of an agent that the actor can see, as written.
///
/// # Errors
/// `NotFound`.
pub(in crate::agents) async fn get_visible_profile(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: AgentId,
) -> Result<Profile, AgentError> {
    let row = get_visible_row(c, actor, &id.to_string()).await?;
    Ok(row.profile.0)
}

async fn id_of(
    c: &mut Conn,
    workspace: WorkspaceId,
    reference: &str,
) -> Result<AgentId, AgentError> {
    if reference != "main" {
        return Ok(reference.parse()?);
    }
    let id: Option<AgentId> = c
        .q("select default_agent_id from workspaces where id = $1")
        .bind(workspace)
        .value()
        .await?;
    id.ok_or(AgentError::NotFound)
}

/// # Errors
/// `NotFound`, also for an agent in another workspace.
pub async fn get_agent(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: AgentId,
) -> Result<Agent, AgentError> {
    Ok(get_row(c, workspace, id).await?.into())
}

/// # Errors
/// `NotFound`, also for an agent that the actor cannot see.
pub async fn get_visible(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: AgentId,
) -> Result<Agent, AgentError> {
    get_by_reference(c, actor, &id.to_string()).await
}

/// Finds an agent by `agent_…`, or the workspace's default as `main`.
///
/// # Errors
/// `NotFound`, or `BadId` if the reference is neither.
pub async fn get_by_reference(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
) -> Result<Agent, AgentError> {
    Ok(get_visible_row(c, actor, reference).await?.into())
}
