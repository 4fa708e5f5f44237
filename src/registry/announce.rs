//! Events about tools, for people who manage agents.

use serde::Serialize;

use super::tool::{FunctionState, RegisteredTool, ToolStatus};
use crate::{
    db::{Conn, DbError},
    ids::ToolId,
    realtime::{
        Audience, EventData, EventType, NewEvent,
        log::{self, Recipients},
    },
    text_enum::text_enum,
};

text_enum! {
    /// Change of a tool.
    pub enum ToolChange {
        Created = "created",
        /// The settings, the secret, the status, or a function of the tool changed.
        Updated = "updated",
        Deleted = "deleted",
    }
}

/// A change to a tool. Texts written by people, settings, and definitions are omitted because they can be large.
#[derive(Serialize, utoipa::ToSchema)]
pub struct ToolEvent {
    pub tool_id: ToolId,
    pub action: ToolChange,
    pub status: ToolStatus,
    /// Number of functions that the server has changed and that no admin has accepted again.
    pub changed_functions: usize,
}

impl EventData for ToolEvent {
    const TYPES: &'static [EventType] = &[EventType::ToolUpdated];
}

/// Appends `tool.updated` for everyone who can change the tool.
pub(super) async fn announce(
    c: &mut Conn,
    tool: &RegisteredTool,
    action: ToolChange,
) -> Result<(), DbError> {
    let functions = tool.functions.iter();
    let changed = functions.filter(|function| function.state == FunctionState::Changed);
    let data = ToolEvent {
        tool_id: tool.id,
        action,
        status: tool.status,
        changed_functions: changed.count(),
    };
    let only = Recipients {
        users: Vec::new(),
        managers: true,
    };
    let seq = log::reserve(c, tool.workspace, 1).await?;
    let event =
        NewEvent::new(seq, EventType::ToolUpdated, Audience::Workspace, &data)?.only_to(Some(only));
    log::append(c, tool.workspace, event).await
}
