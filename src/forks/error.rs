use super::resolution::Resolution;
use crate::{auth::AuthError, chat::ChatError, db::DbError};

/// Active deep dives that a thread may have (PROTOCOL §2).
pub(super) const ACTIVE_FORKS_MAX: i64 = 7;

#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    #[error("{0}")]
    NotForkable(&'static str),
    #[error(
        "{ACTIVE_FORKS_MAX} deep dives are open in this thread: resolve or abandon one of them first"
    )]
    TooManyForks,
    #[error("nobody has said anything in this deep dive yet: there is nothing to resolve")]
    ForkEmpty,
    #[error(
        "the draft was edited by people: send `replace_draft: true` to have it replaced by a new one"
    )]
    DraftEdited,
    #[error("the deep dive has neither a draft nor a result yet: resolve it first")]
    NoResolution,
    #[error("there is nothing to publish: resolve the deep dive, or send a `resolution`")]
    NoDraft,
    #[error(
        "a draft is changed with If-Match and the ETag that it was read with: add that header, so that nobody's edit is lost"
    )]
    PreconditionRequired,
    #[error(
        "the draft was changed meanwhile: look at the present one, apply your change to it, and send it again"
    )]
    Stale(Box<Resolution>),
    #[error("the draft is gone: load the deep dive again")]
    DraftGone,
    #[error("{0}")]
    Invalid(String, String),
    #[error("`{0}` is not a message of this deep dive, nor the one that it starts from")]
    InvalidSource(String, String),
    #[error("`{0}` is not a member of this workspace")]
    NoSuchMember(String, String),
    #[error("`{0}` is not an action item of this result: leave `id` out for a new one")]
    NoSuchItem(String, String),
    #[error("the action item does not exist, or its result was replaced by one without it")]
    ItemNotFound,
    #[error(transparent)]
    Chat(#[from] ChatError),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}
