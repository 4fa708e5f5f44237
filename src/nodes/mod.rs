//! Processes that share a database: who they are, and how they hear of each other's changes.
//!
//! ```text
//! commit ─► hub ─► sockets of this node
//!        └► bus ─► NOTIFY or NATS ─► bus of another node ─► hub ─► its sockets
//!                                    poll, every second ──► hub: reads what is missing from the log
//! ```
//!
//! The database has everything; messages of the bus are hints. `identity` names this process, `row` has the rows of all nodes,
//! `lease` keeps this one alive, `follow` reads events that the bus did not bring, and `poll` notices everything that it lost.

pub mod bus;
mod figures;
mod follow;
mod identity;
mod lease;
mod list;
mod poll;
mod presence;
mod row;
mod settings;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use tokio::sync::watch;
use uuid::Uuid;

use crate::{
    auth::revocations::RevocationFeed,
    config::Config,
    db::{Conn, DatabaseUrl, DbError, now},
    ids::NodeId,
    realtime::NodeState,
    text_enum::text_enum,
    time::Timestamp,
};
pub use follow::follow;
pub use identity::IdentityError;
pub use lease::{JoinError, Lease, LeaseEnd, join};
pub use list::{ListedNode, list, list_stored};
pub use poll::poll;
pub use presence::{list_online, write_presence};
pub use row::{LiveNode, names_of_live};

/// Reads which other nodes live before this one starts. Returns true if there are none.
///
/// # Errors
/// If the database fails.
pub async fn find_peers(links: &Links) -> Result<bool, DbError> {
    if !links.node.is_shared() {
        return Ok(true);
    }
    let live = row::list_live(&mut links.db.read().await?, Some(links.node.id)).await?;
    let is_alone = live.is_empty();
    links.bus.set_peers(live);
    Ok(is_alone)
}

/// Deletes the rows of a node that has stopped, and returns its jobs.
///
/// # Errors
/// If the database fails.
pub async fn leave(links: &Links) -> Result<(), DbError> {
    if !links.node.is_shared() {
        return Ok(());
    }
    let node = Arc::clone(&links.node);
    links
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            row::release_jobs(c, node.id).await?;
            row::delete(c, &node).await
        })
        .await
}

text_enum! {
    /// How nodes hear of each other's changes.
    pub enum Mode {
        /// There is one node.
        Local = "local",
        /// Over LISTEN and NOTIFY of PostgreSQL.
        Notify = "notify",
        /// Over core NATS, or LISTEN and NOTIFY while it is unavailable.
        Nats = "nats",
    }
}

impl Mode {
    fn of(config: &Config) -> Self {
        match (&config.database, &config.nats) {
            (DatabaseUrl::Sqlite(_), _) => Self::Local,
            (DatabaseUrl::Postgres(_), None) => Self::Notify,
            (DatabaseUrl::Postgres(_), Some(_)) => Self::Nats,
        }
    }
}

/// This process.
pub struct Node {
    pub id: NodeId,
    pub name: String,
    /// Changes at each start.
    pub incarnation: Uuid,
    pub mode: Mode,
    pub started_at: Timestamp,
    /// Hashes of the settings that all nodes need to share.
    settings: settings::Hashes,
    state: watch::Sender<NodeState>,
    /// Empty until it was read.
    epoch: watch::Sender<String>,
    /// End of the lease for background jobs, by this process's clock.
    jobs_until: Mutex<Option<Instant>>,
    /// The database has not responded for 5 s.
    is_cut_off: AtomicBool,
    figures: figures::Measured,
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
            epoch: watch::channel(String::new()).0,
            jobs_until: Mutex::new(None),
            is_cut_off: AtomicBool::new(false),
            figures: figures::Measured::default(),
        })
    }

    /// Names a node without a configured name by its address.
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

    /// Identity of the log: a cursor of another epoch is void.
    pub fn epoch(&self) -> String {
        self.epoch.borrow().clone()
    }

    pub fn set_epoch(&self, epoch: &str) {
        self.epoch.send_if_modified(|known| {
            let is_new = known != epoch;
            if is_new {
                epoch.clone_into(known);
            }
            is_new
        });
    }

    /// Waits for an epoch other than `known`, and returns it.
    pub async fn other_epoch(&self, known: &str) -> String {
        let mut epoch = self.epoch.subscribe();
        // The sender lives as long as this does.
        let changed = epoch.wait_for(|epoch| epoch != known).await;
        changed.map(|epoch| epoch.clone()).unwrap_or_default()
    }

    /// Completes when the node begins to stop.
    pub async fn draining(&self) {
        let mut state = self.state.subscribe();
        // The sender lives as long as this does.
        drop(state.wait_for(|state| *state == NodeState::Draining).await);
    }

    /// Checks whether this node runs the jobs that only one node runs at a time. A single node always does.
    pub fn runs_jobs(&self) -> bool {
        let until = *self
            .jobs_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        !self.is_shared() || until.is_some_and(|until| Instant::now() < until)
    }

    fn set_jobs_until(&self, until: Option<Instant>) {
        *self
            .jobs_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = until;
    }

    /// Checks whether the database has not responded for 5 s.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::Relaxed)
    }

    fn set_cut_off(&self, is_cut_off: bool) {
        self.is_cut_off.store(is_cut_off, Ordering::Relaxed);
    }
}

/// What the background work of a node uses.
#[derive(Clone)]
pub struct Links {
    pub db: crate::db::Db,
    pub node: Arc<Node>,
    pub hub: Arc<crate::realtime::Hub>,
    pub queue: Arc<crate::tasks::Queue>,
    pub bus: Arc<bus::Bus>,
    pub revocations: Arc<RevocationFeed>,
    /// Time over which sockets are closed.
    pub drain: std::time::Duration,
}
