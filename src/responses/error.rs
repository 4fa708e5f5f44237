use std::time::Duration;

use crate::{auth::AuthError, db::DbError, model::ModelError};

#[derive(Debug, thiserror::Error)]
pub enum ResponseError {
    /// A value that breaks a rule, and the field.
    #[error("{0}")]
    Invalid(String, String),
    /// What the API of `OpenAI` has and this server does not, and the field.
    #[error("{0}")]
    Unsupported(String, String),
    #[error("the response `{0}` does not exist, is no longer kept, or is not yours")]
    NotFound(String),
    #[error(
        "the previous response `{0}` does not exist, is no longer kept, or is not yours: send the conversation as `input`"
    )]
    PreviousNotFound(String),
    #[error("the agent `{name}` does not exist here, is not active, or is not for you")]
    AgentNotFound { name: String, param: &'static str },
    #[error(
        "the model `{0}` does not exist here, or is not for you: GET /v1/models lists those that do"
    )]
    ModelNotFound(String),
    #[error(
        "the conversation has about {tokens} tokens and the model takes {window}: send less, or set `truncation` to \"auto\""
    )]
    ContextTooLarge { tokens: u64, window: u64 },
    #[error("{0}")]
    StoreRequired(String),
    #[error("as many calls run as this server runs at once: try again in a moment")]
    Busy,
    #[error("you have {0} calls running, the limit for one person: wait until one of them ends")]
    PersonShareUsed(usize),
    #[error(
        "this workspace has {0} calls running, the limit for one workspace: wait until one of them ends"
    )]
    WorkspaceShareUsed(usize),
    #[error("{0}")]
    Model(ModelError),
    #[error("the model did not answer in time: try again, or ask for less")]
    Timeout,
    /// The model refused what it was sent; with the field that it names.
    #[error("{0}")]
    Refused(String, &'static str),
    #[error("the server is shutting down: try again in a moment")]
    Stopping,
    /// Who asked has gone, so nobody is told.
    #[error("the client went away")]
    Gone,
    #[error("the call broke off; it was logged. Try again")]
    Broken,
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}

impl ResponseError {
    pub(super) fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid(message.into(), param.into())
    }

    pub(super) fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Unsupported(message.into(), param.into())
    }

    /// How long the provider asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy | Self::PersonShareUsed(_) | Self::WorkspaceShareUsed(_) => {
                Some(Duration::from_secs(2))
            }
            Self::Model(ModelError::RateLimited { retry_after }) => {
                Some(retry_after.unwrap_or(Duration::from_secs(5)))
            }
            _ => None,
        }
    }

    /// The code of the task's error (PROTOCOL §3).
    pub(super) fn task_code(&self) -> &'static str {
        match self {
            Self::Model(e) => match e {
                ModelError::RateLimited { .. } => "rate_limited",
                ModelError::Unavailable(_) | ModelError::Broken(_) => "model_unavailable",
                ModelError::ContextTooLarge => "context_too_large",
                ModelError::BadRequest(_) => "bad_request",
                ModelError::Auth(_) => "auth",
                ModelError::Empty => "bad_response",
            },
            Self::Timeout => "timeout",
            Self::Refused(..) => "bad_request",
            Self::ContextTooLarge { .. } => "context_too_large",
            _ => "worker_lost",
        }
    }
}

impl ResponseError {
    /// What anyone may read: without addresses and keys of the provider, or anything of the database.
    pub fn public_text(&self) -> String {
        match self {
            Self::Model(e) => match e {
                ModelError::RateLimited { .. } => {
                    "the model's rate limit is reached: try again later"
                }
                ModelError::Unavailable(_) | ModelError::Broken(_) => {
                    "the model is not available: try again in a moment"
                }
                ModelError::Auth(_) => {
                    "the model's provider refused this server's key: an admin has to correct it"
                }
                ModelError::Empty => "the model answered with nothing: try again",
                ModelError::ContextTooLarge => "the conversation is too large for the model",
                ModelError::BadRequest(_) => "the model refused the request",
            }
            .to_owned(),
            Self::Db(_) | Self::Broken => {
                "something went wrong here; it was logged. Try again".to_owned()
            }
            other => other.to_string(),
        }
    }
}
