//! The registry: tools that admins connected for the workspace, and which of their functions agents may use.
//!
//! A server can change what a function means at any time, so a function is offered only as an admin accepted it: its
//! definition is stored with a hash, and another hash withdraws it until an admin accepts the difference. Lists older
//! than a minute are read again before a call. Connections are made by `mcp`; who may call what, and when, is decided by
//! the tool loop.

mod announce;
mod change;
mod code_runner;
mod error;
mod form;
mod functions;
mod outward;
mod servers;
mod tool;

pub use announce::{ToolChange, ToolEvent};
pub use change::{
    create_tool, delete_secret, delete_tool, find_hidden_channel, patch_tool, put_secret,
};
pub use code_runner::CodeRunner;
pub use error::ToolError;
pub use form::{
    AcceptanceForm, DESCRIPTION_UNITS_MAX, PARAMETERS_BYTES_MAX, SecretForm, ToolForm, ToolPatch,
    is_tool_name,
};
pub use functions::{accept_function, withdraw_function};
pub use outward::OutwardCalls;
pub use servers::{FunctionRef, OfferedServer, Registry, Setup, list_offered};
pub use tool::{
    Acceptance, AuthKind, ChangedTool, FunctionConfig, FunctionState, ProcessToolConfig,
    RegisteredFunction, RegisteredTool, RegisteredToolKind, RemoteConfig, ToolConfig, ToolStatus,
    UsableTool, find_function, find_named, find_tool, hide_settings, is_changed, list_changed,
    list_tools, list_usable, workspace_of,
};
