//! Messages between nodes. All of them are hints; the database contains everything that must not be
//! lost.

use serde::{Deserialize, Serialize};

use super::{
    conversation::Conversation, frame::PresenceStatus, log::Envelope, node_state::NodeState,
};
use crate::ids::{MessageId, NodeId, TaskId, UserId, WorkspaceId};

/// A message to other nodes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum BusMessage {
    /// Events were committed. If this message is lost, the poll detects the events.
    Log {
        workspace: WorkspaceId,
        first: i64,
        last: i64,
        /// The events, if the transport has room for them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        events: Vec<Envelope>,
    },
    /// Tasks are due, and the sending node has no free worker.
    Wake,
    /// A task was stopped.
    Stop {
        workspace: WorkspaceId,
        task: TaskId,
    },
    /// A message that steers a task was posted.
    Steer { task: TaskId },
    /// A runner of coding agents may have to receive commands.
    Command,
    /// A frame for the people who watch a conversation.
    Live {
        workspace: WorkspaceId,
        conversation: Conversation,
        frame: String,
    },
    /// A part of a reply that is being streamed.
    Delta(RemoteDelta),
    /// Request for the text of a reply from its beginning.
    Want {
        workspace: WorkspaceId,
        /// `None` for all replies that are being streamed in the workspace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
    },
    Typing {
        workspace: WorkspaceId,
        conversation: Conversation,
        user: UserId,
    },
    /// A frame for one person's own sockets.
    User {
        workspace: WorkspaceId,
        user: UserId,
        frame: String,
    },
    /// A person's first socket on the sending node was opened, or their last one was closed.
    Presence {
        workspace: WorkspaceId,
        user: UserId,
        status: PresenceStatus,
    },
    /// Sessions, keys, or members lost their access; the database contains the details.
    Revoke,
    /// Heartbeat of a node.
    Node {
        state: NodeState,
        /// Time of sending, in milliseconds since the Unix epoch; used to measure bus latency.
        sent_at_ms: i64,
    },
}

impl BusMessage {
    /// The workspace whose rooms the message concerns; `None` for messages to every node.
    pub fn workspace(&self) -> Option<WorkspaceId> {
        match self {
            Self::Log { workspace, .. }
            | Self::Typing { workspace, .. }
            | Self::Live { workspace, .. }
            | Self::User { workspace, .. }
            | Self::Presence { workspace, .. } => Some(*workspace),
            Self::Delta(delta) => Some(delta.workspace),
            // The node that runs a task may have no sockets in the workspace, so all nodes receive these messages.
            Self::Stop { .. }
            | Self::Want { .. }
            | Self::Steer { .. }
            | Self::Command
            | Self::Wake
            | Self::Revoke
            | Self::Node { .. } => None,
        }
    }

    /// Label of the message's type in metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Log { .. } => "log",
            Self::Wake => "wake",
            Self::Stop { .. } => "stop",
            Self::Steer { .. } => "steer",
            Self::Command => "command",
            Self::Live { .. } => "live",
            Self::Delta(_) => "delta",
            Self::Want { .. } => "want",
            Self::Typing { .. } => "typing",
            Self::User { .. } => "user",
            Self::Presence { .. } => "presence",
            Self::Revoke => "revoke",
            Self::Node { .. } => "node",
        }
    }
}

/// A part of a streamed reply, from the node that runs its task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoteDelta {
    pub workspace: WorkspaceId,
    pub conversation: Conversation,
    pub task: TaskId,
    pub message: MessageId,
    pub attempt: i64,
    /// Number of UTF-16 code units before `text`.
    pub offset: usize,
    pub text: String,
}

/// A message with its sender.
#[derive(Debug, Clone)]
pub struct Received {
    pub node: NodeId,
    pub message: BusMessage,
}
