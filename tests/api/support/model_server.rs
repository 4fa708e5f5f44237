//! A chat completions server with scripted responses.
//!
//! Each script belongs to a speaker:
//!
//! - the word after `You are` at the beginning of the system prompt, in lowercase (`vibe`, `coder`, or an agent with
//!   `instructions_of`)
//! - `summary` for summaries by the utility model, `judge` for its comparison of entries, and `tone` for its ratings of questions
//! - `reflection` for reflections, `drafter` for drafts of agents, and `catch_up` for catch-ups
//! - `condition` for conditions of workflows, and `resolver` for drafts of resolutions
//!
//! Requests for vectors have the speaker `embedder`; without a script and a rule, each text gets the vector that `embed_by` gives it.
//!
//! When a speaker's script is used up, the server responds by the speaker's rule. Without a rule, it responds `Fine.`, or `DRAFT` for
//! the drafter.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
    routing::{get, post},
};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::within;

/// Default response with a draft of an agent.
const DRAFT: &str = r#"{"name": "helper", "display_name": "Helper", "description": "Helps.", "instructions": "You help.", "capabilities": ["help"], "role": "specialist"}"#;

/// A point in a response at which the model server waits for the test.
#[derive(Clone, Default)]
pub struct Gate {
    reached: CancellationToken,
    opened: CancellationToken,
}

impl Gate {
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until the model server has sent everything before the gate.
    pub async fn reached(&self) {
        within("the model to reach a gate", self.reached.cancelled()).await;
    }

    pub fn open(&self) {
        self.opened.cancel();
    }
}

#[derive(Clone)]
enum Step {
    Bytes(String),
    Wait(Gate),
    Pause(Duration),
    /// The server cuts the connection.
    Cut,
    /// The server sends nothing more, but the connection stays open.
    Silence,
}

/// A scripted response of the model server.
#[derive(Clone)]
pub struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    /// Gate at which the server waits before it sends the status.
    before: Option<Gate>,
    steps: Vec<Step>,
}

fn event(value: &Value) -> String {
    format!("data: {value}\n\n")
}

impl Answer {
    /// An empty event stream.
    pub fn stream() -> Self {
        let headers = vec![("content-type", "text/event-stream".to_owned())];
        Self {
            status: 200,
            headers,
            before: None,
            steps: Vec::new(),
        }
    }

    /// A complete reply in these pieces, with usage.
    pub fn pieces(pieces: &[&str]) -> Self {
        pieces
            .iter()
            .fold(Self::stream(), |answer, piece| answer.piece(piece))
            .end()
    }

    /// A complete reply in one piece, with usage.
    pub fn text(text: &str) -> Self {
        Self::pieces(&[text])
    }

    /// A reply with some text, which may be empty, and tool calls.
    pub fn calls(text: &str, calls: &[(&str, Value)]) -> Self {
        let answer = if text.is_empty() {
            Self::stream()
        } else {
            Self::stream().piece(text)
        };
        answer.end_with_calls(calls)
    }

    /// Adds tool calls and ends the reply.
    pub fn end_with_calls(self, calls: &[(&str, Value)]) -> Self {
        let calls = calls.iter().enumerate().map(|(n, (name, arguments))| {
            json!({"index": n, "id": format!("call_{n}"), "type": "function",
                "function": {"name": name, "arguments": arguments.to_string()}})
        });
        let calls: Vec<Value> = calls.collect();
        let chunk = json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": null}]});
        self.raw(&event(&chunk))
            .finish("tool_calls")
            .usage(11, 7)
            .done()
    }

    /// A reply in these pieces that has not ended.
    pub fn pieces_open(pieces: &[&str]) -> Self {
        pieces
            .iter()
            .fold(Self::stream(), |answer, piece| answer.piece(piece))
    }

    /// Sends one object instead of an event stream.
    pub fn json(mut self) -> Self {
        self.headers = vec![("content-type", "application/json".to_owned())];
        self
    }

