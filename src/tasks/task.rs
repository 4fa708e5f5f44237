//! A task as clients see it.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::FailCode;
use crate::{
    db::Json,
    ids::{
        AgentId, ChannelId, CompactionId, ForkId, MessageId, ResolutionId, ResponseId, RunId,
        TaskId, ThreadId, UserId, WorkspaceId,
    },
    realtime::hub::Conversation,
    realtime::{EventData, EventType},
    text_enum::text_enum,
    time::Timestamp,
};

text_enum! {
    /// Kind of work.
    pub enum TaskKind {
        /// Reply to a message.
        Reply = "reply",
        /// Draft of a resolution.
        Resolve = "resolve",
        /// Work of several agents on a goal in a fork; the children of the task are the turns and the draft.
        Collaborate = "collaborate",
        /// Summaries of older messages.
        Compact = "compact",
        /// Reflection of an agent on a person; visible only to that person.
        Reflect = "reflect",
        /// Other work of a small model, such as the tone of a message; visible only to the requester.
        Utility = "utility",
        /// Title of a chat with an agent; visible only to the requester.
        Title = "title",
        /// A summary of new messages in a thread; visible only to the requester.
        CatchUp = "catch_up",
        /// Replies of an agent that are written again with a draft of the agent; visible only to the requester. Each reply is a child
        /// task.
        Replay = "replay",
        /// Work of an agent at a time set by a schedule.
        Schedule = "schedule",
        /// Call to `/v1/responses` or `/v1/chat/completions`, recorded after it has ended; it is never queued.
        Response = "response",
        /// Work that an agent delegated to another one, or the prompt of a run's step. The task takes no turn in a conversation
        /// and posts nothing.
        Delegate = "delegate",
        /// Run of a workflow; the task has no agent.
        Workflow = "workflow",
    }
}

impl TaskKind {
    /// Returns true if only the requester sees tasks of this kind. `is_not_personal!` is the same condition in SQL.
    pub fn is_personal(self) -> bool {
        matches!(
            self,
            Self::Reflect | Self::Utility | Self::Title | Self::CatchUp | Self::Replay
        )
    }

    /// Lane of a new task. A retry is always in the foreground, because somebody waits for it.
    pub fn lane(self) -> Lane {
        match self {
            Self::Reply
            | Self::Resolve
            | Self::Collaborate
            | Self::Delegate
            | Self::Workflow
            | Self::Response => Lane::Foreground,
            Self::Compact
            | Self::Reflect
            | Self::Utility
            | Self::Title
            | Self::CatchUp
            | Self::Replay
            | Self::Schedule => Lane::Background,
        }
    }
}

text_enum! {
    /// Order in which queued tasks run.
    pub enum Lane {
        /// Work that somebody waits for. At most one reply per agent runs in a conversation.
        Foreground = "foreground",
        /// Work that takes no turn in a conversation and runs when nothing else is due.
        Background = "background",
    }
}

text_enum! {
    pub enum TaskStatus {
        Queued = "queued",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

text_enum! {
    /// Reason why a task is waiting.
    pub enum WaitReason {
        RateLimited = "rate_limited",
        Unavailable = "unavailable",
        /// Running calls have reserved the rest of a budget.
        Budget = "budget",
        /// People must approve or deny actions of the task; `retry_at` is null.
        Approval = "approval",
        /// The previous link of the chain has not completed; `retry_at` is null.
        Chain = "chain",
        /// Tasks that this one started have not ended; `retry_at` is null.
        Children = "children",
        /// The data was restored, and nobody has started the agents yet; `retry_at` is null.
        Asleep = "asleep",
        /// A runner has not begun with the task, or is away; `retry_at` is null.
        Runner = "runner",
    }
}

/// Position of a link in its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChainStep {
    /// Number of the link, starting at 1.
    pub step: i64,
    pub steps: i64,
}

text_enum! {
    /// Context that the agent of a delegated task receives.
    pub enum BriefContext {
        /// The brief alone.
        Brief = "brief",
        /// The conversation before the trigger message, then the brief.
        Conversation = "conversation",
    }
}

/// A fact stated in a brief.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BriefFact {
    pub text: String,
    /// Messages that state the fact; if empty, the fact is presented to the agent as unverified.
    pub sources: Vec<MessageId>,
}

