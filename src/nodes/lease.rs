//! The lease of this process, renewed over a dedicated database session, which also holds a lock against program versions that do not
//! support several nodes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    figures::Figures,
    links::Links,
    node::Node,
    presence::write_presence,
    row::{self, LEASE, Renewal},
};
use crate::{
    db::{Conn, Db, DbError, epoch},
    realtime::Close,
    tasks::queue,
};

/// Interval between presence updates, and between attempts to reconnect.
const TICK: Duration = Duration::from_secs(1);
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// Maximum duration of one tick, so that a stuck connection is detected.
const TICK_WITHIN: Duration = Duration::from_secs(4);
/// Time without the database after which a node reports that it is not ready.
const CUT_OFF_AFTER: Duration = Duration::from_secs(5);
/// Time without the database after which sockets are closed.
const SOCKETS_KEPT: Duration = Duration::from_secs(30);
/// Clock difference above which a warning is logged.
const SKEW_MAX_MS: i64 = 2000;

#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error("the database is in use by an OpenVibe server that does not share it: stop it first")]
    Locked,
    #[error(transparent)]
    Db(#[from] DbError),
}

/// Reason why a node has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEnd {
    /// While this node could not reach the database, a program version that does not support several nodes took it over.
    TakenOver,
    /// Another process uses the ID of this node.
    Replaced,
}

impl LeaseEnd {
    /// Describes the reason for the operator.
    pub fn text(self, data_dir: &std::path::Path) -> String {
        match self {
            Self::TakenOver => "an OpenVibe server that does not share the database took it over while it was unreachable".to_owned(),
            Self::Replaced => format!(
                "another process uses this node ID: delete {}",
                data_dir.join("node.json").display()
            ),
        }
    }
}

/// The session of the lease.
pub struct Lease {
    /// Connection of the session; `None` while reconnecting.
    c: Option<Conn>,
    /// True if presence changes may be missing from the presence rows.
    is_incomplete: bool,
}

/// Opens the session: takes the shared lock, and lets commits of leases and presence return before they are on disk.
async fn open_session(db: &Db) -> Result<Option<Conn>, DbError> {
    let mut c = db.own_session().await?;
    let is_shared: bool = c
        .q("select pg_try_advisory_lock_shared(7310579, 1)")
        .value()
        .await?;
    if !is_shared {
        return Ok(None);
    }
    c.q("select set_config('synchronous_commit', 'off', false)")
        .value::<String>()
        .await?;
    Ok(Some(c))
}

/// Joins the nodes of a database. Replaces an earlier process with the same ID, whose task leases expire immediately.
///
/// # Errors
/// `Locked` if a program version that does not support several nodes uses the database.
pub async fn join(db: &Db, node: &Node) -> Result<Lease, JoinError> {
    let mut c = open_session(db).await?.ok_or(JoinError::Locked)?;
    let at = row::insert(&mut c, node, Figures::default()).await?;
    node.figures.note_clock(at);
    delete_presence(&mut c, node).await?;
    queue::expire_leases(&mut c, Some(node.id.0)).await?;
    Ok(Lease {
        c: Some(c),
        is_incomplete: false,
    })
}

