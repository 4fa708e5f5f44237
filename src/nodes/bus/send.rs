//! Starts the bus, and sends queued messages. A separate task sends them, so that a commit never waits for the bus.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    address::NatsError,
    deltas::HeldDeltas,
    nats::Handler,
    notify::{self, NotifyError},
    receive::handle,
    wire,
};
use crate::{
    db::{DbError, now},
    ids::NodeId,
    nodes::{links::Links, mode::Mode, row},
    realtime::BusMessage,
};

/// Maximum size of a notification in bytes; `PostgreSQL`'s limit is 8,000.
const NOTIFICATION_BYTES_MAX: usize = 7900;
/// Interval of heartbeats over NATS.
const NATS_HEARTBEAT: Duration = Duration::from_secs(2);
const NOTIFY_HEARTBEAT: Duration = Duration::from_secs(5);
/// Maximum number of notifications that wait for `PostgreSQL`; additional ones are dropped. Messages over NATS do not wait for them.
const PACKETS_MAX: usize = 64;

/// Starts the bus: checks that LISTEN works, connects to NATS, and sends and receives until `shutdown`.
///
/// # Errors
/// If `PostgreSQL` does not deliver notifications, or NATS rejects the credentials.
pub async fn start(
    links: Links,
    receive: mpsc::Receiver<BusMessage>,
    shutdown: CancellationToken,
    tracker: &tokio_util::task::TaskTracker,
) -> Result<(), BusError> {
    let listener = notify::listen(&links).await?;
    if let Some(nats) = &links.bus.nats {
        let cluster = row::cluster(&links.db).await?;
        if let Some(host) = nats.open_host() {
            tracing::warn!(
                "Anyone who reaches NATS at {host} can see which workspaces are active and delay messages between nodes, but not read \
                 or forge them: set a user and password in OPENVIBE_NATS_URL"
            );
        }
        let handler = Handler {
            on_packet: Arc::new({
                let links = links.clone();
                move |text: &str| handle(&links, text, Mode::Nats)
            }),
            on_rejected: Arc::new({
                let bus = Arc::clone(&links.bus);
                move |rejection| bus.reject(rejection)
            }),
            on_change: Arc::new({
                let hub = Arc::clone(&links.hub);
                move |is_up| {
                    hub.set_carries_events(is_up);
                    hub.mark_all_stale();
                }
            }),
        };
        nats.connect(
            &links.node,
            &cluster,
            handler,
            shutdown.clone(),
            tracker.clone(),
        )
        .await?;
    }
    tracker.spawn(notify::receive(links.clone(), listener, shutdown.clone()));
    let (packets, notifying) = mpsc::channel(PACKETS_MAX);
    tracker.spawn(notify::send(links.db.clone(), notifying, shutdown.clone()));
    tracker.spawn(send_forever(links, receive, packets, shutdown));
    Ok(())
}

#[derive(Debug, thiserror::Error)]
pub enum BusError {
    #[error(transparent)]
    Notify(#[from] NotifyError),
    #[error(transparent)]
    Nats(#[from] NatsError),
    #[error(transparent)]
    Db(#[from] DbError),
}

async fn send_forever(
    links: Links,
    mut receive: mpsc::Receiver<BusMessage>,
    packets: mpsc::Sender<String>,
    shutdown: CancellationToken,
) {
    let bus = Arc::clone(&links.bus);
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
            // Without other nodes, only heartbeats are sent.
            messages.clear();
            held.take().for_each(drop);
        }
        messages.extend(beat);
        let epoch = links.epoch();
        let needs_notify = bus.needs_notify();
        if let Some(nats) = bus.nats.as_ref().filter(|nats| nats.is_connected()) {
            nats.publish(bus.node, &epoch, &messages).await;
        }
        let is_notify_beat =
            is_beat && notified_at.elapsed() + Duration::from_secs(1) >= NOTIFY_HEARTBEAT;
        if is_notify_beat {
            notified_at = Instant::now();
        }
        let kept = Kept {
            is_beat: is_notify_beat,
            is_needed: needs_notify,
        };
        let notifications = notifications(messages, &mut held, kept);
        if notifications.is_empty() {
            continue;
        }
        notify_peers(&packets, bus.node, &epoch, notifications);
    }
}

/// Kinds of messages that are sent as database notifications.
#[derive(Clone, Copy)]
struct Kept {
    is_beat: bool,
    /// True if messages other than heartbeats must be sent over NOTIFY too.
    is_needed: bool,
}

/// Converts messages to notifications. Events are removed from log messages, and deltas are included only after they have been held
/// back long enough.
fn notifications(messages: Vec<BusMessage>, held: &mut HeldDeltas, kept: Kept) -> Vec<BusMessage> {
    let mut notifications = Vec::new();
    for message in messages {
        match message {
            BusMessage::Node { .. } if !kept.is_beat => {}
            BusMessage::Node { .. } => notifications.push(message),
            _ if !kept.is_needed => {}
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
    notifications
}

fn notify_peers(
    packets: &mpsc::Sender<String>,
    node: NodeId,
    epoch: &str,
    notifications: Vec<BusMessage>,
) {
    for message in &notifications {
        metrics::counter!("openvibe_bus_messages_total", "direction" => "out", "type" => message.label()).increment(1);
    }
    for packet in wire::pack(node, epoch, notifications, NOTIFICATION_BYTES_MAX) {
        if packets.try_send(packet).is_err() {
            metrics::counter!("openvibe_bus_dropped_total").increment(1);
        }
    }
}
