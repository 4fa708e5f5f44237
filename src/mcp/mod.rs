//! Client of the Model Context Protocol, for servers that a workspace registered. The server for others is `routes::mcp`.
//!
//! `Servers` is shared by all: limits and pauses per server, and processes of local servers. A `Client` belongs to one
//! task run and has one connection per server. No call is ever repeated. The client has no capabilities: a server that
//! asks for something gets an error, and so does the call. Definitions are read here, but `registry` decides which of
//! them count.

mod client;
mod definition;
mod http;
mod output;
mod process;
mod server;
mod session;

pub use client::{Client, Servers};
pub use definition::{
    AcceptedFunction, Definition, Effect, Hints, Risk, offered_name, offered_names,
};
pub use http::can_be_credential;
pub use output::CallOutput;
pub use process::{LocalServers, ProcessConfig};
pub use server::{Endpoint, HttpAuth, ServerConfig, ServerFault};
