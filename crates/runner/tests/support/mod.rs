//! A scripted server, a repository, and a runner between them.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    dead_code,
    reason = "test helpers, of which each test file uses some"
)]

use std::{
    collections::BTreeMap,
    convert::Infallible,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{Method, Request, Response, body::Incoming, header, service::service_fn};
use hyper_util::rt::TokioIo;
use openvibe_runner::{Config, RunnerError};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc, task::JoinSet, time::timeout};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, handshake::derive_accept_key, protocol::Role},
};
use tokio_util::sync::CancellationToken;

const WAIT_MAX: Duration = Duration::from_mins(1);

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

#[derive(Default)]
struct State {
    /// Stored files by path with query.
    files: BTreeMap<String, Bytes>,
    /// Requests of models: path, authorization, and body.
    model_requests: Vec<(String, String, Value)>,
    /// Answers of the model, the next one at the end.
    model_answers: Vec<Value>,
    /// Status with which files are refused.
    refuses_files: Option<u16>,
    refused_files: usize,
}

/// A server whose sockets belong to the test.
pub struct Server {
    pub address: String,
    state: Arc<Mutex<State>>,
    sockets: mpsc::Receiver<Socket>,
    _tasks: JoinSet<()>,
}

impl Server {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let (sender, sockets) = mpsc::channel(4);
        let mut tasks = JoinSet::new();
        let shared = state.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (shared, sender) = (shared.clone(), sender.clone());
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        let (shared, sender) = (shared.clone(), sender.clone());
                        async move { Ok::<_, hyper::Error>(answer(&shared, sender, request).await) }
                    });
                    let serving = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .with_upgrades();
                    // The runner may end first.
                    let _ = serving.await;
                });
            }
        });
        Self { address, state, sockets, _tasks: tasks }
    }

    pub fn answer_model(&self, answers: &[Value]) {
        self.state.lock().unwrap().model_answers = answers.iter().rev().cloned().collect();
    }

    /// Refuses files from now on.
    pub fn refuse_files(&self, status: u16) {
        self.state.lock().unwrap().refuses_files = Some(status);
    }

    /// Stores files again.
    pub fn accept_files(&self) {
        self.state.lock().unwrap().refuses_files = None;
    }

    /// Number of stored files whose path contains the text.
    pub fn count_files(&self, part: &str) -> usize {
        self.state.lock().unwrap().files.keys().filter(|path| path.contains(part)).count()
    }

    /// Waits until a file was refused.
    pub async fn refused(&self) {
        until(|| self.state.lock().unwrap().refused_files > 0).await;
    }

    /// Skills that turns of `code_1` can use from now on: name, version, and the text of `run.sh`.
    pub fn offer_skills(&self, skills: &[(&str, u64, &str)]) {
        let route = "/v1/runner/sessions/code_1/skills";
        let mut state = self.state.lock().unwrap();
        state.files.retain(|path, _| !path.starts_with(route));
        let listed = skills.iter().map(|(name, version, _)| {
            json!({"id": format!("skill_{name}"), "name": name, "version": version})
        });
        let list = json!({"skills": listed.collect::<Vec<_>>()});
        state.files.insert(route.to_owned(), list.to_string().into());
        for (name, version, script) in skills {
            let files = json!([
                {"path": "SKILL.md", "content": format!("Text of {name}")},
                {"path": "scripts/run.sh", "content": format!("#!/bin/sh\n{script}\n")},
            ]);
            let folder = json!({"version": version, "files": files});
            state.files.insert(format!("{route}/skill_{name}"), folder.to_string().into());
        }
    }

    /// Stores a text for the runner at a path.
    pub fn set_file(&self, path: &str, text: &str) {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        self.state.lock().unwrap().files.insert(path.to_owned(), bytes);
    }

    pub fn model_requests(&self) -> Vec<(String, String, Value)> {
        self.state.lock().unwrap().model_requests.clone()
    }

    /// A stored file whose path contains the text.
    pub fn file(&self, part: &str) -> String {
        let state = self.state.lock().unwrap();
        let found = state.files.iter().find(|(path, _)| path.contains(part));
        String::from_utf8_lossy(found.unwrap_or_else(|| panic!("no file {part}")).1).into_owned()
    }

    /// Waits for a file at this path.
    pub async fn stored(&self, path: &str) -> Bytes {
        let looking = async {
            loop {
                if let Some(bytes) = self.state.lock().unwrap().files.get(path) {
                    return bytes.clone();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(WAIT_MAX, looking).await.unwrap()
    }

    /// The next connection, after `hello` and `ready`.
    pub async fn connect(&mut self, sessions: &Value) -> Connection {
        let socket = timeout(WAIT_MAX, self.sockets.recv()).await.unwrap().unwrap();
        let mut connection = Connection { socket, hello: Value::Null, acks: true };
        connection.hello = connection.frame().await;
        assert_eq!(connection.hello["type"], "hello");
        connection.send(&json!({"type": "ready", "sessions": sessions})).await;
        connection
    }
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

fn respond(status: u16, body: impl Into<Bytes>) -> Response<Body> {
    Response::builder().status(status).body(Full::<Bytes>::new(body.into()).boxed_unsync()).unwrap()
}

async fn answer(
    state: &Mutex<State>,
    sockets: mpsc::Sender<Socket>,
    mut request: Request<Incoming>,
) -> Response<Body> {
    let path = request.uri().path_and_query().unwrap().to_string();
    if path == "/v1/runner" {
        let key = request.headers()[header::SEC_WEBSOCKET_KEY].as_bytes().to_vec();
        assert_eq!(request.headers()[header::AUTHORIZATION], "Bearer ovr_test");
        let upgrading = hyper::upgrade::on(&mut request);
        // The upgrade happens after this response.
        let handing = async move {
            let stream = TokioIo::new(upgrading.await.unwrap());
            let socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
            let _ = sockets.send(socket).await;
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(handing);
        tasks.detach_all();
        return Response::builder()
            .status(101)
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_ACCEPT, derive_accept_key(&key))
            .body(Full::<Bytes>::default().boxed_unsync())
            .unwrap();
    }
    let method = request.method().clone();
    let key =
        request.headers().get(header::AUTHORIZATION).map(|key| key.to_str().unwrap().to_owned());
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let mut state = state.lock().unwrap();
    if method == Method::PUT {
        if let Some(status) = state.refuses_files {
            state.refused_files += 1;
            return respond(status, "");
        }
        state.files.insert(path, body);
        return respond(200, "");
    }
    if method == Method::GET {
        let plain = |path: &str| path.split('?').next().unwrap_or_default().to_owned();
        let mut files = state.files.iter();
        return match files.find(|(name, _)| plain(name) == plain(&path)) {
            // Without a length, as a proxy may send it.
            Some((_, body)) => {
                let body = Full::new(body.clone()).map_frame(|frame| frame);
                Response::new(body.boxed_unsync())
            }
            None => respond(404, ""),
        };
    }
    let value = serde_json::from_slice(&body).unwrap();
    state.model_requests.push((path, key.unwrap_or_default(), value));
    let answer = state.model_answers.pop().unwrap_or_default();
    respond(200, answer.to_string())
}

pub struct Connection {
    socket: Socket,
    pub hello: Value,
    /// True if events are acknowledged as they come.
    pub acks: bool,
}

impl Connection {
    pub async fn send(&mut self, frame: &Value) {
        self.socket.send(Message::text(frame.to_string())).await.unwrap();
    }

    pub async fn send_text(&mut self, text: &str) {
        self.socket.send(Message::text(text.to_owned())).await.unwrap();
    }

    /// The next frame, or null if the connection was closed.
    pub async fn frame(&mut self) -> Value {
        loop {
            let message = timeout(WAIT_MAX, self.socket.next()).await.expect("no frame in time");
            match message {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => return Value::Null,
            }
        }
    }

    /// The next event, which is acknowledged.
    pub async fn event(&mut self) -> Value {
        loop {
            let frame = self.frame().await;
            if matches!(frame["type"].as_str(), Some("ack" | "resend" | "skip")) {
                continue;
            }
            if self.acks && frame["n"].is_u64() {
                self.send(&json!({"type": "ack", "session": frame["session"], "n": frame["n"]}))
                    .await;
            }
            return frame;
        }
    }

    /// Events up to the first one of this type.
    pub async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.event().await;
            assert!(!event.is_null(), "the connection ended: {events:?}");
            let is_last = event["type"] == kind;
            events.push(event);
            if is_last {
                return events;
            }
        }
    }

    pub async fn command(&mut self, n: u64, command: Value) {
        let mut frame = command;
        frame["session"] = json!("code_1");
        frame["n"] = json!(n);
        self.send(&frame).await;
    }

    pub async fn open(&mut self, n: u64, engine: &str) -> Value {
        self.command(
            n,
            json!({"type": "open", "repository": "api", "number": 7, "engine": engine}),
        )
        .await;
        self.event().await
    }

    pub async fn prompt(&mut self, n: u64, task: &str, text: &str) {
        self.command(n, json!({"type": "prompt", "task": task, "key": "turn-key", "text": text}))
            .await;
    }
}

/// Waits until a condition holds.
pub async fn until(holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_MAX, waiting).await.unwrap();
}

