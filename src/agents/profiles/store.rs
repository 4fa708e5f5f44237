//! Writing agents: the row, its version, what is found by it, and the agents below it.

use sha2::{Digest, Sha256};

use super::{
    AccessControl, Agent, Base, Brief, Profile, Row,
    announce::{Before, People, announce},
    find::get_row,
    form::INSTRUCTIONS_BYTES_MAX,
    inherit::{self, Merged},
};
use crate::agents::AgentError;
use crate::{
    auth::handles,
    db::{Conn, DbError, Json, now},
    ids::{AgentId, UserId, WorkspaceId},
};

/// Agents that one statement brings up to date after their base.
const CHILDREN_AT_ONCE: i64 = 100;

/// A row to insert: a new agent in its first version.
#[derive(Debug, Clone)]
pub struct FirstVersion {
    pub name: String,
    pub status: &'static str,
    pub mentionable: bool,
    pub profile: Profile,
    pub created_by: Option<UserId>,
    /// What is said of the version.
    pub summary: String,
}

/// Inserts an agent, its first version and its handle. Appends no event.
///
/// # Errors
/// `NameTaken`, and those of its base.
pub async fn insert_agent(
    c: &mut Conn,
    workspace: WorkspaceId,
    first: &FirstVersion,
) -> Result<AgentId, AgentError> {
    let id = AgentId::new();
    let merged = inherit::resolve(c, workspace, None, None, &first.profile).await?;
    check_size(&first.name, &merged)?;
    if !handles::claim(c, workspace, &first.name, handles::Owner::Agent, id.0).await? {
        return Err(AgentError::NameTaken(first.name.clone()));
    }
    c.q("insert into agents (id, workspace_id, name, status, is_system, mentionable, version, profile, summary, access, base_id, \
         created_by, created_at, updated_at) values ($1, $2, $3, $4, FALSE, $5, 1, $6, $7, $8, $9, $10, $11, $11)")
        .bind(id)
        .bind(workspace)
        .bind(first.name.clone())
        .bind(first.status)
        .bind(first.mentionable)
        .bind(Json(first.profile.clone()))
        .bind(Json(Brief::new(&first.profile, &merged.profile)))
        .bind(merged.profile.access_control.clone().map(Json))
        .bind(first.profile.base_profile_id)
        .bind(first.created_by)
        .bind(now())
        .run()
        .await?;
    let version = Version {
        agent: id,
        version: 1,
        name: &first.name,
        status: first.status,
        mentionable: first.mentionable,
        profile: &first.profile,
        merged: &merged,
    };
    insert_version(c, &version, first.created_by, &first.summary).await?;
    index_metadata(c, workspace, id, &first.profile).await?;
    Ok(id)
}

/// What becomes of an agent.
pub(super) struct Wanted<'a> {
    pub(super) name: &'a str,
    pub(super) status: &'static str,
    pub(super) mentionable: bool,
    pub(super) profile: Profile,
    /// What is said of the version; `None` names the fields that differ.
    pub(super) summary: Option<String>,
    /// The version of `If-Match`.
    pub(super) expected: Option<i64>,
}

