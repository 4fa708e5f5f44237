//! Errors of exports.

use crate::{
    agents::AgentError,
    auth::AuthError,
    db::DbError,
    disk::LowDiskSpace,
    files::FileError,
    http::{ApiError, ErrorCode, error::StatusCode},
};

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("the export does not exist, or it has expired")]
    NotFound,
    #[error("{0} exports of this workspace are being written: wait until one has ended")]
    Running(i64),
    #[error("a workspace can have at most {0} exports a day: download one of them")]
    TooMany(i64),
    #[error("the export is not ready yet: its state is {0}")]
    NotReady(&'static str),
    /// The person who requested it is no longer an admin.
    #[error("Only admins can export a workspace.")]
    NotAdmin,
    /// The archive takes no space that messages need.
    #[error("The server's disk is almost full.")]
    LowDiskSpace(#[from] LowDiskSpace),
    /// Stopped, or written by another node.
    #[error("the export was stopped")]
    Stopped,
    #[error("the archive could not be written: {0}")]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<ExportError> for ApiError {
    fn from(error: ExportError) -> Self {
        use ExportError as E;
        let text = error.to_string();
        let make = |status, code| ApiError::new(status, code, text);
        match error {
            E::NotFound => make(StatusCode::NOT_FOUND, ErrorCode::ExportNotFound),
            E::Running(_) | E::TooMany(_) => make(StatusCode::CONFLICT, ErrorCode::ExportRunning),
            E::NotReady(_) => make(StatusCode::CONFLICT, ErrorCode::ExportNotReady),
            // These end the job.
            E::NotAdmin | E::Stopped | E::Io(_) => ApiError::internal(),
            E::LowDiskSpace(e) => e.into(),
            E::Agent(e) => e.into(),
            E::File(e) => e.into(),
            E::Auth(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}
