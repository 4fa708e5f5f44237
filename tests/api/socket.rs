//! The WebSocket: hello, frames, close codes, recipients.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::support::{Person, Socket, Team, id, list, number, team, text, unknown_id};

#[tokio::test]
async fn a_hello_receives_ready_and_live() {
    let t = team().await;
    t.ada.thread(&t.general, "Root").await;
    let snapshot = t.bo.get("/v1/snapshot").await.ok();
    let mut socket = Socket::read_hello(&t.bo, json!({})).await;
    let ready = socket.ready.clone();
    assert_eq!(ready["protocol"], 1);
    assert!(ready["session_id"].is_string());
    assert_eq!(ready["epoch"], snapshot["epoch"]);
    assert_eq!(ready["seq"], snapshot["seq"]);
    assert_eq!(ready["heartbeat_ms"], 20_000);
    assert_eq!(ready["resumed"], false);
    assert!(ready.get("resync").is_none_or(|r| r == false));
    assert_eq!(
        socket.next().await,
        json!({"type": "live", "seq": snapshot["seq"]})
    );
}

#[tokio::test]
async fn without_a_workspace_in_the_hello_the_users_only_one_is_used() {
    let t = team().await;
    let mut person = t.bo.clone();
    person.workspace = String::new();
    let mut socket = person.socket().await;
    t.ada.thread(&t.general, "Hello").await;
    socket.of("message.created").await;
}

#[tokio::test]
async fn a_socket_requires_a_session_and_the_servers_own_origin() {
    let t = team().await;
    let mut nobody = Socket::silent(&t.bo.signed_out()).await;
    assert_eq!(nobody.closed().await, 4001);
    let mut foreign = t.bo.clone();
    for origin in [
        None,
        Some("https://evil.example".to_owned()),
        Some("null".to_owned()),
    ] {
        foreign.origin = origin;
        assert_eq!(Socket::refused(&foreign).await, 403);
    }
    assert_eq!(t.bo.get("/v1/ws").await.refused(400), "upgrade_required");
}

#[tokio::test]
async fn a_workspace_that_the_user_is_not_in_closes_with_4003() {
    let t = team().await;
    let mut socket = Socket::silent(&t.bo).await;
    socket
        .send(&json!({"type": "hello", "protocol": 1, "workspace_id": unknown_id("ws")}))
        .await;
    assert_eq!(socket.closed().await, 4003);
}

/// Sends `hello` on an open socket. Returns the close code that the server sends instead of `ready`.
async fn hello_refused(socket: &mut Socket, workspace: &str) -> u16 {
    let hello = json!({"type": "hello", "protocol": 1, "workspace_id": workspace, "since": 0});
    socket.send(&hello).await;
    let closed = socket.ready_or_closed().await;
    closed.expect_err("the socket was let in")
}

#[tokio::test]
async fn a_hello_after_the_session_or_key_ended_closes_with_4001() {
    let t = team().await;
    let elsewhere = t.bo.log_in().await;
    let (robot, key) = t.bo.make_key(&["chat:read"]).await;
    let mut signed_out = Socket::silent(&elsewhere).await;
    let mut keyed = Socket::silent(&robot).await;
    elsewhere.post("/v1/auth/logout", json!({})).await.is(204);
    t.bo.delete(&format!("/v1/api-keys/{key}")).await.is(204);
    for socket in [&mut signed_out, &mut keyed] {
        assert_eq!(hello_refused(socket, &t.bo.workspace).await, 4001);
    }
    let mut changed = Socket::silent(&t.bo.log_in().await).await;
    let form =
        json!({"current_password": crate::support::PASSWORD, "new_password": "another battery"});
    t.bo.post("/v1/auth/password", form).await.is(204);
    assert_eq!(hello_refused(&mut changed, &t.bo.workspace).await, 4001);
}

#[tokio::test]
async fn a_hello_after_the_membership_ended_closes_with_4003() {
    let t = team().await;
    let mut socket = Socket::silent(&t.bo).await;
    t.ada
        .delete(&format!("/v1/members/{}", t.bo.id))
        .await
        .is(204);
    assert_eq!(hello_refused(&mut socket, &t.bo.workspace).await, 4003);
}

