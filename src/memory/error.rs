use std::fmt;

use crate::{
    agents::{AgentError, switch::SwitchLevel},
    auth::AuthError,
    chat::ChatError,
    db::DbError,
    http::error::{ApiError, ErrorCode, StatusCode},
    memory::{
        entry::Entry,
        user_file::{USER_FILE_BYTES_MAX, UserFile},
    },
};

/// A part of memory that a switch stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    pub(super) feature: &'static str,
    pub(super) by: SwitchLevel,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let feature = self.feature;
        match self.by {
            SwitchLevel::Server => write!(
                f,
                "this server has turned memory off: its operator can turn it on with OPENVIBE_MEMORY"
            ),
            SwitchLevel::Workspace => write!(
                f,
                "the workspace has turned {feature} off: an admin can turn it on in Settings"
            ),
            SwitchLevel::Agent => write!(
                f,
                "the agent has {feature} turned off: one of its editors can turn it on"
            ),
            SwitchLevel::Person => write!(
                f,
                "you have turned {feature} off: turn it on in Settings first"
            ),
            SwitchLevel::Thread => {
                write!(f, "{feature} is turned off: turn it on in the thread first")
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    #[error("the memory does not exist, or you cannot see it")]
    NotFound,
    #[error("{0}")]
    Invalid(String, &'static str),
    #[error("{0}")]
    InvalidQuery(String, &'static str),
    #[error(
        "not everyone who would see the memory can read its sources: choose a narrower visibility, or other sources"
    )]
    NotVisibleThere,
    #[error(
        "the text looks like a password, a key, or a card number, which agents must not remember: leave it out"
    )]
    LooksLikeSecret,
    #[error("{0}")]
    Off(Stopped),
    #[error("the limit of {0} memories is reached: forget some first")]
    Full(i64),
    #[error("the memory has changed since you loaded it: reload it, and reapply your change")]
    Stale(Box<Entry>),
    #[error("the memory comes from a file of the agent: change the file")]
    FromFile,
    #[error("you have no USER.md in this workspace")]
    NoUserFile,
    #[error("the file is {0} bytes; the limit is {USER_FILE_BYTES_MAX}: shorten it")]
    UserFileTooLarge(usize),
    #[error("the file has changed since you loaded it: reload it, and reapply your change")]
    UserFileStale(Box<UserFile>),
    #[error("nobody who can change the memory has allowed admins to share it with the workspace")]
    NotShared,
    #[error("this is in the memory of the workspace: ask an admin to delete it")]
    Published,
    #[error("only facts, people, projects, and decisions that people stated can be published")]
    KindNotAllowed,
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Chat(#[from] ChatError),
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<MemoryError> for ApiError {
    fn from(e: MemoryError) -> Self {
        use MemoryError as E;
        let text = e.to_string();
        let make = |status, code| ApiError::new(status, code, text);
        match e {
            E::NotFound => make(StatusCode::NOT_FOUND, ErrorCode::MemoryNotFound),
            E::Invalid(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param(param)
            }
            E::InvalidQuery(_, "cursor") => {
                make(StatusCode::BAD_REQUEST, ErrorCode::InvalidCursor).param("cursor")
            }
            E::InvalidQuery(_, param) => {
                make(StatusCode::BAD_REQUEST, ErrorCode::InvalidQuery).param(param)
            }
            E::NotVisibleThere => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::NotVisibleThere)
                    .param("visibility")
            }
            E::LooksLikeSecret => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::LooksLikeSecret).param("text")
            }
            E::Off(_) => make(StatusCode::CONFLICT, ErrorCode::MemoryOff),
            E::Full(_) => make(StatusCode::CONFLICT, ErrorCode::MemoryFull),
            E::Stale(entry) => make(StatusCode::CONFLICT, ErrorCode::VersionConflict)
                .param("If-Match")
                .with_current(&entry),
            E::FromFile => make(StatusCode::CONFLICT, ErrorCode::FromFile),
            E::NoUserFile => make(StatusCode::NOT_FOUND, ErrorCode::FileNotFound),
            E::UserFileTooLarge(_) => {
                make(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::FileTooLarge).param("content")
            }
            E::UserFileStale(file) => make(StatusCode::CONFLICT, ErrorCode::VersionConflict)
                .param("If-Match")
                .with_current(&file),
            E::Published => make(StatusCode::FORBIDDEN, ErrorCode::Published),
            E::NotShared => make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::NotShared),
            E::KindNotAllowed => make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::KindNotAllowed),
            E::Auth(e) => e.into(),
            E::Agent(e) => e.into(),
            E::Chat(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}
