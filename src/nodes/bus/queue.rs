//! Messages from this node to other nodes, and the known state of those nodes.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{Notify, mpsc};

use super::{
    address::NatsError,
    nats::Nats,
    reject::{Rejections, Unread},
    seal::Rejection,
};
use crate::{
    config::NatsConfig,
    ids::{NodeId, WorkspaceId},
    nodes::{
        mode::Mode,
        row::LiveNode,
        settings::{self, Hashes},
    },
    realtime::{BusMessage, Envelope, NodeState},
};

/// Maximum number of ephemeral messages that wait to be sent; additional ones are dropped.
pub const QUEUE_MAX: usize = 4096;
/// Maximum size of an event that is sent over NATS; other nodes read larger ones from the log.
const EVENT_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of events of a workspace that wait to be sent; other nodes read additional ones from the log.
const EVENTS_MAX: usize = 64;
/// Time without a message from another node over NATS after which that node is also notified over `PostgreSQL`.
const NATS_SILENCE_MAX: Duration = Duration::from_secs(6);

/// Newly committed events of a workspace.
struct Commits {
    first: i64,
    last: i64,
    events: Vec<Envelope>,
}

/// Another node, as seen from this one.
struct Peer {
    name: String,
    mode: Mode,
    state: NodeState,
    /// True if it can open the packets of this node.
    reads_packets: bool,
    /// True if this node can open its packets.
    is_readable: bool,
    /// Time of its last message over NATS.
    heard_over_nats: Option<Instant>,
}

