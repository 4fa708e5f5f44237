use std::time::Duration;

use crate::{
    auth::AuthError,
    db::DbError,
    http::error::{ApiError, ErrorCode, StatusCode},
    model::{ModelError, grouped},
    tasks::{FailCode, budgets::OverBudget},
};

#[derive(Debug, thiserror::Error)]
pub enum ResponseError {
    /// An invalid value. Contains the message and the field.
    #[error("{0}")]
    Invalid(String, String),
    /// A feature of the `OpenAI` API that this server does not support. Contains the message and the field.
    #[error("{0}")]
    Unsupported(String, String),
    #[error("the response `{0}` does not exist, has expired, or belongs to someone else")]
    NotFound(String),
    #[error("the item `{0}` is not in this list")]
    ItemNotFound(String),
    /// A reference to an item that does not exist.
    #[error(
        "the item `{id}` does not exist, is not stored, has expired, or belongs to someone else: send the item itself"
    )]
    NoSuchItem { id: String, param: String },
    #[error(
        "the previous response `{0}` does not exist, has expired, or belongs to someone else: send the conversation as `input`"
    )]
    PreviousNotFound(String),
    #[error("the vector store `{name}` does not exist, has expired, or is not available to you")]
    NoSuchStore { name: String, param: String },
    #[error("the agent `{name}` does not exist here, is not active, or is not available to you")]
    AgentNotFound { name: String, param: &'static str },
    #[error(
        "the model `{0}` does not exist here or is not available to you: see GET /v1/models for the available models"
    )]
    ModelNotFound(String),
    /// Contains the model's context window, if it is known.
    #[error(
        "the conversation does not fit the model's context window{}: send less, or set `truncation` to \"auto\"",
        window.map_or_else(String::new, |tokens| format!(" ({} tokens)", grouped(tokens)))
    )]
    ContextTooLarge { window: Option<u64> },
    /// A field of chat completions whose value is not supported. Contains the field.
    #[error("this value of `{0}` is not supported: omit it")]
    UnsupportedParameter(String),
    #[error(
        "this workspace does not allow model calls without an agent: specify one in `model`, such as agent:vibe, or ask an admin to allow it"
    )]
    BareModelOff,
    #[error("{0}")]
    StoreRequired(String),
    #[error("too many concurrent calls on this server: try again in a moment")]
    Busy,
    #[error("you have {0} running calls, which is the limit per user: wait until one of them ends")]
    PersonShareUsed(usize),
    #[error(
        "this workspace has {0} running calls, which is the limit per workspace: wait until one of them ends"
    )]
    WorkspaceShareUsed(usize),
    #[error("{0}")]
    Model(ModelError),
    #[error("the model did not reply in time: try again, or send a smaller request")]
    Timeout,
    /// The model server rejected the request. Contains the field that its message mentions.
    #[error("{0}")]
    Refused(String, &'static str),
    /// A budget does not allow the call.
    #[error("{0}")]
    OverBudget(OverBudget),
    #[error("the server is shutting down: try again in a moment")]
    Stopping,
    /// The client disconnected, so this error is never sent.
    #[error("the client disconnected")]
    Gone,
    /// The storage of a file failed.
    #[error("the file could not be read: try again in a moment")]
    FileUnread,
    #[error("the call failed unexpectedly and was logged: try again")]
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

    pub(crate) fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Unsupported(message.into(), param.into())
    }

    /// Checks whether the call could not start because of other calls.
    pub(super) fn is_busy(&self) -> bool {
        matches!(
            self,
            Self::Busy | Self::PersonShareUsed(_) | Self::WorkspaceShareUsed(_)
        )
    }

    /// Returns the delay after which the client should retry, if the error is temporary.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            busy if busy.is_busy() => Some(Duration::from_secs(5)),
            Self::Model(ModelError::RateLimited { retry_after }) => {
                Some(retry_after.unwrap_or(Duration::from_secs(5)))
            }
            Self::OverBudget(over) => Some(over.retry_after()),
            _ => None,
        }
    }

    /// Returns the error code for the task that records the call.
    pub(super) fn task_code(&self) -> FailCode {
        match self {
            Self::Model(e) => match e {
                ModelError::RateLimited { .. } => FailCode::RateLimited,
                ModelError::Unavailable(_) | ModelError::Broken(_) => FailCode::ModelUnavailable,
                ModelError::ContextTooLarge => FailCode::ContextTooLarge,
                ModelError::BadRequest(_)
                | ModelError::ModelMissing(_)
                | ModelError::ToolsRefused { .. } => FailCode::BadRequest,
                ModelError::Auth(_) => FailCode::Auth,
                ModelError::Empty => FailCode::BadResponse,
                ModelError::ThoughtOnly { .. } => FailCode::ThoughtOnly,
            },
            Self::Timeout => FailCode::Timeout,
            Self::OverBudget(_) => FailCode::BudgetExceeded,
            Self::Refused(..) | Self::Unsupported(..) | Self::ModelNotFound(_) => {
                FailCode::BadRequest
            }
            Self::ContextTooLarge { .. } => FailCode::ContextTooLarge,
            _ => FailCode::WorkerLost,
        }
    }
}

