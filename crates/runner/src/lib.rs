//! A runner: it starts coding agents on repositories, in a sandbox without keys, and reports what they did.

mod acp;
mod config;
mod door;
mod failure;
mod frames;
mod git;
mod inside;
mod journal;
mod record;
mod sandbox;

pub use config::{
    BUILTIN, Config, ConfigError, Engine, KEY_VARIABLE, Limits, Repository, SandboxKind,
};
pub use failure::Failure;
pub use frames::*;
pub use inside::run as run_inside;

/// Owner of the runner's tasks.
pub(crate) type Owner = tokio_util::task::TaskTracker;
