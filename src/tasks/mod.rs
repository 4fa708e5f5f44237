//! The one queue of work that outlives a request: tasks are rows with leases.
//!
//! Knows no feature: a task carries type names and JSON. `queue` holds the statements, `worker` claims due tasks and
//! hands them to the handler of their kind, renews leases, and puts back what a lost worker left behind; `usage` adds up
//! what tasks took.

pub mod queue;
mod task;
pub mod usage;
pub mod worker;

pub use queue::{Lease, LeaseLost, NewTask, Queue};
pub use task::{Seat, Task, TaskError, TaskEvent, TaskInput, TaskOutput, TokenUsage};
