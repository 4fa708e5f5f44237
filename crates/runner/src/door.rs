//! The only way out of the sandbox: a Unix socket with a few routes.
//!
//! | request | goes to |
//! | --- | --- |
//! | `/openvibe/v1/chat/completions`, `/openvibe/v1/responses`, `/openvibe/mcp` | the server, with the turn's key |
//! | `/NAME/…` | the provider of the turn's engine, with the runner's header |
//! | `CONNECT HOST:443` | a listed host with a public address |
//!
//! Everything else is 403. Credentials from inside are dropped.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::BoxFuture};
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Frame, Incoming},
    header::{self, HeaderMap, HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, copy_bidirectional},
    net::{TcpListener, TcpStream, UnixListener, lookup_host},
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Owner,
    config::{Config, SandboxKind},
    failure::Failure,
    frames::cut,
    sandbox::DoorAddress,
};

const BODY_BYTES_MAX: usize = 8 << 20;
const CONNECTIONS_MAX: usize = 64;
/// Connections to listed hosts at the same time.
const TUNNELS_MAX: usize = 64;
const CONNECT_MAX: Duration = Duration::from_secs(10);
const BODY_MAX: Duration = Duration::from_mins(1);
/// Paths that lead to the server.
const SERVER_PATHS: [&str; 3] =
    ["/openvibe/v1/chat/completions", "/openvibe/v1/responses", "/openvibe/mcp"];
/// Maximum length of a socket's path.
const PATH_BYTES_MAX: usize = 107;

type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// What a door leads to.
pub(crate) struct Ways {
    pub(crate) server: String,
    /// Key of the turn; none during the setup.
    pub(crate) key: Option<String>,
    pub(crate) engine: Option<Provider>,
    /// Hosts for `CONNECT`.
    pub(crate) allow: Vec<String>,
    pub(crate) client: reqwest::Client,
}

pub(crate) struct Provider {
    pub(crate) name: String,
    pub(crate) to: String,
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
}

/// An open door, which closes when it is dropped.
pub(crate) struct Door {
    pub(crate) address: DoorAddress,
    /// Hosts that were blocked.
    pub(crate) blocked: mpsc::Receiver<String>,
    socket: Option<PathBuf>,
    _open: DropGuard,
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            // The next door with this name removes it, too.
            let _ = std::fs::remove_file(socket);
        }
    }
}

struct Keeper {
    ways: Ways,
    blocked: mpsc::Sender<String>,
    owner: Owner,
    closed: CancellationToken,
    tunnels: Arc<Semaphore>,
}

impl Door {
    /// Opens a door for a session: as a socket for the sandbox, or else on a port of this machine.
    pub(crate) async fn open(
        config: &Config,
        session: &str,
        ways: Ways,
        owner: &Owner,
    ) -> Result<Self, Failure> {
        let (blocked, receiver) = mpsc::channel(16);
        let closed = CancellationToken::new();
        let keeper = Arc::new(Keeper {
            ways,
            blocked,
            owner: owner.clone(),
            closed: closed.clone(),
            tunnels: Arc::new(Semaphore::new(TUNNELS_MAX)),
        });
        let (address, socket, listener) = match config.sandbox {
            SandboxKind::Bubblewrap => {
                let path = socket_path(&config.data_dir, session)?;
                let listener = UnixListener::bind(&path)?;
                (DoorAddress::Socket(path.clone()), Some(path), Listener::Socket(listener))
            }
            SandboxKind::None => {
                let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
                let port = listener.local_addr()?.port();
                (DoorAddress::Port(port), None, Listener::Port(listener))
            }
        };
        owner.spawn(keeper.serve(listener));
        Ok(Self { address, blocked: receiver, socket, _open: closed.drop_guard() })
    }
}

