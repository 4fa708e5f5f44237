//! `GET /v1/ws`: one task a socket, a cursor into the log.
//!
//! ```text
//! hello ─► register with the hub ─► private channels ─► read the log up to now ─► live
//! ```
//!
//! Events that arrive while the log is being read wait in the socket's queue; those that the log had already are
//! skipped by their number.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    extract::ws::{CloseFrame, Message as Frame, Utf8Bytes, WebSocket, WebSocketUpgrade},
    http::HeaderMap,
    response::Response,
};
use futures::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, Interval, timeout},
};

use tokio_util::sync::CancellationToken;

use super::{
    hub::{Close, Outgoing, Socket, Spot},
    log,
};
use crate::{
    auth::{Actor, Caller, Credential},
    chat::{
        ChatError, access,
        messages::Text,
        post::{self, NewThread, PostedMessage, PostedThread},
        reads,
    },
    db::DbError,
    http::{
        ApiError, State,
        extract::{caller_of, parse_json, token_of, workspace_of},
    },
    ids::{ChannelId, MessageId, ThreadId, WorkspaceId},
};

const HELLO_WITHIN: Duration = Duration::from_secs(10);
pub const HEARTBEAT: Duration = Duration::from_secs(20);
/// Silence is looked for twice a heartbeat, since 2.5 of them are allowed.
const TICK: Duration = Duration::from_secs(10);
const TICKS_PER_HEARTBEAT: u32 = 2;
/// A client silent for so long is gone: 2.5 heartbeats.
const SILENCE_MAX: Duration = Duration::from_secs(50);
/// A frame from a client, in bytes.
const FRAME_BYTES_MAX: usize = 64 * 1024;
/// How long a close frame is waited for. A slow reader gets to see why it was closed when it reads on; nothing but
/// the connection itself is held for it.
const CLOSE_WITHIN: Duration = Duration::from_mins(1);
/// The same while the server stops.
const CLOSE_AT_SHUTDOWN_WITHIN: Duration = Duration::from_secs(1);
/// A write that a reader does not take in this time.
const WRITE_WITHIN: Duration = Duration::from_secs(30);
const MALFORMED_MAX: u32 = 5;
const FRAMES_AT_ONCE: usize = 64;
/// The library's own buffer; its default of 128 KiB is really touched for each socket (notes/performance.md).
const BUFFER_BYTES: usize = 4 * 1024;

const POLICY_VIOLATION: u16 = 1008;
const GOING_AWAY: u16 = 1001;
const NOT_AUTHENTICATED: u16 = 4001;
const NOT_IN_WORKSPACE: u16 = 4003;
const NO_HELLO: u16 = 4009;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    r#type: String,
    protocol: u32,
    workspace_id: Option<WorkspaceId>,
    epoch: Option<String>,
    since: Option<i64>,
}

#[derive(Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
enum Request {
    #[serde(rename = "message.send")]
    Send {
        #[serde(default)]
        channel_id: Option<ChannelId>,
        #[serde(default)]
        thread_id: Option<ThreadId>,
        content: String,
        #[serde(default)]
        parent_id: Option<MessageId>,
        client_id: String,
    },
    #[serde(rename = "subscribe")]
    Subscribe { thread_id: ThreadId },
    #[serde(rename = "unsubscribe")]
    Unsubscribe { thread_id: ThreadId },
    #[serde(rename = "read")]
    Read { thread_id: ThreadId, seq: i64 },
    #[serde(rename = "ping")]
    Ping {},
    #[serde(rename = "typing")]
    Typing { thread_id: ThreadId },
}

/// Opens the socket; who it is for is known from cookie or key.
pub fn upgrade(ws: WebSocketUpgrade, state: State, headers: HeaderMap, caller: Caller) -> Response {
    ws.read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
        .max_write_buffer_size(4 * 1024 * 1024)
        .max_message_size(FRAME_BYTES_MAX)
        .max_frame_size(FRAME_BYTES_MAX)
        .on_upgrade(move |socket| {
            let tracker = state.tracker.clone();
            // Tracked, so that shutdown waits for the close frame.
            tracker.track_future(serve(socket, state, headers, caller))
        })
}

