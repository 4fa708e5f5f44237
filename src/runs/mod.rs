//! Runs of workflows: the root task reads the states of its steps and makes the next moves, in one transaction.
//!
//! `planner` plans the moves, and `advance` makes them on `work`, which represents the stored run. `steps` contains the steps
//! that do not wait for people, `deep_dives` and `people` those that do. `values` provides the variables, `outputs` stores and
//! posts texts, and `conditions` runs the tasks of conditions; tasks of agents run as replies. `change` starts, cancels, and
//! resumes runs for people.

mod advance;
mod change;
mod conditions;
mod deep_dives;
mod error;
mod outputs;
mod people;
mod planner;
mod steps;
mod values;
mod work;

pub use advance::RunHandler;
pub use change::{
    ManualRun, RunWish, cancel_run, reader_of, remove_expired, resume_run, start_by_person,
};
pub use conditions::{ByRun, ConditionHandler};
pub use error::RunsError;
pub use people::wake_due;