impl Lease {
    /// Renews the lease and stores presence until `shutdown`. Reconnects if the connection is lost.
    ///
    /// # Errors
    /// The reason why this process must stop.
    pub async fn keep(mut self, links: Links, shutdown: CancellationToken) -> Result<(), LeaseEnd> {
        let mut renewed = Instant::now();
        let mut renew_at = Instant::now();
        loop {
            let tick = self.tick(&links, &mut renew_at);
            let done = tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                done = tokio::time::timeout(TICK_WITHIN, tick) => done,
            };
            match done {
                Ok(Ok(None)) => {
                    renewed = Instant::now();
                    links.node.set_cut_off(false);
                }
                Ok(Ok(Some(end))) => return Err(end),
                Ok(Err(e)) => {
                    tracing::warn!(error = %e, "could not renew the lease of this node; retrying");
                    self.reconnect(&links, &shutdown, renewed).await?;
                    renew_at = Instant::now();
                }
                Err(_) => {
                    tracing::warn!("the database does not respond to this node; connecting again");
                    self.reconnect(&links, &shutdown, renewed).await?;
                    renew_at = Instant::now();
                }
            }
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    async fn tick(
        &mut self,
        links: &Links,
        renew_at: &mut Instant,
    ) -> Result<Option<LeaseEnd>, DbError> {
        let Some(c) = &mut self.c else {
            return Ok(None);
        };
        if Instant::now() >= *renew_at {
            match renew(links, c).await? {
                Renewed::Kept => {}
                Renewed::Rejoined => self.is_incomplete = true,
                Renewed::Ended(end) => return Ok(Some(end)),
            }
            *renew_at = Instant::now() + RENEW_EVERY;
        }
        if self.is_incomplete {
            delete_presence(c, &links.node).await?;
            links.hub.repeat_presence();
            self.is_incomplete = false;
        }
        write_presence(links, c).await?;
        Ok(None)
    }

    async fn reconnect(
        &mut self,
        links: &Links,
        shutdown: &CancellationToken,
        renewed: Instant,
    ) -> Result<(), LeaseEnd> {
        // The new connection needs the old one's place in the pool.
        self.c = None;
        let mut is_emptied = false;
        loop {
            if renewed.elapsed() >= CUT_OFF_AFTER {
                links.node.set_cut_off(true);
            }
            if renewed.elapsed() >= SOCKETS_KEPT && !is_emptied {
                is_emptied = true;
                let (hub, drain) = (Arc::clone(&links.hub), links.drain);
                links.tracker.spawn(async move {
                    hub.close_gradually(Close::GoingAway, drain).await;
                });
            }
            let opened = tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                opened = tokio::time::timeout(TICK_WITHIN, open_session(&links.db)) => opened,
            };
            match opened {
                Ok(Ok(Some(c))) => {
                    self.c = Some(c);
                    // Messages and presence changes may have been lost with the connection.
                    links.hub.mark_all_stale();
                    self.is_incomplete = true;
                    return Ok(());
                }
                Ok(Ok(None)) => return Err(LeaseEnd::TakenOver),
                Ok(Err(e)) => {
                    tracing::warn!(error = %e, "the database does not respond; retrying");
                }
                Err(_) => tracing::warn!("the database does not respond; retrying"),
            }
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }
}

/// Result of a renewal.
enum Renewed {
    Kept,
    /// Other nodes may have considered this node lost.
    Rejoined,
    Ended(LeaseEnd),
}

async fn delete_presence(c: &mut Conn, node: &Node) -> Result<(), DbError> {
    c.q("delete from presence where node_id = $1")
        .bind(node.id)
        .run()
        .await?;
    Ok(())
}

/// Renews the lease, and claims the jobs or renews the claim to them.
async fn renew(links: &Links, c: &mut Conn) -> Result<Renewed, DbError> {
    let asked = Instant::now();
    let node = &links.node;
    let mut result = Renewed::Kept;
    let at = match row::renew(c, node, links.figures()).await? {
        Renewal::Renewed { at } => at,
        Renewal::Replaced => return Ok(Renewed::Ended(LeaseEnd::Replaced)),
        Renewal::Expired { at } => {
            tracing::warn!("the lease of this node had expired; rejoining");
            rejoin(links);
            result = Renewed::Rejoined;
            at
        }
        Renewal::Missing => {
            tracing::warn!("the row of this node was deleted; rejoining");
            rejoin(links);
            result = Renewed::Rejoined;
            row::insert(c, node, links.figures()).await?
        }
    };
    node.figures.note_clock(at);
    let skew_ms = node.figures.clock_skew_ms();
    if skew_ms.abs() > SKEW_MAX_MS {
        tracing::warn!(
            skew_ms,
            "the clock of this machine differs from that of the database"
        );
    }
    epoch::record_synchronous(c).await?;
    let has_jobs = !node.has_another_key() && row::claim_jobs(c, node.id, at).await?;
    node.set_jobs_until(has_jobs.then(|| asked + LEASE));
    if has_jobs {
        row::delete_lost(c, at).await?;
    }
    Ok(result)
}

/// Gives up the jobs and marks all rooms as stale, because other nodes may have considered this node lost.
fn rejoin(links: &Links) {
    links.node.set_jobs_until(None);
    links.hub.mark_all_stale();
}

/// Reads which other nodes are alive before this one starts. Returns true if there are none.
///
/// # Errors
/// Only database errors.
pub async fn find_peers(links: &Links) -> Result<bool, DbError> {
    if !links.node.is_shared() {
        return Ok(true);
    }
    let live = row::list_live(&mut links.db.read().await?).await?;
    links.set_live(live);
    Ok(!links.bus.has_peers())
}

/// Deletes the row and presence of this node, which has stopped, and releases its jobs.
///
/// # Errors
/// Only database errors.
pub async fn leave(links: &Links) -> Result<(), DbError> {
    if !links.node.is_shared() {
        return Ok(());
    }
    let node = Arc::clone(&links.node);
    links
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            if row::delete(c, &node).await? {
                row::release_jobs(c, node.id).await?;
            }
            Ok(())
        })
        .await
}
