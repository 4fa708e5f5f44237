//! Rows of the nodes. Leases are set and compared using the database clock, so that a node with a wrong clock cannot take over the
//! work of others.

use std::time::Duration;

use uuid::Uuid;

use super::{figures::Figures, mode::Mode, node::Node, settings::Hashes};
use crate::{
    db::{Conn, Db, DbError, Json, dialect, now},
    ids::NodeId,
    realtime::NodeState,
    time::Timestamp,
};

/// Time without renewal after which a node counts as lost.
pub(super) const LEASE: Duration = Duration::from_secs(15);
/// Time for which a lost node remains in the list.
const LOST_FOR: Duration = Duration::from_hours(24);
/// Name of the row that a node claims for all jobs that only one node runs at a time.
const JOBS: &str = "background";

/// A node as it is stored.
#[derive(sqlx::FromRow)]
pub(super) struct NodeRow {
    pub(super) id: NodeId,
    pub(super) name: String,
    pub(super) incarnation: Uuid,
    pub(super) version: String,
    pub(super) mode: Mode,
    pub(super) state: NodeState,
    pub(super) started_at: Timestamp,
    pub(super) lease_until: Timestamp,
    pub(super) settings: Json<Hashes>,
    pub(super) figures: Json<Figures>,
}

/// A node whose lease is valid.
#[derive(Clone, sqlx::FromRow)]
pub(super) struct LiveNode {
    pub(super) id: NodeId,
    pub(super) name: String,
    pub(super) incarnation: Uuid,
    pub(super) mode: Mode,
    pub(super) state: NodeState,
    pub(super) started_at: Timestamp,
    pub(super) settings: Json<Hashes>,
    pub(super) figures: Json<Figures>,
}

/// Stores this process as a node, in place of an earlier one with the same ID. Returns the database time.
pub(super) async fn insert(
    c: &mut Conn,
    node: &Node,
    figures: Figures,
) -> Result<Timestamp, DbError> {
    let at = dialect::clock(c).await?;
    c.q("insert into nodes (id, name, incarnation, version, mode, state, started_at, lease_until, settings, figures) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
         on conflict (id) do update set name = excluded.name, incarnation = excluded.incarnation, version = excluded.version, \
           mode = excluded.mode, state = excluded.state, started_at = excluded.started_at, \
           lease_until = excluded.lease_until, settings = excluded.settings, figures = excluded.figures")
        .bind(node.id)
        .bind(node.name.clone())
        .bind(node.incarnation)
        .bind(env!("CARGO_PKG_VERSION").to_owned())
        .bind(node.mode)
        .bind(node.state())
        // By the database clock, because the order of starts decides between nodes with different keys.
        .bind(at - now().since(node.started_at))
        .bind(at + LEASE)
        .bind(Json(node.settings.clone()))
        .bind(Json(figures))
        .run()
        .await?;
    Ok(at)
}

/// Result of a renewal.
pub(super) enum Renewal {
    Renewed {
        at: Timestamp,
    },
    /// The lease had expired, so other nodes may have taken over this node's work.
    Expired {
        at: Timestamp,
    },
    /// Another process uses this ID.
    Replaced,
    /// The row of this node was deleted.
    Missing,
}

/// Renews the lease of this process.
pub(super) async fn renew(c: &mut Conn, node: &Node, figures: Figures) -> Result<Renewal, DbError> {
    let at = dialect::clock(c).await?;
    let before: Option<(Uuid, Timestamp)> = c
        .q("select incarnation, lease_until from nodes where id = $1")
        .bind(node.id)
        .opt()
        .await?;
    let Some((incarnation, lease_until)) = before else {
        return Ok(Renewal::Missing);
    };
    let renewed = c
        .q("update nodes set lease_until = $3, state = $4, figures = $5 where id = $1 and incarnation = $2")
        .bind(node.id)
        .bind(node.incarnation)
        .bind(at + LEASE)
        .bind(node.state())
        .bind(Json(figures))
        .run()
        .await?;
    Ok(if incarnation != node.incarnation || renewed == 0 {
        Renewal::Replaced
    } else if lease_until < at {
        Renewal::Expired { at }
    } else {
        Renewal::Renewed { at }
    })
}

/// Claims the jobs that only one node runs at a time, or renews the claim. Returns true if this node holds the claim.
pub(super) async fn claim_jobs(c: &mut Conn, node: NodeId, at: Timestamp) -> Result<bool, DbError> {
    let claimed = c
        .q("insert into jobs (name, due_at, node_id, lease_until) values ($1, $3, $2, $4) on conflict (name) do update \
            set node_id = excluded.node_id, lease_until = excluded.lease_until \
            where jobs.node_id = excluded.node_id or jobs.lease_until is null or jobs.lease_until < $3")
        .bind(JOBS.to_owned())
        .bind(node)
        .bind(at)
        .bind(at + LEASE)
        .run()
        .await?;
    Ok(claimed > 0)
}

/// Gives up this node's claim to the jobs.
pub(super) async fn release_jobs(c: &mut Conn, node: NodeId) -> Result<(), DbError> {
    c.q("update jobs set lease_until = null, node_id = null where name = $1 and node_id = $2")
        .bind(JOBS.to_owned())
        .bind(node)
        .run()
        .await?;
    Ok(())
}

/// Deletes the row of this process and its presence. Returns false if another process has taken over its ID.
pub(super) async fn delete(c: &mut Conn, node: &Node) -> Result<bool, DbError> {
    let deleted = c
        .q("delete from nodes where id = $1 and incarnation = $2")
        .bind(node.id)
        .bind(node.incarnation)
        .run()
        .await?;
    if deleted > 0 {
        c.q("delete from presence where node_id = $1")
            .bind(node.id)
            .run()
            .await?;
    }
    Ok(deleted > 0)
}

/// Deletes nodes that were lost more than a day ago, and the presence of all lost nodes.
pub(super) async fn delete_lost(c: &mut Conn, at: Timestamp) -> Result<(), DbError> {
    c.q("delete from nodes where lease_until < $1")
        .bind(at - LOST_FOR)
        .run()
        .await?;
    c.q("delete from presence where not exists (select 1 from nodes n where n.id = presence.node_id and n.lease_until >= $1)")
        .bind(at)
        .run()
        .await?;
    Ok(())
}

/// Lists the nodes whose lease is valid, oldest ID first.
pub(super) async fn list_live(c: &mut Conn) -> Result<Vec<LiveNode>, DbError> {
    let at = dialect::clock(c).await?;
    c.q(
        "select id, name, incarnation, mode, state, started_at, settings, figures from nodes \
         where lease_until >= $1 order by id limit 100",
    )
    .bind(at)
    .all()
    .await
}

/// Lists all nodes, sorted by name.
pub(super) async fn list_all(c: &mut Conn) -> Result<Vec<NodeRow>, DbError> {
    c.q("select id, name, incarnation, version, mode, state, started_at, lease_until, settings, figures \
         from nodes order by name, id limit 100")
        .all()
        .await
}

/// Random name of the nodes that share this database, so that nodes of other databases on the same NATS server do not receive
/// their messages. A restored backup gets a new one.
pub async fn cluster(db: &Db) -> Result<String, DbError> {
    db.write(Uuid::nil(), async |c: &mut Conn| {
        c.q("insert into meta (key, value) values ('cluster', $1) on conflict (key) do nothing")
            .bind(Uuid::now_v7().simple().to_string())
            .run()
            .await?;
        c.q("select value from meta where key = 'cluster'")
            .value::<String>()
            .await
    })
    .await
}
