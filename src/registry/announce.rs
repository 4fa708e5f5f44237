//! Events about tools, for people who manage agents.

use serde::Serialize;

use super::tool::{FunctionState, RegisteredTool, ToolStatus};
use crate::{
    db::{Conn, DbError},
    ids::ToolId,
    inbox::{
        InboxSubject, InboxSubjectKind,
        notice::{self, Notice},
    },
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

/// A change to a tool.
#[derive(Serialize, utoipa::ToSchema)]
pub struct ToolEvent<'a> {
    /// The tool after the change; the last state of a deleted tool.
    pub tool: &'a RegisteredTool,
    pub tool_id: ToolId,
    pub action: ToolChange,
    pub status: ToolStatus,
    /// Number of functions that the server has changed and that no admin has accepted again.
    pub changed_functions: usize,
}

impl EventData for ToolEvent<'_> {
    const TYPES: &'static [EventType] = &[EventType::ToolUpdated];
}

/// Appends `tool.updated` for everyone who can change the tool and therefore read all of it. Also closes the notices about a tool
/// without changed functions.
pub(super) async fn announce(
    c: &mut Conn,
    tool: &RegisteredTool,
    action: ToolChange,
) -> Result<(), DbError> {
    let functions = tool.functions.iter();
    let changed = functions.filter(|function| function.state == FunctionState::Changed);
    let changed = changed.count();
    let data = ToolEvent {
        tool,
        tool_id: tool.id,
        action,
        status: tool.status,
        changed_functions: changed,
    };
    let only = Recipients {
        users: Vec::new(),
        managers: true,
    };
    let seq = log::reserve(c, tool.workspace, 1).await?;
    let event =
        NewEvent::new(seq, EventType::ToolUpdated, Audience::Workspace, &data)?.only_to(Some(only));
    log::append(c, tool.workspace, event).await?;
    if changed == 0 || action == ToolChange::Deleted {
        notice::close_notice(c, tool.workspace, tool.id.0, None).await?;
    }
    Ok(())
}

/// Opens the notice of admins about a tool whose server has changed functions.
pub(super) async fn open_changed(c: &mut Conn, tool: &RegisteredTool) -> Result<(), DbError> {
    let mut functions = tool.functions.iter();
    if !functions.any(|function| function.state == FunctionState::Changed) {
        return Ok(());
    }
    let notice = Notice {
        workspace: tool.workspace,
        subject: InboxSubject::new(InboxSubjectKind::Tool, tool.id.0),
        actor: None,
        channel: None,
    };
    notice::open_for_admins(c, &notice).await
}
