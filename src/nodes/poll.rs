//! Detects changes that the bus did not deliver by polling every second: events, ended tasks, revoked access, other nodes, and a new
//! epoch.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{links::Links, presence::read_elsewhere, row};
use crate::{
    db::{DbError, epoch},
    ids::WorkspaceId,
    realtime::log,
    tasks::queue,
};

/// Interval of polls.
pub const POLL_EVERY: Duration = Duration::from_secs(1);
/// Minimum interval between polls that messages from other nodes trigger.
const CALLED_EVERY: Duration = Duration::from_millis(100);
/// Delay of a tick above which messages may have been missed.
const LATE: Duration = Duration::from_secs(2);
/// Maximum number of workspaces in one statement, and in one tick.
const ROOMS_AT_ONCE: usize = 1000;
const ROOMS_PER_TICK: usize = 5000;
/// Number of ticks between two reads of everyone's presence.
const PRESENCE_TICKS: u64 = 30;

/// Polls until `shutdown`.
pub async fn poll(links: Links, shutdown: CancellationToken) {
    let mut skipped = 0;
    for tick in 0_u64.. {
        let slept = Instant::now();
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(links.poll_every) => {}
            () = called(&links) => {}
        }
        if slept.elapsed() > links.poll_every + LATE {
            // The process was probably suspended, so messages may have been missed.
            links.hub.mark_all_stale();
        }
        if let Err(e) = read(&links, tick, &mut skipped).await {
            tracing::debug!(error = %e, "could not poll; retrying");
        }
    }
}

/// Completes when another node has announced something to read, at most ten times per second.
async fn called(links: &Links) {
    tokio::time::sleep(CALLED_EVERY).await;
    links.bus.called.notified().await;
}

async fn read(links: &Links, tick: u64, skipped: &mut usize) -> Result<(), DbError> {
    let mut c = links.db.read().await?;
    for revocation in links.revocations.read_new(&mut c).await? {
        revocation.close_sockets(&links.hub);
    }
    drop(c);
    read_nodes(links).await?;
    let rooms = links.hub.open_rooms();
    links.bus.subscribe(&rooms).await;
    links.bus.keep_subscribed(|room| links.hub.is_open(room));
    read_heads(links, &rooms, skipped).await?;
    stop_ended(links).await?;
    if tick.is_multiple_of(PRESENCE_TICKS) || links.bus.has_lost_node() {
        read_presence(links, &rooms).await?;
        links.hub.forget_silent_streams();
    }
    Ok(())
}

/// Reads which other nodes are alive, and the epoch.
async fn read_nodes(links: &Links) -> Result<(), DbError> {
    let mut c = links.db.read().await?;
    let live = row::list_live(&mut c).await?;
    drop(c);
    links.set_live(live);
    epoch::read(&links.db).await?;
    Ok(())
}

/// Compares the positions of open rooms with the log, for a limited number of rooms per tick.
async fn read_heads(
    links: &Links,
    rooms: &[WorkspaceId],
    skipped: &mut usize,
) -> Result<(), DbError> {
    if *skipped >= rooms.len() {
        *skipped = 0;
    }
    let end = rooms.len().min(*skipped + ROOMS_PER_TICK);
    for some in rooms[*skipped..end].chunks(ROOMS_AT_ONCE) {
        let heads = log::heads(&mut links.db.read().await?, some).await?;
        for (workspace, head) in heads {
            if links.hub.reached(workspace, head, Duration::ZERO) && links.bus.has_peers() {
                metrics::counter!("openvibe_log_gaps_total", "cause" => "poll").increment(1);
                links.node.figures.note_gap();
            }
        }
    }
    *skipped = end;
    Ok(())
}

/// Stops work on this node for tasks that have ended or run elsewhere.
async fn stop_ended(links: &Links) -> Result<(), DbError> {
    let running = links.queue.running_leases();
    if running.is_empty() {
        return Ok(());
    }
    let ids = running.iter().map(|(task, _)| *task);
    let owned = queue::owned(&mut links.db.read().await?, ids).await?;
    for (task, token) in running {
        if !owned.contains(&(task, token)) {
            links.queue.stop_token(task, token);
        }
    }
    Ok(())
}

async fn read_presence(links: &Links, rooms: &[WorkspaceId]) -> Result<(), DbError> {
    for some in rooms.chunks(ROOMS_AT_ONCE) {
        let mut c = links.db.read().await?;
        let people = read_elsewhere(&mut c, links.node.id, some).await?;
        drop(c);
        links.hub.replace_elsewhere(people, some);
    }
    Ok(())
}
