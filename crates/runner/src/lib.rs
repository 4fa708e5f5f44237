//! A runner: it starts coding agents on repositories, in a sandbox without keys, and reports what they did.

mod config;
mod frames;
mod journal;

pub use config::{
    BUILTIN, Config, ConfigError, Engine, KEY_VARIABLE, Limits, Repository, SandboxKind,
};
pub use frames::*;