/// Checks that changes that another process made in the database take effect at the next heartbeat.
#[tokio::test]
async fn heartbeats_check_the_session_membership_and_role() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let di = t.app.join(&t.ada, "Di", "member").await;
    let (mut ended, mut removed, mut demoted) =
        (t.bo.socket().await, cy.socket().await, di.socket().await);
    let mut untouched = t.ada.socket().await;
    t.app
        .place
        .run(&[
            "delete from sessions where user_id = (select id from users where name = 'Bo')",
            "delete from members where user_id = (select id from users where name = 'Cy')",
            "update members set role = 'viewer' where user_id = (select id from users where name = 'Di')",
        ])
        .await;
    untouched.of("heartbeat").await;
    assert_eq!(ended.closed().await, 4001);
    assert_eq!(removed.closed().await, 4003);
    assert_eq!(demoted.closed().await, 4001);
    untouched.ack(json!({"type": "ping"})).await;
}

#[tokio::test]
async fn a_socket_without_a_hello_within_ten_seconds_is_closed() {
    let t = team().await;
    let mut socket = Socket::silent(&t.bo).await;
    assert_eq!(socket.closed().await, 4009);
}

#[tokio::test]
async fn a_heartbeat_reports_the_sockets_position() {
    let t = team().await;
    let channel = t.ada.private_channel("board", &[]).await;
    let mut socket = t.bo.socket().await;
    t.ada.thread(&channel, "Not for Bo").await;
    let head = number(&t.ada.get("/v1/snapshot").await.ok(), "/seq");
    let heartbeat = socket.of("heartbeat").await;
    assert_eq!(
        heartbeat,
        json!({"type": "heartbeat", "seq": head}),
        "events hidden from Bo count"
    );
    let mut resumed = Socket::resume(&t.bo, socket.cursor, &socket.epoch()).await;
    assert!(
        resumed.settle().await.iter().all(|f| f["data"].is_null()),
        "nothing is missing"
    );
}

#[tokio::test]
async fn an_invalid_hello_gets_an_error_and_can_be_retried() {
    let t = team().await;
    let mut socket = Socket::silent(&t.bo).await;
    for bad in [
        "{}",
        "nonsense",
        r#"{"type":"hello","protocol":2}"#,
        r#"{"type":"subscribe"}"#,
    ] {
        socket.send_text(bad).await;
        let error = socket.next().await;
        assert_eq!(
            (&error["type"], &error["id"]),
            (&json!("error"), &Value::Null),
            "{bad}"
        );
    }
    socket
        .send(&json!({"type": "hello", "protocol": 1, "workspace_id": t.bo.workspace}))
        .await;
    assert_eq!(socket.next().await["type"], "ready");
}

#[tokio::test]
async fn requests_are_acknowledged_with_the_http_response() {
    let t = team().await;
    let mut socket = t.bo.socket().await;
    let send = json!({"type": "message.send", "channel_id": t.general, "content": "@vibe hello", "client_id": "c-1"});
    let started = socket.ack(send.clone()).await;
    let thread = text(&started, "/thread/id");
    assert_eq!(started["message"]["client_id"], "c-1");
    assert_eq!(list(&started, "/tasks").len(), 1);
    t.bo.completed(&text(&started, "/tasks/0/id")).await;
    let again = socket.ack(send).await;
    assert_eq!(again["message"]["id"], started["message"]["id"], "a resend");
    let root = text(&started, "/message/id");
    let reply = json!({"type": "message.send", "thread_id": thread, "content": "Hi", "parent_id": root, "client_id": "c-2"});
    let posted = socket.ack(reply).await;
    assert_eq!(posted["message"]["parent_id"], root.as_str());
    assert_eq!(
        t.ada.message(&text(&posted, "/message/id")).await,
        posted["message"]
    );
    assert_eq!(socket.ack(json!({"type": "ping"})).await, json!({}));
    assert_eq!(
        t.ada.contents(&thread).await,
        ["@vibe hello", "Fine.", "Hi"]
    );
}

