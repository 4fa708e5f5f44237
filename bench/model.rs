//! Scripted model server that reports the time of each request.

use std::{
    sync::{
        Arc, LazyLock, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context;
use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::State,
    response::Response,
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinSet,
};

/// Model for summaries; its calls are answered at once and are not reported.
const UTILITY_MODEL: &str = "bench-utility";

static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Microseconds since the start of the process.
pub(crate) fn stamp() -> u128 {
    BEGINNING.elapsed().as_micros()
}

/// Timing and content of responses.
#[derive(Clone)]
pub(crate) struct Plan {
    /// Number of waiting requests that starts the responses.
    pub(crate) together: usize,
    /// Additional delay of each response, compared with the previous one.
    pub(crate) stagger: Duration,
    pub(crate) pieces: usize,
    pub(crate) every: Duration,
    /// Text of each chunk; if `None`, the time when the chunk was sent.
    pub(crate) text: Option<String>,
    /// Name of a function, and the arguments of each call. Sent instead of the text if the request offers the function and contains
    /// no function result.
    pub(crate) calls: Option<(&'static str, Vec<Value>)>,
    /// Responses never end.
    pub(crate) is_endless: bool,
}

impl Plan {
    pub(crate) fn short() -> Self {
        Self {
            together: 1,
            stagger: Duration::ZERO,
            pieces: 1,
            every: Duration::ZERO,
            text: Some("Fine.".to_owned()),
            calls: None,
            is_endless: false,
        }
    }
}

/// Kept requests, which contain `text`.
#[derive(Default)]
struct Kept {
    text: String,
    requests: Vec<Bytes>,
}

struct Shared {
    plan: Mutex<Plan>,
    newest: Mutex<Bytes>,
    /// `None` if no requests are kept.
    kept: Mutex<Option<Kept>>,
    asked: mpsc::Sender<Instant>,
    answered: mpsc::Sender<Instant>,
    fetched: mpsc::Sender<Instant>,
    /// Time when the newest function call was sent.
    called: Mutex<Option<Instant>>,
    waiting: watch::Sender<usize>,
    number: AtomicUsize,
}

pub(crate) struct Model {
    pub(crate) url: String,
    shared: Arc<Shared>,
    asked: mpsc::Receiver<Instant>,
    answered: mpsc::Receiver<Instant>,
    fetched: mpsc::Receiver<Instant>,
    _serving: JoinSet<()>,
}

impl Model {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let (send_asked, asked) = mpsc::channel(4096);
        let (send_answered, answered) = mpsc::channel(4096);
        let (send_fetched, fetched) = mpsc::channel(4096);
        let shared = Arc::new(Shared {
            plan: Mutex::new(Plan::short()),
            newest: Mutex::default(),
            kept: Mutex::default(),
            asked: send_asked,
            answered: send_answered,
            fetched: send_fetched,
            called: Mutex::default(),
            waiting: watch::channel(0).0,
            number: AtomicUsize::new(0),
        });
        let router = Router::new()
            .route(
                "/v1/models",
                get(async || Json(json!({"object": "list", "data": []}))),
            )
            .route("/v1/chat/completions", post(complete))
            .route("/v1/page", get(page))
            .with_state(Arc::clone(&shared));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let listener = axum::serve::ListenerExt::tap_io(listener, |tcp| {
            // Without this option, chunks would be delayed.
            drop(tcp.set_nodelay(true));
        });
        let url = format!(
            "http://{}/v1",
            axum::serve::Listener::local_addr(&listener)?
        );
        let mut serving = JoinSet::new();
        serving.spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self {
            url,
            shared,
            asked,
            answered,
            fetched,
            _serving: serving,
        })
    }

    /// Settings for a server that uses this model server.
    pub(crate) fn settings(&self) -> Vec<(&'static str, &str)> {
        vec![
            ("MODEL_BASE_URL", &self.url),
            ("MODEL_API_KEY", "sk-bench"),
            ("MODEL", "bench"),
            ("UTILITY_MODEL", UTILITY_MODEL),
            ("WORKERS", "128"),
        ]
    }

    /// URL of a web page on this model server.
    pub(crate) fn page(&self) -> String {
        format!("{}/page", self.url)
    }

    pub(crate) fn answer(&self, plan: Plan) {
        *self
            .shared
            .plan
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = plan;
        self.shared.waiting.send_replace(0);
        self.shared.number.store(0, Ordering::SeqCst);
    }

    /// Waits for the next request; returns the time of its arrival.
    pub(crate) async fn asked(&mut self) -> anyhow::Result<Instant> {
        next(&mut self.asked).await
    }

    /// Waits for the end of the next text; returns its time.
    pub(crate) async fn answered(&mut self) -> anyhow::Result<Instant> {
        next(&mut self.answered).await
    }

    /// Discards the times of all requests and texts.
    pub(crate) fn forget(&mut self) {
        while self.asked.try_recv().is_ok() {}
        while self.answered.try_recv().is_ok() {}
    }

    /// Waits for the next request for the page; returns the time of its arrival.
    pub(crate) async fn fetched(&mut self) -> anyhow::Result<Instant> {
        next(&mut self.fetched).await
    }

    /// Returns the time when the newest function call was sent.
    pub(crate) fn called(&self) -> anyhow::Result<Instant> {
        let called = *self
            .shared
            .called
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        called.context("the model has called no function")
    }

    /// Returns the number of requests whose times have not been read.
    pub(crate) fn unused(&self) -> usize {
        self.asked.len()
    }

    /// Keeps the bodies of future requests that contain a text.
    pub(crate) fn keep(&self, text: &str) {
        let kept = Kept {
            text: text.to_owned(),
            requests: Vec::new(),
        };
        *self.kept() = Some(kept);
    }

    /// Removes and returns the bodies that were kept so far, oldest first.
    pub(crate) fn take_kept(&self) -> Vec<Bytes> {
        let mut kept = self.kept();
        let kept = kept.as_mut().map(|kept| &mut kept.requests);
        kept.map(std::mem::take).unwrap_or_default()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Option<Kept>> {
        self.shared
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Body of the newest request.
    pub(crate) fn newest(&self) -> Bytes {
        self.shared
            .newest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

async fn next(requests: &mut mpsc::Receiver<Instant>) -> anyhow::Result<Instant> {
    let next = tokio::time::timeout(Duration::from_secs(20), requests.recv()).await;
    next.context("nothing reached the model server in time")?
        .context("the model server ended")
}

fn contains(request: &[u8], text: &str) -> bool {
    std::str::from_utf8(request).is_ok_and(|request| request.contains(text))
}

fn event(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// Checks whether a request offers a function and contains no function result.
fn can_call(request: &[u8], name: &str) -> bool {
    let request: Value = serde_json::from_slice(request).unwrap_or_default();
    let mut tools = request["tools"].as_array().into_iter().flatten();
    let mut messages = request["messages"].as_array().into_iter().flatten();
    tools.any(|tool| tool["function"]["name"] == name)
        && !messages.any(|message| message["role"] == "tool")
}

/// Delta with calls of a function.
fn delta_of((name, calls): &(&str, Vec<Value>)) -> Value {
    let call = |(n, arguments): (usize, &Value)| {
        json!({"index": n, "id": format!("call_{n}"), "type": "function",
            "function": {"name": name, "arguments": arguments.to_string()}})
    };
    let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
    json!({"tool_calls": calls})
}

/// Response to a call that is not for a reply, such as one for a summary.
fn summary() -> Response {
    let choice = json!({"index": 0, "delta": {"content": "Nothing."}, "finish_reason": "stop"});
    let text = format!("{}data: [DONE]\n\n", event(&json!({"choices": [choice]})));
    event_stream(Body::from(text))
}

fn event_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(
        "content-type",
        axum::http::HeaderValue::from_static("text/event-stream"),
    );
    response
}

async fn page(State(shared): State<Arc<Shared>>) -> &'static str {
    // The channel is full only if nothing reads the times.
    let _unheard = shared.fetched.try_send(Instant::now());
    "Fine."
}

async fn complete(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let asked = Instant::now();
    if contains(&body, UTILITY_MODEL) {
        return summary();
    }
    *shared.newest.lock().unwrap_or_else(PoisonError::into_inner) = body.clone();
    if let Some(kept) = &mut *shared.kept.lock().unwrap_or_else(PoisonError::into_inner)
        && contains(&body, &kept.text)
    {
        kept.requests.push(body.clone());
    }
    // The channel is full only if nothing reads the times.
    let _unheard = shared.asked.try_send(asked);
    let mut plan = shared
        .plan
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    plan.calls = plan.calls.filter(|(name, _)| can_call(&body, name));
    let number = shared.number.fetch_add(1, Ordering::SeqCst);
    let mut waiting = shared.waiting.subscribe();
    shared.waiting.send_modify(|n| *n += 1);
    let (together, stagger) = (plan.together, plan.stagger);
    let begin = async move {
        // Fails only if the model server ends.
        drop(waiting.wait_for(|n| *n >= together).await);
        tokio::time::sleep(stagger * u32::try_from(number).unwrap_or_default()).await;
    };
    let answer = futures::stream::unfold((0, Some(begin)), move |(n, begin)| {
        let (plan, shared) = (plan.clone(), Arc::clone(&shared));
        async move {
            if n > plan.pieces {
                return None;
            }
            if let Some(begin) = begin {
                begin.await;
            } else {
                tokio::time::sleep(plan.every).await;
            }
            let is_end = n == plan.pieces;
            if is_end && plan.is_endless && plan.calls.is_none() {
                std::future::pending::<()>().await;
            }
            let bytes = if is_end {
                let mut reason = "stop";
                if plan.calls.is_some() {
                    reason = "tool_calls";
                    *shared.called.lock().unwrap_or_else(PoisonError::into_inner) =
                        Some(Instant::now());
                } else {
                    // The channel is full only if nothing reads the times.
                    let _unheard = shared.answered.try_send(Instant::now());
                }
                let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
                let usage =
                    json!({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}});
                format!("{}{}data: [DONE]\n\n", event(&end), event(&usage))
            } else {
                let delta = match &plan.calls {
                    Some(calls) => delta_of(calls),
                    None => {
                        json!({"content": plan.text.unwrap_or_else(|| format!("{} ", stamp()))})
                    }
                };
                event(&json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}))
            };
            Some((Ok::<_, std::io::Error>(Bytes::from(bytes)), (n + 1, None)))
        }
    });
    event_stream(Body::from_stream(answer))
}
