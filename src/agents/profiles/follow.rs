//! Brings agents up to date with their bases, personas, and presets: in the background, and before they are invoked.
//!
//! Like a change to a base (`refresh`), the approval of a persona creates a version of every agent that uses it. The first few
//! versions are created in the transaction of the approval, and the others later. Agents that inherit from them are refreshed as
//! after any other change.

use super::{
    Profile,
    batch::Batch,
    find::find_row,
    preset::advance_presets,
    refresh::{self, FIRST},
    store::{Origin, ProfileWrite, store},
};
use crate::{
    agents::{AgentError, personas},
    auth::{Actor, AuthError, Scope, WorkspaceCaller, quota},
    db::{Conn, Db, DbError, dialect::lock_workspace, now},
    ids::{AgentId, PersonaId, UserId, WorkspaceId},
};

/// Maximum number of workspaces per round of the job.
const WORKSPACES_AT_ONCE: i64 = 1000;

/// A persona whose approved text some agents do not have yet.
#[derive(Debug, Clone, sqlx::FromRow)]
struct PersonaRefresh {
    persona_id: PersonaId,
    requested_by: UserId,
    after_id: AgentId,
    reserved_bytes: i64,
    name: String,
    approved_text: Option<String>,
}

/// Selects refreshes as `r` with their personas as `p`; the argument continues the query.
macro_rules! persona_refresh_sql {
    ($tail:literal) => {
        concat!(
            "select r.persona_id, r.requested_by, r.after_id, r.reserved_bytes, p.name, p.approved_text from persona_refreshes r \
             join personas p on p.id = r.persona_id ",
            $tail
        )
    };
}

/// Copies the approved text of a persona to the agents that use it: to the first ones immediately, and to the others in the
/// background. The workspace must be locked.
///
/// # Errors
/// `QuotaExceeded` if the workspace cannot store all of the versions.
pub(in crate::agents) async fn follow_persona(
    c: &mut Conn,
    by: UserId,
    workspace: WorkspaceId,
    persona: PersonaId,
) -> Result<(), AgentError> {
    let text = personas::find_approved(c, workspace, persona).await?;
    let bytes = bytes_after(c, persona, FIRST, text.flatten().as_deref()).await?;
    if bytes == 0 {
        return Ok(());
    }
    let reserved_bytes: i64 = c
        .q("select cast(coalesce(sum(reserved_bytes), 0) as bigint) from persona_refreshes where persona_id = $1")
        .bind(persona)
        .value()
        .await?;
    quota::check_bytes(c, workspace, bytes - reserved_bytes).await?;
    c.q("insert into persona_refreshes (persona_id, workspace_id, requested_by, after_id, reserved_bytes, created_at) \
         values ($1, $2, $3, $4, $5, $6) on conflict (persona_id) do update set requested_by = excluded.requested_by, \
         after_id = excluded.after_id, reserved_bytes = excluded.reserved_bytes")
        .bind(persona)
        .bind(workspace)
        .bind(by)
        .bind(FIRST)
        .bind(bytes)
        .bind(now())
        .run()
        .await?;
    advance_personas(c, workspace).await?;
    Ok(refresh::advance(c, workspace, &mut None).await?)
}

/// Maximum total size of the next versions of all agents after this one that use a persona, and of the agents that inherit from them.
/// Each version stores the text twice, as written and merged.
async fn bytes_after(
    c: &mut Conn,
    persona: PersonaId,
    after: AgentId,
    text: Option<&str>,
) -> Result<i64, DbError> {
    let json = serde_json::to_string(&text).map_or(0, |json| json.len());
    let more = quota::ROW_BYTES + 2 * i64::try_from(json).unwrap_or_default();
    c.q("select cast(coalesce(sum(x.bytes + $3), 0) as bigint) from ( \
           select v.bytes + a.profile_bytes as bytes from agents a join agent_versions v on v.agent_id = a.id and v.version = a.version \
           where a.persona_id = $1 and a.id > $2 \
           union all select v.bytes as bytes from agents a join agents b on b.base_id = a.id \
           join agent_versions v on v.agent_id = b.id and v.version = b.version where a.persona_id = $1 and a.id > $2 \
           union all select v.bytes as bytes from agents a join agents b on b.base_id = a.id join agents d on d.base_id = b.id \
           join agent_versions v on v.agent_id = d.id and v.version = d.version where a.persona_id = $1 and a.id > $2) x")
        .bind(persona)
        .bind(after)
        .bind(more)
        .value()
        .await
}

