//! Clients that use little CPU time, because they share the machine with the measured server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Notify,
    task::JoinSet,
};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{Message, client::IntoClientRequest, protocol::WebSocketConfig},
};

const PASSWORD: &str = "correct horse";
/// Interval between pings, shorter than the server's idle timeout.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Persistent HTTP connection.
pub(crate) struct Http {
    tcp: TcpStream,
    host: String,
    cookie: String,
    /// Header line with the key of a program, or nothing.
    authorization: String,
    received: Vec<u8>,
}

/// HTTP response.
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> anyhow::Result<Value> {
        anyhow::ensure!(
            (200..300).contains(&self.status),
            "{}: {}",
            self.status,
            String::from_utf8_lossy(&self.body)
        );
        Ok(serde_json::from_slice(&self.body)?)
    }
}

impl Http {
    pub(crate) async fn connect(host: &str, cookie: &str) -> anyhow::Result<Self> {
        let tcp = TcpStream::connect(host).await?;
        tcp.set_nodelay(true)?;
        let mut http = Self {
            tcp,
            host: host.to_owned(),
            cookie: cookie.to_owned(),
            authorization: String::new(),
            received: Vec::with_capacity(4096),
        };
        // The server closes unused connections early, so this sends a first request.
        http.send("GET", "/healthz", "").await?;
        Ok(http)
    }

    /// Opens a connection of a program.
    pub(crate) async fn with_key(host: &str, key: &str) -> anyhow::Result<Self> {
        let mut http = Self::connect(host, "").await?;
        http.authorization = format!("authorization: Bearer {key}\r\n");
        Ok(http)
    }

