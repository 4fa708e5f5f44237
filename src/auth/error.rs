use super::{Role, Scope};
use crate::db::DbError;
use crate::http::error::{ApiError, ErrorCode, StatusCode};
use crate::{mail::MailFault, secrets::SecretError};

#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("you are not signed in: sign in, or send an API key as `Authorization: Bearer ov_…`")]
    NotAuthenticated,
    #[error("send the value of OPENVIBE_METRICS_TOKEN as `Authorization: Bearer …`")]
    MetricsToken,
    #[error("the email address or password is wrong")]
    WrongPassword,
    #[error(
        "this sign-in took too long, was already used, or had too many wrong codes: start again"
    )]
    FlowExpired,
    #[error("the code is wrong or was already used: enter the newest one")]
    WrongCode,
    #[error("the code is wrong or was already used: enter the newest one")]
    WrongCurrentCode,
    #[error("this passkey cannot be used: {0}")]
    PasskeyRejected(&'static str),
    #[error("this passkey may have been copied: sign in another way, and remove it")]
    PasskeyCopied,
    #[error("you have an authenticator app: remove it first")]
    AppExists,
    #[error("you have no second factor: set up an authenticator app or a passkey first")]
    NoSecondFactor,
    #[error("you could not sign in anymore: add another way to sign in first")]
    LastMethod,
    #[error(transparent)]
    Secret(SecretError),
    #[error("the identity provider does not answer: try again in a moment")]
    ProviderUnreachable,
    #[error("the identity provider cannot be used ({0}): check its settings")]
    ProviderMisconfigured(String),
    #[error("the issuer must begin with https://, or with http:// on this machine")]
    IssuerNotHttps,
    #[error(
        "the provider calls itself something else: enter the issuer exactly as it stands in /.well-known/openid-configuration"
    )]
    IssuerMismatch,
    #[error("the present settings were not tried yet: try the provider before you turn it on")]
    ProviderNotTried,
    #[error("the provider has changed since it was read")]
    StaleProvider,
    #[error("only admins of this server sign in with a password: sign in another way")]
    PasswordSignInOff,
    #[error(
        "confirm that it is you first: this needs a sign-in or a confirmation within the last 10 minutes"
    )]
    ConfirmationRequired,
    #[error("the current password is wrong")]
    WrongCurrentPassword,
    #[error("the server is checking too many passwords: try again in a few seconds")]
    HasherBusy,
    #[error("too many sign-in attempts: try again in {0} s")]
    TooManyAttempts(u64),
    #[error("too many requests: try again in {0} s")]
    RateLimited(u64),
    #[error("you already have {0} open connections: close some")]
    TooManySockets(usize),
    #[error("the server has reached its connection limit: try again in a moment")]
    NoMoreSockets,
    #[error("a person can join at most {0} workspaces: leave one first")]
    TooManyWorkspaces(i64),
    #[error("{0}")]
    QuotaExceeded(String),
    #[error("this workspace requires a second factor: sign in with one, or set one up")]
    SecondFactorDemanded,
    #[error("this workspace requires an identity provider: sign in with it")]
    ProviderRequired,
    #[error("your session is too old for this workspace: sign in again")]
    SessionTooOld,
    #[error("your own session does not meet this: sign in as you demand of others first")]
    WouldLockYouOut,
    #[error("this needs a session and does not work with an API key: sign in")]
    SessionRequired,
    #[error("this key lacks the scope `{}`: create a key that has it", .0.as_str())]
    ScopeMissing(Scope),
    #[error("a {} cannot do this (`{}`): ask an admin of the workspace", .role.as_str(), .scope.as_str())]
    RoleTooLow { role: Role, scope: Scope },
    #[error("guests cannot do this: ask an admin of the workspace")]
    NotForGuests,
    #[error("a bot's key does not work here: use the key of a person")]
    NotForBots,
    #[error("the key of a turn only permits calls of models and of the tools of its agent")]
    NotForTurns,
    #[error("the bot is paused: ask an admin of the workspace to resume it")]
    BotPaused,
    #[error("the workspace does not exist, or you are not in it")]
    WorkspaceNotFound,
    #[error("you are in several workspaces: specify one in the header X-Workspace-Id")]
    WorkspaceRequired,
    #[error("you are not in a workspace yet: create one, or ask for an invite link")]
    NoWorkspace,
    #[error("{0}")]
    Invalid(String, &'static str),
    #[error("an account with this email address already exists: sign in instead")]
    EmailTaken,
    #[error("the handle `{0}` is taken in this workspace: choose another")]
    HandleTaken(String),
    #[error("a workspace with the slug `{0}` already exists: choose another")]
    SlugTaken(String),
    #[error("{0}")]
    SignupClosed(&'static str),
    #[error(
        "the first account of this server needs its setup link: open the one that the server printed at startup, or that \
         `openvibe setup-link` prints"
    )]
    SetupToken,
    #[error("only admins can create workspaces here: ask one for an invite")]
    WorkspaceCreationClosed,
    #[error(
        "this invite does not exist, has expired, was used up, or was revoked: ask for a new one"
    )]
    InviteNotFound,
    #[error("this invite is for another email address: ask for a new one")]
    InviteForAnother,
    #[error("member {0} does not exist in this workspace")]
    MemberNotFound(String),
    #[error("your membership in this workspace is suspended: ask an admin")]
    MemberSuspended,
    #[error("the last admin cannot leave or change their role: make someone else an admin first")]
    LastAdmin,
    #[error("the handle does not match: enter it exactly, to confirm the right person")]
    HandleMismatch,
    #[error("the {0} does not exist")]
    NotFound(&'static str),
    #[error("this link was used, or has expired: ask for a new one")]
    LinkExpired,
    #[error("the address of your account is already confirmed")]
    AddressConfirmed,
    #[error(
        "this person is also in workspaces of which you are no admin: ask an admin of the server for the link"
    )]
    OtherWorkspaces,
    #[error(transparent)]
    Mail(#[from] MailFault),
    #[error("could not hash the password")]
    Hash,
    #[error(transparent)]
    Db(#[from] DbError),
}

impl AuthError {
    /// Reports the object as missing to people who are not members of its workspace.
    #[must_use]
    pub fn hiding(self, what: &'static str) -> Self {
        match self {
            Self::WorkspaceNotFound => Self::NotFound(what),
            other => other,
        }
    }
}

impl From<SecretError> for AuthError {
    fn from(e: SecretError) -> Self {
        match e {
            SecretError::Db(e) => Self::Db(e),
            other => Self::Secret(other),
        }
    }
}

/// `Retry-After` in seconds if too many passwords are waiting to be hashed.
const HASHER_AFTER_S: u64 = 5;
/// `Retry-After` in seconds if there are too many sockets.
const SOCKET_AFTER_S: u64 = 10;

impl From<AuthError> for ApiError {
    fn from(e: AuthError) -> Self {
        use AuthError as E;
        let text = e.to_string();
        let make = |status, code| ApiError::new(status, code, text);
        match e {
            E::NotAuthenticated => make(StatusCode::UNAUTHORIZED, ErrorCode::NotSignedIn),
            E::MetricsToken => make(StatusCode::UNAUTHORIZED, ErrorCode::MetricsTokenRequired),
            E::WrongPassword => make(StatusCode::UNAUTHORIZED, ErrorCode::WrongCredentials),
            E::FlowExpired => make(StatusCode::UNAUTHORIZED, ErrorCode::FlowExpired),
            E::WrongCode => make(StatusCode::UNAUTHORIZED, ErrorCode::WrongCode),
            E::WrongCurrentCode => make(StatusCode::FORBIDDEN, ErrorCode::WrongCode).param("code"),
            E::PasskeyRejected(_) => make(StatusCode::UNAUTHORIZED, ErrorCode::PasskeyRejected),
            E::PasskeyCopied => make(StatusCode::UNAUTHORIZED, ErrorCode::PasskeyCopied),
            E::AppExists => make(StatusCode::CONFLICT, ErrorCode::AppExists),
            E::NoSecondFactor => make(StatusCode::CONFLICT, ErrorCode::NoSecondFactor),
            E::LastMethod => make(StatusCode::CONFLICT, ErrorCode::LastMethod),
            E::Secret(error) => {
                tracing::error!(%error, "a secret could not be stored");
                make(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::SecretKeyMissing).logged()
            }
            E::ProviderUnreachable => make(
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorCode::ProviderUnreachable,
            )
            .logged(),
            E::ProviderMisconfigured(_) => make(
                StatusCode::UNPROCESSABLE_ENTITY,
                ErrorCode::ProviderMisconfigured,
            ),
            E::IssuerNotHttps => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::NotHttps).param("issuer")
            }
            E::IssuerMismatch => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::IssuerMismatch).param("issuer")
            }
            E::ProviderNotTried => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::NotTried).param("enabled")
            }
            E::StaleProvider => {
                make(StatusCode::CONFLICT, ErrorCode::VersionConflict).param("If-Match")
            }
            E::PasswordSignInOff => make(StatusCode::FORBIDDEN, ErrorCode::PasswordSignInOff),
            E::ConfirmationRequired => make(StatusCode::FORBIDDEN, ErrorCode::ConfirmationRequired),
            E::WrongCurrentPassword => {
                make(StatusCode::FORBIDDEN, ErrorCode::WrongPassword).param("current_password")
            }
            E::TooManyAttempts(seconds) => {
                make(StatusCode::TOO_MANY_REQUESTS, ErrorCode::TooManyAttempts).retry_after(seconds)
            }
            E::RateLimited(seconds) => {
                make(StatusCode::TOO_MANY_REQUESTS, ErrorCode::RateLimited).retry_after(seconds)
            }
            E::TooManySockets(_) => make(StatusCode::TOO_MANY_REQUESTS, ErrorCode::TooManySockets)
                .retry_after(SOCKET_AFTER_S),
            E::NoMoreSockets => make(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::TooManySockets)
                .retry_after(SOCKET_AFTER_S)
                .logged(),
            E::HasherBusy => make(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Overloaded)
                .retry_after(HASHER_AFTER_S)
                .logged(),
            E::QuotaExceeded(_) => make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::QuotaExceeded),
            E::TooManyWorkspaces(_) => make(StatusCode::CONFLICT, ErrorCode::TooManyWorkspaces),
            E::SecondFactorDemanded => make(StatusCode::FORBIDDEN, ErrorCode::SecondFactorRequired),
            E::ProviderRequired => make(StatusCode::FORBIDDEN, ErrorCode::ProviderRequired),
            E::SessionTooOld => make(StatusCode::FORBIDDEN, ErrorCode::SessionTooOld),
            E::WouldLockYouOut => {
                make(StatusCode::CONFLICT, ErrorCode::WouldLockYouOut).param("sign_in")
            }
            E::SessionRequired => make(StatusCode::FORBIDDEN, ErrorCode::SessionRequired),
            E::ScopeMissing(_) => make(StatusCode::FORBIDDEN, ErrorCode::ScopeMissing),
            E::RoleTooLow { .. } | E::NotForGuests => {
                make(StatusCode::FORBIDDEN, ErrorCode::RoleTooLow)
            }
            E::NotForBots => make(StatusCode::FORBIDDEN, ErrorCode::NotForBots),
            E::NotForTurns => make(StatusCode::FORBIDDEN, ErrorCode::NotForTurns),
            E::BotPaused => make(StatusCode::FORBIDDEN, ErrorCode::BotPaused),
            E::WorkspaceNotFound | E::NoWorkspace => {
                make(StatusCode::NOT_FOUND, ErrorCode::WorkspaceNotFound)
            }
            E::WorkspaceRequired => {
                make(StatusCode::BAD_REQUEST, ErrorCode::WorkspaceRequired).param("X-Workspace-Id")
            }
            E::Invalid(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param(param)
            }
            E::EmailTaken => make(StatusCode::CONFLICT, ErrorCode::EmailTaken).param("email"),
            E::HandleTaken(_) => make(StatusCode::CONFLICT, ErrorCode::HandleTaken).param("handle"),
            E::SlugTaken(_) => make(StatusCode::CONFLICT, ErrorCode::SlugTaken).param("slug"),
            E::SignupClosed(_) => make(StatusCode::FORBIDDEN, ErrorCode::SignupClosed),
            E::SetupToken => {
                make(StatusCode::FORBIDDEN, ErrorCode::SetupTokenRequired).param("setup_token")
            }
            E::WorkspaceCreationClosed => {
                make(StatusCode::FORBIDDEN, ErrorCode::WorkspaceCreationClosed)
            }
            E::InviteNotFound => make(StatusCode::NOT_FOUND, ErrorCode::InviteNotFound),
            E::InviteForAnother => make(StatusCode::FORBIDDEN, ErrorCode::InviteForAnother),
            E::MemberNotFound(_) => make(StatusCode::NOT_FOUND, ErrorCode::MemberNotFound),
            E::MemberSuspended => make(StatusCode::FORBIDDEN, ErrorCode::MemberSuspended),
            E::HandleMismatch => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::HandleMismatch).param("handle")
            }
            E::LastAdmin => make(StatusCode::CONFLICT, ErrorCode::LastAdmin),
            E::NotFound(_) => make(StatusCode::NOT_FOUND, ErrorCode::NotFound),
            E::LinkExpired => make(StatusCode::NOT_FOUND, ErrorCode::LinkExpired),
            E::AddressConfirmed => make(StatusCode::CONFLICT, ErrorCode::AddressConfirmed),
            E::OtherWorkspaces => make(StatusCode::FORBIDDEN, ErrorCode::OtherWorkspaces),
            E::Mail(MailFault::Off) => make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::MailOff),
            E::Mail(MailFault::Address) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param("email")
            }
            E::Mail(MailFault::Secret(SecretError::KeyMissing)) => make(
                StatusCode::UNPROCESSABLE_ENTITY,
                ErrorCode::SecretKeyMissing,
            ),
            E::Db(e) | E::Mail(MailFault::Secret(SecretError::Db(e))) => e.into(),
            E::Mail(MailFault::Secret(e)) => {
                tracing::error!(error = %e, "an email could not be encrypted");
                ApiError::internal().logged()
            }
            E::Hash => {
                tracing::error!("could not hash a password");
                ApiError::internal().logged()
            }
        }
    }
}