fn socket_path(data: &Path, session: &str) -> Result<PathBuf, Failure> {
    let directory = data.join("doors");
    std::fs::create_dir_all(&directory)?;
    let path = directory.join(session);
    if path.as_os_str().len() > PATH_BYTES_MAX {
        return Err(Failure::sandbox(format!(
            "the path {} is too long for a socket: set a shorter data_dir",
            path.display()
        )));
    }
    let _ = std::fs::remove_file(&path);
    Ok(path)
}

trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Connection for T {}

enum Listener {
    Socket(UnixListener),
    Port(TcpListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Box<dyn Connection>> {
        let stream: Box<dyn Connection> = match self {
            Self::Socket(listener) => Box::new(listener.accept().await?.0),
            Self::Port(listener) => Box::new(listener.accept().await?.0),
        };
        Ok(stream)
    }
}

impl Keeper {
    async fn serve(self: Arc<Self>, listener: Listener) {
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        while let Some(accepted) = self.closed.run_until_cancelled(listener.accept()).await {
            let Ok(stream) = accepted else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let Ok(permit) = connections.clone().try_acquire_owned() else { continue };
            let serving = self.closed.clone().run_until_cancelled_owned(self.converse(stream));
            self.owner.spawn(async move {
                serving.await;
                drop(permit);
            });
        }
    }

    /// Answers the requests of a connection. Boxed outside of any future, because the compiler cannot prove that
    /// hyper's type is `Send` inside one.
    fn converse(self: &Arc<Self>, stream: Box<dyn Connection>) -> BoxFuture<'static, ()> {
        let keeper = self.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let keeper = keeper.clone();
            async move { Ok::<_, Infallible>(keeper.answer(request).await) }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30));
        let serving = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        // Errors of a connection are seen by its client.
        serving.map(|_| ()).boxed()
    }

    async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        if request.method() == Method::CONNECT {
            return self.connect(request).await;
        }
        let path = request.uri().path().to_owned();
        let lower = path.to_ascii_lowercase();
        if request.uri().authority().is_some()
            || lower.contains("..")
            || lower.contains("%2e")
            || path.contains('\\')
        {
            return self.block(request.uri().host().unwrap_or(&path));
        }
        let query = request.uri().query().map(without_keys).filter(|query| !query.is_empty());
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        if SERVER_PATHS.contains(&path.as_str())
            && let Some(key) = &self.ways.key
        {
            // MCP clients try GET for a stream of messages; this is the answer if there is none.
            if request.method() != Method::POST {
                return status(StatusCode::METHOD_NOT_ALLOWED, "");
            }
            let Ok(mut value) = HeaderValue::try_from(format!("Bearer {key}")) else {
                return status(StatusCode::BAD_GATEWAY, "");
            };
            value.set_sensitive(true);
            let url = format!("{}{}", self.ways.server, path.trim_start_matches("/openvibe"));
            return self.forward(request, url, Some((header::AUTHORIZATION, value))).await;
        }
        let Some(provider) = &self.ways.engine else { return self.block(&path) };
        let Some(rest) = path.strip_prefix(&format!("/{}/", provider.name)) else {
            return self.block(&path);
        };
        let url = format!("{}/{rest}{query}", provider.to.trim_end_matches('/'));
        self.forward(request, url, provider.header.clone()).await
    }

    fn block(&self, name: &str) -> Response<Body> {
        // Only some of many are shown.
        let _ = self.blocked.try_send(cut(name, 100).to_owned());
        status(StatusCode::FORBIDDEN, "This is not reachable from the sandbox")
    }

    async fn forward(
        &self,
        request: Request<Incoming>,
        url: String,
        own: Option<(HeaderName, HeaderValue)>,
    ) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = match timeout(BODY_MAX, Limited::new(body, BODY_BYTES_MAX).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => {
                return status(StatusCode::PAYLOAD_TOO_LARGE, "The request is larger than 8 MiB");
            }
            Err(_) => return status(StatusCode::REQUEST_TIMEOUT, "The request is too slow"),
        };
        let mut headers = kept(&head.headers, is_forwarded);
        if let Some((name, value)) = own {
            headers.insert(name, value);
        }
        let sent =
            self.ways.client.request(head.method, url).headers(headers).body(body).send().await;
        let Ok(answer) = sent else {
            return status(StatusCode::BAD_GATEWAY, "The runner cannot reach this");
        };
        let mut response = Response::builder().status(answer.status());
        if let Some(all) = response.headers_mut() {
            *all = kept(answer.headers(), is_returned);
        }
        let stream = answer.bytes_stream().map(|part| part.map(Frame::data));
        let body = Limited::new(StreamBody::new(stream), BODY_BYTES_MAX).boxed_unsync();
        response.body(body).unwrap_or_else(|_| status(StatusCode::BAD_GATEWAY, ""))
    }

    async fn connect(self: &Arc<Self>, mut request: Request<Incoming>) -> Response<Body> {
        let host = request.uri().host().unwrap_or_default().to_ascii_lowercase();
        let is_listed = self.ways.allow.iter().any(|name| name.eq_ignore_ascii_case(&host));
        if !is_listed || request.uri().port_u16() != Some(443) {
            return self.block(&host);
        }
        // The permit of the connection ends with this answer.
        let Ok(permit) = self.tunnels.clone().try_acquire_owned() else {
            return status(StatusCode::SERVICE_UNAVAILABLE, "Too many connections are open");
        };
        let Some(mut stream) = connect_public(&host).await else {
            return self.block(&host);
        };
        let closed = self.closed.clone();
        let upgrading = hyper::upgrade::on(&mut request);
        self.owner.spawn(async move {
            let copying = async {
                if let Ok(client) = upgrading.await {
                    // Either side ends the connection.
                    let _ = copy_bidirectional(&mut TokioIo::new(client), &mut stream).await;
                }
            };
            closed.run_until_cancelled(copying).await;
            drop(permit);
        });
        status(StatusCode::OK, "")
    }
}

