//! Posts while four people search, or load the app with everything unread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use openvibe::db::Db;
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    client::{Http, Team},
    crowd::{self, Size},
    engine::Engine,
    process::{self, Server},
    report::{Table, float, median, ms, percentile, ratio, say},
};

const SIZE: Size = Size {
    members: 100,
    channels: 1_000,
};
/// Number of messages in one thread, in addition to those in the channels.
const MESSAGES: usize = 900_000;
const READERS: usize = 4;
const ROUNDS: usize = 5;
const POSTS: usize = 200;
/// Load during the posts. Every message contains words that start with the searched prefixes.
const LOADS: [(&str, &[&str]); 3] = [
    ("nobody else", &[]),
    (
        "4 people who search a prefix of two letters",
        &["/v1/search?q=be", "/v1/search?q=so"],
    ),
    (
        "4 people who open the app, everything unread",
        &["/v1/snapshot"],
    ),
];

/// Measurements under one load.
#[derive(Default)]
struct Found {
    /// Time of each post in ms.
    posts: Vec<f64>,
    /// 99th percentile of each round in ms.
    p99: Vec<f64>,
    /// Number of reads per second, one value per round.
    reads: Vec<f64>,
    /// Number of reads that were rejected because the slow lane was full, or that exceeded its deadline.
    rejected: usize,
}

/// Number of one person's reads in a round.
#[derive(Default)]
struct Reads {
    answered: usize,
    rejected: usize,
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let server = Server::start(&[]).await?;
    let team = Team::make(&server.process.address, 1 + READERS).await?;
    let long = team.thread().await?;
    let place = server.scratch.place()?;
    let db = Db::open(&place, Arc::new(|_| {})).await?;
    crowd::fill(&db, team.workspace.parse()?, SIZE).await?;
    db.close().await;
    let engine = Engine::open(&place, Some(&long)).await?;
    engine.fill(MESSAGES).await?;
    engine.close().await?;
    let mut http = team.http(0).await?;
    let thread = team.thread().await?;
    let mut found: [Found; LOADS.len()] = Default::default();
    for round in 0..=ROUNDS {
        for ((_, paths), found) in LOADS.iter().zip(&mut found) {
            let stop = Arc::new(AtomicBool::new(false));
            let mut reading = JoinSet::new();
            for n in 0..if paths.is_empty() { 0 } else { READERS } {
                let reader = team.http(1 + n).await?;
                reading.spawn(read(reader, paths, Arc::clone(&stop)));
            }
            let started = Instant::now();
            let posts = post(&mut http, &thread).await?;
            stop.store(true, Ordering::Relaxed);
            let took = started.elapsed();
            let mut answered = 0;
            while let Some(reads) = reading.join_next().await {
                let reads = reads??;
                answered += reads.answered;
                found.rejected += reads.rejected;
            }
            if round > 0 {
                found.p99.push(percentile(&posts, 0.99));
                found.posts.extend(posts);
                found.reads.push(float(answered) / took.as_secs_f64());
            }
        }
    }
    print(&found);
    Ok(())
}

async fn post(http: &mut Http, thread: &str) -> anyhow::Result<Vec<f64>> {
    let path = format!("/v1/threads/{thread}/messages");
    let mut took = Vec::with_capacity(POSTS);
    for _ in 0..POSTS {
        let started = Instant::now();
        http.post(&path, &json!({"content": "Said while others read."}))
            .await?;
        took.push(ms(started.elapsed()));
    }
    Ok(took)
}

async fn read(mut http: Http, paths: &[&str], stop: Arc<AtomicBool>) -> anyhow::Result<Reads> {
    let mut reads = Reads::default();
    while !stop.load(Ordering::Relaxed) {
        for path in paths {
            let reply = http.send("GET", path, "").await?;
            match reply.status {
                200 => reads.answered += 1,
                503 => {
                    reads.rejected += 1;
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                status => anyhow::bail!("{path}: {status}"),
            }
        }
    }
    Ok(reads)
}

fn print(found: &[Found; LOADS.len()]) {
    let quiet = &found[0];
    let mut table = Table::new(
        "Posts beside people who read, ms",
        &[
            "beside",
            "p50",
            "p99",
            "of quiet",
            "2 × quiet + 20 ms",
            "reads a second",
            "rejected",
        ],
    );
    let limit = 2.0 * percentile(&quiet.posts, 0.99) + 20.0;
    for ((name, _), found) in LOADS.iter().zip(found) {
        table.row([
            (*name).to_owned(),
            format!("{:.2}", median(&found.posts)),
            format!("{:.2}", percentile(&found.posts, 0.99)),
            format!("{:.2}", ratio(&found.p99, &quiet.p99)),
            format!("{limit:.2}"),
            format!("{:.1}", median(&found.reads)),
            found.rejected.to_string(),
        ]);
    }
    table.print();
    say(&format!(
        "\n{}. {ROUNDS} alternating rounds of {POSTS} posts; the ratio is the median of those of the p99.",
        process::engine()
    ));
}
