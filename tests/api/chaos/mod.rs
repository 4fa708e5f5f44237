//! Many clients work while the server is killed, paused, or out of disk space (or its database is restarted), and
//! while the model misbehaves. Afterwards, every acknowledged write is stored exactly once, the log has no gaps,
//! every client shows the same state as a fresh load, and every task has ended.
//!
//! A short round is part of the suite; `make chaos SECONDS=600 CLIENTS=8 SEED=7` runs for longer. A seed reproduces
//! each client's actions and the order of the faults, but not their timing.

use std::{io::Write, sync::Arc, time::Instant};

use serde_json::json;
use tokio::{sync::watch, task::JoinSet};

use crate::support::{Person, id, setting, sign_up, text, within};

mod check;
mod server;
mod worker;

use server::{Server, Trouble};
use worker::Worker;

/// Number of threads shared by all clients.
const THREADS: usize = 3;

/// Prints a line even if the test passes.
fn say(line: &str) {
    let line = format!("chaos: {line}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Prints a line only if the test fails.
#[expect(clippy::print_stderr, reason = "kept until then")]
fn note(began: Instant, acts: usize, trouble: Trouble) {
    eprintln!("{:?}, {acts} acts: {trouble:?}", began.elapsed());
}

/// Prints the command that reproduces a failure.
struct Again(String);

impl Drop for Again {
    fn drop(&mut self) {
        if std::thread::panicking() {
            say(&format!("failed; again: {}", self.0));
        }
    }
}

/// Address of the server, and state shared by all clients.
struct Stage {
    base: watch::Sender<String>,
    /// Number of actions so far.
    done: watch::Sender<usize>,
    /// Number of requests that were resent because there was no response.
    again: watch::Sender<usize>,
    /// Whether the clients should stop.
    over: watch::Sender<bool>,
    general: String,
    threads: Vec<(String, String)>,
}

impl Stage {
    fn base(&self) -> String {
        self.base.borrow().clone()
    }
}

/// A workspace with `n` people; the first one is its admin.
async fn people(base: &str, n: usize) -> Vec<Person> {
    let mut ada = sign_up(base, "Ada", None).await;
    let workspace = ada.post("/v1/workspaces", json!({"name": "Acme"})).await;
    ada.enter(&id(&workspace.is(201))).await;
    let mut all = vec![ada];
    for i in 1..n {
        let invite = all[0].post("/v1/invites", json!({})).await.is(201);
        let token = text(&invite, "/token");
        all.push(sign_up(base, &format!("Person {i}"), Some(&token)).await);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_chaos_exactly_once_and_all_clients_agree() {
    let seed: u64 = setting("OPENVIBE_TEST_CHAOS_SEED").unwrap_or(1);
    let clients: usize = setting("OPENVIBE_TEST_CHAOS_CLIENTS").unwrap_or(4).max(1);
    let seconds: Option<u64> = setting("OPENVIBE_TEST_CHAOS_SECONDS");
    let mut server = Server::start(seed, seconds).await;
    let engine = if server.cluster.is_some() {
        "postgres"
    } else {
        "sqlite"
    };
    let length = seconds.map_or("a short round".to_owned(), |s| format!("{s} s"));
    say(&format!(
        "seed {seed}, {clients} clients, {length}, {engine}"
    ));
    let _again = Again(format!(
        "make chaos SECONDS={} CLIENTS={clients} SEED={seed} ENGINE={engine}",
        seconds.unwrap_or(0)
    ));

    let people = people(&server.base(), clients).await;
    let ada = people[0].clone();
    let general = id(&ada.channel("general").await);
    let mut threads = Vec::new();
    for n in 0..THREADS {
        let started = ada.start(&general, &format!("Root {n}")).await;
        threads.push((text(&started, "/thread/id"), text(&started, "/message/id")));
    }
    let snapshot = ada.get("/v1/snapshot").await.ok();
    let roots = check::messages(&ada, &general).await.0;
    let stage = Arc::new(Stage {
        base: watch::channel(server.base()).0,
        done: watch::channel(0).0,
        again: watch::channel(0).0,
        over: watch::channel(false).0,
        general,
        threads,
    });
    let mut workers = JoinSet::new();
    for (n, person) in people.iter().enumerate() {
        let worker = Worker::new(&stage, person, &snapshot, &roots, (seed, n));
        workers.spawn(worker.run());
    }

    let began = Instant::now();
    let mut troubles = server.shuffled();
    while let Some(trouble) = troubles.pop() {
        let until = *stage.done.borrow() + server.pause();
        let mut done = stage.done.subscribe();
        tokio::select! {
            reached = within("the clients to go on", done.wait_for(|done| *done >= until)) => drop(reached.unwrap()),
            ended = workers.join_next() => panic!("a client came to its end: {:?}", ended.unwrap().map(drop)),
        }
        note(began, *stage.done.borrow(), trouble);
        server.befall(trouble, &stage).await;
        if troubles.is_empty() && began.elapsed().as_secs() < seconds.unwrap_or(0) {
            troubles = server.shuffled();
        }
    }
    stage.over.send_replace(true);
    let workers = within("the clients to come to their end", workers.join_all()).await;
    server.recover(&stage).await;
    check::all(&stage, workers).await;
    server.end().await;
}
