use super::resolution::Resolution;
use crate::{
    auth::AuthError,
    chat::ChatError,
    db::DbError,
    http::error::{ApiError, ErrorCode, StatusCode},
    ids::AgentId,
};

/// Maximum number of active forks in a thread.
pub(super) const ACTIVE_FORKS_MAX: i64 = 7;

#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    #[error("{0}")]
    NotForkable(&'static str),
    #[error(
        "this thread already has {ACTIVE_FORKS_MAX} open deep dives: resolve or abandon one first"
    )]
    TooManyForks,
    #[error("this deep dive has no messages to resolve yet: post one first")]
    ForkEmpty,
    #[error("people edited the draft: send `replace_draft: true` to replace it with a new one")]
    DraftEdited,
    #[error("the deep dive has no draft and no result yet: resolve it first")]
    NoResolution,
    #[error("there is nothing to publish: resolve the deep dive, or send a `resolution`")]
    NoDraft,
    #[error("changing a draft requires an If-Match header: send the ETag from when you read it")]
    PreconditionRequired,
    #[error(
        "the draft was changed in the meantime: apply your change to the current draft, and send it again"
    )]
    Stale(Box<Resolution>),
    #[error("the draft no longer exists: reload the deep dive")]
    DraftGone,
    #[error("{0}")]
    Invalid(String, String),
    #[error("`{0}` is neither a message in this deep dive nor the message that it started from")]
    InvalidSource(String, String),
    #[error("`{0}` is not a member of this workspace")]
    NoSuchMember(String, String),
    #[error("`{0}` is not an action item of this result: omit `id` to add a new one")]
    NoSuchItem(String, String),
    #[error("the action item does not exist, or a newer version of the result no longer has it")]
    ItemNotFound,
    #[error("agent {0} does not exist in this workspace, or is not active")]
    NoSuchCollaborator(AgentId),
    #[error("no model is connected: an admin can connect one in the settings")]
    NoModel,
    #[error(transparent)]
    Chat(#[from] ChatError),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<ForkError> for ApiError {
    fn from(e: ForkError) -> Self {
        use ForkError as E;
        let text = e.to_string();
        let make = |status, code| ApiError::new(status, code, text);
        match e {
            E::NotForkable(_) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::NotForkable).param("message_id")
            }
            E::TooManyForks => make(StatusCode::CONFLICT, ErrorCode::TooManyForks),
            E::ForkEmpty => make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::ForkEmpty),
            E::DraftEdited => {
                make(StatusCode::CONFLICT, ErrorCode::DraftEdited).param("replace_draft")
            }
            E::NoResolution => make(StatusCode::NOT_FOUND, ErrorCode::NoResolution),
            E::NoDraft => make(StatusCode::CONFLICT, ErrorCode::NoDraft),
            E::PreconditionRequired => make(
                StatusCode::PRECONDITION_REQUIRED,
                ErrorCode::PreconditionRequired,
            )
            .param("If-Match"),
            E::Stale(current) => make(StatusCode::CONFLICT, ErrorCode::VersionConflict)
                .param("If-Match")
                .with_current(&current),
            E::DraftGone => {
                make(StatusCode::CONFLICT, ErrorCode::VersionConflict).param("If-Match")
            }
            E::Invalid(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param(param)
            }
            E::InvalidSource(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidSource).param(param)
            }
            E::NoSuchMember(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::NoSuchMember).param(param)
            }
            E::NoSuchItem(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::NoSuchItem).param(param)
            }
            E::ItemNotFound => make(StatusCode::NOT_FOUND, ErrorCode::ActionItemNotFound),
            E::NoSuchCollaborator(_) => {
                make(StatusCode::NOT_FOUND, ErrorCode::AgentNotFound).param("collaborators")
            }
            E::NoModel => make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::NoModel),
            E::Chat(e) => e.into(),
            E::Auth(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}
