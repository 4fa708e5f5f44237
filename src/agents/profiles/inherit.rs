//! Inheritance: a base's profile is applied first, then the agent's own.

use serde::{Deserialize, Serialize};

use super::{
    AgentStatus, Profile, Trust, form::INSTRUCTIONS_BYTES_MAX, merged_columns::MergedColumns,
};
use crate::agents::AgentError;
use crate::{
    db::{Conn, DbError, Json},
    ids::{AgentId, WorkspaceId},
};

/// Maximum number of levels: base, child, and grandchild.
const LEVELS_MAX: usize = 3;

/// Maximum number of agents with the same base.
pub(in crate::agents) const CHILDREN_MAX: i64 = 1000;

/// A base that was merged in, with its version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Base {
    pub id: AgentId,
    pub name: String,
    pub version: i64,
}

/// A profile with all of its bases merged in, and those bases, most distant first.
#[derive(Debug, Clone, Default)]
pub(super) struct Merged {
    pub(super) profile: Profile,
    pub(super) bases: Vec<Base>,
}

/// Merges two profiles: the child's values win, instructions are concatenated, and tools and metadata are merged by
/// key.
pub(super) fn merge(base: &Profile, child: &Profile) -> Profile {
    let mut tools = base.tools.clone();
    for tool in &child.tools {
        match tools.iter_mut().find(|known| known.key() == tool.key()) {
            Some(known) => known.clone_from(tool),
            None => tools.push(tool.clone()),
        }
    }
    let mut metadata = base.metadata.clone();
    metadata.extend(child.metadata.clone());
    // A persona and its text are inherited together.
    let named = if child.persona_id.is_some() {
        child
    } else {
        base
    };
    let instructions = format!(
        "{}\n\n{}",
        base.instructions.trim_end_matches('\n'),
        child.instructions.trim_start_matches('\n')
    );
    Profile {
        display_name: child.display_name.clone().or(base.display_name.clone()),
        description: child.description.clone().or(base.description.clone()),
        avatar: child.avatar.clone().or(base.avatar.clone()),
        instructions,
        identity: child.identity.clone().or(base.identity.clone()),
        model: child.model.clone().or(base.model.clone()),
        max_output_tokens: child.max_output_tokens.or(base.max_output_tokens),
        temperature: child.temperature.or(base.temperature),
        top_p: child.top_p.or(base.top_p),
        capabilities: if child.capabilities.is_empty() {
            base.capabilities.clone()
        } else {
            child.capabilities.clone()
        },
        role: child.role.or(base.role),
        agency: child.agency.clone().or(base.agency.clone()),
        tools,
        sandbox_policy_id: child
            .sandbox_policy_id
            .clone()
            .or(base.sandbox_policy_id.clone()),
        memory: child.memory.clone().or(base.memory.clone()),
        prompting: child.prompting.clone().or(base.prompting.clone()),
        sentiment: child.sentiment.clone().or(base.sentiment.clone()),
        reflection: child.reflection.clone().or(base.reflection.clone()),
        trust: merge_trust(base.trust.as_ref(), child.trust.as_ref()),
        persona_id: named.persona_id,
        persona_text: named.persona_text.clone(),
        skills: child.skills.clone().or(base.skills.clone()),
        coding: child.coding.clone().or(base.coding.clone()),
        base_profile_id: child.base_profile_id,
        access_control: child.access_control.clone().or(base.access_control.clone()),
        editors: child.editors.clone(),
        store: child.store.or(base.store),
        store_required: child.store_required.or(base.store_required),
        metadata,
        files: child.files.clone(),
    }
}

/// Merges trust settings: a child can only add required approvals to those of its base.
fn merge_trust(base: Option<&Trust>, child: Option<&Trust>) -> Option<Trust> {
    let (Some(base), Some(child)) = (base, child) else {
        return child.or(base).cloned();
    };
    let all = |base: &[String], child: &[String]| {
        let mut all = base.to_vec();
        all.extend(child.iter().filter(|name| !base.contains(name)).cloned());
        all
    };
    Some(Trust {
        autonomous: child.autonomous.clone(),
        approve: all(&base.approve, &child.approve),
        escalate: all(&base.escalate, &child.escalate),
        approval_rules: [base.approval_rules.as_slice(), &child.approval_rules].concat(),
    })
}

/// The part of a base's profile that its children inherit.
pub(super) fn inherited(base: &Profile) -> Profile {
    merge(base, &Profile::default())
}

#[derive(sqlx::FromRow)]
struct BaseRow {
    id: AgentId,
    name: String,
    version: i64,
    status: AgentStatus,
    #[sqlx(flatten)]
    merged: MergedColumns,
    bases: Option<Json<Vec<Base>>>,
}

