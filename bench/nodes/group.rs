//! Nodes with their database and bus, and the CPU time of each.

use std::{ops::Sub, time::Duration};

use super::{nats::NatsServer, postgres::DatabaseServer};
use crate::process::{Process, Scratch};

/// Time after which nodes know of each other and have received messages from each other over NATS, so that they no
/// longer use NOTIFY.
const SETTLED_AFTER: Duration = Duration::from_secs(4);
/// Key that the nodes share.
const SECRET_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

#[derive(Clone, Copy)]
pub(super) enum Bus {
    Notify,
    Nats,
}

impl Bus {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Notify => "NOTIFY",
            Self::Nats => "NATS",
        }
    }
}

pub(super) struct Group {
    pub(super) nodes: Vec<Process>,
    nats: Option<NatsServer>,
    pub(super) scratch: Scratch,
    database: DatabaseServer,
}

impl Group {
    /// Starts `count` nodes on a new database, with the same additional settings.
    pub(super) async fn start(
        count: usize,
        bus: Bus,
        settings: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        Self::on(Scratch::new().await?, bus, &vec![settings; count]).await
    }

    /// Starts one node on a database for each of these settings. Returns when the nodes know each other.
    pub(super) async fn on(
        scratch: Scratch,
        bus: Bus,
        settings: &[&[(&str, &str)]],
    ) -> anyhow::Result<Self> {
        let nats = match bus {
            Bus::Notify => None,
            Bus::Nats => Some(NatsServer::start().await?),
        };
        let mut nodes = Vec::new();
        for (n, settings) in settings.iter().enumerate() {
            let name = format!("node-{n}");
            let mut all = vec![("NODE_NAME", name.as_str()), ("SECRET_KEY", SECRET_KEY)];
            all.extend(nats.as_ref().map(|nats| ("NATS_URL", nats.url.as_str())));
            all.extend_from_slice(settings);
            nodes.push(scratch.node(&name, &all)?);
        }
        if nodes.len() > 1 {
            tokio::time::sleep(SETTLED_AFTER).await;
        }
        Ok(Self {
            database: DatabaseServer::of(&scratch).await?,
            nodes,
            nats,
            scratch,
        })
    }

    /// Address of the nth node.
    pub(super) fn host(&self, n: usize) -> &str {
        &self.nodes[n].address
    }

    /// URL of the NATS server, if there is one.
    pub(super) fn nats_url(&self) -> Option<&str> {
        self.nats.as_ref().map(|nats| nats.url.as_str())
    }

    /// CPU time so far of the running nodes, the bus, and the database server.
    pub(super) fn used(&self) -> Used {
        Used {
            nodes: self.nodes.iter().map(Process::cpu).sum(),
            bus: self.nats.as_ref().map(NatsServer::cpu).unwrap_or_default(),
            database: self.database.cpu(),
        }
    }
}

/// CPU time.
#[derive(Clone, Copy)]
pub(super) struct Used {
    pub(super) nodes: Duration,
    pub(super) bus: Duration,
    pub(super) database: Duration,
}

impl Used {
    pub(super) fn total(self) -> Duration {
        self.nodes + self.bus + self.database
    }
}

impl Sub for Used {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            nodes: self.nodes.saturating_sub(earlier.nodes),
            bus: self.bus.saturating_sub(earlier.bus),
            database: self.database.saturating_sub(earlier.database),
        }
    }
}
