//! Several nodes on one `PostgreSQL` database, over NOTIFY and over NATS. Not applicable to `SQLite`.

mod bus;
mod clocks;
mod failover;
mod faults;
mod sign_in;

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Answer, Gate, NatsServer, Person, PushServer, SECRET_KEY, Socket, TestApp, id,
    is_shared_engine, list, number, pause, text, units, visitor, within,
};

/// Two nodes, with a person on each.
struct Pair {
    first: TestApp,
    second: TestApp,
    /// The admin, connected to the first node.
    ada: Person,
    /// A member, connected to the second node.
    bo: Person,
    /// ID of #general.
    general: String,
    nats: Option<NatsServer>,
}

const DRAIN: (&str, &str) = ("DRAIN", "200ms");

/// Settings of the first node on this NATS server.
fn over(nats: &str) -> [(&str, &str); 4] {
    [
        DRAIN,
        ("NODE_NAME", "one"),
        ("NATS_URL", nats),
        ("SECRET_KEY", SECRET_KEY),
    ]
}

impl Pair {
    async fn over_notify() -> Self {
        let settings = [DRAIN, ("NODE_NAME", "one")];
        Self::with(TestApp::with(&settings).await, None).await
    }

    /// Starts nodes that practically never poll, so that all events arrive over NOTIFY.
    async fn over_notify_alone() -> Self {
        let settings = [DRAIN, ("NODE_NAME", "one")];
        Self::with(TestApp::on_bus_only(&settings).await, None).await
    }

    async fn over_nats() -> Self {
        let nats = NatsServer::start().await;
        let url = nats.url();
        let settings = over(&url);
        Self::with(TestApp::with(&settings).await, Some(nats)).await
    }

    async fn over_nats_alone() -> Self {
        let nats = NatsServer::start().await;
        let url = nats.url();
        let settings = over(&url);
        Self::with(TestApp::on_bus_only(&settings).await, Some(nats)).await
    }

    async fn with(first: TestApp, nats: Option<NatsServer>) -> Self {
        let second = first.beside("two", &[]).await;
        Self::of(first, second, nats).await
    }

    async fn of(first: TestApp, second: TestApp, nats: Option<NatsServer>) -> Self {
        first.knows_peers().await;
        second.knows_peers().await;
        let ada = first.founder("Ada").await;
        let bo = first.join(&ada, "Bo", "member").await.at(&second.base);
        let general = id(&ada.channel("general").await);
        Self {
            first,
            second,
            ada,
            bo,
            general,
            nats,
        }
    }
}

async fn ready(base: &str) -> Value {
    visitor(base).get("/readyz").await.json()
}

/// Returns the `seq` of all events up to and including the message with this content.
async fn seqs_through(socket: &mut Socket, content: &str) -> Vec<i64> {
    let frames = socket
        .through(content, |f| f["data"]["message"]["content"] == content)
        .await;
    frames.iter().filter_map(|f| f["seq"].as_i64()).collect()
}

fn assert_without_gaps(seqs: &[i64]) {
    let next = seqs.windows(2).all(|pair| pair[1] == pair[0] + 1);
    assert!(next, "{seqs:?}");
}

async fn events_of_both_nodes_arrive_in_order_on_both(p: Pair) {
    let (mut ada, mut bo) = (p.ada.socket().await, p.bo.socket().await);
    let thread = p.ada.thread(&p.general, "Root").await;
    seqs_through(&mut ada, "Root").await;
    seqs_through(&mut bo, "Root").await;
    let both = [&p.ada, &p.bo];
    let posts = (0..40).map(|n| {
        let (thread, who) = (thread.clone(), both[n % 2]);
        async move { who.say(&thread, &format!("message {n}")).await }
    });
    futures::future::join_all(posts).await;
    p.bo.say(&thread, "the last one").await;
    for socket in [&mut ada, &mut bo] {
        let seqs = seqs_through(socket, "the last one").await;
        assert_eq!(seqs.len(), 41);
        assert_without_gaps(&seqs);
    }
}

#[tokio::test]
async fn events_of_both_nodes_arrive_in_order_over_notify() {
    if is_shared_engine() {
        events_of_both_nodes_arrive_in_order_on_both(Pair::over_notify_alone().await).await;
    }
}

#[tokio::test]
async fn events_of_both_nodes_arrive_in_order_over_nats() {
    if is_shared_engine() {
        let p = Pair::over_nats_alone().await;
        assert_eq!(ready(&p.first.base).await["bus"], "nats");
        events_of_both_nodes_arrive_in_order_on_both(p).await;
    }
}

