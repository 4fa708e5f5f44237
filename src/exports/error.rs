//! Errors of exports.

use crate::{agents::AgentError, db::DbError, files::FileError};

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("the export was stopped")]
    Stopped,
    #[error("the archive could not be written: {0}")]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Db(#[from] DbError),
}
