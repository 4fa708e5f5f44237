//! Errors of imports.

use super::archive::ArchiveFault;
use crate::{
    agents::AgentError,
    auth::AuthError,
    chat::ChatError,
    db::DbError,
    files::FileError,
    hooks::HookError,
    http::{ApiError, ErrorCode, error::StatusCode},
};

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("the import does not exist")]
    NotFound,
    #[error("an import is running in this workspace: wait until it has ended")]
    Running,
    #[error("at most {0} imports can wait for their start: delete one first")]
    TooMany(i64),
    #[error("the import is {0}: this is not possible now")]
    State(&'static str),
    #[error("the next piece must start at byte {0}")]
    WrongOffset(u64),
    #[error(
        "the archive is larger than the limit of {0} bytes, which OPENVIBE_IMPORT_BYTES_MAX sets"
    )]
    TooLarge(u64),
    #[error("a piece of an archive has at most {0} bytes: send a smaller one")]
    PieceTooLarge(u64),
    #[error("{0}")]
    UnknownArchive(String),
    #[error("{0}")]
    Invalid(String, &'static str),
    /// A record of an archive is not possible here.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Archive(#[from] ArchiveFault),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Hook(#[from] HookError),
    #[error(transparent)]
    Chat(#[from] ChatError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<ImportError> for ApiError {
    fn from(error: ImportError) -> Self {
        use ImportError as E;
        let text = error.to_string();
        let make = |status, code| ApiError::new(status, code, text);
        match error {
            E::NotFound => make(StatusCode::NOT_FOUND, ErrorCode::ImportNotFound),
            E::Running => make(StatusCode::CONFLICT, ErrorCode::ImportRunning),
            E::State(_) | E::TooMany(_) => make(StatusCode::CONFLICT, ErrorCode::ImportState),
            E::WrongOffset(_) => make(StatusCode::CONFLICT, ErrorCode::WrongOffset),
            E::TooLarge(_) | E::PieceTooLarge(_) => {
                make(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::FileTooLarge)
            }
            E::UnknownArchive(_) | E::Archive(_) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::UnknownArchive)
            }
            E::Refused(_) => make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue),
            E::Invalid(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param(param)
            }
            E::Agent(e) => e.into(),
            E::Hook(e) => e.into(),
            E::Chat(e) => e.into(),
            E::File(e) => e.into(),
            E::Auth(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}
