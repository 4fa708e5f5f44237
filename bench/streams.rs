//! Streamed replies: latency from a token to its watchers, and bytes per reply.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    client::{self, Team, Ws, next_text},
    model::{Model, Plan, stamp},
    process::Server,
    report::{Table, float, ms, percentile, say},
};

pub(crate) const STREAMS: usize = 100;
const ROUNDS: usize = 4;
const TOKENS: usize = 100;
/// Interval between tokens: 25 per second in each stream.
pub(crate) const TOKEN_EVERY: Duration = Duration::from_millis(40);

/// Latencies of one watcher in ms.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) first: Vec<f64>,
    /// Latency of the oldest token in each delta after the first.
    pub(crate) later: Vec<f64>,
}

/// Reads the deltas of one stream until its task ends.
pub(crate) async fn watch(mut ws: Ws, thread: Arc<str>) -> anyhow::Result<(Ws, Seen)> {
    let mut seen = Seen::default();
    loop {
        let text = next_text(&mut ws).await?;
        if text.starts_with(r#"{"type":"task.delta""#) {
            let now = stamp();
            let frame: Value = serde_json::from_str(&text)?;
            let sent: u128 = client::text(&frame, "/text")?
                .split(' ')
                .next()
                .unwrap_or_default()
                .parse()?;
            #[expect(clippy::cast_precision_loss, reason = "microseconds of one run")]
            let took = now.saturating_sub(sent) as f64 / 1e3;
            if frame["offset"] == 0 {
                seen.first.push(took);
            } else {
                seen.later.push(took);
            }
        } else if text.contains(r#""status":"completed""#) && text.contains(thread.as_ref()) {
            return Ok((ws, seen));
        }
    }
}

pub(crate) async fn run() -> anyhow::Result<()> {
    latency().await?;
    bytes().await
}

async fn latency() -> anyhow::Result<()> {
    let model = Model::start().await?;
    let server = Server::start(&model.settings()).await?;
    let team = Team::make(&server.process.address, 10).await?;
    let threads = try_join_all((0..STREAMS).map(|_| team.thread())).await?;
    let mut sockets = Vec::new();
    for (n, thread) in threads.iter().enumerate() {
        let mut ws = team.socket(n).await?;
        client::request(
            &mut ws,
            &json!({"type": "subscribe", "id": n, "thread_id": thread}),
        )
        .await?;
        sockets.push(ws);
    }
    let mut table = Table::new(
        "First token in → delta out, 100 streams at once, ms",
        &[
            "",
            "p50",
            "p99",
            "later tokens p50",
            "p99",
            "server CPU-µs per delta",
        ],
    );
    for (name, stagger) in [
        ("streams start 10 ms apart", Duration::from_millis(10)),
        ("all start at the same time", Duration::ZERO),
    ] {
        let mut all = Seen::default();
        let (mut cpu, mut deltas) = (Duration::ZERO, 0);
        for _ in 0..ROUNDS {
            model.answer(Plan {
                together: STREAMS,
                stagger,
                pieces: TOKENS,
                every: TOKEN_EVERY,
                text: None,
                ..Plan::short()
            });
            let before = server.process.cpu();
            let mut watching = JoinSet::new();
            for (ws, thread) in sockets.drain(..).zip(&threads) {
                watching.spawn(watch(ws, Arc::from(thread.as_str())));
            }
            let mut http = team.http(0).await?;
            for thread in &threads {
                let path = format!("/v1/threads/{thread}/messages");
                http.post(&path, &json!({"content": "@vibe go on"})).await?;
            }
            // Watchers finish in any order, so the sockets are assigned again for the next round.
            while let Some(watched) = watching.join_next().await {
                let (ws, seen) = watched??;
                deltas += seen.first.len() + seen.later.len();
                all.first.extend(seen.first);
                all.later.extend(seen.later);
                sockets.push(ws);
            }
            cpu += server.process.cpu().saturating_sub(before);
            sockets = reseat(&team, sockets, &threads).await?;
        }
        table.row([
            name.to_owned(),
            format!("{:.1}", percentile(&all.first, 0.5)),
            format!("{:.1}", percentile(&all.first, 0.99)),
            format!("{:.1}", percentile(&all.later, 0.5)),
            format!("{:.1}", percentile(&all.later, 0.99)),
            format!("{:.0}", ms(cpu) * 1e3 / float(deltas)),
        ]);
    }
    table.print();
    say(&format!(
        "\n{STREAMS} streams of {TOKENS} tokens, one every {} ms, each with its own watcher; {ROUNDS} rounds. \
         Later deltas wait for the 50 ms window.",
        TOKEN_EVERY.as_millis()
    ));
    Ok(())
}

/// Opens new sockets for the next round, one per thread.
pub(crate) async fn reseat(
    team: &Team,
    old: Vec<Ws>,
    threads: &[String],
) -> anyhow::Result<Vec<Ws>> {
    drop(old);
    let mut sockets = Vec::new();
    for (n, thread) in threads.iter().enumerate() {
        let mut ws = team.socket(n).await?;
        client::request(
            &mut ws,
            &json!({"type": "subscribe", "id": n, "thread_id": thread}),
        )
        .await?;
        sockets.push(ws);
    }
    Ok(sockets)
}

/// Measures the bytes that a watcher receives for a reply of 5,000 characters.
async fn bytes() -> anyhow::Result<()> {
    const PIECE: &str = "word";
    const PIECES: usize = 1000;
    let model = Model::start().await?;
    let server = Server::start(&model.settings()).await?;
    let team = Team::make(&server.process.address, 1).await?;
    let mut table = Table::new(
        "Bytes to a watcher for a reply of 5,000 characters",
        &[
            "speed of the model",
            "deltas",
            "delta bytes / text",
            "less 2 KiB",
            "with all events / text",
        ],
    );
    for every in [10_000, 2500, 0].map(Duration::from_micros) {
        let thread = team.thread().await?;
        let mut ws = team.socket(0).await?;
        client::request(
            &mut ws,
            &json!({"type": "subscribe", "id": 1, "thread_id": thread}),
        )
        .await?;
        model.answer(Plan {
            pieces: PIECES,
            every,
            text: Some(format!("{PIECE} ")),
            ..Plan::short()
        });
        let path = format!("/v1/threads/{thread}/messages");
        team.http(0)
            .await?
            .post(&path, &json!({"content": "@vibe write"}))
            .await?;
        let started = Instant::now();
        let (mut deltas, mut delta_bytes, mut all_bytes) = (0_usize, 0, 0);
        loop {
            let text = next_text(&mut ws).await?;
            all_bytes += text.len();
            if text.starts_with(r#"{"type":"task.delta""#) {
                deltas += 1;
                delta_bytes += text.len();
            }
            if text.contains(r#""status":"completed""#) {
                break;
            }
        }
        let said = float(PIECES * (PIECE.len() + 1));
        table.row([
            format!(
                "{:.0} tokens per second",
                float(PIECES) / started.elapsed().as_secs_f64()
            ),
            deltas.to_string(),
            format!("{:.2}", float(delta_bytes) / said),
            format!("{:.2}", (float(delta_bytes) - 2048.0) / said),
            format!("{:.2}", float(all_bytes) / said),
        ]);
    }
    table.print();
    Ok(())
}
