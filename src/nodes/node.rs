//! This process as a node.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use tokio::sync::watch;
use uuid::Uuid;

use super::{
    figures::Measured,
    identity::{self, IdentityError},
    mode::Mode,
    settings::{self, Hashes},
};
use crate::{config::Config, db::now, ids::NodeId, realtime::NodeState, time::Timestamp};

/// This process.
pub struct Node {
    pub id: NodeId,
    pub name: String,
    /// ID that changes at each start.
    pub incarnation: Uuid,
    pub mode: Mode,
    pub started_at: Timestamp,
    /// Hashes of the settings that must be the same on all nodes.
    pub(super) settings: Hashes,
    state: watch::Sender<NodeState>,
    /// End of the lease for background jobs, according to this process's clock.
    jobs_until: Mutex<Option<Instant>>,
    /// True if the database has not responded for 5 s.
    is_cut_off: AtomicBool,
    /// True while a live node that started earlier has another `OPENVIBE_SECRET_KEY`.
    has_another_key: AtomicBool,
    pub(super) figures: Measured,
}

impl Node {
    /// Reads or creates the identity of this process in its data directory.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn open(config: &Config) -> Result<Self, IdentityError> {
        Ok(Self {
            id: identity::read_or_create(&config.data_dir)?,
            name: config.node_name.clone().unwrap_or_default(),
            incarnation: Uuid::now_v7(),
            mode: Mode::of(config),
            started_at: now(),
            settings: settings::hashes(config),
            state: watch::channel(NodeState::Starting).0,
            jobs_until: Mutex::new(None),
            is_cut_off: AtomicBool::new(false),
            has_another_key: AtomicBool::new(false),
            figures: Measured::default(),
        })
    }

    /// Names the node after its address if no name is configured.
    pub fn name_after(&mut self, address: std::net::SocketAddr) {
        if self.name.is_empty() {
            self.name = address.to_string();
        }
    }

    pub fn is_shared(&self) -> bool {
        self.mode != Mode::Local
    }

    pub fn state(&self) -> NodeState {
        *self.state.borrow()
    }

    pub fn set_state(&self, state: NodeState) {
        self.state.send_replace(state);
    }

    /// Checks whether this node runs the jobs that only one node runs at a time. On `SQLite`, where there is only one node, it always
    /// does.
    pub fn runs_jobs(&self) -> bool {
        let until = *self
            .jobs_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        !self.is_shared() || until.is_some_and(|until| Instant::now() < until)
    }

    pub(super) fn set_jobs_until(&self, until: Option<Instant>) {
        *self
            .jobs_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = until;
    }

    /// Checks whether the database has not responded for 5 s.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::Relaxed)
    }

    /// Checks whether a live node that started earlier has another `OPENVIBE_SECRET_KEY`. This node then runs no tasks and serves no
    /// clients, because it cannot decrypt the secrets that the other nodes store.
    pub fn has_another_key(&self) -> bool {
        self.has_another_key.load(Ordering::Relaxed)
    }

    /// Returns true if the value has changed.
    pub(super) fn set_another_key(&self, has_another_key: bool) -> bool {
        self.has_another_key
            .swap(has_another_key, Ordering::Relaxed)
            != has_another_key
    }

    pub(super) fn set_cut_off(&self, is_cut_off: bool) {
        self.is_cut_off.store(is_cut_off, Ordering::Relaxed);
    }
}
