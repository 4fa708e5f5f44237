//! After any sequence of actions and dropped connections, every client shows the stored state.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{
    prelude::*,
    test_runner::{Config, FileFailurePersistence},
};
use serde_json::{Value, json};

use crate::support::{Person, Socket, Team, id, list, number, team, text};

const CLIENTS: usize = 3;

/// An action of the test. Each number selects one of the objects that exist at that point.
#[derive(Debug, Clone)]
enum Act {
    Start {
        who: bool,
    },
    Say {
        who: bool,
        thread: usize,
    },
    Ask {
        thread: usize,
    },
    Edit {
        message: usize,
    },
    Delete {
        message: usize,
    },
    React {
        who: bool,
        message: usize,
        emoji: bool,
    },
    Unreact {
        who: bool,
        message: usize,
        emoji: bool,
    },
    TestFork {
        who: bool,
        message: usize,
    },
    SayIn {
        who: bool,
        fork: usize,
    },
    AskIn {
        fork: usize,
    },
    Rename {
        fork: usize,
    },
    Resolve {
        who: bool,
        fork: usize,
        publish: bool,
    },
    EditDraft {
        who: bool,
        fork: usize,
    },
    Publish {
        who: bool,
        fork: usize,
    },
    Reopen {
        fork: usize,
    },
    Abandon {
        fork: usize,
    },
    /// Checks or unchecks an action item.
    Tick {
        who: bool,
        item: usize,
        done: bool,
    },
    /// A client reads this many frames.
    Read {
        client: usize,
        frames: usize,
    },
    Drop {
        client: usize,
    },
    Resume {
        client: usize,
    },
}

fn act() -> impl Strategy<Value = Act> {
    let (who, n, client) = (any::<bool>(), 0..1000_usize, 0..CLIENTS);
    prop_oneof![
        1 => who.prop_map(|who| Act::Start { who }),
        6 => (who, n.clone()).prop_map(|(who, thread)| Act::Say { who, thread }),
        1 => n.clone().prop_map(|thread| Act::Ask { thread }),
        3 => n.clone().prop_map(|message| Act::Edit { message }),
        2 => n.clone().prop_map(|message| Act::Delete { message }),
        3 => (who, n.clone(), who).prop_map(|(who, message, emoji)| Act::React { who, message, emoji }),
        2 => (who, n.clone(), who).prop_map(|(who, message, emoji)| Act::Unreact { who, message, emoji }),
        2 => (who, n.clone()).prop_map(|(who, message)| Act::TestFork { who, message }),
        6 => (who, n.clone()).prop_map(|(who, fork)| Act::SayIn { who, fork }),
        1 => n.clone().prop_map(|fork| Act::AskIn { fork }),
        1 => n.clone().prop_map(|fork| Act::Rename { fork }),
        2 => (who, n.clone(), who).prop_map(|(who, fork, publish)| Act::Resolve { who, fork, publish }),
        4 => (who, n.clone()).prop_map(|(who, fork)| Act::EditDraft { who, fork }),
        3 => (who, n.clone()).prop_map(|(who, fork)| Act::Publish { who, fork }),
        2 => n.clone().prop_map(|fork| Act::Reopen { fork }),
        1 => n.clone().prop_map(|fork| Act::Abandon { fork }),
        2 => (who, n.clone(), who).prop_map(|(who, item, done)| Act::Tick { who, item, done }),
        3 => (client.clone(), 1..6_usize).prop_map(|(client, frames)| Act::Read { client, frames }),
        2 => client.clone().prop_map(|client| Act::Drop { client }),
        3 => client.prop_map(|client| Act::Resume { client }),
    ]
}

/// A client's state, built from events: messages by thread and number, forks and resolutions by ID.
pub struct Client {
    pub person: Person,
    socket: Option<Socket>,
    cursor: i64,
    epoch: String,
    pub messages: BTreeMap<(String, i64), Value>,
    forks: BTreeMap<String, Value>,
    results: BTreeMap<String, Value>,
    /// Status of each task.
    tasks: BTreeMap<String, String>,
}

