//! Restores the agents of an export of this program, with their files. Their earlier messages are by bots.

use std::collections::HashSet;

use serde_json::Value;

use super::{error::ImportError, report::RecordOutcome};
use crate::{
    agents::transfer::Import,
    auth::{Actor, Role},
    db::{Conn, DbError},
    ids::{UserId, WorkspaceId},
    memory::files::{self, Paragraphs},
};

/// An agent of an archive.
#[derive(Debug, Clone)]
pub(super) struct SourceAgent {
    pub(super) name: String,
    pub(super) import: Import,
}

impl SourceAgent {
    /// # Errors
    /// A message if the JSON is not an agent.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let import: Import = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        let name = import.agent.get("name").and_then(Value::as_str);
        let name = name.ok_or("the agent has no name")?.to_owned();
        Ok(Self { name, import })
    }

    /// Name of the agent on which this one is based.
    fn base(&self) -> Option<&str> {
        self.import.agent.get("base").and_then(Value::as_str)
    }
}

/// The agents, each after its base.
pub(super) fn in_order(mut agents: Vec<SourceAgent>) -> Vec<SourceAgent> {
    let mut ordered = Vec::with_capacity(agents.len());
    loop {
        let waiting: HashSet<String> = agents.iter().map(|agent| agent.name.clone()).collect();
        let is_ready =
            |agent: &SourceAgent| agent.base().is_none_or(|base| !waiting.contains(base));
        let (ready, rest): (Vec<_>, Vec<_>) = agents.into_iter().partition(is_ready);
        if ready.is_empty() {
            // None, or only agents that are based on each other.
            ordered.extend(rest);
            return ordered;
        }
        ordered.extend(ready);
        agents = rest;
    }
}

/// The person who imports, with the rights that they have now; `None` if they have left.
pub(super) async fn importing_actor(
    c: &mut Conn,
    workspace: WorkspaceId,
    importer: UserId,
) -> Result<Option<Actor<'static>>, DbError> {
    let role: Option<(Role,)> = c
        .q("select role from members where workspace_id = $1 and user_id = $2 and status = 'active'")
        .bind(workspace)
        .bind(importer)
        .opt()
        .await?;
    Ok(role.map(|(role,)| Actor {
        user: importer,
        name: "",
        workspace,
        role,
        scopes: role.scopes(),
        key: None,
    }))
}

/// Creates an agent on behalf of the person who imports, unless there is one with its name. The workspace must be locked.
///
/// # Errors
/// `Agent` if it cannot be created here; the transaction must be rolled back then.
pub(super) async fn store_agent(
    c: &mut Conn,
    workspace: WorkspaceId,
    creator: UserId,
    agent: &SourceAgent,
    paragraphs: &[Paragraphs],
) -> Result<RecordOutcome, ImportError> {
    let is_here: bool = c
        .q("select exists (select 1 from agents where workspace_id = $1 and name = $2)")
        .bind(workspace)
        .bind(agent.name.clone())
        .value()
        .await?;
    if is_here {
        return Ok(RecordOutcome::Existing);
    }
    let Some(actor) = importing_actor(c, workspace, creator).await? else {
        return Ok(RecordOutcome::LeftOut("the person who imports has left"));
    };
    files::import(c, &actor, &agent.import, paragraphs).await?;
    Ok(RecordOutcome::Imported)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str, base: Option<&str>) -> SourceAgent {
        let json = serde_json::json!({"object": "agent.export", "format": 1, "agent": {"name": name, "base": base}, "files": {}});
        SourceAgent::parse(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_base_precedes_the_agents_that_are_based_on_it() {
        let agents = vec![
            agent("c", Some("b")),
            agent("b", Some("a")),
            agent("a", Some("main")),
            agent("y", Some("x")),
            agent("x", Some("y")),
        ];
        let names: Vec<String> = in_order(agents).into_iter().map(|a| a.name).collect();
        assert_eq!(names, ["a", "b", "c", "y", "x"]);
        assert!(SourceAgent::parse(b"{}").is_err());
    }
}
