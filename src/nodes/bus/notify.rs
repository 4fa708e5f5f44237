//! Bus over LISTEN and NOTIFY in `PostgreSQL`.

use std::time::{Duration, Instant};

use sqlx::{Postgres, pool::PoolConnection, postgres::PgListener};
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::receive::handle;
use crate::{
    db::{Db, DbError},
    nodes::{links::Links, mode::Mode},
};

const CHANNEL: &str = "ov1";
/// Maximum time for which this process waits for its own notification.
const HEARD_WITHIN: Duration = Duration::from_secs(5);
/// Time without a notification from this process after which the connection is replaced. The process notifies itself every 5 s.
const SILENCE_MAX: Duration = Duration::from_secs(12);
/// Maximum time for sending one notification.
const SEND_WITHIN: Duration = Duration::from_secs(5);
const CONNECT_AGAIN: Duration = Duration::from_secs(1);
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    #[error(
        "LISTEN does not work through this address: connect directly, or use a pooler in session mode"
    )]
    Unheard,
    #[error(transparent)]
    Db(#[from] DbError),
}

/// Sends notifications until `shutdown`.
pub(super) async fn send(db: Db, mut packets: mpsc::Receiver<String>, shutdown: CancellationToken) {
    let mut notifier = Notifier::new(db);
    while let Some(Some(packet)) = shutdown.run_until_cancelled(packets.recv()).await {
        let sent = tokio::time::timeout(SEND_WITHIN, notifier.send(packet)).await;
        if !matches!(sent, Ok(Ok(()))) {
            metrics::counter!("openvibe_bus_dropped_total").increment(1);
            notifier.reset();
        }
    }
}

/// Sends notifications one at a time, over a dedicated connection.
struct Notifier {
    db: Db,
    c: Option<PoolConnection<Postgres>>,
}

impl Notifier {
    fn new(db: Db) -> Self {
        Self { db, c: None }
    }

    async fn send(&mut self, packet: String) -> Result<(), DbError> {
        let c = match &mut self.c {
            Some(c) => c,
            none => none.insert(self.db.bus_connection().await?),
        };
        sqlx::query("select pg_notify($1, $2)")
            .bind(CHANNEL)
            .bind(packet)
            .execute(&mut **c)
            .await?;
        Ok(())
    }

    /// Closes the connection after a notification fails or times out.
    fn reset(&mut self) {
        if let Some(c) = self.c.take() {
            drop(c.detach());
        }
    }
}

async fn connect(db: &Db) -> Result<PgListener, DbError> {
    let mut listener = db.bus_listener().await?;
    listener.ignore_pool_close_event(true);
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

/// Starts listening, and checks that this process receives its own notifications.
pub(super) async fn listen(links: &Links) -> Result<PgListener, NotifyError> {
    let mut listener = connect(&links.db).await?;
    let mut notifier = Notifier::new(links.db.clone());
    let probe = uuid::Uuid::now_v7().simple().to_string();
    notifier.send(probe.clone()).await?;
    let heard = async {
        loop {
            let heard = listener.recv().await.map_err(DbError::from)?;
            if heard.payload() == probe {
                return Ok::<_, NotifyError>(());
            }
        }
    };
    tokio::time::timeout(HEARD_WITHIN, heard)
        .await
        .map_err(|_| NotifyError::Unheard)??;
    links.bus.listens.store(true, Ordering::Relaxed);
    metrics::gauge!("openvibe_bus_up", "bus" => "notify").set(1.0);
    Ok(listener)
}

/// Receives notifications until `shutdown`, and replaces a connection that fails or is silent.
pub(super) async fn receive(links: Links, listener: PgListener, shutdown: CancellationToken) {
    let mut current = Some(listener);
    while !shutdown.is_cancelled() {
        let Some(listener) = &mut current else {
            let connected = tokio::select! {
                () = shutdown.cancelled() => return,
                connected = tokio::time::timeout(CONNECT_WITHIN, connect(&links.db)) => connected,
            };
            if let Ok(Ok(listener)) = connected {
                current = Some(listener);
                set_listens(&links, true);
                links.hub.mark_all_stale();
            } else {
                tokio::time::sleep(CONNECT_AGAIN).await;
            }
            continue;
        };
        let lost = tokio::select! {
            () = shutdown.cancelled() => return,
            lost = hear(&links, listener) => lost,
        };
        tracing::warn!(
            cause = lost,
            "PostgreSQL notifications stopped; listening again"
        );
        set_listens(&links, false);
        current = None;
        links.hub.mark_all_stale();
    }
}

fn set_listens(links: &Links, listens: bool) {
    links.bus.listens.store(listens, Ordering::Relaxed);
    metrics::gauge!("openvibe_bus_up", "bus" => "notify").set(if listens { 1.0 } else { 0.0 });
}

/// Handles notifications until the connection is lost; returns the cause.
async fn hear(links: &Links, listener: &mut PgListener) -> &'static str {
    let mut heard_self = Instant::now();
    let own = links.node.id.to_string();
    loop {
        let left = SILENCE_MAX.saturating_sub(heard_self.elapsed());
        match tokio::time::timeout(left, listener.try_recv()).await {
            Ok(Ok(Some(notification))) => {
                if notification.payload().contains(&own) {
                    heard_self = Instant::now();
                }
                handle(links, notification.payload(), Mode::Notify);
            }
            Ok(Ok(None) | Err(_)) => return "the connection was lost",
            Err(_) => return "silence",
        }
    }
}