async fn connect_public(host: &str) -> Option<TcpStream> {
    let mut found = timeout(CONNECT_MAX, lookup_host((host, 443))).await.ok()?.ok()?;
    // The address that is checked is the one that is used.
    let address: SocketAddr = found.find(|address| is_public(address.ip()))?;
    timeout(CONNECT_MAX, TcpStream::connect(address)).await.ok()?.ok()
}

fn status(code: StatusCode, text: &'static str) -> Response<Body> {
    let body = Full::new(Bytes::from_static(text.as_bytes()));
    let mut response = Response::new(body.map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = code;
    response
}

fn kept(headers: &HeaderMap, is_kept: fn(&HeaderName) -> bool) -> HeaderMap {
    let all = headers.iter().filter(|(name, _)| is_kept(name));
    all.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Headers of one connection.
fn is_of_connection(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "host"
            | "content-length"
            | "keep-alive"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "expect"
    )
}

fn is_forwarded(name: &HeaderName) -> bool {
    let text = name.as_str();
    let is_secret =
        ["auth", "key", "token", "cookie", "secret"].iter().any(|word| text.contains(word));
    !is_of_connection(name)
        && !is_secret
        && !text.starts_with("proxy-")
        && !text.contains("forwarded")
}

fn is_returned(name: &HeaderName) -> bool {
    !is_of_connection(name) && *name != header::SET_COOKIE
}

/// A query without credentials.
fn without_keys(query: &str) -> String {
    let is_kept = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default().to_ascii_lowercase();
        !(name.contains("key") || name.contains("token") || name.contains('%'))
    };
    query.split('&').filter(is_kept).collect::<Vec<_>>().join("&")
}

