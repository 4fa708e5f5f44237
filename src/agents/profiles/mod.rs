//! Agent profiles: what an agent is, as a row. It exists between calls as configuration only.
//!
//! Every change is a version: `agent_versions` keeps each state whole, as written and as resolved, and tasks name
//! the version they run with.

use std::collections::BTreeMap;

use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    db::Json,
    ids::{AgentId, UserId, WorkspaceId},
};

macro_rules! agent_sql {
    ($tail:literal) => {
        concat!(
            "select a.id, a.workspace_id, a.name, a.status, a.is_system, a.mentionable, a.version, a.profile, a.created_by, \
             a.created_at, a.updated_at, w.default_agent_id from agents a join workspaces w on w.id = a.workspace_id ",
            $tail
        )
    };
}

mod change;
mod find;
mod form;

pub use change::{FirstVersion, create_agent, insert_agent, patch_agent};
pub use find::{
    Askable, Filter, HandleOwner, Resolved, find_askable, find_by_handle, find_default, get_agent,
    get_by_reference, get_resolved, list_agents, newest_version, shown_name,
};
pub use form::{AgentPatch, NewAgent, SettableStatus};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Avatar {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emoji: Option<String>,
    /// `#rrggbb`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentRole {
    Primary,
    #[default]
    Specialist,
    Reviewer,
    Orchestrator,
}

/// The part of an agent that its versions keep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub avatar: Option<Avatar>,
    pub instructions: String,
    pub model: Option<String>,
    pub max_output_tokens: u32,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub capabilities: Vec<String>,
    pub role: AgentRole,
    pub metadata: BTreeMap<String, String>,
}

impl Profile {
    /// What people call it.
    pub fn shown_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.display_name.as_deref().unwrap_or(name)
    }
}

/// An agent with the fields that lists and events show.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct AgentSummary {
    pub id: AgentId,
    /// Always `agent_profile`.
    pub object: &'static str,
    /// Its handle.
    pub name: String,
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub avatar: Option<Avatar>,
    pub capabilities: Vec<String>,
    pub role: AgentRole,
    /// Null: the server's default.
    pub model: Option<String>,
    pub mentionable: bool,
    pub is_default: bool,
    pub is_system: bool,
    /// One of `active`, `inactive`, `archived`.
    pub status: String,
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A whole agent.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Agent {
    #[serde(flatten)]
    pub summary: AgentSummary,
    pub workspace_id: WorkspaceId,
    /// Markdown; the personality as one text.
    pub instructions: String,
    pub max_output_tokens: u32,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub metadata: BTreeMap<String, String>,
    /// Null for the agents that a workspace begins with.
    pub created_by: Option<UserId>,
}

#[derive(Serialize)]
struct AgentEvent<'a> {
    agent: &'a Agent,
}

#[derive(Debug, Clone, sqlx::FromRow)]
struct Row {
    id: AgentId,
    workspace_id: WorkspaceId,
    name: String,
    status: String,
    is_system: bool,
    mentionable: bool,
    version: i64,
    profile: Json<Profile>,
    created_by: Option<UserId>,
    created_at: Timestamp,
    updated_at: Timestamp,
    default_agent_id: Option<AgentId>,
}

impl From<Row> for Agent {
    fn from(row: Row) -> Self {
        let profile = row.profile.0;
        Self {
            summary: AgentSummary {
                id: row.id,
                object: "agent_profile",
                name: row.name,
                display_name: profile.display_name,
                description: profile.description,
                avatar: profile.avatar,
                capabilities: profile.capabilities,
                role: profile.role,
                model: profile.model,
                mentionable: row.mentionable,
                is_default: row.default_agent_id == Some(row.id),
                is_system: row.is_system,
                status: row.status,
                version: row.version,
                created_at: row.created_at,
                updated_at: row.updated_at,
            },
            workspace_id: row.workspace_id,
            instructions: profile.instructions,
            max_output_tokens: profile.max_output_tokens,
            temperature: profile.temperature,
            top_p: profile.top_p,
            metadata: profile.metadata,
            created_by: row.created_by,
        }
    }
}
