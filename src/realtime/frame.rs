//! Frames that are not in the event log and can be dropped.

use axum::extract::ws::Utf8Bytes;
use serde::{Deserialize, Serialize};
use utoipa::{
    ToSchema,
    openapi::{ArrayBuilder, ObjectBuilder, RefOr, Schema, Type, schema::ArrayItems},
};

use crate::{
    ids::{BotId, ChannelId, ForkId, MessageId, TaskId, ThreadId, UserId},
    text_enum::text_enum,
    time::Timestamp,
};

text_enum! {
    /// Presence of a member, who is online as long as at least one socket is open.
    pub enum PresenceStatus {
        Online = "online",
        Offline = "offline",
    }
}

text_enum! {
    /// State of a step.
    pub enum CodeStepState {
        Running = "running",
        Done = "done",
        Failed = "failed",
    }
}

/// Something that an agent did in a repository.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, ToSchema)]
pub struct CodeStep {
    /// Number in the turn, from 0.
    pub n: i64,
    pub title: String,
    /// Kind, such as `edit` or `execute`.
    pub kind: String,
    pub state: CodeStepState,
    /// Duration in milliseconds.
    pub ms: i64,
}

/// An entry of the plan of an agent in a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CodePlanEntry {
    pub content: String,
    /// `pending`, `in_progress`, or `completed`.
    pub status: String,
}

/// An ephemeral frame to many people, encoded once.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type")]
pub enum LiveFrame<'a> {
    /// Appends `text` at `offset`, in UTF-16 code units, to a reply that an agent is writing. A new attempt starts at 0.
    #[serde(rename = "task.delta")]
    #[schema(title = "TaskDelta")]
    TaskDelta {
        /// Number that identifies the stream in later deltas; present only with `deltas: compact`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false)]
        stream: Option<u64>,
        task_id: TaskId,
        message_id: MessageId,
        attempt: i64,
        offset: usize,
        text: &'a str,
    },
    /// Steps of an agent in a repository that are new or have changed, and its plan if that has changed.
    #[serde(rename = "code.step")]
    #[schema(title = "CodeSteps")]
    CodeSteps {
        task_id: TaskId,
        steps: &'a [CodeStep],
        plan: Option<&'a [CodePlanEntry]>,
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
    /// The newest event of a public channel whose traffic the socket does not receive; only with `scope: joined`.
    #[serde(rename = "channel.activity")]
    #[schema(title = "ChannelActivity")]
    ChannelActivity { channel_id: ChannelId, seq: i64 },
    /// A message that only the receiving person sees, in a thread or, if `thread_id` is null, in the channel. It is not stored.
    #[serde(rename = "ephemeral")]
    #[schema(title = "EphemeralMessage")]
    Ephemeral {
        id: MessageId,
        channel_id: ChannelId,
        thread_id: Option<ThreadId>,
        /// The bot that sent it; null for a person.
        bot_id: Option<BotId>,
        user_id: Option<UserId>,
        /// Name of the sender.
        name: &'a str,
        /// Name that a bot chose for this message.
        shown_as: Option<&'a str>,
        /// Markdown.
        content: &'a str,
        created_at: Timestamp,
    },
    /// The receiving person has a new inbox item; `seq` is that of the item.
    #[serde(rename = "inbox.created")]
    #[schema(title = "InboxCreated")]
    InboxCreated { seq: i64 },
}

/// Appends text to a reply; used only with `deltas: compact`. A delta with offset 0, or the response to `subscribe`, has announced
/// the stream number.
#[derive(Debug, Serialize)]
pub struct CompactDelta<'a>(
    /// Number of the stream in this connection.
    pub u64,
    /// Offset in UTF-16 code units.
    pub usize,
    pub &'a str,
);

impl utoipa::PartialSchema for CompactDelta<'_> {
    fn schema() -> RefOr<Schema> {
        let number = || ObjectBuilder::new().schema_type(Type::Integer).build();
        let text = ObjectBuilder::new().schema_type(Type::String).build();
        let parts = [number(), number(), text].map(Schema::from);
        ArrayBuilder::new()
            .items(ArrayItems::False)
            .prefix_items(parts)
            .description(Some(
                "Only with `deltas: compact`: number of a stream, offset in UTF-16 code units, and text of a delta.",
            ))
            .into()
    }
}

impl ToSchema for CompactDelta<'_> {}

/// A streaming reply, and its number in compact deltas.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct StreamStart {
    pub stream: u64,
    pub task_id: TaskId,
    pub message_id: MessageId,
    pub attempt: i64,
}

impl LiveFrame<'_> {
    pub fn encode(&self) -> Utf8Bytes {
        encode_frame(self)
    }
}

/// Encodes a frame. Its fields are plain values, so this cannot fail.
pub fn encode_frame(frame: &impl Serialize) -> Utf8Bytes {
    serde_json::to_string(frame).unwrap_or_default().into()
}