    pub(crate) fn cookie(&self) -> &str {
        &self.cookie
    }

    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
    ) -> anyhow::Result<Reply> {
        let (host, cookie, authorization) = (&self.host, &self.cookie, &self.authorization);
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\ncookie: {cookie}\r\n{authorization}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.tcp.write_all(request.as_bytes()).await?;
        self.received.clear();
        let head = loop {
            self.read().await?;
            if let Some(at) = self.received.windows(4).position(|w| w == b"\r\n\r\n") {
                let rest = self.received.split_off(at + 4);
                let head = std::mem::replace(&mut self.received, rest);
                break String::from_utf8(head)?;
            }
        };
        let length = header(&head, "content-length").unwrap_or("0").parse()?;
        while self.received.len() < length {
            self.read().await?;
        }
        let status = head
            .get(9..12)
            .context("the response has no status line")?
            .parse()?;
        let body = std::mem::take(&mut self.received);
        Ok(Reply { status, head, body })
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        let n = self.tcp.read_buf(&mut self.received).await?;
        anyhow::ensure!(n > 0, "the server closed the connection");
        Ok(())
    }

    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        self.send("GET", path, "").await?.json()
    }

    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send("POST", path, &body.to_string()).await?.json()
    }

    pub(crate) async fn put(&mut self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send("PUT", path, &body.to_string()).await?.json()
    }

    pub(crate) async fn patch(&mut self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send("PATCH", path, &body.to_string()).await?.json()
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

pub(crate) fn text(value: &Value, pointer: &str) -> anyhow::Result<String> {
    let found = value.pointer(pointer).and_then(Value::as_str);
    Ok(found
        .with_context(|| format!("{pointer} in {value}"))?
        .to_owned())
}

/// Members of a workspace, each with a session.
#[derive(Clone)]
pub(crate) struct Team {
    pub(crate) host: String,
    pub(crate) cookies: Vec<String>,
    pub(crate) workspace: String,
    /// ID of #general.
    pub(crate) general: String,
}

impl Team {
    /// Creates the first account of a server, a workspace, and `size - 1` further members.
    pub(crate) async fn make(host: &str, size: usize) -> anyhow::Result<Self> {
        Self::numbered(host, 0, size).await
    }

    /// Like `make`, but also for further workspaces of a server with open sign-up; `first` is the number of the first
    /// account.
    pub(crate) async fn numbered(host: &str, first: usize, size: usize) -> anyhow::Result<Self> {
        let mut founder = sign_up(host, first, None).await?;
        let workspace = founder
            .post("/v1/workspaces", &json!({"name": "Bench"}))
            .await?;
        let mut cookies = vec![founder.cookie.clone()];
        for n in first + 1..first + size {
            let invite = founder
                .post("/v1/invites", &json!({"role": "member"}))
                .await?;
            let token = text(&invite, "/token")?;
            cookies.push(sign_up(host, n, Some(&token)).await?.cookie);
        }
        let channels = founder.get("/v1/channels").await?;
        let general = channels["data"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|channel| channel["name"] == "general")
            .context("the workspace has no #general")?;
        Ok(Self {
            host: host.to_owned(),
            cookies,
            workspace: text(&workspace, "/id")?,
            general: text(general, "/id")?,
        })
    }

    /// Returns the same people as clients of another node.
    pub(crate) fn at(&self, host: &str) -> Self {
        Self {
            host: host.to_owned(),
            ..self.clone()
        }
    }

    /// Opens a connection as the nth member (modulo the team size).
    pub(crate) async fn http(&self, n: usize) -> anyhow::Result<Http> {
        Http::connect(&self.host, self.cookie(n)).await
    }

    pub(crate) fn cookie(&self, n: usize) -> &str {
        &self.cookies[n % self.cookies.len()]
    }

    /// Creates a thread in #general; returns its ID.
    pub(crate) async fn thread(&self) -> anyhow::Result<String> {
        let form = json!({"content": "Let us begin."});
        let path = format!("/v1/channels/{}/threads", self.general);
        let started = self.http(0).await?.post(&path, &form).await?;
        text(&started, "/thread/id")
    }

    /// Opens a socket as the nth member, without the hello.
    pub(crate) async fn silent(&self, n: usize) -> anyhow::Result<Ws> {
        connect(&self.host, "/v1/ws", self.cookie(n)).await
    }

    /// Opens a socket as the nth member and waits for `live`.
    pub(crate) async fn socket(&self, n: usize) -> anyhow::Result<Ws> {
        let mut ws = self.silent(n).await?;
        read_hello(&mut ws, &json!({})).await?;
        Ok(ws)
    }
}

/// A new thread in #general, with the first member's connection and socket.
pub(crate) struct Conversation {
    pub(crate) http: Http,
    /// ID of the thread.
    pub(crate) thread: String,
    ws: Ws,
    /// Path of the thread's messages.
    messages: String,
}

impl Conversation {
    pub(crate) async fn start(team: &Team) -> anyhow::Result<Self> {
        let thread = team.thread().await?;
        Ok(Self {
            http: team.http(0).await?,
            ws: team.socket(0).await?,
            messages: format!("/v1/threads/{thread}/messages"),
            thread,
        })
    }

    /// Opens a new socket, because the server closes one that sends nothing for 50 s.
    pub(crate) async fn reconnect(&mut self, team: &Team) -> anyhow::Result<()> {
        self.ws = team.socket(0).await?;
        Ok(())
    }

    /// Posts a message; returns the response.
    pub(crate) async fn post(&mut self, content: &str) -> anyhow::Result<Value> {
        let form = json!({"content": content});
        self.http.post(&self.messages, &form).await
    }

    /// Posts a message that mentions an agent; returns its task.
    pub(crate) async fn ask(&mut self, content: &str) -> anyhow::Result<String> {
        let posted = self.post(content).await?;
        text(&posted, "/tasks/0/id")
    }

    /// Next frame of a task.
    pub(crate) async fn next_of(&mut self, task: &str) -> anyhow::Result<String> {
        next_of_task(&mut self.ws, task).await
    }

    /// Waits until a task has completed.
    pub(crate) async fn completed(&mut self, task: &str) -> anyhow::Result<()> {
        completed(&mut self.ws, task).await
    }
}

pub(crate) async fn sign_up(host: &str, n: usize, invite: Option<&str>) -> anyhow::Result<Http> {
    let mut http = Http::connect(host, "").await?;
    let form = json!({
        "email": format!("member{n}@example.org"), "password": PASSWORD, "name": format!("Member {n}"), "invite": invite,
    });
    let reply = http
        .send("POST", "/v1/auth/signup", &form.to_string())
        .await?;
    reply.json()?;
    let cookie = header(&reply.head, "set-cookie").context("the response has no cookie")?;
    cookie
        .split(';')
        .next()
        .unwrap_or_default()
        .clone_into(&mut http.cookie);
    Ok(http)
}

pub(crate) type Ws = WebSocketStream<TcpStream>;

pub(crate) async fn connect(host: &str, path: &str, cookie: &str) -> anyhow::Result<Ws> {
    let tcp = TcpStream::connect(host).await?;
    tcp.set_nodelay(true)?;
    upgrade(tcp, host, path, cookie).await
}

/// Opens a socket over a connection.
pub(crate) async fn upgrade(
    tcp: TcpStream,
    host: &str,
    path: &str,
    cookie: &str,
) -> anyhow::Result<Ws> {
    let mut request = format!("ws://{host}{path}").into_client_request()?;
    let headers = request.headers_mut();
    headers.insert("origin", format!("http://{host}").parse()?);
    if !cookie.is_empty() {
        headers.insert("cookie", cookie.parse()?);
    }
    let config = WebSocketConfig::default().read_buffer_size(4 * 1024);
    Ok(client_async_with_config(request, tcp, Some(config))
        .await?
        .0)
}

/// Sends the hello with additional fields; returns all frames up to and including `live`.
pub(crate) async fn read_hello(ws: &mut Ws, fields: &Value) -> anyhow::Result<Vec<String>> {
    let mut hello = json!({"type": "hello", "protocol": 1});
    for (name, value) in fields.as_object().into_iter().flatten() {
        hello[name] = value.clone();
    }
    ws.send(Message::text(hello.to_string())).await?;
    let mut texts = Vec::new();
    loop {
        let text = next_text(ws).await?;
        let live = text.starts_with(r#"{"type":"live""#);
        texts.push(text);
        if live {
            return Ok(texts);
        }
    }
}

pub(crate) async fn next_text(ws: &mut Ws) -> anyhow::Result<String> {
    loop {
        if let Message::Text(text) = ws.next().await.context("the socket was closed")?? {
            return Ok(text.to_string());
        }
    }
}

/// Returns the next frame of a task; fails if the task has failed.
async fn next_of_task(ws: &mut Ws, task: &str) -> anyhow::Result<String> {
    loop {
        let frame = tokio::time::timeout(Duration::from_secs(20), next_text(ws)).await;
        let frame = frame.context("the task did not go on in time")??;
        if frame.contains(task) {
            anyhow::ensure!(!frame.contains(r#""status":"failed""#), "{frame}");
            return Ok(frame);
        }
    }
}

/// Waits until a task has completed.
pub(crate) async fn completed(ws: &mut Ws, task: &str) -> anyhow::Result<()> {
    loop {
        let frame = next_of_task(ws, task).await?;
        if frame.contains(r#""status":"completed""#) {
            return Ok(());
        }
    }
}

/// Sends a request and waits for its response; skips other frames.
pub(crate) async fn request(ws: &mut Ws, frame: &Value) -> anyhow::Result<Value> {
    ws.send(Message::text(frame.to_string())).await?;
    loop {
        let text = next_text(ws).await?;
        if text.starts_with(r#"{"type":"ack""#) || text.starts_with(r#"{"data""#) {
            return Ok(serde_json::from_str(&text)?);
        }
        anyhow::ensure!(!text.contains(r#""type":"error""#), "refused: {text}");
    }
}

/// Counts the frames that a group of sockets receives.
#[derive(Default)]
pub(crate) struct Counter {
    seen: AtomicU64,
    target: AtomicU64,
    reached: Notify,
}

impl Counter {
    /// Increases the expected number of frames.
    pub(crate) fn expect(&self, more: usize) {
        self.target.fetch_add(more as u64, Ordering::SeqCst);
    }

    fn saw_one(&self) {
        let seen = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
        if seen == self.target.load(Ordering::SeqCst) {
            self.reached.notify_one();
        }
    }

    /// Waits until all expected frames have been received.
    pub(crate) async fn wait(&self) -> anyhow::Result<()> {
        let all = async {
            while self.seen.load(Ordering::SeqCst) < self.target.load(Ordering::SeqCst) {
                self.reached.notified().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), all)
            .await
            .context("some frames did not arrive within 30 s")
    }
}

/// Group of sockets that read and count frames.
pub(crate) struct Crowd {
    pub(crate) counter: Arc<Counter>,
    pub(crate) size: usize,
    _reading: JoinSet<()>,
}

impl Crowd {
    /// Counts frames that start with `prefix`.
    pub(crate) fn read(sockets: Vec<Ws>, prefix: &'static str) -> Self {
        let counter = Arc::new(Counter::default());
        let size = sockets.len();
        let mut reading = JoinSet::new();
        for ws in sockets {
            reading.spawn(read_on(ws, prefix, Arc::clone(&counter)));
        }
        Self {
            counter,
            size,
            _reading: reading,
        }
    }
}

async fn read_on(mut ws: Ws, prefix: &'static str, counter: Arc<Counter>) {
    let mut keep_alive = tokio::time::interval(KEEP_ALIVE);
    keep_alive.tick().await;
    loop {
        tokio::select! {
            frame = ws.next() => match frame {
                Some(Ok(Message::Text(text))) if text.starts_with(prefix) => counter.saw_one(),
                Some(Ok(_)) => {}
                // Missing frames are reported by `wait`.
                Some(Err(_)) | None => return,
            },
            _ = keep_alive.tick() => {
                if ws.send(Message::Ping(tokio_tungstenite::tungstenite::Bytes::new())).await.is_err() {
                    return;
                }
            }
        }
    }
}
