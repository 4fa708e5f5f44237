//! Dropped connections, and clients that resume.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Answer, Socket, Team, number, team, team_with, text};

fn seqs(events: &[Value]) -> Vec<i64> {
    events.iter().map(|event| number(event, "/seq")).collect()
}

fn says(content: &str) -> impl Fn(&Value) -> bool {
    let content = content.to_owned();
    move |frame| frame["data"]["message"]["content"] == content.as_str()
}

#[tokio::test]
async fn a_reconnecting_client_receives_missed_events_and_then_live_ones() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let mut socket = t.bo.socket().await;
    t.ada.say(&thread, "seen").await;
    socket.until("the first", says("seen")).await;
    let (cursor, epoch) = (socket.cursor, socket.epoch());
    drop(socket);
    t.ada.say(&thread, "missed 1").await;
    t.ada.say(&thread, "missed 2").await;
    let mut socket = Socket::read_hello(&t.bo, json!({"since": cursor, "epoch": epoch})).await;
    assert_eq!(socket.ready["resumed"], true);
    assert!(socket.ready.get("resync").is_none_or(|r| r == false));
    let head = number(&socket.ready, "/seq");
    let replayed = [socket.next().await, socket.next().await];
    assert_eq!(seqs(&replayed), [cursor + 1, cursor + 2]);
    assert_eq!(socket.next().await, json!({"type": "live", "seq": head}));
    t.ada.say(&thread, "live").await;
    assert_eq!(number(&socket.event().await, "/seq"), cursor + 3);
}

#[tokio::test]
async fn a_replayed_event_is_identical_to_the_live_frame() {
    let t = team().await;
    let mut live = t.bo.socket().await;
    let start = live.cursor;
    let started = t.ada.start(&t.general, "@vibe hello 👋").await;
    let message = text(&started, "/message/id");
    t.ada
        .put(&format!("/v1/messages/{message}/reactions/x"), json!({}))
        .await
        .is(200);
    t.ada
        .patch(
            &format!("/v1/messages/{message}"),
            json!({"content": "edited"}),
        )
        .await
        .is(200);
    t.ada.completed(&text(&started, "/tasks/0/id")).await;
    t.ada.say(&text(&started, "/thread/id"), "last").await;
    let seen = live.events_through("live", says("last")).await;
    let mut again = Socket::resume(&t.bo, start, &live.epoch()).await;
    let replayed = again.events_through("replayed", says("last")).await;
    assert_eq!(seen, replayed);
}

#[tokio::test]
async fn replayed_dive_events_are_identical_to_the_live_frames() {
    let t = team().await;
    let mut live = t.bo.socket().await;
    let start = live.cursor;
    let (dive, published) = t.resolved("Monday it is").await;
    t.bo.reopen(&dive.fork).await;
    let task = t.bo.ask_in(&dive.fork, "@vibe and now? 👋").await;
    t.bo.completed(&task).await;
    t.bo.resolve(&dive.fork).await;
    let items = json!([{"text": "Book the room"}]);
    let again = t
        .ada
        .publish_as(
            &dive.fork,
            json!({"headline": "Tuesday", "action_items": items}),
        )
        .await;
    assert_ne!(again["message"]["id"], published["message"]["id"]);
    let item = text(&again, "/resolution/action_items/0/id");
    t.bo.patch(&format!("/v1/action-items/{item}"), json!({"done": true}))
        .await
        .is(200);
    let is_last = |f: &Value| f["type"] == "action_item.updated";
    let seen = live.events_through("live", is_last).await;
    let mut again = Socket::resume(&t.bo, start, &live.epoch()).await;
    assert_eq!(seen, again.events_through("replayed", is_last).await);
    let snapshot = t.bo.get("/v1/snapshot").await.ok();
    assert_eq!(snapshot["open_forks"], json!([]));
    assert_eq!(number(&snapshot, "/seq"), again.cursor);
}

