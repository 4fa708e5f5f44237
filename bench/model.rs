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

static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Microseconds since the start of the process.
pub(crate) fn stamp() -> u128 {
    BEGINNING.elapsed().as_micros()
}

/// Timing and content of responses.
#[derive(Clone)]
pub(crate) struct Plan {
    /// Number of waiting requests at which responses start.
    pub(crate) together: usize,
    /// Delay of each response after the previous one.
    pub(crate) stagger: Duration,
    pub(crate) pieces: usize,
    pub(crate) every: Duration,
    /// Text of each chunk; by default, the time when it was sent.
    pub(crate) text: Option<String>,
}

impl Plan {
    pub(crate) fn short() -> Self {
        Self {
            together: 1,
            stagger: Duration::ZERO,
            pieces: 1,
            every: Duration::ZERO,
            text: Some("Fine.".to_owned()),
        }
    }
}

struct Shared {
    plan: Mutex<Plan>,
    newest: Mutex<Bytes>,
    asked: mpsc::Sender<Instant>,
    waiting: watch::Sender<usize>,
    number: AtomicUsize,
}

pub(crate) struct Model {
    pub(crate) url: String,
    shared: Arc<Shared>,
    asked: mpsc::Receiver<Instant>,
    _serving: JoinSet<()>,
}

impl Model {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let (send, asked) = mpsc::channel(4096);
        let shared = Arc::new(Shared {
            plan: Mutex::new(Plan::short()),
            newest: Mutex::default(),
            asked: send,
            waiting: watch::channel(0).0,
            number: AtomicUsize::new(0),
        });
        let router = Router::new()
            .route(
                "/v1/models",
                get(async || Json(json!({"object": "list", "data": []}))),
            )
            .route("/v1/chat/completions", post(complete))
            .with_state(Arc::clone(&shared));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let listener = axum::serve::ListenerExt::tap_io(listener, |tcp| {
            // Otherwise chunks would be delayed.
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
            _serving: serving,
        })
    }

    /// Settings for a server that uses this model server.
    pub(crate) fn settings(&self) -> Vec<(&'static str, &str)> {
        vec![
            ("MODEL_BASE_URL", &self.url),
            ("MODEL_API_KEY", "sk-bench"),
            ("MODEL", "bench"),
            ("WORKERS", "128"),
        ]
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

    /// Time of the next request.
    pub(crate) async fn asked(&mut self) -> anyhow::Result<Instant> {
        let asked = tokio::time::timeout(Duration::from_secs(20), self.asked.recv()).await;
        asked
            .context("the model received no request in time")?
            .context("the model server ended")
    }

    /// Number of requests whose time was not used.
    pub(crate) fn unused(&self) -> usize {
        self.asked.len()
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

fn event(value: &Value) -> String {
    format!("data: {value}\n\n")
}

async fn complete(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let asked = Instant::now();
    *shared.newest.lock().unwrap_or_else(PoisonError::into_inner) = body;
    // The channel is full only if nothing reads the times.
    let _unheard = shared.asked.try_send(asked);
    let plan = shared
        .plan
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let number = shared.number.fetch_add(1, Ordering::SeqCst);
    let mut waiting = shared.waiting.subscribe();
    shared.waiting.send_modify(|n| *n += 1);
    let (together, stagger) = (plan.together, plan.stagger);
    let begin = async move {
        // Fails only if the server ends.
        drop(waiting.wait_for(|n| *n >= together).await);
        tokio::time::sleep(stagger * u32::try_from(number).unwrap_or_default()).await;
    };
    let answer = futures::stream::unfold((0, Some(begin)), move |(n, begin)| {
        let plan = plan.clone();
        async move {
            if n > plan.pieces {
                return None;
            }
            if let Some(begin) = begin {
                begin.await;
            } else {
                tokio::time::sleep(plan.every).await;
            }
            let bytes = if n == plan.pieces {
                let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
                let usage =
                    json!({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}});
                format!("{}{}data: [DONE]\n\n", event(&end), event(&usage))
            } else {
                let text = plan.text.unwrap_or_else(|| format!("{} ", stamp()));
                event(
                    &json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]}),
                )
            };
            Some((Ok::<_, std::io::Error>(Bytes::from(bytes)), (n + 1, None)))
        }
    });
    let mut response = Response::new(Body::from_stream(answer));
    response.headers_mut().insert(
        "content-type",
        axum::http::HeaderValue::from_static("text/event-stream"),
    );
    response
}
