//! The newest 50 messages of a thread and the context of a task, in a short and in a long thread.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use openvibe::{
    agents::{context, profiles},
    db::{Db, Place},
    ids::{TaskId, ThreadId},
    tasks::queue,
};

use crate::{
    ask::ask,
    client::Team,
    engine::{Engine, Rows},
    model::Model,
    process::Server,
    report::{Table, float, median, ms, percentile, ratio, say},
};

const SHORT: usize = 1000;
const LONG: usize = 100_000;
const ROUNDS: usize = 10;
const READS: usize = 200;
const ASKS: usize = 10;

/// What was found in one of the two threads, in ms, a value a round.
#[derive(Default)]
struct Found {
    page: Vec<f64>,
    page_cpu: Vec<f64>,
    ask: Vec<f64>,
    context: Vec<f64>,
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let mut model = Model::start().await?;
    let server = Server::start(&model.settings())?;
    let team = Team::make(&server.process.address, 2).await?;
    let threads = [team.thread().await?, team.thread().await?];
    for (thread, size) in threads.iter().zip([SHORT, LONG]) {
        let mut engine = Engine::open(&server.scratch.database(), Some(thread)).await?;
        engine.insert(Rows::History, size - 1, 5000).await?;
    }
    let mut http = team.http(0).await?;
    let mut ws = team.socket(1).await?;
    let mut found: [Found; 2] = Default::default();
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
            let mut asks = Vec::new();
            for _ in 0..ASKS {
                asks.push(ask(&mut http, thread, &mut model, &mut ws).await?);
            }
            if round > 0 {
                found.ask.push(median(&asks));
            }
        }
    }
    drop((http, ws));
    let scratch = server.into_database()?;
    contexts(&Place::Sqlite(scratch.database()), &threads, &mut found).await?;

    let [short, long] = &found;
    let mut table = Table::new(
        "Reads in a thread of 1,000 and of 100,000 messages, ms",
        &["", "10³", "10⁵", "ratio"],
    );
    let rows: [(&str, &[f64], &[f64]); 4] = [
        ("newest 50 over HTTP", &short.page, &long.page),
        ("its server CPU", &short.page_cpu, &long.page_cpu),
        (
            "context of a task, from the database",
            &short.context,
            &long.context,
        ),
        ("mention → model request, all of it", &short.ask, &long.ask),
    ];
    for (name, short, long) in rows {
        table.row([
            name.to_owned(),
            format!("{:.3}", median(short)),
            format!("{:.3}", median(long)),
            format!("{:.2}", ratio(long, short)),
        ]);
    }
    table.print();
    say(&format!(
        "\nMedians of {ROUNDS} rounds in turn; p90 of the context: {:.3} and {:.3}.",
        percentile(&short.context, 0.9),
        percentile(&long.context, 0.9)
    ));
    Ok(())
}

/// Loads the context of each thread's newest task, in this process.
async fn contexts(
    place: &Place,
    threads: &[String; 2],
    found: &mut [Found; 2],
) -> anyhow::Result<()> {
    let db = Db::open(place, Arc::new(|_| {})).await?;
    for round in 0..=ROUNDS {
        for (thread, found) in threads.iter().zip(found.iter_mut()) {
            let mut c = db.snapshot().await?;
            let id: Option<TaskId> = c
                .q("select max(id) from tasks where thread_id = $1")
                .bind(thread.parse::<ThreadId>()?)
                .value()
                .await?;
            let task = queue::find_task(&mut c, id.context("a task")?).await?;
            let task = task.context("a task")?;
            let seat = task.seat().context("a task of the thread")?;
            let agent = profiles::get_resolved(&mut c, seat.agent, seat.agent_version).await?;
            let started = Instant::now();
            for _ in 0..READS {
                context::load(&mut c, &task, &agent)
                    .await?
                    .context("a context")?;
            }
            if round > 0 {
                found.context.push(ms(started.elapsed()) / float(READS));
            }
        }
    }
    tokio::time::timeout(Duration::from_secs(10), db.close()).await?;
    Ok(())
}
