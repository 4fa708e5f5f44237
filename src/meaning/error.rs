//! Errors of the settings for search by meaning.

use super::connection::EmbeddingConnection;
use crate::{
    auth::AuthError,
    db::DbError,
    http::{ApiError, ErrorCode, error::StatusCode},
    providers::ProviderError,
    secrets::SecretError,
};

#[derive(Debug, thiserror::Error)]
pub enum MeaningError {
    #[error(
        "the settings have changed since you loaded them: reload them, and reapply your change"
    )]
    Stale(Box<EmbeddingConnection>),
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

impl From<AuthError> for MeaningError {
    fn from(e: AuthError) -> Self {
        Self::Provider(e.into())
    }
}

impl From<SecretError> for MeaningError {
    fn from(e: SecretError) -> Self {
        Self::Provider(e.into())
    }
}

impl From<DbError> for MeaningError {
    fn from(e: DbError) -> Self {
        Self::Provider(e.into())
    }
}

impl From<MeaningError> for ApiError {
    fn from(error: MeaningError) -> Self {
        let text = error.to_string();
        match error {
            MeaningError::Stale(current) => {
                Self::new(StatusCode::CONFLICT, ErrorCode::VersionConflict, text)
                    .param("If-Match")
                    .with_current(&current)
            }
            MeaningError::Provider(e) => e.into(),
        }
    }
}
