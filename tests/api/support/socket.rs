//! A client's WebSocket.

use std::collections::VecDeque;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Error, Message, client::IntoClientRequest, http::HeaderValue},
};

use super::{Person, text, within};

pub struct Socket {
    ws: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// The server's response to `hello`.
    pub ready: Value,
    /// The highest `seq` of an event, a `live` frame, or a heartbeat.
    pub cursor: i64,
    waiting: VecDeque<Value>,
    requests: u64,
}

impl Socket {
    /// Returns the status of an upgrade that must be rejected.
    pub async fn refused(person: &Person) -> u16 {
        match Self::connect(person).await {
            Err(Error::Http(response)) => response.status().as_u16(),
            Err(e) => panic!("{e}"),
            Ok(_) => panic!("the upgrade was granted"),
        }
    }

    /// Attempts an upgrade and drops the socket; returns the error if the upgrade fails.
    pub async fn try_open(person: &Person) -> Result<(), Error> {
        Box::pin(Self::connect(person)).await.map(drop)
    }

    async fn connect(person: &Person) -> Result<WebSocketStream<MaybeTlsStream<TcpStream>>, Error> {
        let url = format!("{}/v1/ws", person.base.replacen("http", "ws", 1));
        let mut request = url.into_client_request().unwrap();
        for (name, value) in person.credentials() {
            request
                .headers_mut()
                .insert(name, HeaderValue::from_str(&value).unwrap());
        }
        within("a socket to open", connect_async(request))
            .await
            .map(|(ws, _)| ws)
    }

    /// A socket that has not sent anything yet.
    pub async fn silent(person: &Person) -> Self {
        Self::over(Self::connect(person).await.unwrap())
    }

    fn over(ws: WebSocketStream<MaybeTlsStream<TcpStream>>) -> Self {
        Self {
            ws,
            ready: Value::Null,
            cursor: 0,
            waiting: VecDeque::new(),
            requests: 0,
        }
    }

    /// Sends `hello` with these additional fields and waits for `ready`, but not for `live`.
    pub async fn read_hello(person: &Person, fields: Value) -> Self {
        let greeted = Self::try_greet(person, fields).await;
        greeted.unwrap_or_else(|e| panic!("no greeting: {e}"))
    }

    /// Like `read_hello`, but returns an error if the server is unavailable.
    pub async fn try_greet(person: &Person, fields: Value) -> Result<Self, String> {
        let ws = Self::connect(person).await.map_err(|e| e.to_string())?;
        let mut socket = Self::over(ws);
        let mut hello = json!({"type": "hello", "protocol": 1});
        if !person.workspace.is_empty() {
            hello["workspace_id"] = person.workspace.as_str().into();
        }
        for (name, value) in fields.as_object().unwrap() {
            hello[name] = value.clone();
        }
        socket.try_send(&hello).await.map_err(|e| e.to_string())?;
        let ready = socket.receive().await;
        let ready = ready.map_err(|code| format!("the socket was closed with {code}"))?;
        assert_eq!(ready["type"], "ready", "{ready}");
        socket.ready = ready;
        Ok(socket)
    }

    /// Opens a socket and waits until it is live; `next` and similar functions return the replayed frames first.
    pub async fn open(person: &Person, fields: Value) -> Self {
        let mut socket = Self::read_hello(person, fields).await;
        let mut replayed = VecDeque::new();
        loop {
            let frame = socket.next().await;
            if frame["type"] == "live" {
                socket.waiting = replayed;
                return socket;
            }
            replayed.push_back(frame);
        }
    }

    /// Resumes after this cursor.
    pub async fn resume(person: &Person, cursor: i64, epoch: &str) -> Self {
        Self::open(person, json!({"since": cursor, "epoch": epoch})).await
    }

    pub fn epoch(&self) -> String {
        self.ready["epoch"].as_str().unwrap().to_owned()
    }

