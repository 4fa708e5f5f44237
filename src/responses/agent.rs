//! What an agent, with the policy for agents of its workspace, brings to a call.

use super::tools::{Tool, read_tool};
use crate::{
    agents::{
        policy,
        profiles::{self, tools::ToolKind},
        system,
    },
    db::{Conn, DbError},
    ids::{AgentId, WorkspaceId},
};

/// An agent in one version, as far as a call needs it.
pub(super) struct Asked {
    pub agent: AgentId,
    pub version: i64,
    /// What the workspace requires of its agents; it comes first, whatever the request says. May be empty.
    pub required: String,
    /// The whole system prompt, with what is required at its beginning.
    pub system: String,
    pub model: Option<String>,
    pub max_output_tokens: u32,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub tools: Vec<Tool>,
    /// Whether the workspace allows functions.
    pub may_call_functions: bool,
    pub store: Option<bool>,
    pub store_required: bool,
    /// Days for which answers are kept; 0 keeps none, `None` is the server's default.
    pub retention_days: Option<u32>,
}

/// An agent's version, with its bases and files merged in.
pub(super) async fn load(
    c: &mut Conn,
    workspace: WorkspaceId,
    agent: AgentId,
    version: i64,
) -> Result<Asked, DbError> {
    let resolved = profiles::get_resolved(c, agent, version).await?;
    let system = system::render(c, workspace, &resolved).await?;
    let policy = policy::find(c, workspace).await?;
    let profile = resolved.profile;
    let tools = profile.tools.iter().filter_map(|tool| {
        let value = serde_json::to_value(tool).ok()?;
        // They were checked when the agent was written.
        read_tool(&value, "tools").ok()
    });
    Ok(Asked {
        agent,
        version,
        required: system.required().to_owned(),
        system: system.text(),
        max_output_tokens: profile.output_tokens_max(),
        temperature: profile.temperature,
        top_p: profile.top_p,
        tools: tools.collect(),
        may_call_functions: policy.allows(ToolKind::Function),
        store: profile.store,
        store_required: profile.store_required.unwrap_or(false),
        retention_days: profile
            .memory
            .as_ref()
            .and_then(|memory| memory.conversation_retention_days),
        model: profile.model,
    })
}
