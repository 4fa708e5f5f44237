//! HTTP routes, one module for each capability.

pub mod agents;
pub mod auth;
pub mod chat;
pub mod chat_completions;
pub mod files;
pub mod forks;
pub mod health;
pub mod mcp;
pub mod memory;
pub mod nodes;
pub mod personal;
pub mod registry;
pub mod responses;
pub mod schedules;
pub mod tools;
