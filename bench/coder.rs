//! Turns on runners, compared with replies of models: time from a mention to the prompt, and from a text to its watchers. The runner is a
//! scripted one whose copy is ready, so that only the server is measured.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use futures::{SinkExt, StreamExt, stream::SplitSink};
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::mpsc, task::JoinSet};
use tokio_tungstenite::{
    client_async,
    tungstenite::{Message, client::IntoClientRequest},
};

use crate::{
    ask,
    client::{Http, Team, Ws, completed, text},
    model::{Model, Plan, stamp},
    process::{self, Server},
    report::{Table, ms, percentile, say},
    streams::{self, Seen},
};

const ROUNDS: usize = 5;
const ASKS: usize = 60;
/// Turns at the same time.
const TURNS: usize = 20;
const STREAM_ROUNDS: usize = 4;
/// Number of texts of a turn, and their interval: as a runner sends them.
const TEXTS: usize = 100;
const TEXT_EVERY: Duration = Duration::from_millis(50);
const COMMIT: &str = "1111111111111111111111111111111111111111";

/// A prompt that has reached a runner.
struct Prompted {
    at: Instant,
    session: String,
    task: String,
}

/// A runner whose frames another task reads, which notes the time of their arrival.
struct Runner {
    write: SplitSink<Ws, Message>,
    frames: mpsc::Receiver<(Instant, Value)>,
    /// Number of the last event by session.
    events: HashMap<String, u64>,
    _reading: JoinSet<()>,
}

impl Runner {
    /// Creates a runner with a repository of the same name, which is allowed in #general.
    async fn start(team: &Team, http: &mut Http, name: &str) -> anyhow::Result<Self> {
        let made = http.post("/v1/runners", &json!({"name": name})).await?;
        let runner = Self::connect(&team.host, &text(&made, "/key")?, name).await?;
        let all = http.get("/v1/repositories?limit=100").await?;
        let mut all = all["data"].as_array().into_iter().flatten();
        let repository = all.find(|one| one["name"] == name);
        let repository = text(repository.context("no repository")?, "/id")?;
        let patch = json!({"state": "allowed", "channel_ids": [team.general]});
        http.patch(&format!("/v1/repositories/{repository}"), &patch)
            .await?;
        Ok(runner)
    }

    async fn connect(host: &str, key: &str, repository: &str) -> anyhow::Result<Self> {
        let tcp = TcpStream::connect(host).await?;
        tcp.set_nodelay(true)?;
        let mut request = format!("ws://{host}/v1/runner").into_client_request()?;
        let headers = request.headers_mut();
        headers.insert("authorization", format!("Bearer {key}").parse()?);
        let (ws, _) = client_async(request, tcp).await?;
        let (write, mut read) = ws.split();
        let (send, frames) = mpsc::channel(4096);
        let mut reading = JoinSet::new();
        reading.spawn(async move {
            while let Some(Ok(message)) = read.next().await {
                let Message::Text(text) = message else {
                    continue;
                };
                let at = Instant::now();
                let Ok(frame) = serde_json::from_str::<Value>(&text) else {
                    continue;
                };
                if frame["type"] != "ack" && send.send((at, frame)).await.is_err() {
                    return;
                }
            }
        });
        let mut runner = Self {
            write,
            frames,
            events: HashMap::new(),
            _reading: reading,
        };
        let hello = json!({
            "type": "hello", "protocol": 1, "version": "0.1.0", "sandbox": "bubblewrap", "sessions": {},
            "repositories": [{"name": repository, "base": "main", "can_push": true}],
            "engines": [{"name": "builtin", "to": null}],
        });
        runner.send(&hello).await?;
        let (_, ready) = runner.next().await?;
        anyhow::ensure!(ready["type"] == "ready", "{ready}");
        Ok(runner)
    }

    async fn send(&mut self, frame: &Value) -> anyhow::Result<()> {
        self.write.send(Message::text(frame.to_string())).await?;
        Ok(())
    }

    async fn next(&mut self) -> anyhow::Result<(Instant, Value)> {
        let next = tokio::time::timeout(Duration::from_secs(20), self.frames.recv()).await;
        next.context("no frame reached the runner in time")?
            .context("the runner's connection ended")
    }

    /// Sends the next event of a session.
    async fn event(&mut self, session: &str, mut event: Value) -> anyhow::Result<()> {
        let n = self.events.entry(session.to_owned()).or_default();
        *n += 1;
        event["session"] = session.into();
        event["n"] = (*n).into();
        self.send(&event).await
    }

