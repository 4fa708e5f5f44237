//! A task as clients see it.

use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    db::Json,
    ids::{
        AgentId, ChannelId, ForkId, MessageId, ResolutionId, ResponseId, TaskId, ThreadId, UserId,
        WorkspaceId,
    },
    realtime::hub::Spot,
};

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskInput {
    /// The trigger without the mention; of a `resolve`, what the person asks the draft to look at.
    pub prompt: String,
    /// What else the task was asked to do, by kind; of a `resolve`: `publish`, `replace_draft`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub options: Option<serde_json::Value>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskOutput {
    /// The reply; of a `resolve` the card, if it was published at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// Of a `resolve`: the draft that there is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_id: Option<ResolutionId>,
    /// Of a `response`: the answer of `/v1/responses`, which need not be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<ResponseId>,
    /// In UTF-16 code units.
    pub response_length: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TokenUsage {
    pub input_tokens: i64,
    pub output_tokens: i64,
    /// The model that ran, which need not be the one that the agent names.
    pub model: String,
    /// US dollars, where the model table knows prices.
    pub cost_usd: Option<f64>,
    /// The provider sent no counts, so these are estimates.
    pub estimated: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskError {
    /// One of `model_unavailable`, `rate_limited`, `timeout`, `bad_response`, `context_too_large`, `bad_request`, `auth`,
    /// `worker_lost`, `queue_full`.
    pub code: String,
    /// What happened and what to do, for people.
    pub message: String,
}

/// Who works on a task of the queue, and where.
#[derive(Debug, Clone, Copy)]
pub struct Seat {
    pub agent: AgentId,
    pub agent_version: i64,
    pub channel: ChannelId,
    pub thread: ThreadId,
    pub fork: Option<ForkId>,
}

impl Seat {
    /// The thread's main line, or the dive.
    pub fn place(&self) -> Spot {
        self.fork.map_or(Spot::Thread(self.thread), Spot::Fork)
    }
}

/// Work that an agent, or only a model, was asked to do.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct Task {
    pub id: TaskId,
    pub workspace_id: WorkspaceId,
    /// `reply`, `resolve`, `compact`: a summary for a reply whose context was too large, or `response`: a call of
    /// `/v1/responses`, recorded once it has ended.
    pub kind: String,
    /// One of `queued`, `running`, `completed`, `failed`, `cancelled`.
    pub status: String,
    /// Null only for a `response` that asked no agent.
    pub agent_id: Option<AgentId>,
    pub agent_version: Option<i64>,
    /// Null for a `response`, which belongs to no place.
    pub channel_id: Option<ChannelId>,
    pub thread_id: Option<ThreadId>,
    pub fork_id: Option<ForkId>,
    pub trigger_message_id: Option<MessageId>,
    /// The reply, as soon as it has text.
    pub reply_message_id: Option<MessageId>,
    pub requested_by: UserId,
    pub retry_of: Option<TaskId>,
    /// The number of the model call that runs, or is next.
    pub attempt: i64,
    /// While a queued task waits: until when.
    pub retry_at: Option<Timestamp>,
    /// While a queued task waits: `rate_limited` or `unavailable`.
    pub wait_reason: Option<String>,
    #[schema(value_type = TaskInput)]
    pub input: Json<TaskInput>,
    #[schema(value_type = Option<TaskOutput>)]
    pub output: Option<Json<TaskOutput>>,
    #[schema(value_type = Option<TokenUsage>)]
    pub token_usage: Option<Json<TokenUsage>>,
    #[schema(value_type = Option<TaskError>)]
    pub error: Option<Json<TaskError>>,
    pub queued_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
}

impl Task {
    /// `None` for a `response`, which never is in the queue.
    pub fn seat(&self) -> Option<Seat> {
        Some(Seat {
            agent: self.agent_id?,
            agent_version: self.agent_version?,
            channel: self.channel_id?,
            thread: self.thread_id?,
            fork: self.fork_id,
        })
    }

    pub fn is_active(&self) -> bool {
        matches!(self.status.as_str(), "queued" | "running")
    }
}

#[derive(Serialize)]
pub struct TaskEvent<'a> {
    pub task: &'a Task,
}
