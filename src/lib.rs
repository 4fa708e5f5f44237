//! `OpenVibe`: team chat in which AI agents are teammates.
//!
//! ```text
//! cli ─► app ─► router ─► socket ─► routes ─► doctor ─► upkeep ─► server ─► nodes ─► exports, personal, runs ─► forks, responses ─► replies
//!     ─► imports, outgoing, schedules ─► slack, tools ─► collections, hooks, memory, push ─► chat ─► workflows ─► agents, meaning
//!     ─► files, openapi, providers, registry ─► auth ─► http, tasks ─► inbox ─► realtime, backup, config ─► mail ─► secrets ─► db
//!     ─► mcp, web ─► storage, telemetry, tool_fault ─► model, outbound, ids, time
//! ```
//!
//! A module uses only modules to the right of it; `model` imports no other module. `docs/architecture.md` describes the parts and
//! the reasons for them.

pub mod agents;
pub mod app;
pub mod auth;
pub mod backup;
pub mod blocking;
pub mod chat;
pub mod cli;
pub mod code;
pub mod collections;
pub mod config;
pub mod cursor;
pub mod db;
pub mod disk;
pub mod doctor;
pub mod environment;
pub mod exports;
pub mod failpoint;
pub mod files;
pub mod forks;
pub mod hooks;
pub mod http;
pub mod ids;
pub mod imports;
pub mod inbox;
pub mod lock;
pub mod mail;
pub mod mcp;
pub mod meaning;
pub mod memory;
pub mod model;
pub mod networks;
pub mod nodes;
pub mod openapi;
pub mod outbound;
pub mod outgoing;
pub mod patch;
pub mod permissions;
pub mod personal;
pub mod poll;
pub mod poster;
pub mod providers;
pub mod proxy;
pub mod push;
pub mod rate;
pub mod realtime;
pub mod registry;
pub mod release;
pub mod replies;
pub mod responses;
pub mod router;
pub mod routes;
pub mod runs;
pub mod schedules;
pub mod secrets;
pub mod server;
pub mod share;
pub mod slack;
pub mod socket;
pub mod storage;
pub mod tasks;
pub mod telemetry;
mod text_enum;
pub mod time;
pub mod tls;
pub mod tls_settings;
pub mod tool_fault;
pub mod tools;
pub mod trust;
pub mod upkeep;
pub mod web;
pub mod workflows;

#[cfg(test)]
#[path = "../tests/corpus/mod.rs"]
mod corpus;