#[tokio::test]
async fn a_rejected_request_gets_the_http_error() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let mut socket = t.bo.socket().await;
    for (request, kind) in [
        (
            json!({"type": "message.send", "thread_id": thread, "content": " ", "client_id": "1"}),
            "unprocessable_entity",
        ),
        (
            json!({"type": "message.send", "thread_id": unknown_id("thread"), "content": "x", "client_id": "1"}),
            "not_found",
        ),
        (
            json!({"type": "message.send", "thread_id": "x", "content": "x", "client_id": "1"}),
            "invalid_request",
        ),
        (
            json!({"type": "message.send", "thread_id": t.general, "content": "x", "client_id": "1"}),
            "unprocessable_entity",
        ),
        (
            json!({"type": "message.send", "content": "x", "client_id": "1"}),
            "invalid_request",
        ),
        (
            json!({"type": "message.send", "thread_id": thread, "channel_id": t.general, "content": "x", "client_id": "1"}),
            "invalid_request",
        ),
        (
            json!({"type": "message.send", "thread_id": thread, "content": "x", "client_id": "1", "colour": 1}),
            "invalid_request",
        ),
        (
            json!({"type": "message.send", "thread_id": thread, "content": "x".repeat(33 * 1024), "client_id": "1"}),
            "payload_too_large",
        ),
        (
            json!({"type": "subscribe", "thread_id": unknown_id("thread")}),
            "not_found",
        ),
        (json!({"type": "subscribe"}), "invalid_request"),
        (
            json!({"type": "read", "thread_id": thread, "seq": "x"}),
            "invalid_request",
        ),
    ] {
        let answer = socket.request(request.clone()).await;
        assert_eq!(answer["type"], "error", "{request}");
        assert_eq!(answer["error"]["type"], kind, "{request}: {answer}");
    }
    assert_eq!(t.ada.contents(&thread).await, ["Root"]);
    socket.ack(json!({"type": "ping"})).await;
}

#[tokio::test]
async fn five_malformed_frames_in_a_row_close_the_socket() {
    let t = team().await;
    let mut socket = t.bo.socket().await;
    let bad = [
        "",
        "{",
        "[]",
        "\"x\"",
        r#"{"type":"dance","id":"1"}"#,
        r#"{"type":"ping"}"#,
        r#"{"id":"1"}"#,
    ];
    for frame in &bad[..4] {
        socket.send_text(frame).await;
        let error = socket.of("error").await;
        assert_eq!(
            (&error["id"], &error["error"]["type"]),
            (&Value::Null, &json!("invalid_request")),
            "{frame}"
        );
    }
    socket.ack(json!({"type": "ping"})).await;
    for frame in &bad[2..7] {
        socket.send_text(frame).await;
    }
    assert_eq!(socket.closed().await, 1008);
}

#[tokio::test]
async fn a_binary_frame_is_malformed() {
    let t = team().await;
    let mut socket = t.bo.socket().await;
    socket
        .send_message(Message::binary(vec![1, 2, 3]))
        .await
        .unwrap();
    assert!(socket.of("error").await["id"].is_null());
    socket.ack(json!({"type": "ping"})).await;
}

#[tokio::test]
async fn a_frame_can_have_64_kib_and_no_more() {
    let t = team().await;
    let mut socket = t.bo.socket().await;
    let padded = |bytes: usize| {
        let frame = r#"{"type":"ping","id":"1"}"#;
        format!("{frame}{}", " ".repeat(bytes - frame.len()))
    };
    socket.send_text(&padded(64 * 1024)).await;
    assert_eq!(socket.of("ack").await["id"], "1");
    // The server may close the socket before it has received the whole frame.
    drop(
        socket
            .send_message(Message::text(padded(64 * 1024 + 1)))
            .await,
    );
    assert_eq!(socket.closed().await, 1009);
    t.bo.socket().await;
}

#[tokio::test]
async fn a_frame_with_nul_or_deep_nesting_is_handled_safely() {
    let t = team().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let mut socket = t.bo.socket().await;
    socket.send_text(&"[".repeat(60_000)).await;
    socket.of("error").await;
    let nul = socket
        .request(json!({"type": "message.send", "thread_id": thread, "content": "a\u{0}b", "client_id": "1"}))
        .await;
    assert_eq!(nul["type"], "error");
    assert_eq!(t.ada.contents(&thread).await, ["Root"]);
}

#[tokio::test]
async fn events_of_a_private_channel_reach_only_its_members() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let channel = t.ada.private_channel("board", &[&t.bo]).await;
    let (mut inside, mut outside) = (t.bo.socket().await, cy.socket().await);
    let thread = t.ada.thread(&channel, "@vibe between us").await;
    let inside_saw = inside
        .events_through("the reply", |f| f["data"]["task"]["status"] == "completed")
        .await;
    assert!(inside_saw.len() >= 6);
    t.ada
        .patch(&format!("/v1/threads/{thread}"), json!({"title": "Plan"}))
        .await
        .is(200);
    t.ada.thread(&t.general, "For all").await;
    let seen = outside
        .events_through("the public message", |f| f["type"] == "message.created")
        .await;
    assert!(
        seen.iter().all(|e| e["channel_id"] == t.general.as_str()),
        "{seen:?}"
    );
    assert_eq!(seen.len(), 2);
}

