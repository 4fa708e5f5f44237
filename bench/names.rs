//! Threads that the quick switcher finds by name, compared with a search for messages with the same words.

use std::time::Instant;

use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    client::{Http, Team},
    process::{self, Server},
    report::{Table, ms, percentile, say},
    words::Words,
};

const THREADS: usize = 100_000;
const MAKERS: usize = 16;
const QUERIES: usize = 300;
/// Queries before the measured ones.
const WARM_UP: usize = 30;
/// Number of words of a query, of which every other one is a content word.
const QUERY_WORDS: usize = 4;

/// Starts threads in #general.
async fn start_threads(team: &Team, texts: &[String]) -> anyhow::Result<()> {
    let mut makers = JoinSet::new();
    for some in texts.chunks(texts.len().div_ceil(MAKERS)) {
        let (team, some) = (team.clone(), some.to_vec());
        makers.spawn(async move {
            let path = format!("/v1/channels/{}/threads", team.general);
            let mut http = team.http(0).await?;
            for text in some {
                http.post(&path, &json!({"content": text})).await?;
            }
            Ok::<(), anyhow::Error>(())
        });
    }
    while let Some(made) = makers.join_next().await {
        made??;
    }
    Ok(())
}

/// Time of a search in ms.
async fn search(http: &mut Http, query: &str, kind: &str) -> anyhow::Result<f64> {
    let path = format!("/v1/search?q={}{kind}", query.replace(' ', "%20"));
    let started = Instant::now();
    let reply = http.send("GET", &path, "").await?;
    let took = ms(started.elapsed());
    reply.json()?;
    Ok(took)
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let server = Server::start(&[]).await?;
    let team = Team::make(&server.process.address, 2).await?;
    let mut words = Words::new();
    let texts: Vec<String> = (0..THREADS).map(|_| words.message()).collect();
    start_threads(&team, &texts).await?;
    let mut http = team.http(1).await?;
    let (mut names, mut messages) = (Vec::new(), Vec::new());
    // Names are in different places of the list.
    for (n, text) in texts
        .iter()
        .step_by(THREADS / (WARM_UP + QUERIES))
        .enumerate()
    {
        let query: Vec<&str> = text.split(' ').take(QUERY_WORDS).collect();
        let query = query.join(" ");
        // Whichever runs second reads cached pages, so the order alternates.
        let mut took = [0.0; 2];
        for turn in [n % 2, 1 - n % 2] {
            let kind = ["&kind=thread,fork", ""][turn];
            took[turn] = search(&mut http, &query, kind).await?;
        }
        if n >= WARM_UP {
            names.push(took[0]);
            messages.push(took[1]);
        }
    }
    let mut table = Table::new(
        "Search for names among 10⁵ threads, ms",
        &["", "p50", "p95"],
    );
    for (name, values) in [
        ("threads and deep dives by name", &names),
        ("`/v1/search`, same words", &messages),
    ] {
        let cells = [0.5, 0.95].map(|p| format!("{:.2}", percentile(values, p)));
        table.row(std::iter::once(name.to_owned()).chain(cells));
    }
    table.print();
    say(&format!(
        "\n{}. p95 of names, of messages: {:.2}.",
        process::engine(),
        percentile(&names, 0.95) / percentile(&messages, 0.95)
    ));
    Ok(())
}
