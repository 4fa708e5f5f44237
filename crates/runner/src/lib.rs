//! A runner: it starts coding agents on repositories, in a sandbox without keys, and reports what they did.

mod acp;
mod config;
mod door;
mod failure;
mod frames;
mod git;
mod inside;
mod journal;
mod link;
mod record;
mod sandbox;
mod session;
mod shared;
mod turn;

use tokio_util::task::TaskTracker;

pub use config::{
    BUILTIN, Config, ConfigError, Engine, KEY_VARIABLE, Limits, Repository, SandboxKind,
};
pub use failure::Failure;
pub use frames::*;
pub use inside::run as run_inside;

/// Owner of the runner's tasks.
pub(crate) type Owner = TaskTracker;

/// Reason why a runner ended.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    #[error("the server does not know this key: create a runner in Settings › Repositories")]
    UnknownKey,
    #[error("the server needs another version: upgrade the runner")]
    OtherProtocol,
}
