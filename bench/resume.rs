//! Recovery of a client after a dropped connection: resuming from its cursor, compared with a full reload.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

use crate::{
    client::{Team, read_hello, text},
    engine::Engine,
    process::Server,
    report::{Table, float, median, ms, ratio},
};

const MISSED: usize = 1000;
const PAGE: usize = 50;
const ROUNDS: usize = 15;
const MEMBERS: usize = 20;

pub(crate) async fn run() -> anyhow::Result<()> {
    let server = Server::start(&[]).await?;
    let team = Team::make(&server.process.address, MEMBERS).await?;
    let thread = team.thread().await?;
    let engine = Engine::open(&server.scratch.place()?, Some(&thread)).await?;
    engine.post(MISSED, MISSED).await?;
    let head = engine.seq().await?;
    let since = head - i64::try_from(MISSED)?;
    engine.close().await?;

    let mut http = team.http(0).await?;
    let mut took: [Vec<f64>; 2] = Default::default();
    let mut cpu = [Duration::ZERO; 2];
    let mut bytes = [0; 2];
    for round in 0..=ROUNDS {
        let mut ws = team.silent(0).await?;
        let (before, started) = (server.process.cpu(), Instant::now());
        let texts = read_hello(&mut ws, &json!({"since": since})).await?;
        let resumed = (
            started.elapsed(),
            server.process.cpu().saturating_sub(before),
        );
        anyhow::ensure!(texts.len() == MISSED + 2, "{} frames", texts.len());
        bytes[0] = texts.iter().map(String::len).sum();

        let mut ws = team.silent(0).await?;
        let (before, started) = (server.process.cpu(), Instant::now());
        bytes[1] = read_hello(&mut ws, &json!({}))
            .await?
            .iter()
            .map(String::len)
            .sum();
        let list = format!("/v1/channels/{}/threads", team.general);
        for path in ["/v1/snapshot", &list] {
            let reply = http.send("GET", path, "").await?;
            reply.json()?;
            bytes[1] += reply.body.len();
        }
        let mut before_id = String::new();
        for _ in 0..MISSED / PAGE {
            let path = format!("/v1/threads/{thread}/messages?limit={PAGE}{before_id}");
            let reply = http.send("GET", &path, "").await?;
            bytes[1] += reply.body.len();
            let page: Value = reply.json()?;
            before_id = format!(
                "&before={}",
                text(&page, "/first_id").context("the page is empty")?
            );
        }
        let loaded = (
            started.elapsed(),
            server.process.cpu().saturating_sub(before),
        );
        if round > 0 {
            for (n, (time, used)) in [resumed, loaded].into_iter().enumerate() {
                took[n].push(ms(time));
                cpu[n] += used;
            }
        }
    }
    let [resume, load] = &took;
    let mut table = Table::new(
        "Catching up on 1,000 events",
        &[
            "",
            "resume by `since`",
            "snapshot and 20 pages of 50",
            "ratio",
        ],
    );
    table.row([
        "ms to live".to_owned(),
        format!("{:.1}", median(resume)),
        format!("{:.1}", median(load)),
        format!("{:.1}", ratio(load, resume)),
    ]);
    let [a, b] = cpu.map(|used| ms(used) / float(ROUNDS));
    table.row([
        "server CPU-ms".to_owned(),
        format!("{a:.1}"),
        format!("{b:.1}"),
        format!("{:.1}", b / a),
    ]);
    let [a, b] = bytes.map(float);
    table.row([
        "KiB".to_owned(),
        format!("{:.0}", a / 1024.0),
        format!("{:.0}", b / 1024.0),
        format!("{:.1}", b / a),
    ]);
    table.print();
    Ok(())
}
