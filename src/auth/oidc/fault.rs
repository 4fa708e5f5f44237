//! Reasons why a provider's sign-in ends without a session.

use crate::{auth::AuthError, db::DbError};

/// Reason why a sign-in failed. The client has a text for each code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignInFault {
    #[error("the provider does not answer: {0}")]
    Unreachable(String),
    /// Minutes by which this server's clock is ahead; negative if it is behind.
    #[error("the clocks differ by {0} minutes")]
    ClockSkew(i64),
    #[error("the sign-in has expired, or began in another browser")]
    Expired,
    /// The provider's error code, or one of ours.
    #[error("the provider did not sign the person in: {0}")]
    Refused(String),
    #[error("the provider rejected this server: {0}")]
    Misconfigured(String),
    #[error("the provider has not confirmed the email address")]
    EmailNotVerified,
    /// The address, if the provider vouches for it.
    #[error("the address belongs to another account")]
    AddressInUse(Option<String>),
    #[error("nobody invited the person")]
    NotInvited,
    #[error(transparent)]
    Auth(#[from] AuthError),
}

/// Maximum length of a provider's error code.
const CODE_CHARS_MAX: usize = 60;

impl SignInFault {
    /// Returns a fault for an error code of the provider.
    pub(crate) fn refused(code: &str) -> Self {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let code: String = code
            .chars()
            .filter(|c| is_plain(*c))
            .take(CODE_CHARS_MAX)
            .collect();
        Self::Refused(code)
    }

    /// Code for the client, the logs, and the metrics.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "provider_unreachable",
            Self::ClockSkew(_) => "clock_skew",
            Self::Expired | Self::Auth(AuthError::FlowExpired) => "flow_expired",
            Self::Refused(_) => "refused",
            Self::Misconfigured(_) => "misconfigured",
            Self::EmailNotVerified => "email_not_verified",
            Self::AddressInUse(_) | Self::Auth(AuthError::EmailTaken) => "address_in_use",
            Self::NotInvited | Self::Auth(AuthError::InviteNotFound) => "not_invited",
            Self::Auth(AuthError::ConfirmationRequired) => "confirmation_required",
            Self::Auth(AuthError::NotAuthenticated) => "not_signed_in",
            Self::Auth(_) => "internal",
        }
    }

    /// Part of the client's text: the provider's code, the address, or minutes.
    pub(crate) fn detail(&self) -> Option<String> {
        match self {
            Self::Refused(code) | Self::Misconfigured(code) => Some(code.clone()),
            Self::AddressInUse(email) => email.clone(),
            Self::ClockSkew(minutes) => Some(minutes.to_string()),
            _ => None,
        }
    }
}

impl From<DbError> for SignInFault {
    fn from(e: DbError) -> Self {
        Self::Auth(e.into())
    }
}

/// Error of the API for a fault that occurs before the browser leaves for the provider.
impl From<SignInFault> for AuthError {
    fn from(fault: SignInFault) -> Self {
        match fault {
            SignInFault::Auth(e) => e,
            SignInFault::Expired => Self::FlowExpired,
            SignInFault::Unreachable(_) => Self::ProviderUnreachable,
            other => Self::ProviderMisconfigured(
                other.detail().unwrap_or_else(|| other.code().to_owned()),
            ),
        }
    }
}
