use super::{Role, Scope};
use crate::db::DbError;
use crate::http::error::{ApiError, StatusCode};

#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("you are not signed in: sign in, or send an API key as `Authorization: Bearer ov_…`")]
    NotAuthenticated,
    #[error("send the value of OPENVIBE_METRICS_TOKEN as `Authorization: Bearer …`")]
    MetricsToken,
    #[error("the email address or password is wrong")]
    WrongPassword,
    #[error("the current password is wrong")]
    WrongCurrentPassword,
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
    #[error("this needs a session and does not work with an API key: sign in")]
    SessionRequired,
    #[error("this key lacks the scope `{}`: create a key that has it", .0.as_str())]
    ScopeMissing(Scope),
    #[error("a {} cannot do this (`{}`): ask an admin of the workspace", .role.as_str(), .scope.as_str())]
    RoleTooLow { role: Role, scope: Scope },
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
        "the setup token is missing or wrong: open the link that the server printed at startup"
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
    #[error("the last admin cannot leave or change their role: make someone else an admin first")]
    LastAdmin,
    #[error("the handle does not match: enter it exactly, to confirm the right person")]
    HandleMismatch,
    #[error("the {0} does not exist")]
    NotFound(&'static str),
    #[error("could not hash the password")]
    Hash,
    #[error(transparent)]
    Db(#[from] DbError),
}

impl AuthError {
    /// Hides objects from members of other workspaces: reports them as missing.
    #[must_use]
    pub fn hiding(self, what: &'static str) -> Self {
        match self {
            Self::WorkspaceNotFound => Self::NotFound(what),
            other => other,
        }
    }
}

/// `Retry-After` when there is no room for another socket.
const SOCKET_AFTER_S: u64 = 10;

impl From<AuthError> for ApiError {
    fn from(e: AuthError) -> Self {
        use AuthError as E;
        let text = e.to_string();
        let make = |status, code| ApiError::new(status, code, text);
        match e {
            E::NotAuthenticated => make(StatusCode::UNAUTHORIZED, "not_signed_in"),
            E::MetricsToken => make(StatusCode::UNAUTHORIZED, "metrics_token_required"),
            E::WrongPassword => make(StatusCode::UNAUTHORIZED, "wrong_credentials"),
            E::WrongCurrentPassword => {
                make(StatusCode::FORBIDDEN, "wrong_password").param("current_password")
            }
            E::TooManyAttempts(seconds) => {
                make(StatusCode::TOO_MANY_REQUESTS, "too_many_attempts").retry_after(seconds)
            }
            E::RateLimited(seconds) => {
                make(StatusCode::TOO_MANY_REQUESTS, "rate_limited").retry_after(seconds)
            }
            E::TooManySockets(_) => {
                make(StatusCode::TOO_MANY_REQUESTS, "too_many_sockets").retry_after(SOCKET_AFTER_S)
            }
            E::NoMoreSockets => make(StatusCode::SERVICE_UNAVAILABLE, "too_many_sockets")
                .retry_after(SOCKET_AFTER_S)
                .logged(),
            E::QuotaExceeded(_) => make(StatusCode::UNPROCESSABLE_ENTITY, "quota_exceeded"),
            E::TooManyWorkspaces(_) => make(StatusCode::CONFLICT, "too_many_workspaces"),
            E::SessionRequired => make(StatusCode::FORBIDDEN, "session_required"),
            E::ScopeMissing(_) => make(StatusCode::FORBIDDEN, "scope_missing"),
            E::RoleTooLow { .. } => make(StatusCode::FORBIDDEN, "role_too_low"),
            E::WorkspaceNotFound | E::NoWorkspace => {
                make(StatusCode::NOT_FOUND, "workspace_not_found")
            }
            E::WorkspaceRequired => {
                make(StatusCode::BAD_REQUEST, "workspace_required").param("X-Workspace-Id")
            }
            E::Invalid(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, "invalid_value").param(param)
            }
            E::EmailTaken => make(StatusCode::CONFLICT, "email_taken").param("email"),
            E::HandleTaken(_) => make(StatusCode::CONFLICT, "handle_taken").param("handle"),
            E::SlugTaken(_) => make(StatusCode::CONFLICT, "slug_taken").param("slug"),
            E::SignupClosed(_) => make(StatusCode::FORBIDDEN, "signup_closed"),
            E::SetupToken => {
                make(StatusCode::FORBIDDEN, "setup_token_required").param("setup_token")
            }
            E::WorkspaceCreationClosed => make(StatusCode::FORBIDDEN, "workspace_creation_closed"),
            E::InviteNotFound => make(StatusCode::NOT_FOUND, "invite_not_found"),
            E::InviteForAnother => make(StatusCode::FORBIDDEN, "invite_for_another"),
            E::MemberNotFound(_) => make(StatusCode::NOT_FOUND, "member_not_found"),
            E::HandleMismatch => {
                make(StatusCode::UNPROCESSABLE_ENTITY, "handle_mismatch").param("handle")
            }
            E::LastAdmin => make(StatusCode::CONFLICT, "last_admin"),
            E::NotFound(_) => make(StatusCode::NOT_FOUND, "not_found"),
            E::Hash => {
                tracing::error!("could not hash a password");
                ApiError::internal().logged()
            }
            E::Db(e) => e.into(),
        }
    }
}