/// Work that an agent delegates to another one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskBrief {
    pub message: String,
    pub facts: Vec<BriefFact>,
    pub constraints: Vec<String>,
    /// Description of the expected answer.
    pub output: Option<String>,
    /// Number of facts that were left out, because not every reader of the conversation can read their sources.
    pub left_out: i64,
}

/// Options of a task that runs a step of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepOptions {
    /// Byte ranges of the brief's message that contain values of variables. The rest are instructions of the workflow.
    pub contents: Vec<Range<usize>>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskInput {
    /// The trigger message without the mention. For a link of a chain, its part of the message. For a `resolve`, the guidance for the
    /// draft. For a `delegate`, the prompt of its root task. Empty for a heartbeat.
    pub prompt: String,
    /// Position in the chain, if the task is a link of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub chain: Option<ChainStep>,
    /// Further options, by kind:
    ///
    /// - `resolve`: `publish` and `replace_draft`
    /// - `schedule`: `schedule_id`, `name`, and `heartbeat`
    /// - `collaborate`: `agents`, `turns_max`, and `auto_publish`; its turns: `turn` and `turns_max`
    /// - `delegate`: `context` and `usd_max`
    /// - step of a run: `contents`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<Object>)]
    pub options: Option<serde_json::Value>,
    /// Brief of a `delegate`, included only for readers who can see it. Omitted in events and lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub brief: Option<TaskBrief>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskOutput {
    /// The reply; for a `resolve`, the resolution message if it was published immediately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub message_id: Option<MessageId>,
    /// The current draft of a `resolve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub resolution_id: Option<ResolutionId>,
    /// The response of a `/v1/responses` call, which is not necessarily stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub response_id: Option<ResponseId>,
    /// Segments that a `compact` made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compaction_ids: Vec<CompactionId>,
    /// Length of the text in UTF-16 code units.
    pub response_length: i64,
    /// Number of memory entries that the reply used, including personal ones; omitted if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub memories: usize,
    /// True for a turn of a collaboration in which the agent proposed to end the work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub done: bool,
    /// True if the agent of a reply delegated work; omitted if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delegated: bool,
    /// True if the answer of a `delegate` was cut off at its limit; omitted if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Answer of a `delegate`, included only for readers who can see it. Omitted in events and lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub answer: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "required by serde")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Usage of all ended model calls of a task, including canceled and failed attempts. For work in a repository, also what an agent reports of
/// calls to a provider of its own.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TokenUsage {
    pub input_tokens: i64,
    pub output_tokens: i64,
    /// The model that ran; can differ from the model of the agent.
    pub model: String,
    /// Costs in US dollars, if the model table has prices and the policy shows costs to the reader.
    pub cost_usd: Option<f64>,
    /// True if some of the counts are estimates because the provider did not report them.
    pub estimated: bool,
}

impl TokenUsage {
    /// Adds the usage of earlier calls. The cost is unknown if one of them is unknown.
    #[must_use]
    pub fn plus(self, earlier: Option<Self>) -> Self {
        let Some(earlier) = earlier else {
            return self;
        };
        let costs = self.cost_usd.zip(earlier.cost_usd);
        Self {
            input_tokens: self.input_tokens + earlier.input_tokens,
            output_tokens: self.output_tokens + earlier.output_tokens,
            model: self.model,
            cost_usd: costs.map(|(one, other)| one + other),
            estimated: self.estimated || earlier.estimated,
        }
    }