    pub async fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string()).await;
    }

    pub async fn try_send(&mut self, frame: &Value) -> Result<(), Error> {
        self.send_message(Message::text(frame.to_string())).await
    }

    pub async fn send_text(&mut self, text: &str) {
        self.ws.send(Message::text(text)).await.unwrap();
    }

    pub async fn send_message(&mut self, message: Message) -> Result<(), Error> {
        self.ws.send(message).await
    }

    /// The next frame from the network, or the close code.
    async fn receive(&mut self) -> Result<Value, u16> {
        loop {
            match within("a frame", self.ws.next()).await {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(text.as_str()).unwrap();
                    let counts = frame["data"].is_object() && frame["seq"].is_i64()
                        || frame["type"] == "live"
                        || frame["type"] == "heartbeat";
                    if counts {
                        self.cursor = self.cursor.max(frame["seq"].as_i64().unwrap());
                    }
                    return Ok(frame);
                }
                Some(Ok(Message::Close(frame))) => {
                    return Err(frame.map_or(1005, |frame| frame.code.into()));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(1006),
            }
        }
    }

    /// Returns the next frame of any type; `None` once the socket is closed.
    pub async fn try_next(&mut self) -> Option<Value> {
        match self.waiting.pop_front() {
            Some(frame) => Some(frame),
            None => self.receive().await.ok(),
        }
    }

    /// Returns the next frame of any type.
    pub async fn next(&mut self) -> Value {
        if let Some(frame) = self.waiting.pop_front() {
            return frame;
        }
        match self.receive().await {
            Ok(frame) => frame,
            Err(code) => panic!("the socket was closed with {code}"),
        }
    }

    /// The next durable event.
    pub async fn event(&mut self) -> Value {
        self.until("a durable event", |frame| {
            frame["seq"].is_i64() && frame["data"].is_object()
        })
        .await
    }

    /// The next frame of this type; skips earlier frames.
    pub async fn of(&mut self, kind: &str) -> Value {
        self.until(kind, |frame| frame["type"] == kind).await
    }

    /// Returns the next frame for which `wanted` returns `true`; skips earlier frames.
    pub async fn until(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let search = async {
            loop {
                let frame = self.next().await;
                if wanted(&frame) {
                    return frame;
                }
            }
        };
        within(what, search).await
    }

    /// Waits for the event that a task has ended; returns the task.
    pub async fn ended(&mut self, task: &str) -> Value {
        let event = self
            .until(&format!("task {task} to end"), |event| {
                let status = event["data"]["task"]["status"].as_str().unwrap_or_default();
                event["data"]["task"]["id"] == task
                    && matches!(status, "completed" | "failed" | "cancelled")
            })
            .await;
        event["data"]["task"].clone()
    }

    /// Returns all frames up to and including the first one for which `last` returns `true`.
    pub async fn through(&mut self, what: &str, last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut all = Vec::new();
        let collect = async {
            loop {
                let frame = self.next().await;
                let ends = last(&frame);
                all.push(frame);
                if ends {
                    break;
                }
            }
        };
        within(what, collect).await;
        all
    }

    /// Returns the durable events up to and including the first frame for which `last` returns `true`.
    pub async fn events_through(
        &mut self,
        what: &str,
        last: impl Fn(&Value) -> bool,
    ) -> Vec<Value> {
        let mut all = self.through(what, last).await;
        all.retain(|frame| frame["seq"].is_i64() && frame["data"].is_object());
        all
    }

    /// Sends a request and returns its only response; keeps other frames for later.
    pub async fn request(&mut self, mut request: Value) -> Value {
        self.requests += 1;
        let id = format!("r{}", self.requests);
        request["id"] = id.as_str().into();
        self.send(&request).await;
        loop {
            let frame = match self.receive().await {
                Ok(frame) => frame,
                Err(code) => panic!("the socket was closed with {code}"),
            };
            if frame["id"] == id.as_str() {
                return frame;
            }
            self.waiting.push_back(frame);
        }
    }

    /// Sends a request and returns the data of its acknowledgment.
    pub async fn ack(&mut self, request: Value) -> Value {
        let frame = self.request(request).await;
        assert_eq!(frame["type"], "ack", "{frame}");
        frame["data"].clone()
    }

    pub async fn subscribe(&mut self, thread: &str) {
        self.ack(json!({"type": "subscribe", "thread_id": thread}))
            .await;
    }

    /// Subscribes to a fork.
    pub async fn watch(&mut self, fork: &str) {
        self.ack(json!({"type": "subscribe", "fork_id": fork}))
            .await;
    }

    /// Waits until the deltas of a running reply add up to `wanted`.
    pub async fn streamed(&mut self, wanted: &str) {
        let mut shown = String::new();
        while shown != wanted {
            shown += &text(&self.of("task.delta").await, "/text");
        }
    }

    /// Waits until the server closes the socket; returns the close code.
    pub async fn closed(&mut self) -> u16 {
        loop {
            match self.receive().await {
                Ok(frame) => self.waiting.push_back(frame),
                Err(code) => return code,
            }
        }
    }

    /// Waits for the response to `hello`, or for the close code.
    pub async fn ready_or_closed(&mut self) -> Result<(), u16> {
        while self.receive().await?["type"] != "ready" {}
        Ok(())
    }

    /// Sends a ping and waits for its response, so that all earlier frames have arrived. Returns the unread ones.
    pub async fn settle(&mut self) -> Vec<Value> {
        self.ack(json!({"type": "ping"})).await;
        std::mem::take(&mut self.waiting).into()
    }

    /// Frames that arrived before the socket closed but were not read.
    pub fn drained(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.waiting).into()
    }
}