/// Merges a profile with its bases. `own` is the agent of the profile, if the agent already exists; `before` is its
/// previous base.
///
/// # Errors
/// `NoSuchBase`, `BaseArchived` if the base is newly set, `Cycle`, or `TooDeep`.
pub(super) async fn resolve(
    c: &mut Conn,
    workspace: WorkspaceId,
    own: Option<AgentId>,
    before: Option<AgentId>,
    profile: &Profile,
) -> Result<Merged, AgentError> {
    let Some(base) = profile.base_profile_id else {
        return Ok(Merged {
            profile: profile.clone(),
            bases: Vec::new(),
        });
    };
    if own == Some(base) {
        return Err(AgentError::Cycle);
    }
    let row: Option<BaseRow> = c
        .q(concat!(
            "select a.id, a.name, a.version, a.status, ",
            merged_sql!(),
            ", v.bases from agents a join agent_versions v on v.agent_id = a.id and v.version = a.version",
            profile_row_sql!(),
            "where a.workspace_id = $1 and a.id = $2"
        ))
        .bind(workspace)
        .bind(base)
        .opt()
        .await?;
    let row = row.ok_or(AgentError::NoSuchBase)?;
    if before != Some(base) {
        check_children(c, base).await?;
    }
    if row.status == AgentStatus::Archived && before != Some(base) {
        return Err(AgentError::BaseArchived);
    }
    let mut bases = row.bases.map(|bases| bases.0).unwrap_or_default();
    bases.push(Base {
        id: row.id,
        name: row.name,
        version: row.version,
    });
    if bases.iter().any(|base| Some(base.id) == own) {
        return Err(AgentError::Cycle);
    }
    let below = match own {
        Some(own) => levels_below(c, own).await?,
        None => 0,
    };
    if bases.len() + 1 + below > LEVELS_MAX {
        return Err(AgentError::TooDeep);
    }
    Ok(Merged {
        profile: merge(&row.merged.profile(), profile),
        bases,
    })
}

/// Resolves a profile that is not stored: returns the merged profile, and the bases that were merged in. `own` is the agent that the
/// profile would change.
///
/// # Errors
/// Same as `resolve`, or an error if the merged instructions are too long.
pub(in crate::agents) async fn resolve_draft(
    c: &mut Conn,
    workspace: WorkspaceId,
    own: Option<AgentId>,
    profile: &Profile,
) -> Result<(Profile, Vec<Base>), AgentError> {
    let merged = resolve(c, workspace, own, profile.base_profile_id, profile).await?;
    check_size("the draft", &merged)?;
    Ok((merged.profile, merged.bases))
}

/// Fails if a base already has the maximum number of children.
async fn check_children(c: &mut Conn, base: AgentId) -> Result<(), AgentError> {
    let children: i64 = c
        .q("select count(*) from (select 1 from agents where base_id = $1 limit $2) a")
        .bind(base)
        .bind(CHILDREN_MAX)
        .value()
        .await?;
    if children >= CHILDREN_MAX {
        return Err(AgentError::TooManyChildren(CHILDREN_MAX));
    }
    Ok(())
}

/// Number of inheritance levels below this agent.
async fn levels_below(c: &mut Conn, id: AgentId) -> Result<usize, DbError> {
    let child: Option<(AgentId,)> = c
        .q("select id from agents where base_id = $1 limit 1")
        .bind(id)
        .opt()
        .await?;
    if child.is_none() {
        return Ok(0);
    }
    let grandchild: Option<(AgentId,)> = c
        .q("select g.id from agents a join agents g on g.base_id = a.id where a.base_id = $1 limit 1")
        .bind(id)
        .opt()
        .await?;
    Ok(if grandchild.is_some() { 2 } else { 1 })
}

pub(super) fn check_size(name: &str, merged: &Merged) -> Result<(), AgentError> {
    let bytes = merged.profile.instructions.len();
    if !merged.bases.is_empty() && bytes > INSTRUCTIONS_BYTES_MAX {
        return Err(AgentError::ResolvedTooLarge(name.to_owned(), bytes));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn profile(value: serde_json::Value) -> Profile {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn base_values_come_first_and_the_child_overrides_them() {
        let base = profile(json!({
            "instructions": "Be exact.\n", "model": "large", "temperature": 0.2, "max_output_tokens": 8192,
            "capabilities": ["code"], "metadata": {"team": "core", "tier": "1"}, "store": true,
            "memory": {"conversation_retention_days": 90, "summary_enabled": true}, "skills": "all",
            "tools": [{"type": "web_fetch"}, {"type": "function", "name": "f"}],
        }));
        let child = profile(json!({
            "instructions": "Know the network.", "temperature": 0.0, "metadata": {"tier": "2"}, "store": false,
            "memory": {"conversation_retention_days": 7},
            "tools": [{"type": "web_fetch"}, {"type": "function", "name": "f", "strict": true}],
        }));
        let merged = merge(&base, &child);
        assert_eq!(merged.instructions, "Be exact.\n\nKnow the network.");
        assert_eq!(
            (merged.model.as_deref(), merged.temperature),
            (Some("large"), Some(0.0))
        );
        assert_eq!(
            (merged.max_output_tokens, merged.store),
            (Some(8192), Some(false))
        );
        assert_eq!(merged.capabilities, ["code"]);
        assert_eq!(merged.memory, child.memory);
        assert_eq!(merged.skills, base.skills);
        let none = profile(json!({"skills": []}));
        assert_eq!(merge(&base, &none).skills, none.skills);
        // A child's function replaces its base's function.
        assert_eq!(merged.tools, child.tools);
        assert_eq!(
            merged.metadata.into_iter().collect::<Vec<_>>(),
            [("team".into(), "core".into()), ("tier".into(), "2".into())]
        );
    }
}
