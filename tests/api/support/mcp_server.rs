//! A tool server with scripted functions and answers, with the current or an earlier protocol revision.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::any,
};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

/// Protocol revision of the server, and its response to `server/discover`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revision {
    /// Revision 2026-07-28.
    Current,
    /// Revision 2025-11-25: a JSON-RPC error.
    Earlier,
    /// Revision 2025-11-25: this status, without a JSON-RPC error.
    EarlierWithStatus(u16),
    /// Revision 2025-11-25: status 400 and a JSON-RPC error with another ID, as some frameworks send.
    EarlierWithOtherId,
    /// Revision 2025-11-25: a JSON-RPC error in an event stream.
    EarlierWithEvents,
    /// Revision 2025-11-25: an empty result, as for every unknown method.
    EarlierWithResult,
    /// This revision, in response to `initialize`: a JSON-RPC error.
    Named(&'static str),
}

/// Answer to a call.
#[derive(Debug, Clone)]
pub enum ToolAnswer {
    /// The `result` field of the response.
    Result(Value),
    /// The same in an event stream, after a notification.
    Events(Value),
    /// A request for input in an event stream, followed by the result.
    Asks(Value),
    /// This many requests or notifications with this method in an event stream, followed by the result.
    Messages(usize, &'static str, Value),
    Error(i64, String),
    Status(u16, String),
    Redirect(String),
    /// A text of this many bytes in a body of this content type.
    Flood(usize, &'static str),
    /// These bytes as an event stream.
    RawEvents(String),
    /// No response, but the connection stays open.
    Silence,
    /// The server cuts the connection.
    Cut,
}

impl ToolAnswer {
    pub fn text(text: &str) -> Self {
        Self::Result(json!({"content": [{"type": "text", "text": text}]}))
    }
}

/// A request that the tool server received.
#[derive(Debug, Clone)]
pub struct Received {
    pub method: String,
    pub params: Value,
    pub headers: HeaderMap,
}

struct Shared {
    revision: Revision,
    tools: Mutex<Vec<Value>>,
    answers: Mutex<VecDeque<ToolAnswer>>,
    received: Mutex<Vec<Received>>,
    /// Value of `Authorization` that requests must have.
    authorization: Mutex<Option<String>>,
    /// Title in the server's description of itself.
    title: Mutex<Option<String>>,
    /// Status of the response to all requests, sent instead of an answer.
    status: Mutex<Option<u16>>,
    /// `true` if requests are answered with 401 and a description of how to sign in.
    describes_oauth: AtomicBool,
    /// `true` if no request is answered.
    is_silent: AtomicBool,
}

pub struct McpServer {
    /// URL of the endpoint.
    pub url: String,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

/// A function without arguments.
pub fn function(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object"}})
}

fn json_response(value: &Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}

fn events(messages: &[Value]) -> Response {
    let events = messages
        .iter()
        .map(|message| format!("event: message\ndata: {message}\n\n"));
    let body: Vec<String> = events.collect();
    ([("content-type", "text/event-stream")], body.concat()).into_response()
}

fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn result(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

async fn respond(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    shared.received.lock().unwrap().push(Received {
        method: method.clone(),
        params: message["params"].clone(),
        headers: headers.clone(),
    });
    if shared.is_silent.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
    if let Some(status) = *shared.status.lock().unwrap() {
        return StatusCode::from_u16(status).unwrap().into_response();
    }
    if shared.describes_oauth.load(Ordering::Relaxed) {
        let challenge = r#"Bearer resource_metadata="https://jira.example/.well-known/oauth-protected-resource""#;
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", challenge)]).into_response();
    }
    let required = shared.authorization.lock().unwrap().clone();
    let given = headers.get("authorization").and_then(|v| v.to_str().ok());
    if required.is_some() && required.as_deref() != given {
        let key = given.unwrap_or_default().trim_start_matches("Bearer ");
        let text = format!("The key {key} is unknown");
        return (StatusCode::UNAUTHORIZED, text).into_response();
    }
    let about = json!({"name": "scripted", "version": "1", "title": *shared.title.lock().unwrap()});
    let id = &message["id"];
    if id.is_null() {
        return StatusCode::ACCEPTED.into_response();
    }
    match method.as_str() {
        "server/discover" => match shared.revision {
            Revision::Current => json_response(&result(
                id,
                &json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                    "ttlMs": 0, "cacheScope": "private", "_meta": {"io.modelcontextprotocol/serverInfo": about}}),
            )),
            Revision::Earlier | Revision::Named(_) => {
                json_response(&error(id, -32601, "Method not found"))
            }
            Revision::EarlierWithStatus(status) => {
                (StatusCode::from_u16(status).unwrap(), "No").into_response()
            }
            Revision::EarlierWithOtherId => {
                let error = error(&json!("server-error"), -32600, "Bad Request");
                (StatusCode::BAD_REQUEST, json_response(&error)).into_response()
            }
            Revision::EarlierWithEvents => events(&[error(id, -32601, "Method not found")]),
            Revision::EarlierWithResult => json_response(&result(id, &json!({}))),
        },
        "initialize" => {
            let revision = match shared.revision {
                Revision::Named(revision) => revision,
                _ => "2025-11-25",
            };
            let mut response = json_response(&result(
                id,
                &json!({"protocolVersion": revision, "capabilities": {"tools": {}},
                    "serverInfo": about}),
            ));
            let session = "session-1".parse().unwrap();
            response.headers_mut().insert("mcp-session-id", session);
            response
        }
        "tools/list" => {
            let tools = shared.tools.lock().unwrap().clone();
            let mut listed = json!({"tools": tools});
            if shared.revision == Revision::Current {
                // Offers a long lifetime, which a client must not rely on.
                listed["resultType"] = json!("complete");
                listed["ttlMs"] = json!(86_400_000);
                listed["cacheScope"] = json!("private");
            }
            json_response(&result(id, &listed))
        }
        "tools/call" => {
            let next = shared.answers.lock().unwrap().pop_front();
            answer(id, next.unwrap_or_else(|| ToolAnswer::text("Done.")))
        }
        _ => json_response(&error(id, -32601, "Method not found")),
    }
}

fn answer(id: &Value, answer: ToolAnswer) -> Response {
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "Working"}});
    match answer {
        ToolAnswer::Result(value) => json_response(&result(id, &value)),
        ToolAnswer::Events(value) => events(&[notification, result(id, &value)]),
        ToolAnswer::Asks(value) => {
            let params = json!({"message": "Your password?", "requestedSchema": {"type": "object", "properties": {}}});
            let asked = json!({"jsonrpc": "2.0", "id": "asked-1", "method": "elicitation/create", "params": params});
            events(&[asked, result(id, &value)])
        }
        ToolAnswer::Messages(count, method, value) => {
            let message = |n| match method {
                "ping" => json!({"jsonrpc": "2.0", "method": method, "id": format!("ping-{n}")}),
                _ => json!({"jsonrpc": "2.0", "method": method}),
            };
            let mut messages: Vec<Value> = (0..count).map(message).collect();
            messages.push(result(id, &value));
            events(&messages)
        }
        ToolAnswer::Error(code, message) => json_response(&error(id, code, &message)),
        ToolAnswer::Status(status, body) => {
            (StatusCode::from_u16(status).unwrap(), body).into_response()
        }
        ToolAnswer::Redirect(to) => {
            (StatusCode::TEMPORARY_REDIRECT, [("location", to)]).into_response()
        }
        ToolAnswer::Flood(bytes, content_type) => {
            let value = json!({"content": [{"type": "text", "text": "x".repeat(bytes)}]});
            let text = result(id, &value).to_string();
            let body = if content_type == "text/event-stream" {
                format!("data: {text}\n\n")
            } else {
                text
            };
            ([("content-type", content_type)], body).into_response()
        }
        ToolAnswer::RawEvents(bytes) => {
            ([("content-type", "text/event-stream")], bytes).into_response()
        }
        ToolAnswer::Silence => {
            let nothing = futures::stream::pending::<Result<Bytes, std::io::Error>>();
            let headers = [("content-type", "application/json")];
            (headers, Body::from_stream(nothing)).into_response()
        }
        ToolAnswer::Cut => {
            let pieces = [
                Ok(Bytes::from_static(b"{")),
                Err(std::io::Error::other("cut")),
            ];
            let cut = futures::stream::iter(pieces).boxed();
            (
                [("content-type", "application/json")],
                Body::from_stream(cut),
            )
                .into_response()
        }
    }
}

