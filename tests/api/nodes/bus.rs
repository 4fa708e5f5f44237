//! Attacks on the bus over NATS, and nodes with other keys.

use std::time::Duration;

use async_nats::{Client, Message, Subscriber};
use futures::{FutureExt, StreamExt};
use openvibe::ids::NodeId;
use serde_json::{Value, json};
use sqlx::postgres::PgListener;

use super::{DRAIN, Pair, assert_without_gaps, faults::beside_relayed, over, ready, seqs_through};
use crate::support::{
    Answer, Gate, ModelServer, NatsServer, SECRET_KEY, TestApp, TestDatabase, command,
    is_shared_engine, list, refusal, visitor, within,
};

const NEW_KEY: &str = "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA=";
const BOTH_KEYS: &str =
    "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA=,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// Someone without the key who reaches the NATS server.
struct Attacker {
    client: Client,
    received: Subscriber,
    recorded: Vec<Message>,
}

impl Attacker {
    /// Connects and records all packets.
    async fn on(nats: &NatsServer) -> Self {
        let client = async_nats::connect(nats.url()).await.unwrap();
        let received = client.subscribe("ov1.>").await.unwrap();
        client.flush().await.unwrap();
        Self {
            client,
            received,
            recorded: Vec::new(),
        }
    }

    /// Records packets up to one of at least this size on the subject of a workspace; returns that subject.
    async fn record_room(&mut self, bytes_min: usize) -> String {
        within("a packet of a room", async {
            loop {
                let message = self.received.next().await.unwrap();
                let subject = message.subject.to_string();
                let is_last = subject.contains(".w.") && message.payload.len() >= bytes_min;
                self.recorded.push(message);
                if is_last {
                    return subject;
                }
            }
        })
        .await
    }

    async fn send(&self, subject: &str, payload: impl Into<Vec<u8>>) {
        let payload: Vec<u8> = payload.into();
        let sent = self.client.publish(subject.to_owned(), payload.into());
        sent.await.unwrap();
    }

    /// Sends what was recorded again: as it is, on other subjects, cut, and changed. Returns the number of packets.
    async fn repeat_recorded(&self, room: &str) -> u64 {
        let all = room.split(".w.").next().unwrap().to_owned() + ".all";
        let mut count = 0;
        for message in &self.recorded {
            let other = if message.subject.contains(".w.") {
                all.as_str()
            } else {
                room
            };
            let payload = message.payload.to_vec();
            self.send(&message.subject, payload.clone()).await;
            self.send(other, payload.clone()).await;
            for end in [0, 1, 40, 57, payload.len() - 1] {
                self.send(&message.subject, &payload[..end]).await;
            }
            let mut changed = payload.clone();
            // The last byte of the counter, then one of the text.
            changed[40] ^= 0x40;
            self.send(&message.subject, changed.clone()).await;
            changed[60] ^= 1;
            self.send(&message.subject, changed).await;
            count += 9;
        }
        count
    }
}

/// Sum of all series of a metric. All servers of the process share their metrics.
async fn metric(base: &str, name: &str) -> u64 {
    let text = visitor(base).get("/metrics").await.text;
    let series = text.lines().filter(|line| line.starts_with(name));
    series
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
        .sum()
}

/// Messages that nodes without encryption accept.
fn forgeries(workspace: &str, user: &str) -> Vec<Value> {
    let frame = json!({"type": "read.updated", "thread_id": "forged"}).to_string();
    vec![
        json!({"type": "user", "workspace": workspace, "user": user, "frame": frame}),
        json!({"type": "presence", "workspace": workspace, "user": user, "status": "offline"}),
        json!({"type": "log", "workspace": workspace, "first": 900, "last": 1000}),
        json!({"type": "revoke"}),
        json!({"type": "node", "state": "draining", "sent_at_ms": 0}),
    ]
}