impl Client {
    /// Creates a client that starts at the position of a snapshot and knows no objects yet.
    pub fn new(person: &Person, snapshot: &Value) -> Self {
        Self {
            person: person.clone(),
            socket: None,
            cursor: number(snapshot, "/seq"),
            epoch: text(snapshot, "/epoch"),
            messages: BTreeMap::new(),
            forks: BTreeMap::new(),
            results: BTreeMap::new(),
            tasks: BTreeMap::new(),
        }
    }

    fn take(&mut self, frame: &Value) {
        let data = &frame["data"];
        if !(data.is_object() && frame["seq"].is_i64()) {
            return;
        }
        let seq = number(frame, "/seq");
        assert!(seq > self.cursor, "an event arrived twice or out of order");
        self.cursor = seq;
        match text(frame, "/type").as_str() {
            "message.created" | "message.updated" | "message.deleted" => {
                let message = &data["message"];
                let place = (text(message, "/thread_id"), number(message, "/seq"));
                self.messages.insert(place, message.clone());
                let fork = message["fork_id"].as_str().unwrap_or_default();
                if frame["type"] == "message.created"
                    && let Some(fork) = self.forks.get_mut(fork)
                {
                    fork["message_count"] = (number(fork, "/message_count") + 1).into();
                }
                if frame["type"] == "message.deleted" {
                    self.results
                        .retain(|_, result| result["message_id"] != message["id"]);
                }
            }
            "task.status_changed" => {
                let task = &data["task"];
                self.tasks.insert(id(task), text(task, "/status"));
            }
            "fork.created" | "fork.updated" => {
                self.forks.insert(id(&data["fork"]), data["fork"].clone());
            }
            "resolution.drafted" | "resolution.updated" | "resolution.published" => {
                let result = &data["resolution"];
                self.results.insert(id(result), result.clone());
            }
            "action_item.updated" => {
                let item = &data["action_item"];
                let result = self.results.get_mut(&text(item, "/resolution_id"));
                let items = result.and_then(|result| result["action_items"].as_array_mut());
                let known =
                    items.and_then(|items| items.iter_mut().find(|i| i["id"] == item["id"]));
                // When events are replayed, a resolution has no items if its message was deleted later.
                if let Some(known) = known {
                    for field in ["done", "owner_id", "owner_name", "due"] {
                        known[field] = item[field].clone();
                    }
                }
            }
            "reaction.added" | "reaction.removed" => {
                let message = self
                    .messages
                    .values_mut()
                    .find(|m| m["id"] == data["message_id"]);
                message.unwrap()["reactions"] = data["reactions"].clone();
            }
            _ => {}
        }
    }

    /// Reads this many frames, or fewer if the connection breaks.
    pub async fn read(&mut self, frames: usize) {
        for _ in 0..frames {
            // The ping ensures that there is at least one frame to read.
            self.request(json!({"type": "ping", "id": "p"}), |_| true)
                .await;
        }
    }

    /// Sends a frame and reads frames up to the first one for which `last` returns `true`. Returns that frame, or `None` if there is
    /// no connection or it breaks.
    pub async fn request(&mut self, frame: Value, last: impl Fn(&Value) -> bool) -> Option<Value> {
        let mut socket = self.socket.take()?;
        socket.try_send(&frame).await.ok()?;
        loop {
            let frame = socket.try_next().await?;
            self.take(&frame);
            if last(&frame) {
                self.socket = Some(socket);
                return Some(frame);
            }
        }
    }

    pub fn let_go(&mut self) {
        self.socket = None;
    }

    async fn resume(&mut self) {
        self.try_resume().await.unwrap();
    }

    /// Resumes after the last received event.
    ///
    /// # Errors
    /// The connection error if the server is unavailable.
    pub async fn try_resume(&mut self) -> Result<(), String> {
        if self.socket.is_none() {
            let hello = json!({"since": self.cursor, "epoch": self.epoch});
            let socket = Socket::try_greet(&self.person, hello).await?;
            assert_eq!(socket.ready["resumed"], true, "{}", socket.ready);
            self.socket = Some(socket);
        }
        Ok(())
    }

