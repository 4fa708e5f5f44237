//! Errors of bots and webhooks.

use super::object::Bot;
use crate::{
    auth::AuthError,
    chat::ChatError,
    db::DbError,
    files::FileError,
    http::{ApiError, ErrorCode, error::StatusCode},
    text_enum::text_enum,
};

/// Error of a route that manages bots and webhooks.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    #[error("the webhook does not exist, or you did not create it")]
    HookNotFound,
    #[error("the request does not exist, or was deleted after a week")]
    RequestNotFound,
    #[error(
        "the request cannot be posted again: only the first 8 KiB of it were kept, or its message was deleted"
    )]
    RequestCut,
    #[error("the webhook cannot post this request: {0}")]
    Refused(HookFault),
    #[error("the bot does not exist")]
    BotNotFound,
    #[error("a workspace can have at most {0} webhooks: delete one first")]
    TooMany(i64),
    #[error("a workspace can have at most {0} bots: use an existing one")]
    TooManyBots(i64),
    #[error("a bot can have at most {0} keys: delete one first")]
    TooManyKeys(i64),
    #[error("the key does not exist")]
    KeyNotFound,
    #[error("the command `/{0}` belongs to another bot: choose another name")]
    CommandTaken(String),
    #[error("no bot in this channel has this command")]
    CommandNotFound,
    #[error("the message has no such button")]
    ButtonNotFound,
    #[error("{0} bot did not answer.")]
    NoAnswer(String),
    #[error("the bot has no subscription")]
    NoSubscription,
    #[error("the event does not exist, or was deleted after a week")]
    DeliveryNotFound,
    #[error("the address did not confirm that it takes events: {0}")]
    NotVerified(String),
    #[error("the bot has changed since it was read")]
    Stale(Box<Bot>),
    #[error("{0}")]
    Invalid(String, &'static str),
    #[error(transparent)]
    Chat(#[from] ChatError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<HookError> for ApiError {
    fn from(error: HookError) -> Self {
        use HookError as E;
        let text = error.to_string();
        let make = |status, code| ApiError::new(status, code, text);
        match error {
            E::HookNotFound => make(StatusCode::NOT_FOUND, ErrorCode::HookNotFound),
            E::BotNotFound => make(StatusCode::NOT_FOUND, ErrorCode::BotNotFound),
            E::RequestNotFound => make(StatusCode::NOT_FOUND, ErrorCode::RequestNotFound),
            E::RequestCut => make(StatusCode::CONFLICT, ErrorCode::RequestCut),
            E::Refused(_) => make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue),
            E::TooManyKeys(_) => make(StatusCode::CONFLICT, ErrorCode::TooManyKeys),
            E::CommandTaken(_) => {
                make(StatusCode::CONFLICT, ErrorCode::NameTaken).param("commands")
            }
            E::NoAnswer(_) => make(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::BotNoAnswer),
            E::NoSubscription | E::DeliveryNotFound | E::CommandNotFound | E::ButtonNotFound => {
                make(StatusCode::NOT_FOUND, ErrorCode::NotFound)
            }
            E::NotVerified(_) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::NotVerified).param("url")
            }
            E::KeyNotFound => make(StatusCode::NOT_FOUND, ErrorCode::NotFound),
            E::TooMany(_) | E::TooManyBots(_) => {
                make(StatusCode::CONFLICT, ErrorCode::TooManyHooks)
            }
            E::Stale(bot) => {
                make(StatusCode::CONFLICT, ErrorCode::VersionConflict).with_current(&bot)
            }
            E::Invalid(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param(param)
            }
            E::Chat(e) => e.into(),
            E::File(e) if e.is_of_database() => e.into(),
            E::File(e) => ApiError::from(e).param("avatar_file_id"),
            E::Auth(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}

text_enum! {
    /// Text of an error that a program gets from a webhook, as from Slack.
    pub enum HookFault {
        InvalidPayload = "invalid_payload",
        NoText = "no_text",
        TooManyAttachments = "too_many_attachments",
        ActionProhibited = "action_prohibited",
        NoService = "no_service",
        ChannelIsArchived = "channel_is_archived",
        PayloadTooLarge = "payload_too_large",
        RateLimited = "rate_limited",
        /// The request has no valid signature.
        InvalidToken = "invalid_token",
    }
}

impl HookFault {
    pub fn status(self) -> StatusCode {
        match self {
            Self::InvalidPayload | Self::NoText | Self::TooManyAttachments => {
                StatusCode::BAD_REQUEST
            }
            Self::InvalidToken => StatusCode::UNAUTHORIZED,
            Self::ActionProhibited => StatusCode::FORBIDDEN,
            Self::NoService => StatusCode::NOT_FOUND,
            Self::ChannelIsArchived => StatusCode::GONE,
            Self::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}
