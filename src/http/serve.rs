//! Serves connections: limits their number in total and per address, closes them if the client is too slow, and
//! shuts them down gracefully.
//!
//! `axum::serve` limits neither the number of connections nor the time for a request head or a response.

use std::{
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Request},
    http::StatusCode,
    response::Response,
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

use super::{
    address::net_of,
    bodies::BodyBounds,
    connection::{Exchange, Incomplete, Outgoing, ResponseKind, Stream},
    tls::{TlsAcceptor, Transport},
    unsent::{self, Reservation},
};
use crate::{
    networks::TrustedProxies,
    share::{Pool, PoolBounds},
};

pub use super::connection::Deadlines;

/// Delay before retrying after `accept` fails, for example because too many files are open.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Maximum size of a request head, and of the part of a streamed response that hyper buffers.
const BUFFER_BYTES: usize = 64 * 1024;

/// Limits of connections and requests.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Maximum number of concurrent connections. Additional ones wait in the operating system's queue until one of these closes or
    /// becomes a WebSocket; WebSocket connections have their own limit.
    pub connections_max: usize,
    /// Maximum number of concurrent connections from one IPv4 address or IPv6 /64 network. Additional ones are closed.
    pub connections_per_address: u64,
    /// Proxies, which are exempt from the limit per address.
    pub trusted_proxies: TrustedProxies,
    pub deadlines: Deadlines,
    pub bodies: BodyBounds,
    /// Memory limit for responses that clients have not read yet.
    pub unsent: PoolBounds,
}

impl Bounds {
    pub fn new(connections_max: usize) -> Self {
        Self {
            connections_max,
            connections_per_address: (connections_max as u64 / 4).max(1),
            trusted_proxies: TrustedProxies::default(),
            deadlines: Deadlines::default(),
            bodies: BodyBounds::default(),
            unsent: unsent::BOUNDS,
        }
    }
}

/// A bound port, with or without TLS.
pub struct Listener {
    pub tcp: TcpListener,
    pub tls: Option<Arc<TlsAcceptor>>,
}

impl From<TcpListener> for Listener {
    fn from(tcp: TcpListener) -> Self {
        Self { tcp, tls: None }
    }
}

/// Serves until `stop`, then finishes all started requests.
pub async fn serve(
    listener: impl Into<Listener>,
    router: Router,
    bounds: &Bounds,
    stop: CancellationToken,
) {
    let Listener { tcp: listener, tls } = listener.into();
    let slots = Arc::new(Semaphore::new(bounds.connections_max));
    let of_addresses = Pool::new(PoolBounds {
        total: u64::MAX,
        share: bounds.connections_per_address,
    });
    let open = TaskTracker::new();
    let take_in = async {
        // The semaphore is never closed.
        while let Ok(permit) = Arc::clone(&slots).acquire_owned().await {
            let (tcp, address) = accept(&listener).await;
            let host = address.ip().to_canonical();
            let own = if bounds.trusted_proxies.contains(host) {
                None
            } else if let Ok(own) = of_addresses.take(net_of(host), 1) {
                Some(own)
            } else {
                metrics::counter!("openvibe_rate_limited_total", "limit" => "connections")
                    .increment(1);
                continue;
            };
            let (router, deadlines) = (router.clone(), bounds.deadlines);
            let (tls, stop) = (tls.clone(), stop.clone());
            open.spawn(async move {
                let secured = stop.run_until_cancelled(secure(tcp, net_of(host), tls));
                if let Some(transport) = secured.await.flatten() {
                    connection(transport, address, router, deadlines, stop.clone()).await;
                }
                drop((permit, own));
            });
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = take_in => {}
    }
    drop(listener);
    open.close();
    open.wait().await;
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    use std::io::ErrorKind as E;
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // The client closed the connection before it was accepted.
            Err(e)
                if matches!(
                    e.kind(),
                    E::ConnectionRefused | E::ConnectionAborted | E::ConnectionReset
                ) => {}
            Err(e) => {
                tracing::error!(error = %e, "accept failed; retrying");
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
            }
        }
    }
}

/// Completes the TLS handshake, if the listener uses TLS.
async fn secure(tcp: TcpStream, net: IpAddr, tls: Option<Arc<TlsAcceptor>>) -> Option<Transport> {
    // Frames are small and are sent without delay.
    if let Err(e) = tcp.set_nodelay(true) {
        tracing::debug!(error = %e, "could not set TCP_NODELAY");
    }
    match tls {
        None => Some(Transport::Plain(tcp)),
        Some(tls) => tls.accept(tcp, net).await,
    }
}