/// Copies the approved texts of personas to the next few agents of a workspace.
async fn advance_personas(c: &mut Conn, workspace: WorkspaceId) -> Result<(), DbError> {
    let mut batch = Batch::new();
    while !batch.is_full() {
        let refresh: Option<PersonaRefresh> = c
            .q(persona_refresh_sql!(
                "where r.workspace_id = $1 order by r.created_at, r.persona_id limit 1"
            ))
            .bind(workspace)
            .opt()
            .await?;
        let Some(refresh) = refresh else {
            return Ok(());
        };
        let found: Vec<(AgentId, i64)> = c
            .q("select id, profile_bytes from agents where persona_id = $1 and id > $2 order by id limit $3")
            .bind(refresh.persona_id)
            .bind(refresh.after_id)
            .bind(batch.limit())
            .all()
            .await?;
        let page = batch.take(&found);
        for agent in page.items {
            give_text(c, workspace, agent, &refresh).await?;
        }
        match page.next {
            Some(last) => set_position(c, &refresh, last).await?,
            None => {
                c.q("delete from persona_refreshes where persona_id = $1")
                    .bind(refresh.persona_id)
                    .run()
                    .await?;
            }
        }
    }
    Ok(())
}

/// Records the last agent that has the text, and reserves only the size of the remaining ones.
async fn set_position(
    c: &mut Conn,
    refresh: &PersonaRefresh,
    last: AgentId,
) -> Result<(), DbError> {
    let text = refresh.approved_text.as_deref();
    let left = bytes_after(c, refresh.persona_id, last, text).await?;
    c.q("update persona_refreshes set after_id = $2, reserved_bytes = $3 where persona_id = $1")
        .bind(refresh.persona_id)
        .bind(last)
        .bind(left.min(refresh.reserved_bytes))
        .run()
        .await?;
    Ok(())
}

/// Creates a version of an agent with the approved text of its persona, unless it already has that text.
async fn give_text(
    c: &mut Conn,
    workspace: WorkspaceId,
    agent: AgentId,
    refresh: &PersonaRefresh,
) -> Result<(), DbError> {
    let Some(row) = find_row(c, workspace, agent).await? else {
        return Ok(());
    };
    if row.profile.0.persona_text == refresh.approved_text {
        return Ok(());
    }
    let wanted = ProfileWrite {
        name: &row.name,
        status: row.status,
        mentionable: row.mentionable,
        profile: Profile {
            persona_text: refresh.approved_text.clone(),
            ..row.profile.0.clone()
        },
        summary: Some(format!("persona {} approved", refresh.name)),
        comment: None,
        expected: None,
        origin: Origin::Approval,
    };
    match Box::pin(store(c, refresh.requested_by, &row, wanted)).await {
        Ok(_) => Ok(()),
        Err(AgentError::Db(e)) => Err(e),
        Err(e) => {
            tracing::warn!(agent.id = %agent, error = %e, "could not update an agent to the approved text of its persona");
            Ok(())
        }
    }
}