/// Stores a change as a new version and announces it; nothing when nothing differs and no summary asks for a version. The
/// workspace is locked.
///
/// # Errors
/// `Stale` with the agent as it is, `NameTaken`, and those of its base.
pub(super) async fn store(
    c: &mut Conn,
    by: UserId,
    row: &Row,
    wanted: Wanted<'_>,
) -> Result<Agent, AgentError> {
    let unchanged = wanted.summary.is_none()
        && wanted.name == row.name
        && wanted.profile == row.profile.0
        && wanted.mentionable == row.mentionable
        && wanted.status == row.status;
    if unchanged && wanted.expected.is_none_or(|version| version == row.version) {
        return Ok(row.clone().into());
    }
    let before_base = row.profile.0.base_profile_id;
    let merged = inherit::resolve(
        c,
        row.workspace_id,
        Some(row.id),
        before_base,
        &wanted.profile,
    )
    .await?;
    check_size(wanted.name, &merged)?;
    if wanted.name != row.name {
        handles::release(c, row.workspace_id, row.id.0).await?;
        if !handles::claim(
            c,
            row.workspace_id,
            wanted.name,
            handles::Owner::Agent,
            row.id.0,
        )
        .await?
        {
            return Err(AgentError::NameTaken(wanted.name.to_owned()));
        }
    }
    // The version is decided inside the update, so that of any number of parallel editors of one version one wins.
    let updated: Option<(i64,)> = c
        .q("update agents set profile = $3, mentionable = $4, status = $5, name = $6, summary = $7, access = $8, base_id = $9, \
            version = version + 1, updated_at = $10 where workspace_id = $1 and id = $2 and version = $11 returning version")
        .bind(row.workspace_id)
        .bind(row.id)
        .bind(Json(wanted.profile.clone()))
        .bind(wanted.mentionable)
        .bind(wanted.status)
        .bind(wanted.name.to_owned())
        .bind(Json(Brief::new(&wanted.profile, &merged.profile)))
        .bind(merged.profile.access_control.clone().map(Json))
        .bind(wanted.profile.base_profile_id)
        .bind(now())
        .bind(wanted.expected.unwrap_or(row.version))
        .opt()
        .await?;
    let Some((version,)) = updated else {
        return Err(AgentError::Stale(Box::new(row.clone().into())));
    };
    let summary = match &wanted.summary {
        Some(summary) => summary.clone(),
        None => change_summary(row, &wanted),
    };
    let stored = Version {
        agent: row.id,
        version,
        name: wanted.name,
        status: wanted.status,
        mentionable: wanted.mentionable,
        profile: &wanted.profile,
        merged: &merged,
    };
    insert_version(c, &stored, Some(by), &summary).await?;
    if wanted.profile.metadata != row.profile.0.metadata {
        index_metadata(c, row.workspace_id, row.id, &wanted.profile).await?;
    }
    let agent: Agent = get_row(c, row.workspace_id, row.id).await?.into();
    let kind = if wanted.status == "archived" && row.status != "archived" {
        "agent.archived"
    } else {
        "agent.updated"
    };
    let known = row.clone().into();
    let before = Before {
        agent: &known,
        access: row.access(),
    };
    let mut people = None;
    let access = merged.profile.access_control.as_ref();
    announce(c, kind, &agent, access, Some(before), &mut people).await?;
    let parent = Parent {
        base: Base {
            id: row.id,
            name: wanted.name.to_owned(),
            version,
        },
        merged,
    };
    refresh_children(c, by, row.workspace_id, parent, &mut people).await?;
    Ok(agent)
}

struct Version<'a> {
    agent: AgentId,
    version: i64,
    name: &'a str,
    status: &'a str,
    mentionable: bool,
    profile: &'a Profile,
    merged: &'a Merged,
}