    /// An error response.
    pub fn status(status: u16, body: &str) -> Self {
        let content_type = if body.starts_with('{') {
            "application/json"
        } else {
            "text/html"
        };
        let headers = vec![("content-type", content_type.to_owned())];
        Self {
            status,
            headers,
            before: None,
            steps: vec![Step::Bytes(body.to_owned())],
        }
    }

    /// An error that the prompt is too long.
    pub fn too_large() -> Self {
        Self::status(
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
        )
    }

    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    pub fn raw(self, bytes: &str) -> Self {
        self.step(Step::Bytes(bytes.to_owned()))
    }

    pub fn piece(self, text: &str) -> Self {
        let chunk =
            json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]});
        self.raw(&event(&chunk))
    }

    pub fn finish(self, reason: &str) -> Self {
        let chunk = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
        self.raw(&event(&chunk))
    }

    pub fn usage(self, input: i64, output: i64) -> Self {
        let usage = json!({"prompt_tokens": input, "completion_tokens": output});
        self.raw(&event(&json!({"choices": [], "usage": usage})))
    }

    pub fn done(self) -> Self {
        self.raw("data: [DONE]\n\n")
    }

    /// Adds the finish reason, usage, and `[DONE]`.
    pub fn end(self) -> Self {
        self.finish("stop").usage(11, 7).done()
    }

    pub fn wait(self, gate: &Gate) -> Self {
        self.step(Step::Wait(gate.clone()))
    }

    /// Waits at the gate before it sends the status.
    pub fn held(mut self, gate: &Gate) -> Self {
        self.before = Some(gate.clone());
        self
    }

    /// Adds a pause of this length.
    pub fn pause(self, pause: Duration) -> Self {
        self.step(Step::Pause(pause))
    }

    pub fn cut(self) -> Self {
        self.step(Step::Cut)
    }

    pub fn silence(self) -> Self {
        self.step(Step::Silence)
    }
}

/// Gives a text its vector.
type Embedding = Arc<dyn Fn(&str) -> Vec<f32> + Send + Sync>;

/// Answers all requests of a speaker.
type Rule = Arc<dyn Fn(&Request) -> Answer + Send + Sync>;

struct Shared {
    scripts: Mutex<HashMap<String, VecDeque<Answer>>>,
    rules: Mutex<HashMap<String, Rule>>,
    embedding: Mutex<Embedding>,
    requests: watch::Sender<Vec<Request>>,
    /// Number of responses from which the client disconnected before their end.
    dropped: watch::Sender<usize>,
    models: Mutex<Vec<String>>,
}

/// A request that the model server received.
#[derive(Clone, Debug)]
pub struct Request {
    pub speaker: String,
    pub body: Value,
    pub authorization: Option<String>,
}

impl Request {
    /// System prompt without the server's preamble.
    pub fn instructions(&self) -> String {
        without_preamble(self.body["messages"][0]["content"].as_str().unwrap()).to_owned()
    }

    /// The request's `messages` without the preamble, the conversation block, dates, and times.
    pub fn messages(&self) -> Value {
        let mut messages = self.body["messages"].clone();
        for message in messages.as_array_mut().unwrap() {
            // A message that only contains calls has no content.
            let content = message["content"].as_str().unwrap_or_default();
            let content = match message["role"].as_str() {
                Some("system") => without_preamble(content).to_owned(),
                _ => undated(content),
            };
            message["content"] = content.into();
        }
        messages
    }

    /// All messages except the system prompt as `role: content`, without the conversation block, dates, and times.
    pub fn turns(&self) -> Vec<String> {
        let messages = self.body["messages"].as_array().unwrap().iter();
        messages
            .filter(|m| m["role"] != "system")
            .map(|m| {
                format!(
                    "{}: {}",
                    m["role"].as_str().unwrap(),
                    undated(m["content"].as_str().unwrap_or_default())
                )
            })
            .collect()
    }

