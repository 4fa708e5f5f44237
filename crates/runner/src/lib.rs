//! A runner: it starts coding agents on repositories, in a sandbox without keys, and reports what they did.
//!
//! ```text
//! server ◄─ frames ─► link ─► journal ─► session ─► turn ─► sandbox ( agent ◄─ ACP ─► turn )
//!                                           │                   │
//!                                          git ◄── patch ───────┤
//!                                                               └── door ─► server, provider, listed hosts
//! ```
//!
//! Programs that need no repository (`scratch`) go from the link to the sandbox, and end with the connection.
//!
//! The journal of each session holds commands until they are handled and events until the server has them, so that both sides can end at
//! any time. `agent` is the small agent that is part of the program; `inside` is the program's part in the sandbox.

mod acp;
mod agent;
mod check;
mod config;
mod door;
mod failure;
mod frames;
mod git;
mod inside;
mod journal;
mod link;
mod machine;
mod reads;
mod record;
mod running;
mod sandbox;
mod scratch;
mod session;
mod shared;
mod skills;
mod turn;
mod watchdog;

use std::{
    collections::BTreeMap,
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, chown},
    sync::{Arc, Mutex},
    time::Duration,
};

use rustix::{
    process::{Gid, Uid},
    thread::{set_thread_gid, set_thread_groups, set_thread_uid},
};
use tokio::sync::{Notify, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use agent::run as run_agent;
pub use check::{CheckLine, check};
pub use config::{
    BUILTIN, Config, ConfigError, Engine, KEY_VARIABLE, Limits, Repository, SandboxKind,
};
pub use failure::Failure;
pub use frames::*;
pub use inside::run as run_inside;

use crate::{
    git::Mirror,
    sandbox::{Places, Sandbox},
    shared::Shared,
};

/// Owner of the runner's tasks.
pub(crate) type Owner = TaskTracker;

/// Time that tasks have to end with the runner.
const END_MAX: Duration = Duration::from_secs(10);
/// Folders that are read for the server at the same time.
const READS_MAX: usize = 4;
/// Requests for folders at the same time: each holds a path of up to the size of a frame.
const ANSWERS_MAX: usize = 32;
/// User of a runner that was started as root, if its directory belongs to root, and no repository is on this machine.
const NOBODY: u32 = 65534;

/// Reason why a runner ended.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    #[error("the server does not know this key: create a runner in Settings › Tools")]
    UnknownKey,
    #[error("the server needs another version: upgrade the runner")]
    OtherProtocol,
    #[error("another runner uses {0}: set another data_dir")]
    InUse(String),
    /// The sandbox does not work here.
    #[error(transparent)]
    Sandbox(Failure),
    #[error(transparent)]
    Unavailable(#[from] Failure),
    #[error("the runner's directory cannot be used: {0}")]
    Disk(#[from] io::Error),
    #[error("the runner cannot continue as another user: {0}")]
    User(io::Error),
    #[error(
        "the runner does not stay root, and user {user} cannot enter {directory}: run it as a user of its own, or set another data_dir"
    )]
    Hidden { user: u32, directory: String },
    #[error("the HTTP client cannot be created: {0}")]
    Client(#[from] reqwest::Error),
}

/// Runs until `stop` is canceled. Turns that are running then continue with the next start.
///
/// # Errors
/// The sandbox is missing, the server rejects the runner, or its directory cannot be used.
pub async fn run(config: Config, stop: &CancellationToken) -> Result<(), RunnerError> {
    let _lock = Lock::take(&config)?;
    let client = client()?;
    let mirrors = Some(config.data_dir.join("mirrors"));
    let places = Places { session: config.data_dir.join("check"), mirror: mirrors };
    Sandbox::new(&config, places).check().await.map_err(RunnerError::Sandbox)?;
    scratch::clear(&config).await?;
    let mut mirrors = BTreeMap::new();
    for name in config.repositories.keys() {
        mirrors.insert(name.clone(), Mirror::open(&config, name).await?);
    }
    let shared = Arc::new(Shared {
        client,
        mirrors,
        sessions: Mutex::default(),
        known: Mutex::default(),
        turns: Semaphore::new(config.turns),
        programs: Semaphore::new(config.turns),
        reads: Semaphore::new(READS_MAX),
        answers: Arc::new(Semaphore::new(ANSWERS_MAX)),
        changed: Notify::new(),
        owner: Owner::new(),
        stop: stop.child_token(),
        serve: session::serve,
        config,
    });
    shared.load().await?;
    shared.keep_reserve();
    let ended = link::run(&shared).await;
    shared.stop.cancel();
    shared.owner.close();
    if tokio::time::timeout(END_MAX, shared.owner.wait()).await.is_err() {
        tracing::warn!("some tasks did not end");
    }
    ended
}

/// Client for the server and for providers: without redirects, which could leave a permitted address. It uses the proxy of the environment
/// (`HTTPS_PROXY`).
fn client() -> reqwest::Result<reqwest::Client> {
    // Fails only if it is installed already.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        .http1_only()
        .connect_timeout(Duration::from_secs(10))
        .read_timeout(Duration::from_mins(10))
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("openvibe-runner/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Lock of a runner's directory: two runners would write the same journals.
struct Lock(std::fs::File);

impl Lock {
    fn take(config: &Config) -> Result<Self, RunnerError> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&config.data_dir)?;
        let file = std::fs::File::create(config.data_dir.join("lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(std::fs::TryLockError::WouldBlock) => {
                Err(RunnerError::InUse(config.data_dir.display().to_string()))
            }
            Err(std::fs::TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A child that has not executed its program yet has the file, too, so that closing it is not enough.
        let _ = self.0.unlock();
    }
}

/// Continues as another user if this is root, since limits of processes do not bind root: as the owner of the data directory, or else of the
/// first repository of this machine, or else as nobody. That user then owns the data directory. Stays root if the repository is root's, which
/// others often cannot read. Does nothing for other users. Must be called before other threads start, because it changes only this one.
///
/// # Errors
/// The user cannot be changed.
pub fn drop_root(config: &Config) -> Result<(), RunnerError> {
    if !rustix::process::getuid().is_root() || config.sandbox == SandboxKind::None {
        return Ok(());
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&config.data_dir)?;
    let data = std::fs::metadata(&config.data_dir)?;
    let local = config.repositories.values().find_map(Repository::local_path);
    let (user, group) = match local.map(std::fs::metadata).transpose()? {
        _ if data.uid() != 0 => (data.uid(), data.gid()),
        Some(repository) => (repository.uid(), repository.gid()),
        None => (NOBODY, NOBODY),
    };
    if user == 0 {
        return Ok(());
    }
    chown(&config.data_dir, Some(user), Some(group))?;
    set_thread_groups(&[])
        .and_then(|()| set_thread_gid(Gid::from_raw(group)))
        .and_then(|()| set_thread_uid(Uid::from_raw(user)))
        .map_err(|error| RunnerError::User(error.into()))?;
    let directory = config.data_dir.display().to_string();
    std::fs::read_dir(&config.data_dir)
        .map(drop)
        .map_err(|_| RunnerError::Hidden { user, directory })
}
