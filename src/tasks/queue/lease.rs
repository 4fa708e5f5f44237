//! Leases of tasks, and the tasks that run in this process.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    db::DbError,
    ids::{TaskId, WorkspaceId},
    realtime::{Audience, hub::TaskRun},
    tasks::TaskTarget,
};

/// Time without renewal after which a task is assigned to another worker.
const LEASE: Duration = Duration::from_secs(15);
/// Number of lost workers after which a task fails.
pub const LOST_MAX: i64 = 3;

/// Returns `LEASE`; tests shorten it with `OPENVIBE_LEASE_MS` in debug builds.
#[cfg(test_hooks)]
pub fn lease_length() -> Duration {
    static LENGTH: std::sync::LazyLock<Duration> = std::sync::LazyLock::new(|| {
        let ms = std::env::var("OPENVIBE_LEASE_MS").ok();
        ms.and_then(|ms| ms.parse().ok())
            .map_or(LEASE, Duration::from_millis)
    });
    *LENGTH
}

#[cfg(not(test_hooks))]
pub fn lease_length() -> Duration {
    LEASE
}

/// State of the worker in this process. Wakes the worker when a task may be due, and tracks the tasks that it runs.
#[derive(Default)]
pub struct Queue {
    pub wake: Notify,
    /// Signals that machines outside of this process may have to receive commands.
    commands: Steering,
    /// True if this process has no free slot.
    is_full: AtomicBool,
    /// True if this process must not claim tasks.
    is_paused: AtomicBool,
    /// Tasks that run in this process.
    running: dashmap::DashMap<TaskId, RunningTask>,
}

struct RunningTask {
    lease_token: Uuid,
    stop: CancellationToken,
    steering: Steering,
}

/// Signals that messages for a running task were posted. They are hints: the rows in `task_steers` decide.
#[derive(Debug, Clone)]
pub struct Steering(watch::Sender<()>);

impl Default for Steering {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

impl Steering {
    fn signal(&self) {
        self.0.send_replace(());
    }

    /// Returns a receiver of later signals.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.0.subscribe()
    }
}

impl Queue {
    /// Checks whether a new task would have to wait for a free slot in this process.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Checks whether this process must not claim tasks.
    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    pub fn set_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Signals that there may be commands for machines outside of this process.
    pub fn signal_commands(&self) {
        self.commands.signal();
    }

    /// Returns a receiver of later signals about commands.
    pub fn commands(&self) -> watch::Receiver<()> {
        self.commands.subscribe()
    }

    /// Registers a run of a task. A previous run that lost its lease to this one is stopped.
    pub fn begin(&self, lease: &Lease, stop: CancellationToken) {
        let run = RunningTask {
            lease_token: lease.token,
            stop,
            steering: Steering::default(),
        };
        if let Some(lost) = self.running.insert(lease.task, run) {
            lost.stop.cancel();
        }
    }

    /// Unregisters the run with this lease. Another run of the same task stays registered.
    pub fn end(&self, lease: &Lease) {
        self.running
            .remove_if(&lease.task, |_, run| run.lease_token == lease.token);
    }

    /// Number of tasks that run in this process.
    pub fn running_count(&self) -> usize {
        self.running.len()
    }

    /// The tasks that run in this process, with their lease tokens.
    pub fn running_leases(&self) -> Vec<(TaskId, Uuid)> {
        let running = self.running.iter();
        running.map(|run| (*run.key(), run.lease_token)).collect()
    }

    /// Like `stop`, but only for the run with this lease token.
    pub fn stop_token(&self, task: TaskId, token: Uuid) {
        let run = self.running.get(&task);
        if let Some(run) = run.filter(|run| run.lease_token == token) {
            run.stop.cancel();
        }
    }

    /// Stops a task that runs in this process.
    pub fn stop(&self, task: TaskId) {
        if let Some(run) = self.running.get(&task) {
            run.stop.cancel();
        }
    }

    /// Signals a task that runs in this process that messages for it were posted.
    pub fn steer(&self, task: TaskId) {
        if let Some(run) = self.running.get(&task) {
            run.steering.signal();
        }
    }

    /// The signals of the run with this lease.
    pub fn steering(&self, lease: &Lease) -> Steering {
        let run = self.running.get(&lease.task);
        let run = run.filter(|run| run.lease_token == lease.token);
        run.map(|run| run.steering.clone()).unwrap_or_default()
    }

    /// Like `stop`, but only for the run with this lease.
    pub fn stop_run(&self, lease: &Lease) {
        self.stop_token(lease.task, lease.token);
    }
}

/// Commit signal: a task may have become due.
pub struct Wake;

/// Commit signal: a runner may have to receive commands or programs, or was deleted, or a program has ended.
pub struct Commanded;

/// Commit signal: a task was canceled or failed from outside its worker. The signal stops its run, so that its model call always
/// ends.
pub struct Stopped {
    pub workspace: WorkspaceId,
    pub task: TaskId,
}

/// Proof that a worker owns a task. Every write of a running task checks it.
#[derive(Debug, Clone, Copy)]
pub struct Lease {
    pub workspace: WorkspaceId,
    pub task: TaskId,
    pub token: Uuid,
    pub audience: Audience,
    pub target: TaskTarget,
}

impl Lease {
    /// The run of the task under this lease.
    pub fn run(&self) -> TaskRun {
        TaskRun {
            task: self.task,
            token: self.token,
        }
    }
}

/// The task was canceled or assigned to another worker.
#[derive(Debug, thiserror::Error)]
pub enum LeaseLost {
    #[error("the task no longer belongs to this worker")]
    Gone,
    #[error(transparent)]
    Db(#[from] DbError),
}
