//! The queue of work that outlives a request: tasks are rows with leases.
//!
//! This module does not depend on features: a task carries type names and JSON. `queue` contains the SQL statements.
//! `worker` claims due tasks, passes them to the handler of their kind, renews their leases, and requeues the tasks of lost
//! workers. `calls` records their model calls, `budgets` limits them, `actions` stores their tool calls, `briefs` stores
//! the briefs and answers of delegated tasks, `steers` the messages that steer replies, and `usage` adds up usage.

pub mod actions;
pub mod asleep;
pub mod attempts;
pub mod briefs;
pub mod budgets;
pub mod calls;
pub mod costs;
pub mod failure;
mod items;
pub mod queue;
pub mod slow;
pub mod steers;
mod task;
pub mod usage;
pub mod worker;

pub use failure::{
    COLLABORATION_TURNS, COLLABORATORS, DELEGATIONS_IN_ROUND_MAX, FailCode, GUARD_MAX, GUARD_MIN,
    TREE_CALLS_MAX, TREE_DEPTH_MAX, TREE_RUN_MAX, TREE_TASKS_MAX, loop_notice, not_asked_text,
    notice_text, thought_notice, wait_notice,
};
pub use queue::{Lease, LeaseLost, NewLink, NewRunTask, NewScheduled, NewTask, Queue};
pub use task::{
    BriefContext, BriefFact, ChainStep, Lane, StepOptions, Task, TaskBrief, TaskError, TaskEvent,
    TaskInput, TaskKind, TaskOutput, TaskStatus, TaskTarget, TokenUsage, WaitReason,
};
