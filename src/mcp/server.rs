//! Servers, as described by the registry, and the reasons why a server cannot be used.

use std::sync::Arc;

use reqwest::{Url, header::HeaderName};

use super::{limits::Excess, process::ProcessConfig};
use crate::{
    ids::{ToolId, WorkspaceId},
    tool_fault::{ToolErrorCode, ToolFault},
};

/// Address of a server, with the credential of the workspace.
#[derive(Clone)]
pub enum Endpoint {
    Http {
        url: Url,
        auth: HttpAuth,
    },
    /// A process that the operator configured.
    Process {
        process: Arc<ProcessConfig>,
    },
}

/// Credential for an HTTP server.
#[derive(Clone)]
pub enum HttpAuth {
    None,
    /// `Authorization: Bearer SECRET`.
    Bearer(String),
    /// The secret as the value of a header.
    Header(HeaderName, String),
}

impl HttpAuth {
    pub(super) fn secret(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Bearer(secret) | Self::Header(_, secret) => Some(secret),
        }
    }
}

/// A server of the registry.
#[derive(Clone)]
pub struct ServerConfig {
    pub id: ToolId,
    pub workspace: WorkspaceId,
    /// Version, which changes with the settings and the credential; a connection is used for only
    /// one version.
    pub version: i64,
    /// Display title, which is also used in error messages.
    pub title: String,
    pub endpoint: Endpoint,
}

impl std::fmt::Debug for ServerConfig {
    /// Omits the URL and the credential.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerConfig")
            .field("id", &self.id)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl ServerConfig {
    pub(super) fn secret(&self) -> Option<&str> {
        match &self.endpoint {
            Endpoint::Http { auth, .. } => auth.secret(),
            Endpoint::Process { .. } => None,
        }
    }
}

/// Reason why a server could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerFault {
    /// The server has no credential, and requires one.
    #[error("{0} wants a key: add one in Settings › Tools")]
    KeyMissing(String),
    /// The server rejected the credential; contains its text.
    #[error("{0} refused the key: replace it in Settings › Tools")]
    AuthFailed(String, String),
    /// The server has no credential, and describes how to get one.
    #[error(
        "{0} signs people in by OAuth, which is not supported: if it also accepts a key, add it in Settings › Tools"
    )]
    OAuthOnly(String),
    /// The server does not allow the request.
    #[error("{0} refused the request: {1}")]
    Refused(String, String),
    /// The response exceeds a limit.
    #[error("{0} sent too much data: {1}")]
    TooMuchData(String, Excess),
    #[error("{0} cannot be reached: {1}")]
    Unreachable(String, String),
    /// The address is not permitted.
    #[error("{0} cannot be used: {1}")]
    NotAllowed(String, String),
    #[error("{0} did not respond in time")]
    Timeout(String),
    #[error("{0} failed 5 times in a row: it will be tried again in 30 s")]
    Paused(String),
}

impl From<ServerFault> for ToolFault {
    fn from(fault: ServerFault) -> Self {
        let code = match &fault {
            ServerFault::NotAllowed(..) => ToolErrorCode::NotAllowed,
            ServerFault::Timeout(_) => ToolErrorCode::ToolTimeout,
            ServerFault::TooMuchData(..) => ToolErrorCode::TooMuchData,
            ServerFault::Refused(..) => ToolErrorCode::ToolFailed,
            ServerFault::KeyMissing(_)
            | ServerFault::AuthFailed(..)
            | ServerFault::OAuthOnly(_)
            | ServerFault::Unreachable(..)
            | ServerFault::Paused(_) => ToolErrorCode::ToolUnreachable,
        };
        Self::new(code, fault.to_string())
    }
}
