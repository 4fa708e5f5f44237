//! Errors of tool calls. The model receives the code and the message as the result of its call.

use crate::text_enum::text_enum;

text_enum! {
    /// Reason why a tool call failed.
    pub enum ToolErrorCode {
        BadArguments = "bad_arguments",
        NoSuchFunction = "no_such_function",
        NotAllowed = "not_allowed",
        NotFound = "not_found",
        Unreadable = "unreadable",
        Denied = "denied",
        Expired = "expired",
        /// The task of the call was stopped or has ended.
        Cancelled = "cancelled",
        DefinitionChanged = "definition_changed",
        ToolUnreachable = "tool_unreachable",
        ToolTimeout = "tool_timeout",
        /// The server sent more than a response can have.
        TooMuchData = "too_much_data",
        ToolFailed = "tool_failed",
        TooManyCalls = "too_many_calls",
        /// The call is the third identical one.
        RepeatedCall = "repeated_call",
        RateLimited = "rate_limited",
        /// The server requested input, which nobody can provide.
        InputNotSupported = "input_not_supported",
        NoApprover = "no_approver",
    }
}

/// Error of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFault {
    pub code: ToolErrorCode,
    /// Description of the cause for the model and for people. It never contains a secret.
    pub message: String,
    /// True if the call was sent and its outcome is unknown.
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

    /// Marks the call as sent, with an unknown outcome.
    #[must_use]
    pub fn with_unknown_outcome(mut self) -> Self {
        self.may_have_happened = true;
        self
    }
}
