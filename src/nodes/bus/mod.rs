//! The bus between nodes: hints about commits, and ephemeral frames. One task sends, so a commit never waits for the bus.

mod nats;
mod notify;
mod wire;

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::{Links, Mode, row::LiveNode};
use crate::{
    config::NatsConfig,
    db::now,
    ids::{NodeId, TaskId, WorkspaceId},
    realtime::{BusMessage, Envelope, NodeState, Received, RemoteDelta},
};
use nats::Nats;
pub use nats::NatsError;
pub use notify::NotifyError;

/// Maximum number of ephemeral messages that wait to be sent; further ones are dropped.
pub const QUEUE_MAX: usize = 4096;
/// Maximum size of a notification: PostgreSQL's limit is 8,000 bytes.
const NOTIFICATION_BYTES_MAX: usize = 7900;
/// Maximum size of a NATS message, and of an event in it.
const NATS_BYTES_MAX: usize = 256 * 1024;
const EVENT_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of events of a workspace that wait to be sent; others are read from the log.
const EVENTS_MAX: usize = 64;
/// Interval of deltas over NOTIFY.
const NOTIFY_DELTAS_EVERY: Duration = Duration::from_millis(250);
/// Interval of signs of life.
const NATS_HEARTBEAT: Duration = Duration::from_secs(2);
const NOTIFY_HEARTBEAT: Duration = Duration::from_secs(5);
/// Silence over NATS after which another node is also notified over PostgreSQL.
const NATS_SILENCE_MAX: Duration = Duration::from_secs(6);
/// Maximum time for one send.
const SEND_WITHIN: Duration = Duration::from_secs(5);

/// Newly committed events of a workspace.
struct Commits {
    first: i64,
    last: i64,
    events: Vec<Envelope>,
}

/// What is known of another node.
struct Peer {
    node: LiveNode,
    /// Time of its last message over NATS.
    heard_over_nats: Option<Instant>,
}

/// The sending side of the bus.
pub struct Bus {
    node: NodeId,
    /// Ephemeral messages of the hub and of others.
    queue: mpsc::Sender<BusMessage>,
    commits: Mutex<HashMap<WorkspaceId, Commits>>,
    has_commits: Notify,
    peers: Mutex<HashMap<NodeId, Peer>>,
    has_peers: AtomicBool,
    has_lost_node: AtomicBool,
    nats: Option<Nats>,
    /// LISTEN works.
    listens: AtomicBool,
    /// Something other than the log changed, and the poll should not wait.
    pub(super) revoked: Notify,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bus {
    /// Creates the bus, and the queue that `run` sends.
    ///
    /// # Errors
    /// If the credentials of NATS cannot be read.
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
            listens: AtomicBool::new(false),
            revoked: Notify::new(),
        };
        Ok((Arc::new(bus), receive))
    }

    /// The queue of ephemeral messages, for the hub.
    pub fn relay(&self) -> mpsc::Sender<BusMessage> {
        self.queue.clone()
    }

    /// Queues an ephemeral message; drops it if too many wait.
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

    /// Announces that events of a workspace were committed whose numbers are unknown: the other nodes poll.
    pub fn has_peers(&self) -> bool {
        self.has_peers.load(Ordering::Relaxed)
    }

    /// Checks once whether a node was lost since the last call.
    pub(super) fn has_lost_node(&self) -> bool {
        self.has_lost_node.swap(false, Ordering::Relaxed)
    }

    /// Checks whether another node is ready to take over the work of this one.
    pub fn has_ready_peer(&self) -> bool {
        let peers = lock(&self.peers);
        peers
            .values()
            .any(|peer| peer.node.state == NodeState::Ready)
    }

    /// Replaces the nodes that live besides this one.
    pub(super) fn set_peers(&self, live: Vec<LiveNode>) {
        let mut peers = lock(&self.peers);
        let mut before = std::mem::take(&mut *peers);
        for node in live {
            let heard = before
                .remove(&node.id)
                .and_then(|peer| peer.heard_over_nats);
            peers.insert(
                node.id,
                Peer {
                    node,
                    heard_over_nats: heard,
                },
            );
        }
        if !before.is_empty() {
            self.has_lost_node.store(true, Ordering::Relaxed);
        }
        self.has_peers.store(!peers.is_empty(), Ordering::Relaxed);
    }

    /// Checks whether another node is reached only over NOTIFY.
    fn needs_notify(&self) -> bool {
        let Some(nats) = &self.nats else { return true };
        !nats.is_connected()
            || lock(&self.peers).values().any(|peer| {
                peer.node.mode != Mode::Nats
                    || peer
                        .heard_over_nats
                        .is_none_or(|heard| heard.elapsed() > NATS_SILENCE_MAX)
            })
    }

    /// Subscribes rooms that are about to open.
    pub(super) async fn subscribe(self: &Arc<Self>, rooms: &[WorkspaceId]) {
        if let Some(nats) = &self.nats {
            nats.subscribe(rooms).await;
        }
    }

    /// Ends the subscriptions of all other rooms.
    pub(super) fn keep_subscribed(&self, rooms: &[WorkspaceId]) {
        if let Some(nats) = &self.nats {
            nats.keep_subscribed(rooms);
        }
    }

    /// State of the bus for `/readyz`: the mode, or `degraded` while only the poll, or NOTIFY in place of NATS, delivers.
    pub fn is_degraded(&self) -> bool {
        !self.listens.load(Ordering::Relaxed)
            || self.nats.as_ref().is_some_and(|nats| !nats.is_connected())
    }

    fn take_commits(&self) -> Vec<BusMessage> {
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

    fn note_heard(&self, node: NodeId, over: Mode) {
        if over == Mode::Nats
            && let Some(peer) = lock(&self.peers).get_mut(&node)
        {
            peer.heard_over_nats = Some(Instant::now());
        }
    }
}