/// The text of a list of events.
pub fn text_of(events: &[Value]) -> String {
    let texts = events.iter().filter(|event| event["type"] == "text");
    texts.map(|event| event["text"].as_str().unwrap()).collect()
}

/// A directory with a repository and a configuration.
pub struct Setup {
    pub directory: tempfile::TempDir,
    pub config: Config,
}

impl Setup {
    pub fn new(server: &Server, more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let origin = path.join("origin");
        std::fs::create_dir(&origin).unwrap();
        git(&origin, &["init", "--quiet", "-b", "trunk"]);
        std::fs::write(origin.join("README.md"), "one\n").unwrap();
        git(&origin, &["add", "-A"]);
        git(&origin, &["commit", "--quiet", "-m", "Start"]);
        std::fs::write(path.join("key"), "ovr_test").unwrap();
        let text = format!(
            "server = '{}'\nkey_file = '{}'\ndata_dir = '{}'\n{more}\nurl = '{}'\n[engine.scripted]\ncommand = ['$PROGRAM', 'scripted']\n",
            server.address,
            path.join("key").display(),
            path.join("data").display(),
            origin.display(),
        );
        let file = path.join("runner.toml");
        std::fs::write(&file, text).unwrap();
        let mut config = Config::load(&file, None).unwrap();
        config.program = program();
        Self { directory, config }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Starts the runner as a process of its own.
    pub fn spawn(&self) -> RunnerProcess {
        let file = self.path().join("runner.toml");
        let child = Command::new(program()).arg("run").arg(file).spawn();
        RunnerProcess(child.unwrap())
    }

    #[expect(
        clippy::print_stderr,
        reason = "a test that waits for the runner does not see why it ended"
    )]
    pub fn run(&self) -> Running {
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let (config, stopping) = (self.config.clone(), stop.clone());
        tasks.spawn(async move {
            let ended = openvibe_runner::run(config, &stopping).await;
            if let Err(error) = &ended {
                eprintln!("the runner ended: {error}");
            }
            ended
        });
        Running { stop, tasks }
    }
}

/// A runner, which stops when it is dropped.
pub struct Running {
    stop: CancellationToken,
    tasks: JoinSet<Result<(), RunnerError>>,
}

impl Running {
    pub async fn stop(mut self) -> Result<(), RunnerError> {
        self.stop.cancel();
        self.tasks.join_next().await.unwrap().unwrap()
    }

    /// The result of a runner that ends by itself.
    pub async fn ended(mut self) -> Result<(), RunnerError> {
        timeout(WAIT_MAX, self.tasks.join_next()).await.unwrap().unwrap().unwrap()
    }
}

/// A runner's process, which is killed when it is dropped.
pub struct RunnerProcess(Child);

impl Drop for RunnerProcess {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// True if bubblewrap can create a namespace here. It must be installed, so that the tests are not skipped by mistake.
pub fn has_bubblewrap() -> bool {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-user", "--unshare-all", "--disable-userns", "--ro-bind", "/", "/"]);
    let status = command.arg("true").status();
    status.expect("bubblewrap is not installed: install the package bubblewrap").success()
}

/// Number in an environment variable; `None` if it is empty or not set.
pub fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap())
}

pub fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().parent().unwrap().join("examples/runner")
}

pub fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]).args(arguments);
    let output = command.current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
