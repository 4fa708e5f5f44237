//! Errors of runners, repositories, and sessions.

use super::repository::Repository;
use crate::{
    auth::AuthError,
    chat::ChatError,
    db::DbError,
    http::{ApiError, ErrorCode, error::StatusCode},
    ids::{ChannelId, UserId},
};

#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    #[error("the runner does not exist in this workspace")]
    RunnerNotFound,
    #[error("a workspace can have at most {0} runners: delete one first")]
    TooManyRunners(i64),
    #[error("the repository does not exist, or you don't have access to it")]
    RepositoryNotFound,
    #[error(
        "the repository has changed since you loaded it: reload it, reapply your change, and send it again"
    )]
    RepositoryStale(Box<Repository>),
    #[error("no runner is connected for {0}: start it with `openvibe runner`")]
    RunnerAway(String),
    #[error("other people import folders of {0}: try again in a moment")]
    TooManyReads(String),
    #[error("the runner did not send the folder in time: try again, or read the runner's log")]
    FolderLate,
    #[error("there is no channel {0} in this workspace, or you are not in it")]
    NoSuchChannel(ChannelId),
    #[error("{0} is not a member of this workspace, or is a guest")]
    NoSuchMember(UserId),
    #[error("the session does not exist, or you are not in its channel")]
    SessionNotFound,
    #[error(
        "the session has changed since you loaded it: reload it, reapply your change, and send it again"
    )]
    SessionStale(serde_json::Value),
    #[error("only people who may start work on this repository can do this: ask an admin")]
    NotStarter,
    #[error("the changes are not the ones that you saw: load them again")]
    DiffChanged,
    /// Invalid value: the message, and the field.
    #[error("{0}")]
    Invalid(String, &'static str),
    #[error(transparent)]
    Chat(#[from] ChatError),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<CodeError> for ApiError {
    fn from(e: CodeError) -> Self {
        use CodeError as E;
        use ErrorCode as C;
        let text = e.to_string();
        let make = |status, code| Self::new(status, code, text);
        match e {
            E::RunnerNotFound => make(StatusCode::NOT_FOUND, C::RunnerNotFound),
            E::TooManyRunners(_) => make(StatusCode::CONFLICT, C::TooManyRunners),
            E::RepositoryNotFound => make(StatusCode::NOT_FOUND, C::RepositoryNotFound),
            E::RepositoryStale(repository) => make(StatusCode::CONFLICT, C::VersionConflict)
                .param("If-Match")
                .with_current(&repository),
            E::SessionStale(session) => make(StatusCode::CONFLICT, C::VersionConflict)
                .param("If-Match")
                .with_current(&session),
            E::RunnerAway(_) | E::TooManyReads(_) | E::FolderLate => {
                make(StatusCode::SERVICE_UNAVAILABLE, C::Unavailable)
            }
            E::NoSuchChannel(_) => {
                make(StatusCode::NOT_FOUND, C::ChannelNotFound).param("channel_ids")
            }
            E::NoSuchMember(_) => make(StatusCode::NOT_FOUND, C::MemberNotFound).param("starters"),
            E::SessionNotFound => make(StatusCode::NOT_FOUND, C::CodeSessionNotFound),
            E::NotStarter => make(StatusCode::FORBIDDEN, C::NotStarter),
            E::DiffChanged => make(StatusCode::CONFLICT, C::DiffChanged).param("review"),
            E::Invalid(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, C::InvalidValue).param(param)
            }
            E::Chat(e) => e.into(),
            E::Auth(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}
