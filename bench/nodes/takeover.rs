//! A node is killed, and its 5,000 sockets resume on the other one, which continues to deliver to its own sockets.

use std::{
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use tokio::{
    sync::{oneshot, watch},
    task::JoinSet,
};

use super::{
    ARRIVES_WITHIN,
    group::{Bus, Group, Used},
};
use crate::{
    client::{Team, Ws, next_text, read_hello},
    fanout::MESSAGE,
    report::{Table, float, median, ms, percentile, say},
    sends::CONTENT,
};

const SOCKETS: usize = 5000;
const MEMBERS: usize = 50;
/// Number of sockets that are opened concurrently before the node is killed.
const OPENED_AT_ONCE: usize = 32;
/// Events that each socket missed.
const MISSED: usize = 10;
/// Number of sockets that resume one after another, for comparison.
const ALONE: usize = 200;
/// Sockets of another workspace on the surviving node, and the interval between its posts.
const WATCHERS: usize = 50;
const POST_EVERY: Duration = Duration::from_millis(50);
/// Duration of the posts on the surviving node before the other one is killed.
const QUIET: Duration = Duration::from_secs(6);
const RETRY_EVERY: Duration = Duration::from_millis(100);
const RESUMES_WITHIN: Duration = Duration::from_mins(1);

/// Posts in a workspace whose members are all connected to the surviving node. They run in their own thread: otherwise, arrivals
/// would be recorded late while this process resumes thousands of sockets.
struct Traffic {
    thread: JoinHandle<anyhow::Result<Vec<Post>>>,
    stop: watch::Sender<bool>,
}

/// A post, and the latencies of its deliveries in ms.
struct Post {
    at: Instant,
    latencies: Vec<f64>,
}

impl Traffic {
    /// Starts the posts. Returns when the sockets are open.
    async fn start(team: Team) -> anyhow::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let (opened, is_open) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?
                .block_on(post_until(team, opened, stopped))
        });
        // If the channel closes without a message, the thread has failed, and `finish` reports why.
        drop(is_open.await);
        Ok(Self { thread, stop })
    }

    /// Ends the posts and waits for all deliveries.
    fn finish(self) -> anyhow::Result<Vec<Post>> {
        self.stop.send_replace(true);
        let posts = self.thread.join();
        posts.map_err(|_| anyhow::anyhow!("the posts panicked"))?
    }
}

