//! The registry: tools that admins have connected to the workspace, and the functions of these tools that agents can use.
//!
//! A server can change the meaning of a function at any time, so a function is offered only in the form that an admin accepted: its
//! definition is stored with a hash, and a different hash withdraws the function until an admin accepts the change. Lists older than
//! a minute are read again before a call. `mcp` makes the connections; `tools` decides which calls are allowed.

mod announce;
mod change;
mod code_runner;
mod error;
mod form;
mod functions;
mod lookups;
mod outward;
mod programs;
mod servers;
mod tool;
mod users;

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
pub use programs::{
    ProgramCall, RUNNER_SEEN_WITHIN, RunnerPrograms, TakenPrograms, delete_expired_programs,
    end_program, has_program_runner, take_programs,
};
pub use servers::{FunctionRef, OfferedServer, Registry, Setup, list_offered};
pub use tool::{
    Acceptance, AuthKind, ChangedTool, FunctionConfig, FunctionState, ProcessToolConfig,
    RegisteredFunction, RegisteredTool, RegisteredToolKind, RemoteConfig, ToolConfig, ToolStatus,
    ToolUser, UsableTool, find_function, find_named, find_tool, hide_settings, is_changed,
    list_changed, list_tools, list_usable, workspace_of,
};
pub use users::find_users;