/// The sending side of the bus.
pub struct Bus {
    pub(super) node: NodeId,
    /// Ephemeral messages from the hub and other parts of the server.
    queue: mpsc::Sender<BusMessage>,
    commits: Mutex<HashMap<WorkspaceId, Commits>>,
    pub(super) has_commits: Notify,
    peers: Mutex<HashMap<NodeId, Peer>>,
    has_peers: AtomicBool,
    has_lost_node: AtomicBool,
    pub(super) nats: Option<Nats>,
    rejections: Rejections,
    /// True if LISTEN works.
    pub(super) listens: AtomicBool,
    /// Notified when something other than the log has changed, so that the next poll runs soon.
    pub(in crate::nodes) called: Notify,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bus {
    /// Creates the bus, and the queue from which `start` sends.
    ///
    /// # Errors
    /// `NatsError::Url` if an address in `OPENVIBE_NATS_URL` is invalid.
    pub fn new(
        node: NodeId,
        nats: Option<NatsConfig>,
    ) -> Result<(Arc<Self>, mpsc::Receiver<BusMessage>), NatsError> {
        let (queue, receive) = mpsc::channel(QUEUE_MAX);
        let bus = Self {
            node,
            queue,
            commits: Mutex::default(),
            has_commits: Notify::new(),
            peers: Mutex::default(),
            has_peers: AtomicBool::new(false),
            has_lost_node: AtomicBool::new(false),
            nats: nats.map(Nats::new).transpose()?,
            rejections: Rejections::default(),
            listens: AtomicBool::new(false),
            called: Notify::new(),
        };
        Ok((Arc::new(bus), receive))
    }

    /// The queue of ephemeral messages, for the hub.
    pub fn relay(&self) -> mpsc::Sender<BusMessage> {
        self.queue.clone()
    }

    /// Queues an ephemeral message; drops it if the queue is full.
    pub fn send(&self, message: BusMessage) {
        if self.has_peers() && self.queue.try_send(message).is_err() {
            metrics::counter!("openvibe_bus_dropped_total").increment(1);
        }
    }

    /// Announces a committed event to the other nodes.
    pub fn committed(&self, event: &Envelope) {
        if !self.has_peers() {
            return;
        }
        let carries_events = self.nats.as_ref().is_some_and(Nats::is_connected);
        let carried = carries_events && event.frame.len() <= EVENT_BYTES_MAX;
        let mut commits = lock(&self.commits);
        let commits = match commits.entry(event.workspace) {
            Entry::Occupied(known) => {
                let known = known.into_mut();
                known.last = known.last.max(event.seq);
                known
            }
            Entry::Vacant(new) => new.insert(Commits {
                first: event.seq,
                last: event.seq,
                events: Vec::new(),
            }),
        };
        if carried && commits.events.len() < EVENTS_MAX {
            commits.events.push(event.clone());
        }
        self.has_commits.notify_one();
    }

    /// Checks whether other nodes are alive.
    pub fn has_peers(&self) -> bool {
        self.has_peers.load(Ordering::Relaxed)
    }

    /// Returns true if a node has been lost since the last call.
    pub(in crate::nodes) fn has_lost_node(&self) -> bool {
        self.has_lost_node.swap(false, Ordering::Relaxed)
    }

    /// Checks whether another node is ready to take over the work of this one.
    pub fn has_ready_peer(&self) -> bool {
        let peers = lock(&self.peers);
        peers.values().any(|peer| peer.state == NodeState::Ready)
    }

    /// Replaces the list of other live nodes. `own` are the settings of this node.
    pub(in crate::nodes) fn set_peers(&self, live: Vec<LiveNode>, own: &Hashes) {
        if let Some(nats) = &self.nats {
            nats.set_senders(&live);
        }
        let mut peers = lock(&self.peers);
        let mut before = std::mem::take(&mut *peers);
        for node in live {
            let heard = before
                .remove(&node.id)
                .and_then(|peer| peer.heard_over_nats);
            peers.insert(
                node.id,
                Peer {
                    reads_packets: settings::can_read(&node.settings.0, own),
                    is_readable: settings::can_read(own, &node.settings.0),
                    name: node.name,
                    mode: node.mode,
                    state: node.state,
                    heard_over_nats: heard,
                },
            );
        }
        if !before.is_empty() {
            self.has_lost_node.store(true, Ordering::Relaxed);
        }
        self.has_peers.store(!peers.is_empty(), Ordering::Relaxed);
    }

    /// Checks whether NOTIFY is needed, because NATS is unavailable or does not reach every other node.
    pub(super) fn needs_notify(&self) -> bool {
        let Some(nats) = &self.nats else { return true };
        !nats.is_connected()
            || lock(&self.peers).values().any(|peer| {
                peer.mode != Mode::Nats
                    || !peer.reads_packets
                    || peer
                        .heard_over_nats
                        .is_none_or(|heard| heard.elapsed() > NATS_SILENCE_MAX)
            })
    }

    /// Counts a packet that was not read, and has its sender looked up if that is useful.
    pub(super) fn reject(&self, rejection: Rejection) {
        if rejection == (Rejection::UnknownNode { is_first: true }) {
            self.called.notify_one();
        }
        self.rejections.add(rejection, || {
            let peers = lock(&self.peers);
            let unread = peers.values();
            let unread = unread.filter(|peer| peer.mode == Mode::Nats && !peer.is_readable);
            Unread(unread.map(|peer| peer.name.clone()).collect())
        });
    }

    /// Number of packets that this process has sent over NATS.
    pub(in crate::nodes) fn sent_over_nats(&self) -> u64 {
        self.nats.as_ref().map_or(0, Nats::sent)
    }

    /// Host and port of a NATS server on another machine that this node uses without credentials.
    pub(in crate::nodes) fn open_nats(&self) -> Option<String> {
        self.nats.as_ref()?.open_host()
    }

    /// Checks whether another node is known.
    pub(super) fn is_peer(&self, node: NodeId) -> bool {
        lock(&self.peers).contains_key(&node)
    }

    /// Subscribes to rooms that are not subscribed yet.
    pub(in crate::nodes) async fn subscribe(&self, rooms: &[WorkspaceId]) {
        if let Some(nats) = &self.nats {
            nats.subscribe(rooms).await;
        }
    }

    /// Ends the subscriptions of rooms that are no longer open.
    pub(in crate::nodes) fn keep_subscribed(&self, is_open: impl Fn(WorkspaceId) -> bool) {
        if let Some(nats) = &self.nats {
            nats.keep_subscribed(is_open);
        }
    }

    /// Checks whether the bus is degraded, for `/readyz`: LISTEN or NATS does not work, so messages depend on the poll, or on NOTIFY
    /// instead of NATS.
    pub fn is_degraded(&self) -> bool {
        !self.listens.load(Ordering::Relaxed)
            || self.nats.as_ref().is_some_and(|nats| !nats.is_connected())
    }

    pub(super) fn take_commits(&self) -> Vec<BusMessage> {
        let commits = std::mem::take(&mut *lock(&self.commits));
        let commits = commits.into_iter();
        commits
            .map(|(workspace, commits)| BusMessage::Log {
                workspace,
                first: commits.first,
                last: commits.last,
                events: commits.events,
            })
            .collect()
    }

    pub(super) fn note_heard(&self, node: NodeId, over: Mode) {
        if over == Mode::Nats
            && let Some(peer) = lock(&self.peers).get_mut(&node)
        {
            peer.heard_over_nats = Some(Instant::now());
        }
    }
}
