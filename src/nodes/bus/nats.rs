//! Core NATS, as a faster bus that also carries events. While it is unavailable, NOTIFY is used.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_nats::{Client, ConnectOptions, Event, connection::State};
use futures::StreamExt;
use tokio::{sync::watch, task::AbortHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    address::{Addresses, NatsError},
    seal::{BusKeys, OVERHEAD_BYTES, Rejection, Sealer, Senders, Subject},
    wire,
};
use crate::{
    config::NatsConfig,
    ids::{NodeId, WorkspaceId},
    nodes::{node::Node, row::LiveNode},
    realtime::BusMessage,
};

/// Maximum size of a message.
const MESSAGE_BYTES_MAX: usize = 256 * 1024;
const PING_EVERY: Duration = Duration::from_secs(5);
const PUBLISH_WITHIN: Duration = Duration::from_millis(100);
/// Maximum time that a starting node waits for NATS; after that, it starts without NATS.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Maximum time for passing a subscription to the NATS client, and for flushing all of them.
const SUBSCRIBE_WITHIN: Duration = Duration::from_secs(1);

/// Callbacks for messages from NATS, and for changes in the connection.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) on_packet: Arc<dyn Fn(&str) + Send + Sync>,
    /// Called for packets that are not read.
    pub(super) on_rejected: Arc<dyn Fn(Rejection) + Send + Sync>,
    /// Called when messages may have been lost, because the connection was opened or lost, or because this process reads too slowly.
    /// The argument is true if the connection is open.
    pub(super) on_change: Arc<dyn Fn(bool) + Send + Sync>,
}

/// The connection to NATS.
pub(super) struct Nats {
    config: NatsConfig,
    addresses: Addresses,
    client: OnceLock<Connected>,
    is_up: Arc<AtomicBool>,
    senders: Arc<Senders>,
    /// Number of packets that this process has sealed.
    sent: AtomicU64,
}

struct Connected {
    client: Client,
    /// Random ID of the nodes that share this database, which is part of all subjects.
    cluster: String,
    sealer: Sealer,
    inbox: Inbox,
    rooms: Mutex<HashMap<WorkspaceId, AbortHandle>>,
    tracker: TaskTracker,
    shutdown: CancellationToken,
}

impl Nats {
    pub(super) fn new(config: NatsConfig) -> Result<Self, NatsError> {
        Ok(Self {
            addresses: Addresses::parse(&config.urls.0)?,
            config,
            client: OnceLock::new(),
            is_up: Arc::default(),
            senders: Arc::default(),
            sent: AtomicU64::new(0),
        })
    }

    /// Host and port of a server on another machine to which this node connects without credentials.
    pub(super) fn open_host(&self) -> Option<String> {
        let host = self.addresses.open_host();
        host.filter(|_| self.config.credentials.is_none())
    }

    /// Replaces the list of other live nodes, whose packets are read.
    pub(super) fn set_senders(&self, live: &[LiveNode]) {
        self.senders.set(live);
    }

