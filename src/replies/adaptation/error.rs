use crate::{
    agents::AgentError,
    auth::AuthError,
    chat::ChatError,
    db::DbError,
    http::error::{ApiError, ErrorCode, StatusCode},
};

#[derive(Debug, thiserror::Error)]
pub enum AdaptationError {
    #[error(
        "the agent does not adapt to you: the workspace, the agent, and your memory settings must all allow it"
    )]
    Off,
    #[error("{0}")]
    Invalid(String, &'static str),
    #[error(
        "the cursor does not belong to a list of adaptation states: use `next_cursor` of the previous page"
    )]
    InvalidCursor,
    #[error(
        "this workspace has no language model, which a reflection needs: ask an admin to set one up"
    )]
    NoModel,
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Chat(#[from] ChatError),
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<AdaptationError> for ApiError {
    fn from(e: AdaptationError) -> Self {
        use AdaptationError as E;
        let text = e.to_string();
        let make = |status, code| ApiError::new(status, code, text);
        match e {
            E::Off => make(StatusCode::CONFLICT, ErrorCode::AdaptationOff),
            E::Invalid(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param(param)
            }
            E::InvalidCursor => {
                make(StatusCode::BAD_REQUEST, ErrorCode::InvalidCursor).param("cursor")
            }
            E::NoModel => make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::NoModel),
            E::Auth(e) => e.into(),
            E::Agent(e) => e.into(),
            E::Chat(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}
