//! Errors, as Slack names them.

use crate::{
    chat::ChatError,
    hooks::HookFault,
    http::{ApiError, ErrorCode},
    text_enum::text_enum,
};

text_enum! {
    /// The member `error` of an answer.
    pub enum SlackFault {
        AccountInactive = "account_inactive",
        AlreadyPinned = "already_pinned",
        AlreadyReacted = "already_reacted",
        CantDeleteFile = "cant_delete_file",
        CantDeleteMessage = "cant_delete_message",
        CantUpdateMessage = "cant_update_message",
        CannotUnfurlMessage = "cannot_unfurl_message",
        CannotUnfurlUrl = "cannot_unfurl_url",
        ChannelNotFound = "channel_not_found",
        FileNotFound = "file_not_found",
        FileTooLarge = "file_upload_size_restricted",
        InternalError = "internal_error",
        InvalidArguments = "invalid_arguments",
        InvalidAuth = "invalid_auth",
        InvalidBlocks = "invalid_blocks",
        InvalidCursor = "invalid_cursor",
        InvalidJson = "invalid_json",
        InvalidName = "invalid_name",
        IsArchived = "is_archived",
        MessageNotFound = "message_not_found",
        MethodNotSupported = "method_not_supported_for_channel_type",
        MissingUnfurls = "missing_unfurls",
        MissingScope = "missing_scope",
        MsgTooLong = "msg_too_long",
        NoPin = "no_pin",
        NoReaction = "no_reaction",
        NoText = "no_text",
        NotAuthed = "not_authed",
        NotAllowedTokenType = "not_allowed_token_type",
        NotSupported = "not_supported",
        RateLimited = "ratelimited",
        RequestTooLarge = "request_too_large",
        RestrictedAction = "restricted_action",
        ServiceUnavailable = "service_unavailable",
        ThreadNotFound = "thread_not_found",
        TooManyAttachments = "too_many_attachments",
        TooManyWebsockets = "too_many_websockets",
        UnknownMethod = "unknown_method",
        UserNotFound = "user_not_found",
        UserNotInChannel = "user_not_in_channel",
        UsersNotFound = "users_not_found",
        BotNotFound = "bot_not_found",
    }
}

impl From<HookFault> for SlackFault {
    fn from(fault: HookFault) -> Self {
        match fault {
            HookFault::NoText => Self::NoText,
            HookFault::TooManyAttachments => Self::TooManyAttachments,
            _ => Self::InvalidBlocks,
        }
    }
}

impl SlackFault {
    /// The fault of a text that cannot be a message.
    pub fn of_text(error: &ChatError) -> Self {
        match error {
            ChatError::MessageTooLong(_) => Self::MsgTooLong,
            _ => Self::NoText,
        }
    }

    /// The fault of an error of the `/v1` API; the status decides on what has no name in Slack's API.
    pub fn of(error: &ApiError) -> Self {
        match error.code() {
            ErrorCode::BotPaused => Self::AccountInactive,
            ErrorCode::ChannelNotFound => Self::ChannelNotFound,
            ErrorCode::ChannelArchived => Self::IsArchived,
            ErrorCode::ThreadNotFound => Self::ThreadNotFound,
            ErrorCode::MessageNotFound | ErrorCode::MessageDeleted => Self::MessageNotFound,
            ErrorCode::MessageTooLong => Self::MsgTooLong,
            ErrorCode::NotYours | ErrorCode::NotEditable => Self::CantUpdateMessage,
            ErrorCode::DirectIsFixed => Self::MethodNotSupported,
            ErrorCode::FileNotFound => Self::FileNotFound,
            ErrorCode::FileTooLarge => Self::FileTooLarge,
            ErrorCode::MemberNotFound => Self::UserNotFound,
            ErrorCode::ScopeMissing => Self::MissingScope,
            ErrorCode::BodyTooLarge => Self::RequestTooLarge,
            ErrorCode::Overloaded => Self::ServiceUnavailable,
            _ if error.is_unauthenticated() => Self::InvalidAuth,
            _ if error.is_server_error() => Self::InternalError,
            ErrorCode::RoleTooLow
            | ErrorCode::ThreadArchived
            | ErrorCode::QuotaExceeded
            | ErrorCode::MemberLeft
            | ErrorCode::NotForBots => Self::RestrictedAction,
            _ => Self::InvalidArguments,
        }
    }
}