    /// Number of packets that this process has sealed.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(super) fn is_connected(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
            && self
                .client
                .get()
                .is_some_and(|c| c.client.connection_state() == State::Connected)
    }

    /// Connects in the background; retries if the server is unavailable.
    pub(super) async fn connect(
        &self,
        node: &Node,
        cluster: &str,
        handler: Handler,
        shutdown: CancellationToken,
        tracker: TaskTracker,
    ) -> Result<(), NatsError> {
        let (first, mut settled) = watch::channel(None);
        let is_up = Arc::clone(&self.is_up);
        let on_change = Arc::clone(&handler.on_change);
        let events = move |event: Event| {
            match event {
                Event::Connected => {
                    set_up(&is_up, &on_change, true);
                    first.send_replace(Some(true));
                }
                Event::Disconnected | Event::Closed => set_up(&is_up, &on_change, false),
                Event::SlowConsumer(_) => {
                    metrics::counter!("openvibe_log_gaps_total", "cause" => "slow_consumer")
                        .increment(1);
                    on_change(is_up.load(Ordering::Relaxed));
                }
                Event::ClientError(e) => note_error(&first, &e.to_string()),
                Event::ServerError(e) => note_error(&first, &e.to_string()),
                _ => {}
            }
            std::future::ready(())
        };
        let mut options = ConnectOptions::new()
            .name(format!("openvibe {}", node.name))
            .no_echo()
            .ping_interval(PING_EVERY)
            .retry_on_initial_connect()
            .event_callback(events);
        if let Some(path) = &self.config.credentials {
            options = options
                .credentials_file(path)
                .await
                .map_err(|e| NatsError::Credentials(e.to_string()))?;
        }
        let client = self
            .addresses
            .sign_in(options)
            .connect(self.addresses.servers.clone())
            .await
            .map_err(|e| NatsError::Url(e.to_string()))?;
        let settled = tokio::time::timeout(CONNECT_WITHIN, settled.wait_for(Option::is_some));
        if matches!(settled.await, Ok(Ok(is_accepted)) if *is_accepted == Some(false)) {
            return Err(NatsError::Rejected);
        }
        let keys = BusKeys::new(&self.config.keys, cluster);
        let no_key = || NatsError::Url("OPENVIBE_SECRET_KEY is not set".to_owned());
        let sealer = Sealer::new(&keys, node.id, node.incarnation).ok_or_else(no_key)?;
        let inbox = Inbox {
            keys: Arc::new(keys),
            senders: Arc::clone(&self.senders),
            handler,
        };
        let all = Subject::new(cluster, None);
        let subscriber = client
            .subscribe(all.name.clone())
            .await
            .map_err(|e| NatsError::Url(e.to_string()))?;
        tracker.spawn(receive(inbox.clone(), all, subscriber, shutdown.clone()));
        let connected = Connected {
            client,
            cluster: cluster.to_owned(),
            sealer,
            inbox,
            rooms: Mutex::default(),
            tracker,
            shutdown,
        };
        // Set once: `connect` is called at startup only.
        drop(self.client.set(connected));
        Ok(())
    }

    /// Publishes messages on the subjects of their workspaces.
    pub(super) async fn publish(&self, node: NodeId, epoch: &str, messages: &[BusMessage]) {
        let Some(connected) = self.client.get() else {
            return;
        };
        for message in messages {
            let subject = Subject::new(&connected.cluster, message.workspace());
            metrics::counter!("openvibe_bus_messages_total", "direction" => "out", "type" => message.label()).increment(1);
            let bytes_max = MESSAGE_BYTES_MAX - OVERHEAD_BYTES;
            for packet in wire::pack(node, epoch, vec![message.clone()], bytes_max) {
                let Some(packet) = connected.sealer.seal(&self.sent, &subject, &packet) else {
                    continue;
                };
                let sent = connected
                    .client
                    .publish(subject.name.clone(), packet.into());
                if !matches!(tokio::time::timeout(PUBLISH_WITHIN, sent).await, Ok(Ok(()))) {
                    // Further messages would probably time out too.
                    metrics::counter!("openvibe_bus_dropped_total").increment(1);
                    return;
                }
            }
        }
    }

    /// Subscribes to the subjects of rooms that are not subscribed yet. Does nothing while NATS is unavailable, because the client
    /// would queue only a limited number of requests; the next poll tries again. The poll also finds events that are committed before
    /// the NATS server handles the request.
    pub(super) async fn subscribe(&self, rooms: &[WorkspaceId]) {
        let Some(connected) = self.client.get().filter(|_| self.is_connected()) else {
            return;
        };
        for room in rooms {
            if connected.rooms().contains_key(room) {
                continue;
            }
            let subject = Subject::new(&connected.cluster, Some(*room));
            let subscribed = connected.client.subscribe(subject.name.clone());
            let Ok(Ok(subscriber)) = tokio::time::timeout(SUBSCRIBE_WITHIN, subscribed).await
            else {
                return;
            };
            let inbox = connected.inbox.clone();
            let shutdown = connected.shutdown.clone();
            let task = connected
                .tracker
                .spawn(receive(inbox, subject, subscriber, shutdown));
            connected.rooms().insert(*room, task.abort_handle());
        }
        drop(tokio::time::timeout(SUBSCRIBE_WITHIN, connected.client.flush()).await);
    }

    pub(super) fn keep_subscribed(&self, is_open: impl Fn(WorkspaceId) -> bool) {
        let Some(connected) = self.client.get() else {
            return;
        };
        connected.rooms().retain(|room, task| {
            // Checked here, because a room may have opened since the caller read the list.
            let keeps = is_open(*room);
            if !keeps {
                // Dropping the subscriber unsubscribes.
                task.abort();
            }
            keeps
        });
    }
}

impl Connected {
    fn rooms(&self) -> std::sync::MutexGuard<'_, HashMap<WorkspaceId, AbortHandle>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn set_up(is_up: &AtomicBool, on_change: &Arc<dyn Fn(bool) + Send + Sync>, up: bool) {
    if is_up.swap(up, Ordering::Relaxed) == up {
        return;
    }
    metrics::gauge!("openvibe_bus_up", "bus" => "nats").set(if up { 1.0 } else { 0.0 });
    if up {
        tracing::info!("connected to NATS");
    } else {
        tracing::warn!("NATS is unavailable; using PostgreSQL NOTIFY");
    }
    on_change(up);
}

/// Logs an error. If NATS rejected the credentials, startup fails as well.
fn note_error(first: &watch::Sender<Option<bool>>, text: &str) {
    tracing::warn!(error = text, "NATS reported an error");
    if text.to_lowercase().contains("authorization") {
        first.send_replace(Some(false));
    }
}

/// Opens the packets of other nodes.
#[derive(Clone)]
struct Inbox {
    keys: Arc<BusKeys>,
    senders: Arc<Senders>,
    handler: Handler,
}

async fn receive(
    inbox: Inbox,
    subject: Subject,
    mut subscriber: async_nats::Subscriber,
    shutdown: CancellationToken,
) {
    loop {
        let message = tokio::select! {
            () = shutdown.cancelled() => return,
            message = subscriber.next() => message,
        };
        let Some(message) = message else { return };
        match inbox.senders.open(&inbox.keys, &subject, &message.payload) {
            Ok(text) => (inbox.handler.on_packet)(&text),
            Err(rejection) => (inbox.handler.on_rejected)(rejection),
        }
    }
}