#[tokio::test]
async fn a_cursor_ahead_of_the_head_or_from_another_epoch_requires_a_reload() {
    let t = team().await;
    let head = number(&t.bo.get("/v1/snapshot").await.ok(), "/seq");
    for fields in [
        json!({"since": head + 1}),
        json!({"since": i64::MAX}),
        json!({"since": head, "epoch": "another"}),
        json!({"since": 0, "epoch": "another"}),
    ] {
        let mut socket = Socket::read_hello(&t.bo, fields.clone()).await;
        assert_eq!(socket.ready["resync"], true, "{fields}");
        assert_eq!(socket.ready["resumed"], false, "{fields}");
        assert_eq!(
            socket.next().await["type"],
            "live",
            "{fields}: nothing is replayed"
        );
        t.ada.thread(&t.general, "Live all the same").await;
        socket.of("message.created").await;
    }
}

#[tokio::test]
async fn an_impossible_sequence_number_is_malformed() {
    let t = team().await;
    let mut socket = Socket::silent(&t.bo).await;
    for since in [json!(-1), json!("1"), json!(1.5)] {
        let hello =
            json!({"type": "hello", "protocol": 1, "workspace_id": t.bo.workspace, "since": since});
        socket.send(&hello).await;
        let error = socket.next().await;
        assert_eq!(
            (&error["type"], &error["id"]),
            (&json!("error"), &Value::Null),
            "{hello}"
        );
    }
}

#[tokio::test]
async fn at_the_head_nothing_is_replayed() {
    let t = team().await;
    t.ada.thread(&t.general, "Root").await;
    let head = number(&t.bo.get("/v1/snapshot").await.ok(), "/seq");
    let mut socket = Socket::read_hello(&t.bo, json!({"since": head})).await;
    assert_eq!(socket.ready["resumed"], true);
    assert_eq!(socket.next().await["type"], "live");
}

#[tokio::test]
async fn replay_visibility_depends_on_current_membership() {
    let t = team().await;
    let channel = t.ada.private_channel("board", &[]).await;
    t.ada.thread(&channel, "Before Bo").await;
    let mut outside = Socket::open(&t.bo, json!({"since": 0})).await;
    assert!(
        outside
            .settle()
            .await
            .iter()
            .all(|e| e["channel_id"] != channel.as_str())
    );
    t.ada
        .post(
            &format!("/v1/channels/{channel}/members"),
            json!({"user_id": t.bo.id}),
        )
        .await
        .is(201);
    let mut inside = Socket::open(&t.bo, json!({"since": 0})).await;
    inside
        .until("what was said before", says("Before Bo"))
        .await;
    t.ada
        .delete(&format!("/v1/channels/{channel}/members/{}", t.bo.id))
        .await
        .is(204);
    let mut outside = Socket::open(&t.bo, json!({"since": 0})).await;
    let seen = outside.settle().await;
    let of_channel: Vec<String> = seen
        .iter()
        .filter(|e| e["channel_id"] == channel.as_str())
        .map(|e| text(e, "/type"))
        .collect();
    assert_eq!(
        of_channel,
        ["channel.member_added", "channel.member_removed"],
        "only Bo's personal events"
    );
}

#[tokio::test]
async fn a_restart_loses_and_duplicates_no_events() {
    let mut t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let mut socket = t.bo.socket().await;
    t.ada.say(&thread, "before").await;
    socket.until("the first", says("before")).await;
    let (cursor, epoch) = (socket.cursor, socket.epoch());
    t.ada.say(&thread, "missed").await;
    t.app.restart(&[]).await;
    let (ada, bo) = (t.ada.at(&t.app.base), t.bo.at(&t.app.base));
    let mut socket = Socket::resume(&bo, cursor, &epoch).await;
    assert_eq!(socket.ready["resumed"], true);
    ada.say(&thread, "after").await;
    let events = socket.events_through("all", says("after")).await;
    assert_eq!(seqs(&events), [cursor + 1, cursor + 2]);
}

