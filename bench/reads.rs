//! Reading the newest 50 messages of a thread, posting, and loading the context of a task, as the thread grows.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use openvibe::{
    agents::profiles,
    db::{DatabaseUrl, Db},
    ids::{TaskId, ThreadId},
    meaning::VectorAnswer,
    replies::context,
    tasks::queue,
};

use crate::{
    ask::ask,
    client::Team,
    engine::Engine,
    model::Model,
    process::{self, Server},
    report::{Table, float, median, ms, ratio, say},
};

const COMPACTION: openvibe::replies::compaction::profile::CompactionSettings =
    openvibe::replies::compaction::profile::CompactionSettings {
        is_on: true,
        interval: std::time::Duration::from_mins(1),
    };

const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
const ROUNDS: usize = 10;
const READS: usize = 200;
const ASKS: usize = 10;

/// Measurements of one thread in ms, with one value per round.
#[derive(Default)]
struct Found {
    page: Vec<f64>,
    page_cpu: Vec<f64>,
    post: Vec<f64>,
    ask: Vec<f64>,
    context: Vec<f64>,
}

/// Selects one measurement.
type Values = fn(&Found) -> &[f64];

pub(crate) async fn run() -> anyhow::Result<()> {
    let mut model = Model::start().await?;
    let server = Server::start(&model.settings()).await?;
    let team = Team::make(&server.process.address, 2).await?;
    let mut threads = Vec::new();
    for size in SIZES {
        let thread = team.thread().await?;
        let engine = Engine::open(&server.scratch.place()?, Some(&thread)).await?;
        engine.fill(size - 1).await?;
        engine.close().await?;
        threads.push(thread);
    }
    let mut http = team.http(0).await?;
    let mut found: [Found; SIZES.len()] = Default::default();
    for round in 0..=ROUNDS {
        for (thread, found) in threads.iter().zip(&mut found) {
            let path = format!("/v1/threads/{thread}/messages?limit=50");
            let (before, started) = (server.process.cpu(), Instant::now());
            for _ in 0..READS {
                http.send("GET", &path, "").await?.json()?;
            }
            if round > 0 {
                found.page.push(ms(started.elapsed()) / float(READS));
                found
                    .page_cpu
                    .push(ms(server.process.cpu().saturating_sub(before)) / float(READS));
            }
            let (path, body) = (
                format!("/v1/threads/{thread}/messages"),
                r#"{"content":"One more."}"#,
            );
            let started = Instant::now();
            for _ in 0..ASKS {
                http.send("POST", &path, body).await?.json()?;
            }
            if round > 0 {
                found.post.push(ms(started.elapsed()) / float(ASKS));
            }
            let mut asks = Vec::new();
            // Opens a new socket, because the server closes one that sends nothing for 50 s.
            let mut ws = team.socket(1).await?;
            for _ in 0..ASKS {
                asks.push(ask(&mut http, thread, &mut model, &mut ws).await?);
            }
            if round > 0 {
                found.ask.push(median(&asks));
            }
        }
    }
    drop(http);
    let scratch = server.into_database()?;
    contexts(&scratch.place()?, &threads, &mut found).await?;

    let mut table = Table::new(
        "Growing thread, ms",
        &["", "10³", "10⁴", "10⁵", "10⁶", "10⁶ / 10³"],
    );
    let rows: [(&str, Values); 5] = [
        ("newest 50 over HTTP", |f| &f.page),
        ("server CPU of that", |f| &f.page_cpu),
        ("sequential posts", |f| &f.post),
        ("context of a task, from the database", |f| &f.context),
        ("mention → model request, total", |f| &f.ask),
    ];
    for (name, values) in rows {
        let [first, .., last] = &found;
        table.row(
            std::iter::once(name.to_owned())
                .chain(found.iter().map(|f| format!("{:.3}", median(values(f)))))
                .chain([format!("{:.2}", ratio(values(last), values(first)))]),
        );
    }
    table.print();
    say(&format!(
        "\n{}. Medians of {ROUNDS} alternating rounds.",
        process::engine()
    ));
    Ok(())
}

/// Loads the context of each thread's newest task in this process, without the server.
async fn contexts(
    place: &DatabaseUrl,
    threads: &[String],
    found: &mut [Found],
) -> anyhow::Result<()> {
    let db = Db::open(place, Arc::new(|_| {})).await?;
    for round in 0..=ROUNDS {
        for (thread, found) in threads.iter().zip(found.iter_mut()) {
            let mut c = db.snapshot().await?;
            let id: Option<TaskId> = c
                .q("select id from tasks where thread_id = $1 and kind = 'reply' order by id desc limit 1")
                .bind(thread.parse::<ThreadId>()?)
                .value()
                .await?;
            let task = queue::find_task(&mut c, id.context("the thread has no task")?).await?;
            let task = task.context("the task does not exist")?;
            let target = task.target().context("the task has no agent")?;
            let agent = profiles::get_resolved(&mut c, target.agent, target.agent_version).await?;
            let started = Instant::now();
            for _ in 0..READS {
                context::load(&mut c, &task, &agent, COMPACTION, VectorAnswer::Unused)
                    .await?
                    .context("the task has no context")?;
            }
            if round > 0 {
                found.context.push(ms(started.elapsed()) / float(READS));
            }
        }
    }
    tokio::time::timeout(Duration::from_secs(10), db.close()).await?;
    Ok(())
}