impl ResponseError {
    /// Returns a message that is safe to show to anyone: it contains no provider addresses, keys, or database details.
    pub fn public_text(&self) -> String {
        match self {
            Self::Model(e) => match e {
                ModelError::RateLimited { .. } => {
                    "the model's rate limit has been reached: try again later"
                }
                ModelError::Unavailable(_) | ModelError::Broken(_) => {
                    "the model is not available: try again in a moment"
                }
                ModelError::Auth(_) => {
                    "the model provider rejected this server's API key: ask an admin to correct it"
                }
                ModelError::Empty => "the model returned an empty reply: try again",
                ModelError::ThoughtOnly { .. } => {
                    "the model used its whole answer for thinking: raise the output limit"
                }
                ModelError::ContextTooLarge => "the conversation is too large for the model",
                ModelError::BadRequest(_)
                | ModelError::ModelMissing(_)
                | ModelError::ToolsRefused { .. } => "the model refused the request",
            }
            .to_owned(),
            Self::Db(_) | Self::Broken => {
                "something went wrong on the server and was logged: try again".to_owned()
            }
            other => other.to_string(),
        }
    }
}

impl From<ResponseError> for ApiError {
    fn from(e: ResponseError) -> Self {
        use ResponseError as E;
        let retry_after_s = e.retry_after().map(|wait| wait.as_secs().max(1));
        let text = e.public_text();
        let make = |status, code| ApiError::new(status, code, text);
        let error = match e {
            E::Invalid(_, param) => {
                make(StatusCode::BAD_REQUEST, ErrorCode::InvalidValue).param(param)
            }
            E::Unsupported(_, param) => {
                make(StatusCode::BAD_REQUEST, ErrorCode::UnsupportedValue).param(param)
            }
            E::UnsupportedParameter(param) => {
                make(StatusCode::BAD_REQUEST, ErrorCode::UnsupportedParameter).param(param)
            }
            E::BareModelOff => make(StatusCode::FORBIDDEN, ErrorCode::BareModelOff).param("model"),
            E::NotFound(_) => make(StatusCode::NOT_FOUND, ErrorCode::ResponseNotFound),
            E::ItemNotFound(_) => {
                make(StatusCode::NOT_FOUND, ErrorCode::CursorNotFound).param("after")
            }
            E::NoSuchItem { param, .. } => {
                make(StatusCode::NOT_FOUND, ErrorCode::ItemNotFound).param(param)
            }
            E::PreviousNotFound(_) => {
                make(StatusCode::NOT_FOUND, ErrorCode::PreviousResponseNotFound)
                    .param("previous_response_id")
            }
            E::NoSuchStore { param, .. } => {
                make(StatusCode::NOT_FOUND, ErrorCode::VectorStoreNotFound).param(param)
            }
            E::AgentNotFound { param, .. } => {
                make(StatusCode::NOT_FOUND, ErrorCode::AgentNotFound).param(param)
            }
            E::ModelNotFound(_) => {
                make(StatusCode::NOT_FOUND, ErrorCode::ModelNotFound).param("model")
            }
            E::ContextTooLarge { .. } | E::Model(ModelError::ContextTooLarge) => {
                make(StatusCode::BAD_REQUEST, ErrorCode::ContextLengthExceeded).param("input")
            }
            E::StoreRequired(_) => {
                make(StatusCode::BAD_REQUEST, ErrorCode::StoreRequired).param("store")
            }
            E::Refused(_, param) => {
                make(StatusCode::BAD_REQUEST, ErrorCode::ModelRefused).param(param)
            }
            E::Busy | E::PersonShareUsed(_) | E::WorkspaceShareUsed(_) => {
                make(StatusCode::TOO_MANY_REQUESTS, ErrorCode::TooManyRequests)
            }
            E::Model(ModelError::RateLimited { .. }) => {
                make(StatusCode::TOO_MANY_REQUESTS, ErrorCode::RateLimitExceeded)
            }
            E::OverBudget(_) => make(StatusCode::TOO_MANY_REQUESTS, ErrorCode::InsufficientQuota),
            E::Model(_) => make(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::ModelUnavailable),
            E::Timeout => make(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::ModelTimeout),
            E::Stopping | E::Gone | E::FileUnread => {
                make(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable)
            }
            E::Broken => ApiError::internal(),
            E::Auth(e) => e.into(),
            E::Db(e) => e.into(),
        };
        match retry_after_s {
            Some(seconds) => error.retry_after(seconds),
            None => error,
        }
    }
}