    /// Acknowledges commands up to the next prompt; a copy is ready at once.
    async fn prompted(&mut self) -> anyhow::Result<Prompted> {
        loop {
            let (at, command) = self.next().await?;
            let session = text(&command, "/session")?;
            let ack = json!({"type": "ack", "session": session, "n": command["n"]});
            self.send(&ack).await?;
            match command["type"].as_str() {
                Some("open") => {
                    let opened = json!({"type": "opened", "commit": COMMIT});
                    self.event(&session, opened).await?;
                }
                Some("prompt") => {
                    let task = text(&command, "/task")?;
                    return Ok(Prompted { at, session, task });
                }
                _ => anyhow::bail!("an unexpected command: {command}"),
            }
        }
    }

    /// Ends a turn without changes.
    async fn done(&mut self, turn: &Prompted) -> anyhow::Result<()> {
        let done = json!({
            "type": "done", "task": turn.task, "stop": "complete", "tree": null, "too_large": false, "files": [],
            "file_count": 0, "additions": 0, "deletions": 0, "notes": [], "check": {"state": "none", "ms": 0},
            "unread_steers": [],
        });
        self.event(&turn.session, done).await
    }

    /// Mentions the agent, and waits for the prompt and the end of the task; returns the time to the prompt in ms.
    async fn ask(&mut self, http: &mut Http, thread: &str, ws: &mut Ws) -> anyhow::Result<f64> {
        let path = format!("/v1/threads/{thread}/messages");
        let started = Instant::now();
        http.post(&path, &json!({"content": "@coder how far are we?"}))
            .await?;
        let turn = self.prompted().await?;
        self.done(&turn).await?;
        completed(ws, &turn.task).await?;
        Ok(ms(turn.at.saturating_duration_since(started)))
    }

    /// Writes the texts of turns, each with the time when it was sent, and ends the turns. Texts of different turns are evenly spread.
    async fn write_all(&mut self, turns: &[Prompted]) -> anyhow::Result<()> {
        let count = u32::try_from(turns.len())?;
        let mut tick = tokio::time::interval(TEXT_EVERY / count.max(1));
        for _ in 0..TEXTS {
            for turn in turns {
                tick.tick().await;
                let text = format!("{} ", stamp());
                let event = json!({"type": "text", "task": turn.task, "text": text});
                self.event(&turn.session, event).await?;
            }
        }
        for turn in turns {
            self.done(turn).await?;
        }
        Ok(())
    }
}

pub(crate) async fn run() -> anyhow::Result<()> {
    prompts().await?;
    deltas().await
}

/// Measures mentions of an agent with a running session, alternating with mentions of one that calls a model.
async fn prompts() -> anyhow::Result<()> {
    let mut model = Model::start().await?;
    let mut settings = model.settings();
    // A pass would start before some of the replies and commit as well.
    settings.push(("COMPACTION", "off"));
    let server = Server::start(&settings).await?;
    let team = Team::make(&server.process.address, 2).await?;
    let mut http = team.http(0).await?;
    let mut runner = Runner::start(&team, &mut http, "api").await?;
    let (mut prompts, mut requests) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (own, other) = (team.thread().await?, team.thread().await?);
        let mut ws = team.socket(1).await?;
        for n in 0..=ASKS {
            let prompt = runner.ask(&mut http, &own, &mut ws).await?;
            let request = ask::ask(&mut http, &other, &mut model, &mut ws).await?;
            // The first mention in a thread also opens the session.
            if round > 0 && n > 0 {
                prompts.push(prompt);
                requests.push(request);
            }
        }
    }
    let mut table = Table::new(
        "Mention to prompt of a running agent, ms",
        &["", "p50", "p99"],
    );
    let mut row = |name: &str, f: &dyn Fn(f64) -> f64| {
        table.row([
            name.to_owned(),
            format!("{:.2}", f(0.5)),
            format!("{:.2}", f(0.99)),
        ]);
    };
    row("sent → the runner has the prompt", &|p| {
        percentile(&prompts, p)
    });
    row("sent → the model has the request", &|p| {
        percentile(&requests, p)
    });
    row("difference", &|p| {
        percentile(&prompts, p) - percentile(&requests, p)
    });
    table.print();
    say(&format!(
        "\n{}. {} alternating mentions of each agent (target 20 ms more for the p99).",
        process::engine(),
        prompts.len()
    ));
    Ok(())
}

