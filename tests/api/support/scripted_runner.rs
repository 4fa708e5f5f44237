//! A runner that follows the test's script, over a real WebSocket.

use std::collections::{BTreeMap, VecDeque};

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest,
        http::{HeaderValue, header::AUTHORIZATION},
    },
};

use super::{Person, person::client, text, within};

pub type RunnerSocket = WebSocketStream<MaybeTlsStream<TcpStream>>;

pub struct ScriptedRunner {
    ws: RunnerSocket,
    pub base: String,
    pub key: String,
    /// The server's response to `hello`.
    pub ready: Value,
    /// Number of the last event by session.
    events: BTreeMap<String, u64>,
    /// Number of the last command by session.
    commands: BTreeMap<String, u64>,
    waiting: VecDeque<Value>,
}

/// Creates a runner, and returns its ID and key.
pub async fn new_runner(admin: &Person, name: &str) -> (String, String) {
    let made = admin.post("/v1/runners", json!({"name": name})).await;
    let made = made.is(201);
    (text(&made, "/id"), text(&made, "/key"))
}

/// A greeting that offers these repositories.
pub fn greeting(repositories: &[&str]) -> Value {
    let offers = repositories.iter();
    let offers: Vec<Value> = offers
        .map(|name| json!({"name": name, "base": "main", "can_push": true}))
        .collect();
    json!({
        "type": "hello", "protocol": 1, "version": "0.1.0", "sandbox": "bubblewrap", "repositories": offers,
        "engines": [{"name": "builtin", "to": null}, {"name": "claude", "to": "api.example"}], "sessions": {},
    })
}

/// Opens a socket of a runner, without the greeting.
pub async fn open_runner(base: &str, key: &str) -> Result<RunnerSocket, Error> {
    let url = format!("{}/v1/runner", base.replacen("http", "ws", 1));
    let mut request = url.into_client_request().unwrap();
    let value = HeaderValue::from_str(&format!("Bearer {key}")).unwrap();
    request.headers_mut().insert(AUTHORIZATION, value);
    within("a runner's socket", connect_async(request))
        .await
        .map(|(ws, _)| ws)
}

/// Uploads a text of a session as its runner; returns the status.
pub async fn upload(
    base: &str,
    key: &str,
    path: &str,
    body: impl Into<Vec<u8>>,
) -> reqwest::Result<u16> {
    let url = format!("{base}/v1/runner/sessions/{path}");
    let request = client().put(url).bearer_auth(key);
    let sent = within("an upload", request.body(body.into()).send()).await;
    Ok(sent?.status().as_u16())
}

impl ScriptedRunner {
    /// Returns the status of an upgrade that must be rejected.
    pub async fn refused(base: &str, key: &str) -> u16 {
        match open_runner(base, key).await {
            Err(Error::Http(response)) => response.status().as_u16(),
            Err(e) => panic!("{e}"),
            Ok(_) => panic!("the upgrade was granted"),
        }
    }

    /// Sends a greeting that must be rejected, and returns the close code and the reason.
    pub async fn rejected(base: &str, key: &str, first: &str) -> (u16, String) {
        let mut ws = open_runner(base, key).await.unwrap();
        ws.send(Message::text(first)).await.unwrap();
        closing(&mut ws).await
    }

    pub async fn connect(base: &str, key: &str, repositories: &[&str]) -> Self {
        Self::greet(base, key, greeting(repositories)).await
    }

    pub async fn greet(base: &str, key: &str, hello: Value) -> Self {
        let mut ws = open_runner(base, key).await.unwrap();
        ws.send(Message::text(hello.to_string())).await.unwrap();
        let mut runner = Self {
            ws,
            base: base.to_owned(),
            key: key.to_owned(),
            ready: Value::Null,
            events: BTreeMap::new(),
            commands: BTreeMap::new(),
            waiting: VecDeque::new(),
        };
        let ready = runner.receive().await;
        assert_eq!(ready["type"], "ready", "{ready}");
        for (session, n) in ready["sessions"].as_object().unwrap() {
            runner.events.insert(session.clone(), n.as_u64().unwrap());
        }
        runner.ready = ready;
        runner
    }

    /// Connects again as the same runner, which has everything that it received.
    pub async fn reconnect(self, repositories: &[&str]) -> Self {
        let mut hello = greeting(repositories);
        hello["sessions"] = json!(self.commands);
        let commands = self.commands.clone();
        let mut again = Self::greet(&self.base, &self.key, hello).await;
        again.commands = commands;
        again
    }

