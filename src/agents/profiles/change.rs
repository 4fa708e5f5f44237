//! Making and changing agents: each change is a version.

use super::{Agent, AgentEvent, Profile, Row};
use super::{
    AgentPatch, SettableStatus,
    find::{get_agent, get_by_reference},
    form::check,
};
use crate::agents::AgentError;
use crate::{
    auth::{Actor, Scope, handles},
    db::{Conn, DbError, Json, now},
    ids::{AgentId, UserId, WorkspaceId},
    realtime::{Audience, log},
};

/// A row to insert: a new agent in its first version.
pub struct FirstVersion {
    pub name: String,
    pub status: &'static str,
    pub mentionable: bool,
    pub profile: Profile,
    pub created_by: Option<UserId>,
}

/// Inserts an agent, its first version and its handle. `None` when the name is taken. Appends no event.
pub async fn insert_agent(
    c: &mut Conn,
    workspace: WorkspaceId,
    first: &FirstVersion,
) -> Result<Option<AgentId>, DbError> {
    let id = AgentId::new();
    if !handles::claim(c, workspace, &first.name, handles::Owner::Agent, id.0).await? {
        return Ok(None);
    }
    c.q("insert into agents (id, workspace_id, name, status, is_system, mentionable, version, profile, created_by, created_at, updated_at) \
         values ($1, $2, $3, $4, FALSE, $5, 1, $6, $7, $8, $8)")
        .bind(id)
        .bind(workspace)
        .bind(first.name.clone())
        .bind(first.status)
        .bind(first.mentionable)
        .bind(Json(first.profile.clone()))
        .bind(first.created_by)
        .bind(now())
        .run()
        .await?;
    insert_version(c, id, 1, &first.profile, first.created_by, "created").await?;
    Ok(Some(id))
}

async fn insert_version(
    c: &mut Conn,
    id: AgentId,
    version: i64,
    profile: &Profile,
    changed_by: Option<UserId>,
    summary: &str,
) -> Result<(), DbError> {
    c.q("insert into agent_versions (agent_id, version, profile, resolved, change_summary, changed_by, changed_at) \
         values ($1, $2, $3, $3, $4, $5, $6)")
        .bind(id)
        .bind(version)
        .bind(Json(profile.clone()))
        .bind(summary.to_owned())
        .bind(changed_by)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// # Errors
/// `NameTaken`, or what `Actor::require` says.
pub async fn create_agent(
    c: &mut Conn,
    actor: &Actor,
    first: &FirstVersion,
) -> Result<Agent, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    let id = insert_agent(c, actor.workspace, first)
        .await?
        .ok_or_else(|| AgentError::NameTaken(first.name.clone()))?;
    let agent = get_agent(c, actor.workspace, id).await?;
    log::append_one(
        c,
        actor.workspace,
        "agent.created",
        Audience::Workspace,
        &AgentEvent { agent: &agent },
    )
    .await?;
    Ok(agent)
}

/// Changes what the patch names, as a new version; nothing when it changes nothing. `expected` is the version of `If-Match`.
///
/// # Errors
/// `NotFound`, `Stale` with the agent as it is, `Invalid`, `DefaultMustStay`, or what `Actor::require` says.
pub async fn patch_agent(
    c: &mut Conn,
    actor: &Actor,
    reference: &str,
    patch: &AgentPatch,
    expected: Option<i64>,
) -> Result<Agent, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let agent = get_by_reference(c, actor.workspace, reference).await?;
    let id = agent.summary.id;
    let row: Row = c
        .q(agent_sql!("where a.workspace_id = $1 and a.id = $2"))
        .bind(actor.workspace)
        .bind(id)
        .one()
        .await?;
    let profile = patch.apply(&row.profile.0);
    check(&profile)?;
    let mentionable = patch.mentionable.unwrap_or(row.mentionable);
    let status = match patch.status {
        None => row.status.as_str(),
        Some(SettableStatus::Active) => "active",
        Some(SettableStatus::Inactive) => "inactive",
        Some(SettableStatus::Archived) => "archived",
    };
    if status != row.status {
        actor.require(Scope::AgentsAdmin)?;
        if status != "active" && agent.summary.is_default {
            return Err(AgentError::DefaultMustStay);
        }
    }
    let name = patch.name.as_deref().unwrap_or(&row.name);
    if name != row.name {
        handles::check(name, "name")?;
        handles::release(c, actor.workspace, id.0).await?;
        if !handles::claim(c, actor.workspace, name, handles::Owner::Agent, id.0).await? {
            return Err(AgentError::NameTaken(name.to_owned()));
        }
    }
    let unchanged = name == row.name
        && profile == row.profile.0
        && mentionable == row.mentionable
        && status == row.status;
    if unchanged && expected.is_none_or(|version| version == row.version) {
        return Ok(agent);
    }
    // The version is decided inside the update, so that of any number of parallel editors of one version one wins.
    let updated: Option<(i64,)> = c
        .q("update agents set profile = $3, mentionable = $4, status = $5, name = $8, version = version + 1, updated_at = $6 \
            where workspace_id = $1 and id = $2 and version = $7 returning version")
        .bind(actor.workspace)
        .bind(id)
        .bind(Json(profile.clone()))
        .bind(mentionable)
        .bind(status.to_owned())
        .bind(now())
        .bind(expected.unwrap_or(row.version))
        .bind(name.to_owned())
        .opt()
        .await?;
    let Some((version,)) = updated else {
        return Err(AgentError::Stale(Box::new(agent)));
    };
    let summary = change_summary(&row, &profile, name, mentionable, status);
    insert_version(c, id, version, &profile, Some(actor.user), &summary).await?;
    let agent = get_agent(c, actor.workspace, id).await?;
    let kind = if status == "archived" && row.status != "archived" {
        "agent.archived"
    } else {
        "agent.updated"
    };
    log::append_one(
        c,
        actor.workspace,
        kind,
        Audience::Workspace,
        &AgentEvent { agent: &agent },
    )
    .await?;
    Ok(agent)
}

/// Names the fields that differ.
fn change_summary(old: &Row, new: &Profile, name: &str, mentionable: bool, status: &str) -> String {
    let before = serde_json::to_value(&old.profile.0).unwrap_or_default();
    let after = serde_json::to_value(new).unwrap_or_default();
    let mut changed: Vec<String> = after
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| before.get(key.as_str()) != Some(value))
        .map(|(key, _)| key.clone())
        .collect();
    if name != old.name {
        changed.push(format!("name: {name}"));
    }
    if mentionable != old.mentionable {
        changed.push("mentionable".to_owned());
    }
    if status != old.status {
        changed.push(format!("status: {status}"));
    }
    format!("changed {}", changed.join(", "))
}
