//! Many clients work while the server is killed, paused, or out of disk space (or its database is restarted), and
//! while the model misbehaves. Afterwards, every acknowledged write is stored exactly once, the log has no gaps,
//! every client shows the same state as a fresh load, and every task has ended.
//!
//! With several nodes, their connections to the database and to NATS fail as well, and a client whose node does not
//! respond continues on another one. Afterwards, the state is the same on every node.
//!
//! A short round is part of the suite; `make chaos SECONDS=600 CLIENTS=8 SEED=7` runs for longer, and with `NODES=3`
//! on several nodes. A seed reproduces each client's actions and the order of the faults, but not their timing.

use std::{
    fmt::Debug,
    io::Write,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{sync::watch, task::JoinSet};

use crate::support::{Person, id, setting, sign_up, sign_up_with_workspace, text, within};

mod check;
mod nodes;
mod server;
mod worker;

use server::Server;
use worker::Worker;

/// Number of threads shared by all clients.
const THREADS: usize = 3;

/// Prints a line even if the test passes.
fn say(line: &str) {
    let line = format!("chaos: {line}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// If the test fails, prints a fault and the progress when it was injected.
#[expect(clippy::print_stderr, reason = "kept until then")]
fn note(began: Instant, acts: usize, trouble: &impl Debug) {
    eprintln!("{:?}, {acts} acts: {trouble:?}", began.elapsed());
}

/// Prints the command that repeats a failed round.
struct Again(String);

impl Drop for Again {
    fn drop(&mut self) {
        if std::thread::panicking() {
            say(&format!("failed; again: {}", self.0));
        }
    }
}

/// The servers that clients use, and the faults that they can suffer.
trait Deployment {
    type Trouble: Debug;

    /// Addresses of the servers.
    fn bases(&self) -> Vec<String>;
    /// Every possible fault at least once, in random order.
    fn shuffled(&mut self) -> Vec<Self::Trouble>;
    /// Returns the number of actions until the next fault, and scripts random model responses for that time.
    fn pause(&mut self) -> usize;
    /// Injects the fault and leaves all servers running.
    async fn befall(&mut self, trouble: Self::Trouble, stage: &Stage);
    /// Ends all faults.
    async fn recover(&mut self, stage: &Stage);
    /// Stops the servers and checks the data that they leave behind.
    async fn end(self);
}

/// Addresses of the servers, and state shared by all clients.
struct Stage {
    bases: watch::Sender<Vec<String>>,
    /// Number of actions of each client so far.
    done: watch::Sender<Vec<usize>>,
    /// Number of requests that were resent because there was no response.
    again: watch::Sender<usize>,
    /// Time until the response to each request that was sent more than once.
    waits: watch::Sender<Vec<Duration>>,
    /// `true` once the clients should stop.
    over: watch::Sender<bool>,
    general: String,
    threads: Vec<(String, String)>,
    /// A member who is not one of the clients.
    observer: Person,
}

impl Stage {
    /// Returns the address of the server after this one, or the first address if this server is gone.
    fn base_after(&self, base: &str) -> String {
        let bases = self.bases.borrow();
        let known = bases.iter().position(|known| known == base);
        bases[known.map_or(0, |n| n + 1) % bases.len()].clone()
    }

    /// Checks whether this is the address of a server, even of one that does not respond now.
    fn has(&self, base: &str) -> bool {
        self.bases.borrow().iter().any(|known| known == base)
    }

    fn acts(&self) -> usize {
        self.done.borrow().iter().sum()
    }

    /// Waits until every client has completed another action.
    async fn everyone_acts(&self) {
        let before = self.done.borrow().clone();
        let all = |now: &Vec<usize>| now.iter().zip(&before).all(|(now, before)| now > before);
        let mut done = self.done.subscribe();
        let acted = within("every client to go on", done.wait_for(all)).await;
        drop(acted.unwrap());
    }
}

/// A workspace with `n` people; the first one is its admin.
async fn people(base: &str, n: usize) -> Vec<Person> {
    let ada = sign_up_with_workspace(base, "Ada").await;
    let mut all = vec![ada];
    for i in 1..n {
        let invite = all[0].post("/v1/invites", json!({})).await.is(201);
        let token = text(&invite, "/token");
        all.push(sign_up(base, &format!("Person {i}"), Some(&token)).await);
    }
    all
}

/// Settings of a round.
struct Round {
    seed: u64,
    clients: usize,
    /// Duration of the round; `None` for the short round that the test suite runs.
    seconds: Option<u64>,
}

impl Round {
    fn new() -> Self {
        Self {
            seed: setting("OPENVIBE_TEST_CHAOS_SEED").unwrap_or(1),
            clients: setting("OPENVIBE_TEST_CHAOS_CLIENTS").unwrap_or(4).max(1),
            seconds: setting("OPENVIBE_TEST_CHAOS_SECONDS"),
        }
    }

    /// Lets the clients work while faults happen one after another, and checks the invariants.
    async fn run(&self, mut deployment: impl Deployment, name: &str, make: &str) {
        let (seed, clients) = (self.seed, self.clients);
        let length = self
            .seconds
            .map_or("a short round".to_owned(), |s| format!("{s} s"));
        say(&format!("seed {seed}, {clients} clients, {length}, {name}"));
        let _again = Again(format!(
            "make chaos SECONDS={} CLIENTS={clients} SEED={seed} {make}",
            self.seconds.unwrap_or(0)
        ));

        let bases = deployment.bases();
        let mut people = people(&bases[0], clients + 1).await;
        let observer = people.pop().unwrap();
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
            bases: watch::channel(bases.clone()).0,
            done: watch::channel(vec![0; clients]).0,
            again: watch::channel(0).0,
            waits: watch::channel(Vec::new()).0,
            over: watch::channel(false).0,
            general,
            threads,
            observer,
        });
        let mut workers = JoinSet::new();
        for (n, person) in people.iter().enumerate() {
            let person = person.at(&bases[n % bases.len()]);
            let worker = Worker::new(&stage, &person, &snapshot, &roots, (seed, n));
            workers.spawn(worker.run());
        }

        let began = Instant::now();
        let mut troubles = deployment.shuffled();
        while let Some(trouble) = troubles.pop() {
            let until = stage.acts() + deployment.pause();
            let mut done = stage.done.subscribe();
            let reached = done.wait_for(|done| done.iter().sum::<usize>() >= until);
            tokio::select! {
                reached = within("the clients to go on", reached) => drop(reached.unwrap()),
                ended = workers.join_next() => panic!("a client came to its end: {:?}", ended.unwrap().map(drop)),
            }
            note(began, stage.acts(), &trouble);
            deployment.befall(trouble, &stage).await;
            if troubles.is_empty() && began.elapsed().as_secs() < self.seconds.unwrap_or(0) {
                troubles = deployment.shuffled();
            }
        }
        stage.over.send_replace(true);
        let workers = within("the clients to come to their end", workers.join_all()).await;
        deployment.recover(&stage).await;
        check::all(&stage, workers).await;
        deployment.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_chaos_exactly_once_and_all_clients_agree() {
    let round = Round::new();
    let server = Server::start(round.seed, round.seconds).await;
    let engine = if server.cluster.is_some() {
        "postgres"
    } else {
        "sqlite"
    };
    let make = format!("ENGINE={engine}");
    round.run(server, engine, &make).await;
}
