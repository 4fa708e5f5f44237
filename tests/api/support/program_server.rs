//! A program of a bot: receives events, and answers as scripted.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::Value;
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

use super::within;

/// Answer of a program to an event.
#[derive(Debug, Clone)]
pub enum ProgramAnswer {
    Status(u16),
    /// 200 with this text.
    Text(&'static str),
    RetryAfter(u16, u64),
    /// It repeats the challenge of a verification.
    Challenge,
    /// It never answers.
    Stall,
}

/// An event that a program received.
#[derive(Debug, Clone)]
pub struct ReceivedEvent {
    /// Name of the program in its address.
    pub program: String,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl ReceivedEvent {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Default)]
struct Shared {
    answers: Mutex<HashMap<String, VecDeque<ProgramAnswer>>>,
    received: watch::Sender<Vec<ReceivedEvent>>,
}

pub struct ProgramServer {
    pub base: String,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

async fn receive(
    State(shared): State<Arc<Shared>>,
    Path(program): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let answer = {
        let mut answers = shared.answers.lock().unwrap();
        answers.get_mut(&program).and_then(VecDeque::pop_front)
    };
    let text = |value: &axum::http::HeaderValue| value.to_str().unwrap().to_owned();
    let headers = headers
        .iter()
        .map(|(name, value)| (name.to_string(), text(value)));
    let event = ReceivedEvent {
        program,
        headers: headers.collect(),
        body: body.to_vec(),
    };
    // Commands for Slack are forms.
    let body: Value = serde_json::from_slice(&event.body).unwrap_or_default();
    let challenge = body["challenge"].as_str().unwrap_or_default().to_owned();
    shared.received.send_modify(|received| received.push(event));
    match answer {
        None => StatusCode::OK.into_response(),
        Some(ProgramAnswer::Stall) => std::future::pending().await,
        Some(ProgramAnswer::Text(text)) => text.into_response(),
        Some(ProgramAnswer::Challenge) => challenge.into_response(),
        Some(ProgramAnswer::Status(status)) => {
            StatusCode::from_u16(status).unwrap().into_response()
        }
        Some(ProgramAnswer::RetryAfter(status, seconds)) => (
            StatusCode::from_u16(status).unwrap(),
            [("retry-after", seconds.to_string())],
        )
            .into_response(),
    }
}

impl ProgramServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::default());
        let routes = Router::new()
            .route("/{program}", post(receive))
            .with_state(Arc::clone(&shared));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self {
            base,
            shared,
            _serving: serving,
        }
    }

    /// Host and port, for `OPENVIBE_HOOK_ALLOW`.
    pub fn host(&self) -> &str {
        self.base.strip_prefix("http://").unwrap()
    }

    /// Address of a program.
    pub fn url(&self, program: &str) -> String {
        format!("{}/{program}", self.base)
    }

    /// Answers the next events for a program with these, and later ones with 200.
    pub fn answer(&self, program: &str, answers: impl IntoIterator<Item = ProgramAnswer>) {
        let mut all = self.shared.answers.lock().unwrap();
        all.entry(program.to_owned()).or_default().extend(answers);
    }

    /// Events that a program received, oldest first.
    pub fn received(&self, program: &str) -> Vec<ReceivedEvent> {
        let all = self.shared.received.borrow();
        let own = all.iter().filter(|event| event.program == program);
        own.cloned().collect()
    }

    /// Waits until a program has received this number of events, and returns all of them.
    pub async fn events(&self, program: &str, n: usize) -> Vec<ReceivedEvent> {
        let mut received = self.shared.received.subscribe();
        let is_there = |all: &Vec<ReceivedEvent>| {
            let own = all.iter().filter(|event| event.program == program);
            own.count() >= n
        };
        let what = format!("{n} events for {program}");
        drop(within(&what, received.wait_for(is_there)).await.unwrap());
        self.received(program)
    }
}
