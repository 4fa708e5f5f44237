//! Attacks on availability: each test overloads one workspace, address, or connection while a [`Bystander`] in
//! another workspace keeps working.

mod database;
mod readers;
mod writers;

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::json;
use tokio::{
    net::{TcpSocket, TcpStream},
    sync::watch,
    task::{JoinError, JoinSet},
    time::MissedTickBehavior,
};

pub use readers::{copy_message, hold_slow_lane, until_busy};
pub use writers::stuck_draft;

use crate::support::{Person, id, list, sign_up, within};

mod bodies;
mod connections;
mod deletes;
mod dropped;
mod exports;
mod responses;
mod segments;
mod slow_lane;
mod uploads;
mod writes;

/// Address of every bystander, so that limits reached by an attacker's address do not affect it.
const BYSTANDER_ADDRESS: [u8; 4] = [127, 0, 77, 1];
/// Time limit for each request of a bystander. Generous, because the machine runs other tests at the same time.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);
/// Interval between rounds of requests.
const ROUND_EVERY: Duration = Duration::from_millis(100);

/// The only member of a workspace, who posts and reads in rounds until stopped. Every request opens a new connection
/// and must succeed within [`REQUEST_DEADLINE`].
pub struct Bystander {
    stopping: Arc<AtomicBool>,
    rounds: watch::Receiver<usize>,
    running: JoinSet<Report>,
}

/// Measurements of a [`Bystander`].
#[derive(Debug, Default)]
pub struct Report {
    pub rounds: usize,
    /// Duration of the slowest request so far.
    pub slowest: Duration,
}

impl Bystander {
    /// Signs up, which needs `SIGNUP=open` unless this is the first account, and starts the rounds.
    pub async fn start(base: &str) -> Self {
        let mut person = sign_up(base, "Bystander", None).await;
        let workspace = person
            .post("/v1/workspaces", json!({"name": "Bystanders"}))
            .await
            .is(201);
        person.enter(&id(&workspace)).await;
        let general = id(&person.channel("general").await);
        let thread = person.thread(&general, "Work as usual").await;
        let person = person.at_address(BYSTANDER_ADDRESS.into());
        let stopping = Arc::new(AtomicBool::new(false));
        let (finished, rounds) = watch::channel(0);
        let mut running = JoinSet::new();
        {
            let stopping = Arc::clone(&stopping);
            running.spawn(async move {
                let mut report = Report::default();
                let mut pace = tokio::time::interval(ROUND_EVERY);
                // Late rounds must not be made up for at a faster rate, because tests use them to measure time.
                pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
                while !stopping.load(Ordering::Relaxed) {
                    pace.tick().await;
                    work(&person, &thread, &mut report).await;
                    report.rounds += 1;
                    finished.send_replace(report.rounds);
                }
                report
            });
        }
        Self {
            stopping,
            rounds,
            running,
        }
    }

    /// Waits until this many more rounds have started and succeeded. Panics if a request failed.
    pub async fn rounds(&mut self, more: usize) {
        // The current round may have started earlier.
        let target = *self.rounds.borrow() + more + 1;
        let reached = within(
            "the bystander's rounds",
            self.rounds.wait_for(|done| *done >= target),
        );
        if reached.await.is_err() {
            let ended = self.running.join_next().await;
            served(ended.expect("the rounds"));
            unreachable!("only a failure ends the rounds");
        }
    }

    /// Stops after the current round. Panics if a request failed.
    pub async fn stop(mut self) -> Report {
        self.stopping.store(true, Ordering::Relaxed);
        let ended = within("the bystander to stop", self.running.join_next()).await;
        served(ended.expect("the rounds"))
    }
}

fn served(ended: Result<Report, JoinError>) -> Report {
    ended.unwrap_or_else(|e| panic!("the bystander was not served: {e}"))
}

/// One round: a post, a read of the page that contains it, and `/healthz`.
async fn work(person: &Person, thread: &str, report: &mut Report) {
    let path = format!("/v1/threads/{thread}/messages");
    let content = format!("round {}", report.rounds);
    let body = json!({"content": content}).to_string().into_bytes();
    let posted = timed(person, Method::POST, &path, Some(body), report).await;
    assert_eq!(posted.status, 201, "{}", posted.text);
    let page = timed(person, Method::GET, &path, None, report)
        .await
        .is(200);
    let newest = list(&page, "/data").pop().expect("a message");
    assert_eq!(newest["content"], content.as_str());
    let health = timed(person, Method::GET, "/healthz", None, report).await;
    assert_eq!(health.status, 200, "{}", health.text);
}

async fn timed(
    person: &Person,
    method: Method,
    path: &str,
    body: Option<Vec<u8>>,
    report: &mut Report,
) -> crate::support::Reply {
    let began = Instant::now();
    let what = format!("{method} {path} after {} rounds", report.rounds);
    let answered =
        tokio::time::timeout(REQUEST_DEADLINE, person.send(method, path, &[], body)).await;
    report.slowest = report.slowest.max(began.elapsed());
    answered.unwrap_or_else(|_| panic!("{what} took longer than {REQUEST_DEADLINE:?}"))
}

/// Opens a connection from an address in 127.0.0.0/8. `receive_bytes` is the size of the client's receive buffer, which limits how
/// much the server can send while the client does not read.
pub async fn connect_from(
    base: &str,
    address: impl Into<IpAddr>,
    receive_bytes: Option<u32>,
) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if let Some(bytes) = receive_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind((address.into(), 0).into())?;
    let server = base.trim_start_matches("http://").parse().unwrap();
    within("a connection", socket.connect(server)).await
}

mod catch_up;
mod long_replies;
mod profiles;
mod workers;

mod bystander {
    use super::*;
    use crate::support::TestApp;

    #[tokio::test]
    async fn a_bystander_is_served_without_load() {
        let app = TestApp::start().await;
        let mut bystander = Bystander::start(&app.base).await;
        bystander.rounds(2).await;
        let report = bystander.stop().await;
        assert!(report.rounds >= 3, "{report:?}");
        assert!(report.slowest > Duration::ZERO, "{report:?}");
        let connected = connect_from(&app.base, [127, 0, 0, 2], Some(4096)).await;
        let own = connected.unwrap().local_addr().unwrap();
        assert_eq!(own.ip(), IpAddr::from([127, 0, 0, 2]));
    }
}