/// Workspaces with outdated agents.
async fn pending(c: &mut Conn) -> Result<Vec<WorkspaceId>, DbError> {
    let rows: Vec<(WorkspaceId,)> = c
        .q(
            "select workspace_id from agent_refreshes union select workspace_id from persona_refreshes \
            union select workspace_id from preset_removals order by workspace_id limit $1",
        )
        .bind(WORKSPACES_AT_ONCE)
        .all()
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Refreshes a few agents of each workspace that has outdated agents. Returns true if this succeeded for at least one workspace. A
/// failure in one workspace does not delay the others.
///
/// # Errors
/// `DbError` if all of them fail; the next run resumes where this one stopped.
pub async fn refresh_some(db: &Db) -> Result<bool, DbError> {
    let workspaces = pending(&mut db.read().await?).await?;
    let (mut advanced, mut failure) = (false, None);
    for workspace in workspaces {
        let advance = async move |c: &mut Conn| {
            lock_workspace(c, workspace.0).await?;
            advance_personas(c, workspace).await?;
            advance_presets(c, workspace).await?;
            refresh::advance(c, workspace, &mut None).await
        };
        match db.write(workspace.0, advance).await {
            Ok(()) => advanced = true,
            Err(e) => {
                tracing::warn!(workspace.id = %workspace, error = %e, "could not update the agents of a workspace to their base");
                failure = Some(e);
            }
        }
    }
    // If every workspace failed, the caller pauses before it tries again.
    failure.filter(|_| !advanced).map_or(Ok(advanced), Err)
}

/// Returns true if an agent in the workspace may be outdated.
async fn is_pending(c: &mut Conn, workspace: WorkspaceId) -> Result<bool, DbError> {
    c.q(
        "select exists (select 1 from agent_refreshes where workspace_id = $1) \
         or exists (select 1 from persona_refreshes where workspace_id = $1)",
    )
    .bind(workspace)
    .value()
    .await
}

/// Refreshes an agent before it is invoked, if it is outdated. The workspace must be locked.
///
/// # Errors
/// Only database errors.
pub async fn refresh_first(
    c: &mut Conn,
    workspace: WorkspaceId,
    agent: AgentId,
) -> Result<(), DbError> {
    if !is_pending(c, workspace).await? {
        return Ok(());
    }
    let chain: Option<(Option<AgentId>, Option<AgentId>)> = c
        .q("select a.base_id, b.base_id from agents a left join agents b on b.id = a.base_id where a.workspace_id = $1 and a.id = $2")
        .bind(workspace)
        .bind(agent)
        .opt()
        .await?;
    let Some((base, above)) = chain else {
        return Ok(());
    };
    let mut parent = None;
    for id in above.into_iter().chain(base).chain([agent]) {
        if let Some(parent) = parent.replace(id) {
            refresh::refresh_link(c, workspace, parent, id).await?;
        }
        let approved: Option<PersonaRefresh> = c
            .q(persona_refresh_sql!(
                "join agents a on a.persona_id = p.id where a.id = $1 and r.after_id < a.id"
            ))
            .bind(id)
            .opt()
            .await?;
        if let Some(approved) = approved {
            give_text(c, workspace, id, &approved).await?;
        }
    }
    Ok(())
}

/// Like `refresh_first`, for an ID, a name, or `main` from a client. Does nothing for an unknown agent.
///
/// # Errors
/// An error from `Actor::require`.
pub async fn refresh_named(db: &Db, member: &WorkspaceCaller, name: &str) -> Result<(), AuthError> {
    let mut c = db.read().await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::AgentsUse)?;
    let workspace = actor.workspace;
    if !is_pending(&mut c, workspace).await? {
        return Ok(());
    }
    let id: Option<(AgentId,)> = match (name, name.parse()) {
        (_, Ok(id)) => Some((id,)),
        ("main", _) => {
            c.q("select id from agents where id = (select default_agent_id from workspaces where id = $1)")
                .bind(workspace)
                .opt()
                .await?
        }
        _ => {
            c.q("select id from agents where workspace_id = $1 and name = $2")
                .bind(workspace)
                .bind(name.to_owned())
                .opt()
                .await?
        }
    };
    drop(c);
    let Some((id,)) = id else {
        return Ok(());
    };
    let refresh = async move |c: &mut Conn, actor: &Actor<'_>| {
        actor.require(Scope::AgentsUse)?;
        lock_workspace(c, workspace.0).await?;
        Ok(refresh_first(c, workspace, id).await?)
    };
    member.clone().write(db, refresh).await
}
