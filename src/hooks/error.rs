//! Errors of webhooks.

use crate::{http::error::StatusCode, text_enum::text_enum};

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
    }
}

impl HookFault {
    pub fn status(self) -> StatusCode {
        match self {
            Self::InvalidPayload | Self::NoText | Self::TooManyAttachments => {
                StatusCode::BAD_REQUEST
            }
            Self::ActionProhibited => StatusCode::FORBIDDEN,
            Self::NoService => StatusCode::NOT_FOUND,
            Self::ChannelIsArchived => StatusCode::GONE,
            Self::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}