/// Posts until `stopped`; returns all posts once they are delivered.
async fn post_until(
    team: Team,
    opened: oneshot::Sender<()>,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<Vec<Post>> {
    let path = format!("/v1/threads/{}/messages", team.thread().await?);
    let (total, known_total) = watch::channel(None);
    let mut recording = JoinSet::new();
    for n in 0..WATCHERS {
        recording.spawn(record(team.socket(n).await?, known_total.clone()));
    }
    let mut http = team.http(0).await?;
    // Fails only if the benchmark ends.
    let _unheard = opened.send(());
    let mut posts = Vec::new();
    let mut pace = tokio::time::interval(POST_EVERY);
    while !*stopped.borrow() {
        pace.tick().await;
        posts.push(Post {
            at: Instant::now(),
            latencies: Vec::with_capacity(WATCHERS),
        });
        http.post(&path, &json!({"content": CONTENT})).await?;
    }
    total.send_replace(Some(posts.len()));
    while let Some(arrivals) = recording.join_next().await {
        for (post, arrival) in posts.iter_mut().zip(arrivals??) {
            let latency = arrival.saturating_duration_since(post.at);
            post.latencies.push(ms(latency));
        }
    }
    Ok(posts)
}

/// Records the arrivals of all posts.
async fn record(
    mut ws: Ws,
    mut total: watch::Receiver<Option<usize>>,
) -> anyhow::Result<Vec<Instant>> {
    let mut times = Vec::new();
    loop {
        if total.borrow().is_some_and(|total| times.len() >= total) {
            return Ok(times);
        }
        tokio::select! {
            text = tokio::time::timeout(ARRIVES_WITHIN, next_text(&mut ws)) => {
                if text.context("a message did not arrive")??.starts_with(MESSAGE) {
                    times.push(Instant::now());
                }
            }
            changed = total.changed() => changed?,
        }
    }
}

/// A socket that is live again.
struct Resumed {
    _ws: Ws,
    after: Duration,
    /// Causes of failed attempts.
    failures: Vec<String>,
}

/// Retries until the socket has resumed; fails after `RESUMES_WITHIN`.
async fn resume(
    team: Arc<Team>,
    member: usize,
    hello: Arc<Value>,
    lost_at: Instant,
) -> anyhow::Result<Resumed> {
    let mut failures = Vec::new();
    loop {
        match resume_once(&team, member, &hello).await {
            Ok(ws) => {
                return Ok(Resumed {
                    _ws: ws,
                    after: lost_at.elapsed(),
                    failures,
                });
            }
            Err(e) if lost_at.elapsed() > RESUMES_WITHIN => return Err(e),
            Err(e) => {
                failures.push(format!("{e:#}"));
                tokio::time::sleep(RETRY_EVERY).await;
            }
        }
    }
}

async fn resume_once(team: &Team, member: usize, hello: &Value) -> anyhow::Result<Ws> {
    let mut ws = team.silent(member).await?;
    let frames = read_hello(&mut ws, hello).await?;
    anyhow::ensure!(frames.len() >= MISSED + 2, "{} frames", frames.len());
    Ok(ws)
}

/// Hello of a client that missed events: its `since` is the position of a new socket minus `MISSED`.
async fn hello_of_lost(team: &Team) -> anyhow::Result<Value> {
    let frames = read_hello(&mut team.silent(0).await?, &json!({})).await?;
    let ready: Value = serde_json::from_str(frames.first().context("no frame")?)?;
    let seq = ready["seq"].as_i64().context("no position")?;
    Ok(json!({"since": seq - i64::try_from(MISSED)?, "epoch": ready["epoch"]}))
}

/// Formats the CPU time per socket in ms, with the shares of nodes, bus, and database.
fn cost(used: Used, sockets: usize) -> String {
    let each = |time: Duration| ms(time) / float(sockets);
    let [total, nodes, bus, database] =
        [used.total(), used.nodes, used.bus, used.database].map(each);
    format!("{total:.2} = {nodes:.2} + {bus:.2} + {database:.2}")
}

pub(super) async fn run() -> anyhow::Result<()> {
    let settings = [("SIGNUP", "open")];
    let mut group = Group::start(2, Bus::Nats, &settings).await?;
    let lost = Team::make(group.host(0), MEMBERS).await?;
    let survivor = Arc::new(lost.at(group.host(1)));
    let other = Team::numbered(group.host(1), MEMBERS, WATCHERS).await?;
    // Keeps the room open on the survivor before the sockets resume there.
    let _open = survivor.socket(0).await?;
    let messages = format!("/v1/threads/{}/messages", survivor.thread().await?);
    let mut http = survivor.http(0).await?;
    for _ in 0..MISSED {
        http.post(&messages, &json!({"content": CONTENT})).await?;
    }
    let hello = Arc::new(hello_of_lost(&survivor).await?);

    let mut alone = Vec::new();
    // Keeps the sockets open, so that presence does not change.
    let mut single = Vec::new();
    let before = group.used();
    for n in 0..ALONE {
        let started = Instant::now();
        single.push(resume_once(&survivor, n, &hello).await?);
        alone.push(started.elapsed().as_secs_f64());
    }
    let used_alone = group.used() - before;

    let sockets: Vec<Ws> = stream::iter(0..SOCKETS)
        .map(|n| lost.socket(n))
        .buffer_unordered(OPENED_AT_ONCE)
        .try_collect()
        .await?;
    let traffic = Traffic::start(other).await?;
    tokio::time::sleep(QUIET).await;

    // Kills the first node, like `kill -9`.
    drop(group.nodes.remove(0));
    let lost_at = Instant::now();
    drop(sockets);
    let before = group.used();
    let mut resuming = JoinSet::new();
    for n in 0..SOCKETS {
        resuming.spawn(resume(
            Arc::clone(&survivor),
            n,
            Arc::clone(&hello),
            lost_at,
        ));
    }
    let mut resumed = Vec::with_capacity(SOCKETS);
    while let Some(one) = resuming.join_next().await {
        resumed.push(one??);
    }
    let all_live_at = Instant::now();
    let used = group.used() - before;
    let posts = traffic.finish()?;

    let took: Vec<f64> = resumed.iter().map(|one| one.after.as_secs_f64()).collect();
    let failures: Vec<&String> = resumed.iter().flat_map(|one| &one.failures).collect();
    let mut table = Table::new(
        "Sockets that resume after 10 missed events, on a node that keeps its own ones",
        &[
            "",
            "CPU-ms each: nodes + bus + database",
            "s until live p50",
            "p99",
        ],
    );
    let rows = [
        (
            format!("{ALONE} sockets, one after another"),
            cost(used_alone, ALONE),
            &alone,
        ),
        (
            format!("{SOCKETS} sockets of a killed node"),
            cost(used, SOCKETS),
            &took,
        ),
    ];
    for (name, cost, took) in rows {
        table.row([
            name,
            cost,
            format!("{:.3}", median(took)),
            format!("{:.3}", percentile(took, 0.99)),
        ]);
    }
    table.print();
    say(&format!(
        "\nWhile the sockets of the killed node resume, 20 posts per second are delivered to {WATCHERS} others. \
         {} attempts failed and were repeated{}.",
        failures.len(),
        failures
            .first()
            .map(|cause| format!(" (the first one: {cause})"))
            .unwrap_or_default()
    ));

    let latencies = |is_chosen: &dyn Fn(&Post) -> bool| -> Vec<f64> {
        let chosen = posts.iter().filter(|post| is_chosen(post));
        chosen.flat_map(|post| post.latencies.clone()).collect()
    };
    let quiet = latencies(&|post| post.at < lost_at);
    let busy = latencies(&|post| (lost_at..all_live_at).contains(&post.at));
    let mut table = Table::new(
        "Post until delivery to 50 other sockets of the survivor, ms",
        &["", "deliveries", "p50", "p99", "of before"],
    );
    for (name, found) in [("before", &quiet), ("while sockets resume", &busy)] {
        table.row([
            name.to_owned(),
            found.len().to_string(),
            format!("{:.1}", median(found)),
            format!("{:.1}", percentile(found, 0.99)),
            format!("{:.2}", percentile(found, 0.99) / percentile(&quiet, 0.99)),
        ]);
    }
    table.print();
    Ok(())
}