    pub async fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string()).await;
    }

    pub async fn send_text(&mut self, text: &str) {
        self.ws.send(Message::text(text)).await.unwrap();
    }

    /// Waits for the end of the connection, and returns the close code and the reason.
    pub async fn closed(mut self) -> (u16, String) {
        closing(&mut self.ws).await
    }

    /// The next frame from the network.
    async fn receive(&mut self) -> Value {
        loop {
            match within("a frame for a runner", self.ws.next()).await {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                Some(Ok(Message::Close(frame))) => panic!("the socket was closed: {frame:?}"),
                Some(Ok(_)) => {}
                other => panic!("the socket has ended: {other:?}"),
            }
        }
    }

    /// The next command of this type, which is acknowledged together with those before it.
    pub async fn command(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.next_command().await;
            self.acknowledge(&frame).await;
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// The next command of any type, which is not acknowledged.
    pub async fn next_command(&mut self) -> Value {
        if let Some(frame) = self.waiting.pop_front() {
            return frame;
        }
        loop {
            let frame = self.receive().await;
            let kind = text(&frame, "/type");
            if !["ack", "resend", "ready", "skip"].contains(&kind.as_str()) {
                return frame;
            }
        }
    }

    pub async fn acknowledge(&mut self, command: &Value) {
        let session = text(command, "/session");
        let n = command["n"].as_u64().unwrap();
        self.commands.insert(session.clone(), n);
        self.send(&json!({"type": "ack", "session": session, "n": n}))
            .await;
    }

    /// Sends the next event of a session, and waits until the server has it.
    pub async fn event(&mut self, session: &str, event: Value) -> u64 {
        let n = self.events.get(session).copied().unwrap_or(0) + 1;
        self.event_at(session, n, event).await;
        n
    }

    /// Sends an event with this number, and waits for the response, which is returned.
    pub async fn event_at(&mut self, session: &str, n: u64, mut event: Value) -> Value {
        event["session"] = session.into();
        event["n"] = n.into();
        self.send(&event).await;
        loop {
            let frame = self.receive().await;
            let is_about = frame["session"] == session;
            if is_about && (frame["type"] == "ack" || frame["type"] == "resend") {
                let known = frame["n"].as_u64().unwrap();
                self.events.insert(session.to_owned(), known);
                return frame;
            }
            self.waiting.push_back(frame);
        }
    }

    /// Uploads the patch of a session, or the log of a turn; returns the status.
    pub async fn put(&self, path: &str, body: impl Into<Vec<u8>>) -> u16 {
        let sent = upload(&self.base, &self.key, path, body).await;
        sent.unwrap()
    }

    /// Sends the folder that was asked for, or the reason why there is none; returns the status.
    pub async fn send_folder(&self, request: &str, kind: &str, body: Vec<u8>) -> u16 {
        let url = format!("{}/v1/runner/reads/{request}", self.base);
        let sent = client().put(url).bearer_auth(&self.key);
        let sent = sent.header("content-type", kind).body(body).send();
        within("a folder", sent).await.unwrap().status().as_u16()
    }

    /// Reads the skills of a turn, or the files of one; returns the object, or the status.
    pub async fn skills(&self, path: &str) -> Result<Value, u16> {
        let url = format!("{}/v1/runner/sessions/{path}", self.base);
        let request = client().get(url).bearer_auth(&self.key);
        let found = within("skills", request.send()).await.unwrap();
        if !found.status().is_success() {
            return Err(found.status().as_u16());
        }
        Ok(serde_json::from_str(&found.text().await.unwrap()).unwrap())
    }

    /// Reads the patch of a session for a new copy: its size, which the server must name, and the text; or the status.
    pub async fn patch(&self, session: &str) -> Result<(u64, String), u16> {
        let url = format!("{}/v1/runner/sessions/{session}/patch", self.base);
        let request = client().get(url).bearer_auth(&self.key);
        let found = within("a patch", request.send()).await.unwrap();
        if !found.status().is_success() {
            return Err(found.status().as_u16());
        }
        let size = found.content_length().unwrap();
        Ok((size, found.text().await.unwrap()))
    }
}

async fn closing(ws: &mut RunnerSocket) -> (u16, String) {
    loop {
        match within("the end of a runner's socket", ws.next()).await {
            Some(Ok(Message::Close(Some(frame)))) => {
                return (frame.code.into(), frame.reason.to_string());
            }
            Some(Ok(_)) => {}
            other => panic!("no reason: {other:?}"),
        }
    }
}
