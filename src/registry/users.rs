//! Agents that use a tool, through their own profile or through a base.

use std::collections::HashMap;

use serde_json::Value;

use super::tool::{FunctionState, RegisteredTool, ToolUser};
use crate::{
    db::{Conn, DbError, Json},
    ids::{AgentId, WorkspaceId},
};

#[derive(sqlx::FromRow)]
struct Row {
    id: AgentId,
    name: String,
    base_id: Option<AgentId>,
    tools: Option<Json<Vec<Value>>>,
}

impl Row {
    /// The entry of the agent's own profile that names the tool with this ID.
    fn entry(&self, tool: &str) -> Option<&Value> {
        let mut entries = self.tools.as_ref()?.0.iter();
        entries.find(|entry| entry["registry_id"] == tool)
    }
}

/// Fills in the agents that use these tools, sorted by name. Archived agents are included, because they can return.
///
/// # Errors
/// Only database errors.
pub async fn find_users(
    c: &mut Conn,
    workspace: WorkspaceId,
    tools: &mut [RegisteredTool],
) -> Result<(), DbError> {
    if tools.is_empty() {
        return Ok(());
    }
    let agents: Vec<Row> = c
        .q("select id, name, base_id, profile -> 'tools' as tools from agents where workspace_id = $1 order by name")
        .bind(workspace)
        .all()
        .await?;
    let by_id: HashMap<AgentId, &Row> = agents.iter().map(|agent| (agent.id, agent)).collect();
    for tool in tools {
        let id = tool.id.to_string();
        let users = agents.iter().filter_map(|agent| {
            let entry = entry_of(&by_id, agent, &id)?;
            Some(ToolUser {
                agent_id: agent.id,
                name: agent.name.clone(),
                functions: count_functions(tool, entry),
                is_direct: agent.entry(&id).is_some(),
            })
        });
        tool.used_by = users.collect();
    }
    Ok(())
}

/// The entry for a tool in the profile of an agent or of its closest base that has one.
fn entry_of<'a>(
    agents: &HashMap<AgentId, &'a Row>,
    agent: &'a Row,
    tool: &str,
) -> Option<&'a Value> {
    let mut current = agent;
    // Bases cannot form a cycle.
    loop {
        if let Some(entry) = current.entry(tool) {
            return Some(entry);
        }
        current = agents.get(&current.base_id?).copied()?;
    }
}

fn count_functions(tool: &RegisteredTool, entry: &Value) -> usize {
    let allowed = entry["allowed_tools"].as_array();
    let functions = tool.functions.iter().filter(|function| {
        function.state == FunctionState::Accepted
            && allowed.is_none_or(|names| names.iter().any(|name| *name == *function.name))
    });
    functions.count()
}
