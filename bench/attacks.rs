//! Posts and page reads of one workspace while another one is attacked, with the attacks of the availability tests: one row per
//! attack.

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context;
use futures::SinkExt;
use openvibe::db::Db;
use rustix::process::setpriority_process;
use serde_json::json;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpSocket, TcpStream},
    runtime::{Handle, Runtime},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_tungstenite::tungstenite::Message;

use crate::{
    client::{self, Http, Team, text},
    crowd::{self, Size},
    engine::Engine,
    model::{Model, Plan},
    process::{self, Server},
    report::{Table, median, ms, percentile, say},
};

/// Lowest priority of a thread on Linux.
const NICE_MAX: i32 = 19;
/// Rounds of the other workspace before each attack, and during it; a round is a post and a read of the page that contains it.
const QUIET_ROUNDS: usize = 100;
const ROUNDS: usize = 200;
const ROUND_EVERY: Duration = Duration::from_millis(20);
const ROUNDS_PER_HEALTH: usize = 10;
/// Maximum time for the rounds of an attack; a slow server completes fewer of them.
const MEASURED_WITHIN: Duration = Duration::from_secs(15);
/// Timeout of a request; slower requests count as failed.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
/// Time for an attack to begin, and for the server to recover from it.
const SETTLE: Duration = Duration::from_secs(2);
/// Time after which a client that does not read reconnects.
const HELD: Duration = Duration::from_secs(3);

const MEMBERS: usize = 5;
const CROWD: Size = Size {
    members: 100,
    channels: 300,
};
/// Number of messages that are unread for everyone, that every search finds, and that the attacks delete.
const UNREAD: usize = 20_000;
/// Number of messages on the large page; the event log contains them, too.
const LARGE: usize = 100;
const LARGE_BYTES: usize = 32 * 1024;
const CHILDREN: usize = 300;
const INSTRUCTIONS_BYTES: usize = 250_000;
/// Messages of the fork whose drafts are stopped.
const FORKED: usize = 300;
const MIB: usize = 1024 * 1024;
/// Receive buffer of clients that do not read.
const RECEIVE_BYTES: u32 = 4096;

#[derive(Clone, Copy)]
enum Attack {
    StuckSockets,
    CatchUp,
    UnreadResponses,
    Pipelined,
    HalfBodies,
    Pages,
    Searches,
    Opens,
    LongReplies,
    Profiles,
    Deletes,
    Words,
    ClosedPages,
    ClosedSignIns,
    ClosedCatchUps,
    StoppedDrafts,
}

/// Attacks, each with its number of clients.
const ATTACKS: [(&str, Attack, usize); 16] = [
    (
        "sockets that resume and do not read",
        Attack::StuckSockets,
        24,
    ),
    ("sockets that resume from the start", Attack::CatchUp, 16),
    ("unread responses of 6 MB", Attack::UnreadResponses, 40),
    (
        "connections with 20 unread requests, without an account",
        Attack::Pipelined,
        60,
    ),
    (
        "bodies of 1 MiB less a byte, and of sign-ins",
        Attack::HalfBodies,
        100,
    ),
    ("pages of 6 MB for one person", Attack::Pages, 64),
    ("people who search a prefix", Attack::Searches, 4),
    (
        "people who open the app, everything unread",
        Attack::Opens,
        4,
    ),
    ("people with endless replies", Attack::LongReplies, 4),
    (
        "person who changes a base of 300 × 250 KB",
        Attack::Profiles,
        1,
    ),
    (
        "people who delete in a thread of 20,000",
        Attack::Deletes,
        4,
    ),
    ("people who post 32 KB of new words", Attack::Words, 8),
    (
        "compressed pages of 3 MB, closed after 30 ms",
        Attack::ClosedPages,
        8,
    ),
    (
        "sign-ins, closed after 5 ms, without an account",
        Attack::ClosedSignIns,
        16,
    ),
    (
        "catch-ups of 3 MB, closed after 250 ms",
        Attack::ClosedCatchUps,
        4,
    ),
    (
        "resolves of 300 messages, stopped after 150 ms",
        Attack::StoppedDrafts,
        1,
    ),
];

