//! Dependencies of a node's background work.

use std::{sync::Arc, time::Duration};

use tokio_util::task::TaskTracker;

use super::{bus::Bus, figures::Figures, node::Node, row::LiveNode, settings};
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

    /// Records which nodes are alive, and whether one that started earlier has another secret key.
    pub(super) fn set_live(&self, live: Vec<LiveNode>) {
        let is_this = |node: &LiveNode| node.incarnation == self.node.incarnation;
        let start = |node: &LiveNode| (node.started_at, node.id);
        // Without its row, which exists unless the lease has expired, this node counts as the newest.
        let own = live.iter().find(|node| is_this(node)).map(start);
        let excluding = live.iter().find(|node| {
            !is_this(node)
                && own.is_none_or(|own| start(node) < own)
                && settings::has_another_key(&self.node.settings, &node.settings.0)
        });
        if self.node.set_another_key(excluding.is_some()) {
            if let Some(node) = excluding {
                tracing::error!(
                    node.name = node.name,
                    "OPENVIBE_SECRET_KEY differs from that of a node that started earlier: this node serves no clients and runs no \
                     tasks until both have the same key"
                );
            } else {
                tracing::info!("no other node has another OPENVIBE_SECRET_KEY anymore");
            }
        }
        self.queue.set_paused(excluding.is_some());
        let others = live.into_iter().filter(|node| node.id != self.node.id);
        self.bus.set_peers(others.collect(), &self.node.settings);
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
            bus_sent: self.bus.sent_over_nats(),
            open_nats: self.bus.open_nats(),
        }
    }
}