/// Starts the bus: checks that LISTEN works, connects to NATS, and sends and receives until `shutdown`.
///
/// # Errors
/// If PostgreSQL does not deliver notifications, or NATS rejects the credentials.
pub async fn start(
    links: Links,
    receive: mpsc::Receiver<BusMessage>,
    shutdown: CancellationToken,
    tracker: &tokio_util::task::TaskTracker,
) -> Result<(), BusError> {
    let listener = notify::listen(&links).await?;
    if let Some(nats) = &links.bus.nats {
        nats.connect(links.clone(), shutdown.clone(), tracker.clone())
            .await?;
    }
    tracker.spawn(notify::receive(links.clone(), listener, shutdown.clone()));
    tracker.spawn(send_forever(links, receive, shutdown));
    Ok(())
}

#[derive(Debug, thiserror::Error)]
pub enum BusError {
    #[error(transparent)]
    Notify(#[from] NotifyError),
    #[error(transparent)]
    Nats(#[from] NatsError),
}

/// Deltas that wait for the next notification, joined by task.
#[derive(Default)]
struct HeldDeltas {
    by_task: HashMap<TaskId, RemoteDelta>,
    since: Option<Instant>,
}

impl HeldDeltas {
    /// Keeps a delta, and returns one that cannot be joined with it.
    fn hold(&mut self, delta: RemoteDelta) -> Option<RemoteDelta> {
        self.since.get_or_insert_with(Instant::now);
        match self.by_task.entry(delta.task) {
            Entry::Vacant(new) => {
                new.insert(delta);
                None
            }
            Entry::Occupied(mut held) => {
                let known = held.get_mut();
                let end = known.offset + known.text.encode_utf16().count();
                if known.attempt == delta.attempt && end == delta.offset {
                    known.text.push_str(&delta.text);
                    return None;
                }
                Some(std::mem::replace(known, delta))
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        self.since.map(|since| since + NOTIFY_DELTAS_EVERY)
    }

    fn take(&mut self) -> impl Iterator<Item = BusMessage> + use<> {
        self.since = None;
        let held = std::mem::take(&mut self.by_task);
        held.into_values().map(BusMessage::Delta)
    }
}

async fn send_forever(
    links: Links,
    mut receive: mpsc::Receiver<BusMessage>,
    shutdown: CancellationToken,
) {
    let bus = Arc::clone(&links.bus);
    let mut notifier = notify::Notifier::new(links.db.clone());
    let mut held = HeldDeltas::default();
    let mut beats = tokio::time::interval(if bus.nats.is_some() {
        NATS_HEARTBEAT
    } else {
        NOTIFY_HEARTBEAT
    });
    let mut notified_at = Instant::now();
    let mut waiting = Vec::new();
    loop {
        let deltas_due = held.due();
        let mut is_beat = false;
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = bus.has_commits.notified() => {}
            n = receive.recv_many(&mut waiting, 256) => if n == 0 { return },
            _ = beats.tick() => is_beat = true,
            () = tokio::time::sleep_until(deltas_due.unwrap_or_else(Instant::now).into()), if deltas_due.is_some() => {}
        }
        let mut messages = bus.take_commits();
        messages.append(&mut waiting);
        let beat = is_beat.then(|| BusMessage::Node {
            state: links.node.state(),
            sent_at_ms: now().unix_ms(),
        });
        if !bus.has_peers() {
            // Only signs of life.
            messages.clear();
            held.take().for_each(drop);
        }
        messages.extend(beat);
        let epoch = links.node.epoch();
        let needs_notify = bus.needs_notify();
        if let Some(nats) = bus.nats.as_ref().filter(|nats| nats.is_connected()) {
            nats.publish(bus.node, &epoch, &messages).await;
        }
        let is_notify_beat =
            is_beat && notified_at.elapsed() + Duration::from_secs(1) >= NOTIFY_HEARTBEAT;
        if is_notify_beat {
            notified_at = Instant::now();
        }
        let mut notifications = Vec::new();
        for message in messages {
            match message {
                BusMessage::Node { .. } if !is_notify_beat => {}
                BusMessage::Node { .. } => notifications.push(message),
                _ if !needs_notify => {}
                BusMessage::Delta(delta) => {
                    notifications.extend(held.hold(delta).map(BusMessage::Delta));
                }
                BusMessage::Log {
                    workspace,
                    first,
                    last,
                    ..
                } => notifications.push(BusMessage::Log {
                    workspace,
                    first,
                    last,
                    events: Vec::new(),
                }),
                message => notifications.push(message),
            }
        }
        if held.due().is_some_and(|due| due <= Instant::now()) {
            notifications.extend(held.take());
        }
        if notifications.is_empty() {
            continue;
        }
        for message in &notifications {
            metrics::counter!("openvibe_bus_messages_total", "direction" => "out", "type" => message.label()).increment(1);
        }
        for packet in wire::pack(bus.node, &epoch, notifications, NOTIFICATION_BYTES_MAX) {
            let sent = tokio::time::timeout(SEND_WITHIN, notifier.send(packet)).await;
            if !matches!(sent, Ok(Ok(()))) {
                metrics::counter!("openvibe_bus_dropped_total").increment(1);
                notifier.reset();
            }
        }
    }
}

/// Handles a packet of another node.
fn handle(links: &Links, text: &str, over: Mode) {
    let Some(parsed) = wire::parse(text) else {
        metrics::counter!("openvibe_bus_messages_total", "direction" => "in", "type" => "unknown")
            .increment(1);
        return;
    };
    if parsed.node == links.node.id {
        return;
    }
    links.bus.note_heard(parsed.node, over);
    if parsed.unknown > 0 {
        metrics::counter!("openvibe_bus_messages_total", "direction" => "in", "type" => "unknown")
            .increment(parsed.unknown);
    }
    if parsed.epoch != links.node.epoch() {
        // The poll reads the epoch first.
        links.bus.revoked.notify_one();
        return;
    }
    for message in parsed.messages {
        metrics::counter!("openvibe_bus_messages_total", "direction" => "in", "type" => message.label()).increment(1);
        match &message {
            BusMessage::Wake => links.queue.wake.notify_one(),
            BusMessage::Stop { task, .. } => links.queue.stop(*task),
            BusMessage::Revoke => links.bus.revoked.notify_one(),
            BusMessage::Node { sent_at_ms, .. } => {
                let late_ms = now().unix_ms() - sent_at_ms;
                if let Ok(late_ms) = u64::try_from(late_ms) {
                    links
                        .node
                        .figures
                        .note_bus_delay(Duration::from_millis(late_ms));
                }
            }
            _ => {}
        }
        links.hub.receive(&Received {
            node: parsed.node,
            message,
        });
    }
}
