//! State of a hub for workspaces to which other nodes also write.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{Notify, mpsc};

use crate::{
    ids::{UserId, WorkspaceId},
    realtime::{bus_message::BusMessage, log::Position},
};

pub(super) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock is held causes at most a missed frame, which clients detect as a gap.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time allowed for a missing event to arrive from another node over a bus that carries events.
const PATIENCE: Duration = Duration::from_millis(10);

/// State that is needed only if there can be other nodes.
pub struct Shared {
    /// Ephemeral messages for other nodes; dropped when the queue is full.
    pub(super) relay: mpsc::Sender<BusMessage>,
    /// True if the bus carries events, so that missing ones will probably arrive soon.
    pub(super) carries_events: AtomicBool,
    /// Rooms that have to read the log, with the time at which they must do so.
    pub(super) stale: Mutex<HashMap<WorkspaceId, Stale>>,
    pub(super) is_stale: Notify,
    /// Rooms without a position.
    pub(super) unopened: Mutex<HashSet<WorkspaceId>>,
    pub(super) has_unopened: Notify,
    /// Number of times that the log has been replaced; events from earlier logs are ignored.
    pub(super) generation: AtomicU64,
    /// Epoch of the log that all rooms follow.
    pub(super) epoch: Mutex<String>,
    /// Notified when rooms get their first position.
    pub(super) opened: Notify,
    /// Presence changes since they were last taken; true if the person is here now.
    pub(super) presence: Mutex<HashMap<(WorkspaceId, UserId), bool>>,
}

impl Shared {
    pub fn new(relay: mpsc::Sender<BusMessage>) -> Self {
        Self {
            relay,
            carries_events: AtomicBool::new(false),
            stale: Mutex::default(),
            is_stale: Notify::new(),
            unopened: Mutex::default(),
            has_unopened: Notify::new(),
            generation: AtomicU64::new(0),
            epoch: Mutex::default(),
            opened: Notify::new(),
            presence: Mutex::default(),
        }
    }

    /// Makes a room read the log after the given time if events are still missing then. If `is_forced`, the room reads the log even
    /// if no events are missing.
    fn mark(&self, workspace: WorkspaceId, after: Duration, is_forced: bool) {
        let due = Instant::now() + after;
        let mut stale = lock(&self.stale);
        let known = stale.entry(workspace).or_insert(Stale { due, is_forced });
        known.due = due.min(known.due);
        known.is_forced |= is_forced;
        drop(stale);
        self.is_stale.notify_one();
    }

    pub(super) fn mark_gap(&self, workspace: WorkspaceId, after: Duration) {
        self.mark(workspace, after, false);
    }

    pub(super) fn mark_stale(&self, workspace: WorkspaceId, after: Duration) {
        self.mark(workspace, after, true);
    }

    pub(super) fn mark_unopened(&self, workspace: WorkspaceId) {
        lock(&self.unopened).insert(workspace);
        self.has_unopened.notify_one();
    }

    /// Time allowed for a missing event to arrive before the log is read.
    pub(super) fn patience(&self) -> Duration {
        if self.carries_events.load(Ordering::Relaxed) {
            PATIENCE
        } else {
            Duration::ZERO
        }
    }

    pub(super) fn note_presence(&self, workspace: WorkspaceId, user: UserId, is_here: bool) {
        lock(&self.presence).insert((workspace, user), is_here);
    }
}

/// Time at which a room has to read the log, and the reason.
pub(super) struct Stale {
    pub(super) due: Instant,
    /// True if the room reads the log even if no event is known to be missing.
    pub(super) is_forced: bool,
}

/// A room that has to read the log.
#[derive(Debug, Clone)]
pub struct Behind {
    pub workspace: WorkspaceId,
    /// The newest event that it delivered.
    pub delivered: Position,
    /// Generation of the log that the room follows.
    pub generation: u64,
    pub epoch: String,
}