/// Starts a watcher for each thread.
async fn watchers(
    team: &Team,
    threads: &[String],
) -> anyhow::Result<JoinSet<anyhow::Result<(Ws, Seen)>>> {
    let sockets = streams::reseat(team, Vec::new(), threads).await?;
    let mut watching = JoinSet::new();
    for (ws, thread) in sockets.into_iter().zip(threads) {
        watching.spawn(streams::watch(ws, Arc::from(thread.as_str())));
    }
    Ok(watching)
}

/// Waits for the end of all streams, and adds what their watchers have seen.
async fn gather(
    mut watching: JoinSet<anyhow::Result<(Ws, Seen)>>,
    all: &mut Seen,
) -> anyhow::Result<()> {
    while let Some(watched) = watching.join_next().await {
        let (_, seen) = watched??;
        all.first.extend(seen.first);
        all.later.extend(seen.later);
    }
    Ok(())
}

async fn post_all(team: &Team, threads: &[String], contents: &[String]) -> anyhow::Result<()> {
    let mut http = team.http(0).await?;
    for (thread, content) in threads.iter().zip(contents) {
        let path = format!("/v1/threads/{thread}/messages");
        http.post(&path, &json!({"content": content})).await?;
    }
    Ok(())
}

/// Streams of a model.
async fn by_model(model: &Model, team: &Team, threads: &[String]) -> anyhow::Result<Seen> {
    let mut all = Seen::default();
    let contents = vec!["@vibe go on".to_owned(); TURNS];
    for _ in 0..STREAM_ROUNDS {
        model.answer(Plan {
            together: TURNS,
            stagger: TEXT_EVERY / 20,
            pieces: TEXTS,
            every: TEXT_EVERY,
            text: None,
            ..Plan::short()
        });
        let watching = watchers(team, threads).await?;
        post_all(team, threads, &contents).await?;
        gather(watching, &mut all).await?;
    }
    Ok(all)
}

/// Texts of turns on this number of runners, whose names begin with `name`.
async fn by_runners(
    team: &Team,
    threads: &[String],
    name: &str,
    count: usize,
) -> anyhow::Result<Seen> {
    let mut http = team.http(0).await?;
    let mut runners = Vec::new();
    for n in 0..count {
        runners.push(Runner::start(team, &mut http, &format!("{name}{n}")).await?);
    }
    let mut all = Seen::default();
    let contents = (0..TURNS).map(|n| format!("@coder go on in {name}{}", n % count));
    let contents: Vec<String> = contents.collect();
    for _ in 0..STREAM_ROUNDS {
        let watching = watchers(team, threads).await?;
        post_all(team, threads, &contents).await?;
        let mut writing = JoinSet::new();
        for mut runner in runners.drain(..) {
            writing.spawn(async move {
                let mut turns = Vec::new();
                for _ in 0..TURNS / count {
                    turns.push(runner.prompted().await?);
                }
                runner.write_all(&turns).await?;
                Ok::<_, anyhow::Error>(runner)
            });
        }
        while let Some(written) = writing.join_next().await {
            runners.push(written??);
        }
        gather(watching, &mut all).await?;
    }
    Ok(all)
}

/// Measures texts of several turns at once, then the same number of model streams.
async fn deltas() -> anyhow::Result<()> {
    let model = Model::start().await?;
    let mut settings = model.settings();
    settings.push(("COMPACTION", "off"));
    let server = Server::start(&settings).await?;
    let team = Team::make(&server.process.address, 10).await?;
    let mut table = Table::new(
        "Text in → delta out, 20 at once, ms",
        &["", "p50", "p99", "later texts p50", "p99"],
    );
    for (name, runners) in [
        ("streams of a model", 0),
        ("turns on one runner", 1),
        ("turns on ten runners", 10),
    ] {
        let mut threads = Vec::new();
        for _ in 0..TURNS {
            threads.push(team.thread().await?);
        }
        let seen = match runners {
            0 => by_model(&model, &team, &threads).await?,
            count => by_runners(&team, &threads, &format!("api{count}x"), count).await?,
        };
        let mut cells = vec![name.to_owned()];
        for values in [&seen.first, &seen.later] {
            for p in [0.5, 0.99] {
                cells.push(format!("{:.1}", percentile(values, p)));
            }
        }
        table.row(cells);
    }
    table.print();
    say(&format!(
        "\n{}. {TURNS} replies of {TEXTS} texts, one every {} ms, each with its own watcher; {STREAM_ROUNDS} rounds (target 60 ms for \
         the p99 of turns). Deltas of models wait for the 50 ms window; runners have already waited.",
        process::engine(),
        TEXT_EVERY.as_millis()
    ));
    Ok(())
}
