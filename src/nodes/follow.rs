//! Reads the log for rooms: the position at which a room starts, and all events after a gap.

use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt, stream};
use tokio_util::sync::CancellationToken;

use super::{links::Links, presence::read_elsewhere};
use crate::{
    db::{self, DbError},
    ids::WorkspaceId,
    realtime::{
        BusMessage,
        hub::Behind,
        log::{self, Continuation, PageMax},
    },
};

/// Maximum number of workspaces whose positions are read in one statement.
const ROOMS_AT_ONCE: usize = 1000;
/// Maximum number of rooms for which the log is read at the same time.
const READS_AT_ONCE: usize = 4;
/// Maximum number and total size of the events in one read.
const PAGE: PageMax = PageMax {
    events: 256,
    bytes: 1024 * 1024,
};
/// Pause after a failed read.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Reads the events that rooms are missing, until `shutdown`.
pub async fn follow(links: Links, shutdown: CancellationToken) {
    // Rooms can open without waiting for other rooms that catch up.
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = open_rooms(&links) => {}
        () = catch_up(&links) => {}
    }
}

async fn open_rooms(links: &Links) {
    loop {
        let unopened = links.hub.unopened().await;
        for rooms in unopened.chunks(ROOMS_AT_ONCE) {
            if let Err(e) = open(links, rooms).await {
                tracing::warn!(error = %e, "could not read the positions of rooms; retrying");
                tokio::time::sleep(RETRY_AFTER).await;
                links.hub.mark_unopened(rooms);
            }
        }
    }
}

async fn catch_up(links: &Links) {
    loop {
        links.hub.stale().await;
        stream::iter(links.hub.take_behind())
            .for_each_concurrent(READS_AT_ONCE, async |behind| {
                let workspace = behind.workspace;
                if let Err(e) = repair(links, behind).await {
                    tracing::warn!(error = %e, "could not read missing events; retrying");
                    links.hub.mark_stale(workspace, RETRY_AFTER);
                }
            })
            .await;
    }
}

/// Sets the first positions of rooms. Subscribes to the rooms first, so that no event is missed in between.
async fn open(links: &Links, rooms: &[WorkspaceId]) -> Result<(), DbError> {
    links.bus.subscribe(rooms).await;
    let mut c = links.db.read().await?;
    let people = read_elsewhere(&mut c, links.node.id, rooms).await?;
    let heads = log::positions(&mut c, rooms).await?;
    drop(c);
    links.hub.replace_elsewhere(people, rooms);
    links.hub.open_at(heads);
    // This node has ignored the deltas so far, and the next ones of these replies can be minutes away.
    for workspace in rooms {
        links.bus.send(BusMessage::Want {
            workspace: *workspace,
            task: None,
        });
    }
    Ok(())
}

/// Delivers the events that a room is missing, one page at a time.
async fn repair(links: &Links, behind: Behind) -> Result<(), DbError> {
    let Behind {
        workspace,
        delivered,
        generation,
        epoch,
    } = behind;
    let began = Instant::now();
    let read = links.db.snapshot().await?.run(move |c| {
        async move {
            let continuation = log::continuation(c, workspace, delivered).await?;
            let events = match continuation {
                Continuation::Through(_) => {
                    log::envelopes_after(c, workspace, delivered.seq, PAGE).await?
                }
                _ => Vec::new(),
            };
            Ok::<_, DbError>((continuation, events))
        }
        .boxed()
    });
    let (continuation, events) = read.await?;
    let head = match continuation {
        Continuation::Current => return Ok(()),
        Continuation::Pruned => {
            // Clients of the room then load the snapshot.
            links.hub.restart_room(workspace);
            return Ok(());
        }
        Continuation::Lost => {
            tracing::error!(workspace.id = %workspace, seq = delivered.seq, "the database has lost an event: a new epoch begins");
            db::epoch::renew(&links.db, &epoch).await?;
            return Ok(());
        }
        Continuation::Through(head) => head,
    };
    let newest = events.last().map_or(delivered.seq, |event| event.seq);
    for event in &events {
        links.hub.publish_of(generation, event);
    }
    if newest < head {
        links.hub.mark_stale(workspace, Duration::ZERO);
    }
    metrics::histogram!("openvibe_log_repair_seconds").record(began.elapsed());
    Ok(())
}
