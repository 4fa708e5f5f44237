//! Throughput of acknowledged messages, compared with the engine alone: with large transactions, which is the maximum, and with one
//! transaction per message.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use serde_json::json;

use crate::{
    client::{self, Crowd, Http, Team, Ws},
    engine::Engine,
    process::{self, Server},
    report::{Table, float, median, ms, ratio, say, spread},
};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(2500);
const SENDERS: &[usize] = &[1, 16, 64];
const MEMBERS: usize = 16;
pub(crate) const CONTENT: &str = "The build is green again; I moved the release notes into the shared folder and asked Mia to read them.";

/// Measurements of a round.
#[derive(Default)]
struct Found {
    per_second: Vec<f64>,
    cpu_ms: Vec<f64>,
}

impl Found {
    async fn time(
        &mut self,
        server: &Server,
        sending: impl Future<Output = anyhow::Result<usize>>,
    ) -> anyhow::Result<()> {
        let (before, started) = (server.process.cpu(), Instant::now());
        let sent = float(sending.await?);
        self.per_second.push(sent / started.elapsed().as_secs_f64());
        self.cpu_ms
            .push(ms(server.process.cpu().saturating_sub(before)) / sent);
        Ok(())
    }
}

pub(crate) async fn post(http: &mut Http, thread: &str) -> anyhow::Result<usize> {
    let path = format!("/v1/threads/{thread}/messages");
    let started = Instant::now();
    let mut sent = 0;
    while started.elapsed() < ROUND {
        let client_id = uuid::Uuid::now_v7().simple().to_string();
        let body = json!({"content": CONTENT, "client_id": client_id}).to_string();
        let reply = http.send("POST", &path, &body).await?;
        anyhow::ensure!(
            reply.status == 201,
            "{}",
            String::from_utf8_lossy(&reply.body)
        );
        sent += 1;
    }
    Ok(sent)
}

async fn send(ws: &mut Ws, thread: &str) -> anyhow::Result<usize> {
    let started = Instant::now();
    let mut sent = 0;
    while started.elapsed() < ROUND {
        let client_id = uuid::Uuid::now_v7().simple().to_string();
        let frame = json!({"type": "message.send", "id": sent, "thread_id": thread, "content": CONTENT, "client_id": client_id});
        client::request(ws, &frame).await?;
        sent += 1;
    }
    Ok(sent)
}

pub(crate) async fn sum<T>(senders: impl IntoIterator<Item = T>) -> anyhow::Result<usize>
where
    T: Future<Output = anyhow::Result<usize>>,
{
    Ok(try_join_all(senders).await?.into_iter().sum())
}

