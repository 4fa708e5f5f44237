//! The hub's view of a socket in this process: its queue, and requests to close it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use axum::extract::ws::Utf8Bytes;
use futures::task::AtomicWaker;
use tokio::sync::mpsc;

use crate::{
    ids::{ApiKeyId, SessionId, UserId, WorkspaceId},
    realtime::{
        delivery::{Delivery, DeltaFormat, EventScope, Reach},
        log::AgentVisibility,
    },
};

/// Maximum number of queued frames per socket; an event beyond this limit closes the socket with
/// 4008.
pub(super) const SOCKET_QUEUE_MAX: usize = 1024;
/// Maximum total size of queued frames per socket in bytes; an event beyond this limit closes the socket with 4008.
const SOCKET_QUEUE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Numbers of free slots and free bytes below which ephemeral frames are dropped.
const SOCKET_QUEUE_RESERVE: usize = 512;
const SOCKET_QUEUE_BYTES_RESERVE: usize = SOCKET_QUEUE_BYTES_MAX / 2;

/// State of an open socket.
const OPEN: u16 = 0;
/// State of a socket whose access may have ended and must be checked.
const DOUBTED: u16 = 1;

/// Close code of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    GoingAway = 1001,
    NotAuthenticated = 4001,
    NotInWorkspace = 4003,
    TooSlow = 4008,
}

/// An entry in a socket's queue.
#[derive(Debug)]
pub enum Outgoing {
    /// A durable event with its sequence number.
    Event(i64, Utf8Bytes),
    /// Any other frame.
    Frame(Utf8Bytes),
}

/// Person who opens a socket, and the session or key.
#[derive(Debug, Clone, Copy)]
pub struct SocketOwner {
    pub workspace: WorkspaceId,
    pub user: UserId,
    pub session: Option<SessionId>,
    pub key: Option<ApiKeyId>,
}

pub struct Socket {
    pub id: u64,
    pub workspace: WorkspaceId,
    pub user: UserId,
    pub session: Option<SessionId>,
    pub key: Option<ApiKeyId>,
    pub(super) visibility: AgentVisibility,
    pub(super) delivery: Delivery,
    /// Rights of the person when the socket was opened, encoded by `auth` as a comparable number.
    rights: AtomicU8,
    pub(super) queue: mpsc::Sender<Outgoing>,
    /// Total size of the frames in the queue.
    queued_bytes: AtomicUsize,
    /// `OPEN`, `DOUBTED`, or the close code.
    code: AtomicU16,
    /// Waker of the socket's task. Not a `CancellationToken`, which takes locks, because it is
    /// polled for each event.
    waker: AtomicWaker,
    /// True if the socket no longer receives anything, because the log that it follows was replaced.
    is_muted: AtomicBool,
}

impl Socket {
    pub(super) fn new(
        id: u64,
        owner: SocketOwner,
        visibility: AgentVisibility,
        delivery: Delivery,
    ) -> (Arc<Self>, mpsc::Receiver<Outgoing>) {
        let (queue, receive) = mpsc::channel(SOCKET_QUEUE_MAX);
        let SocketOwner {
            workspace,
            user,
            session,
            key,
        } = owner;
        let socket = Self {
            id,
            workspace,
            user,
            session,
            key,
            visibility,
            delivery,
            rights: AtomicU8::new(0),
            queue,
            queued_bytes: AtomicUsize::new(0),
            code: AtomicU16::new(OPEN),
            waker: AtomicWaker::new(),
            is_muted: AtomicBool::new(false),
        };
        (Arc::new(socket), receive)
    }

    /// Checks whether the socket receives only the traffic of joined and open channels.
    pub(super) fn is_scoped(&self) -> bool {
        self.delivery.scope == EventScope::Joined
    }

    /// Checks whether the socket belongs to a guest, who receives only what happens in their channels.
    pub(super) fn is_of_guest(&self) -> bool {
        self.visibility.reach == Reach::Joined
    }

    pub fn rights(&self) -> u8 {
        self.rights.load(Ordering::Relaxed)
    }

    pub fn note_rights(&self, rights: u8) {
        self.rights.store(rights, Ordering::Relaxed);
    }

    pub fn has_compact_deltas(&self) -> bool {
        self.delivery.deltas == DeltaFormat::Compact
    }

    /// Stops sending to the socket, which will be closed soon.
    pub(super) fn mute(&self) {
        self.is_muted.store(true, Ordering::SeqCst);
    }

    fn is_muted(&self) -> bool {
        self.is_muted.load(Ordering::Relaxed)
    }

    /// Requests that the socket's task close it; the first reason wins.
    pub fn close(&self, why: Close) {
        // Fails if a reason is already set, which is intended.
        let _first = self
            .code
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |code| {
                (code <= DOUBTED).then_some(why as u16)
            });
        self.waker.wake();
    }

    /// Requests that the socket's task check its access.
    pub fn doubt(&self) {
        // Fails if closing was already requested, which is intended.
        let _open = self
            .code
            .compare_exchange(OPEN, DOUBTED, Ordering::SeqCst, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Returns true if a check of the access was requested, and clears the request.
    pub fn takes_doubt(&self) -> bool {
        self.code
            .compare_exchange(DOUBTED, OPEN, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// Checks whether the socket's task has to close it or check its access.
    pub fn has_request(&self) -> bool {
        self.code.load(Ordering::SeqCst) != OPEN
    }

    /// Returns the close code once closing has been requested. Only for the socket's own task, because only one task can wait.
    pub fn poll_closed(&self, cx: &Context<'_>) -> Poll<u16> {
        if !self.is_closed() {
            self.waker.register(cx.waker());
        }
        // Check again: closing may have been requested before the waker was registered.
        match self.close_code() {
            OPEN | DOUBTED => Poll::Pending,
            code => Poll::Ready(code),
        }
    }

    /// Checks whether closing was requested.
    pub fn is_closed(&self) -> bool {
        self.close_code() > DOUBTED
    }

    pub(super) fn close_code(&self) -> u16 {
        self.code.load(Ordering::SeqCst)
    }

    /// Records that a frame has left the queue.
    pub fn took(&self, frame: &Utf8Bytes) {
        self.queued_bytes.fetch_sub(frame.len(), Ordering::Relaxed);
    }

    pub(super) fn durable(&self, seq: i64, frame: &Utf8Bytes) {
        if self.is_closed() || self.is_muted() {
            return;
        }
        let bytes = self.queued_bytes.fetch_add(frame.len(), Ordering::Relaxed) + frame.len();
        let fits = bytes <= SOCKET_QUEUE_BYTES_MAX;
        if !fits
            || self
                .queue
                .try_send(Outgoing::Event(seq, frame.clone()))
                .is_err()
        {
            self.close(Close::TooSlow);
        }
    }

    /// Queues an ephemeral frame. Returns false if the frame was dropped.
    pub(super) fn ephemeral(&self, frame: &Utf8Bytes) -> bool {
        if self.queue.capacity() <= SOCKET_QUEUE_RESERVE || self.is_muted() {
            return false;
        }
        let bytes = self.queued_bytes.fetch_add(frame.len(), Ordering::Relaxed) + frame.len();
        let is_queued = bytes <= SOCKET_QUEUE_BYTES_MAX - SOCKET_QUEUE_BYTES_RESERVE
            && self.queue.try_send(Outgoing::Frame(frame.clone())).is_ok();
        if !is_queued {
            self.took(frame);
        }
        is_queued
    }
}