    /// Reads everything up to the event `head`. A connection that the server closed, because this client did not read for a minute on a
    /// busy machine, is resumed.
    pub async fn read_through(&mut self, head: i64) {
        while self.cursor < head {
            self.resume().await;
            let mut socket = self.socket.take().unwrap();
            if let Some(frame) = socket.try_next().await {
                self.take(&frame);
                self.socket = Some(socket);
            }
        }
    }
}

/// Objects created so far.
#[derive(Default)]
struct World {
    threads: Vec<String>,
    /// Message IDs, and whether Ada is the author; deleted messages stay in the list.
    messages: Vec<(String, bool)>,
    forks: Vec<String>,
    items: Vec<String>,
    tasks: Vec<String>,
    count: usize,
}

fn pick<T>(all: &[T], n: usize) -> Option<&T> {
    if all.is_empty() {
        None
    } else {
        Some(&all[n % all.len()])
    }
}

async fn perform(t: &Team, world: &mut World, clients: &mut [Client], act: &Act) {
    let person = |who: bool| if who { &t.ada } else { &t.bo };
    world.count += 1;
    let words = format!("{} 👋 @bo", world.count);
    match act {
        Act::Start { who } => {
            let started = person(*who).start(&t.general, &words).await;
            world.threads.push(text(&started, "/thread/id"));
            world.messages.push((text(&started, "/message/id"), *who));
        }
        Act::Say { who, thread } => {
            if let Some(thread) = pick(&world.threads, *thread) {
                let message = person(*who).tell(thread, &words).await;
                world.messages.push((message, *who));
            }
        }
        Act::Ask { thread } => {
            if let Some(thread) = pick(&world.threads, *thread) {
                let posted = t.ada.say(thread, &format!("@vibe {words}")).await;
                world.messages.push((text(&posted, "/message/id"), true));
                world.tasks.push(text(&posted, "/tasks/0/id"));
            }
        }
        Act::Edit { message } => {
            if let Some((message, who)) = pick(&world.messages, *message) {
                let reply = person(*who)
                    .patch(
                        &format!("/v1/messages/{message}"),
                        json!({"content": words}),
                    )
                    .await;
                assert!(matches!(reply.status, 200 | 409), "{}", reply.text);
            }
        }
        Act::Delete { message } => {
            if let Some((message, who)) = pick(&world.messages, *message) {
                person(*who)
                    .delete(&format!("/v1/messages/{message}"))
                    .await
                    .is(200);
            }
        }
        Act::React {
            who,
            message,
            emoji,
        }
        | Act::Unreact {
            who,
            message,
            emoji,
        } => {
            if let Some((message, _)) = pick(&world.messages, *message) {
                let path = format!(
                    "/v1/messages/{message}/reactions/{}",
                    if *emoji { "👍" } else { "tada" }
                );
                let reply = if matches!(act, Act::React { .. }) {
                    person(*who).put(&path, json!({})).await
                } else {
                    person(*who).delete(&path).await
                };
                assert!(matches!(reply.status, 200 | 409), "{}", reply.text);
            }
        }
        Act::TestFork { .. }
        | Act::SayIn { .. }
        | Act::AskIn { .. }
        | Act::Rename { .. }
        | Act::Resolve { .. }
        | Act::EditDraft { .. }
        | Act::Publish { .. }
        | Act::Reopen { .. }
        | Act::Abandon { .. }
        | Act::Tick { .. } => dive(t, world, act, &words).await,
        Act::Read { client, frames } => clients[*client].read(*frames).await,
        Act::Drop { client } => clients[*client].let_go(),
        Act::Resume { client } => clients[*client].resume().await,
    }
}

