//! `GET /v1/ws`: one task per socket, which is a cursor into the log.
//!
//! ```text
//! hello ─► register with the hub ─► check access again ─► private channels ─► read the log up to now ─► live
//! ```
//!
//! Events that arrive while the log is being read wait in the socket's queue; those that were
//! already read from the log are skipped by their sequence number.

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

use axum::{
    extract::ws::{CloseFrame, Message as Frame, Utf8Bytes, WebSocket, WebSocketUpgrade},
    http::HeaderMap,
    response::Response,
};
use futures::StreamExt;
use tokio::time::{Instant, timeout};

use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    auth::{Caller, Credential, SocketPermit},
    db::now,
    http::{ApiError, ErrorCode, meter::BytesTaken, requests::RequestId},
    realtime::hub::{Close, Outgoing, SocketOwner},
    server::{State, caller::token_of},
};

mod access;
pub mod bot;
mod connection;
mod control;
mod frame;
mod hello;
mod requests;
mod resume;
mod routes;
pub mod runner;
mod schema;

pub use access::check_access_forever;
use connection::{
    BUFFER_BYTES, CLOSE_AT_SHUTDOWN_WITHIN, CLOSE_WITHIN, Connection, FRAME_BYTES_MAX,
    FRAMES_AT_ONCE, GOING_AWAY, NO_HELLO, NOT_AUTHENTICATED, NOT_IN_WORKSPACE, POLICY_VIOLATION,
    SILENCE_MAX, TICK, TICKS_PER_HEARTBEAT, TOO_LARGE, TOO_SLOW, broken,
};
use hello::{Hello, read_hello};
use resume::ResumeError;
pub use routes::router;

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
    bounded(ws).on_upgrade(move |socket| {
        let tracker = state.tracker.clone();
        // Tracked, so that shutdown waits for the close frame.
        tracker.track_future(async move {
            serve(socket, state, opening, caller).await;
            drop(permit);
        })
    })
}

/// Sets the sizes of buffers and frames.
fn bounded(ws: WebSocketUpgrade) -> WebSocketUpgrade {
    ws.read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
        .max_write_buffer_size(4 * 1024 * 1024)
        .max_message_size(FRAME_BYTES_MAX)
        .max_frame_size(FRAME_BYTES_MAX)
}

/// Opens a socket only to close it with code 4001.
fn refuse(ws: WebSocketUpgrade, state: State, permit: SocketPermit) -> Response {
    ws.on_upgrade(async move |mut socket| {
        count_closed(NOT_AUTHENTICATED);
        close(&mut socket, NOT_AUTHENTICATED, &state.shutdown).await;
        drop(permit);
    })
}

// Futures of rarely executed code are boxed, so that an idle socket does not hold memory for them.
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
            let (session, key) = match &caller.credential {
                Credential::Session(id) => (Some(*id), None),
                Credential::Key { id, .. } => (None, Some(*id)),
            };
            let (socket, queue) = state.hub.register(
                SocketOwner {
                    workspace: actor.workspace,
                    user: caller.user,
                    session,
                    key,
                },
                actor.visibility(),
                hello.delivery(),
            );
            socket.note_rights(actor.rights());
            if state.shutdown.is_cancelled() {
                socket.close(Close::GoingAway);
            }
            let expires_at = caller.key_expires_at();
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
                expiry: expires_at.map(|at| Box::pin(tokio::time::sleep(at.since(now())))),
                network_first: false,
                cursor: 0,
                malformed: 0,
            };
            let code = connection.run(hello).await;
            count_closed(code);
            state
                .hub
                .remove(connection.actor.workspace, &connection.socket);
            // Frames that are still queued are discarded before the close frame is sent.
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
    // A peer that does not even read the close frame is dropped.
    tokio::select! {
        _ = timeout(CLOSE_WITHIN, ws.send(Frame::Close(Some(frame)))) => {}
        () = ending => {}
    }
}

/// An event that a connection handles.
enum Event {
    /// Closing was requested, with this close code.
    Closed(u16),
    /// The socket may have lost its access.
    Doubted,
    /// The batch contains frames to write.
    Queued,
    /// A frame was received; `None` if the peer left.
    Received(Option<Result<Frame, axum::Error>>),
    Tick,
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
                // If the database is unavailable, the access cannot be checked, so the client has to reconnect.
                Event::Doubted => Box::pin(self.check_access())
                    .await
                    .map_err(ResumeError::close_code),
                Event::Queued => self.write(&mut batch).await,
                Event::Tick if heard.elapsed() + TICK / 10 > SILENCE_MAX => Err(GOING_AWAY),
                Event::Tick => {
                    ticks += 1;
                    if ticks.is_multiple_of(TICKS_PER_HEARTBEAT) {
                        self.heartbeat();
                    }
                    Ok(())
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
                                ErrorCode::TextExpected,
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

    /// Span of a client's requests. Created for each request, so that an idle socket does not hold one.
    fn span(&self) -> tracing::Span {
        tracing::info_span!(
            "socket",
            request.id = self.request.as_str(),
            user.id = %self.caller.user,
            workspace.id = %self.actor.workspace,
        )
    }

    /// Next event to handle. After a wake-up, the queue is polled first: queued frames are the usual cause, and polling the network
    /// is slower. After that, the queue and the network take turns.
    fn poll_event(&mut self, cx: &mut Context<'_>, batch: &mut Vec<Outgoing>) -> Poll<Event> {
        if self.socket.has_request() {
            return self.poll_request(cx);
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
        self.poll_request(cx)
    }

    fn poll_request(&self, cx: &Context<'_>) -> Poll<Event> {
        if let Poll::Ready(code) = self.socket.poll_closed(cx) {
            return Poll::Ready(Event::Closed(code));
        }
        if self.socket.takes_doubt() {
            return Poll::Ready(Event::Doubted);
        }
        Poll::Pending
    }

    fn poll_others(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if self.tick.poll_tick(cx).is_ready() {
            return Poll::Ready(Event::Tick);
        }
        if let Some(expiry) = &mut self.expiry
            && expiry.as_mut().poll(cx).is_ready()
        {
            self.expiry = None;
            return Poll::Ready(Event::Doubted);
        }
        self.ws.poll_next_unpin(cx).map(|frame| {
            self.network_first = false;
            Event::Received(frame)
        })
    }

    fn heartbeat(&self) {
        self.state
            .hub
            .heartbeat(self.actor.workspace, &self.socket, self.cursor);
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