/// The nodes practically never poll, and the second one's database does not respond during the attack. So the message after it arrives
/// only if no forged packet has moved a position, and if nothing waits for a read.
#[tokio::test]
async fn packets_of_an_attacker_cause_no_frame_and_stop_no_later_event() {
    if !is_shared_engine() {
        return;
    }
    let nats = NatsServer::start().await;
    let mut attacker = Attacker::on(&nats).await;
    let url = nats.url();
    let first = TestApp::on_bus_only(&over(&url)).await;
    let (p, relay, mut bo, thread) = beside_relayed(first).await;
    let text = ["a text to look for"; 100].join(" ");
    p.ada.say(&thread, &text).await;
    seqs_through(&mut bo, &text).await;
    let room = attacker.record_room(text.len()).await;
    for message in &attacker.recorded {
        let has_text = message.payload.windows(9).any(|part| part == b"a text to");
        assert!(!has_text, "the text can be read on {}", message.subject);
    }
    let nodes = list(&p.ada.get("/v1/nodes").await.ok(), "/data");
    let before = metric(&p.first.base, "openvibe_bus_rejected_total").await;
    relay.stall();

    let mut sent = attacker.repeat_recorded(&room).await;
    for message in forgeries(&p.ada.workspace, &p.bo.id) {
        for node in &nodes {
            let packet =
                json!({"v": 1, "node": node["id"], "epoch": bo.epoch(), "messages": [message]});
            attacker.send(&room, packet.to_string()).await;
            sent += 1;
        }
    }
    attacker.client.flush().await.unwrap();
    for n in 0..6 {
        p.ada.say(&thread, &format!("after the attack {n}")).await;
    }
    let frames = bo
        .through("the message after the attack", |f| {
            f["data"]["message"]["content"] == "after the attack 5"
        })
        .await;
    let events = frames.iter().filter(|frame| frame["seq"].is_i64()).count();
    assert_eq!(events, 6, "{frames:?}");
    let forged = |f: &Value| f["type"] == "read.updated" || f["status"] == "offline";
    assert!(!frames.iter().any(forged), "{frames:?}");
    within("every packet to be rejected", async {
        let rejected = "openvibe_bus_rejected_total";
        // The second node receives every packet.
        while metric(&p.first.base, rejected).await < before + sent {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    relay.mend();
}

#[tokio::test]
async fn events_arrive_while_only_one_of_two_nodes_has_the_new_key() {
    if !is_shared_engine() {
        return;
    }
    let nats = NatsServer::start().await;
    let url = nats.url();
    // The nodes practically never poll.
    let first = TestApp::on_bus_only(&over(&url)).await;
    let second = first.beside("two", &[("SECRET_KEY", BOTH_KEYS)]).await;
    let p = Pair::of(first, second, Some(nats)).await;
    for base in [&p.first.base, &p.second.base] {
        assert_eq!(ready(base).await["bus"], "nats");
    }
    let (mut ada, mut bo) = (p.ada.socket().await, p.bo.socket().await);
    let thread = p.ada.thread(&p.general, "Root").await;
    for n in 0..20 {
        let who = if n % 2 == 0 { &p.ada } else { &p.bo };
        who.say(&thread, &format!("message {n}")).await;
    }
    for socket in [&mut ada, &mut bo] {
        let seqs = seqs_through(socket, "message 19").await;
        // The root and 20 messages, with any other events between them.
        assert!(seqs.len() >= 21, "{seqs:?}");
        assert_without_gaps(&seqs);
    }
}

#[tokio::test]
async fn a_rolling_change_of_the_key_loses_no_event() {
    if !is_shared_engine() {
        return;
    }
    let mut p = Pair::over_nats().await;
    let thread = p.ada.thread(&p.general, "Root").await;
    for (step, key) in [BOTH_KEYS, NEW_KEY].into_iter().enumerate() {
        for node in [1, 2] {
            let app = if node == 1 {
                &mut p.first
            } else {
                &mut p.second
            };
            app.restart(&[("SECRET_KEY", key)]).await;
            p.first.knows_peers().await;
            p.second.knows_peers().await;
            (p.ada, p.bo) = (p.ada.at(&p.first.base), p.bo.at(&p.second.base));
            for base in [&p.first.base, &p.second.base] {
                assert_eq!(ready(base).await["node"]["state"], "ready");
            }
            let (mut ada, mut bo) = (p.ada.socket().await, p.bo.socket().await);
            for n in 0..10 {
                let who = if n % 2 == 0 { &p.ada } else { &p.bo };
                who.say(&thread, &format!("{step} {node} {n}")).await;
            }
            for socket in [&mut ada, &mut bo] {
                let seqs = seqs_through(socket, &format!("{step} {node} 9")).await;
                assert_eq!(seqs.len(), 10);
                assert_without_gaps(&seqs);
            }
        }
    }
}

#[tokio::test]
async fn a_node_with_another_key_serves_no_clients_and_runs_no_tasks() {
    if !is_shared_engine() {
        return;
    }
    let settings = [
        DRAIN,
        ("NODE_NAME", "one"),
        ("SECRET_KEY", SECRET_KEY),
        ("WORKERS", "1"),
    ];
    let first = TestApp::with(&settings).await;
    // A task that the second node claims fails.
    let of_second = [
        ("SECRET_KEY", NEW_KEY),
        ("MODEL_BASE_URL", "http://127.0.0.1:1/v1"),
        ("WORKERS", "16"),
    ];
    let second = first.beside("two", &of_second).await;
    let mut p = Pair::of(first, second, None).await;
    let refused = visitor(&p.second.base).get("/readyz").await.refused(503);
    assert_eq!(refused, "unavailable");
    let reply = visitor(&p.second.base).get("/readyz").await;
    assert!(reply.text.contains("OPENVIBE_SECRET_KEY"), "{}", reply.text);
    assert_eq!(ready(&p.first.base).await["node"]["state"], "ready");
    let nodes = list(&p.ada.get("/v1/nodes").await.ok(), "/data");
    let differing = &nodes[1]["differing_settings"];
    let names_key = |names: &Vec<Value>| names.contains(&json!("OPENVIBE_SECRET_KEY"));
    assert!(differing.as_array().is_some_and(names_key), "{differing}");

    let gate = Gate::new();
    let blocked = Answer::stream().piece("Hello").wait(&gate).end();
    let mut answers = vec![blocked];
    answers.extend((0..8).map(|_| Answer::text("Hello.")));
    p.first.model.script("vibe", answers);
    let thread = p.ada.thread(&p.general, "Root").await;
    let mut tasks = vec![p.ada.ask(&thread, "@vibe hi").await];
    p.first.model.asked("vibe", 1).await;
    for n in 0..8 {
        let thread = p.bo.thread(&p.general, &format!("Root {n}")).await;
        tasks.push(p.bo.ask(&thread, "@vibe hi").await);
    }
    gate.open();
    for task in &tasks {
        let ended = p.ada.completed(task).await;
        assert_eq!(ended["attempt"], 1);
    }
    p.first.stop().await;
    within("the second node to serve", async {
        while visitor(&p.second.base).get("/readyz").await.status != 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_older_node_is_listed_and_gets_events_over_notify_but_is_not_believed() {
    if !is_shared_engine() {
        return;
    }
    let p = Pair::over_nats().await;
    let old = uuid::Uuid::now_v7();
    let row = format!(
        "insert into nodes (id, name, incarnation, version, mode, state, started_at, lease_until, settings, figures) \
         values ('{old}', 'old', '{old}', '0.0.1', 'nats', 'ready', now(), now() + interval '1 hour', '{{}}', '{{}}')"
    );
    let mut notified = PgListener::connect(p.first.place.postgres.as_ref().unwrap())
        .await
        .unwrap();
    notified.listen("ov1").await.unwrap();
    p.first.place.run(&[&row]).await;
    let nodes = list(&p.ada.get("/v1/nodes").await.ok(), "/data");
    let encrypts: Vec<_> = nodes
        .iter()
        .map(|node| &node["encrypts_messages"])
        .collect();
    assert_eq!(encrypts, [&json!(false), &json!(true), &json!(true)]);

    let mut attacker = Attacker::on(p.nats.as_ref().unwrap()).await;
    let mut bo = p.bo.socket().await;
    let thread = p.ada.thread(&p.general, "Root").await;
    seqs_through(&mut bo, "Root").await;
    let room = attacker.record_room(0).await;
    let node = NodeId(old).to_string();
    for message in forgeries(&p.ada.workspace, &p.bo.id) {
        let packet = json!({"v": 1, "node": node, "epoch": bo.epoch(), "messages": [message]});
        attacker.send(&room, packet.to_string()).await;
    }
    attacker.client.flush().await.unwrap();
    within("the nodes to know the older one", async {
        // The nodes use NATS alone until the next poll.
        loop {
            p.ada.say(&thread, "over NOTIFY").await;
            while let Some(packet) = notified.recv().now_or_never() {
                if packet.unwrap().payload().contains("\"type\":\"log\"") {
                    return;
                }
            }
        }
    })
    .await;
    p.ada.say(&thread, "the last one").await;
    let frames = bo
        .through("the last message", |f| {
            f["data"]["message"]["content"] == "the last one"
        })
        .await;
    assert!(!frames.iter().any(|f| f["type"] == "read.updated"));
}

#[tokio::test]
async fn nodes_sign_in_with_the_password_in_the_address() {
    if !is_shared_engine() {
        return;
    }
    let nats = NatsServer::with_password("ov", "p@ss/word").await;
    let address = |login: &str| nats.url().replace("//", &format!("//{login}@"));
    let right = address("ov:p%40ss%2Fword");
    let app = TestApp::with(&over(&right)).await;
    assert_eq!(ready(&app.base).await["bus"], "nats");
    let wrong = address("ov:wrong-password");
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let line = refusal_of(&place, &model, &over(&wrong));
    assert!(line.contains("NATS rejected the credentials"), "{line}");
    assert!(!line.contains("wrong-password"), "{line}");
}

/// Runs a server that must refuse to start; returns the error.
fn refusal_of(place: &TestDatabase, model: &ModelServer, settings: &[(&str, &str)]) -> String {
    let mut command = command(place, model, settings);
    // The NATS client logs an error, too.
    command.arg("serve").env("OPENVIBE_LOG", "off");
    refusal(&command)
}

#[tokio::test]
async fn nats_without_a_secret_key_is_refused() {
    if !is_shared_engine() {
        return;
    }
    let (place, model) = (TestDatabase::migrated().await, ModelServer::start().await);
    let line = refusal_of(&place, &model, &[("NATS_URL", "nats://127.0.0.1:4222")]);
    for name in ["OPENVIBE_NATS_URL", "OPENVIBE_SECRET_KEY"] {
        assert!(line.contains(name), "{line}");
    }
}

#[tokio::test]
async fn nats_on_another_machine_without_credentials_is_listed() {
    if !is_shared_engine() {
        return;
    }
    // TEST-NET-1: nothing answers.
    let open = "nats://192.0.2.1:4222";
    let app = TestApp::with(&over(open)).await;
    let ada = app.founder("Ada").await;
    within("the address to be listed", async {
        loop {
            let nodes = list(&ada.get("/v1/nodes").await.ok(), "/data");
            if nodes[0]["open_nats"] == "192.0.2.1:4222" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let local = Pair::over_nats().await;
    local.first.knows_ready_peer().await;
    for node in list(&local.ada.get("/v1/nodes").await.ok(), "/data") {
        assert_eq!(node["open_nats"], Value::Null);
    }
}
