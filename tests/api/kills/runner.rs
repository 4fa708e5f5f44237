//! A runner that works by itself, and whose journal survives its connections: when its server dies, it connects again and goes on.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex},
};

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet};
use tokio_tungstenite::tungstenite::Message;

use super::POLL;
use crate::{
    code_turns::{COMMIT, done},
    support::{RunnerSocket, greeting, open_runner, text, upload},
};

/// Reply to each prompt.
pub(super) const REPLY: &str = "Fix the login\n\nThe cookie was missing. It is tested.";
/// Option with which questions are answered.
pub(super) const ANSWER: &str = "all";

/// What a runner has on its disk for a session.
#[derive(Default)]
struct Journal {
    /// Number of the last command.
    received: u64,
    /// Events from number 1.
    events: Vec<Value>,
}

#[derive(Default)]
struct Disk {
    journals: BTreeMap<String, Journal>,
    /// Commits by branch.
    pushed: BTreeMap<String, BTreeSet<String>>,
}

struct Shared {
    key: String,
    disk: Mutex<Disk>,
}

pub(super) struct WorkingRunner {
    shared: Arc<Shared>,
    addresses: watch::Sender<Vec<String>>,
    _running: JoinSet<()>,
}

impl WorkingRunner {
    /// Starts a runner with this key, which offers `api`.
    pub(super) fn start(key: &str) -> Self {
        let shared = Arc::new(Shared {
            key: key.to_owned(),
            disk: Mutex::default(),
        });
        let (addresses, receiver) = watch::channel(Vec::new());
        let mut running = JoinSet::new();
        running.spawn(run(Arc::clone(&shared), receiver));
        Self {
            shared,
            addresses,
            _running: running,
        }
    }

    /// Makes these servers the ones that the runner connects to, one after another.
    pub(super) fn connect_to(&self, addresses: &[&str]) {
        let addresses = addresses.iter().map(|base| (*base).to_owned()).collect();
        self.addresses.send_replace(addresses);
    }

    /// True if the runner connects to this server.
    pub(super) fn knows(&self, base: &str) -> bool {
        self.addresses.borrow().iter().any(|known| known == base)
    }

    /// The commits that were pushed to a branch.
    pub(super) fn commits(&self, branch: &str) -> BTreeSet<String> {
        let disk = self.shared.disk.lock().unwrap();
        disk.pushed.get(branch).cloned().unwrap_or_default()
    }
}

