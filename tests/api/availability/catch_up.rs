//! Sockets that resume but do not read.

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest, http::HeaderValue},
};

use super::{Bystander, connect_from};
use crate::support::{Person, Socket, TestApp, id, number, text, within};

/// Together, the messages exceed the buffers of client and server: each event contains its message twice, as Markdown and as plain
/// text.
const MESSAGES: usize = 120;
const MESSAGE_BYTES: usize = 32 * 1024;
/// More than the number of the server's database connections for reading.
const SOCKETS: usize = 24;
const RECEIVE_BYTES: u32 = 4096;

/// A workspace whose event log takes long to read; returns its founder and the thread.
async fn workspace_with_a_long_log(app: &TestApp, name: &str) -> (Person, String) {
    let person = app.founder(name).await;
    let general = id(&person.channel("general").await);
    let thread = person.thread(&general, "Long").await;
    for n in 0..MESSAGES {
        let content = format!("{n} {}", "x".repeat(MESSAGE_BYTES - 8));
        person.say(&thread, &content).await;
    }
    (person, thread)
}

/// A socket with a small receive buffer that has sent `hello` and received `ready`, but reads nothing more.
async fn stuck(person: &Person) -> WebSocketStream<TcpStream> {
    let tcp = connect_from(&person.base, [127, 0, 0, 9], Some(RECEIVE_BYTES)).await;
    let url = format!("{}/v1/ws", person.base.replacen("http", "ws", 1));
    let mut request = url.into_client_request().unwrap();
    for (name, value) in person.credentials() {
        let value = HeaderValue::from_str(&value).unwrap();
        request.headers_mut().insert(name, value);
    }
    let opened = within("a socket to open", client_async(request, tcp.unwrap())).await;
    let (mut ws, _) = opened.unwrap();
    let hello =
        json!({"type": "hello", "protocol": 1, "workspace_id": person.workspace, "since": 0});
    ws.send(Message::text(hello.to_string())).await.unwrap();
    let ready = within("ready", ws.next()).await.unwrap().unwrap();
    let ready: Value = serde_json::from_str(ready.to_text().unwrap()).unwrap();
    assert_eq!(
        (&ready["type"], &ready["resumed"]),
        (&json!("ready"), &json!(true))
    );
    ws
}

#[tokio::test]
async fn sockets_that_resume_without_reading_do_not_block_others() {
    let app = TestApp::with(&[("SIGNUP", "open"), ("RATE_LIMITS", "off")]).await;
    let (eve, thread) = workspace_with_a_long_log(&app, "Eve").await;
    let colleague = app.join(&eve, "Mallory", "member").await;
    let mut bystander = Bystander::start(&app.base).await;
    let mut held = Vec::new();
    for _ in 0..SOCKETS {
        held.push(stuck(&eve).await);
    }
    bystander.rounds(5).await;
    // Reconnecting does not help the attacker to block others.
    held.clear();
    for _ in 0..SOCKETS {
        held.push(stuck(&eve).await);
    }
    bystander.rounds(5).await;
    bystander.stop().await;
    // Meanwhile, another member of the same workspace catches up, across several pages and without a gap.
    let mut socket = Socket::read_hello(&colleague, json!({"since": 0})).await;
    let events = socket
        .events_through("live", |frame| frame["type"] == "live")
        .await;
    let seqs: Vec<i64> = events.iter().map(|event| number(event, "/seq")).collect();
    assert!(seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
    let messages = events.iter().filter(|event| {
        event["type"] == "message.created" && event["thread_id"] == thread.as_str()
    });
    assert_eq!(messages.count(), MESSAGES + 1);
}

#[tokio::test]
async fn a_socket_that_takes_no_bytes_is_closed_with_4008_and_resumes() {
    let app = TestApp::with(&[("RATE_LIMITS", "off")]).await;
    let (eve, _) = workspace_with_a_long_log(&app, "Eve").await;
    let colleague = app.join(&eve, "Mallory", "member").await;
    let mut watching = colleague.socket().await;
    let mut ws = stuck(&eve).await;
    // Eve goes offline as soon as the server closes her only socket.
    watching
        .until("Eve to be offline", |frame| {
            frame["type"] == "presence"
                && frame["user_id"] == eve.id.as_str()
                && frame["status"] == "offline"
        })
        .await;
    let (mut cursor, mut code) = (0, 0);
    while let Some(Ok(message)) = within("a frame", ws.next()).await {
        match message {
            Message::Text(frame) => {
                let frame: Value = serde_json::from_str(frame.as_str()).unwrap();
                cursor = number(&frame, "/seq");
            }
            Message::Close(frame) => code = frame.map_or(0, |frame| u16::from(frame.code)),
            _ => {}
        }
    }
    assert_eq!(code, 4008);
    let head = number(&eve.get("/v1/snapshot").await.ok(), "/seq");
    assert!(cursor > 0 && cursor < head, "{cursor} of {head}");
    let mut again = Socket::read_hello(&eve, json!({"since": cursor})).await;
    assert_eq!(text(&again.ready, "/type"), "ready");
    let first = again.event().await;
    assert!(number(&first, "/seq") > cursor);
    let live = again.of("live").await;
    assert!(number(&live, "/seq") >= head);
}