/// Performs an action in or around a fork. Many actions are rejected because the fork is closed, full, or empty, or because its draft
/// is being edited.
async fn dive(t: &Team, world: &mut World, act: &Act, words: &str) {
    let person = |who: bool| if who { &t.ada } else { &t.bo };
    if let Act::TestFork { who, message } = act {
        let Some((message, _)) = pick(&world.messages, *message) else {
            return;
        };
        let thread = text(&t.ada.message(message).await, "/thread_id");
        let form = json!({"agent_id": null});
        let made = person(*who).try_fork(&thread, message, form).await;
        assert!(matches!(made.status, 201 | 409 | 422), "{}", made.text);
        if made.status == 201 {
            world.forks.push(text(&made.json(), "/fork/id"));
        }
        return;
    }
    if let Act::Tick { who, item, done } = act {
        if let Some(item) = pick(&world.items, *item) {
            let path = format!("/v1/action-items/{item}");
            let ticked = person(*who).patch(&path, json!({"done": done})).await;
            assert!(matches!(ticked.status, 200 | 404), "{}", ticked.text);
        }
        return;
    }
    let (Act::SayIn { fork, .. }
    | Act::AskIn { fork }
    | Act::Rename { fork }
    | Act::Resolve { fork, .. }
    | Act::EditDraft { fork, .. }
    | Act::Publish { fork, .. }
    | Act::Reopen { fork }
    | Act::Abandon { fork }) = act
    else {
        return;
    };
    let Some(fork) = pick(&world.forks, *fork).cloned() else {
        return;
    };
    let path = format!("/v1/forks/{fork}");
    let reply = match act {
        Act::SayIn { who, .. } => person(*who).try_say_in(&fork, words).await,
        Act::AskIn { .. } => t.ada.try_say_in(&fork, &format!("@vibe {words}")).await,
        Act::Rename { .. } => t.bo.patch(&path, json!({"title": words})).await,
        Act::Resolve { who, publish, .. } => {
            let wish = json!({"publish": publish, "replace_draft": publish});
            person(*who).try_resolve(&fork, wish).await
        }
        Act::EditDraft { who, .. } => {
            let read = t.ada.get(&format!("{path}/resolution")).await;
            let revision = if read.status == 200 {
                number(&read.json(), "/revision")
            } else {
                0
            };
            let content =
                json!({"headline": words, "action_items": [{"text": words, "owner_id": t.bo.id}]});
            person(*who).edit_draft(&fork, revision, content).await
        }
        Act::Publish { who, .. } => {
            let content = json!({"resolution": {"headline": words}});
            person(*who).try_publish(&fork, content).await
        }
        Act::Reopen { .. } => t.bo.act(&format!("{path}/reopen")).await,
        _ => t.ada.act(&format!("{path}/abandon")).await,
    };
    assert!(
        matches!(reply.status, 200..=202 | 409 | 422),
        "{act:?}: {}",
        reply.text
    );
    if reply.status > 202 {
        return;
    }
    let done = reply.json();
    match act {
        Act::SayIn { who, .. } => world.messages.push((text(&done, "/message/id"), *who)),
        Act::AskIn { .. } => {
            world.messages.push((text(&done, "/message/id"), true));
            world.tasks.push(text(&done, "/tasks/0/id"));
        }
        Act::Resolve { .. } => world.tasks.push(text(&done, "/task/id")),
        Act::Publish { .. } => {
            let by_ada = done["message"]["author"]["id"] == t.ada.id.as_str();
            let by_bo = done["message"]["author"]["id"] == t.bo.id.as_str();
            if by_ada || by_bo {
                world.messages.push((text(&done, "/message/id"), by_ada));
            }
            let items = done["resolution"]["action_items"].as_array().unwrap();
            world.items.extend(items.iter().map(id));
        }
        _ => {}
    }
}

/// Stored state of the forks, loaded from scratch.
#[derive(Debug, PartialEq)]
pub struct Fresh {
    forks: BTreeMap<String, Value>,
    open: Vec<Value>,
    /// The draft or the newest resolution of each fork.
    results: Vec<Value>,
    decisions: Vec<Value>,
    tasks: BTreeMap<String, String>,
}

