//! `GET /v1/ws`: one task per socket, a cursor into the log.
//!
//! ```text
//! hello ─► register with the hub ─► check access again ─► private channels ─► read the log up to now ─► live
//! ```
//!
//! Events that arrive while the log is being read wait in the socket's queue; those that were
//! already read from the log are skipped by their sequence number.

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
use tokio::{
    sync::mpsc,
    time::{Instant, Interval, timeout},
};

use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::realtime::hub::{Close, Outgoing, Socket};
use crate::{
    auth::{ActorSnapshot, Caller, Credential, SocketPermit},
    http::{ApiError, meter::BytesTaken, requests::RequestId},
    server::{State, caller::token_of},
};

mod frame;
mod hello;
mod requests;
mod resume;
mod routes;

use hello::{Hello, read_hello};
use resume::ResumeError;
pub use routes::router;

pub const HEARTBEAT: Duration = Duration::from_secs(20);
/// Interval of checks for silent clients: half a heartbeat, because 2.5 heartbeats of silence are
/// allowed.
const TICK: Duration = Duration::from_secs(10);
const TICKS_PER_HEARTBEAT: u32 = 2;
/// Maximum silence of a client: 2.5 heartbeats.
const SILENCE_MAX: Duration = Duration::from_secs(50);
/// Maximum size of a client's frame in bytes.
const FRAME_BYTES_MAX: usize = 64 * 1024;
/// Maximum wait for a close frame to be written. A slow reader can still read the reason for closing, unless it reads
/// nothing for 15 s, which ends the connection. Only the connection itself is held meanwhile.
const CLOSE_WITHIN: Duration = Duration::from_mins(1);
/// Maximum wait for the close frame during shutdown.
const CLOSE_AT_SHUTDOWN_WITHIN: Duration = Duration::from_secs(1);
/// A client that reads no byte for this long is closed with 4008. Checked in steps.
const STALL_MAX: Duration = Duration::from_secs(10);
const STALL_CHECKS: u32 = 10;
/// Maximum wait for the other sockets of the same person to catch up.
const CATCH_UP_TURN_WITHIN: Duration = Duration::from_secs(30);
const MALFORMED_MAX: u32 = 5;
const FRAMES_AT_ONCE: usize = 64;
/// Size of the library's read and write buffers. All of the default 128 KiB would become resident
/// memory of each socket.
const BUFFER_BYTES: usize = 4 * 1024;

const POLICY_VIOLATION: u16 = 1008;
const GOING_AWAY: u16 = 1001;
const NOT_AUTHENTICATED: u16 = 4001;
const NOT_IN_WORKSPACE: u16 = 4003;
const TOO_LARGE: u16 = 1009;
const TOO_SLOW: u16 = 4008;
const NO_HELLO: u16 = 4009;

/// Data from the HTTP request that opens a socket.
struct Opening {
    headers: HeaderMap,
    request: RequestId,
    taken: BytesTaken,
}

/// Opens a socket for an authenticated caller.
fn upgrade(
    ws: WebSocketUpgrade,
    state: State,
    opening: Opening,
    caller: Caller,
    permit: SocketPermit,
) -> Response {
    ws.read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
        .max_write_buffer_size(4 * 1024 * 1024)
        .max_message_size(FRAME_BYTES_MAX)
        .max_frame_size(FRAME_BYTES_MAX)
        .on_upgrade(move |socket| {
            let tracker = state.tracker.clone();
            // Tracked, so that shutdown waits for the close frame.
            tracker.track_future(async move {
                serve(socket, state, opening, caller).await;
                drop(permit);
            })
        })
}

/// Opens a socket only to close it with 4001.
fn refuse(ws: WebSocketUpgrade, state: State, permit: SocketPermit) -> Response {
    ws.on_upgrade(async move |mut socket| {
        count_closed(NOT_AUTHENTICATED);
        close(&mut socket, NOT_AUTHENTICATED, &state.shutdown).await;
        drop(permit);
    })
}

