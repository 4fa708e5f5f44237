//! Sends to one node while another one listens, and the cost of NOTIFY in the transaction of a message.

use std::time::Instant;

use futures::future::try_join_all;
use sqlx::postgres::PgListener;
use tokio::task::JoinSet;

use super::group::{Bus, Group};
use crate::{
    client::{Crowd, Team},
    engine::Engine,
    report::{Table, float, ms, ratio, say, spread},
    sends::{post, sum},
};

const SENDERS: usize = 64;
const MEMBERS: usize = 16;
const ROUNDS: usize = 4;
/// Number of writers of the bare engine, the same as on a node; each writes to its own workspace.
const WRITERS: usize = 4;
/// Number of messages per writer and round.
const MESSAGES: usize = 400;
const CHANNEL: &str = "bench";

/// Senders on the first node, and a socket on the last one.
struct Sending {
    group: Group,
    team: Team,
    threads: Vec<String>,
    _listening: Crowd,
    per_second: Vec<f64>,
    cpu_ms: Vec<f64>,
}

impl Sending {
    async fn start(nodes: usize, bus: Bus) -> anyhow::Result<Self> {
        let group = Group::start(nodes, bus, &[]).await?;
        let team = Team::make(group.host(0), MEMBERS).await?;
        let socket = team.at(group.host(nodes - 1)).socket(0).await?;
        Ok(Self {
            threads: try_join_all((0..MEMBERS).map(|_| team.thread())).await?,
            group,
            team,
            _listening: Crowd::read(vec![socket], "{"),
            per_second: Vec::new(),
            cpu_ms: Vec::new(),
        })
    }

    async fn round(&mut self) -> anyhow::Result<()> {
        let mut https = try_join_all((0..SENDERS).map(|n| self.team.http(n))).await?;
        let (before, started) = (self.group.used(), Instant::now());
        let all = https
            .iter_mut()
            .enumerate()
            .map(|(n, http)| post(http, &self.threads[n % MEMBERS]));
        let sent = float(sum(all).await?);
        self.per_second.push(sent / started.elapsed().as_secs_f64());
        let used = self.group.used() - before;
        self.cpu_ms.push(ms(used.total()) / sent);
        Ok(())
    }

    fn forget(&mut self) {
        self.per_second.clear();
        self.cpu_ms.clear();
    }
}

pub(super) async fn run() -> anyhow::Result<()> {
    let mut alone = Sending::start(1, Bus::Notify).await?;
    let mut nats = Sending::start(2, Bus::Nats).await?;
    let mut notify = Sending::start(2, Bus::Notify).await?;
    for round in 0..=ROUNDS {
        for sending in [&mut alone, &mut nats, &mut notify] {
            sending.round().await?;
            if round == 0 {
                // The first round is a warm-up.
                sending.forget();
            }
        }
    }
    let mut table = Table::new(
        "Sends of 64 senders to one node, with a socket on another one",
        &[
            "",
            "per second",
            "of one node",
            "CPU-ms per send, with bus and database",
            "of one node",
        ],
    );
    let rows = [
        ("one node, with the socket", &alone),
        ("a second node, NATS", &nats),
        ("a second node, NOTIFY", &notify),
    ];
    for (name, sending) in rows {
        table.row([
            name.to_owned(),
            spread(&sending.per_second, 0),
            format!("{:.2}", ratio(&sending.per_second, &alone.per_second)),
            spread(&sending.cpu_ms, 2),
            format!("{:.2}", ratio(&sending.cpu_ms, &alone.cpu_ms)),
        ]);
    }
    table.print();
    say(&format!(
        "\nMedians of {ROUNDS} rounds (lowest to highest). The clients run on the same CPUs."
    ));
    drop((alone, nats, notify));
    compare_engine().await
}

/// Compares the engine alone, with and without NOTIFY in each transaction.
async fn compare_engine() -> anyhow::Result<()> {
    let group = Group::start(1, Bus::Notify, &[("SIGNUP", "open")]).await?;
    let mut engines = Vec::new();
    for n in 0..WRITERS {
        let team = Team::numbered(group.host(0), n, 1).await?;
        let thread = team.thread().await?;
        engines.push(Engine::open(&group.scratch.place()?, Some(&thread)).await?);
    }
    let mut listener = PgListener::connect(group.scratch.url()).await?;
    listener.listen(CHANNEL).await?;
    let mut listening = JoinSet::new();
    listening.spawn(async move { while listener.recv().await.is_ok() {} });

    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let started = Instant::now();
        try_join_all(engines.iter().map(|engine| engine.post(MESSAGES, 1))).await?;
        let quiet = started.elapsed();
        let started = Instant::now();
        let posts = engines
            .iter()
            .map(|engine| engine.post_notifying(MESSAGES, CHANNEL));
        try_join_all(posts).await?;
        let notifying = started.elapsed();
        if round > 0 {
            let messages = float(WRITERS * MESSAGES);
            without.push(messages / quiet.as_secs_f64());
            with.push(messages / notifying.as_secs_f64());
        }
    }
    let mut table = Table::new(
        "Engine alone: messages of 4 writers in 4 workspaces, one per transaction",
        &["", "per second", "ratio"],
    );
    table.row([
        "without NOTIFY".to_owned(),
        spread(&without, 0),
        "1".to_owned(),
    ]);
    table.row([
        "NOTIFY in the transaction".to_owned(),
        spread(&with, 0),
        format!("{:.2}", ratio(&with, &without)),
    ]);
    table.print();
    Ok(())
}
