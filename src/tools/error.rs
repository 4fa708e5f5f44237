use crate::{
    auth::AuthError,
    chat::ChatError,
    db::DbError,
    http::error::{ApiError, ErrorCode, StatusCode},
};

#[derive(Debug, thiserror::Error)]
pub enum ToolsError {
    #[error("the action does not exist, or you are not in its channel")]
    ActionNotFound,
    #[error("the permission does not exist, or it is not yours")]
    GrantNotFound,
    #[error("the arguments are not the ones that you saw: load the action again")]
    ArgumentsChanged,
    #[error("the action is {0}: nothing is left to decide")]
    AlreadyDecided(&'static str),
    #[error("nobody decided in time: ask the agent again")]
    ActionExpired,
    #[error("this action needs the approval of other people")]
    NotYourApproval,
    #[error(
        "this action cannot be allowed for an hour, because it needs more than the requester's approval, runs code, or is destructive: approve it once"
    )]
    NotGrantable,
    #[error("a question needs an answer: choose an option, or fill in the form")]
    NeedsAnswer,
    /// Reason why an answer is rejected.
    #[error("{0}")]
    BadAnswer(&'static str),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Chat(#[from] ChatError),
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<ToolsError> for ApiError {
    fn from(e: ToolsError) -> Self {
        use ToolsError as E;
        let text = e.to_string();
        let make = |status, code| ApiError::new(status, code, text);
        match e {
            E::ActionNotFound => make(StatusCode::NOT_FOUND, ErrorCode::ActionNotFound),
            E::GrantNotFound => make(StatusCode::NOT_FOUND, ErrorCode::GrantNotFound),
            E::ArgumentsChanged => {
                make(StatusCode::CONFLICT, ErrorCode::ArgumentsChanged).param("arguments_hash")
            }
            E::AlreadyDecided(_) => make(StatusCode::CONFLICT, ErrorCode::AlreadyDecided),
            E::ActionExpired => make(StatusCode::CONFLICT, ErrorCode::ActionExpired),
            E::NotYourApproval => make(StatusCode::FORBIDDEN, ErrorCode::NotYourApproval),
            E::NotGrantable => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::NotGrantable).param("for")
            }
            E::NeedsAnswer => make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue),
            E::BadAnswer(_) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param("value")
            }
            E::Auth(e) => e.into(),
            E::Chat(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}
