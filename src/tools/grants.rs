//! Permissions to call a function without an approval for an hour.

use std::{collections::BTreeSet, time::Duration};

use serde::Serialize;
use uuid::Uuid;

use super::{function::ToolFunction, runner::ToolTask, taint::SEEN_MAX};
use crate::{
    db::{Conn, DbError, Json, now},
    ids::{AgentId, ForkId, GrantId, ThreadId, ToolId, UserId, WorkspaceId},
    mcp::{Effect, Risk},
    tasks::actions::{Action, ActionSource, TaintKind},
    text_enum::constant,
    time::Timestamp,
};

/// Time for which a permission is valid.
const HOLDS_FOR: Duration = Duration::from_hours(1);
/// Maximum number of calls per permission, including the approved action's own call.
const USES_MAX: i64 = 20;
/// Maximum number of permissions in a list.
const LISTED_MAX: i64 = 100;

constant! { pub GrantConstant = "grant" }

/// A permission to call a function without an approval for an hour.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[schema(as = Grant)]
pub struct GrantObject {
    pub id: GrantId,
    #[schema(inline)]
    pub object: GrantConstant,
    pub agent_id: AgentId,
    pub requested_by: UserId,
    pub thread_id: ThreadId,
    pub fork_id: Option<ForkId>,
    /// The registered tool; null for built-in functions.
    pub tool: Option<ToolId>,
    pub function: String,
    pub title: String,
    /// Host to which calls are restricted, if any.
    pub host: Option<String>,
    /// Labels of the sources that the task may have seen. The permission does not apply to writes of a task that has seen others, and to
    /// reads of a task whose agent is shaped by texts of other authors.
    pub labels: Vec<String>,
    /// Number of calls that were permitted so far, of at most 20.
    pub uses: i64,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, sqlx::FromRow)]
struct Grant {
    id: GrantId,
    agent_id: AgentId,
    requested_by: UserId,
    thread_id: ThreadId,
    fork_id: Option<ForkId>,
    tool_id: Option<ToolId>,
    function: String,
    title: String,
    host: Option<String>,
    sources: Json<Vec<ActionSource>>,
    uses: i64,
    created_at: Timestamp,
    expires_at: Timestamp,
}

macro_rules! grant_sql {
    ($tail:literal) => {
        concat!(
            "select id, agent_id, requested_by, thread_id, fork_id, tool_id, function, title, host, sources, uses, created_at, expires_at \
             from grants ",
            $tail
        )
    };
}

impl From<Grant> for GrantObject {
    fn from(grant: Grant) -> Self {
        let labels = grant.sources.0.into_iter().map(|source| source.label);
        let labels: BTreeSet<String> = labels.collect();
        Self {
            id: grant.id,
            object: GrantConstant,
            agent_id: grant.agent_id,
            requested_by: grant.requested_by,
            thread_id: grant.thread_id,
            fork_id: grant.fork_id,
            tool: grant.tool_id,
            function: grant.function,
            title: grant.title,
            host: grant.host,
            labels: labels.into_iter().collect(),
            uses: grant.uses,
            created_at: grant.created_at,
            expires_at: grant.expires_at,
        }
    }
}

/// Stores the permission that the requester gives with an approval. The approved action's own call is its first use.
pub async fn insert(c: &mut Conn, action: &Action) -> Result<Option<GrantId>, DbError> {
    let (Some(agent), Some(thread)) = (action.agent_id, action.thread_id) else {
        return Ok(None);
    };
    let id = GrantId::new();
    let at = now();
    let mut on_card = action.sources.0.clone();
    on_card.retain(ActionSource::counts);
    c.q("insert into grants (id, workspace_id, agent_id, requested_by, thread_id, fork_id, tool_id, function, title, host, sources, uses, \
         created_at, expires_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 1, $12, $13)")
        .bind(id)
        .bind(action.workspace_id)
        .bind(agent)
        .bind(action.requested_by)
        .bind(thread)
        .bind(action.fork_id)
        .bind(action.tool_id)
        .bind(action.function.clone())
        .bind(action.title.clone())
        .bind(action.host.clone())
        .bind(Json(on_card))
        .bind(at)
        .bind(at + HOLDS_FOR)
        .run()
        .await?;
    c.q("update actions set grant_id = $2 where id = $1")
        .bind(action.id)
        .bind(id)
        .run()
        .await?;
    Ok(Some(id))
}