#[tokio::test]
async fn sequence_gaps_are_only_events_that_the_user_cannot_see() {
    let t = team().await;
    let channel = t.ada.private_channel("board", &[]).await;
    let (mut ada, mut bo) = (t.ada.socket().await, t.bo.socket().await);
    let secret = t.ada.thread(&channel, "Secret").await;
    let public = t.ada.thread(&t.general, "Public").await;
    for n in 0..10 {
        t.ada
            .say(if n % 2 == 0 { &secret } else { &public }, &n.to_string())
            .await;
    }
    t.ada.say(&public, "last").await;
    let is_last = |f: &Value| f["data"]["message"]["content"] == "last";
    let (all, some) = (
        ada.events_through("all", is_last).await,
        bo.events_through("some", is_last).await,
    );
    let seqs: Vec<i64> = all.iter().map(|e| number(e, "/seq")).collect();
    assert!(
        seqs.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{seqs:?}"
    );
    let public_of_all: Vec<&Value> = all
        .iter()
        .filter(|e| e["channel_id"] != channel.as_str())
        .collect();
    assert_eq!(some.iter().collect::<Vec<_>>(), public_of_all);
}

#[tokio::test]
async fn logging_out_closes_only_that_sessions_sockets() {
    let t = team().await;
    let elsewhere = t.bo.log_in().await;
    let (mut here, mut there) = (t.bo.socket().await, elsewhere.socket().await);
    t.bo.act("/v1/auth/logout").await.is(204);
    assert_eq!(here.closed().await, 4001);
    there.ack(json!({"type": "ping"})).await;
}

#[tokio::test]
async fn ending_a_session_closes_its_sockets() {
    let t = team().await;
    let elsewhere = t.bo.log_in().await;
    let mut there = elsewhere.socket().await;
    let sessions = list(&t.bo.get("/v1/auth/sessions").await.ok(), "/data");
    let other = sessions.iter().find(|s| s["current"] == false).unwrap();
    t.bo.delete(&format!("/v1/auth/sessions/{}", id(other)))
        .await
        .is(204);
    assert_eq!(there.closed().await, 4001);
}

#[tokio::test]
async fn a_password_change_closes_sockets() {
    let t = team().await;
    let elsewhere = t.bo.log_in().await;
    let mut there = elsewhere.socket().await;
    let form = json!({"current_password": "correct horse", "new_password": "battery staple"});
    t.bo.post("/v1/auth/password", form).await.is(204);
    assert_eq!(there.closed().await, 4001);
}

#[tokio::test]
async fn a_role_change_closes_sockets() {
    let t = team().await;
    let (mut bo, mut ada) = (t.bo.socket().await, t.ada.socket().await);
    t.ada
        .patch(
            &format!("/v1/members/{}", t.bo.id),
            json!({"role": "viewer"}),
        )
        .await
        .is(200);
    assert_eq!(bo.closed().await, 4001);
    ada.ack(json!({"type": "ping"})).await;
    t.bo.socket().await;
}

#[tokio::test]
async fn a_removed_member_is_closed_with_4003() {
    let t = team().await;
    let mut bo = t.bo.socket().await;
    t.ada
        .delete(&format!("/v1/members/{}", t.bo.id))
        .await
        .is(204);
    assert_eq!(bo.closed().await, 4003);
    let mut again = Socket::silent(&t.bo).await;
    again
        .send(&json!({"type": "hello", "protocol": 1, "workspace_id": t.ada.workspace}))
        .await;
    assert_eq!(again.closed().await, 4003);
}

#[tokio::test]
async fn a_stopping_server_closes_sockets_as_going_away() {
    let mut t = team().await;
    let mut socket = t.bo.socket().await;
    let (code, ()) = tokio::join!(socket.closed(), t.app.stop());
    assert_eq!(code, 1001);
}

#[tokio::test]
async fn presence_is_sent_when_the_first_socket_opens_and_the_last_one_closes() {
    let t = team().await;
    let mut ada = t.ada.socket().await;
    let is_bo = |f: &Value| f["type"] == "presence" && f["user_id"] == t.bo.id.as_str();
    let first = t.bo.socket().await;
    assert_eq!(ada.until("Bo online", is_bo).await["status"], "online");
    let second = t.bo.socket().await;
    drop(first);
    drop(second);
    let offline = ada.until("Bo offline", is_bo).await;
    assert_eq!(offline["status"], "offline", "nothing is sent in between");
    let presence = t.ada.get("/v1/snapshot").await.ok()["presence"].clone();
    assert_eq!(presence, json!([{"user_id": t.ada.id, "status": "online"}]));
}

