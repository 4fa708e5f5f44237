//! The connection of a socket, its limits, and its close codes.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use axum::extract::ws::{Message as Frame, Utf8Bytes, WebSocket};
use futures::SinkExt;
use tokio::{
    sync::mpsc,
    time::{Interval, Sleep},
};

use crate::{
    auth::{ActorSnapshot, Caller, Token},
    http::{meter::BytesTaken, requests::RequestId},
    realtime::hub::{Outgoing, Socket},
    server::State,
};

pub(super) const HEARTBEAT_MS: u64 = 20_000;
/// Interval of checks for silent clients: half a heartbeat, because clients may be silent for 2.5 heartbeats.
pub(super) const TICK: Duration = Duration::from_secs(10);
pub(super) const TICKS_PER_HEARTBEAT: u32 = 2;
/// Maximum silence of a client: 2.5 heartbeats.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(50);
/// Maximum size of a client's frame in bytes.
pub(super) const FRAME_BYTES_MAX: usize = 64 * 1024;
/// Maximum wait for a close frame to be written. A slow reader can still receive the reason for closing, but the connection ends if
/// the client reads nothing for 15 s. During the wait, only the connection itself is held.
pub(super) const CLOSE_WITHIN: Duration = Duration::from_mins(1);
/// Maximum wait for the close frame during shutdown.
pub(super) const CLOSE_AT_SHUTDOWN_WITHIN: Duration = Duration::from_secs(1);
/// Time after which a client that reads no bytes is disconnected with close code 4008. It is checked in `STALL_CHECKS` steps.
pub(super) const STALL_MAX: Duration = Duration::from_secs(10);
pub(super) const STALL_CHECKS: u32 = 10;
/// Maximum wait for the other sockets of the same person to catch up.
pub(super) const CATCH_UP_TURN_WITHIN: Duration = Duration::from_secs(30);
pub(super) const MALFORMED_MAX: u32 = 5;
pub(super) const FRAMES_AT_ONCE: usize = 64;
/// Size of the library's read and write buffers. With the default of 128 KiB, every socket would occupy that much
/// resident memory.
pub(super) const BUFFER_BYTES: usize = 4 * 1024;

pub(super) const POLICY_VIOLATION: u16 = 1008;
pub(super) const GOING_AWAY: u16 = 1001;
pub(super) const NOT_AUTHENTICATED: u16 = 4001;
pub(super) const NOT_IN_WORKSPACE: u16 = 4003;
pub(super) const TOO_LARGE: u16 = 1009;
pub(super) const TOO_SLOW: u16 = 4008;
pub(super) const NO_HELLO: u16 = 4009;

/// Returns the close code for a frame that could not be read.
pub(super) fn broken(error: &axum::Error) -> u16 {
    let text = error.to_string();
    if text.contains("too long") || text.contains("too big") || text.contains("exceed") {
        TOO_LARGE
    } else {
        0
    }
}

pub(super) struct Connection {
    pub(super) ws: WebSocket,
    pub(super) state: State,
    /// The request that opened this socket.
    pub(super) request: RequestId,
    pub(super) token: Option<Token>,
    pub(super) taken: BytesTaken,
    pub(super) caller: Caller,
    pub(super) actor: ActorSnapshot,
    pub(super) socket: Arc<Socket>,
    pub(super) queue: mpsc::Receiver<Outgoing>,
    pub(super) tick: Interval,
    /// Ends when the key expires; `None` if it does not, and after that.
    pub(super) expiry: Option<Pin<Box<Sleep>>>,
    /// True if the next poll checks the network before the queue.
    pub(super) network_first: bool,
    /// Highest sequence number sent; queued events up to it are skipped.
    pub(super) cursor: i64,
    pub(super) malformed: u32,
}

impl Connection {
    /// Waits until closing is requested and returns the close code.
    pub(super) async fn closed(&mut self) -> u16 {
        poll_fn(|cx| self.socket.poll_closed(cx)).await
    }

    pub(super) async fn send(&mut self, text: Utf8Bytes) -> Result<(), WriteError> {
        self.send_all([text].into_iter()).await
    }

    pub(super) async fn send_all(
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
        // A write almost always completes immediately; only a slow reader needs a deadline.
        if let Poll::Ready(written) = futures::poll!(write.as_mut()) {
            return written.map_err(|_| WriteError(0));
        }
        tokio::select! {
            written = write => written.map_err(|_| WriteError(0)),
            () = stalled(&taken) => Err(WriteError(TOO_SLOW)),
            code = poll_fn(|cx| socket.poll_closed(cx)) => Err(WriteError(code)),
        }
    }
}

/// Completes when the peer has read no bytes for `STALL_MAX`.
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
pub(super) struct WriteError(pub(super) u16);