/// Uses a permission for a call that only the requester would have to approve, if there is one. The use is counted when the call is
/// decided, so that the calls of one round cannot share it. Permissions are given in a browser and do not cover tasks that an API key
/// started.
pub async fn take_use(
    c: &mut Conn,
    task: &ToolTask,
    function: &ToolFunction,
    host: Option<&str>,
    seen: &[ActionSource],
) -> Result<Option<GrantId>, DbError> {
    if task.api_key.is_some() || !function.is_grantable || function.risk == Risk::Escalate {
        return Ok(None);
    }
    let grants: Vec<Grant> = c
        .q(grant_sql!(
            "where workspace_id = $1 and requested_by = $2 and agent_id = $3 and thread_id = $4 and function = $5 \
             and uses < $6 and expires_at > $7 order by id limit 100"
        ))
        .bind(task.workspace)
        .bind(task.requester)
        .bind(task.agent)
        .bind(task.thread)
        .bind(function.name().to_owned())
        .bind(USES_MAX)
        .bind(now())
        .all()
        .await?;
    // Reads are allowed whatever else the task has seen, but not for an agent that texts of other authors shape.
    let is_asked_about = |source: &&ActionSource| {
        source.counts() && (function.effect != Effect::Read || source.kind == TaintKind::Author)
    };
    let covers = |grant: &Grant| {
        let knows = |source: &ActionSource| {
            // Results of the function's own server appear among the sources of each of its calls.
            let is_own = source.kind == TaintKind::Mcp
                && (function.server_function.as_ref())
                    .is_some_and(|of| of.tool.0 == source.source_id);
            // Sources are compared by ID. Labels are not unique, because people choose their own names and file names.
            let is_known = |known: &ActionSource| {
                (known.kind, known.source_id) == (source.kind, source.source_id)
            };
            is_own || grant.sources.0.iter().any(is_known)
        };
        grant.fork_id == task.fork
            && grant.tool_id == function.tool()
            && grant.host.as_deref() == host
            && seen.len() < SEEN_MAX
            && seen.iter().filter(is_asked_about).all(knows)
    };
    for grant in grants.iter().filter(|grant| covers(grant)) {
        let used = c
            .q("update grants set uses = uses + 1 where id = $1 and uses < $2 and expires_at > $3")
            .bind(grant.id)
            .bind(USES_MAX)
            .bind(now())
            .run()
            .await?;
        if used == 1 {
            return Ok(Some(grant.id));
        }
    }
    Ok(None)
}

/// Checks whether a permission has neither expired nor been revoked. Its uses do not matter, because a call takes its use when it is
/// decided.
pub async fn is_valid(c: &mut Conn, id: Uuid) -> Result<bool, DbError> {
    let found: Option<(GrantId,)> = c
        .q("select id from grants where id = $1 and expires_at > $2")
        .bind(id)
        .bind(now())
        .opt()
        .await?;
    Ok(found.is_some())
}

/// Valid permissions that a person gave, oldest first.
pub async fn list(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<Vec<GrantObject>, DbError> {
    let grants: Vec<Grant> = c
        .q(grant_sql!(
            "where workspace_id = $1 and requested_by = $2 and uses < $3 and expires_at > $4 order by id limit $5"
        ))
        .bind(workspace)
        .bind(user)
        .bind(USES_MAX)
        .bind(now())
        .bind(LISTED_MAX)
        .all()
        .await?;
    Ok(grants.into_iter().map(GrantObject::from).collect())
}

/// Workspace and owner of a permission.
pub async fn find_owner(
    c: &mut Conn,
    id: GrantId,
) -> Result<Option<(WorkspaceId, UserId)>, DbError> {
    c.q("select workspace_id, requested_by from grants where id = $1")
        .bind(id)
        .opt()
        .await
}

/// Revokes a permission. Returns whether it existed.
pub async fn delete(c: &mut Conn, id: GrantId) -> Result<bool, DbError> {
    let deleted = c
        .q("delete from grants where id = $1")
        .bind(id)
        .run()
        .await?;
    Ok(deleted == 1)
}

/// Deletes permissions that are no longer valid.
pub async fn delete_expired(c: &mut Conn) -> Result<u64, DbError> {
    c.q("delete from grants where expires_at < $1")
        .bind(now() - HOLDS_FOR)
        .run()
        .await
}
