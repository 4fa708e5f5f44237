//! Whatever people do in whatever order, and whichever connections drop: in the end every client shows what is stored.

use std::collections::BTreeMap;

use proptest::{
    prelude::*,
    test_runner::{Config, FileFailurePersistence},
};
use serde_json::{Value, json};

use crate::support::{Person, Socket, Team, id, number, team, text};

const CLIENTS: usize = 3;

/// Something that happens. Numbers pick among what there is by then.
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
    /// A client reads some frames.
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
        3 => (client.clone(), 1..6_usize).prop_map(|(client, frames)| Act::Read { client, frames }),
        2 => client.clone().prop_map(|client| Act::Drop { client }),
        3 => client.prop_map(|client| Act::Resume { client }),
    ]
}

/// What a client knows: messages by thread and number, as events told it.
struct Client {
    person: Person,
    socket: Option<Socket>,
    cursor: i64,
    epoch: String,
    messages: BTreeMap<(String, i64), Value>,
}

impl Client {
    fn take(&mut self, frame: &Value) {
        let data = &frame["data"];
        if !(data.is_object() && frame["seq"].is_i64()) {
            return;
        }
        let seq = number(frame, "/seq");
        assert!(seq > self.cursor, "an event came twice, or out of order");
        self.cursor = seq;
        match text(frame, "/type").as_str() {
            "message.created" | "message.updated" | "message.deleted" => {
                let message = &data["message"];
                let place = (text(message, "/thread_id"), number(message, "/seq"));
                self.messages.insert(place, message.clone());
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

    async fn read(&mut self, frames: usize) {
        let Some(mut socket) = self.socket.take() else {
            return;
        };
        for _ in 0..frames {
            // A ping makes sure that there is something to read.
            socket.send(&json!({"type": "ping", "id": "p"})).await;
            let frame = socket.next().await;
            self.take(&frame);
        }
        self.socket = Some(socket);
    }

    async fn resume(&mut self) {
        if self.socket.is_none() {
            let hello = json!({"since": self.cursor, "epoch": self.epoch});
            let socket = Socket::greet(&self.person, hello).await;
            assert_eq!(socket.ready["resumed"], true);
            self.socket = Some(socket);
        }
    }

    async fn read_through(&mut self, head: i64) {
        self.resume().await;
        let mut socket = self.socket.take().unwrap();
        while self.cursor < head {
            let frame = socket.next().await;
            self.take(&frame);
        }
    }
}

/// What has been made so far.
#[derive(Default)]
struct World {
    threads: Vec<String>,
    /// With who wrote it; those that were deleted stay.
    messages: Vec<(String, bool)>,
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
        Act::Read { client, frames } => clients[*client].read(*frames).await,
        Act::Drop { client } => clients[*client].socket = None,
        Act::Resume { client } => clients[*client].resume().await,
    }
}

async fn run(acts: &[Act]) {
    let t = team().await;
    let snapshot = t.ada.get("/v1/snapshot").await.ok();
    let mut clients: Vec<Client> = [&t.ada, &t.bo, &t.bo]
        .map(|person| Client {
            person: person.clone(),
            socket: None,
            cursor: number(&snapshot, "/seq"),
            epoch: text(&snapshot, "/epoch"),
            messages: BTreeMap::new(),
        })
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
    fn any_order_of_acts_drops_and_resumes_leaves_every_client_equal_to_a_fresh_load(
        acts in prop::collection::vec(act(), 20..60)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(&acts));
    }
}
