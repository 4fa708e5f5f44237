//! Code that the handlers share: the state of the server, the callers of requests, and the admission of
//! requests.

mod cache;
pub mod caller;
pub mod hosts;
pub mod intake;
pub mod origin;
pub mod pages;
pub mod plain;
pub mod setup;
mod state;
pub mod workspaces;

pub use state::{Inner, State};

/// Path of the server's MCP (Model Context Protocol) endpoint.
pub const MCP_PATH: &str = "/mcp";
/// The same endpoint, as some clients write its path.
pub const MCP_PATH_WITH_SLASH: &str = "/mcp/";

/// Beginning of the paths of probes, by which checks find out how the server is reached.
pub const PROBE_PATH: &str = "/v1/server/probe/";

/// Beginning of the addresses to which programs written for Slack send files.
pub const UPLOADS_PATH: &str = "/api/upload/";

/// Checks whether a path is one of those for runners, whose handlers identify the runner before they read a body.
pub fn is_for_runner(path: &str) -> bool {
    path == "/v1/runner" || path.starts_with("/v1/runner/")
}

/// Checks whether a path is that of the MCP endpoint.
pub fn is_mcp(path: &str) -> bool {
    matches!(path, MCP_PATH | MCP_PATH_WITH_SLASH)
}

/// The part of a path after that of a vector store.
fn below_store(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/v1/vector_stores/")?;
    rest.split_once('/').map(|(_, rest)| rest)
}

/// Checks whether a path is that of a file in a vector store, to which its bytes are sent.
pub fn is_collection_upload(path: &str) -> bool {
    below_store(path).is_some_and(|rest| rest.starts_with("paths/"))
}

/// Checks whether a path is that of the comparison of a directory with a vector store.
pub fn is_sync(path: &str) -> bool {
    below_store(path) == Some("sync")
}
