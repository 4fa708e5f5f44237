//! A certificate authority that refuses all orders: the part of ACME (RFC 8555) up to an order, over HTTPS.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use super::pebble::write_certificates;

/// Way in which orders are refused.
#[derive(Debug, Clone, Copy)]
pub struct OrderRefusal {
    pub status: u16,
    /// End of the problem's type.
    pub kind: &'static str,
    pub retry_after_s: Option<u32>,
    /// Number of orders whose nonce is rejected before that.
    pub bad_nonces: usize,
}

pub struct RefusingAuthority {
    port: u16,
    dir: PathBuf,
    orders: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

struct Answerer {
    base: String,
    refusal: OrderRefusal,
    orders: Arc<AtomicUsize>,
    nonces: AtomicUsize,
}

/// Acceptor of connections to localhost, with a certificate whose authority is in `ca.pem`.
pub(super) fn certified(dir: &Path) -> TlsAcceptor {
    // Fails only if a provider was already installed in this process.
    drop(rustls::crypto::ring::default_provider().install_default());
    std::fs::write(dir.join("ca.pem"), write_certificates(dir)).unwrap();
    let chain = vec![CertificateDer::from_pem_file(dir.join("cert.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(dir.join("key.pem")).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

impl RefusingAuthority {
    pub async fn start(refusal: OrderRefusal) -> Self {
        let dir = std::env::temp_dir().join(format!("openvibe-authority-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&dir).unwrap();
        let acceptor = certified(&dir);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let orders = Arc::new(AtomicUsize::new(0));
        let answerer = Answerer {
            base: format!("https://localhost:{port}"),
            refusal,
            orders: Arc::clone(&orders),
            nonces: AtomicUsize::new(0),
        };
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let Ok(mut tls) = acceptor.accept(tcp).await else {
                    continue;
                };
                // The end of a connection is no failure of the test.
                drop(answerer.answer(&mut tls).await);
            }
        });
        Self {
            port,
            dir,
            orders,
            _serving: serving,
        }
    }

    /// Settings of a server that orders its certificate here.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("ACME_URL", format!("https://localhost:{}/dir", self.port)),
            ("CA_FILE", self.dir.join("ca.pem").display().to_string()),
        ]
    }

    /// Number of requests for an order so far.
    pub fn orders(&self) -> usize {
        self.orders.load(Ordering::Relaxed)
    }
}

impl Drop for RefusingAuthority {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

impl Answerer {
    /// Answers one request, and closes the connection.
    async fn answer(&self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"));
        let length = length.map_or(0, |length| length.trim().parse::<usize>().unwrap());
        stream.read_exact(&mut vec![0; length]).await?;
        let mut words = head.split(' ');
        let method = words.next().unwrap_or_default();
        let path = words.next().unwrap_or_default();
        let mut response = self.response(path);
        if method == "head" {
            let end = response.find("\r\n\r\n").unwrap() + 4;
            response.truncate(end);
        }
        stream.write_all(response.as_bytes()).await?;
        stream.shutdown().await
    }

    fn response(&self, path: &str) -> String {
        let base = &self.base;
        let mut headers = String::new();
        let (status, body) = match path {
            "/dir" => {
                let directory = json!({
                    "newNonce": format!("{base}/nonce"),
                    "newAccount": format!("{base}/account"),
                    "newOrder": format!("{base}/order"),
                });
                (200, directory)
            }
            "/account" => {
                headers = format!("location: {base}/account/1\r\n");
                (201, json!({"status": "valid"}))
            }
            "/order" => {
                let before = self.orders.fetch_add(1, Ordering::Relaxed);
                let refusal = self.refusal;
                let (status, kind) = if before < refusal.bad_nonces {
                    (400, "badNonce")
                } else {
                    if let Some(seconds) = refusal.retry_after_s {
                        headers = format!("retry-after: {seconds}\r\n");
                    }
                    (refusal.status, refusal.kind)
                };
                let problem = json!({
                    "type": format!("urn:ietf:params:acme:error:{kind}"), "detail": "because of a test",
                });
                (status, problem)
            }
            _ => (200, json!({})),
        };
        let nonce = self.nonces.fetch_add(1, Ordering::Relaxed);
        let body = body.to_string();
        format!(
            "HTTP/1.1 {status} Status\r\nreplay-nonce: nonce-{nonce}\r\ncontent-type: application/json\r\n{headers}\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
    }
}