async fn insert_version(
    c: &mut Conn,
    stored: &Version<'_>,
    changed_by: Option<UserId>,
    summary: &str,
) -> Result<(), DbError> {
    c.q("insert into agent_versions (agent_id, version, name, status, mentionable, profile, resolved, bases, change_summary, \
         changed_by, changed_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)")
        .bind(stored.agent)
        .bind(stored.version)
        .bind(stored.name.to_owned())
        .bind(stored.status.to_owned())
        .bind(stored.mentionable)
        .bind(Json(stored.profile.clone()))
        .bind(Json(stored.merged.profile.clone()))
        .bind(Json(stored.merged.bases.clone()))
        .bind(summary.to_owned())
        .bind(changed_by)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// The text under which agents with this pair of metadata are found.
pub(super) fn pair(key: &str, value: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(key.as_bytes());
    hash.update([0]);
    hash.update(value.as_bytes());
    hex::encode(hash.finalize())
}

async fn index_metadata(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: AgentId,
    profile: &Profile,
) -> Result<(), DbError> {
    c.q("delete from agent_metadata where agent_id = $1")
        .bind(id)
        .run()
        .await?;
    for (key, value) in &profile.metadata {
        c.q("insert into agent_metadata (workspace_id, pair, agent_id) values ($1, $2, $3)")
            .bind(workspace)
            .bind(pair(key, value))
            .bind(id)
            .run()
            .await?;
    }
    Ok(())
}

pub(super) fn check_size(name: &str, merged: &Merged) -> Result<(), AgentError> {
    let bytes = merged.profile.instructions.len();
    if !merged.bases.is_empty() && bytes > INSTRUCTIONS_BYTES_MAX {
        return Err(AgentError::ResolvedTooLarge(name.to_owned(), bytes));
    }
    Ok(())
}

/// An agent whose children are to follow it.
struct Parent {
    base: Base,
    merged: Merged,
}

#[derive(sqlx::FromRow)]
struct ChildRow {
    resolved: Json<Profile>,
    #[sqlx(flatten)]
    row: Row,
}

/// Makes a version of every agent below one that changed, wherever that changes what it says.
async fn refresh_children(
    c: &mut Conn,
    by: UserId,
    workspace: WorkspaceId,
    parent: Parent,
    people: &mut Option<People>,
) -> Result<(), AgentError> {
    let mut parents = vec![parent];
    while let Some(parent) = parents.pop() {
        let mut after = AgentId(uuid::Uuid::nil());
        loop {
            let children: Vec<ChildRow> = c
                .q("select a.id, a.workspace_id, a.name, a.status, a.is_system, a.mentionable, a.version, a.profile, a.summary, a.access, \
                    a.created_by, a.created_at, a.updated_at, w.default_agent_id, p.allowed_tools, v.resolved from agents a \
                    join workspaces w on w.id = a.workspace_id left join workspace_policies p on p.workspace_id = a.workspace_id \
                    join agent_versions v on v.agent_id = a.id and v.version = a.version \
                    where a.base_id = $1 and a.id > $2 order by a.id limit $3")
                .bind(parent.base.id)
                .bind(after)
                .bind(CHILDREN_AT_ONCE)
                .all()
                .await?;
            let Some(last) = children.last() else { break };
            after = last.row.id;
            for child in children {
                parents.push(refresh_child(c, by, workspace, &parent, child, people).await?);
            }
        }
    }
    Ok(())
}

/// A version of an agent after its base, if it says anything else now; otherwise its present version only names its bases as they
/// are.
async fn refresh_child(
    c: &mut Conn,
    by: UserId,
    workspace: WorkspaceId,
    parent: &Parent,
    child: ChildRow,
    people: &mut Option<People>,
) -> Result<Parent, AgentError> {
    let ChildRow { resolved, row } = child;
    let mut bases = parent.merged.bases.clone();
    bases.push(parent.base.clone());
    let merged = Merged {
        profile: inherit::merge(&parent.merged.profile, &row.profile.0),
        bases,
    };
    let base = |version| Base {
        id: row.id,
        name: row.name.clone(),
        version,
    };
    if merged.profile == resolved.0 {
        c.q("update agent_versions set bases = $3 where agent_id = $1 and version = $2")
            .bind(row.id)
            .bind(row.version)
            .bind(Json(merged.bases.clone()))
            .run()
            .await?;
        let base = base(row.version);
        return Ok(Parent { base, merged });
    }
    check_size(&row.name, &merged)?;
    let version: i64 = c
        .q("update agents set version = version + 1, access = $2, updated_at = $3, summary = $4 where id = $1 returning version")
        .bind(row.id)
        .bind(merged.profile.access_control.clone().map(Json))
        .bind(now())
        .bind(Json(Brief::new(&row.profile.0, &merged.profile)))
        .value()
        .await?;
    let stored = Version {
        agent: row.id,
        version,
        name: &row.name,
        status: &row.status,
        mentionable: row.mentionable,
        profile: &row.profile.0,
        merged: &merged,
    };
    let summary = format!(
        "base {} changed to version {}",
        parent.base.name, parent.base.version
    );
    insert_version(c, &stored, Some(by), &summary).await?;
    let agent: Agent = get_row(c, workspace, row.id).await?.into();
    let known: Agent = row.clone().into();
    let before = Before {
        agent: &known,
        access: row.access(),
    };
    let access: Option<&AccessControl> = merged.profile.access_control.as_ref();
    announce(c, "agent.updated", &agent, access, Some(before), people).await?;
    let base = base(version);
    Ok(Parent { base, merged })
}

/// Names the fields that differ.
fn change_summary(row: &Row, wanted: &Wanted<'_>) -> String {
    let before = serde_json::to_value(&row.profile.0).unwrap_or_default();
    let after = serde_json::to_value(&wanted.profile).unwrap_or_default();
    let mut changed: Vec<String> = after
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| before.get(key.as_str()) != Some(value))
        .map(|(key, _)| key.clone())
        .collect();
    if wanted.name != row.name {
        changed.push(format!("name: {}", wanted.name));
    }
    if wanted.mentionable != row.mentionable {
        changed.push("mentionable".to_owned());
    }
    if wanted.status != row.status {
        changed.push(format!("status: {}", wanted.status));
    }
    format!("changed {}", changed.join(", "))
}