/// Two people post while a third person's connection drops repeatedly: no event is lost or duplicated.
#[tokio::test]
async fn disconnecting_and_resuming_under_load_loses_and_duplicates_nothing() {
    const POSTS: usize = 150;
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let here = t.ada.thread(&t.general, "Here").await;
    let there = t.bo.thread(&t.general, "There").await;
    let first = t.ada.get("/v1/snapshot").await.ok();
    let (first, epoch) = (number(&first, "/seq"), text(&first, "/epoch"));
    let posting = async {
        for n in 0..POSTS {
            let n = n.to_string();
            tokio::join!(t.ada.say(&here, &n), t.bo.say(&there, &n));
        }
        t.ada.say(&here, "last").await;
    };
    let reading = async {
        let mut seen = Vec::new();
        let mut cursor = first;
        let mut reconnects = 0;
        loop {
            let mut socket =
                Socket::read_hello(&cy, json!({"since": cursor, "epoch": epoch})).await;
            assert_eq!(socket.ready["resumed"], true);
            reconnects += 1;
            // Each connection is closed after a few frames, even during the replay.
            for _ in 0..(reconnects % 13) + 2 {
                let frame = socket.next().await;
                if frame["data"].is_object() {
                    seen.push(number(&frame, "/seq"));
                    if says("last")(&frame) {
                        return (seen, reconnects);
                    }
                }
            }
            cursor = socket.cursor;
        }
    };
    let ((), (seen, reconnects)) = tokio::join!(posting, reading);
    assert!(reconnects > 10, "{reconnects}");
    let last = first + i64::try_from(2 * POSTS).unwrap() + 1;
    assert_eq!(seen, (first + 1..=last).collect::<Vec<i64>>());
}

/// The socket of a client that stops reading is closed, and the client resumes at its position.
#[tokio::test]
async fn a_slow_reader_is_closed_with_4008_and_resumes() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let mut slow = t.bo.socket().await;
    let mut quick = t.ada.socket().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let big = "x".repeat(31 * 1024);
    let mut sent = 0;
    // Sends more than the socket buffers and the server's bounded queue can contain. Bo goes offline as soon as the server closes his
    // only socket.
    let mut offline = false;
    while !offline {
        assert!(sent < 4000, "the queue is unbounded");
        quick
            .ack(json!({"type": "message.send", "thread_id": thread, "content": big, "client_id": sent.to_string()}))
            .await;
        sent += 1;
        offline = quick
            .settle()
            .await
            .iter()
            .any(|f| f["type"] == "presence" && f["status"] == "offline");
    }
    assert_eq!(slow.closed().await, 4008);
    let mut seen: BTreeSet<i64> = BTreeSet::new();
    for frame in slow.drained() {
        if frame["data"].is_object() {
            assert!(seen.insert(number(&frame, "/seq")), "doubled");
        }
    }
    t.ada.say(&thread, "last").await;
    let mut again = Socket::resume(&t.bo, slow.cursor, &slow.epoch()).await;
    assert_eq!(again.ready["resumed"], true);
    for event in again.events_through("the rest", says("last")).await {
        assert!(seen.insert(number(&event, "/seq")), "doubled");
    }
    let (low, high) = (*seen.first().unwrap(), *seen.last().unwrap());
    assert_eq!(
        i64::try_from(seen.len()).unwrap(),
        high - low + 1,
        "without gaps"
    );
    assert_eq!(
        seen.len(),
        sent + 3,
        "thread, root, all sent messages, and the last one"
    );
    quick.ack(json!({"type": "ping"})).await;
}

/// A client can use its cursor both over HTTP and over the socket.
#[tokio::test]
async fn a_client_can_read_missed_events_over_http() {
    let t: Team = team().await;
    t.model().script("vibe", [Answer::text("Yes.")]);
    let mut socket = t.bo.socket().await;
    let cursor = socket.cursor;
    let started = t.ada.start(&t.general, "@vibe hi").await;
    t.ada.completed(&text(&started, "/tasks/0/id")).await;
    let page = t.bo.get(&format!("/v1/events?after={cursor}")).await.ok();
    let over_http = page["data"].as_array().unwrap().clone();
    let live = socket
        .events_through("the end", |f| f["data"]["task"]["status"] == "completed")
        .await;
    assert_eq!(over_http, live);
}
