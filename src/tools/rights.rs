//! Read access of a task: the messages that both its requester and everyone who can read its conversation can read.

use uuid::Uuid;

use super::runner::ToolTask;
use crate::{
    chat::search::shared::{self, Readers},
    db::{Conn, DbError},
    ids::UserId,
    tool_fault::{ToolErrorCode, ToolFault},
};

/// Rights of a task at the time of a call, for `is_shared_channel!`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    pub requester: UserId,
    /// Channel whose readers must be able to read everything; `None` if only the requester reads the conversation.
    pub shared_in: Option<Uuid>,
}

/// Current rights of a task; `None` if its requester has left, cannot read the conversation, or used an API key without
/// `chat:read`.
pub async fn find(c: &mut Conn, task: &ToolTask) -> Result<Option<Rights>, DbError> {
    let readers = Readers {
        workspace: task.workspace,
        requester: task.requester,
        api_key: task.api_key,
        channel: task.channel,
        question: task.trigger,
    };
    let is_alone = shared::is_alone(c, &readers).await?;
    Ok(is_alone.map(|is_alone| Rights {
        requester: task.requester,
        shared_in: (!is_alone).then_some(task.channel.0),
    }))
}

/// Error for a call by a task that has no rights.
pub fn refusal() -> ToolFault {
    ToolFault::new(
        ToolErrorCode::NotAllowed,
        "the person who asked cannot read this conversation",
    )
}
