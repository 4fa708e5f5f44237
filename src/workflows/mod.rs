//! Workflows: lists of steps as data, with their versions.
//!
//! `definition` has the steps, `form` parses and checks them, `template` replaces variables in their texts, and `change` stores
//! them. `run` starts runs and reads them, `on_message` starts those of messages, and `recipes` are workflows to begin with. Nothing here
//! runs a step.

mod change;
pub mod definition;
mod error;
mod form;
pub mod on_message;
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
pub use version_rows::{WorkflowVersion, find_content, list_versions};
pub use workflow::{
    Filter, Workflow, WorkflowEvent, WorkflowObject, find_workflow, list_workflows, workspace_of,
};