async fn run(shared: Arc<Shared>, addresses: watch::Receiver<Vec<String>>) {
    for n in 0_usize.. {
        let known = addresses.borrow().clone();
        let next = known.get(n % known.len().max(1));
        if let Some(base) = next
            && let Ok(socket) = open_runner(base, &shared.key).await
        {
            serve(&shared, base, socket).await;
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn send(socket: &mut RunnerSocket, frame: &Value) -> Option<()> {
    let sent = socket.send(Message::text(frame.to_string())).await;
    sent.ok()
}

/// The next frame; `None` if the connection has ended.
async fn receive(socket: &mut RunnerSocket) -> Option<Value> {
    loop {
        match socket.next().await?.ok()? {
            Message::Text(text) => return serde_json::from_str(&text).ok(),
            Message::Close(_) => return None,
            _ => {}
        }
    }
}

/// Serves a connection until it ends, for which it returns `None`.
async fn serve(shared: &Shared, base: &str, mut socket: RunnerSocket) -> Option<()> {
    let mut hello = greeting(&["api"]);
    hello["sessions"] = shared.received();
    send(&mut socket, &hello).await?;
    loop {
        let frame = receive(&mut socket).await?;
        let session = frame["session"].as_str().unwrap_or_default();
        match frame["type"].as_str()? {
            "ready" => {
                for (session, n) in frame["sessions"].as_object()? {
                    shared
                        .send_events(&mut socket, session, n.as_u64()?)
                        .await?;
                }
            }
            "resend" => {
                let n = frame["n"].as_u64()?;
                shared.send_events(&mut socket, session, n).await?;
            }
            "ack" => {}
            _ => {
                let last = shared.last_event(session);
                let kind = shared.take(base, session, &frame).await?;
                let n = shared.received()[session].clone();
                let reply = json!({"type": kind, "session": session, "n": n});
                send(&mut socket, &reply).await?;
                shared.send_events(&mut socket, session, last).await?;
            }
        }
    }
}

/// The commit that a push makes: the same one for the same tree, parent, text, and time.
fn commit_of(push: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    for field in ["tree", "parent", "title", "body", "at"] {
        text(push, &format!("/{field}")).hash(&mut hasher);
    }
    format!("{:040x}", hasher.finish())
}

impl Shared {
    /// Number of the last command by session.
    fn received(&self) -> Value {
        let disk = self.disk.lock().unwrap();
        let received = disk.journals.iter();
        let received: BTreeMap<&str, u64> = received
            .map(|(session, journal)| (session.as_str(), journal.received))
            .collect();
        json!(received)
    }

    fn last_event(&self, session: &str) -> u64 {
        let disk = self.disk.lock().unwrap();
        let journal = disk.journals.get(session);
        journal.map_or(0, |journal| journal.events.len() as u64)
    }

    /// Sends the events of a session after number `n`.
    async fn send_events(&self, socket: &mut RunnerSocket, session: &str, n: u64) -> Option<()> {
        let events = {
            let disk = self.disk.lock().unwrap();
            let journal = disk.journals.get(session);
            journal.map_or_else(Vec::new, |journal| journal.events.clone())
        };
        for (number, mut event) in (1_u64..).zip(events) {
            if number > n {
                event["session"] = session.into();
                event["n"] = number.into();
                send(socket, &event).await?;
            }
        }
        Some(())
    }

    /// Executes a command unless it is known, and returns the type of the response; `None` if the server is gone before that.
    async fn take(&self, base: &str, session: &str, command: &Value) -> Option<&'static str> {
        let n = command["n"].as_u64()?;
        let last = {
            let mut disk = self.disk.lock().unwrap();
            disk.journals
                .entry(session.to_owned())
                .or_default()
                .received
        };
        if n != last + 1 {
            return Some(if n <= last { "ack" } else { "resend" });
        }
        let events = match command["type"].as_str()? {
            "open" => vec![json!({"type": "opened", "commit": COMMIT})],
            "prompt" => begin(&text(command, "/task")),
            "answer" => {
                assert_eq!(command["value"], ANSWER);
                let task = text(command, "/ask").replacen("ask_", "", 1);
                self.end(base, session, &task).await?
            }
            "push" => {
                let (action, branch) = (text(command, "/action"), text(command, "/branch"));
                let commit = commit_of(command);
                let mut disk = self.disk.lock().unwrap();
                let commits = disk.pushed.entry(branch).or_default();
                commits.insert(commit.clone());
                vec![
                    json!({"type": "pushed", "action": action, "commit": commit, "url": null, "note": null}),
                ]
            }
            other => panic!("an unexpected command: {other}"),
        };
        let mut disk = self.disk.lock().unwrap();
        let journal = disk.journals.get_mut(session)?;
        journal.events.extend(events);
        journal.received = n;
        Some("ack")
    }

    /// The second half of a turn, whose texts are uploaded first.
    async fn end(&self, base: &str, session: &str, task: &str) -> Option<Vec<Value>> {
        for name in ["patch", "log"] {
            let path = format!("{session}/{name}?task_id={task}");
            let status = upload(base, &self.key, &path, name).await.ok()?;
            // The server answers with 503 while it ends.
            (status == 204).then_some(())?;
        }
        let (_, rest) = REPLY.split_at(REPLY.len() / 2);
        Some(vec![
            json!({"type": "text", "task": task, "text": rest}),
            done(task, 1),
        ])
    }
}

/// The first half of a turn, up to a question.
fn begin(task: &str) -> Vec<Value> {
    let step =
        json!({"step": 0, "title": "Edit src/login.rs", "kind": "edit", "state": "done", "ms": 40});
    let (first, _) = REPLY.split_at(REPLY.len() / 2);
    vec![
        json!({"type": "text", "task": task, "text": first}),
        json!({"type": "step", "task": task, "steps": [step]}),
        json!({"type": "plan", "task": task, "entries": [{"content": "Test it", "status": "pending"}]}),
        json!({"type": "usage", "task": task, "reported_cost_usd": 0.5}),
        json!({
            "type": "ask", "task": task, "ask": format!("ask_{task}"), "kind": "question", "title": "Which tests?",
            "options": [{"id": ANSWER, "name": "All"}], "schema": null,
        }),
    ]
}
