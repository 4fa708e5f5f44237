//! Frames that are not in the event log and can be dropped.

use axum::extract::ws::Utf8Bytes;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    ids::{ForkId, MessageId, TaskId, ThreadId, UserId},
    text_enum::text_enum,
};

text_enum! {
    /// Presence of a member: online with at least one socket.
    pub enum PresenceStatus {
        Online = "online",
        Offline = "offline",
    }
}

/// A frame to many people, encoded once.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type")]
pub enum LiveFrame<'a> {
    /// Appends `text` at `offset`, in UTF-16 code units, to the reply that an agent writes. A new attempt starts at 0.
    #[serde(rename = "task.delta")]
    #[schema(title = "TaskDelta")]
    TaskDelta {
        task_id: TaskId,
        message_id: MessageId,
        attempt: i64,
        offset: usize,
        text: &'a str,
    },
    #[serde(rename = "typing")]
    #[schema(title = "Typing")]
    Typing {
        thread_id: Option<ThreadId>,
        fork_id: Option<ForkId>,
        user_id: UserId,
    },
    #[serde(rename = "presence")]
    #[schema(title = "PresenceChange")]
    Presence {
        user_id: UserId,
        status: PresenceStatus,
    },
    /// All events up to `seq` have been written to the socket.
    #[serde(rename = "heartbeat")]
    #[schema(title = "Heartbeat")]
    Heartbeat { seq: i64 },
}

impl LiveFrame<'_> {
    pub fn encode(&self) -> Utf8Bytes {
        encode_frame(self)
    }
}

/// Encodes a frame of plain fields, which cannot fail.
pub fn encode_frame(frame: &impl Serialize) -> Utf8Bytes {
    serde_json::to_string(frame).unwrap_or_default().into()
}
