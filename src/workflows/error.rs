use super::Workflow;
use crate::{
    auth::AuthError,
    db::DbError,
    http::error::{ApiError, ErrorCode, StatusCode},
};

/// Maximum number of active runs of a workflow.
pub(super) const RUNS_MAX: i64 = 10;
/// Maximum number of workflows in a workspace that are not archived.
pub(super) const WORKFLOWS_MAX: i64 = 100;

#[derive(Debug, thiserror::Error)]
pub enum WorkflowError {
    #[error("the workflow does not exist in this workspace")]
    NotFound,
    #[error("the name `{0}` is taken by another workflow of this workspace: choose another")]
    NameTaken(String),
    /// Invalid value: the message, and the path of the field.
    #[error("{0}")]
    Invalid(String, String),
    /// Object that does not exist or is hidden from the actor: the message, the path of the field, and the code.
    #[error("{0}")]
    Missing(String, String, ErrorCode),
    #[error(
        "the workflow has changed since you loaded it: reload it, reapply your change, and send it again"
    )]
    Stale(Box<Workflow>),
    #[error("the workflow has no version {0}")]
    VersionNotFound(i64),
    #[error("a workspace can have at most {WORKFLOWS_MAX} workflows: archive one first")]
    TooMany,
    #[error("only the owner of the workflow and admins can change it")]
    NotYours,
    #[error("the workflow is paused or archived: activate it first")]
    Paused,
    #[error("the workflow already has {RUNS_MAX} active runs: wait for one, or cancel it")]
    TooManyRuns,
    #[error("the run does not exist, or you cannot see it")]
    RunNotFound,
    #[error(
        "only the person who started the run, the owner of the workflow, and admins can do this"
    )]
    NotYourRun,
    #[error("only a failed run can be resumed")]
    NotFailed,
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<WorkflowError> for ApiError {
    fn from(e: WorkflowError) -> Self {
        use WorkflowError as E;
        let text = e.to_string();
        let make = |status, code| ApiError::new(status, code, text);
        match e {
            E::NotFound => make(StatusCode::NOT_FOUND, ErrorCode::WorkflowNotFound),
            E::NameTaken(_) => make(StatusCode::CONFLICT, ErrorCode::NameTaken).param("name"),
            E::Invalid(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param(param)
            }
            E::Missing(_, param, code) => make(StatusCode::NOT_FOUND, code).param(param),
            E::Stale(workflow) => make(StatusCode::CONFLICT, ErrorCode::VersionConflict)
                .param("If-Match")
                .with_current(&workflow),
            E::VersionNotFound(_) => make(StatusCode::NOT_FOUND, ErrorCode::VersionNotFound),
            E::TooMany => make(StatusCode::CONFLICT, ErrorCode::TooManyWorkflows),
            E::Paused => make(StatusCode::CONFLICT, ErrorCode::WorkflowPaused),
            E::TooManyRuns => make(StatusCode::TOO_MANY_REQUESTS, ErrorCode::TooManyRuns),
            E::RunNotFound => make(StatusCode::NOT_FOUND, ErrorCode::RunNotFound),
            E::NotFailed => make(StatusCode::CONFLICT, ErrorCode::NotFailed),
            E::NotYours | E::NotYourRun => make(StatusCode::FORBIDDEN, ErrorCode::NotYours),
            E::Auth(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}
