//! Runs of workflows: the root task reads the states of its steps and makes the next moves, in one transaction.
//!
//! `planner` plans the moves, `advance` makes them, `values` has the variables, `outputs` stores and posts texts, `people` has
//! the steps that wait for people, `work` runs the tasks
//! of steps, and `change` cancels and resumes runs.

mod advance;
mod change;
mod error;
mod outputs;
mod people;
mod planner;
mod values;
mod work;

pub use advance::RunHandler;
pub use change::{RunWish, cancel_run, reader_of, remove_expired, resume_run, start_by_person};
pub use error::RunsError;
pub use people::wake_due;
pub use work::{ByRun, StepHandler};
