//! Connections: taken in up to a bound, of which one address has a share; closed when their clients take too long; ended in
//! order when the server stops.
//!
//! `axum::serve` bounds neither their number nor how slowly the head of a request may come or a response may go.

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
    bodies::BodyBounds,
    connection::{Exchange, Incomplete, Outgoing, ResponseKind, Stream},
    unsent::{self, Reservation},
};
use crate::{
    auth::net_of,
    share::{Pool, PoolBounds},
};

pub use super::connection::Deadlines;

/// After an accept that failed for want of something, such as open files.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// The head of a request, and what hyper holds of a response that is made while it is sent.
const BUFFER_BYTES: usize = 64 * 1024;

/// What connections and requests may cost.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Connections at the same time. Further ones wait in the system's queue until one of these ends or becomes a WebSocket,
    /// which is counted elsewhere.
    pub connections_max: usize,
    /// Connections from one address at the same time. Further ones are closed.
    pub connections_per_address: u64,
    /// Proxies, whose connections are everybody's.
    pub trusted_proxies: Vec<IpAddr>,
    pub deadlines: Deadlines,
    pub bodies: BodyBounds,
    /// Memory of responses that their clients have not read.
    pub unsent: PoolBounds,
}

impl Bounds {
    pub fn new(connections_max: usize) -> Self {
        Self {
            connections_max,
            connections_per_address: (connections_max as u64 / 4).max(1),
            trusted_proxies: Vec::new(),
            deadlines: Deadlines::default(),
            bodies: BodyBounds::default(),
            unsent: unsent::BOUNDS,
        }
    }
}

/// Serves until `stop`, then until every request that has begun is answered.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    bounds: &Bounds,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(bounds.connections_max));
    let of_addresses = Pool::new(PoolBounds {
        total: u64::MAX,
        share: bounds.connections_per_address,
    });
    let open = TaskTracker::new();
    let take_in = async {
        // The semaphore is never closed.
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            let (tcp, address) = accept(&listener).await;
            let host = address.ip().to_canonical();
            let own = if bounds.trusted_proxies.contains(&host) {
                None
            } else if let Ok(own) = of_addresses.take(net_of(host), 1) {
                Some(own)
            } else {
                metrics::counter!("openvibe_rate_limited_total", "limit" => "connections")
                    .increment(1);
                continue;
            };
            let connection =
                connection(tcp, address, router.clone(), bounds.deadlines, stop.clone());
            open.spawn(async move {
                connection.await;
                drop((place, own));
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
            // It was gone before it was taken in.
            Err(e)
                if matches!(
                    e.kind(),
                    E::ConnectionRefused | E::ConnectionAborted | E::ConnectionReset
                ) => {}
            Err(e) => {
                tracing::error!(error = %e, "no connection can be taken in; trying again");
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
            }
        }
    }
}

async fn connection(
    tcp: TcpStream,
    address: SocketAddr,
    router: Router,
    deadlines: Deadlines,
    stop: CancellationToken,
) {
    // Frames are small and wait for nobody.
    if let Err(e) = tcp.set_nodelay(true) {
        tracing::debug!(error = %e, "TCP_NODELAY could not be set");
    }
    let exchange = Exchange::new(deadlines);
    let stream = Stream::new(tcp, Arc::clone(&exchange));
    let taken = stream.taken();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(address));
        request.extensions_mut().insert(taken.clone());
        answer(router.clone(), Arc::clone(&exchange), request)
    });
    // The stream keeps the deadline of the head, which begins when the previous response was sent.
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
        tracing::debug!(error = %e, "a connection broke off");
    }
}

async fn answer(
    router: Router,
    exchange: Arc<Exchange>,
    request: Request<Incoming>,
) -> Result<Response<Outgoing>, Infallible> {
    // hyper reads the next head early.
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
    async fn who_sends_no_whole_head_in_time_is_cut_off() {
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
    async fn a_connection_that_has_asked_stays_for_the_next_request_and_then_ends() {
        let mut bounds = Bounds::new(8);
        bounds.deadlines.first_within = Duration::from_millis(1);
        bounds.deadlines.next_within = Duration::from_millis(300);
        let (address, ..) = start(bounds).await;
        // Whether a request comes within a millisecond is chance.
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
    async fn a_connection_too_many_waits_until_another_ends() {
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
        // The others are still served, and the third has no answer while they are.
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
    async fn stopping_ends_connections_without_work_and_takes_in_no_more() {
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
