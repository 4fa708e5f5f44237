//! Additional delay of a message that arrives on the other node at a moderate rate, compared with a bare message over the same bus.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::StreamExt;
use serde_json::json;
use sqlx::{Connection, PgConnection, postgres::PgListener};
use tokio::time::{Interval, interval};

use super::{
    arrivals,
    group::{Bus, Group},
};
use crate::{
    client::{Http, Team},
    report::{Table, ms, percentile, say, spread},
    sends::CONTENT,
};

const ROUNDS: usize = 3;
const POSTS: usize = 150;
const BARE_MESSAGES: usize = 100;
/// Interval between posts, for a rate of 50 per second.
const EVERY: Duration = Duration::from_millis(20);
const CHANNEL: &str = "bench";

/// Sender and receiver of bare messages, each with its own connection.
enum BareBus {
    Nats {
        sender: async_nats::Client,
        received: async_nats::Subscriber,
        // Keeps the connection of `received` open.
        _receiver: Box<async_nats::Client>,
    },
    Notify {
        sender: PgConnection,
        received: PgListener,
    },
}

impl BareBus {
    async fn connect(group: &Group) -> anyhow::Result<Self> {
        if let Some(url) = group.nats_url() {
            let receiver = async_nats::connect(url).await?;
            let received = receiver.subscribe(CHANNEL).await?;
            receiver.flush().await?;
            Ok(Self::Nats {
                sender: async_nats::connect(url).await?,
                received,
                _receiver: Box::new(receiver),
            })
        } else {
            let url = group.scratch.url();
            let mut received = PgListener::connect(url).await?;
            received.listen(CHANNEL).await?;
            Ok(Self::Notify {
                sender: PgConnection::connect(url).await?,
                received,
            })
        }
    }

    /// Sends a text and waits for its arrival.
    async fn pass(&mut self, text: &'static str) -> anyhow::Result<()> {
        match self {
            Self::Nats {
                sender, received, ..
            } => {
                sender.publish(CHANNEL, text.into()).await?;
                received.next().await.context("NATS was disconnected")?;
            }
            Self::Notify { sender, received } => {
                sqlx::query("select pg_notify($1, $2)")
                    .bind(CHANNEL)
                    .bind(text)
                    .execute(sender)
                    .await?;
                received.recv().await?;
            }
        }
        Ok(())
    }
}

/// Time of all processors since the start of the machine, in ticks.
struct MachineTime {
    all: u64,
    idle: u64,
}

impl MachineTime {
    fn now() -> anyhow::Result<Self> {
        let stat = std::fs::read_to_string("/proc/stat")?;
        let line = stat.lines().next().unwrap_or_default();
        // Fields: user, nice, system, idle, waiting for disks, …
        let times = line.split_whitespace().skip(1).take(8);
        let times: Vec<u64> = times.filter_map(|time| time.parse().ok()).collect();
        Ok(Self {
            all: times.iter().sum(),
            idle: times.iter().skip(3).take(2).sum(),
        })
    }

    /// Share of the time that was not idle, in percent.
    fn load_since(&self, earlier: &Self) -> anyhow::Result<f64> {
        let all = u32::try_from(self.all - earlier.all)?;
        let idle = u32::try_from(self.idle - earlier.idle)?;
        Ok(100.0 * (1.0 - f64::from(idle) / f64::from(all.max(1))))
    }
}

async fn post(http: &mut Http, path: &str, mut pace: Interval) -> anyhow::Result<()> {
    for _ in 0..POSTS {
        pace.tick().await;
        http.post(path, &json!({"content": CONTENT})).await?;
    }
    Ok(())
}

/// Measurements over one bus in ms.
#[derive(Default)]
struct Delays {
    other: Vec<f64>,
    bare: Vec<f64>,
    /// Load of the machine during the posts of each round, in percent.
    load: Vec<f64>,
}

async fn measure(bus: Bus) -> anyhow::Result<Delays> {
    let group = Group::start(2, bus, &[]).await?;
    let team = Team::make(group.host(0), 2).await?;
    let path = format!("/v1/threads/{}/messages", team.thread().await?);
    let (mut own, mut other) = (
        team.socket(0).await?,
        team.at(group.host(1)).socket(1).await?,
    );
    let mut http = team.http(0).await?;
    let mut bare = BareBus::connect(&group).await?;
    let mut delays = Delays::default();
    for round in 0..=ROUNDS {
        let before = MachineTime::now()?;
        let (at_own, at_other, ()) = tokio::try_join!(
            arrivals(&mut own, POSTS),
            arrivals(&mut other, POSTS),
            post(&mut http, &path, interval(EVERY)),
        )?;
        let load = MachineTime::now()?.load_since(&before)?;
        let mut passes = Vec::new();
        let mut pace = interval(EVERY);
        for _ in 0..BARE_MESSAGES {
            pace.tick().await;
            let started = Instant::now();
            bare.pass(CONTENT).await?;
            passes.push(ms(started.elapsed()));
        }
        // The first round is a warm-up.
        if round > 0 {
            let pairs = at_own.iter().zip(&at_other);
            delays
                .other
                .extend(pairs.map(|(own, other)| ms(other.saturating_duration_since(*own))));
            delays.bare.extend(passes);
            delays.load.push(load);
        }
    }
    Ok(delays)
}

pub(super) async fn run() -> anyhow::Result<()> {
    let mut table = Table::new(
        "Delay of a message on the other node after the own node, 50 posts per second, ms",
        &[
            "bus",
            "p50",
            "p99",
            "bare message p50",
            "p99",
            "load of the machine, %",
        ],
    );
    for bus in [Bus::Nats, Bus::Notify] {
        let delays = measure(bus).await?;
        table.row([
            bus.name().to_owned(),
            format!("{:.2}", percentile(&delays.other, 0.5)),
            format!("{:.2}", percentile(&delays.other, 0.99)),
            format!("{:.2}", percentile(&delays.bare, 0.5)),
            format!("{:.2}", percentile(&delays.bare, 0.99)),
            spread(&delays.load, 0),
        ]);
    }
    table.print();
    say(&format!(
        "\n{} posts over each bus. A bare message goes from one connection to another one, without a node.",
        ROUNDS * POSTS
    ));
    Ok(())
}
