//! Server CPU per delivered frame, and memory per socket, compared with the bare broadcaster.
//!
//! Hub only: both programs get the same frames over a control connection.
//!
//! Real posts: the cost of storing is measured with the same posts on a second server without sockets, and subtracted. A burst of
//! posts becomes several commits, and therefore several wake-ups of each socket; a burst sent directly to the hub causes only one.

use std::time::Duration;

use anyhow::Context;
use futures::future::try_join_all;
use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    client::{self, Crowd, Http, Team, Ws},
    process::{Process, Scratch, Server},
    report::{Table, float, median, ratio, say, spread, us},
};

const SIZES: &[usize] = &[500, 1000, 2000, 5000];
const ROUNDS: usize = 5;
/// Deliveries per round: enough for many ticks of the CPU clock.
const DELIVERIES: usize = 160_000;
pub(crate) const BURST: usize = 20;
const MEMBERS: usize = 20;
const CONTENT: &str = "The build is green again; I moved the release notes into the shared folder and asked Mia to read them.";
pub(crate) const MESSAGE: &str = r#"{"type":"message.created""#;

/// Server with its posting connections and listening sockets.
struct Ours {
    server: Server,
    team: Team,
    posters: Vec<Http>,
    thread: String,
    crowd: Crowd,
}

impl Ours {
    async fn start(sockets: usize) -> anyhow::Result<Self> {
        let server = Server::start(&[]).await?;
        let team = Team::make(&server.process.address, MEMBERS).await?;
        let thread = team.thread().await?;
        let mut open = Vec::with_capacity(sockets);
        for n in 0..sockets {
            open.push(team.socket(n).await?);
        }
        let posters = try_join_all((0..BURST).map(|n| team.http(n))).await?;
        Ok(Self {
            server,
            team,
            posters,
            thread,
            crowd: Crowd::read(open, MESSAGE),
        })
    }

    /// Posts `each` messages concurrently, `times` times, and waits for all deliveries each time; returns the CPU time.
    async fn round(&mut self, times: usize, each: usize) -> anyhow::Result<Duration> {
        let path = format!("/v1/threads/{}/messages", self.thread);
        let body = json!({"content": CONTENT}).to_string();
        let before = self.server.process.cpu();
        for _ in 0..times {
            self.crowd.counter.expect(each * self.crowd.size);
            let posts = self
                .posters
                .iter_mut()
                .take(each)
                .map(|http| http.send("POST", &path, &body));
            for reply in try_join_all(posts).await? {
                reply.json()?;
            }
            self.crowd.counter.wait().await?;
        }
        Ok(self.server.process.cpu().saturating_sub(before))
    }
}

/// Program that sends its frame as often as requested over a control connection.
struct Told {
    process: Process,
    control: TcpStream,
    crowd: Crowd,
    /// Database of the program, if it is our server.
    _scratch: Option<Scratch>,
}

impl Told {
    async fn bare(sockets: usize, frame: &str) -> anyhow::Result<Self> {
        let process = Process::bare()?;
        let mut control = TcpStream::connect(&process.address).await?;
        control.set_nodelay(true)?;
        control.write_all(format!("{frame}\n").as_bytes()).await?;
        let mut open: Vec<Ws> = Vec::with_capacity(sockets);
        for _ in 0..sockets {
            open.push(client::connect(&process.address, "/", "").await?);
        }
        Ok(Self {
            process,
            control,
            crowd: Crowd::read(open, MESSAGE),
            _scratch: None,
        })
    }

    async fn hub(sockets: usize, frame: &str) -> anyhow::Result<Self> {
        let Server { process, scratch } = Server::with_open_hub().await?;
        let team = Team::make(&process.address, MEMBERS).await?;
        let mut open: Vec<Ws> = Vec::with_capacity(sockets);
        for n in 0..sockets {
            open.push(team.socket(n).await?);
        }
        let mut control = TcpStream::connect(&process.control).await?;
        control.set_nodelay(true)?;
        let first = format!("{}\t{frame}\n", team.workspace);
        control.write_all(first.as_bytes()).await?;
        Ok(Self {
            process,
            control,
            crowd: Crowd::read(open, MESSAGE),
            _scratch: Some(scratch),
        })
    }