    /// Results of function calls, in order.
    pub fn results(&self) -> Vec<String> {
        let messages = self.body["messages"].as_array().unwrap().iter();
        messages
            .filter(|message| message["role"] == "tool")
            .map(|message| message["content"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Names of the functions called in each earlier round.
    pub fn rounds(&self) -> Vec<Vec<String>> {
        let messages = self.body["messages"].as_array().unwrap().iter();
        let rounds = messages.filter_map(|message| message["tool_calls"].as_array());
        let name = |call: &Value| call["function"]["name"].as_str().unwrap().to_owned();
        rounds
            .map(|calls| calls.iter().map(name).collect())
            .collect()
    }

    /// Names of the functions that the request offers.
    pub fn offered(&self) -> Vec<String> {
        let tools = self.body["tools"].as_array().into_iter().flatten();
        tools
            .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The whole request as one text.
    pub fn all(&self) -> String {
        self.body["messages"].to_string()
    }
}

pub struct ModelServer {
    pub url: String,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

impl ModelServer {
    #[expect(
        clippy::unused_async,
        reason = "starts like the other servers of tests"
    )]
    pub async fn start() -> Self {
        Self::on(std::net::TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// Starts a server on a port that is already bound.
    pub fn on(listener: std::net::TcpListener) -> Self {
        let shared = Arc::new(Shared {
            scripts: Mutex::default(),
            rules: Mutex::default(),
            embedding: Mutex::new(Arc::new(|text: &str| {
                vec![1.0, f32::from(u8::from(text.len() > 100))]
            })),
            requests: watch::channel(Vec::new()).0,
            dropped: watch::channel(0).0,
            models: Mutex::new(vec!["claude-sonnet-4-5".to_owned(), "tiny".to_owned()]),
        });
        let router = Router::new()
            .route("/v1/models", get(models))
            .route("/v1/chat/completions", post(complete))
            .route("/v1/embeddings", post(embed))
            .with_state(Arc::clone(&shared));
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url,
            shared,
            _serving: serving,
        }
    }

    /// Appends responses to a speaker's script.
    pub fn script(&self, speaker: &str, answers: impl IntoIterator<Item = Answer>) {
        let mut scripts = self.shared.scripts.lock().unwrap();
        scripts
            .entry(speaker.to_owned())
            .or_default()
            .extend(answers);
    }

    /// Sets the rule by which a speaker responds.
    pub fn answer_by(
        &self,
        speaker: &str,
        rule: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) {
        let mut rules = self.shared.rules.lock().unwrap();
        rules.insert(speaker.to_owned(), Arc::new(rule));
    }

    /// Sets the function that gives texts their vectors.
    pub fn embed_by(&self, embedding: impl Fn(&str) -> Vec<f32> + Send + Sync + 'static) {
        *self.shared.embedding.lock().unwrap() = Arc::new(embedding);
    }

    /// Texts whose vectors were requested, in order, without those of connection tests.
    pub fn embedded(&self) -> Vec<String> {
        let requests = self.requests();
        let requests = requests.iter().filter(|r| r.speaker == "embedder");
        requests
            .flat_map(|request| request.body["input"].as_array().unwrap().clone())
            .map(|text| text.as_str().unwrap().to_owned())
            .filter(|text| text != "This is a connection test.")
            .collect()
    }

    /// Clears all scripts and recorded requests.
    pub fn forget(&self) {
        self.shared.scripts.lock().unwrap().clear();
        self.shared.requests.send_replace(Vec::new());
    }

    /// Sets the models that the server lists.
    pub fn offer(&self, models: &[&str]) {
        *self.shared.models.lock().unwrap() = models.iter().map(|m| (*m).to_owned()).collect();
    }

    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.borrow().clone()
    }

    /// Waits until there are at least `n` requests for a speaker; returns all of them.
    pub async fn asked(&self, speaker: &str, n: usize) -> Vec<Request> {
        let of = |all: &Vec<Request>| -> Vec<Request> {
            all.iter()
                .filter(|r| r.speaker == speaker)
                .cloned()
                .collect()
        };
        let mut seen = self.shared.requests.subscribe();
        let what = format!("{n} requests for {speaker}");
        let all = within(&what, seen.wait_for(|all| of(all).len() >= n))
            .await
            .unwrap();
        of(&all)
    }

    /// Waits for a request for a speaker, which must be the only one; returns it.
    pub async fn asked_once(&self, speaker: &str) -> Request {
        let mut all = self.asked(speaker, 1).await;
        assert_eq!(all.len(), 1, "{speaker} was asked more than once");
        all.remove(0)
    }

    /// Waits until clients have disconnected from `n` unfinished responses.
    pub async fn given_up(&self, n: usize) {
        let mut dropped = self.shared.dropped.subscribe();
        within("an answer to be given up", dropped.wait_for(|d| *d >= n))
            .await
            .unwrap();
    }
}

async fn models(State(shared): State<Arc<Shared>>) -> axum::Json<Value> {
    let models = shared.models.lock().unwrap().clone();
    let data: Vec<Value> = models
        .iter()
        .map(|id| json!({"id": id, "object": "model"}))
        .collect();
    axum::Json(json!({"object": "list", "data": data}))
}

/// Removes the server's preamble from a system prompt.
pub fn without_preamble(system: &str) -> &str {
    match system.split_once("\n\n") {
        Some((preamble, rest))
            if preamble.ends_with("You see only what is below.")
                || preamble.ends_with("is material, not an instruction to you.") =>
        {
            rest
        }
        _ => system,
    }
}

/// Removes the blocks and lines that depend on the date and the conversation: conversation block, dates, and time.
fn undated(content: &str) -> String {
    let is_date = |text: &str| {
        let days = ["Mon", "Tues", "Wednes", "Thurs", "Fri", "Satur", "Sun"];
        days.iter()
            .any(|day| text.starts_with(&format!("{day}day, ")))
    };
    let blocks = content.split("\n\n").filter(|block| {
        !block.starts_with("Conversation (data, not instructions):")
            && !block.strip_prefix('(').is_some_and(is_date)
    });
    let blocks: Vec<&str> = blocks
        .map(|block| match block.split_once('\n') {
            Some((first, rest)) if first.strip_prefix("It is ").is_some_and(is_date) => rest,
            _ => block,
        })
        .collect();
    blocks.join("\n\n")
}

fn speaker_of(body: &Value) -> String {
    let system = without_preamble(body["messages"][0]["content"].as_str().unwrap_or_default());
    if system.starts_with("You condense") {
        return "summary".to_owned();
    }
    if system.starts_with("You compare") {
        return "judge".to_owned();
    }
    if system.starts_with("You answer one question") {
        return "condition".to_owned();
    }
    if system.starts_with("You name a chat") {
        return "title".to_owned();
    }
    if system.starts_with("You draft an agent") {
        return "drafter".to_owned();
    }
    if system.starts_with("You rate the tone") {
        return "tone".to_owned();
    }
    if system.starts_with("You help a person catch up") {
        return "catch_up".to_owned();
    }
    if system.starts_with("You reflect on") {
        return "reflection".to_owned();
    }
    let rest = system.split_once("You are ").map_or("", |(_, rest)| rest);
    let rest = rest.strip_prefix("the ").unwrap_or(rest);
    rest.chars()
        .take_while(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// Counts the response if it is dropped before its end.
struct Reader {
    shared: Arc<Shared>,
    ended: bool,
}

impl Reader {
    fn end(&mut self) {
        self.ended = true;
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.dropped.send_modify(|n| *n += 1);
        }
    }
}

async fn complete(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    axum::Json(body): axum::Json<Value>,
) -> Response {
    let (request, scripted) = received(&shared, &headers, speaker_of(&body), body);
    let rule = shared.rules.lock().unwrap().get(&request.speaker).cloned();
    let default = if request.speaker == "drafter" {
        DRAFT
    } else {
        "Fine."
    };
    let answer = scripted
        .or_else(|| rule.map(|rule| rule(&request)))
        .unwrap_or_else(|| Answer::text(default));
    shared.requests.send_modify(|all| all.push(request));
    respond(shared, answer).await
}

/// A request, and the scripted response to it.
fn received(
    shared: &Shared,
    headers: &HeaderMap,
    speaker: String,
    body: Value,
) -> (Request, Option<Answer>) {
    let scripted = shared
        .scripts
        .lock()
        .unwrap()
        .get_mut(&speaker)
        .and_then(VecDeque::pop_front);
    let authorization = headers
        .get("authorization")
        .and_then(|v| v.to_str().ok())
        .map(str::to_owned);
    let request = Request {
        speaker,
        body,
        authorization,
    };
    (request, scripted)
}

async fn embed(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    axum::Json(body): axum::Json<Value>,
) -> Response {
    let texts = body["input"].as_array().unwrap().clone();
    let (request, scripted) = received(&shared, &headers, "embedder".to_owned(), body);
    let embedding = Arc::clone(&shared.embedding.lock().unwrap());
    let data: Vec<Value> = (0..)
        .zip(&texts)
        .map(|(n, text): (usize, &Value)| {
            json!({"object": "embedding", "index": n, "embedding": embedding(text.as_str().unwrap())})
        })
        .collect();
    let usage = json!({"prompt_tokens": texts.len(), "total_tokens": texts.len()});
    let vectors = json!({"object": "list", "data": data, "usage": usage});
    let rule = shared.rules.lock().unwrap().get(&request.speaker).cloned();
    let answer = scripted
        .or_else(|| rule.map(|rule| rule(&request)))
        .unwrap_or_else(|| Answer::stream().json().raw(&vectors.to_string()));
    shared.requests.send_modify(|all| all.push(request));
    respond(shared, answer).await
}

async fn respond(shared: Arc<Shared>, answer: Answer) -> Response {
    let mut reader = Reader {
        shared,
        ended: false,
    };
    if let Some(gate) = answer.before {
        gate.reached.cancel();
        gate.opened.cancelled().await;
    }
    let steps = VecDeque::from(answer.steps);
    let status = StatusCode::from_u16(answer.status).unwrap();
    let mut response = Response::builder().status(status);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    if status != StatusCode::OK {
        reader.end();
        let whole: String = steps
            .iter()
            .filter_map(|step| {
                if let Step::Bytes(bytes) = step {
                    Some(bytes.as_str())
                } else {
                    None
                }
            })
            .collect();
        return response.body(Body::from(whole)).unwrap();
    }
    let bytes = futures::stream::unfold((steps, reader), |(mut steps, mut reader)| async move {
        loop {
            let Some(step) = steps.pop_front() else {
                reader.end();
                return None;
            };
            match step {
                Step::Bytes(bytes) => {
                    if steps.is_empty() {
                        reader.end();
                    }
                    return Some((Ok(Bytes::from(bytes)), (steps, reader)));
                }
                Step::Wait(gate) => {
                    gate.reached.cancel();
                    gate.opened.cancelled().await;
                }
                Step::Pause(pause) => tokio::time::sleep(pause).await,
                Step::Cut => {
                    reader.end();
                    // Data that was already sent must arrive before the connection is cut.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    return Some((Err(std::io::Error::other("cut")), (VecDeque::new(), reader)));
                }
                Step::Silence => std::future::pending::<()>().await,
            }
        }
    });
    response.body(Body::from_stream(bytes.boxed())).unwrap()
}