async fn connection(
    transport: Transport,
    address: SocketAddr,
    router: Router,
    deadlines: Deadlines,
    stop: CancellationToken,
) {
    let exchange = Exchange::new(deadlines);
    let stream = Stream::new(transport, Arc::clone(&exchange));
    let taken = stream.taken();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(address));
        request.extensions_mut().insert(taken.clone());
        answer(router.clone(), Arc::clone(&exchange), request)
    });
    // The stream enforces the deadline for the head, which starts once the previous response has been sent.
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(e) = ended {
        tracing::debug!(error = %e, "a connection failed");
    }
}

async fn answer(
    router: Router,
    exchange: Arc<Exchange>,
    request: Request<Incoming>,
) -> Result<Response<Outgoing>, Infallible> {
    // hyper reads the next head before the previous response has been sent, so the request waits here.
    exchange.begin().await;
    let request = request.map(|body| Body::new(Incomplete::new(body, &exchange)));
    let mut response = router.oneshot(request).await?;
    let kind = if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        ResponseKind::Upgrade
    } else if unsent::is_event_stream(&response) {
        ResponseKind::EventStream
    } else {
        ResponseKind::Document
    };
    let unsent = response.extensions_mut().remove::<Reservation>();
    Ok(response.map(|body| exchange.send(body, kind, unsent)))
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";

    async fn start(bounds: Bounds) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let router = Router::new().route("/", get(async || "here"));
        let serving = TaskTracker::new().spawn({
            let stop = stop.clone();
            async move { serve(listener, router, &bounds, stop).await }
        });
        (address, stop, serving)
    }

    async fn ask(tcp: &mut TcpStream) -> String {
        tcp.write_all(REQUEST).await.unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"here") {
            assert_ne!(tcp.read_buf(&mut text).await.unwrap(), 0, "closed");
        }
        String::from_utf8(text).unwrap()
    }

    #[tokio::test]
    async fn a_client_that_does_not_send_a_complete_head_in_time_is_disconnected() {
        let mut bounds = Bounds::new(8);
        bounds.deadlines.first_within = Duration::from_millis(50);
        let (address, ..) = start(bounds).await;
        for head in [&b""[..], b"GET / HTTP/1.1\r\nhost: he"] {
            let mut tcp = TcpStream::connect(address).await.unwrap();
            tcp.write_all(head).await.unwrap();
            let mut answer = Vec::new();
            tcp.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, b"");
        }
    }

    #[tokio::test]
    async fn an_idle_connection_is_kept_for_the_next_request_and_then_closed() {
        let mut bounds = Bounds::new(8);
        bounds.deadlines.first_within = Duration::from_millis(1);
        bounds.deadlines.next_within = Duration::from_millis(300);
        let (address, ..) = start(bounds).await;
        // The request may miss the deadline of one millisecond, so it is retried.
        let mut tcp = loop {
            let mut tcp = TcpStream::connect(address).await.unwrap();
            tcp.write_all(REQUEST).await.unwrap();
            let mut text = Vec::new();
            while !text.ends_with(b"here") && tcp.read_buf(&mut text).await.unwrap_or(0) > 0 {}
            if text.ends_with(b"here") {
                break tcp;
            }
        };
        ask(&mut tcp).await;
        let mut rest = Vec::new();
        tcp.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"");
    }

    #[tokio::test]
    async fn a_connection_above_the_limit_waits_until_another_closes() {
        let bounds = Bounds {
            connections_per_address: 2,
            ..Bounds::new(2)
        };
        let (address, ..) = start(bounds).await;
        let mut first = TcpStream::connect(address).await.unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        ask(&mut first).await;
        ask(&mut second).await;
        let mut third = TcpStream::connect(address).await.unwrap();
        third.write_all(REQUEST).await.unwrap();
        // The other two are still served; the third gets no response in the meantime.
        ask(&mut first).await;
        ask(&mut second).await;
        let mut nothing = [0; 1];
        let read = third.try_read(&mut nothing);
        assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        drop(first);
        let mut text = Vec::new();
        while !text.ends_with(b"here") {
            assert_ne!(third.read_buf(&mut text).await.unwrap(), 0, "closed");
        }
    }

    #[tokio::test]
    async fn shutdown_closes_idle_connections_and_accepts_no_more() {
        let (address, stop, serving) = start(Bounds::new(8)).await;
        let mut idle = TcpStream::connect(address).await.unwrap();
        ask(&mut idle).await;
        stop.cancel();
        serving.await.unwrap();
        let mut rest = Vec::new();
        idle.read_to_end(&mut rest).await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }
}
