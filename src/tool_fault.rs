//! Errors of tool calls. The model receives the code and the message as the result of its call.

use crate::text_enum::text_enum;

text_enum! {
    /// Cause of an error that a tool call ended with.
    pub enum ToolErrorCode {
        BadArguments = "bad_arguments",
        NoSuchFunction = "no_such_function",
        NotAllowed = "not_allowed",
        NotFound = "not_found",
        Unreadable = "unreadable",
        Denied = "denied",
        Expired = "expired",
        /// Its task was stopped or has ended.
        Cancelled = "cancelled",
        DefinitionChanged = "definition_changed",
        ToolUnreachable = "tool_unreachable",
        ToolTimeout = "tool_timeout",
        ToolFailed = "tool_failed",
        TooManyCalls = "too_many_calls",
        /// The third identical call.
        RepeatedCall = "repeated_call",
        RateLimited = "rate_limited",
        /// The server asked for input, which nobody can give here.
        InputNotSupported = "input_not_supported",
        NoApprover = "no_approver",
    }
}

/// Error of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFault {
    pub code: ToolErrorCode,
    /// Cause for the model and for people; never contains a secret.
    pub message: String,
    /// The call left this server, and its outcome is unknown.
    pub may_have_happened: bool,
}

impl ToolFault {
    /// An error that its code describes completely.
    pub fn of(code: ToolErrorCode) -> Self {
        Self::new(code, "")
    }

    /// An error of a call that had no effect, or whose outcome is known.
    pub fn new(code: ToolErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            may_have_happened: false,
        }
    }

    /// Marks that the call left this server, and that its outcome is unknown.
    #[must_use]
    pub fn with_unknown_outcome(mut self) -> Self {
        self.may_have_happened = true;
        self
    }
}
