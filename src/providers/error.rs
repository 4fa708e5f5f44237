//! Errors of model connections.

use super::connection::{ModelConnection, ModelStatus};
use crate::{
    auth::AuthError,
    db::DbError,
    http::{ApiError, ErrorCode, error::StatusCode},
    outbound::Denied,
    secrets::SecretError,
};

#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    #[error(
        "the model is set by environment variables of the server: an operator has to remove them first"
    )]
    SetByEnvironment,
    #[error(
        "the model settings have changed since you loaded them: reload them, and reapply your change"
    )]
    Stale(Box<ModelConnection>),
    #[error("{0}")]
    Invalid(String, &'static str),
    #[error(
        "another test of this workspace's model, or of yours, is still running: wait for its result"
    )]
    TestRunning,
    #[error(transparent)]
    Denied(Denied),
    /// The test failed; contains the cause.
    #[error("{1}")]
    Unusable(ModelStatus, String),
    #[error(transparent)]
    Secret(SecretError),
    #[error(transparent)]
    Auth(AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<AuthError> for ProviderError {
    fn from(e: AuthError) -> Self {
        match e {
            AuthError::Db(e) => Self::Db(e),
            other => Self::Auth(other),
        }
    }
}

impl From<SecretError> for ProviderError {
    fn from(e: SecretError) -> Self {
        match e {
            SecretError::Db(e) => Self::Db(e),
            other => Self::Secret(other),
        }
    }
}

impl From<ProviderError> for ApiError {
    fn from(error: ProviderError) -> Self {
        use ProviderError as E;
        let text = error.to_string();
        match error {
            E::SetByEnvironment => {
                Self::new(StatusCode::CONFLICT, ErrorCode::SetByEnvironment, text)
            }
            E::Stale(current) => Self::new(StatusCode::CONFLICT, ErrorCode::VersionConflict, text)
                .param("If-Match")
                .with_current(&current),
            E::TestRunning => Self::new(StatusCode::CONFLICT, ErrorCode::StillRunning, text),
            E::Invalid(_, param) => Self::unprocessable(ErrorCode::InvalidValue, text).param(param),
            E::Denied(denied) => {
                let code = match denied {
                    Denied::OwnServer(_) => ErrorCode::OwnServer,
                    Denied::NotPublic(_) | Denied::NotEncrypted(_) | Denied::Port(..) => {
                        ErrorCode::AddressNotAllowed
                    }
                    Denied::NotFound(_) => ErrorCode::Unreachable,
                };
                Self::unprocessable(code, text).param("base_url")
            }
            E::Unusable(status, _) => {
                let (code, param) = match status {
                    ModelStatus::AuthFailed => (ErrorCode::AuthFailed, "api_key"),
                    ModelStatus::NoModel => (ErrorCode::NoModel, "model"),
                    ModelStatus::ThoughtOnly => (ErrorCode::ThoughtOnly, "model"),
                    ModelStatus::Ok | ModelStatus::Unreachable => {
                        (ErrorCode::Unreachable, "base_url")
                    }
                };
                Self::unprocessable(code, text).param(param)
            }
            E::Secret(SecretError::KeyMissing) => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorCode::SecretKeyMissing,
                text,
            )
            .param("api_key"),
            E::Secret(error) => {
                tracing::error!(error = %error, "a secret could not be stored");
                Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    ErrorCode::SecretKeyMissing,
                    "this server cannot store secrets: its log contains the cause".to_owned(),
                )
                .param("api_key")
                .logged()
            }
            E::Auth(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}
