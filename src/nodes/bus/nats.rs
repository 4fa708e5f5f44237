//! Core NATS, as a faster bus that also carries events. While it is unavailable, NOTIFY is used.

use std::{
    collections::HashMap,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::{Client, ConnectOptions, Event, connection::State};
use futures::StreamExt;
use tokio::task::AbortHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Links, Mode, NATS_BYTES_MAX, handle, wire};
use crate::{
    config::NatsConfig,
    ids::{NodeId, WorkspaceId},
    realtime::BusMessage,
};

const PING_EVERY: Duration = Duration::from_secs(5);
const PUBLISH_WITHIN: Duration = Duration::from_millis(100);
/// Time that a new node waits for NATS; it starts without it.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Time to wait for the server to confirm a subscription.
const SUBSCRIBE_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    #[error("NATS rejected the credentials in OPENVIBE_NATS_URL: correct them")]
    Rejected,
    #[error("OPENVIBE_NATS_URL: {0}")]
    Url(String),
    #[error("OPENVIBE_NATS_CREDENTIALS: {0}")]
    Credentials(String),
    #[error(transparent)]
    Db(#[from] crate::db::DbError),
}

/// The connection to NATS.
pub(super) struct Nats {
    config: NatsConfig,
    client: OnceLock<Connected>,
    is_up: std::sync::Arc<AtomicBool>,
}

struct Connected {
    client: Client,
    /// Prefix of all subjects: `ov1.CLUSTER`.
    prefix: String,
    links: Links,
    rooms: Mutex<HashMap<WorkspaceId, AbortHandle>>,
    tracker: TaskTracker,
}

impl Nats {
    pub(super) fn new(config: NatsConfig) -> Result<Self, NatsError> {
        parse(&config.urls.0)?;
        Ok(Self {
            config,
            client: OnceLock::new(),
            is_up: std::sync::Arc::default(),
        })
    }

    pub(super) fn is_connected(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
            && self
                .client
                .get()
                .is_some_and(|c| c.client.connection_state() == State::Connected)
    }

    /// Connects in the background; a server that is unavailable is tried again.
    pub(super) async fn connect(
        &self,
        links: Links,
        shutdown: CancellationToken,
        tracker: TaskTracker,
    ) -> Result<(), NatsError> {
        let cluster = super::super::row::cluster(&links.db).await?;
        let is_up = std::sync::Arc::clone(&self.is_up);
        let (first_send, first) = tokio::sync::watch::channel(None);
        let events = {
            let (links, is_up) = (links.clone(), std::sync::Arc::clone(&is_up));
            move |event: Event| {
                let (links, is_up) = (links.clone(), std::sync::Arc::clone(&is_up));
                let first = first_send.clone();
                async move {
                    match event {
                        Event::Connected => {
                            set_up(&links, &is_up, true);
                            first.send_replace(Some(true));
                        }
                        Event::Disconnected | Event::Closed => set_up(&links, &is_up, false),
                        Event::ClientError(e) => {
                            tracing::warn!(error = %e, "NATS reported an error");
                            if e.to_string().to_lowercase().contains("authorization") {
                                first.send_replace(Some(false));
                            }
                        }
                        Event::ServerError(e) => {
                            tracing::warn!(error = %e, "NATS reported an error");
                            if e.to_string().to_lowercase().contains("authorization") {
                                first.send_replace(Some(false));
                            }
                        }
                        Event::SlowConsumer(_) => {
                            metrics::counter!("openvibe_log_gaps_total", "cause" => "slow_consumer").increment(1);
                            links.hub.mark_all_stale();
                        }
                        _ => {}
                    }
                }
            }
        };
        let mut options = ConnectOptions::new()
            .name(format!("openvibe {}", links.node.name))
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
        let mut first = first;
        let settled = first.wait_for(Option::is_some);
        let settled = tokio::time::timeout(CONNECT_WITHIN, settled).await;
        if matches!(settled, Ok(Ok(ok)) if *ok == Some(false)) {
            return Err(NatsError::Rejected);
        }
        let prefix = format!("ov1.{cluster}");
        let all = client
            .subscribe(format!("{prefix}.all"))
            .await
            .map_err(|e| NatsError::Url(e.to_string()))?;
        tracker.spawn(receive(links.clone(), all, shutdown));
        let connected = Connected {
            client,
            prefix,
            links,
            rooms: Mutex::default(),
            tracker,
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
            for packet in wire::pack(node, epoch, vec![message.clone()], NATS_BYTES_MAX) {
                let sent = connected.client.publish(subject.clone(), packet.into());
                if !matches!(tokio::time::timeout(PUBLISH_WITHIN, sent).await, Ok(Ok(()))) {
                    metrics::counter!("openvibe_bus_dropped_total").increment(1);
                }
            }
        }
    }

    /// Subscribes the subjects of rooms, and waits until the server has confirmed it.
    pub(super) async fn subscribe(&self, rooms: &[WorkspaceId]) {
        let Some(connected) = self.client.get() else {
            return;
        };
        for room in rooms {
            if connected.rooms().contains_key(room) {
                continue;
            }
            let subject = format!("{}.w.{}", connected.prefix, room.0.simple());
            let Ok(subscriber) = connected.client.subscribe(subject).await else {
                continue;
            };
            let links = connected.links.clone();
            let task =
                connected
                    .tracker
                    .spawn(receive(links, subscriber, CancellationToken::new()));
            connected.rooms().insert(*room, task.abort_handle());
        }
        if self.is_connected() {
            // The server handles frames of a connection in order.
            drop(tokio::time::timeout(SUBSCRIBE_WITHIN, connected.client.flush()).await);
        }
    }

    pub(super) fn keep_subscribed(&self, rooms: &[WorkspaceId]) {
        let Some(connected) = self.client.get() else {
            return;
        };
        connected.rooms().retain(|room, task| {
            let keeps = rooms.binary_search(room).is_ok();
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

fn set_up(links: &Links, is_up: &AtomicBool, up: bool) {
    if is_up.swap(up, Ordering::Relaxed) == up {
        return;
    }
    metrics::gauge!("openvibe_bus_up", "bus" => "nats").set(if up { 1.0 } else { 0.0 });
    links.hub.set_carries_events(up);
    if up {
        tracing::info!("connected to NATS");
    } else {
        tracing::warn!("NATS is unavailable; using NOTIFY of PostgreSQL");
    }
    links.hub.mark_all_stale();
}

fn parse(urls: &str) -> Result<Vec<async_nats::ServerAddr>, NatsError> {
    urls.split(',')
        .map(str::trim)
        .map(|url| {
            let is_known = url.starts_with("nats://") || url.starts_with("tls://");
            let parsed = url.parse().ok().filter(|_| is_known);
            // Without the URL, which can contain a password.
            parsed.ok_or_else(|| {
                NatsError::Url(
                    "each address must be nats://HOST:PORT or tls://HOST:PORT".to_owned(),
                )
            })
        })
        .collect()
}

async fn receive(
    links: Links,
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
            handle(&links, text, Mode::Nats);
        }
    }
}
