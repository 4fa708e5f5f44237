//! Errors of the registry.

use super::tool::RegisteredTool;
use crate::{
    auth::AuthError,
    db::DbError,
    http::{ApiError, ErrorCode, error::StatusCode},
    mcp::ServerFault,
    outbound::Denied,
    secrets::SecretError,
};

#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error("the tool does not exist in this workspace")]
    NotFound,
    #[error("the server has no function `{0}`: refresh the list")]
    FunctionNotFound(String),
    #[error("the name `{0}` is taken by another tool of this workspace: choose another")]
    NameTaken(String),
    #[error("a workspace can have at most {0} tools: delete one first")]
    TooMany(i64),
    #[error("at most {0} functions of a server can be accepted: withdraw one first")]
    TooManyFunctions(usize),
    /// Contains the limit in KiB.
    #[error(
        "the accepted definitions of a server can have at most {0} KiB together: withdraw one first"
    )]
    DefinitionsTooLarge(usize),
    /// Invalid value: the message, and the field.
    #[error("{0}")]
    Invalid(String, &'static str),
    #[error("a destructive function always needs an approval: choose `approve` or `escalate`")]
    RiskTooLow,
    #[error("there is no channel {0} in this workspace, or you are not in it")]
    ChannelNotFound(String),
    #[error(
        "the tool has changed since you loaded it: reload it, reapply your change, and send it again"
    )]
    Stale(Box<RegisteredTool>),
    #[error("the server changed this function in the meantime: read its new definition first")]
    DefinitionChanged(Box<RegisteredTool>),
    #[error("the settings of this tool changed while its functions were read: refresh it again")]
    ListOutdated(Box<RegisteredTool>),
    /// Contains the names of the agents, including archived ones.
    #[error("{}", describe_use(.0))]
    InUse(Vec<String>),
    #[error("{}", describe(.0))]
    Denied(Denied),
    #[error(transparent)]
    Unreachable(#[from] ServerFault),
    /// The functions of the server with this host could not be read.
    #[error("{}", describe_fault(.0, .1))]
    NotListed(String, ServerFault),
    #[error(transparent)]
    Secret(SecretError),
    #[error(transparent)]
    Auth(AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}

/// Maximum number of agents that an error names.
const NAMED_MAX: usize = 5;

fn describe_use(agents: &[String]) -> String {
    let named = agents.iter().take(NAMED_MAX).map(|name| format!("@{name}"));
    let mut named: Vec<String> = named.collect();
    if agents.len() > NAMED_MAX {
        named.push("…".to_owned());
    }
    let named = named.join(", ");
    format!("agents use this tool, or did before they were archived: change {named} first")
}

fn describe(denied: &Denied) -> String {
    match denied {
        Denied::OwnServer(host) => {
            format!("{host} is the address of this server: use the address of a tool server")
        }
        Denied::NotPublic(host) => format!(
            "{host} is not a public address. An operator can permit this address with OPENVIBE_MCP_ALLOW."
        ),
        Denied::NotEncrypted(host) => format!(
            "{host} must be used with https. An operator can permit this address with OPENVIBE_MCP_ALLOW."
        ),
        Denied::Port(host, port) => {
            format!("port {port} of {host} cannot be used: use an address with a standard port")
        }
        Denied::NotFound(host) => format!("could not find the host {host}: check the address"),
    }
}

/// Describes a failed connection for the dialog that adds a server, as complete sentences.
fn describe_fault(host: &str, fault: &ServerFault) -> String {
    match fault {
        ServerFault::KeyMissing(_) => format!("{host} wants a key."),
        ServerFault::AuthFailed(_, text) => {
            format!("{host} refused the key: {}.", text.trim_end_matches('.'))
        }
        ServerFault::OAuthOnly(_) => format!(
            "{host} signs people in by OAuth, which is not supported. Use a key if it offers one."
        ),
        ServerFault::Refused(_, text) => {
            format!(
                "{host} refused the request: {}.",
                text.trim_end_matches('.')
            )
        }
        ServerFault::TooMuchData(_, excess) => format!("{host} sent too much data: {excess}."),
        ServerFault::NotAllowed(_, why) => format!("{why}."),
        ServerFault::Unreachable(_, why) => format!("Cannot reach {host}: {why}."),
        ServerFault::Timeout(_) => format!("Cannot reach {host}: it did not respond in time."),
        ServerFault::Paused(_) => format!(
            "Cannot reach {host}: it failed 5 times in a row and will be tried again in 30 s."
        ),
    }
}

impl From<AuthError> for ToolError {
    fn from(e: AuthError) -> Self {
        match e {
            AuthError::Db(e) => Self::Db(e),
            other => Self::Auth(other),
        }
    }
}

impl From<SecretError> for ToolError {
    fn from(e: SecretError) -> Self {
        match e {
            SecretError::Db(e) => Self::Db(e),
            other => Self::Secret(other),
        }
    }
}

impl From<ToolError> for ApiError {
    fn from(error: ToolError) -> Self {
        use ToolError as E;
        let text = error.to_string();
        let make = |status, code| ApiError::new(status, code, text.clone());
        match error {
            E::NotFound => make(StatusCode::NOT_FOUND, ErrorCode::ToolNotFound),
            E::FunctionNotFound(_) => make(StatusCode::NOT_FOUND, ErrorCode::FunctionNotFound),
            E::NameTaken(_) => make(StatusCode::CONFLICT, ErrorCode::NameTaken).param("name"),
            E::TooMany(_) => make(StatusCode::CONFLICT, ErrorCode::TooManyTools),
            E::TooManyFunctions(_) | E::DefinitionsTooLarge(_) => {
                make(StatusCode::CONFLICT, ErrorCode::TooManyFunctions)
            }
            E::Invalid(_, param) => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::InvalidValue).param(param)
            }
            E::RiskTooLow => {
                make(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::RiskTooLow).param("risk")
            }
            E::ChannelNotFound(_) => {
                make(StatusCode::NOT_FOUND, ErrorCode::ChannelNotFound).param("channel_ids")
            }
            E::Stale(current) => make(StatusCode::CONFLICT, ErrorCode::VersionConflict)
                .param("If-Match")
                .with_current(&current),
            E::ListOutdated(current) => {
                make(StatusCode::CONFLICT, ErrorCode::VersionConflict).with_current(&current)
            }
            E::DefinitionChanged(current) => {
                make(StatusCode::CONFLICT, ErrorCode::DefinitionChanged)
                    .param("definition_hash")
                    .with_current(&current)
            }
            E::InUse(_) => make(StatusCode::CONFLICT, ErrorCode::ToolInUse),
            E::Denied(denied) => {
                let code = match denied {
                    Denied::OwnServer(_) => ErrorCode::OwnServer,
                    Denied::NotPublic(_) | Denied::NotEncrypted(_) | Denied::Port(..) => {
                        ErrorCode::AddressNotAllowed
                    }
                    Denied::NotFound(_) => ErrorCode::Unreachable,
                };
                make(StatusCode::UNPROCESSABLE_ENTITY, code).param("config.url")
            }
            E::Unreachable(_) | E::NotListed(..) => {
                // The cause lies with the other server, so there is nothing to log.
                make(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::ToolUnreachable).logged()
            }
            E::Secret(SecretError::KeyMissing) => {
                make(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::SecretKeyMissing).param("value")
            }
            E::Secret(SecretError::Unreadable) => {
                make(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::ToolUnreachable).logged()
            }
            E::Secret(error) => {
                tracing::error!(error = %error, "a secret could not be stored");
                Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    ErrorCode::SecretKeyMissing,
                    "this server cannot store secrets: its log contains the cause".to_owned(),
                )
                .param("value")
                .logged()
            }
            E::Auth(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}
