//! Packets over NATS that are not read: a metric for all of them, and a line in the log once a minute.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::seal::Rejection;

/// Minimum interval between two lines in the log.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// Names of the live nodes whose packets this node cannot open, because they have another key or an older version.
pub(super) struct Unread(pub(super) Vec<String>);

#[derive(Default)]
pub(super) struct Rejections(Mutex<Recent>);

#[derive(Default)]
struct Recent {
    /// Number of packets since the last line in the log.
    count: u64,
    logged_at: Option<Instant>,
}

impl Rejections {
    /// Counts a rejected packet.
    pub(super) fn add(&self, rejection: Rejection, unread: impl FnOnce() -> Unread) {
        let reason = rejection.label();
        metrics::counter!("openvibe_bus_rejected_total", "reason" => reason).increment(1);
        if matches!(rejection, Rejection::UnknownNode { .. }) {
            // Normal when nodes start and end.
            return;
        }
        let count = {
            let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            recent.count += 1;
            if recent
                .logged_at
                .is_some_and(|at| at.elapsed() < LOGGED_EVERY)
            {
                return;
            }
            recent.logged_at = Some(Instant::now());
            std::mem::take(&mut recent.count)
        };
        let Unread(nodes) = unread();
        if nodes.is_empty() {
            tracing::warn!(
                count,
                reason,
                "rejected packets over NATS that no known node sent: unless a node is just starting, check who has access to NATS"
            );
        } else {
            tracing::warn!(
                count,
                reason,
                nodes = nodes.join(", "),
                "rejected packets over NATS: these nodes have another OPENVIBE_SECRET_KEY or an older version; their events arrive \
                 over PostgreSQL"
            );
        }
    }
}
