//! Figures of a node for the Nodes page.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{db::now, time::Timestamp};

/// Weight of the newest measurement in the mean bus delay.
const NEWEST_WEIGHT: f64 = 0.2;

/// Figures of a node at the last renewal of its lease.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Figures {
    pub(super) sockets: usize,
    pub(super) tasks: usize,
    pub(super) queued_writes: usize,
    /// Mean delay of recent messages from other nodes in milliseconds; `None` if none have been received.
    pub(super) bus_delay_ms: Option<f64>,
    /// Time at which events last had to be read from the log because the bus did not deliver them.
    pub(super) last_gap_at: Option<Timestamp>,
    /// Clock of this machine minus the database clock, in milliseconds.
    pub(super) clock_skew_ms: i64,
    pub(super) epoch: String,
    /// Number of packets that the node has sent over NATS since its start.
    pub(super) bus_sent: u64,
    /// Host and port of a NATS server on another machine that the node uses without credentials.
    pub(super) open_nats: Option<String>,
}

/// Values that are measured while the node runs.
#[derive(Default)]
pub(super) struct Measured {
    bus_delay_us: AtomicU64,
    clock_skew_ms: AtomicI64,
    last_gap_at: Mutex<Option<Timestamp>>,
}

impl Measured {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a mean of times below a day"
    )]
    pub(super) fn note_bus_delay(&self, delay: Duration) {
        metrics::histogram!("openvibe_bus_delay_seconds").record(delay);
        let newest = delay.as_micros() as f64;
        let before = self.bus_delay_us.load(Ordering::Relaxed) as f64;
        let mean = if before == 0.0 {
            newest
        } else {
            before + (newest - before) * NEWEST_WEIGHT
        };
        self.bus_delay_us
            .store(mean.max(1.0) as u64, Ordering::Relaxed);
    }

    pub(super) fn note_gap(&self) {
        *self
            .last_gap_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(now());
    }

    #[expect(clippy::cast_precision_loss, reason = "precise enough for a gauge")]
    pub(super) fn note_clock(&self, database: Timestamp) {
        let skew_ms = now().unix_ms() - database.unix_ms();
        self.clock_skew_ms.store(skew_ms, Ordering::Relaxed);
        metrics::gauge!("openvibe_clock_skew_seconds").set(skew_ms as f64 / 1000.0);
    }

    pub(super) fn last_gap_at(&self) -> Option<Timestamp> {
        *self
            .last_gap_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Mean delay of recent messages from other nodes in milliseconds; `None` if none have been received.
    #[expect(clippy::cast_precision_loss, reason = "precise enough for people")]
    pub(super) fn bus_delay_ms(&self) -> Option<f64> {
        let delay_us = self.bus_delay_us.load(Ordering::Relaxed);
        (delay_us > 0).then(|| delay_us as f64 / 1000.0)
    }

    pub(super) fn clock_skew_ms(&self) -> i64 {
        self.clock_skew_ms.load(Ordering::Relaxed)
    }
}
