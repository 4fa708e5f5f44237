//! `OpenVibe`: team chat in which AI agents are teammates.
//!
//! ```text
//! cli ─► app ─► http::router ─► socket ─► routes ─► forks, responses ─► replies ─► chat ─► agents, files, auth, tasks,
//!                                                                                     realtime::{log, hub} ─► db ─► ids
//! ```
//!
//! `model` and `telemetry` are separate; `model` does not import any other module. For the parts and their reasons,
//! see `docs/architecture.md`.

pub mod agents;
pub mod app;
pub mod auth;
pub mod backup;
pub mod chat;
pub mod cli;
pub mod config;
pub mod cursor;
pub mod db;
pub mod disk;
pub mod failpoint;
pub mod files;
pub mod forks;
pub mod http;
pub mod ids;
pub mod lock;
pub mod model;
pub mod patch;
pub mod permissions;
pub mod personal;
pub mod rate;
pub mod realtime;
pub mod replies;
pub mod responses;
pub mod routes;
pub mod share;
pub mod socket;
pub mod tasks;
pub mod telemetry;
mod text_enum;
pub mod time;

#[cfg(test)]
#[path = "../tests/corpus/mod.rs"]
mod corpus;
