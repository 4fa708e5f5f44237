//! Deadlines of a connection: for the head of the next request, and for reading a response.
//!
//! [`Stream`] is the transport that hyper reads and writes; [`Exchange`] is the state that the stream, the service, and
//! the response body share. hyper flushes the stream only after it has written everything, so a flush after the end of
//! the body means that the response was sent. Until then, the service does not start the next request.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
    time::{Instant, Sleep},
};

use super::{
    meter::{BytesTaken, Metered},
    tls::Transport,
    unsent::Reservation,
};

/// Maximum number of bytes of an unread request body that are discarded before closing the connection, so that the client can still
/// read an early response.
const LINGER_BYTES_MAX: usize = 2 * 1024 * 1024;
const LINGER_WITHIN: Duration = Duration::from_secs(2);

/// Deadlines of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// Maximum time from accepting the connection to the end of the first request head.
    pub first_within: Duration,
    /// Maximum time from the end of a response to the end of the next request head, which is also how long an idle
    /// connection stays open. Longer than the idle timeout of proxies (nginx: 60 s), so that the proxy closes first and
    /// never sends a request on a closed connection.
    pub next_within: Duration,
    /// Maximum time without progress while there are bytes to send.
    pub stalled_within: Duration,
    /// Maximum time for a client to read a response that is not an event stream, excluding the time that the server needs to produce
    /// it. This is the base; one second is added for every `bytes_per_second` bytes.
    pub sent_within: Duration,
    /// Minimum rate at which a client must read a long response.
    pub bytes_per_second: u64,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            first_within: Duration::from_mins(1),
            next_within: Duration::from_mins(2),
            stalled_within: Duration::from_secs(15),
            sent_within: Duration::from_secs(30),
            bytes_per_second: 16 * 1024,
        }
    }
}

#[derive(Debug)]
enum Phase {
    /// Waiting for a request head until this time.
    Waiting {
        until: Instant,
    },
    /// The service is handling a request.
    Handling,
    Sending(Sending),
    /// The connection is a WebSocket, which has its own deadlines.
    Upgraded,
}

/// Kind of a response, which determines its deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseKind {
    Document,
    /// Event stream, which has no total deadline.
    EventStream,
    /// Head only; a WebSocket follows.
    Upgrade,
}

#[derive(Debug)]
struct Sending {
    /// Total time in which the client did not read available bytes.
    waited: Duration,
    /// Size of the body, or of the part that has been produced so far if the total size is unknown.
    bytes: u64,
    kind: ResponseKind,
    /// True once hyper has received the whole body.
    is_complete: bool,
    /// Reservation that is released when the response is sent.
    _unsent: Option<Reservation>,
}

/// State of the current request and response of a connection.
#[derive(Debug)]
pub(super) struct Exchange {
    deadlines: Deadlines,
    inner: Mutex<Inner>,
    sent: Notify,
}

#[derive(Debug)]
struct Inner {
    phase: Phase,
    /// True if part of the request body has not been read.
    has_unread: bool,
}

