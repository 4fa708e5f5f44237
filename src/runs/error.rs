use crate::{
    auth::AuthError, chat::ChatError, db::DbError, http::error::ApiError, workflows::WorkflowError,
};

#[derive(Debug, thiserror::Error)]
pub enum RunsError {
    #[error(transparent)]
    Workflow(#[from] WorkflowError),
    #[error(transparent)]
    Chat(#[from] ChatError),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<RunsError> for ApiError {
    fn from(e: RunsError) -> Self {
        match e {
            RunsError::Workflow(e) => e.into(),
            RunsError::Chat(e) => e.into(),
            RunsError::Auth(e) => e.into(),
            RunsError::Db(e) => e.into(),
        }
    }
}