/// Opens the socket only to close it with 4001.
pub fn refuse(ws: WebSocketUpgrade, state: State) -> Response {
    ws.on_upgrade(async move |mut socket| {
        close(&mut socket, NOT_AUTHENTICATED, &state.shutdown).await;
    })
}

// What is done once or seldom is boxed here, so that a socket that only listens does not hold the memory for it.
async fn serve(mut ws: WebSocket, state: State, headers: HeaderMap, caller: Caller) {
    let greeted = Box::pin(greet(&mut ws, &state, &headers, &caller)).await;
    let token = token_of(&headers);
    // They hold on to all that was read of the request.
    drop(headers);
    let code = match greeted {
        Ok((hello, actor)) => {
            let credential = match &caller.credential {
                Credential::Session(id) => (Some(*id), None),
                Credential::Key { id, .. } => (None, Some(*id)),
            };
            match state
                .hub
                .register(actor.workspace, caller.user, credential.0, credential.1)
            {
                Some((socket, queue)) => {
                    if state.shutdown.is_cancelled() {
                        socket.close(Close::GoingAway);
                    }
                    let mut connection = Connection {
                        ws,
                        state: state.clone(),
                        token,
                        caller,
                        actor,
                        socket,
                        queue,
                        tick: tokio::time::interval_at(Instant::now() + TICK, TICK),
                        network_first: false,
                        cursor: 0,
                        malformed: 0,
                    };
                    let code = connection.run(hello).await;
                    state
                        .hub
                        .remove(connection.actor.workspace, &connection.socket);
                    // What still waits for the peer is given up before it is told so.
                    let Connection { mut ws, .. } = connection;
                    close(&mut ws, code, &state.shutdown).await;
                    return;
                }
                None => POLICY_VIOLATION,
            }
        }
        Err(code) => code,
    };
    close(&mut ws, code, &state.shutdown).await;
}

async fn close(ws: &mut WebSocket, code: u16, shutdown: &CancellationToken) {
    if code == 0 {
        return;
    }
    let frame = CloseFrame {
        code,
        reason: Utf8Bytes::from_static(""),
    };
    let ending = async {
        shutdown.cancelled().await;
        tokio::time::sleep(CLOSE_AT_SHUTDOWN_WITHIN).await;
    };
    // A peer that does not take even this is simply dropped.
    tokio::select! {
        _ = timeout(CLOSE_WITHIN, ws.send(Frame::Close(Some(frame)))) => {}
        () = ending => {}
    }
}

/// Waits for the hello and checks the workspace; the close code when that fails.
async fn greet(
    ws: &mut WebSocket,
    state: &State,
    headers: &HeaderMap,
    caller: &Caller,
) -> Result<(Hello, Actor), u16> {
    let deadline = Instant::now() + HELLO_WITHIN;
    let mut malformed = 0;
    loop {
        let frame = tokio::select! {
            frame = tokio::time::timeout_at(deadline, ws.recv()) => frame.map_err(|_| NO_HELLO)?,
            () = state.shutdown.cancelled() => return Err(GOING_AWAY),
        };
        let text = match frame {
            Some(Ok(Frame::Text(text))) => text,
            Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => continue,
            Some(Ok(Frame::Close(_))) | None => return Err(0),
            Some(Ok(Frame::Binary(_))) => Utf8Bytes::from_static(""),
            Some(Err(e)) => return Err(broken(&e)),
        };
        let hello = parse_json::<Hello>(text.as_bytes()).and_then(|hello| {
            match (hello.r#type.as_str(), hello.protocol) {
                ("hello", 1) if hello.since.is_some_and(|since| since < 0) => {
                    Err(ApiError::invalid(
                        "invalid_cursor",
                        "since is the seq of an event".to_owned(),
                        "since",
                    ))
                }
                ("hello", 1) => Ok(hello),
                ("hello", _) => Err(ApiError::invalid(
                    "unknown_protocol",
                    "this server speaks protocol 1".to_owned(),
                    "protocol",
                )),
                _ => Err(ApiError::invalid(
                    "hello_expected",
                    "the first frame is a hello".to_owned(),
                    "type",
                )),
            }
        });
        let hello = match hello {
            Ok(hello) => hello,
            Err(e) => {
                malformed += 1;
                refuse_frame(ws, &e, malformed).await?;
                continue;
            }
        };
        let workspace = match hello.workspace_id {
            Some(id) => Ok(id),
            None => workspace_of(state, headers, caller).await,
        };
        let workspace = match workspace {
            Ok(id) => id,
            Err(e) if e.is_bad_request() => {
                malformed += 1;
                refuse_frame(ws, &e, malformed).await?;
                continue;
            }
            Err(_) => return Err(NOT_IN_WORKSPACE),
        };
        let mut c = state.db.read().await.map_err(|_| GOING_AWAY)?;
        let actor = caller
            .enter(&mut c, workspace)
            .await
            .map_err(|_| NOT_IN_WORKSPACE)?;
        actor
            .require(crate::auth::Scope::ChatRead)
            .map_err(|_| NOT_IN_WORKSPACE)?;
        return Ok((hello, actor));
    }
}