/// Creates a thread in a private channel of the nth member, so that a sender's socket receives only the sender's own messages.
async fn private_thread(team: &Team, n: usize) -> anyhow::Result<String> {
    let mut http = team.http(n).await?;
    let form = json!({"private": true, "name": format!("private-{n}")});
    let channel = client::text(&http.post("/v1/channels", &form).await?, "/id")?;
    let path = format!("/v1/channels/{channel}/threads");
    let started = http.post(&path, &json!({"content": CONTENT})).await?;
    client::text(&started, "/thread/id")
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let server = Server::start(&[]).await?;
    let team = Team::make(&server.process.address, MEMBERS).await?;
    let threads = try_join_all((0..MEMBERS).map(|_| team.thread())).await?;

    // The engine alone, on a database that the server created.
    let other = Server::start(&[]).await?;
    let other_team = Team::make(&other.process.address, 1).await?;
    let form = json!({"content": CONTENT, "client_id": "a"});
    let path = format!("/v1/channels/{}/threads", other_team.general);
    other_team.http(0).await?.post(&path, &form).await?;
    let scratch = other.into_database()?;
    let engine = Engine::open(&scratch.place()?, None).await?;

    let mut limit = Vec::new();
    let mut single = Vec::new();
    let mut over_http: Vec<Found> = SENDERS.iter().map(|_| Found::default()).collect();
    let mut over_ws: Vec<Found> = SENDERS.iter().map(|_| Found::default()).collect();
    let mut online: [Found; 3] = Default::default();
    let mut private = Vec::new();
    for n in 0..64 {
        private.push(private_thread(&team, n).await?);
    }
    for round in 0..=ROUNDS {
        let started = Instant::now();
        engine.post(10_000, 1000).await?;
        limit.push(10_000.0 / started.elapsed().as_secs_f64());
        let started = Instant::now();
        engine.post(1000, 1).await?;
        single.push(1000.0 / started.elapsed().as_secs_f64());
        for (found, &senders) in over_http.iter_mut().zip(SENDERS) {
            let mut https = try_join_all((0..senders).map(|n| team.http(n))).await?;
            let all = https
                .iter_mut()
                .enumerate()
                .map(|(n, http)| post(http, &threads[n % threads.len()]));
            found.time(&server, sum(all)).await?;
        }
        for (found, &senders) in over_ws.iter_mut().zip(SENDERS) {
            let mut sockets = try_join_all((0..senders).map(|n| team.socket(n))).await?;
            let all = sockets
                .iter_mut()
                .zip(&private)
                .map(|(ws, thread)| send(ws, thread));
            found.time(&server, sum(all)).await?;
        }
        // Sixteen people who are online and receive every message.
        let sockets = try_join_all((0..16).map(|n| team.socket(n))).await?;
        let crowd = Crowd::read(sockets, "{");
        let mut https = try_join_all((0..16).map(|n| team.http(n))).await?;
        online[0]
            .time(&server, post(&mut https[0], &threads[0]))
            .await?;
        let all = https
            .iter_mut()
            .zip(&threads)
            .map(|(http, thread)| post(http, thread));
        online[1].time(&server, sum(all)).await?;
        drop(crowd);
        let mut sockets = try_join_all((0..16).map(|n| team.socket(n))).await?;
        let all = sockets
            .iter_mut()
            .zip(&threads)
            .map(|(ws, thread)| send(ws, thread));
        online[2].time(&server, sum(all)).await?;
        if round == 0 {
            // The first round is a warm-up.
            limit.clear();
            single.clear();
            for found in over_http.iter_mut().chain(&mut over_ws).chain(&mut online) {
                *found = Found::default();
            }
        }
    }

    let mut table = Table::new(
        "Stored messages per second",
        &[
            "",
            "per second",
            "of engine limit",
            "of one transaction each",
            "server CPU-ms per message",
        ],
    );
    let mut row = |name: String, found: &Found| {
        table.row([
            name,
            spread(&found.per_second, 0),
            format!("{:.2}", ratio(&found.per_second, &limit)),
            format!("{:.2}", ratio(&found.per_second, &single)),
            format!("{:.2}", median(&found.cpu_ms)),
        ]);
    };
    for (found, senders) in over_http.iter().zip(SENDERS) {
        row(format!("HTTP, {senders} senders"), found);
    }
    for (found, senders) in over_ws.iter().zip(SENDERS) {
        row(
            format!("WebSocket, {senders} senders, private channels"),
            found,
        );
    }
    let names = [
        "16 online: HTTP, 1 sender",
        "16 online: HTTP, 16 senders",
        "16 online: WebSocket, 16 senders",
    ];
    for (found, name) in online.iter().zip(names) {
        row(name.to_owned(), found);
    }
    table.row([
        "engine limit: 1,000 messages per transaction".to_owned(),
        spread(&limit, 0),
        "1".to_owned(),
        String::new(),
        String::new(),
    ]);
    table.row([
        "engine: one transaction per message".to_owned(),
        spread(&single, 0),
        format!("{:.2}", ratio(&single, &limit)),
        "1".to_owned(),
        String::new(),
    ]);
    table.print();
    say(&format!(
        "\n{}. Medians of {ROUNDS} rounds (lowest to highest). The engine writes the same five rows (frame of {} bytes), prepared, on one connection. \
         The clients run on the same CPUs as the server.",
        process::engine(),
        engine.frame_bytes()
    ));
    Ok(())
}
