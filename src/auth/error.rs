use super::{Role, Scope};
use crate::db::DbError;

#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("you are not signed in: log in, or send an API key as `Authorization: Bearer ov_…`")]
    NotAuthenticated,
    #[error("send the token of OPENVIBE_METRICS_TOKEN as `Authorization: Bearer …`")]
    MetricsToken,
    #[error("the e-mail address or the password is wrong")]
    WrongPassword,
    #[error("the current password is wrong")]
    WrongCurrentPassword,
    #[error("too many attempts to log in; wait {0} s and try again")]
    TooManyAttempts(u64),
    #[error("too many requests; wait {0} s and try again")]
    RateLimited(u64),
    #[error("you have {0} connections open already: close some")]
    TooManySockets(usize),
    #[error("the server holds as many connections as it may: try again in a moment")]
    NoMoreSockets,
    #[error("a person is in at most {0} workspaces: leave one first")]
    TooManyWorkspaces(i64),
    #[error("{0}")]
    QuotaExceeded(String),
    #[error("this needs a signed-in person; an API key cannot do it")]
    SessionRequired,
    #[error("this key lacks the scope `{}`; make a key that has it", .0.as_str())]
    ScopeMissing(Scope),
    #[error("a {} may not do this (`{}`); ask an admin of the workspace", .role.as_str(), .scope.as_str())]
    RoleTooLow { role: Role, scope: Scope },
    #[error("the workspace does not exist, or you are not in it")]
    WorkspaceNotFound,
    #[error("you are in several workspaces: name one in the header X-Workspace-Id")]
    WorkspaceRequired,
    #[error("you are in no workspace yet: make one, or ask for an invite link")]
    NoWorkspace,
    #[error("{0}")]
    Invalid(String, &'static str),
    #[error("an account with this e-mail address exists: log in instead")]
    EmailTaken,
    #[error("the handle `{0}` is taken in this workspace: choose another")]
    HandleTaken(String),
    #[error("a workspace with the slug `{0}` exists: choose another")]
    SlugTaken(String),
    #[error("{0}")]
    SignupClosed(&'static str),
    #[error(
        "the set-up token is missing or wrong: open the link that the server printed when it started"
    )]
    SetupToken,
    #[error("making workspaces is for admins here: ask one for an invite")]
    WorkspaceCreationClosed,
    #[error(
        "this invite does not exist, has expired, was used up, or was withdrawn: ask for a new one"
    )]
    InviteNotFound,
    #[error("this invite is for another e-mail address")]
    InviteForAnother,
    #[error("member {0} does not exist in this workspace")]
    MemberNotFound(String),
    #[error("the last admin cannot leave or change role: make someone else an admin first")]
    LastAdmin,
    #[error("this is not their handle: write it exactly, to be sure that you mean this person")]
    HandleMismatch,
    #[error("the {0} does not exist")]
    NotFound(&'static str),
    #[error("the password could not be hashed")]
    Hash,
    #[error(transparent)]
    Db(#[from] DbError),
}

impl AuthError {
    /// What a member of another workspace learns of an object: it does not exist.
    #[must_use]
    pub fn hiding(self, what: &'static str) -> Self {
        match self {
            Self::WorkspaceNotFound => Self::NotFound(what),
            other => other,
        }
    }
}
