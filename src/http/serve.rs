//! Connections: taken in up to a bound, closed when no request comes over them in time, ended in order when the server stops.
//!
//! `axum::serve` bounds neither their number nor how slowly the head of a request may come.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Request},
    response::Response,
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

/// After an accept that failed for want of something, such as open files.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What a connection may cost.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Open at once. Further ones wait in the system's queue until one of these ends or becomes a WebSocket, which is
    /// counted elsewhere.
    pub connections_max: usize,
    /// From its beginning until its first request has come as far as the end of the head.
    pub first_within: Duration,
    /// The same for every further request; so a connection without work stays open this long. Longer than proxies keep
    /// theirs (nginx: 60 s), so that it is the proxy who ends it and no request meets a closed connection.
    pub next_within: Duration,
}

impl Bounds {
    pub fn new(connections_max: usize) -> Self {
        Self {
            connections_max,
            first_within: Duration::from_mins(1),
            next_within: Duration::from_mins(2),
        }
    }
}

/// Serves until `stop`, then until every request that has begun is answered.
pub async fn serve(listener: TcpListener, router: Router, bounds: Bounds, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(bounds.connections_max));
    let open = TaskTracker::new();
    let take_in = async {
        // The semaphore is never closed.
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            let (tcp, address) = accept(&listener).await;
            let connection = connection(tcp, address, router.clone(), bounds, stop.clone());
            open.spawn(async move {
                connection.await;
                drop(place);
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
    bounds: Bounds,
    stop: CancellationToken,
) {
    // Frames are small and wait for nobody.
    if let Err(e) = tcp.set_nodelay(true) {
        tracing::debug!(error = %e, "TCP_NODELAY could not be set");
    }
    let was_asked = Arc::new(AtomicBool::new(false));
    let service = {
        let was_asked = Arc::clone(&was_asked);
        service_fn(move |request: Request<Incoming>| {
            was_asked.store(true, Ordering::Relaxed);
            answer(router.clone(), address, request.map(Body::new))
        })
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.next_within)
        .serve_connection(TokioIo::new(tcp), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let asks_in_time = async {
        tokio::time::sleep(bounds.first_within).await;
        if was_asked.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = asks_in_time => return,
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
    address: SocketAddr,
    mut request: Request,
) -> Result<Response, Infallible> {
    request.extensions_mut().insert(ConnectInfo(address));
    router.oneshot(request).await
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
        let serving = TaskTracker::new().spawn(serve(listener, router, bounds, stop.clone()));
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
        let bounds = Bounds {
            first_within: Duration::from_millis(50),
            ..Bounds::new(8)
        };
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
        let bounds = Bounds {
            first_within: Duration::from_millis(1),
            next_within: Duration::from_millis(300),
            ..Bounds::new(8)
        };
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
        let (address, ..) = start(Bounds::new(2)).await;
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
