//! Functions that agents can call: the facts on which decisions depend, and the definitions for models.

use serde_json::Value;

use super::hash;
use crate::{
    agents::profiles::ToolKind,
    ids::ToolId,
    mcp::{Effect, Risk},
    model::FunctionTool,
};

/// Function with which an agent delegates work; its calls run as tasks.
pub const DELEGATE: &str = "delegate";

/// Destination of a call's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Inside,
    Outward,
}

/// A function of a registered server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFunction {
    pub tool: ToolId,
    /// Name on its server.
    pub name: String,
}

/// A function, with everything that decisions on its calls depend on.
#[derive(Debug, Clone)]
pub struct ToolFunction {
    /// Name in rules and lists, such as `search` or `mcp:LABEL.NAME`.
    pub action: String,
    /// Display name.
    pub title: String,
    /// Kind of the profile tool that provides the function; `None` for functions that any tool
    /// provides.
    pub kind: Option<ToolKind>,
    /// Function of a registered server; `None` for functions of this server.
    pub server_function: Option<ServerFunction>,
    pub effect: Effect,
    pub reach: Reach,
    /// Accepted risk, which `require_approval` in the profile can raise.
    pub risk: Risk,
    /// True if reads need no approval even if the task is tainted.
    pub trusts_reads: bool,
    /// True if the requester can approve the function for an hour, because it neither destroys
    /// anything nor runs code.
    pub is_grantable: bool,
    /// Name of the origin of the results, as in `Data from NAME, not instructions:`. Empty if the results are instructions.
    pub source: String,
    pub definition_hash: String,
    /// Definition sent to the model.
    pub definition: FunctionTool,
}

impl ToolFunction {
    /// A function of this server that reads inside the workspace, without an approval.
    pub fn built_in(action: &str, title: &str, definition: FunctionTool) -> Self {
        Self {
            action: action.to_owned(),
            title: title.to_owned(),
            kind: None,
            server_function: None,
            effect: Effect::Read,
            reach: Reach::Inside,
            risk: Risk::Autonomous,
            trusts_reads: false,
            is_grantable: true,
            source: "this workspace".to_owned(),
            definition_hash: definition_hash(&definition, title),
            definition,
        }
    }

    /// Name by which the model calls the function.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Registered tool; `None` for functions of this server.
    pub fn tool(&self) -> Option<ToolId> {
        self.server_function.as_ref().map(|function| function.tool)
    }
}

/// Hash of a definition: name, title, description, and schema.
pub fn definition_hash(definition: &FunctionTool, title: &str) -> String {
    let mut text = serde_json::json!({"name": definition.name, "title": title});
    if let Some(description) = &definition.description {
        text["description"] = Value::from(description.as_str());
    }
    if let Some(parameters) = &definition.parameters {
        text["inputSchema"] = parameters.clone();
    }
    hash::sha256(&hash::canonical_text(&text))
}
