//! Schedules as they are stored and shown.

use serde::Serialize;
use uuid::Uuid;

pub use crate::workflows::definition::PausedReason;
use crate::{
    ids::{
        AgentId, ApiKeyId, ChannelId, ScheduleId, TaskId, ThreadId, UserId, WorkflowId, WorkspaceId,
    },
    text_enum::{constant, text_enum},
    time::Timestamp,
};

/// Minimum interval between slots in minutes. Heartbeats have a longer one, which is the second constant.
pub(super) const APART_MINUTES_MIN: i64 = 5;
const HEARTBEAT_APART_MINUTES_MIN: i64 = 15;
/// Maximum number of schedules per workspace.
pub(super) const WORKSPACE_MAX: i64 = 100;

constant! { pub ScheduleObject = "schedule" }

text_enum! {
    /// Handling of slots that were due while the server was down.
    pub enum MissedPolicy {
        /// Fires the newest missed slot if it is less than an hour old.
        RunOnce = "run_once",
        Skip = "skip",
    }
}

/// Target of a schedule: an agent with a prompt, a workflow with an input, or an agent's heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ScheduleTarget {
    Agent {
        agent_id: AgentId,
        prompt: String,
    },
    Workflow {
        workflow_id: WorkflowId,
        /// Input of the run; blank if there is none.
        input: String,
    },
    /// Runs an agent with its HEARTBEAT.md as the prompt.
    Heartbeat {
        agent_id: AgentId,
    },
}

impl ScheduleTarget {
    /// The agent that runs; `None` for a workflow.
    pub(super) fn agent(&self) -> Option<AgentId> {
        match self {
            Self::Agent { agent_id, .. } | Self::Heartbeat { agent_id } => Some(*agent_id),
            Self::Workflow { .. } => None,
        }
    }

    /// Minimum interval between slots in minutes.
    pub(super) fn apart_minutes(&self) -> i64 {
        match self {
            Self::Agent { .. } | Self::Workflow { .. } => APART_MINUTES_MIN,
            Self::Heartbeat { .. } => HEARTBEAT_APART_MINUTES_MIN,
        }
    }
}

text_enum! {
    /// Type of a target.
    pub(super) enum TargetType {
        Agent = "agent",
        Workflow = "workflow",
        Heartbeat = "heartbeat",
    }
}

/// A target as it is stored.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct StoredTarget {
    pub target_type: TargetType,
    /// ID of the agent or the workflow.
    pub target_id: Uuid,
    /// Prompt of an agent, or input of a workflow; blank for a heartbeat.
    pub prompt: String,
}

impl From<ScheduleTarget> for StoredTarget {
    fn from(target: ScheduleTarget) -> Self {
        let (target_type, target_id, prompt) = match target {
            ScheduleTarget::Agent { agent_id, prompt } => (TargetType::Agent, agent_id.0, prompt),
            ScheduleTarget::Workflow { workflow_id, input } => {
                (TargetType::Workflow, workflow_id.0, input)
            }
            ScheduleTarget::Heartbeat { agent_id } => {
                (TargetType::Heartbeat, agent_id.0, String::new())
            }
        };
        Self {
            target_type,
            target_id,
            prompt,
        }
    }
}

/// Location of the replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum Delivery {
    /// Each slot starts a thread.
    Channel { channel_id: ChannelId },
    /// All replies are posted in the main line of the thread.
    Thread { thread_id: ThreadId },
}

text_enum! {
    pub enum ScheduleStatus {
        Active = "active",
        Paused = "paused",
    }
}

text_enum! {
    pub enum SlotState {
        /// The slot started a task.
        Fired = "fired",
        Skipped = "skipped",
        /// The server was down at the time of the slot.
        Missed = "missed",
    }
}

text_enum! {
    /// Reason why a slot was skipped.
    pub enum SlotReason {
        /// The previous task had not ended.
        StillRunning = "still_running",
        /// HEARTBEAT.md is missing or blank.
        Empty = "empty",
        /// The agent is turned off.
        AgentOff = "agent_off",
        /// The owner left, or can no longer post in the channel or invoke the agent.
        OwnerGone = "owner_gone",
        /// The workflow is paused or archived, or now has a step that posts although the schedule has no
        /// channel.
        WorkflowOff = "workflow_off",
        /// The workflow has too many active runs.
        TooManyRuns = "too_many_runs",
    }
}