/// True if an address belongs to the Internet, and not to this machine, a private network, or a special purpose.
fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_special = a == 0
        || a >= 224
        || (a == 100 && b & 0xc0 == 64)
        || (a == 198 && b & 0xfe == 18)
        || matches!((a, b, c), (192, 0, 0 | 2) | (192, 88, 99) | (198, 51, 100) | (203, 0, 113));
    !(is_special || ip.is_loopback() || ip.is_private() || ip.is_link_local())
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [a, b, c, _, _, _, high, low] = ip.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low));
    match (a, b) {
        (0x64, 0xff9b) => c == 0 && is_public_v4(v4(high, low)),
        (0x2002, _) => is_public_v4(v4(b, c)),
        // Protocol assignments such as Teredo, and documentation.
        (0x2001, b) => b >= 0x0200 && b != 0x0db8,
        (0x3fff, b) => b >= 0x1000,
        _ => a & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_and_special_addresses_are_not_public() {
        for ip in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "fd00::1",
            "fe80::1",
            "2001::1",
            "2001:db8::1",
            "ff02::1",
        ] {
            assert!(!is_public(ip.parse().unwrap()), "{ip}");
        }
        for ip in ["1.1.1.1", "2606:4700::1111", "64:ff9b::101:101"] {
            assert!(is_public(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn credentials_from_inside_are_dropped() {
        for name in [
            "authorization",
            "x-api-key",
            "x-goog-api-key",
            "cookie",
            "proxy-authorization",
            "x-auth-token",
            "host",
        ] {
            assert!(!is_forwarded(&HeaderName::from_static(name)), "{name}");
        }
        assert!(is_forwarded(&HeaderName::from_static("anthropic-version")));
        assert_eq!(without_keys("alt=sse&key=abc&%6bey=abc&x=1"), "alt=sse&x=1");
    }

    #[tokio::test]
    async fn only_listed_paths_lead_out() {
        let repositories = ["api=https://git.example/api.git".to_owned()];
        let mut config =
            Config::of_arguments("http://127.0.0.1:9", "ovr_x", &repositories).unwrap();
        config.sandbox = SandboxKind::None;
        let client = crate::client().unwrap();
        let ways = Ways {
            server: config.server.clone(),
            key: Some("turn-key".to_owned()),
            engine: None,
            allow: Vec::new(),
            client: client.clone(),
        };
        let mut door = Door::open(&config, "code_1", ways, &Owner::new()).await.unwrap();
        let url = door.address.url();
        for (path, code) in
            [("/openvibe/mcp", 405_u16), ("/openvibe/v1/messages", 403), ("/claude/v1/x", 403)]
        {
            let answer = client.get(format!("{url}{path}")).send().await.unwrap();
            assert_eq!(answer.status().as_u16(), code, "{path}");
        }
        assert_eq!(door.blocked.recv().await.unwrap(), "/openvibe/v1/messages");
        let answer = client.post(format!("{url}/openvibe/mcp")).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 502);
    }

    #[tokio::test]
    async fn tunnels_are_limited() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let ways = Ways {
            server: "http://127.0.0.1:9".to_owned(),
            key: None,
            engine: None,
            allow: vec!["packages.example.org".to_owned()],
            client: crate::client().unwrap(),
        };
        let (blocked, _receiver) = mpsc::channel(16);
        let (owner, closed) = (Owner::new(), CancellationToken::new());
        let tunnels = Arc::new(Semaphore::new(0));
        let keeper = Arc::new(Keeper { ways, blocked, owner, closed: closed.clone(), tunnels });
        let (mut client, connection) = tokio::io::duplex(4096);
        let _closed = closed.drop_guard();
        keeper.owner.spawn(keeper.converse(Box::new(connection)));
        client.write_all(b"CONNECT packages.example.org:443 HTTP/1.1\r\n\r\n").await.unwrap();
        let mut answer = [0; 12];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 503");
    }

    #[test]
    fn a_socket_path_must_fit() {
        let directory = tempfile::tempdir().unwrap();
        assert!(socket_path(directory.path(), "code_1").is_ok());
        let error = socket_path(&directory.path().join("x".repeat(100)), "code_1").unwrap_err();
        assert!(error.message.contains("data_dir"));
    }
}
