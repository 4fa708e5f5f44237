//! The server through HTTP and WebSocket, as its clients use it, beside a scripted model server.
//!
//! `OPENVIBE_TEST_DATABASE=sqlite` (the default) or `postgres`; the latter with
//! `scripts/with-postgres.sh cargo test --test api`.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "test helpers")]

mod accounts;
mod agent_access;
mod agent_cli;
mod agent_files;
mod agent_inheritance;
mod agent_profiles;
mod agent_rpc;
mod agent_transfer;
mod agent_versions;
mod agents;
mod audit;
mod backup;
mod bad_input;
mod cancel_retry;
mod channels;
mod chaos;
mod context;
#[path = "../corpus/mod.rs"]
mod corpus;
mod deletion;
mod demo;
mod disk_faults;
mod drafts;
mod events;
mod failures;
mod faults;
mod files;
mod fork_context;
mod fork_faults;
mod fork_messages;
mod forks;
mod handoff;
mod health;
mod invites;
mod isolation;
mod keys;
mod layers;
mod lease_faults;
mod limits;
mod mentions;
mod messages;
mod migrations;
mod model_test;
mod openapi;
mod outcomes;
mod outside;
mod pages;
mod personal_data;
mod postgres_faults;
mod property;
mod publish;
mod queue;
mod resolve;
mod resolve_model;
mod response_agents;
mod response_errors;
mod response_streams;
mod responses;
mod resume;
mod roles;
mod route_access;
mod search;
mod security;
mod shapes;
mod socket;
mod streams;
mod support;
mod tasks;
mod threads;
mod unread;
mod usage;
mod workspaces;
