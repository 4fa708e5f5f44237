//! Agent data for a call, including the workspace policy for agents.

use uuid::Uuid;

use super::tools::{Tool, read_profile_function};
use crate::{
    agents::{
        policy,
        profiles::{self, Resolved, tools::ToolKind},
        system,
    },
    db::{Conn, DbError},
    ids::{AgentId, WorkspaceId},
    registry,
    replies::preset::ReplyPreset,
};

/// A version of an agent with the fields that a call needs.
pub(super) struct RequestedAgent {
    pub agent: AgentId,
    pub version: i64,
    pub resolved: Resolved,
    /// Text that the workspace requires, which precedes everything regardless of the request; may be empty.
    pub required: String,
    /// The complete system prompt, with the required text.
    pub system: String,
    pub model: Option<String>,
    pub max_output_tokens: u32,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    /// Functions that the client runs.
    pub tools: Vec<Tool>,
    /// True if the workspace allows functions.
    pub may_call_functions: bool,
    pub store: Option<bool>,
    pub store_required: bool,
    /// Number of days for which responses are stored; 0 disables storage, `None` uses the server's default.
    pub retention_days: Option<u32>,
}

/// Loads a version of an agent with its bases, its files, and the reply style for the question merged in.
pub(super) async fn load(
    c: &mut Conn,
    workspace: WorkspaceId,
    agent: AgentId,
    version: i64,
    question: &str,
) -> Result<RequestedAgent, DbError> {
    let resolved = profiles::get_resolved(c, agent, version).await?;
    // A call has no conversation, so no style has been chosen for it.
    let mode = format!("direct:{}", resolved.name);
    let style = ReplyPreset::find(c, workspace, Uuid::nil(), &resolved, &mode, question).await?;
    let system = system::for_program(c, workspace, &resolved).await?;
    let system = system.with_addons(&style.text);
    let policy = policy::find(c, workspace).await?;
    let profile = resolved.profile.clone();
    let tools = functions_of(c, workspace, &profile.tools).await?;
    Ok(RequestedAgent {
        agent,
        version,
        required: system.required().to_owned(),
        system: system.text(),
        max_output_tokens: profile.output_tokens_max(),
        temperature: profile.temperature,
        top_p: profile.top_p,
        tools,
        may_call_functions: policy.allows(ToolKind::Function),
        store: profile.store,
        store_required: profile.store_required.unwrap_or(false),
        retention_days: profile
            .memory
            .as_ref()
            .and_then(|memory| memory.conversation_retention_days),
        model: profile.model,
        resolved,
    })
}

/// Returns the functions of a profile that clients run. Registered functions get their current definitions; functions that were
/// deleted or turned off are left out.
async fn functions_of(
    c: &mut Conn,
    workspace: WorkspaceId,
    listed: &[profiles::tools::Tool],
) -> Result<Vec<Tool>, DbError> {
    let mut tools = Vec::with_capacity(listed.len());
    for tool in listed {
        let profiles::tools::Tool::Function(function) = tool else {
            continue;
        };
        let Ok(mut value) = serde_json::to_value(function) else {
            continue;
        };
        if let Some(id) = tool.registry_id() {
            let Some(config) = registry::find_function(c, workspace, id).await? else {
                continue;
            };
            value["description"] = config.description.into();
            value["parameters"] = config.parameters.into();
            value["strict"] = config.strict.into();
        }
        // The tools were validated when they were written.
        tools.extend(read_profile_function(&value));
    }
    Ok(tools)
}