// Code that runs rarely is boxed, so that an idle socket does not hold memory for it.
async fn serve(mut ws: WebSocket, state: State, opening: Opening, caller: Caller) {
    let Opening {
        headers,
        request,
        taken,
    } = opening;
    let greeted = Box::pin(read_hello(&mut ws, &state, &headers, &caller)).await;
    let token = token_of(&headers);
    // The headers would keep the whole request buffer alive.
    drop(headers);
    let code = match greeted {
        Ok((hello, actor)) => {
            let credential = match &caller.credential {
                Credential::Session(id) => (Some(*id), None),
                Credential::Key { id, .. } => (None, Some(*id)),
            };
            let (socket, queue) =
                state
                    .hub
                    .register(actor.workspace, caller.user, credential, actor.visibility());
            if state.shutdown.is_cancelled() {
                socket.close(Close::GoingAway);
            }
            let mut connection = Connection {
                ws,
                state: state.clone(),
                request,
                token,
                taken,
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
            count_closed(code);
            state
                .hub
                .remove(connection.actor.workspace, &connection.socket);
            // Discard frames that are still queued before sending the close frame.
            let Connection { mut ws, .. } = connection;
            close(&mut ws, code, &state.shutdown).await;
            return;
        }
        Err(code) => code,
    };
    count_closed(code);
    close(&mut ws, code, &state.shutdown).await;
}

fn count_closed(code: u16) {
    let reason = match code {
        0 => "left",
        NOT_AUTHENTICATED => "not_authenticated",
        NOT_IN_WORKSPACE => "not_in_workspace",
        TOO_SLOW => "too_slow",
        NO_HELLO => "no_hello",
        POLICY_VIOLATION => "policy",
        TOO_LARGE => "too_large",
        _ => "going_away",
    };
    metrics::counter!("openvibe_sockets_closed_total", "reason" => reason).increment(1);
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
    // A peer that does not read even this is dropped.
    tokio::select! {
        _ = timeout(CLOSE_WITHIN, ws.send(Frame::Close(Some(frame)))) => {}
        () = ending => {}
    }
}

/// Returns the close code for a frame that could not be read.
fn broken(error: &axum::Error) -> u16 {
    let text = error.to_string();
    if text.contains("too long") || text.contains("too big") || text.contains("exceed") {
        TOO_LARGE
    } else {
        0
    }
}

/// An event that a connection handles.
enum Event {
    /// The close code.
    Closed(u16),
    /// The batch contains frames to write.
    Queued,
    /// `None` if the peer left.
    Received(Option<Result<Frame, axum::Error>>),
    Tick,
}

struct Connection {
    ws: WebSocket,
    state: State,
    /// The request that opened this socket.
    request: RequestId,
    token: Option<String>,
    taken: BytesTaken,
    caller: Caller,
    actor: ActorSnapshot,
    socket: Arc<Socket>,
    queue: mpsc::Receiver<Outgoing>,
    tick: Interval,
    /// Whether the network is polled before the queue.
    network_first: bool,
    /// Highest sequence number sent; queued events up to it are skipped.
    cursor: i64,
    malformed: u32,
}

impl Connection {
    /// Serves the socket until it ends. Returns the close code, or 0 if the peer left.
    async fn run(&mut self, hello: Hello) -> u16 {
        let span = self.span();
        if let Err(code) = Box::pin(self.catch_up(&hello).instrument(span)).await {
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
                        Box::pin(self.heartbeat()).await
                    } else {
                        Ok(())
                    }
                }
                Event::Received(frame) => {
                    heard = Instant::now();
                    match frame {
                        Some(Ok(Frame::Text(text))) => {
                            let span = self.span();
                            Box::pin(self.on_text(&text).instrument(span)).await
                        }
                        Some(Ok(Frame::Binary(_))) => {
                            let refusal = ApiError::invalid(
                                "text_expected",
                                "frames must be JSON text".to_owned(),
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

    /// Span of a client's requests. Created for each request, so that an idle socket holds none.
    fn span(&self) -> tracing::Span {
        tracing::info_span!(
            "socket",
            request.id = self.request.as_str(),
            user.id = %self.caller.user,
            workspace.id = %self.actor.workspace,
        )
    }

    /// Next event to handle. After a wake-up the queue is polled first, because it is the usual
    /// reason and polling the network is slower; then they alternate.
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

    async fn heartbeat(&mut self) -> Result<(), u16> {
        match self.check_access().await {
            Ok(()) => {}
            Err(ResumeError::Closed(code)) => return Err(code),
            // Without a database, no new events are sent either.
            Err(ResumeError::Db(e)) => {
                tracing::warn!(error = %e, "could not check the access of a socket");
            }
        }
        self.state
            .hub
            .heartbeat(self.actor.workspace, &self.socket, self.cursor);
        Ok(())
    }

    /// Waits until closing is requested and returns the close code.
    async fn closed(&mut self) -> u16 {
        poll_fn(|cx| self.socket.poll_closed(cx)).await
    }

    async fn send(&mut self, text: Utf8Bytes) -> Result<(), WriteError> {
        self.send_all([text].into_iter()).await
    }

    async fn send_all(
        &mut self,
        frames: impl Iterator<Item = Utf8Bytes>,
    ) -> Result<(), WriteError> {
        let socket = Arc::clone(&self.socket);
        let taken = self.taken.clone();
        let mut write = pin!(async {
            for frame in frames {
                self.ws.feed(Frame::Text(frame)).await?;
            }
            self.ws.flush().await
        });
        // Almost always completes immediately; only a slow reader needs a deadline.
        if let Poll::Ready(written) = futures::poll!(write.as_mut()) {
            return written.map_err(|_| WriteError(0));
        }
        tokio::select! {
            written = write => written.map_err(|_| WriteError(0)),
            () = stalled(&taken) => Err(WriteError(TOO_SLOW)),
            code = poll_fn(|cx| socket.poll_closed(cx)) => Err(WriteError(code)),
        }
    }

    /// Writes queued frames with a single flush.
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
            Outgoing::Frame(frame) => {
                socket.took(&frame);
                Some(frame)
            }
        });
        let sent = self.send_all(frames).await;
        self.cursor = newest;
        sent.map_err(|e| e.0)
    }
}

/// Completes after the peer has read no byte for `STALL_MAX`.
async fn stalled(taken: &BytesTaken) {
    let (mut seen, mut checks) = (taken.get(), 0);
    while checks < STALL_CHECKS {
        tokio::time::sleep(STALL_MAX / STALL_CHECKS).await;
        let now = taken.get();
        checks = if now == seen { checks + 1 } else { 0 };
        seen = now;
    }
}

/// The close code of a failed write; 0 if the peer left.
struct WriteError(u16);