/// Everything that the attacks need, prepared before the first one.
struct Arena {
    team: Team,
    large_page: String,
    base: String,
    /// Thread with messages of different words.
    words: String,
    fork: String,
    /// Messages that can still be deleted.
    messages: Mutex<Vec<String>>,
    /// Requests of the current attack.
    requests: AtomicUsize,
}

/// Measurements of the other workspace, in ms.
#[derive(Default)]
struct Found {
    posts: Vec<f64>,
    pages: Vec<f64>,
    health: Vec<f64>,
    failed: usize,
    resident_mib: f64,
}

impl Arena {
    async fn make(server: &Server, team: Team) -> anyhow::Result<Self> {
        let mut http = team.http(0).await?;
        let large = team.thread().await?;
        let path = format!("/v1/threads/{large}/messages");
        let content = "x".repeat(LARGE_BYTES);
        for _ in 0..LARGE {
            http.post(&path, &json!({"content": content})).await?;
        }
        let long_thread = team.thread().await?;
        let place = server.scratch.place()?;
        let db = Db::open(&place, Arc::new(|_| {})).await?;
        crowd::fill(&db, team.workspace.parse()?, CROWD).await?;
        db.close().await;
        let engine = Engine::open(&place, Some(&long_thread)).await?;
        engine.fill(UNREAD).await?;
        engine.close().await?;
        let base = json!({"name": "base", "instructions": "Mind the tide."});
        let base = text(&http.post("/v1/agents", &base).await?, "/id")?;
        let long = "word ".repeat(INSTRUCTIONS_BYTES / 5);
        for n in 0..CHILDREN {
            let name = format!("child-{n}");
            let child = json!({"name": name, "instructions": format!("{n} {long}"), "base_profile_id": base});
            http.post("/v1/agents", &child).await?;
        }
        let words = team.thread().await?;
        let path_of_words = format!("/v1/threads/{words}/messages");
        for n in 0..LARGE {
            let form = json!({"content": new_words(&format!("w{n}"))});
            http.post(&path_of_words, &form).await?;
        }
        let fork = make_fork(&mut http, &team).await?;
        Ok(Self {
            words,
            fork,
            messages: Mutex::new(list_messages(&mut http, &long_thread).await?),
            large_page: format!("{path}?limit=100"),
            team,
            base,
            requests: AtomicUsize::new(0),
        })
    }

    fn count(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Connects from an address that the measured clients do not use. The receive buffer is small, so that the server
    /// cannot send all of a response that nobody reads.
    async fn connect(&self, n: usize) -> anyhow::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(RECEIVE_BYTES)?;
        let own = IpAddr::from([127, 0, 0, 2 + u8::try_from(n % 4)?]);
        socket.bind((own, 0).into())?;
        Ok(socket.connect(self.team.host.parse()?).await?)
    }

    /// Sends a part of a request and reads nothing.
    async fn hold(&self, n: usize, request: &[u8]) -> anyhow::Result<()> {
        let mut tcp = self.connect(n).await?;
        self.count();
        // The server may close the connection before everything is sent.
        let _closed = timeout(HELD, tcp.write_all(request)).await;
        sleep(HELD).await;
        Ok(())
    }