/// Says what is wrong with a frame before the hello; the close code after too many.
async fn refuse_frame(ws: &mut WebSocket, error: &ApiError, malformed: u32) -> Result<(), u16> {
    let frame = json!({"type": "error", "id": null, "error": error.body()}).to_string();
    let sent = ws.send(Frame::Text(frame.into())).await;
    if malformed >= MALFORMED_MAX || sent.is_err() {
        return Err(POLICY_VIOLATION);
    }
    Ok(())
}

/// The close code for a frame that could not be read.
fn broken(error: &axum::Error) -> u16 {
    let text = error.to_string();
    if text.contains("too long") || text.contains("too big") || text.contains("exceed") {
        1009
    } else {
        0
    }
}

/// What a connection reacts to.
enum Event {
    /// With the close code.
    Closed(u16),
    /// The batch holds frames to write.
    Queued,
    /// `None`: the peer left.
    Received(Option<Result<Frame, axum::Error>>),
    Tick,
}

struct Connection {
    ws: WebSocket,
    state: State,
    token: Option<String>,
    caller: Caller,
    actor: Actor,
    socket: Arc<Socket>,
    queue: mpsc::Receiver<Outgoing>,
    tick: Interval,
    /// Whose turn it is when both queue and network have something.
    network_first: bool,
    /// The highest number that was sent; queued events up to it are skipped.
    cursor: i64,
    malformed: u32,
}

impl Connection {
    /// Serves until something ends it; the close code, or 0 when the peer is gone.
    async fn run(&mut self, hello: Hello) -> u16 {
        if let Err(code) = Box::pin(self.catch_up(&hello)).await {
            return code;
        }
        let mut heard = Instant::now();
        let mut ticks = 0_u32;
        let mut batch = Vec::with_capacity(1);
        loop {
            let event = poll_fn(|cx| self.poll_event(cx, &mut batch)).await;
            let done = match event {
                Event::Closed(code) => Err(code),
                Event::Queued => self.write(&mut batch).await,
                Event::Tick if heard.elapsed() + TICK / 10 > SILENCE_MAX => Err(GOING_AWAY),
                Event::Tick => {
                    ticks += 1;
                    if ticks.is_multiple_of(TICKS_PER_HEARTBEAT) {
                        Box::pin(self.beat()).await
                    } else {
                        Ok(())
                    }
                }
                Event::Received(frame) => {
                    heard = Instant::now();
                    match frame {
                        Some(Ok(Frame::Text(text))) => Box::pin(self.on_text(&text)).await,
                        Some(Ok(Frame::Binary(_))) => {
                            let refusal = ApiError::invalid(
                                "text_expected",
                                "frames are JSON text".to_owned(),
                                "",
                            );
                            Box::pin(self.on_malformed(&refusal)).await
                        }
                        Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => Ok(()),
                        Some(Ok(Frame::Close(_))) | None => Err(0),
                        Some(Err(e)) => Err(broken(&e)),
                    }
                }
            };
            if let Err(code) = done {
                return code;
            }
        }
    }

    /// What to react to next. After a wake-up the queue is looked into before the network, because that is what most wake-ups
    /// are for and asking the network costs more; then it is the other's turn.
    fn poll_event(&mut self, cx: &mut Context<'_>, batch: &mut Vec<Outgoing>) -> Poll<Event> {
        if self.socket.is_closed() {
            return self.socket.poll_closed(cx).map(Event::Closed);
        }
        if self.network_first
            && let Poll::Ready(event) = self.poll_others(cx)
        {
            return Poll::Ready(event);
        }
        if let Poll::Ready(n) = self.queue.poll_recv_many(cx, batch, FRAMES_AT_ONCE) {
            self.network_first = true;
            return Poll::Ready(if n == 0 {
                Event::Closed(GOING_AWAY)
            } else {
                Event::Queued
            });
        }
        if !self.network_first
            && let Poll::Ready(event) = self.poll_others(cx)
        {
            return Poll::Ready(event);
        }
        self.network_first = false;
        self.socket.poll_closed(cx).map(Event::Closed)
    }