    /// Usage of a task that made no model calls.
    pub fn none(model: &str) -> Self {
        Self {
            input_tokens: 0,
            output_tokens: 0,
            model: model.to_owned(),
            cost_usd: None,
            estimated: true,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskError {
    pub code: FailCode,
    /// Human-readable description: the cause, and what to do.
    pub message: String,
}

/// Agent and conversation of a queued task.
#[derive(Debug, Clone, Copy)]
pub struct TaskTarget {
    pub agent: AgentId,
    pub agent_version: i64,
    pub channel: ChannelId,
    pub thread: ThreadId,
    pub fork: Option<ForkId>,
}

impl TaskTarget {
    /// Target of a queued task. Missing IDs are nil, because a run has no agent, and a run and its steps need no channel.
    pub(super) fn of_queued(
        agent: Option<(AgentId, i64)>,
        channel: Option<ChannelId>,
        thread: ThreadId,
        fork: Option<ForkId>,
    ) -> Self {
        let nil = uuid::Uuid::nil();
        let (agent, agent_version) = agent.unwrap_or((AgentId(nil), 0));
        Self {
            agent,
            agent_version,
            channel: channel.unwrap_or(ChannelId(nil)),
            thread,
            fork,
        }
    }

    /// The fork, or the main line of the thread.
    pub fn conversation(&self) -> Conversation {
        self.fork
            .map_or(Conversation::Thread(self.thread), Conversation::Fork)
    }
}

/// A unit of work for an agent, or for a model without an agent.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct Task {
    pub id: TaskId,
    pub workspace_id: WorkspaceId,
    /// Kind of work:
    ///
    /// - `collaborate` runs the turns of several agents.
    /// - `compact` summarizes older messages.
    /// - `reflect`, `utility`, `catch_up`, and `replay` are visible only to their requester.
    /// - `delegate` is work that an agent delegated to another one, or an agent's work in a step of a run.
    /// - `workflow` is a run.
    /// - `response` is a call to `/v1/responses` or `/v1/chat/completions`, recorded after it has ended.
    pub kind: TaskKind,
    pub status: TaskStatus,
    /// Null only for a `response` without an agent, and for a `workflow`.
    pub agent_id: Option<AgentId>,
    pub agent_version: Option<i64>,
    /// Null for a `response`, which has no conversation, and for a run without one.
    pub channel_id: Option<ChannelId>,
    /// Null if the task has no conversation. Also null for a `schedule` or a `workflow` that starts a thread, and for the tasks below
    /// it, until its first message is posted.
    pub thread_id: Option<ThreadId>,
    pub fork_id: Option<ForkId>,
    pub trigger_message_id: Option<MessageId>,
    /// The reply, once it has text.
    pub reply_message_id: Option<MessageId>,
    pub requested_by: UserId,
    pub retry_of: Option<TaskId>,
    /// The task that started this one.
    pub parent_task_id: Option<TaskId>,
    /// The topmost parent task, or the task itself if it has no parent.
    pub root_task_id: TaskId,
    /// The previous link of the chain.
    pub after_task_id: Option<TaskId>,
    /// The run that the task belongs to.
    pub run_id: Option<RunId>,
    /// Step of the run to which the task belongs; null for the run itself.
    pub step_id: Option<String>,
    /// Number of parents above the task.
    pub depth: i64,
    /// Number of the current or next model call.
    pub attempt: i64,
    /// Number of model calls that were followed by tool calls.
    pub round: i64,
    /// Retry time of a waiting task.
    pub retry_at: Option<Timestamp>,
    /// Reason why a task is waiting.
    pub wait_reason: Option<WaitReason>,
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
    /// Returns `None` for a `response`, which is never queued, and for a task without an agent or a conversation. The thread that a
    /// `schedule` starts has the UUID of the task. Tasks to which it delegates before the thread exists belong to that thread as
    /// well.
    pub fn target(&self) -> Option<TaskTarget> {
        Some(TaskTarget {
            agent: self.agent_id?,
            agent_version: self.agent_version?,
            channel: self.channel_id?,
            thread: match self.kind {
                TaskKind::Schedule | TaskKind::Delegate => self.queued_thread(),
                _ => self.thread_id?,
            },
            fork: self.fork_id,
        })
    }

    /// Agent and conversation of a queued task; nil IDs if it has none.
    pub fn queued_target(&self) -> TaskTarget {
        TaskTarget::of_queued(
            self.agent_id.zip(self.agent_version),
            self.channel_id,
            self.queued_thread(),
            self.fork_id,
        )
    }

    /// Returns the thread or, before it exists, the UUID of the root task, because the reply of a `schedule` starts the thread with
    /// that UUID.
    fn queued_thread(&self) -> ThreadId {
        self.thread_id.unwrap_or(ThreadId(self.root_task_id.0))
    }

    /// Checks whether the task's reply will start a thread and has not been posted yet.
    pub fn starts_thread(&self) -> bool {
        self.kind == TaskKind::Schedule && self.thread_id.is_none()
    }

    pub fn is_active(&self) -> bool {
        matches!(self.status, TaskStatus::Queued | TaskStatus::Running)
    }
}

#[derive(Serialize, utoipa::ToSchema)]
pub struct TaskEvent<'a> {
    pub task: &'a Task,
}

impl EventData for TaskEvent<'_> {
    const TYPES: &'static [EventType] = &[EventType::TaskStatusChanged];
}