    /// Performs one step of an attacking client.
    async fn step(&self, attack: Attack, n: usize, http: &mut Http) -> anyhow::Result<()> {
        let (host, cookie) = (&self.team.host, self.team.cookie(n));
        match attack {
            Attack::StuckSockets => {
                let tcp = self.connect(n).await?;
                let mut ws = client::upgrade(tcp, host, "/v1/ws", cookie).await?;
                let hello = json!({"type": "hello", "protocol": 1, "since": 0});
                ws.send(Message::text(hello.to_string())).await?;
                self.count();
                sleep(HELD).await;
            }
            Attack::CatchUp => {
                let mut ws = self.team.silent(n).await?;
                client::read_hello(&mut ws, &json!({"since": 0})).await?;
                self.count();
            }
            Attack::UnreadResponses => {
                let path = &self.large_page;
                let request =
                    format!("GET {path} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\n\r\n");
                self.hold(n, request.as_bytes()).await?;
            }
            Attack::Pipelined => {
                let request = format!("GET /openapi.json HTTP/1.1\r\nhost: {host}\r\n\r\n");
                self.hold(n, request.repeat(20).as_bytes()).await?;
            }
            Attack::HalfBodies => {
                let (path, length) = if n.is_multiple_of(2) {
                    ("/v1/workspaces", MIB)
                } else {
                    ("/v1/auth/login", 100)
                };
                let mut request = format!(
                    "POST {path} HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\ncookie: {cookie}\r\n\
                     content-length: {length}\r\n\r\n"
                );
                request.push_str(&" ".repeat(length - 1));
                self.hold(n, request.as_bytes()).await?;
            }
            Attack::Pages => self.get(http, &self.large_page).await?,
            Attack::Searches => {
                self.get(http, "/v1/search?q=be").await?;
                self.get(http, "/v1/search?q=so").await?;
            }
            Attack::Opens => self.get(http, "/v1/snapshot").await?,
            Attack::LongReplies => {
                let path = format!("/v1/channels/{}/threads", self.team.general);
                http.post(&path, &json!({"content": "@vibe never stop"}))
                    .await?;
                self.count();
                sleep(Duration::from_millis(500)).await;
            }
            Attack::Profiles => {
                let instructions = format!("Mind tide {}.", self.requests.load(Ordering::Relaxed));
                let path = format!("/v1/agents/{}", self.base);
                http.patch(&path, &json!({"instructions": instructions}))
                    .await?;
                self.count();
            }
            Attack::Deletes => {
                let next = self
                    .messages
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .pop();
                let path = format!("/v1/messages/{}", next.context("all messages are deleted")?);
                http.send("DELETE", &path, "").await?.json()?;
                self.count();
            }
            Attack::Words => {
                let at = self.requests.load(Ordering::Relaxed);
                let path = format!("/v1/threads/{}/messages", self.words);
                let form = json!({"content": new_words(&format!("x{n}y{at}z"))});
                http.post(&path, &form).await?;
                self.count();
            }
            Attack::ClosedPages => {
                let path = format!("/v1/threads/{}/messages?limit=100", self.words);
                let headers = "accept-encoding: gzip\r\n";
                self.hang_up(n, &path, headers, 30).await?;
            }
            Attack::ClosedSignIns => {
                let body =
                    json!({"email": "mallory@example.org", "password": "wrong horse battery"});
                let body = body.to_string();
                let request = format!(
                    "POST /v1/auth/login HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\n\
                     content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                self.send_and_close(n, &request, 5).await?;
            }
            Attack::ClosedCatchUps => {
                let path = format!("/v1/threads/{}/catch-up?since=0", self.words);
                self.hang_up(n, &path, "", 250).await?;
            }
            Attack::StoppedDrafts => {
                let path = format!("/v1/forks/{}/resolve", self.fork);
                let queued = http.post(&path, &json!({})).await?;
                sleep(Duration::from_millis(150)).await;
                let path = format!("/v1/tasks/{}/cancel", text(&queued, "/task/id")?);
                http.post(&path, &json!({})).await?;
                self.count();
            }
        }
        Ok(())
    }

    /// Requests a page as a member, and closes the connection after `ms` milliseconds.
    async fn hang_up(&self, n: usize, path: &str, headers: &str, ms: u64) -> anyhow::Result<()> {
        let (host, cookie) = (&self.team.host, self.team.cookie(n));
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\n{headers}\r\n");
        self.send_and_close(n, &request, ms).await
    }

    async fn send_and_close(&self, n: usize, request: &str, ms: u64) -> anyhow::Result<()> {
        let mut tcp = self.connect(n).await?;
        tcp.write_all(request.as_bytes()).await?;
        self.count();
        sleep(Duration::from_millis(ms)).await;
        Ok(())
    }

    async fn get(&self, http: &mut Http, path: &str) -> anyhow::Result<()> {
        let reply = http.send("GET", path, "").await?;
        self.count();
        if reply.status == 503 {
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Repeats a client's steps. All clients of `Pages` act as the same person.
    async fn repeat(self: Arc<Self>, attack: Attack, n: usize) {
        let person = if matches!(attack, Attack::Pages) {
            1
        } else {
            n
        };
        loop {
            let Ok(mut http) = self.team.http(person).await else {
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            while self.step(attack, n, &mut http).await.is_ok() {}
            // The server rejected a request; the client retries shortly.
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn begin(self: &Arc<Self>, attack: Attack, clients: usize, on: &Handle) -> JoinSet<()> {
        self.requests.store(0, Ordering::Relaxed);
        let mut attacking = JoinSet::new();
        for n in 0..clients {
            attacking.spawn_on(Arc::clone(self).repeat(attack, n), on);
        }
        attacking
    }
}

/// A text of 32 KB whose words occur nowhere else.
fn new_words(prefix: &str) -> String {
    let mut text = String::with_capacity(LARGE_BYTES);
    for n in 0.. {
        let word = format!("{prefix}{n} ");
        if text.len() + word.len() > LARGE_BYTES {
            break;
        }
        text.push_str(&word);
    }
    text
}

async fn make_fork(http: &mut Http, team: &Team) -> anyhow::Result<String> {
    let path = format!("/v1/channels/{}/threads", team.general);
    let started = http.post(&path, &json!({"content": "Cables"})).await?;
    let path = format!("/v1/threads/{}/forks", text(&started, "/thread/id")?);
    let form = json!({"message_id": text(&started, "/message/id")?, "agent_id": null});
    let fork = text(&http.post(&path, &form).await?, "/fork/id")?;
    let content = "We decided to ship 12 km of cable on Friday. ".repeat(350);
    for _ in 0..FORKED {
        let path = format!("/v1/forks/{fork}/messages");
        http.post(&path, &json!({"content": content})).await?;
    }
    Ok(fork)
}

/// IDs of the messages of a thread, oldest first.
async fn list_messages(http: &mut Http, thread: &str) -> anyhow::Result<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    loop {
        let before = all.last().map(|id| format!("&before={id}"));
        let before = before.unwrap_or_default();
        let path = format!("/v1/threads/{thread}/messages?limit=100{before}");
        let page = http.get(&path).await?;
        let messages = page["data"].as_array().context("no messages")?;
        for message in messages.iter().rev() {
            all.push(text(message, "/id")?);
        }
        if page["has_more"] != true || all.len() >= UNREAD / 2 {
            return Ok(all);
        }
    }
}

/// The only member of the other workspace.
struct Bystander {
    http: Http,
    thread: String,
}

impl Bystander {
    async fn work(&mut self, server: &Server, rounds: usize) -> anyhow::Result<Found> {
        let mut found = Found::default();
        let path = format!("/v1/threads/{}/messages", self.thread);
        let form = json!({"content": "Work as usual"}).to_string();
        let mut pace = tokio::time::interval(ROUND_EVERY);
        pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let began = Instant::now();
        for round in 0..rounds {
            if began.elapsed() > MEASURED_WITHIN {
                break;
            }
            pace.tick().await;
            for (method, body) in [("POST", form.as_str()), ("GET", "")] {
                let started = Instant::now();
                let sent = timeout(REQUEST_WITHIN, self.http.send(method, &path, body)).await;
                let took = ms(started.elapsed());
                if !matches!(sent, Ok(Ok(reply)) if reply.status < 300) {
                    found.failed += 1;
                    let cookie = self.http.cookie().to_owned();
                    self.http = Http::connect(&server.process.address, &cookie).await?;
                }
                match method {
                    "POST" => found.posts.push(took),
                    _ => found.pages.push(took),
                }
            }
            if round % ROUNDS_PER_HEALTH == 0 {
                let started = Instant::now();
                let connected = Http::connect(&server.process.address, "");
                match timeout(REQUEST_WITHIN, connected).await {
                    Ok(Ok(_)) => found.health.push(ms(started.elapsed())),
                    _ => found.failed += 1,
                }
            }
            found.resident_mib = found
                .resident_mib
                .max(server.process.resident_kib() / 1024.0);
        }
        Ok(found)
    }
}

/// Runtime of the attacking clients and the model server. In reality, these run on other machines, so their threads only get CPU time
/// that the server and the measured client do not use.
fn attackers() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .on_thread_start(|| {
            // Without the right to change priorities, the attackers compete with the measured client.
            if let Err(error) = setpriority_process(None, NICE_MAX) {
                say(&format!("attackers run at normal priority: {error}"));
            }
        })
        .build()
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let attackers = attackers()?;
    let result = measure(attackers.handle()).await;
    attackers.shutdown_background();
    result
}

async fn measure(attackers: &Handle) -> anyhow::Result<()> {
    let model = attackers.spawn(Model::start()).await??;
    model.answer(Plan {
        pieces: 1_000,
        every: Duration::from_millis(2),
        text: Some("word ".repeat(200)),
        is_endless: true,
        ..Plan::short()
    });
    let mut settings = model.settings();
    settings.extend([("SIGNUP", "open"), ("WORKERS", "16")]);
    let server = Server::start(&settings).await?;
    let host = &server.process.address;
    let arena = Arc::new(Arena::make(&server, Team::make(host, MEMBERS).await?).await?);
    let other = Team::numbered(host, MEMBERS, 1).await?;
    let mut bystander = Bystander {
        thread: other.thread().await?,
        http: other.http(0).await?,
    };
    bystander.work(&server, QUIET_ROUNDS).await?;
    let mut quiet = Found::default();
    let mut rows = Vec::new();
    for (name, attack, clients) in ATTACKS {
        let before = bystander.work(&server, QUIET_ROUNDS).await?;
        quiet.resident_mib = quiet.resident_mib.max(before.resident_mib);
        quiet.failed += before.failed;
        quiet.posts.extend(before.posts);
        quiet.pages.extend(before.pages);
        quiet.health.extend(before.health);
        let attacking = arena.begin(attack, clients, attackers);
        sleep(SETTLE).await;
        let found = bystander.work(&server, ROUNDS).await?;
        drop(attacking);
        let requests = arena.requests.load(Ordering::Relaxed);
        say(&format!(
            "{clients} {name}: {requests} requests, p99 {:.0} and {:.0} ms",
            percentile(&found.posts, 0.99),
            percentile(&found.pages, 0.99)
        ));
        rows.push((format!("{clients} {name}"), requests, found));
        sleep(SETTLE).await;
    }
    print(&quiet, &rows);
    Ok(())
}

fn print(quiet: &Found, rows: &[(String, usize, Found)]) {
    let mut table = Table::new(
        "Posts and pages of another workspace during attacks, ms",
        &[
            "attack",
            "its requests",
            "posts p50",
            "p99",
            "of quiet",
            "pages p50",
            "p99",
            "of quiet",
            "slowest `/healthz`",
            "failed",
            "RSS, MiB",
        ],
    );
    let none = ("none".to_owned(), 0, Found::default());
    for (n, (name, requests, found)) in std::iter::once(&none).chain(rows).enumerate() {
        let found = if n == 0 { quiet } else { found };
        let times = [(&found.posts, &quiet.posts), (&found.pages, &quiet.pages)];
        let times = times.into_iter().flat_map(|(found, quiet)| {
            let (p99, quiet) = (percentile(found, 0.99), percentile(quiet, 0.99));
            let ratio = format!("{:.2}", p99 / quiet);
            let is_missed = p99 > 2.0 * quiet + 20.0;
            let ratio = if is_missed {
                format!("**{ratio}**")
            } else {
                ratio
            };
            [format!("{:.1}", median(found)), format!("{p99:.1}"), ratio]
        });
        let before = [name.clone(), requests.to_string()];
        let after = [
            format!("{:.1}", percentile(&found.health, 1.0)),
            found.failed.to_string(),
            format!("{:.0}", found.resident_mib),
        ];
        table.row(before.into_iter().chain(times).chain(after));
    }
    table.print();
    say(&format!(
        "\n{}. Up to {ROUNDS} rounds of a post and a page during each attack, {QUIET_ROUNDS} before it; bold: more than twice the p99 of all quiet rounds \
         and 20 ms.",
        process::engine()
    ));
}