/// Loads everything about these forks, and the status of every task.
pub async fn fresh(person: &Person, forks: &[String]) -> Fresh {
    let tasks = person.every("/v1/tasks").await;
    let mut fresh = Fresh {
        forks: BTreeMap::new(),
        open: list(&person.get("/v1/snapshot").await.ok(), "/open_forks"),
        results: Vec::new(),
        decisions: person.every("/v1/decisions").await,
        tasks: tasks.iter().map(|t| (id(t), text(t, "/status"))).collect(),
    };
    for fork in forks {
        fresh.forks.insert(fork.clone(), person.fork(fork).await);
        let newest = person.get(&format!("/v1/forks/{fork}/resolution")).await;
        if newest.status == 200 {
            fresh.results.push(newest.json());
        }
    }
    fresh
}

impl Client {
    /// Asserts that the client's forks and tasks equal a fresh load.
    pub fn compare(&self, fresh: &Fresh) {
        assert_eq!(self.tasks, fresh.tasks);
        assert_eq!(self.forks, fresh.forks);
        let active: Vec<&Value> = self
            .forks
            .values()
            .filter(|fork| fork["status"] == "active")
            .collect();
        assert_eq!(active, fresh.open.iter().collect::<Vec<_>>());
        for result in fresh.results.iter().chain(&fresh.decisions) {
            let mut known = self.results[&id(result)].clone();
            // The title belongs to the fork, so its change is announced with the fork.
            known["fork_title"] = self.forks[&text(result, "/fork_id")]["title"].clone();
            let is_told_later =
                result["status"] == "draft" && known["revision"] != result["revision"];
            if is_told_later {
                assert!(number(&known, "/revision") < number(result, "/revision"));
            } else {
                assert_eq!(known, *result);
            }
        }
        let published: BTreeSet<String> = self
            .results
            .values()
            .filter(|result| result["status"] == "published")
            .map(id)
            .collect();
        assert_eq!(published, fresh.decisions.iter().map(id).collect());
    }
}

async fn run(acts: &[Act]) {
    let t = team().await;
    let snapshot = t.ada.get("/v1/snapshot").await.ok();
    let mut clients: Vec<Client> = [&t.ada, &t.bo, &t.bo]
        .map(|person| Client::new(person, &snapshot))
        .into();
    let mut world = World::default();
    for act in acts {
        perform(&t, &mut world, &mut clients, act).await;
    }
    for task in &world.tasks {
        t.ada.ended(task).await;
    }
    let mut stored: BTreeMap<(String, i64), Value> = BTreeMap::new();
    for thread in &world.threads {
        for message in t.ada.messages(thread).await {
            stored.insert((thread.clone(), number(&message, "/seq")), message);
        }
    }
    for fork in &world.forks {
        for message in t.ada.messages_in(fork).await {
            let place = (text(&message, "/thread_id"), number(&message, "/seq"));
            stored.insert(place, message);
        }
    }
    let fresh = fresh(&t.ada, &world.forks).await;
    let head = number(&t.ada.get("/v1/snapshot").await.ok(), "/seq");
    for client in &mut clients {
        client.read_through(head).await;
        let difference = stored
            .iter()
            .find(|(place, message)| client.messages.get(place) != Some(message));
        assert!(difference.is_none(), "stored: {difference:?}");
        let surplus: Vec<String> = client
            .messages
            .iter()
            .filter(|(place, _)| !stored.contains_key(*place))
            .map(|(_, m)| id(m))
            .collect();
        assert!(surplus.is_empty(), "{surplus:?}");
        client.compare(&fresh);
    }
}

fn config() -> Config {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(8);
    let seeds = FileFailurePersistence::WithSource("proptest");
    Config {
        cases,
        failure_persistence: Some(Box::new(seeds)),
        max_shrink_iters: 40,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_order_of_actions_and_reconnects_leaves_clients_equal_to_a_fresh_load(
        acts in prop::collection::vec(act(), 30..90)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(&acts));
    }
}
