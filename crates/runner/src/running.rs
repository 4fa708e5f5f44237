//! Processes that run now, of all sessions of a runner.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Time in which what a process has taken is free again.
const RECOVERY_MAX: Duration = Duration::from_secs(10);

/// Processes that watchdogs watch: the greediest one ends if the machine is short of something, and the others go on.
#[derive(Clone, Default)]
pub(crate) struct Running(Arc<Mutex<Watched>>);

#[derive(Default)]
pub(crate) struct Watched {
    /// Directories of sessions by process.
    pub(crate) sessions: BTreeMap<u32, PathBuf>,
    /// Time of the last end because of a shortage.
    pub(crate) ended_at: Option<Instant>,
}

/// Removes a process from those that are watched.
pub(crate) struct WatchEntry {
    running: Running,
    id: u32,
}

impl Drop for WatchEntry {
    fn drop(&mut self) {
        self.running.watched().sessions.remove(&self.id);
    }
}

impl Running {
    pub(crate) fn watched(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self, id: u32, session: &Path) -> WatchEntry {
        self.watched().sessions.insert(id, session.to_owned());
        WatchEntry { running: self.clone(), id }
    }
}

impl Watched {
    pub(crate) fn has_recovered(&self) -> bool {
        self.ended_at.is_none_or(|at| at.elapsed() > RECOVERY_MAX)
    }
}
