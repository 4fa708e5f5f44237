//! The list of nodes for admins.

use serde::Serialize;

use super::{links::Links, mode::Mode, node::Node, row, settings};
use crate::{
    db::{Conn, DbError, dialect},
    ids::NodeId,
    realtime::NodeState,
    time::Timestamp,
};

/// A node in the list for admins.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Node)]
pub struct ListedNode {
    pub id: NodeId,
    /// `OPENVIBE_NODE_NAME`, or the address that the node listens on if it is not set.
    pub name: String,
    pub version: String,
    #[schema(inline)]
    pub mode: Mode,
    #[schema(inline)]
    pub state: NodeState,
    /// True for the node that responds.
    pub is_this: bool,
    pub started_at: Timestamp,
    /// Number of open sockets.
    pub sockets: usize,
    /// Number of running tasks.
    pub tasks: usize,
    /// Number of writes that wait for the database.
    pub queued_writes: usize,
    /// Mean delay of recent messages from other nodes in milliseconds; null if none have been received.
    pub bus_delay_ms: Option<f64>,
    /// Time at which events last had to be read from the database because the bus did not deliver
    /// them.
    pub last_gap_at: Option<Timestamp>,
    /// Clock of the node's machine minus the database clock, in milliseconds.
    pub clock_skew_ms: i64,
    /// Names of the settings that differ from those of the node that responds.
    pub differing_settings: Vec<String>,
    pub epoch: String,
    /// Host and port of a NATS server on another machine that the node uses without credentials;
    /// null if there is none.
    pub open_nats: Option<String>,
    /// False for an older version, whose messages over NATS are ignored because they are not
    /// encrypted; its events arrive over `PostgreSQL`.
    pub encrypts_messages: bool,
}

/// Lists all nodes, sorted by name; on `SQLite`, only this process.
///
/// # Errors
/// Only database errors.
pub async fn list(links: &Links) -> Result<Vec<ListedNode>, DbError> {
    let node = &links.node;
    if !node.is_shared() {
        let figures = links.figures();
        return Ok(vec![ListedNode {
            id: node.id,
            name: node.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: node.mode,
            state: node.state(),
            is_this: true,
            started_at: node.started_at,
            sockets: figures.sockets,
            tasks: figures.tasks,
            queued_writes: figures.queued_writes,
            bus_delay_ms: figures.bus_delay_ms,
            last_gap_at: figures.last_gap_at,
            clock_skew_ms: figures.clock_skew_ms,
            differing_settings: Vec::new(),
            epoch: figures.epoch,
            open_nats: figures.open_nats,
            encrypts_messages: true,
        }]);
    }
    list_stored(&mut links.db.read().await?, Some(node)).await
}

/// Lists the stored nodes, sorted by name. Their settings are compared with those of `own`.
///
/// # Errors
/// Only database errors.
pub async fn list_stored(c: &mut Conn, own: Option<&Node>) -> Result<Vec<ListedNode>, DbError> {
    let rows = row::list_all(c).await?;
    let at = dialect::clock(c).await?;
    let listed = rows.into_iter().map(|row| {
        let is_this = own.is_some_and(|own| row.id == own.id && row.incarnation == own.incarnation);
        let state = if row.lease_until < at {
            NodeState::Lost
        } else {
            row.state
        };
        let figures = row.figures.0;
        ListedNode {
            encrypts_messages: settings::encrypts(&row.settings.0),
            differing_settings: own
                .map(|own| settings::differing(&own.settings, &row.settings.0))
                .unwrap_or_default(),
            id: row.id,
            name: row.name,
            version: row.version,
            mode: row.mode,
            state,
            is_this,
            started_at: row.started_at,
            sockets: figures.sockets,
            tasks: figures.tasks,
            queued_writes: figures.queued_writes,
            bus_delay_ms: figures.bus_delay_ms,
            last_gap_at: figures.last_gap_at,
            clock_skew_ms: figures.clock_skew_ms,
            epoch: figures.epoch,
            open_nats: figures.open_nats,
        }
    });
    Ok(listed.collect())
}
