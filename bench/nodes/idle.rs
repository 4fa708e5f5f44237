//! CPU time of a node with open rooms in which nothing happens.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;

use super::group::{Bus, Group, Used};
use crate::{
    client::{Crowd, Team, Ws, read_hello, text},
    report::{Table, say},
};

const ROOMS: usize = 1000;
const OPENED_AT_ONCE: usize = 16;
/// Time after which the work of starting the node and opening the rooms has ended.
const CALM_AFTER: Duration = Duration::from_secs(5);
/// Heartbeat interval of a socket. Measuring for this long includes one heartbeat per socket.
const HEARTBEAT: Duration = Duration::from_secs(20);

/// CPU time per second.
async fn measure(group: &Group) -> anyhow::Result<[f64; 3]> {
    tokio::time::sleep(CALM_AFTER).await;
    let (before, started) = (group.used(), Instant::now());
    tokio::time::sleep(HEARTBEAT).await;
    let Used {
        nodes,
        bus,
        database,
    } = group.used() - before;
    let elapsed = started.elapsed().as_secs_f64();
    Ok([nodes, bus, database].map(|time| time.as_secs_f64() / elapsed))
}

pub(super) async fn run() -> anyhow::Result<()> {
    let settings = [("WORKSPACES_PER_USER", "2000")];
    let group = Group::start(1, Bus::Nats, &settings).await?;
    let founder = Team::make(group.host(0), 1).await?;
    let without = measure(&group).await?;

    let mut http = founder.http(0).await?;
    let mut workspaces = vec![founder.workspace.clone()];
    for n in 1..ROOMS {
        let form = json!({"name": format!("Room {n}")});
        let made = http.post("/v1/workspaces", &form).await?;
        workspaces.push(text(&made, "/id")?);
    }
    let sockets: Vec<Ws> = stream::iter(&workspaces)
        .map(|id| open(&founder, id))
        .buffer_unordered(OPENED_AT_ONCE)
        .try_collect()
        .await?;
    let _crowd = Crowd::read(sockets, "{");
    let with = measure(&group).await?;

    let mut table = Table::new(
        "CPU time of an idle node with NATS, % of a core",
        &["", "node", "bus", "database", "node and database"],
    );
    let rows = [
        ("no room".to_owned(), without),
        (format!("{ROOMS} rooms with a socket each"), with),
    ];
    for (name, shares) in rows {
        let [node, bus, database] = shares.map(|share| 100.0 * share);
        table.row([
            name,
            format!("{node:.2}"),
            format!("{bus:.2}"),
            format!("{database:.2}"),
            format!("{:.2}", node + database),
        ]);
    }
    table.print();
    say(&format!(
        "\nDuring {} s, in which each socket has one heartbeat and one ping.",
        HEARTBEAT.as_secs()
    ));
    Ok(())
}

async fn open(founder: &Team, workspace: &str) -> anyhow::Result<Ws> {
    let mut ws = founder.silent(0).await?;
    read_hello(&mut ws, &json!({"workspace_id": workspace})).await?;
    Ok(ws)
}