impl McpServer {
    pub async fn start() -> Self {
        Self::at(Revision::Current).await
    }

    pub async fn at(revision: Revision) -> Self {
        let shared = Arc::new(Shared {
            revision,
            tools: Mutex::default(),
            answers: Mutex::default(),
            received: Mutex::default(),
            authorization: Mutex::default(),
            title: Mutex::default(),
            status: Mutex::default(),
            describes_oauth: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
        });
        let router = Router::new()
            .route("/mcp", any(respond))
            .route("/mcp/", any(respond))
            .with_state(Arc::clone(&shared));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url,
            shared,
            _serving: serving,
        }
    }

    /// Replaces the functions that the server lists.
    pub fn list(&self, tools: impl IntoIterator<Item = Value>) {
        *self.shared.tools.lock().unwrap() = tools.into_iter().collect();
    }

    /// Scripts the answer to the next call that does not have one yet.
    pub fn answer(&self, answer: ToolAnswer) {
        self.shared.answers.lock().unwrap().push_back(answer);
    }

    /// From now on, rejects requests with another `Authorization`.
    pub fn require(&self, authorization: &str) {
        *self.shared.authorization.lock().unwrap() = Some(authorization.to_owned());
    }

    /// Sets the title in the server's description of itself.
    pub fn name_itself(&self, title: &str) {
        *self.shared.title.lock().unwrap() = Some(title.to_owned());
    }

    /// Responds to all requests with this status until it is set to `None`.
    pub fn fail(&self, status: Option<u16>) {
        *self.shared.status.lock().unwrap() = status;
    }

    /// From now on, rejects all requests as a server does that signs people in with OAuth.
    pub fn describe_oauth(&self) {
        self.shared.describes_oauth.store(true, Ordering::Relaxed);
    }

    /// From now on, leaves all requests unanswered.
    pub fn silence(&self) {
        self.shared.is_silent.store(true, Ordering::Relaxed);
    }

    /// All requests for tools so far, without those that start and end a connection.
    pub fn received(&self) -> Vec<Received> {
        let received = self.shared.received.lock().unwrap();
        let is_of_tools = |one: &&Received| one.method.starts_with("tools/");
        received.iter().filter(is_of_tools).cloned().collect()
    }

    /// Methods of all requests so far.
    pub fn methods(&self) -> Vec<String> {
        let received = self.shared.received.lock().unwrap();
        received.iter().map(|one| one.method.clone()).collect()
    }

    /// Number of calls so far.
    pub fn calls(&self) -> usize {
        let methods = self.methods();
        methods
            .iter()
            .filter(|method| *method == "tools/call")
            .count()
    }
}