    fn poll_others(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if self.tick.poll_tick(cx).is_ready() {
            return Poll::Ready(Event::Tick);
        }
        self.ws.poll_next_unpin(cx).map(|frame| {
            self.network_first = false;
            Event::Received(frame)
        })
    }

    async fn beat(&mut self) -> Result<(), u16> {
        if !self.is_still_allowed().await {
            return Err(NOT_AUTHENTICATED);
        }
        self.state
            .hub
            .heartbeat(self.actor.workspace, &self.socket, self.cursor);
        Ok(())
    }

    /// Whether session or key still stand: they may have run out, or been ended on another node.
    async fn is_still_allowed(&mut self) -> bool {
        !matches!(
            caller_of(&self.state, self.token.clone()).await,
            Err(crate::auth::AuthError::NotAuthenticated)
        )
    }

    /// Sends `ready`, what was missed, and `live`.
    async fn catch_up(&mut self, hello: &Hello) -> Result<(), u16> {
        self.try_catch_up(hello).await.map_err(|e| match e {
            CatchUp::Gone(code) => code,
            CatchUp::Db(e) => {
                tracing::error!(error = %e, "a socket could not catch up");
                GOING_AWAY
            }
        })
    }

    async fn try_catch_up(&mut self, hello: &Hello) -> Result<(), CatchUp> {
        let (workspace, user) = (self.actor.workspace, self.actor.user);
        let mut c = self.state.db.read().await?;
        let channels: Vec<(ChannelId,)> = c
            .q("select cm.channel_id from channel_members cm join channels ch on ch.id = cm.channel_id \
                where cm.user_id = $1 and ch.workspace_id = $2 and ch.kind <> 'public'")
            .bind(user)
            .bind(workspace)
            .all()
            .await?;
        let channels = channels.into_iter().map(|row| row.0).collect();
        self.state.hub.admit(workspace, &self.socket, channels);
        let (head, pruned) = log::head(&mut c, workspace).await?;
        let stale = hello
            .since
            .is_some_and(|since| since < pruned || since > head)
            || (hello.since.is_some()
                && hello
                    .epoch
                    .as_ref()
                    .is_some_and(|epoch| *epoch != self.state.epoch));
        let resumed = hello.since.is_some() && !stale;
        let mut ready = json!({
            "type": "ready", "protocol": 1, "session_id": format!("{workspace}:{}", self.socket.id), "epoch": self.state.epoch,
            "seq": head, "heartbeat_ms": HEARTBEAT.as_millis(), "resumed": resumed,
        });
        if stale {
            ready["resync"] = true.into();
        }
        self.send(ready.to_string().into()).await?;
        if let (true, Some(since)) = (resumed, hello.since) {
            let mut after = since;
            loop {
                let page =
                    log::visible_after(&mut c, workspace, user, after, head, log::EVENTS_PAGE_MAX)
                        .await?;
                let Some((last, _)) = page.last() else { break };
                after = *last;
                let full = i64::try_from(page.len()).unwrap_or(0) == log::EVENTS_PAGE_MAX;
                self.send_all(page.into_iter().map(|(_, frame)| frame.into()))
                    .await?;
                if !full {
                    break;
                }
            }
        }
        drop(c);
        self.cursor = head;
        self.send(format!(r#"{{"type":"live","seq":{head}}}"#).into())
            .await?;
        Ok(())
    }

    async fn send(&mut self, text: Utf8Bytes) -> Result<(), CatchUp> {
        self.send_all([text].into_iter()).await
    }

    async fn send_all(&mut self, frames: impl Iterator<Item = Utf8Bytes>) -> Result<(), CatchUp> {
        let socket = Arc::clone(&self.socket);
        let mut write = pin!(async {
            for frame in frames {
                self.ws.feed(Frame::Text(frame)).await?;
            }
            self.ws.flush().await
        });
        // Nearly always done at once; only a reader that does not keep up needs a deadline.
        if let Poll::Ready(written) = futures::poll!(write.as_mut()) {
            return written.map_err(|_| CatchUp::Gone(0));
        }
        tokio::select! {
            written = timeout(WRITE_WITHIN, write) => match written {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) => Err(CatchUp::Gone(0)),
                Err(_) => Err(CatchUp::Gone(4008)),
            },
            code = poll_fn(|cx| socket.poll_closed(cx)) => Err(CatchUp::Gone(code)),
        }
    }

    /// Writes what was queued, with one flush.
    async fn write(&mut self, batch: &mut Vec<Outgoing>) -> Result<(), u16> {
        let from = self.cursor;
        let mut newest = from;
        let socket = std::sync::Arc::clone(&self.socket);
        let frames = batch.drain(..).filter_map(|out| match out {
            Outgoing::Event(seq, frame) => {
                socket.took(&frame);
                newest = newest.max(seq);
                (seq > from).then_some(frame)
            }
            Outgoing::Frame(frame) => Some(frame),
        });
        let sent = self.send_all(frames).await;
        self.cursor = newest;
        match sent {
            Ok(()) => Ok(()),
            Err(CatchUp::Gone(code)) => Err(code),
            Err(CatchUp::Db(_)) => Err(GOING_AWAY),
        }
    }

    async fn on_malformed(&mut self, error: &ApiError) -> Result<(), u16> {
        self.on_misfit(&Value::Null, error).await
    }

    /// Answers a frame that is no request, and closes after too many in a row.
    async fn on_misfit(&mut self, id: &Value, error: &ApiError) -> Result<(), u16> {
        self.malformed += 1;
        let frame = json!({"type": "error", "id": id, "error": error.body()}).to_string();
        self.answer(frame).await?;
        if self.malformed >= MALFORMED_MAX {
            Err(POLICY_VIOLATION)
        } else {
            Ok(())
        }
    }

    async fn answer(&mut self, frame: String) -> Result<(), u16> {
        match self.send(frame.into()).await {
            Ok(()) => Ok(()),
            Err(CatchUp::Gone(code)) => Err(code),
            Err(CatchUp::Db(_)) => Err(GOING_AWAY),
        }
    }

    async fn on_text(&mut self, text: &str) -> Result<(), u16> {
        let mut value = match serde_json::from_str::<Value>(text) {
            Ok(value @ Value::Object(_)) => value,
            Ok(_) => {
                return self
                    .on_malformed(&ApiError::invalid(
                        "invalid_json",
                        "a frame is one JSON object".to_owned(),
                        "",
                    ))
                    .await;
            }
            Err(e) => {
                return self
                    .on_malformed(&ApiError::invalid(
                        "invalid_json",
                        format!("the frame is not JSON: {e}"),
                        "",
                    ))
                    .await;
            }
        };
        let id = value.as_object_mut().and_then(|object| object.remove("id"));
        let kind = value
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let request = parse_json::<Request>(value.to_string().as_bytes());
        if kind == "typing" {
            // No answer, whatever comes of it.
            if let Ok(Request::Typing { thread_id }) = request {
                self.malformed = 0;
                self.typing(thread_id).await;
                return Ok(());
            }
        }
        let known = matches!(
            kind.as_str(),
            "message.send" | "subscribe" | "unsubscribe" | "read" | "ping"
        );
        let id = id.filter(|id| id.is_string() || id.is_number());
        if !known {
            let kind: String = kind.chars().take(40).collect();
            let text = format!("`{kind}` is no type of frame that a client sends");
            let error = ApiError::invalid("unknown_type", text, "type");
            return self.on_misfit(&id.unwrap_or_default(), &error).await;
        }
        let Some(id) = id else {
            let error =
                ApiError::invalid("id_missing", "a request carries an `id`".to_owned(), "id");
            return self.on_malformed(&error).await;
        };
        self.malformed = 0;
        let outcome = match request {
            Ok(request) => self.perform(request).await,
            Err(e) => Err(e),
        };
        let frame = match outcome {
            Ok(data) => json!({"type": "ack", "id": id, "data": data}),
            Err(e) => json!({"type": "error", "id": id, "error": e.body()}),
        };
        self.answer(frame.to_string()).await
    }

    /// Tells the watchers of a place where this person may write.
    async fn typing(&mut self, thread: ThreadId) {
        let spot = Spot::Thread(thread);
        if !self.actor.scopes.has(crate::auth::Scope::ChatWrite) {
            return;
        }
        // A subscription says that they may see it; without one the database does.
        let watching = self
            .state
            .hub
            .is_watching(self.actor.workspace, &self.socket, spot);
        if watching || self.channel_of(thread).await.is_ok() {
            self.state
                .hub
                .typing(self.actor.workspace, spot, self.actor.user);
        }
    }

    /// The channel of a thread of this socket's workspace.
    async fn channel_of(&mut self, thread: ThreadId) -> Result<ChannelId, ApiError> {
        let mut c = self.state.db.read().await?;
        let place = access::thread(&mut c, &self.caller, thread)
            .await?
            .reading()?
            .place;
        if place.actor.workspace == self.actor.workspace {
            Ok(place.channel)
        } else {
            Err(ChatError::ThreadNotFound.into())
        }
    }

    async fn subscribe(&mut self, thread: ThreadId) -> Result<(), ApiError> {
        let (state, workspace, spot) = (
            self.state.clone(),
            self.actor.workspace,
            Spot::Thread(thread),
        );
        let channel = self.channel_of(thread).await?;
        if !state.hub.watch(workspace, channel, &self.socket, spot) {
            return Err(ApiError::unprocessable(
                "too_many_subscriptions",
                format!(
                    "a socket watches at most {} places: unsubscribe from some",
                    super::hub::SUBSCRIPTIONS_MAX
                ),
            ));
        }
        // Who lost the channel between the look and the watching must not stay.
        if let Err(e) = self.channel_of(thread).await {
            state.hub.unwatch(workspace, &self.socket, spot);
            return Err(e);
        }
        Ok(())
    }

    async fn perform(&mut self, request: Request) -> Result<Value, ApiError> {
        let (state, caller) = (&self.state.clone(), self.caller.clone());
        match request {
            Request::Send {
                channel_id,
                thread_id,
                content,
                parent_id,
                client_id,
            } => {
                let text = Text::parse(content)?;
                let client_id = post::parse_client_id(Some(client_id))?;
                match (channel_id, thread_id) {
                    (Some(channel), None) if parent_id.is_none() => {
                        let new = NewThread {
                            title: None,
                            agent: None,
                            client_id,
                        };
                        let posted =
                            crate::chat::routes::start(state, caller, channel, text, new).await?;
                        let Some(thread) = posted.thread else {
                            return Err(ApiError::internal());
                        };
                        Ok(to_value(&PostedThread {
                            thread,
                            message: posted.message,
                            tasks: posted.tasks,
                        }))
                    }
                    (None, Some(thread)) => {
                        let posted = crate::chat::routes::say(
                            state, caller, thread, text, parent_id, client_id,
                        )
                        .await?;
                        Ok(to_value(&PostedMessage {
                            message: posted.message,
                            tasks: posted.tasks,
                        }))
                    }
                    _ => Err(ApiError::invalid(
                        "one_place",
                        "name one place: thread_id (with parent_id, if you like) or channel_id"
                            .to_owned(),
                        "thread_id",
                    )),
                }
            }
            Request::Subscribe { thread_id } => {
                self.subscribe(thread_id).await?;
                Ok(json!({}))
            }
            Request::Unsubscribe { thread_id } => {
                state
                    .hub
                    .unwatch(self.actor.workspace, &self.socket, Spot::Thread(thread_id));
                Ok(json!({}))
            }
            Request::Read { thread_id, seq } => {
                let mark = crate::chat::routes::mark_read(state, caller, thread_id, seq).await?;
                Ok(to_value::<reads::ReadMark>(&mark))
            }
            Request::Ping {} | Request::Typing { .. } => Ok(json!({})),
        }
    }
}

fn to_value<T: serde::Serialize>(data: &T) -> Value {
    serde_json::to_value(data).unwrap_or_default()
}

enum CatchUp {
    /// With the close code, 0 when the peer is gone.
    Gone(u16),
    Db(DbError),
}

impl From<DbError> for CatchUp {
    fn from(e: DbError) -> Self {
        Self::Db(e)
    }
}
