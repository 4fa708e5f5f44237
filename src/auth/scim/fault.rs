//! Errors in the form of RFC 7644 §3.12.

use crate::{
    auth::AuthError,
    db::DbError,
    http::{ApiError, error::StatusCode},
    text_enum::text_enum,
};

text_enum! {
    /// Cause of an error, as RFC 7644 names it.
    pub(crate) enum ScimType {
        InvalidFilter = "invalidFilter",
        InvalidPath = "invalidPath",
        InvalidSyntax = "invalidSyntax",
        InvalidValue = "invalidValue",
        Mutability = "mutability",
        NoTarget = "noTarget",
        TooMany = "tooMany",
        Uniqueness = "uniqueness",
    }
}

/// Error of a SCIM request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScimFault {
    #[error("{1}")]
    Bad(ScimType, String),
    #[error("{0}")]
    Conflict(String),
    #[error("{0}")]
    Refused(String),
    #[error("the {0} does not exist")]
    NotFound(&'static str),
    #[error("this address does not have the method")]
    WrongMethod,
    #[error(
        "users and groups are searched one after the other, at /Users/.search and /Groups/.search"
    )]
    NotImplemented,
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error("{}", .0.code().as_str())]
    Api(ApiError),
}

impl From<DbError> for ScimFault {
    fn from(error: DbError) -> Self {
        Self::Auth(error.into())
    }
}

impl ScimFault {
    pub(crate) fn value(text: impl Into<String>) -> Self {
        Self::Bad(ScimType::InvalidValue, text.into())
    }

    pub(crate) fn syntax(text: impl Into<String>) -> Self {
        Self::Bad(ScimType::InvalidSyntax, text.into())
    }

    /// Status and cause; `None` if the error is another one of the API.
    pub(crate) fn status(&self) -> Option<(StatusCode, Option<ScimType>)> {
        Some(match self {
            Self::Bad(kind, _) => (StatusCode::BAD_REQUEST, Some(*kind)),
            Self::Conflict(_) => (StatusCode::CONFLICT, Some(ScimType::Uniqueness)),
            Self::Refused(_) => (StatusCode::FORBIDDEN, None),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, None),
            Self::WrongMethod => (StatusCode::METHOD_NOT_ALLOWED, None),
            Self::NotImplemented => (StatusCode::NOT_IMPLEMENTED, None),
            Self::Auth(AuthError::Invalid(..)) => {
                (StatusCode::BAD_REQUEST, Some(ScimType::InvalidValue))
            }
            Self::Auth(_) | Self::Api(_) => return None,
        })
    }
}
