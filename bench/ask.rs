//! Time from a message that mentions an agent to the model request, compared with the same number of durable writes.

use std::time::Instant;

use serde_json::json;

use crate::{
    client::{Http, Team, Ws, completed, text},
    engine::Engine,
    model::Model,
    process::Server,
    report::{Table, ms, percentile, say},
};

const ROUNDS: usize = 5;
const ASKS: usize = 60;
/// Number of commits before the model request: the message with its task, the claim, and the record of the context.
const COMMITS: usize = 3;

/// Posts a mention and waits for the model request and the end of the task; returns the time to the request in ms.
pub(crate) async fn ask(
    http: &mut Http,
    thread: &str,
    model: &mut Model,
    ws: &mut Ws,
) -> anyhow::Result<f64> {
    ask_for(http, thread, model, ws, "vibe").await
}

/// Like `ask`, for any agent.
pub(crate) async fn ask_for(
    http: &mut Http,
    thread: &str,
    model: &mut Model,
    ws: &mut Ws,
    agent: &str,
) -> anyhow::Result<f64> {
    let path = format!("/v1/threads/{thread}/messages");
    let started = Instant::now();
    let body = json!({"content": format!("@{agent} how far are we?")}).to_string();
    let posted = http.send("POST", &path, &body).await?.json()?;
    let asked = model.asked().await?;
    completed(ws, &text(&posted, "/tasks/0/id")?).await?;
    Ok(ms(asked.saturating_duration_since(started)))
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let mut model = Model::start().await?;
    let mut settings = model.settings();
    // A pass would start before some of the replies and commit as well.
    settings.push(("COMPACTION", "off"));
    let server = Server::start(&settings).await?;
    let team = Team::make(&server.process.address, 2).await?;
    let mut http = team.http(0).await?;
    let mut ws = team.socket(1).await?;

    let other = Server::start(&[]).await?;
    let other_team = Team::make(&other.process.address, 1).await?;
    other_team.thread().await?;
    let scratch = other.into_database()?;
    let engine = Engine::open(&scratch.place()?, None).await?;

    let (mut asks, mut writes) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let thread = team.thread().await?;
        for _ in 0..ASKS {
            let took = ask(&mut http, &thread, &mut model, &mut ws).await?;
            let started = Instant::now();
            engine.post(COMMITS, 1).await?;
            if round > 0 {
                asks.push(took);
                writes.push(ms(started.elapsed()));
            }
        }
    }
    let mut table = Table::new("Mention to model request, ms", &["", "p50", "p99"]);
    let mut row = |name: &str, f: &dyn Fn(f64) -> f64| {
        table.row([
            name.to_owned(),
            format!("{:.2}", f(0.5)),
            format!("{:.2}", f(0.99)),
        ]);
    };
    row("sent → the model has the request", &|p| {
        percentile(&asks, p)
    });
    row("as many bare durable writes", &|p| percentile(&writes, p));
    row("over its commits", &|p| {
        percentile(&asks, p) - percentile(&writes, p)
    });
    table.print();
    say(&format!(
        "\n{} sequential mentions, alternating with the writes.",
        asks.len()
    ));
    Ok(())
}