async fn watching(t: &Team, person: &Person, thread: &str) -> Socket {
    assert!(t.app.base == person.base);
    let mut socket = person.socket().await;
    socket.subscribe(thread).await;
    socket
}

#[tokio::test]
async fn typing_reaches_watchers_of_the_conversation() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let (mut ada, mut bo) = (
        watching(&t, &t.ada, &thread).await,
        watching(&t, &t.bo, &thread).await,
    );
    let mut elsewhere = cy.socket().await;
    bo.send(&json!({"type": "typing", "thread_id": thread}))
        .await;
    let typing = ada.of("typing").await;
    assert_eq!(
        typing,
        json!({"type": "typing", "thread_id": thread, "fork_id": null, "user_id": t.bo.id})
    );
    assert!(
        elsewhere
            .settle()
            .await
            .iter()
            .all(|f| f["type"] != "typing"),
        "not watching"
    );
    assert!(
        bo.settle().await.iter().all(|f| f["type"] != "typing"),
        "not for the author"
    );
    ada.ack(json!({"type": "unsubscribe", "thread_id": thread}))
        .await;
    bo.send(&json!({"type": "typing", "thread_id": thread}))
        .await;
    bo.settle().await;
    assert!(
        ada.settle().await.iter().all(|f| f["type"] != "typing"),
        "not after unsubscribing"
    );
}

#[tokio::test]
async fn typing_requires_access_to_the_conversation_but_not_watching_it() {
    let t = team().await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let channel = t.ada.private_channel("board", &[&t.bo]).await;
    let thread = t.ada.thread(&channel, "Root").await;
    let mut ada = watching(&t, &t.ada, &thread).await;
    let (mut inside, mut outside) = (t.bo.socket().await, cy.socket().await);
    outside
        .send(&json!({"type": "typing", "thread_id": thread}))
        .await;
    outside.settle().await;
    inside
        .send(&json!({"type": "typing", "thread_id": thread}))
        .await;
    assert_eq!(ada.of("typing").await["user_id"], t.bo.id.as_str());
}

#[tokio::test]
async fn a_viewer_cannot_send_typing() {
    let t = team().await;
    let vera = t.app.join(&t.ada, "Vera", "viewer").await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let (mut ada, mut viewer) = (
        watching(&t, &t.ada, &thread).await,
        watching(&t, &vera, &thread).await,
    );
    viewer
        .send(&json!({"type": "typing", "thread_id": thread}))
        .await;
    viewer.settle().await;
    assert!(ada.settle().await.iter().all(|f| f["type"] != "typing"));
}

#[tokio::test]
async fn a_member_removed_from_a_private_channel_receives_no_more_of_its_events() {
    let t = team().await;
    let channel = t.ada.private_channel("board", &[&t.bo]).await;
    let thread = t.ada.thread(&channel, "Root").await;
    let (mut ada, mut bo) = (
        watching(&t, &t.ada, &thread).await,
        watching(&t, &t.bo, &thread).await,
    );
    t.ada
        .delete(&format!("/v1/channels/{channel}/members/{}", t.bo.id))
        .await
        .is(204);
    bo.of("channel.member_removed").await;
    t.ada.ask(&thread, "@vibe secret").await;
    ada.send(&json!({"type": "typing", "thread_id": thread}))
        .await;
    ada.of("task.delta").await;
    let seen = bo.settle().await;
    assert!(seen.iter().all(|f| f["type"] == "presence"), "{seen:?}");
}

#[tokio::test]
async fn at_most_one_hundred_conversations_can_be_watched() {
    let t = team().await;
    let mut socket = t.bo.socket().await;
    let mut threads = Vec::new();
    for n in 0..101 {
        threads.push(t.ada.thread(&t.general, &n.to_string()).await);
    }
    for thread in &threads[..100] {
        socket.subscribe(thread).await;
    }
    let refused = socket
        .request(json!({"type": "subscribe", "thread_id": threads[100]}))
        .await;
    assert_eq!(refused["error"]["type"], "unprocessable_entity");
    socket.subscribe(&threads[0]).await;
}
