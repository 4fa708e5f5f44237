//! Errors of push messages and notification settings.

use crate::{
    auth::AuthError,
    db::DbError,
    http::{ApiError, ErrorCode, error::StatusCode},
    secrets::SecretError,
};

#[derive(Debug, thiserror::Error)]
pub enum PushError {
    #[error("the device does not exist, or its browser is signed out")]
    DeviceNotFound,
    #[error("an account can have at most {0} devices: remove one first")]
    TooManyDevices(i64),
    #[error("{0}")]
    BadEndpoint(String),
    #[error(
        "`{0}` must be that of a push subscription: a point of P-256 and 16 bytes, in base64url"
    )]
    BadKey(&'static str),
    #[error("{0}")]
    Invalid(String, &'static str),
    #[error("confirm the email address of your account first")]
    AddressNotConfirmed,
    #[error("this link is not valid: change the emails in the settings")]
    UnsubscribeNotFound,
    #[error("the settings have changed since they were read")]
    Stale(Box<serde_json::Value>),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<PushError> for ApiError {
    fn from(error: PushError) -> Self {
        use PushError as E;
        let text = error.to_string();
        let make = |status, code| ApiError::new(status, code, text);
        match error {
            E::DeviceNotFound => make(StatusCode::NOT_FOUND, ErrorCode::DeviceNotFound),
            E::TooManyDevices(_) => make(StatusCode::CONFLICT, ErrorCode::TooManyDevices),
            E::BadEndpoint(_) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::BadEndpoint).param("endpoint")
            }
            E::BadKey(param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::BadKey).param(param)
            }
            E::Invalid(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param(param)
            }
            E::AddressNotConfirmed => make(
                StatusCode::UNPROCESSABLE_ENTITY,
                ErrorCode::AddressNotConfirmed,
            )
            .param("mail"),
            E::UnsubscribeNotFound => make(StatusCode::NOT_FOUND, ErrorCode::NotFound),
            E::Stale(settings) => {
                make(StatusCode::CONFLICT, ErrorCode::VersionConflict).with_current(&settings)
            }
            E::Secret(SecretError::Db(e)) | E::Db(e) => e.into(),
            E::Secret(SecretError::KeyMissing) => {
                make(StatusCode::CONFLICT, ErrorCode::SecretKeyMissing)
            }
            E::Secret(e) => {
                tracing::error!(error = %e, "the key for push messages cannot be used");
                Self::internal()
            }
            E::Auth(e) => e.into(),
        }
    }
}
