//! First write on each of two nodes after `PostgreSQL` was stopped and started.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::future::join_all;
use serde_json::json;
use uuid::Uuid;

use super::{
    group::{Bus, Group},
    postgres::OwnServer,
};
use crate::{
    client::{Http, Team},
    process::Scratch,
    report::{Table, say, spread},
    sends::CONTENT,
};

const ROUNDS: usize = 3;
/// Settings that suppress warnings, because the nodes log one for each lost connection.
const QUIET: &[(&str, &str)] = &[("LOG", "error")];
/// Time for which the database is stopped.
const DOWN: Duration = Duration::from_secs(2);
/// Time between a write and the next stop.
const UP: Duration = Duration::from_secs(2);
const RETRY_EVERY: Duration = Duration::from_millis(50);
const WRITES_WITHIN: Duration = Duration::from_mins(1);

/// Resends a message until a node has stored it; returns the time.
async fn write(team: &Team, path: &str) -> Instant {
    let client_id = Uuid::now_v7().simple().to_string();
    let body = json!({"content": CONTENT, "client_id": client_id}).to_string();
    let mut http: Option<Http> = None;
    loop {
        let connected = match http.take() {
            Some(http) => Ok(http),
            None => team.http(0).await,
        };
        if let Ok(mut connected) = connected
            && let Ok(reply) = connected.send("POST", path, &body).await
        {
            if matches!(reply.status, 200 | 201) {
                return Instant::now();
            }
            http = Some(connected);
        }
        tokio::time::sleep(RETRY_EVERY).await;
    }
}

pub(super) async fn run() -> anyhow::Result<()> {
    let mut server = OwnServer::start().await?;
    let scratch = Scratch::on(Some(server.url())).await?;
    let group = Group::on(scratch, Bus::Nats, &[QUIET, QUIET]).await?;
    let team = Team::make(group.host(0), 1).await?;
    let path = format!("/v1/threads/{}/messages", team.thread().await?);
    let teams = [0, 1].map(|n| team.at(group.host(n)));
    let mut took = Vec::new();
    let mut down = Vec::new();
    for _ in 0..ROUNDS {
        join_all(teams.iter().map(|team| write(team, &path))).await;
        tokio::time::sleep(UP).await;
        let stopped_at = Instant::now();
        server.stop()?;
        // The writes begin while the server is down.
        let start = async {
            tokio::time::sleep(DOWN).await;
            server.go_on()?;
            server.accept_write().await
        };
        let writes = join_all(teams.iter().map(|team| write(team, &path)));
        let both = async { tokio::join!(start, writes) };
        let both = tokio::time::timeout(WRITES_WITHIN, both).await;
        let (accepted_at, written) = both.context("no write succeeded in time")?;
        let accepted_at = accepted_at?;
        down.push((accepted_at - stopped_at).as_secs_f64());
        let after = written
            .iter()
            .map(|at| at.saturating_duration_since(accepted_at).as_secs_f64());
        took.extend(after);
    }
    let mut table = Table::new(
        "First write after a restart of PostgreSQL, s",
        &["", "median (lowest to highest)"],
    );
    table.row([
        "after a bare connection could write".to_owned(),
        spread(&took, 2),
    ]);
    table.row(["time without a database".to_owned(), spread(&down, 2)]);
    table.print();
    say(&format!(
        "\n{ROUNDS} restarts, with a write on each of two nodes that began before the server was back."
    ));
    Ok(())
}
