//! Dependencies of a node's background work.

use std::{sync::Arc, time::Duration};

use tokio_util::task::TaskTracker;

use super::{bus::Bus, figures::Figures, node::Node};
use crate::{auth::revocations::RevocationFeed, db::Db, realtime::Hub, tasks::Queue};

/// Dependencies of a node's background work.
#[derive(Clone)]
pub struct Links {
    pub db: Db,
    pub node: Arc<Node>,
    pub hub: Arc<Hub>,
    pub queue: Arc<Queue>,
    pub bus: Arc<Bus>,
    pub revocations: Arc<RevocationFeed>,
    /// Period over which sockets are closed.
    pub drain: Duration,
    /// Interval between polls; tests change it.
    pub poll_every: Duration,
    pub tracker: TaskTracker,
}

impl Links {
    /// ID of the current epoch of the log; cursors of other epochs are invalid.
    pub fn epoch(&self) -> String {
        self.db.epoch().borrow().id.clone()
    }

    /// The figures of this node.
    pub(super) fn figures(&self) -> Figures {
        let measured = &self.node.figures;
        Figures {
            sockets: self.hub.socket_count(),
            tasks: self.queue.running_count(),
            queued_writes: self.db.queued_writes(),
            bus_delay_ms: measured.bus_delay_ms(),
            last_gap_at: measured.last_gap_at(),
            clock_skew_ms: measured.clock_skew_ms(),
            epoch: self.epoch(),
        }
    }
}
