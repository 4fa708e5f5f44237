//! Frames: each one gets the correct response, invalid ones do not change anything, and the socket stays open.

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::runtime;
use crate::{
    corpus,
    support::{Person, Socket, Team, team_with, unknown_id},
};

const WORDS: &[&str] = &[
    "{",
    "}",
    "\"",
    ":",
    ",",
    "null",
    "\\u0000",
    "\"id\":\"1\"",
    "\"type\":\"ping\"",
    "\"type\":\"typing\"",
    "\"message.send\"",
    "\"fork_id\":null",
    "\"seq\":-1",
    "\"extra\":1",
];

/// Replaces the conversation IDs of the corpus with those of this workspace.
fn placed(text: &str, thread: &str, channel: &str) -> String {
    text.replace(&unknown_id("thread"), thread)
        .replace(&unknown_id("chan"), channel)
}

/// Sends a frame to an otherwise idle socket; returns the responses that arrive before the response to a ping.
async fn answers(socket: &mut Socket, text: &str) -> Vec<Value> {
    socket.send_text(text).await;
    let mut frames = socket.settle().await;
    frames.retain(|frame| matches!(frame["type"].as_str(), Some("ack" | "error")));
    frames
}

/// Sends a frame, and checks that its response and effects follow the contract.
async fn holds(socket: &mut Socket, person: &Person, text: &str) {
    let before = person.events().await.len();
    let all = answers(socket, text).await;
    assert!(all.len() <= 1, "{text}: {all:?}");
    let after = person.events().await.len();
    let sent: Value = serde_json::from_str(text).unwrap_or_default();
    let Some(answer) = all.first() else {
        assert_eq!(
            (&sent["type"], after),
            (&json!("typing"), before),
            "{text} has no answer"
        );
        return;
    };
    if answer["type"] == "ack" {
        assert_eq!(answer["id"], sent["id"], "{text}");
        return;
    }
    assert_eq!(after, before, "{text} was refused and changed something");
    let error = &answer["error"];
    let kinds = [
        "invalid_request",
        "not_found",
        "unprocessable_entity",
        "payload_too_large",
        "conflict",
    ];
    assert!(
        kinds.iter().any(|kind| error["type"] == *kind),
        "{text}: {answer}"
    );
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
    );
    let carries_id = sent["id"].is_string() || sent["id"].is_number();
    let expected = if carries_id {
        &sent["id"]
    } else {
        &Value::Null
    };
    assert_eq!(&answer["id"], expected, "{text}");
}

async fn quiet() -> (Team, String, Socket) {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let socket = t.bo.socket().await;
    (t, thread, socket)
}

#[tokio::test]
async fn one_socket_survives_every_corpus_frame() {
    let (t, thread, mut socket) = quiet().await;
    for case in corpus::cases("frames", "json") {
        let text = placed(case.text(), &thread, &t.general);
        holds(&mut socket, &t.bo, &text).await;
    }
    assert_eq!(t.ada.contents(&thread).await, ["Root", "Hello 👍"]);
    // Binary frames are rejected with an error, and the socket is closed after several of them.
    for n in 0..5 {
        let bytes = Message::binary(vec![n; 100]);
        socket.send_message(bytes).await.unwrap();
    }
    assert_eq!(socket.closed().await, 1008);
}

#[tokio::test]
async fn before_the_hello_no_corpus_frame_has_an_effect() {
    let (t, thread, _) = quiet().await;
    let before = t.ada.events().await.len();
    for case in corpus::cases("frames", "json") {
        let mut socket = Socket::silent(&t.bo).await;
        let text = placed(case.text(), &thread, &t.general);
        socket.send_text(&text).await;
        let Some(answer) = socket.try_next().await else {
            panic!("{}: closed", case.name);
        };
        if answer["type"] == "ready" {
            assert!(text.contains("hello"), "{text}");
            continue;
        }
        assert_eq!(
            (&answer["type"], &answer["id"]),
            (&json!("error"), &Value::Null),
            "{text}"
        );
    }
    assert_eq!(t.ada.events().await.len(), before);
}

#[test]
fn any_frame_gets_a_response_and_the_socket_stays_usable() {
    let runtime = runtime();
    let (t, thread, socket) = runtime.block_on(quiet());
    let socket = tokio::sync::Mutex::new(socket);
    let frames = corpus::mutated_text("frames", "json", WORDS);
    proptest!(corpus::config(64), |(text in frames)| {
        let text = placed(&text, &thread, &t.general);
        // Larger frames close the socket; another test covers that.
        prop_assume!(text.len() <= 64 * 1024);
        runtime.block_on(async { holds(&mut *socket.lock().await, &t.bo, &text).await });
    });
}