impl Exchange {
    pub(super) fn new(deadlines: Deadlines) -> Arc<Self> {
        let until = Instant::now() + deadlines.first_within;
        Arc::new(Self {
            deadlines,
            inner: Mutex::new(Inner {
                phase: Phase::Waiting { until },
                has_unread: false,
            }),
            sent: Notify::new(),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the previous response has been sent, then starts the next request.
    pub(super) async fn begin(&self) {
        loop {
            let sent = self.sent.notified();
            {
                let mut inner = self.inner();
                if !matches!(inner.phase, Phase::Sending(_)) {
                    inner.phase = Phase::Handling;
                    return;
                }
            }
            sent.await;
        }
    }

    /// Starts sending a response with this body.
    pub(super) fn send(
        self: &Arc<Self>,
        body: Body,
        kind: ResponseKind,
        unsent: Option<Reservation>,
    ) -> Outgoing {
        self.inner().phase = Phase::Sending(Sending {
            waited: Duration::ZERO,
            bytes: body.size_hint().exact().unwrap_or(0),
            kind,
            is_complete: false,
            _unsent: unsent,
        });
        Outgoing {
            counts: body.size_hint().exact().is_none(),
            body,
            exchange: Arc::clone(self),
        }
    }

    /// Ends the response if its body is complete. Must be called whenever hyper has written everything.
    fn flushed(&self) {
        let mut inner = self.inner();
        let kind = match &inner.phase {
            Phase::Sending(sending) if sending.is_complete => sending.kind,
            _ => return,
        };
        inner.phase = if kind == ResponseKind::Upgrade {
            Phase::Upgraded
        } else {
            Phase::Waiting {
                until: Instant::now() + self.deadlines.next_within,
            }
        };
        drop(inner);
        self.sent.notify_waiters();
    }

    /// Deadline for the request head; `None` if the connection is not waiting for one.
    fn head_until(&self) -> Option<Instant> {
        match self.inner().phase {
            Phase::Waiting { until } => Some(until),
            _ => None,
        }
    }

    /// Remaining time for the client to read the response, based on the response's size so far. The time that the server needs to
    /// produce the response does not count.
    fn patience(&self) -> Option<Duration> {
        match &self.inner().phase {
            Phase::Sending(sending) if sending.kind == ResponseKind::Document => {
                let more = Duration::from_secs(sending.bytes / self.deadlines.bytes_per_second);
                Some((self.deadlines.sent_within + more).saturating_sub(sending.waited))
            }
            _ => None,
        }
    }

    /// Adds time in which the client did not read any bytes.
    fn count_wait(&self, wait: Duration) {
        if let Phase::Sending(sending) = &mut self.inner().phase {
            sending.waited += wait;
        }
    }

    fn is_upgraded(&self) -> bool {
        matches!(self.inner().phase, Phase::Upgraded)
    }
}

/// Response body that tracks its size and end.
pub(super) struct Outgoing {
    body: Body,
    /// True if the total size is unknown, in which case the bytes are counted.
    counts: bool,
    exchange: Arc<Exchange>,
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if self.counts
            && let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && let Phase::Sending(sending) = &mut self.exchange.inner().phase
        {
            sending.bytes += data.len() as u64;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if let Phase::Sending(sending) = &mut self.exchange.inner().phase {
            sending.is_complete = true;
        }
    }
}

/// Request body that records when it is dropped before it was read completely.
pub(super) struct Incomplete {
    body: Incoming,
    has_ended: bool,
    exchange: Arc<Exchange>,
}

impl Incomplete {
    pub(super) fn new(body: Incoming, exchange: &Arc<Exchange>) -> Self {
        Self {
            has_ended: body.is_end_stream(),
            body,
            exchange: Arc::clone(exchange),
        }
    }
}

impl HttpBody for Incomplete {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.has_ended = frame.is_none() || self.body.is_end_stream();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Incomplete {
    fn drop(&mut self) {
        if !self.has_ended {
            self.exchange.inner().has_unread = true;
        }
    }
}

/// Connection that fails with `TimedOut` if its client is too slow.
pub(super) struct Stream {
    transport: Metered<Transport>,
    exchange: Arc<Exchange>,
    /// Timer for the deadline of the request head. It can fire before the deadline, and is reset only then, because most requests
    /// arrive much earlier.
    idle: Option<Pin<Box<Sleep>>>,
    /// Start of the current stall, and a timer for the next deadline; `None` while the client reads.
    stalled: Option<(Instant, Pin<Box<Sleep>>)>,
    linger: Option<Linger>,
}

struct Linger {
    deadline: Pin<Box<Sleep>>,
    bytes: usize,
}

fn timed_out() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

impl Stream {
    pub(super) fn new(transport: Transport, exchange: Arc<Exchange>) -> Self {
        Self {
            transport: Metered::new(transport),
            exchange,
            idle: None,
            stalled: None,
            linger: None,
        }
    }

    pub(super) fn taken(&self) -> BytesTaken {
        self.transport.taken()
    }

    /// Completes when the deadline for the next request head has passed.
    fn poll_head_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(until) = self.exchange.head_until() else {
            if self.exchange.is_upgraded() {
                self.idle = None;
            }
            return Poll::Pending;
        };
        let sleep = self
            .idle
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        loop {
            ready!(sleep.as_mut().poll(cx));
            if sleep.deadline() >= until {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(until);
        }
    }

    /// Returns the result of a write, or an error if the write is blocked and a deadline has passed.
    fn poll_progress(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            if let Some((since, _)) = self.stalled.take() {
                self.exchange.count_wait(since.elapsed());
            }
            return written;
        }
        let now = Instant::now();
        let since = self.stalled.as_ref().map_or(now, |(since, _)| *since);
        let stalled_until = since + self.exchange.deadlines.stalled_within;
        let until = self
            .exchange
            .patience()
            .map_or(stalled_until, |left| (since + left).min(stalled_until));
        let (_, sleep) = self
            .stalled
            .get_or_insert_with(|| (since, Box::pin(tokio::time::sleep_until(until))));
        if sleep.deadline() != until {
            sleep.as_mut().reset(until);
        }
        ready!(sleep.as_mut().poll(cx));
        // With zero linger, closing discards unsent bytes; otherwise, the kernel would keep them for minutes.
        if let Err(e) = self.transport.get_ref().tcp().set_zero_linger() {
            tracing::debug!(error = %e, "could not discard unsent bytes");
        }
        tracing::debug!("closed a connection: its client read a response too slowly");
        metrics::counter!("openvibe_rate_limited_total", "limit" => "slow_readers").increment(1);
        Poll::Ready(Err(timed_out()))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(read) = Pin::new(&mut self.transport).poll_read(cx, buf) {
            return Poll::Ready(read);
        }
        self.poll_head_late(cx).map(|()| Err(timed_out()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.transport).poll_write(cx, buf);
        self.poll_progress(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.transport).poll_write_vectored(cx, bufs);
        self.poll_progress(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TLS keeps bytes that it has encrypted until the client reads.
        let flushed = Pin::new(&mut self.transport).poll_flush(cx);
        ready!(self.poll_progress(cx, flushed.map_ok(|()| 0)))?;
        self.exchange.flushed();
        // hyper may not poll for reads again until data arrives, so the deadline is also set here.
        match self.poll_head_late(cx) {
            Poll::Ready(()) => Poll::Ready(Err(timed_out())),
            Poll::Pending => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.linger.is_none() {
            ready!(Pin::new(&mut this.transport).poll_shutdown(cx))?;
            if !this.exchange.inner().has_unread {
                return Poll::Ready(Ok(()));
            }
        }
        let linger = this.linger.get_or_insert_with(|| Linger {
            deadline: Box::pin(tokio::time::sleep(LINGER_WITHIN)),
            bytes: 0,
        });
        let mut scratch = [0; 4096];
        while linger.bytes < LINGER_BYTES_MAX {
            let mut buf = ReadBuf::new(&mut scratch);
            match Pin::new(&mut this.transport).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                    linger.bytes += buf.filled().len();
                }
                // The client closed the connection or disappeared.
                Poll::Ready(_) => break,
                Poll::Pending => {
                    ready!(linger.deadline.as_mut().poll(cx));
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sending(kind: ResponseKind, body: Body) -> (Arc<Exchange>, Outgoing) {
        let exchange = Exchange::new(Deadlines::default());
        let outgoing = exchange.send(body, kind, None);
        (exchange, outgoing)
    }

    fn seconds_to_send(exchange: &Exchange) -> Option<u64> {
        Some(exchange.patience()?.as_secs())
    }

    #[tokio::test]
    async fn larger_responses_may_take_longer_and_event_streams_have_no_deadline() {
        let (exchange, _body) = sending(ResponseKind::Document, Body::from(vec![0; 160 * 1024]));
        assert_eq!(seconds_to_send(&exchange), Some(40));
        let (exchange, _body) = sending(ResponseKind::EventStream, Body::from("data: x\n\n"));
        assert_eq!(seconds_to_send(&exchange), None);
        // For a streamed body, the deadline depends on the size so far.
        let pieces = [vec![0; 16 * 1024], vec![0; 32 * 1024]].map(Ok::<_, io::Error>);
        let stream = futures::stream::iter(pieces);
        let (exchange, mut body) = sending(ResponseKind::Document, Body::from_stream(stream));
        for seconds in [31, 33] {
            std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
            assert_eq!(seconds_to_send(&exchange), Some(seconds));
        }
    }

    #[tokio::test]
    async fn only_time_in_which_the_client_takes_nothing_counts() {
        let (exchange, _body) = sending(ResponseKind::Document, Body::from("x"));
        exchange.count_wait(Duration::from_secs(10));
        assert_eq!(seconds_to_send(&exchange), Some(20));
        exchange.count_wait(Duration::from_secs(30));
        assert_eq!(seconds_to_send(&exchange), Some(0));
    }

    #[tokio::test]
    async fn a_response_counts_as_sent_once_it_is_complete_and_written() {
        let (exchange, body) = sending(ResponseKind::Document, Body::from("x"));
        exchange.flushed();
        assert!(exchange.patience().is_some(), "not all of it was there");
        let next = exchange.begin();
        let mut next = std::pin::pin!(next);
        assert!(futures::poll!(next.as_mut()).is_pending());
        drop(body);
        assert!(futures::poll!(next.as_mut()).is_pending());
        exchange.flushed();
        assert!(exchange.head_until().is_some());
        next.await;
        assert_eq!(exchange.head_until(), None, "the next request is handled");
    }
}
