//! Workflows: lists of steps as data, with their versions.
//!
//! `definition` contains the types of steps, `form` parses and checks steps, `template` replaces variables in their texts, and
//! `change` stores workflows. `run` starts and reads runs, `on_message` starts runs for messages, and `recipes` contains workflow
//! templates. `readable` hides channels. This module does not execute steps.

mod change;
pub mod definition;
mod error;
mod form;
pub mod on_message;
mod readable;
pub mod recipes;
pub mod run;
pub mod template;
mod version_rows;
mod workflow;

pub use change::{
    archive_workflow, create_workflow, patch_workflow, put_workflow, rollback_workflow,
};
pub use error::WorkflowError;
pub use form::{StepForm, WorkflowForm, WorkflowPatch};
pub use readable::{hide_channels, hide_channels_of_versions};
pub use version_rows::{WorkflowVersion, find_content, list_versions};
pub use workflow::{
    Filter, Workflow, WorkflowEvent, WorkflowObject, find_workflow, list_workflows, workspace_of,
};
