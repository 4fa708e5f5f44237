//! Client of the Model Context Protocol, for servers that a workspace registered. The server for other clients is `routes::mcp`.
//!
//! All clients share `Servers`, which contains limits and pauses per server and the processes of local servers. A `Client` belongs to
//! one task run and has one connection per server. Calls are never repeated, except after a server ended the session without running
//! them. The client has no capabilities: a server that sends a
//! request other than a ping gets an error, and the call fails. Definitions are read here, but `registry` decides which of them are
//! accepted.

mod client;
mod definition;
mod http;
mod limits;
mod output;
mod process;
mod received;
mod server;
mod session;

pub use client::{Client, Servers};
pub use definition::{
    AcceptedFunction, Definition, Effect, Hints, Listing, RejectedFunction, Risk, offered_name,
    offered_names,
};
pub use http::can_be_credential;
pub use limits::Excess;
pub use output::CallOutput;
pub use process::{LocalServers, ProcessConfig};
pub use server::{Endpoint, HttpAuth, ServerConfig, ServerFault};