/// The most recent past slot.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct LastSlot {
    pub at: Timestamp,
    #[schema(inline)]
    pub state: SlotState,
    pub task_id: Option<TaskId>,
}

/// A schedule runs an agent or a workflow for its owner at the times of a cron expression.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Schedule {
    pub id: ScheduleId,
    #[schema(inline)]
    pub object: ScheduleObject,
    pub name: String,
    pub cron: String,
    pub timezone: String,
    pub target: ScheduleTarget,
    /// Location of the replies; null only for a workflow that posts nothing.
    pub deliver: Option<Delivery>,
    #[schema(inline)]
    pub missed: MissedPolicy,
    #[schema(inline)]
    pub status: ScheduleStatus,
    pub paused_reason: Option<PausedReason>,
    pub owner_id: UserId,
    /// Name of the owner, even after the owner has left the workspace.
    pub owner_name: Option<String>,
    /// Time of the next slot; null while the schedule is paused.
    pub next_run_at: Option<Timestamp>,
    pub last_slot: Option<LastSlot>,
    pub version: i64,
}

#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct Row {
    pub id: ScheduleId,
    pub workspace_id: WorkspaceId,
    pub name: String,
    pub cron: String,
    pub timezone: String,
    #[sqlx(flatten)]
    pub stored_target: StoredTarget,
    pub channel_id: Option<ChannelId>,
    pub thread_id: Option<ThreadId>,
    pub missed: MissedPolicy,
    pub status: ScheduleStatus,
    pub paused_reason: Option<PausedReason>,
    pub owner_id: UserId,
    pub owner_name: Option<String>,
    /// API key with which the target was set.
    pub api_key_id: Option<ApiKeyId>,
    pub next_run_at: Option<Timestamp>,
    pub last_task_id: Option<TaskId>,
    pub version: i64,
    pub slot_at: Option<Timestamp>,
    pub slot_state: Option<SlotState>,
    pub slot_task_id: Option<TaskId>,
}

/// Statement that selects the columns of a `Row` from `schedules` as `s`; the argument is appended to it.
macro_rules! schedule_sql {
    ($tail:expr) => {
        concat!(
            "select s.id, s.workspace_id, s.name, s.cron, s.timezone, s.target_type, s.target_id, s.prompt, s.channel_id, s.thread_id, s.missed, s.status, \
             s.paused_reason, s.owner_id, s.api_key_id, s.next_run_at, s.last_task_id, s.version, l.slot_at, l.state as slot_state, \
             l.task_id as slot_task_id, u.name as owner_name from schedules s \
              left join users u on u.id = s.owner_id left join schedule_slots l on l.schedule_id = s.id \
             and l.slot_at = (select max(x.slot_at) from schedule_slots x where x.schedule_id = s.id) ",
            $tail
        )
    };
}
pub(super) use schedule_sql;

impl Row {
    pub(super) fn target(&self) -> ScheduleTarget {
        let StoredTarget {
            target_type,
            target_id,
            prompt,
        } = &self.stored_target;
        match target_type {
            TargetType::Agent => ScheduleTarget::Agent {
                agent_id: AgentId(*target_id),
                prompt: prompt.clone(),
            },
            TargetType::Workflow => ScheduleTarget::Workflow {
                workflow_id: WorkflowId(*target_id),
                input: prompt.clone(),
            },
            TargetType::Heartbeat => ScheduleTarget::Heartbeat {
                agent_id: AgentId(*target_id),
            },
        }
    }
}

impl From<Row> for Schedule {
    fn from(row: Row) -> Self {
        let target = row.target();
        let last_slot = row.slot_at.zip(row.slot_state);
        Self {
            id: row.id,
            object: ScheduleObject,
            target,
            deliver: match (row.thread_id, row.channel_id) {
                (Some(thread_id), _) => Some(Delivery::Thread { thread_id }),
                (None, Some(channel_id)) => Some(Delivery::Channel { channel_id }),
                (None, None) => None,
            },
            last_slot: last_slot.map(|(at, state)| LastSlot {
                at,
                state,
                task_id: row.slot_task_id,
            }),
            name: row.name,
            cron: row.cron,
            timezone: row.timezone,
            missed: row.missed,
            status: row.status,
            paused_reason: row.paused_reason,
            owner_id: row.owner_id,
            owner_name: row.owner_name,
            next_run_at: row.next_run_at,
            version: row.version,
        }
    }
}