#[tokio::test]
async fn a_stopped_nats_server_delays_events_but_loses_none() {
    if !is_shared_engine() {
        return;
    }
    let mut p = Pair::over_nats().await;
    let mut bo = p.bo.socket().await;
    let thread = p.ada.thread(&p.general, "Root").await;
    seqs_through(&mut bo, "Root").await;
    p.nats.as_mut().unwrap().stop();
    let mut last = String::new();
    for n in 0..10 {
        last = format!("without NATS {n}");
        p.ada.say(&thread, &last).await;
    }
    let seqs = seqs_through(&mut bo, &last).await;
    assert_eq!(seqs.len(), 10);
    assert_without_gaps(&seqs);
    within("the bus to be reported as degraded", async {
        while ready(&p.first.base).await["bus"] != "degraded" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    p.nats.as_mut().unwrap().go_on().await;
    within("NATS to be used again", async {
        while ready(&p.first.base).await["bus"] != "nats" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    p.ada.say(&thread, "with NATS").await;
    assert_eq!(seqs_through(&mut bo, "with NATS").await.len(), 1);
}

#[tokio::test]
async fn a_client_resumes_on_the_other_node() {
    if !is_shared_engine() {
        return;
    }
    let p = Pair::over_notify().await;
    let mut socket = p.ada.socket().await;
    let thread = p.ada.thread(&p.general, "Root").await;
    seqs_through(&mut socket, "Root").await;
    let (cursor, epoch) = (socket.cursor, socket.epoch());
    drop(socket);
    p.ada.say(&thread, "one").await;
    p.bo.say(&thread, "two").await;
    let mut resumed = Socket::resume(&p.ada.at(&p.second.base), cursor, &epoch).await;
    let seqs = seqs_through(&mut resumed, "two").await;
    assert_eq!(seqs, [cursor + 1, cursor + 2]);
}

async fn a_reply_streams_to_watchers_on_both(p: Pair) {
    let (first, second) = (Gate::new(), Gate::new());
    let start = "Grüße 👋🏽 ";
    p.first.model.script(
        "vibe",
        [Answer::stream()
            .piece(start)
            .wait(&first)
            .piece("an alle")
            .wait(&second)
            .end()],
    );
    let thread = p.ada.thread(&p.general, "Root").await;
    let (mut ada, mut bo) = (p.ada.socket().await, p.bo.socket().await);
    let mut compact = Socket::open(&p.bo, json!({"deltas": "compact"})).await;
    for socket in [&mut ada, &mut bo, &mut compact] {
        socket.subscribe(&thread).await;
    }
    p.ada.ask(&thread, "@vibe hi").await;
    let stream = compact.of("task.delta").await["stream"].clone();
    for socket in [&mut ada, &mut bo] {
        let delta = socket.of("task.delta").await;
        assert_eq!(
            (&delta["offset"], &delta["text"]),
            (&json!(0), &json!(start))
        );
    }
    // Both nodes know the text that was streamed so far.
    for base in [&p.first.base, &p.second.base] {
        let mut late = p.ada.at(base).socket().await;
        late.subscribe(&thread).await;
        let so_far = late.of("task.delta").await;
        assert_eq!(
            (&so_far["offset"], &so_far["text"]),
            (&json!(0), &json!(start))
        );
    }
    first.open();
    for socket in [&mut ada, &mut bo] {
        let next = socket.of("task.delta").await;
        assert_eq!(number(&next, "/offset"), units(start));
        assert_eq!(next["text"], "an alle");
    }
    let next = compact.until("a compact delta", Value::is_array).await;
    assert_eq!(next, json!([stream, units(start), "an alle"]));
    second.open();
    for socket in [&mut ada, &mut bo] {
        let updated = socket.of("message.updated").await;
        assert_eq!(updated["data"]["message"]["content"], "Grüße 👋🏽 an alle");
    }
}

#[tokio::test]
async fn a_reply_streams_to_watchers_on_both_nodes_over_notify() {
    if is_shared_engine() {
        a_reply_streams_to_watchers_on_both(Pair::over_notify_alone().await).await;
    }
}

#[tokio::test]
async fn a_reply_streams_to_watchers_on_both_nodes_over_nats() {
    if is_shared_engine() {
        a_reply_streams_to_watchers_on_both(Pair::over_nats_alone().await).await;
    }
}

async fn a_reply_is_steered_from_both_nodes(p: Pair) {
    let gates = [Gate::new(), Gate::new()];
    let open = |gate: &Gate| Answer::pieces_open(&["So far"]).wait(gate).end();
    let answers = [open(&gates[0]), open(&gates[1]), Answer::text("Done.")];
    p.first.model.script("vibe", answers);
    let thread = p.ada.thread(&p.general, "Root").await;
    let task = p.ada.ask(&thread, "@vibe hi").await;
    let path = format!("/v1/threads/{thread}/messages");
    let nodes = [(&p.first.base, "WISH-ONE"), (&p.second.base, "WISH-TWO")];
    for (gate, (base, content)) in gates.iter().zip(nodes) {
        gate.reached().await;
        let form = json!({"content": content, "steer": task});
        p.ada.at(base).post(&path, form).await.is(201);
    }
    p.ada.completed(&task).await;
    let requests = p.first.model.asked("vibe", 3).await;
    let last = requests.last().unwrap().all();
    for (_, content) in nodes {
        assert_eq!(last.matches(content).count(), 1, "{last}");
    }
}

#[tokio::test]
async fn a_reply_is_steered_from_both_nodes_over_notify() {
    if is_shared_engine() {
        a_reply_is_steered_from_both_nodes(Pair::over_notify_alone().await).await;
    }
}

#[tokio::test]
async fn a_reply_is_steered_from_both_nodes_over_nats() {
    if is_shared_engine() {
        a_reply_is_steered_from_both_nodes(Pair::over_nats_alone().await).await;
    }
}

async fn a_scope_holds_on_the_other_node(p: Pair) {
    let channel = p.ada.post("/v1/channels", json!({"name": "apart"})).await;
    let channel = id(&channel.is(201));
    let thread = p.ada.thread(&channel, "Root").await;
    let mut bo = Socket::open(&p.bo, json!({"scope": "joined"})).await;
    p.ada.say(&thread, "Not for Bo").await;
    let activity = bo.of("channel.activity").await;
    assert_eq!(activity["channel_id"], channel.as_str());
    p.ada.say(&thread, "@bo look").await;
    let bo_there = p.bo.at(&p.first.base);
    bo_there
        .act(&format!("/v1/channels/{channel}/join"))
        .await
        .ok();
    p.ada.say(&thread, "Joined").await;
    bo_there
        .act(&format!("/v1/channels/{channel}/leave"))
        .await
        .ok();
    p.ada.say(&thread, "Left").await;
    p.ada.thread(&p.general, "Marker").await;
    let events = bo
        .events_through("the marker", |f| {
            f["data"]["message"]["content"] == "Marker"
        })
        .await;
    let received: Vec<&str> = events
        .iter()
        .filter(|event| event["channel_id"] == channel.as_str())
        .map(|event| {
            let content = event["data"]["message"]["content"].as_str();
            content.or(event["type"].as_str()).unwrap()
        })
        .collect();
    let expected = [
        "@bo look",
        "channel.member_added",
        "Joined",
        "channel.member_removed",
    ];
    assert_eq!(received, expected);
}

#[tokio::test]
async fn a_scope_holds_on_the_other_node_over_notify() {
    if is_shared_engine() {
        a_scope_holds_on_the_other_node(Pair::over_notify_alone().await).await;
    }
}

#[tokio::test]
async fn a_scope_holds_on_the_other_node_over_nats() {
    if is_shared_engine() {
        a_scope_holds_on_the_other_node(Pair::over_nats_alone().await).await;
    }
}

async fn a_node_learns_of_a_reply_late(p: Pair) {
    let (first, second) = (Gate::new(), Gate::new());
    p.first.model.script(
        "vibe",
        [Answer::stream()
            .piece("Hello")
            .wait(&first)
            .piece(" there")
            .wait(&second)
            .end()],
    );
    let thread = p.ada.thread(&p.general, "Root").await;
    // At this point, nobody watches the thread on either node.
    p.ada.ask(&thread, "@vibe hi").await;
    p.first.model.asked("vibe", 1).await;
    p.ada
        .event_where("the reply", |e| {
            e["data"]["message"]["state"] == "streaming"
        })
        .await;
    let until_online = async |is_online: bool| {
        within("the presence of Ada", async {
            while (p.first.place.count("presence").await > 0) != is_online {
                pause().await;
            }
        })
        .await;
    };
    // The last socket of a workspace makes a node forget the replies of others. No further delta reminds it of this one.
    for base in [&p.first.base, &p.second.base, &p.second.base] {
        let mut socket = p.ada.at(base).socket().await;
        socket.subscribe(&thread).await;
        first.open();
        let mut text = String::new();
        while text != "Hello there" {
            let delta = socket.of("task.delta").await;
            assert_eq!(number(&delta, "/offset"), units(&text), "{delta}");
            text.push_str(delta["text"].as_str().unwrap());
        }
        until_online(true).await;
        drop(socket);
        until_online(false).await;
    }
    second.open();
}

#[tokio::test]
async fn a_node_that_learns_of_a_reply_late_gets_its_whole_text() {
    if is_shared_engine() {
        a_node_learns_of_a_reply_late(Pair::over_notify().await).await;
    }
}

#[tokio::test]
async fn a_node_that_learns_of_a_reply_late_gets_its_whole_text_over_nats() {
    if is_shared_engine() {
        a_node_learns_of_a_reply_late(Pair::over_nats().await).await;
    }
}

#[tokio::test]
async fn a_task_is_canceled_on_any_node() {
    if !is_shared_engine() {
        return;
    }
    let p = Pair::over_notify().await;
    for (n, who) in [&p.ada, &p.bo].into_iter().enumerate() {
        p.first
            .model
            .script("vibe", [Answer::stream().piece("Hello").silence()]);
        let thread = p.ada.thread(&p.general, "Root").await;
        let mut socket = who.socket().await;
        socket.subscribe(&thread).await;
        let task = who.ask(&thread, "@vibe hi").await;
        socket.of("task.delta").await;
        let canceled = who.act(&format!("/v1/tasks/{task}/cancel")).await.ok();
        assert_eq!(canceled["status"], "cancelled");
        let messages = p.ada.messages(&thread).await;
        let reply = messages.last().unwrap();
        assert_eq!(reply["state"], "interrupted");
        p.first.model.given_up(n + 1).await;
    }
}

#[tokio::test]
async fn an_item_that_is_due_opens_once_on_three_nodes() {
    if !is_shared_engine() {
        return;
    }
    let p = Pair::over_notify().await;
    let third = p.first.beside("three", &[]).await;
    let thread = p.ada.thread(&p.general, "Root").await;
    for n in 0..20 {
        p.ada.say(&thread, &format!("@bo can you? {n}")).await;
    }
    let items = list(&p.bo.get("/v1/inbox?limit=100").await.ok(), "/data");
    let mut ids: Vec<String> = items.iter().map(id).collect();
    assert_eq!(ids.len(), 20);
    let until = chrono::Utc::now() + chrono::TimeDelta::hours(1);
    let until = until.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    let form = json!({"ids": ids, "state": "later", "until": until});
    p.bo.put("/v1/inbox/state", form).await.is(200);
    p.first
        .place
        .run(&["update inbox_items set until = '2026-01-01T00:00:00.000000+00:00'"])
        .await;
    let (first, second, last) = tokio::join!(
        openvibe::inbox::expire::open_due(p.first.db()),
        openvibe::inbox::expire::open_due(p.second.db()),
        openvibe::inbox::expire::open_due(third.db()),
    );
    first.and(second).and(last).unwrap();
    let events = p.bo.events().await;
    let changes = events
        .iter()
        .filter(|event| event["type"] == "inbox.updated")
        .flat_map(|event| list(event, "/data/items"));
    let mut opened: Vec<String> = changes
        .filter(|change| change["state"] == "open")
        .map(|change| id(&change))
        .collect();
    opened.sort();
    ids.sort();
    assert_eq!(opened, ids, "each once");
}

#[tokio::test]
async fn people_who_are_active_on_any_node_are_not_notified() {
    if !is_shared_engine() {
        return;
    }
    let service = PushServer::start().await;
    let settings = [
        DRAIN,
        ("NODE_NAME", "one"),
        ("PUSH_ALLOW", service.host()),
        ("SECRET_KEY", SECRET_KEY),
    ];
    let p = Pair::with(TestApp::with(&settings).await, None).await;
    let cem = p.first.join(&p.ada, "Cem", "member").await;
    service.subscribe(&p.bo, "bo").await;
    service.subscribe(&cem, "cem").await;
    let mut socket = p.bo.socket().await;
    socket.send(&json!({"type": "active"})).await;
    for rows in [
        "presence where active_at is not null",
        "meta where key = 'notify_cursor'",
    ] {
        let waiting = async {
            while p.first.place.count(rows).await == 0 {
                pause().await;
            }
        };
        within(rows, waiting).await;
    }
    p.ada.start(&p.general, "@bo while active").await;
    p.ada.start(&p.general, "@cem hello").await;
    assert_eq!(service.nth(1).await.device, "cem");
    assert_eq!(service.received().len(), 1);
}

#[tokio::test]
async fn people_are_online_while_any_node_has_them() {
    if !is_shared_engine() {
        return;
    }
    let p = Pair::over_notify().await;
    let mut ada = p.ada.socket().await;
    let bo = p.bo.socket().await;
    let bo_id = id(&p.bo.get("/v1/auth/me").await.ok()["user"]);
    ada.until("Bo to be online", |f| {
        f["type"] == "presence" && f["user_id"] == bo_id.as_str() && f["status"] == "online"
    })
    .await;
    let snapshot = p.ada.get("/v1/snapshot").await.ok();
    assert!(
        list(&snapshot, "/presence")
            .iter()
            .any(|user| user["user_id"] == bo_id.as_str() || user == bo_id.as_str())
    );
    drop(bo);
    ada.until("Bo to be offline", |f| {
        f["type"] == "presence" && f["user_id"] == bo_id.as_str() && f["status"] == "offline"
    })
    .await;
}

#[tokio::test]
async fn a_member_removed_on_one_node_is_disconnected_from_the_other() {
    if !is_shared_engine() {
        return;
    }
    let p = Pair::over_notify().await;
    let mut bo = p.bo.socket().await;
    let bo_id = id(&p.bo.get("/v1/auth/me").await.ok()["user"]);
    let thread = p.ada.thread(&p.general, "Root").await;
    seqs_through(&mut bo, "Root").await;
    let removed = p.ada.delete(&format!("/v1/members/{bo_id}")).await;
    assert_eq!(removed.status, 204);
    p.ada.say(&thread, "without Bo").await;
    assert_eq!(bo.closed().await, 4003);
    let later = bo.drained();
    let is_later = |f: &Value| f["data"]["message"]["content"] == "without Bo";
    assert!(!later.iter().any(is_later), "{later:?}");
}

#[tokio::test]
async fn a_node_that_starts_again_leaves_the_tasks_of_others_alone() {
    if !is_shared_engine() {
        return;
    }
    let mut p = Pair::over_notify().await;
    let gate = Gate::new();
    let answer = || Answer::stream().piece("Hello").wait(&gate).end();
    p.first.model.script("vibe", [answer(), answer()]);
    let thread = p.ada.thread(&p.general, "Root").await;
    let mut socket = p.ada.socket().await;
    socket.subscribe(&thread).await;
    let task = p.ada.ask(&thread, "@vibe hi").await;
    socket.of("task.delta").await;
    // Either of the two nodes may run the task, so this restarts a third one.
    let mut third = p.first.beside("three", &[]).await;
    third.stop().await;
    third = p.first.beside("three", &[]).await;
    assert_eq!(ready(&third.base).await["node"]["state"], "ready");
    gate.open();
    let ended = p.ada.completed(&task).await;
    assert_eq!(ended["attempt"], 1);
    p.second.stop().await;
}

#[tokio::test]
async fn admins_of_the_oldest_workspace_see_all_nodes() {
    if !is_shared_engine() {
        return;
    }
    let p = Pair::over_notify().await;
    p.first.knows_ready_peer().await;
    p.second.knows_ready_peer().await;
    let nodes = p.ada.get("/v1/nodes").await.ok();
    let nodes = list(&nodes, "/data");
    let names: Vec<String> = nodes.iter().map(|node| text(node, "/name")).collect();
    assert_eq!(names, ["one", "two"]);
    for node in &nodes {
        assert_eq!(
            (&node["mode"], &node["state"]),
            (&json!("notify"), &json!("ready"))
        );
        assert_eq!(node["differing_settings"], json!([]));
    }
    assert_eq!(
        (&nodes[0]["is_this"], &nodes[1]["is_this"]),
        (&json!(true), &json!(false))
    );
    let ready = ready(&p.second.base).await;
    assert_eq!(ready["node"]["id"], nodes[1]["id"]);
    assert_eq!(ready["bus"], "notify");
    p.bo.get("/v1/nodes").await.refused(404);
}

#[tokio::test]
async fn a_stopping_node_hands_its_clients_over() {
    if !is_shared_engine() {
        return;
    }
    let mut p = Pair::over_notify().await;
    p.second.knows_ready_peer().await;
    let mut bo = p.bo.socket().await;
    let thread = p.ada.thread(&p.general, "Root").await;
    seqs_through(&mut bo, "Root").await;
    let (cursor, epoch) = (bo.cursor, bo.epoch());
    p.second.stop().await;
    assert_eq!(bo.closed().await, 1001);
    p.ada.say(&thread, "meanwhile").await;
    let mut resumed = Socket::resume(&p.bo.at(&p.first.base), cursor, &epoch).await;
    assert_eq!(seqs_through(&mut resumed, "meanwhile").await.len(), 1);
    let nodes = p.ada.get("/v1/nodes").await.ok();
    assert_eq!(list(&nodes, "/data").len(), 1, "a clean exit leaves no row");
}

#[tokio::test]
async fn a_new_epoch_makes_every_client_load_everything_again() {
    if !is_shared_engine() {
        return;
    }
    let p = Pair::over_notify().await;
    let (mut ada, mut bo) = (p.ada.socket().await, p.bo.socket().await);
    let (cursor, epoch) = (ada.cursor, ada.epoch());
    p.first
        .place
        .run(&["update meta set value = 'another' where key = 'epoch'"])
        .await;
    for socket in [&mut ada, &mut bo] {
        assert_eq!(socket.closed().await, 1001);
        // The socket did not receive a heartbeat, so it was not closed for a missing response to one.
        let is_heartbeat = |f: &Value| f["type"] == "heartbeat";
        assert!(!socket.drained().iter().any(is_heartbeat));
    }
    let ready = Socket::open(&p.ada, json!({"since": cursor, "epoch": epoch})).await;
    assert_eq!(ready.epoch(), "another");
    let snapshot = p.bo.get("/v1/snapshot").await.ok();
    assert_eq!(snapshot["epoch"], "another");
}

#[tokio::test]
async fn typing_and_read_markers_reach_sockets_on_the_other_node() {
    if !is_shared_engine() {
        return;
    }
    let p = Pair::over_notify().await;
    let thread = p.ada.thread(&p.general, "Root").await;
    let mut ada = p.ada.socket().await;
    let (mut bo, mut bo_there) = (p.bo.socket().await, p.bo.at(&p.first.base).socket().await);
    ada.subscribe(&thread).await;
    bo.subscribe(&thread).await;
    bo.send(&json!({"type": "typing", "thread_id": thread}))
        .await;
    let typing = ada.of("typing").await;
    assert_eq!(typing["thread_id"], thread.as_str());
    let root = p.bo.messages(&thread).await.remove(0);
    let seq = number(&root, "/seq");
    p.bo.put(&format!("/v1/threads/{thread}/read"), json!({"seq": seq}))
        .await
        .is(200);
    let read = bo_there.of("read.updated").await;
    assert_eq!(number(&read, "/seq"), seq);
}

/// Changes the log while a client of the second node is connected, and cuts all connections. This is what happens when a lagging
/// standby is promoted and its server does not reveal its timeline. Checks that the client loads everything again.
async fn assert_new_epoch_after(loss: &[&str]) {
    let p = Pair::over_notify().await;
    let mut bo = p.bo.socket().await;
    let old = bo.epoch();
    p.ada.thread(&p.general, "Root").await;
    seqs_through(&mut bo, "Root").await;
    p.first.place.run(loss).await;
    p.first
        .place
        .run(&["select pg_terminate_backend(pid) from pg_stat_activity \
                where datname = current_database() and pid <> pg_backend_pid()"])
        .await;
    assert_eq!(bo.closed().await, 1001);
    let new = p.bo.socket().await.epoch();
    assert_ne!(new, old);
    // The first node connects to the database again at another moment, and then closes its sockets of the old epoch.
    let mut ada = p.ada.socket().await;
    while ada.epoch() != new {
        assert_eq!(ada.epoch(), old);
        assert_eq!(ada.closed().await, 1001);
        ada = p.ada.socket().await;
    }
}

#[tokio::test]
async fn a_lost_event_that_was_delivered_starts_a_new_epoch() {
    if is_shared_engine() {
        assert_new_epoch_after(&[
            "delete from events e using workspaces w where w.id = e.workspace_id and w.seq = e.seq",
            "update workspaces set seq = seq - 1",
        ])
        .await;
    }
}

#[tokio::test]
async fn an_event_in_place_of_one_that_was_delivered_starts_a_new_epoch() {
    if is_shared_engine() {
        assert_new_epoch_after(&["update events set ts = ts + interval '1 second'"]).await;
    }
}