    async fn round(&mut self, times: usize, each: usize) -> anyhow::Result<Duration> {
        let before = self.process.cpu();
        for _ in 0..times {
            self.crowd.counter.expect(each * self.crowd.size);
            self.control
                .write_all(format!("{each}\n").as_bytes())
                .await?;
            self.crowd.counter.wait().await?;
        }
        Ok(self.process.cpu().saturating_sub(before))
    }
}

/// Posts a message and returns its frame.
async fn sample(ours: &mut Ours) -> anyhow::Result<String> {
    ours.round(1, 1).await?;
    let mut ws = ours.team.silent(0).await?;
    let texts = client::read_hello(&mut ws, &json!({"since": 0})).await?;
    let newest = texts.into_iter().rfind(|text| text.starts_with(MESSAGE));
    newest.context("the log has no such event")
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let mut table = Table::new(
        "Fan-out: server CPU-µs per delivery",
        &[
            "sockets, mode",
            "bare tokio-tungstenite",
            "OpenVibe's hub",
            "ratio",
            "real posts",
            "ratio",
            "storing (subtracted), µs per message",
        ],
    );
    let mut bytes = 0;
    for &sockets in SIZES {
        let mut deaf = Ours::start(0).await?;
        let frame = sample(&mut deaf).await?;
        bytes = frame.len();
        let mut ours = Ours::start(sockets).await?;
        let mut hub = Told::hub(sockets, &frame).await?;
        let mut bare = Told::bare(sockets, &frame).await?;
        for (how, each) in [("one at a time", 1), ("bursts of 20", BURST)] {
            let times = (DELIVERIES * if each > 1 { 2 } else { 1 }) / (each * sockets);
            let [mut a, mut b, mut h, mut stored] = [const { Vec::new() }; 4];
            // The first round is a warm-up.
            for round in 0..=ROUNDS {
                let storing = deaf.round(times, each).await?;
                let with = ours.round(times, each).await?;
                let alone = hub.round(times, each).await?;
                let without = bare.round(times, each).await?;
                if round > 0 {
                    let deliveries = float(times * each * sockets);
                    a.push(us(with.saturating_sub(storing)) / deliveries);
                    b.push(us(without) / deliveries);
                    h.push(us(alone) / deliveries);
                    stored.push(us(storing) / float(times * each));
                }
            }
            table.row([
                format!("{sockets}, {how}"),
                spread(&b, 2),
                spread(&h, 2),
                format!("{:.2}", ratio(&h, &b)),
                spread(&a, 2),
                format!("{:.2}", ratio(&a, &b)),
                format!("{:.0}", median(&stored)),
            ]);
        }
    }
    table.print();
    say(&format!(
        "\nA frame has {bytes} bytes. Medians of {ROUNDS} rounds (lowest to highest)."
    ));
    Ok(())
}

pub(crate) async fn memory() -> anyhow::Result<()> {
    const WARM: usize = 200;
    const MORE: usize = 1000;
    let mut table = Table::new(
        "Resident memory per idle socket, KiB",
        &["", "OpenVibe", "bare tokio-tungstenite", "ratio"],
    );
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let server = Server::start(&[]).await?;
        let team = Team::make(&server.process.address, MEMBERS).await?;
        let mut open = Vec::new();
        let mut before = 0.0;
        for n in 0..WARM + MORE {
            if n == WARM {
                before = server.process.resident_kib();
            }
            open.push(team.socket(n).await?);
        }
        // Long enough for the work after the hello to finish, but shorter than the first heartbeat interval.
        tokio::time::sleep(Duration::from_millis(500)).await;
        a.push((server.process.resident_kib() - before) / float(MORE));
        drop(open);

        let process = Process::bare()?;
        let _control = TcpStream::connect(&process.address).await?;
        let mut open: Vec<Ws> = Vec::new();
        for n in 0..WARM + MORE {
            if n == WARM {
                before = process.resident_kib();
            }
            open.push(client::connect(&process.address, "/", "").await?);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        b.push((process.resident_kib() - before) / float(MORE));
    }
    table.row([
        format!("{MORE} sockets after `live`"),
        spread(&a, 1),
        spread(&b, 1),
        format!("{:.2}", ratio(&a, &b)),
    ]);
    table.print();
    Ok(())
}
