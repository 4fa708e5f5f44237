//! Core NATS, as a faster bus that also carries events. While it is unavailable, NOTIFY is used.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::{Client, ConnectOptions, Event, connection::State};
use futures::StreamExt;
use tokio::{sync::watch, task::AbortHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::wire;
use crate::{
    config::NatsConfig,
    ids::{NodeId, WorkspaceId},
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

#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    #[error("NATS rejected the credentials in OPENVIBE_NATS_URL: correct them")]
    Rejected,
    #[error("OPENVIBE_NATS_URL: {0}")]
    Url(String),
    #[error("OPENVIBE_NATS_CREDENTIALS: {0}")]
    Credentials(String),
}

/// Callbacks for messages from NATS, and for changes in the connection.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) on_packet: Arc<dyn Fn(&str) + Send + Sync>,
    /// Called when messages may have been lost, because the connection was opened or lost, or because this process reads too slowly.
    /// The argument is true if the connection is open.
    pub(super) on_change: Arc<dyn Fn(bool) + Send + Sync>,
}

/// The connection to NATS.
pub(super) struct Nats {
    config: NatsConfig,
    client: OnceLock<Connected>,
    is_up: Arc<AtomicBool>,
}

struct Connected {
    client: Client,
    /// Prefix of all subjects: `ov1.CLUSTER`.
    prefix: String,
    handler: Handler,
    rooms: Mutex<HashMap<WorkspaceId, AbortHandle>>,
    tracker: TaskTracker,
    shutdown: CancellationToken,
}

impl Nats {
    pub(super) fn new(config: NatsConfig) -> Result<Self, NatsError> {
        parse(&config.urls.0)?;
        Ok(Self {
            config,
            client: OnceLock::new(),
            is_up: Arc::default(),
        })
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
        name: &str,
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
            .name(format!("openvibe {name}"))
            .ping_interval(PING_EVERY)
            .retry_on_initial_connect()
            .event_callback(events);
        if let Some(path) = &self.config.credentials {
            options = options
                .credentials_file(path)
                .await
                .map_err(|e| NatsError::Credentials(e.to_string()))?;
        }
        let servers = parse(&self.config.urls.0)?;
        let client = options
            .connect(servers)
            .await
            .map_err(|e| NatsError::Url(e.to_string()))?;
        let settled = tokio::time::timeout(CONNECT_WITHIN, settled.wait_for(Option::is_some));
        if matches!(settled.await, Ok(Ok(is_accepted)) if *is_accepted == Some(false)) {
            return Err(NatsError::Rejected);
        }
        let prefix = format!("ov1.{cluster}");
        let all = client
            .subscribe(format!("{prefix}.all"))
            .await
            .map_err(|e| NatsError::Url(e.to_string()))?;
        tracker.spawn(receive(handler.clone(), all, shutdown.clone()));
        let connected = Connected {
            client,
            prefix,
            handler,
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
            let subject = match message.workspace() {
                Some(workspace) => format!("{}.w.{}", connected.prefix, workspace.0.simple()),
                None => format!("{}.all", connected.prefix),
            };
            metrics::counter!("openvibe_bus_messages_total", "direction" => "out", "type" => message.label()).increment(1);
            for packet in wire::pack(node, epoch, vec![message.clone()], MESSAGE_BYTES_MAX) {
                let sent = connected.client.publish(subject.clone(), packet.into());
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
            let subject = format!("{}.w.{}", connected.prefix, room.0.simple());
            let subscribed = connected.client.subscribe(subject);
            let Ok(Ok(subscriber)) = tokio::time::timeout(SUBSCRIBE_WITHIN, subscribed).await
            else {
                return;
            };
            let handler = connected.handler.clone();
            let shutdown = connected.shutdown.clone();
            let task = connected
                .tracker
                .spawn(receive(handler, subscriber, shutdown));
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

fn parse(urls: &str) -> Result<Vec<async_nats::ServerAddr>, NatsError> {
    urls.split(',')
        .map(str::trim)
        .map(|url| {
            let is_known = url.starts_with("nats://") || url.starts_with("tls://");
            let parsed = url.parse().ok().filter(|_| is_known);
            // The error omits the URL, which can contain a password.
            parsed.ok_or_else(|| {
                NatsError::Url(
                    "each address must be nats://HOST:PORT or tls://HOST:PORT".to_owned(),
                )
            })
        })
        .collect()
}

async fn receive(
    handler: Handler,
    mut subscriber: async_nats::Subscriber,
    shutdown: CancellationToken,
) {
    loop {
        let message = tokio::select! {
            () = shutdown.cancelled() => return,
            message = subscriber.next() => message,
        };
        let Some(message) = message else { return };
        if let Ok(text) = std::str::from_utf8(&message.payload) {
            (handler.on_packet)(text);
        }
    }
}
