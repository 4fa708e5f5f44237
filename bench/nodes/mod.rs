//! Several nodes on one `PostgreSQL` database, compared with one node: the cost of the bus, and delays across nodes.
//!
//! ```text
//! group     nodes with a database and a bus, and the CPU time of each
//! fanout    the same sockets on one node and on two
//! sends     sends to one node while another one listens
//! delay     arrival of a message on the other node
//! streams   replies that are watched on the other node
//! takeover  sockets of a lost node resume on the other one
//! idle      open rooms in which nothing happens
//! restart   first write after a restart of the database
//! ```
//!
//! `make bench ONLY="nodes idle" ENGINE=postgres` measures one of them.
//!
//! CPU time includes the nodes, the bus, and the database server. The machine is too small to measure scaling by elapsed time.

mod delay;
mod fanout;
mod group;
mod idle;
mod nats;
mod postgres;
mod restart;
mod sends;
mod streams;
mod takeover;

use std::time::{Duration, Instant};

use anyhow::Context;

use crate::{
    client::{Ws, next_text},
    fanout::MESSAGE,
    process,
    report::say,
};

/// Names of all parts of this benchmark.
const PARTS: &[&str] = &[
    "fanout", "sends", "delay", "streams", "takeover", "idle", "restart",
];

/// Maximum time for a frame to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(30);

/// Measures the parts with `filter` in their name.
pub(crate) async fn run(filter: &str) -> anyhow::Result<()> {
    if !process::is_postgres() {
        say(
            "\nSeveral nodes need PostgreSQL, so nothing was measured: make bench ONLY=nodes ENGINE=postgres",
        );
        return Ok(());
    }
    let parts = PARTS.iter().filter(|name| name.contains(filter));
    for &part in parts {
        match part {
            "fanout" => fanout::run().await?,
            "sends" => sends::run().await?,
            "delay" => delay::run().await?,
            "streams" => streams::run().await?,
            "takeover" => takeover::run().await?,
            "idle" => idle::run().await?,
            _ => restart::run().await?,
        }
    }
    Ok(())
}

/// Waits for the next `count` messages of a socket; returns their arrival times.
async fn arrivals(ws: &mut Ws, count: usize) -> anyhow::Result<Vec<Instant>> {
    let mut times = Vec::with_capacity(count);
    while times.len() < count {
        let text = tokio::time::timeout(ARRIVES_WITHIN, next_text(ws)).await;
        if text
            .context("a message did not arrive")??
            .starts_with(MESSAGE)
        {
            times.push(Instant::now());
        }
    }
    Ok(times)
}
