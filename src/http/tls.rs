//! TLS handshakes of accepted connections.

use std::{
    io,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use rustls::{
    ServerConfig,
    server::{Acceptor, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{LazyConfigAcceptor, server::TlsStream};

use crate::{share::SharedTurns, text_enum::text_enum};

/// Maximum time from accepting a connection to the end of its handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of handshakes whose client has sent its first message.
const HANDSHAKES_AT_ONCE: usize = 64;
/// Maximum number of these from one IPv4 address or IPv6 /64 network.
const HANDSHAKES_AT_ONCE_PER_ADDRESS: usize = 16;
const HANDSHAKES_WAITING_MAX: usize = 1024;
/// Application protocol of TLS-ALPN-01 challenges (RFC 8737).
const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";

text_enum! {
    /// Outcome of a handshake.
    enum HandshakeResult {
        Done = "done",
        /// A certificate authority read the answer to its challenge.
        Challenge = "challenge",
        Failed = "failed",
        Late = "late",
    }
}

/// Certificates of the listener.
pub trait Certificates: ResolvesServerCert {
    /// The certificate that answers a TLS-ALPN-01 challenge for this name.
    fn answer(&self, name: String) -> BoxFuture<'static, Option<Arc<CertifiedKey>>>;
}

/// Accepts TLS connections.
#[derive(Debug)]
pub struct TlsAcceptor {
    certificates: Arc<dyn Certificates>,
    config: Arc<ServerConfig>,
    turns: SharedTurns<IpAddr>,
}

impl TlsAcceptor {
    pub fn new(certificates: Arc<dyn Certificates>) -> Arc<Self> {
        let resolver = Arc::clone(&certificates);
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(Self {
            certificates,
            config: Arc::new(config),
            turns: SharedTurns::with_share(
                HANDSHAKES_AT_ONCE_PER_ADDRESS,
                HANDSHAKES_AT_ONCE,
                HANDSHAKES_WAITING_MAX,
            ),
        })
    }

    /// Completes the handshake of a connection. `None` if it failed, was too slow, or was only a challenge.
    pub(super) async fn accept(&self, tcp: TcpStream, net: IpAddr) -> Option<Transport> {
        let shaken = tokio::time::timeout(HANDSHAKE_WITHIN, self.shake_hands(tcp, net)).await;
        let (result, stream) = match shaken {
            Ok(Ok(Some(stream))) => (HandshakeResult::Done, Some(stream)),
            Ok(Ok(None)) => (HandshakeResult::Challenge, None),
            Ok(Err(e)) => {
                tracing::debug!(error = %e, "a TLS handshake failed");
                (HandshakeResult::Failed, None)
            }
            Err(_) => (HandshakeResult::Late, None),
        };
        metrics::counter!("openvibe_tls_handshakes_total", "result" => result.as_str())
            .increment(1);
        stream.map(|stream| Transport::Tls(Box::new(stream)))
    }

    /// Silent clients hold no turn, because a turn is only taken after the client's first message.
    async fn shake_hands(
        &self,
        tcp: TcpStream,
        net: IpAddr,
    ) -> io::Result<Option<TlsStream<TcpStream>>> {
        let start = LazyConfigAcceptor::new(Acceptor::default(), tcp).await?;
        let turn = self.turns.take(net).await;
        turn.as_ref().ok_or(io::ErrorKind::QuotaExceeded)?;
        let hello = start.client_hello();
        let is_challenge = hello
            .alpn()
            .is_some_and(|mut offered| offered.any(|protocol| protocol == CHALLENGE_PROTOCOL));
        if !is_challenge {
            return start.into_stream(Arc::clone(&self.config)).await.map(Some);
        }
        let name = hello.server_name().unwrap_or_default().to_owned();
        let answer = self.certificates.answer(name).await;
        let answer = answer.ok_or(io::ErrorKind::NotFound)?;
        start.into_stream(challenge_config(answer)).await?;
        Ok(None)
    }
}

fn challenge_config(answer: Arc<CertifiedKey>) -> Arc<ServerConfig> {
    let resolver = rustls::sign::SingleCertAndKey::from(answer);
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![CHALLENGE_PROTOCOL.to_vec()];
    Arc::new(config)
}

/// Bytes of a connection, with or without TLS.
pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    pub(super) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        }
    }
}

/// Calls a method of the inner stream.
macro_rules! inner {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).$method($($argument),*),
            Self::Tls(tls) => Pin::new(tls.as_mut()).$method($($argument),*),
        }
    };
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        inner!(self.poll_read(cx, buf))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        inner!(self.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        inner!(self.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(tcp) => tcp.is_write_vectored(),
            Self::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self.poll_shutdown(cx))
    }
}
