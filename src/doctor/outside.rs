//! Checks that reach the server through its public URL: `public`, `https`, `proxy`, `websocket`, `stream`, `upload`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, future::BoxFuture};
use reqwest::{StatusCode, header};
use tokio::io::AsyncReadExt;

use super::{
    finding::{Check, CheckName, Finding},
    http,
    probe::{self, Echo, SOCKET_TEXT, STREAM_EVERY, STREAM_PARTS},
    subject::CheckedServer,
};
use crate::{
    config::Config,
    db::Db,
    server::{PROBE_PATH, hosts::is_loopback_url},
    time::Timestamp,
    tls::certificate,
};

/// Delay from which a part of a stream counts as held back.
const LATE: Duration = Duration::from_millis(500);
/// Maximum size of the tested upload, which is the default limit for files.
const UPLOAD_BYTES_MAX: u64 = 25 << 20;
const PIECE: &[u8] = &[0; 64 * 1024];
/// A certificate should be renewed before this part of its lifetime is left.
const LIFETIME_PART: u32 = 4;

/// Answer at an address.
pub(super) enum ProbeAnswer {
    /// This server.
    Own(Box<Echo>),
    /// Another server, with its name, status, and the target of a redirect.
    Other {
        name: String,
        status: StatusCode,
        location: Option<String>,
    },
    /// No answer, as the end of a sentence.
    Unreachable(String),
}

/// Sends a probe to `base`, and returns who answers.
pub(super) async fn ask(db: &Db, client: &reqwest::Client, base: &str) -> ProbeAnswer {
    let nonce = match probe::announce(db).await {
        Ok(nonce) => nonce,
        Err(e) => return ProbeAnswer::Unreachable(format!("was not asked ({e})")),
    };
    let response = match client
        .get(format!("{base}{PROBE_PATH}{nonce}"))
        .send()
        .await
    {
        Ok(response) => response,
        Err(e) => return ProbeAnswer::Unreachable(http::describe(&e)),
    };
    let status = response.status();
    let text = |name: header::HeaderName| {
        let value = response.headers().get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    let (name, location) = (text(header::SERVER), text(header::LOCATION));
    let echo: Option<Echo> = response.json().await.ok();
    match echo.filter(|echo| echo.nonce == nonce) {
        Some(echo) => ProbeAnswer::Own(Box::new(echo)),
        None => ProbeAnswer::Other {
            name: name.unwrap_or_else(|| format!("status {}", status.as_u16())),
            status,
            location,
        },
    }
}

/// Runs all checks of this group. Those after the first need a public URL that leads to this server.
pub(super) async fn run(s: &CheckedServer) -> Vec<Check> {
    const OTHERS: [CheckName; 4] = [
        CheckName::Proxy,
        CheckName::Websocket,
        CheckName::Stream,
        CheckName::Upload,
    ];
    let mut echo = None;
    let public = super::timed(CheckName::Public, check_public(s, &mut echo).boxed());
    let https = super::timed(CheckName::Https, check_https(s).boxed());
    let (public, https) = futures::join!(public, https);
    let mut checks = vec![public, https];
    match (echo, s.database()) {
        (Some(echo), Ok(db)) => {
            let further: [BoxFuture<'_, Finding>; 4] = [
                std::future::ready(check_proxy(s, &echo)).boxed(),
                check_websocket(s, db).boxed(),
                check_stream(s, db).boxed(),
                check_upload(s, db).boxed(),
            ];
            let timed = OTHERS
                .into_iter()
                .zip(further)
                .map(|(name, check)| super::timed(name, check));
            checks.extend(futures::future::join_all(timed).await);
        }
        _ => {
            for name in OTHERS {
                let skipped = Finding::skipped("the public URL does not lead to this server");
                checks.push(skipped.named(name, Duration::ZERO));
            }
        }
    }
    checks
}

async fn check_public(s: &CheckedServer, echo: &mut Option<Box<Echo>>) -> Finding {
    if let Err(finding) = s.require_outgoing() {
        return finding;
    }
    let db = match s.database() {
        Ok(db) => db,
        Err(finding) => return finding,
    };
    let url = &s.public_url;
    let client = match http::lenient_client() {
        Ok(client) => client,
        Err(e) => return http::no_client(&e),
    };
    match ask(db, &client, url).await {
        ProbeAnswer::Own(found) => {
            *echo = Some(found);
            Finding::ok(format!("{url} leads to this server"))
        }
        ProbeAnswer::Other {
            status,
            location: Some(location),
            ..
        } if status.is_redirection() => Finding::failed(
            format!("{url} redirects to {location}"),
            "set OPENVIBE_PUBLIC_URL to the address without a redirect",
        ),
        ProbeAnswer::Other {
            name,
            status:
                StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT,
            ..
        } => Finding::failed(
            format!("{url} is a proxy that does not reach this server ({name})"),
            format!("point the proxy to {}", s.target()),
        ),
        ProbeAnswer::Other { name, .. } => Finding::failed(
            format!("{url} answers, but it is another server ({name})"),
            if s.has_tls() {
                "correct the DNS record, or forward the port to this machine".to_owned()
            } else {
                format!("point the proxy to {}", s.target())
            },
        ),
        ProbeAnswer::Unreachable(text) => Finding::failed(
            format!("{url} {text}"),
            if s.has_tls() {
                "open its port in the firewall, and correct the DNS record".to_owned()
            } else {
                format!(
                    "start the proxy, and point it to {}; or correct OPENVIBE_PUBLIC_URL",
                    s.target()
                )
            },
        ),
    }
}

async fn check_https(s: &CheckedServer) -> Finding {
    if let Err(finding) = s.require_running().and_then(|()| s.require_outgoing()) {
        return finding;
    }
    let url = &s.public_url;
    if !url.starts_with("https://") {
        if is_loopback_url(url) {
            return Finding::skipped("the public URL is that of this machine");
        }
        return Finding::warning(
            format!("{url} is not encrypted, so passwords can be read on the way"),
            "set OPENVIBE_DOMAIN, or put a proxy with HTTPS in front",
        );
    }
    let remedy = match &s.config.tls {
        Some(tls) if tls.is_ordered() => "press Renew now in Settings › Server",
        Some(_) => "renew the files of OPENVIBE_TLS_CERT and OPENVIBE_TLS_KEY",
        None => "renew the certificate of the proxy",
    };
    if let Some(failure) = &s.certificate_failure {
        return Finding::failed(failure.text.clone(), remedy);
    }
    let client = match http::strict_client() {
        Ok(client) => client,
        Err(e) => return http::no_client(&e),
    };
    match client.get(format!("{url}/healthz")).send().await {
        Ok(response) => lifetime_left(s, &response, remedy),
        Err(e) => match crate::trust::tls_error(&e) {
            Some(rustls::Error::InvalidCertificate(e)) => {
                Finding::failed(invalid_certificate(url, e), remedy)
            }
            Some(e) => Finding::failed(
                format!("{url} has no working TLS ({e})"),
                "serve HTTPS there with a certificate for this name, or correct OPENVIBE_PUBLIC_URL",
            ),
            None => Finding::skipped(format!("{url} {}", http::describe(&e))),
        },
    }
}

fn invalid_certificate(url: &str, e: &rustls::CertificateError) -> String {
    use rustls::CertificateError as E;
    match e {
        E::Expired | E::ExpiredContext { .. } => {
            format!("the certificate of {url} has expired")
        }
        E::NotValidYet | E::NotValidYetContext { .. } => {
            format!("the certificate of {url} is not valid yet: check this machine's clock")
        }
        E::NotValidForName | E::NotValidForNameContext { .. } => {
            format!("the certificate of {url} is for another name")
        }
        E::UnknownIssuer => format!(
            "the certificate of {url} is not signed by a known authority, or its chain is incomplete"
        ),
        other => format!("the certificate of {url} is not valid ({other})"),
    }
}

fn lifetime_left(s: &CheckedServer, response: &reqwest::Response, remedy: &str) -> Finding {
    let info = response.extensions().get::<reqwest::tls::TlsInfo>();
    let lifetime = info
        .and_then(reqwest::tls::TlsInfo::peer_certificate)
        .and_then(certificate::lifetime_of);
    let url = &s.public_url;
    let Some(lifetime) = lifetime else {
        return Finding::ok(format!("the certificate of {url} is valid"));
    };
    let left = lifetime.expires_at.since(Timestamp::now());
    let until = lifetime.expires_at.to_date_text();
    if left < lifetime.expires_at.since(lifetime.issued_at) / LIFETIME_PART {
        return Finding::warning(
            format!("the certificate of {url} expires soon, on {until}"),
            remedy,
        );
    }
    Finding::ok(format!("the certificate of {url} is valid until {until}"))
}

fn check_proxy(s: &CheckedServer, echo: &Echo) -> Finding {
    let url = s.url();
    let host = url.as_ref().and_then(|url| url.host_str());
    let received = echo.host.as_deref().map(without_port);
    if received != host {
        return Finding::failed(
            format!(
                "the proxy replaces Host by {}",
                echo.host.as_deref().unwrap_or("nothing")
            ),
            "pass it on: nginx `proxy_set_header Host $host`, Apache `ProxyPreserveHost On`",
        );
    }
    let is_secure = s.public_url.starts_with("https://");
    if !echo.has_forwarded_for {
        if s.has_tls() || !is_secure {
            return Finding::skipped("no proxy is in front of this server");
        }
        return Finding::warning(
            "the proxy does not send X-Forwarded-For, so all people share one rate limit",
            "nginx `proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for`",
        );
    }
    if !echo.is_trusted {
        let peer = echo.peer;
        return Finding::warning(
            format!("the proxy at {peer} is not trusted, so all people share one rate limit"),
            format!("set OPENVIBE_TRUSTED_PROXIES={peer}"),
        );
    }
    Finding::ok(format!(
        "the proxy passes on Host and the address of its client, {}",
        echo.client
    ))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

/// A request for a part of a new probe.
async fn part_of_probe(s: &CheckedServer, db: &Db, part: &str) -> Result<String, Finding> {
    let nonce = probe::announce(db).await.map_err(|e| {
        Finding::failed(
            format!("the database does not respond ({e})"),
            "check the database",
        )
    })?;
    Ok(format!("{}{PROBE_PATH}{nonce}{part}", s.public_url))
}

/// Runs a check whose preparation can fail.
async fn result(check: impl Future<Output = Result<Finding, Finding>>) -> Finding {
    check.await.unwrap_or_else(|finding| finding)
}

async fn check_websocket(s: &CheckedServer, db: &Db) -> Finding {
    const HINT: &str = "forward WebSockets: nginx `proxy_http_version 1.1`, `proxy_set_header Upgrade $http_upgrade`, \
                        `proxy_set_header Connection \"upgrade\"`; Apache `upgrade=websocket`";
    result(async {
        let url = part_of_probe(s, db, "/ws").await?;
        let client = http::lenient_client().map_err(|e| http::no_client(&e))?;
        let opened = client
            .get(url)
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ==")
            .send()
            .await
            .map_err(|e| http::failed("a WebSocket", &e, HINT))?;
        let status = opened.status();
        if status != StatusCode::SWITCHING_PROTOCOLS {
            let text = format!("WebSockets do not get through (status {})", status.as_u16());
            return Err(Finding::failed(text, HINT));
        }
        let silent = || {
            Finding::failed(
                "a WebSocket opens, but no message gets through",
                "let the proxy pass on the data of WebSockets without a buffer",
            )
        };
        let mut socket = opened.upgrade().await.map_err(|_| silent())?;
        // A short text frame without a mask (RFC 6455, section 5.2).
        let mut frame = [0; 2 + SOCKET_TEXT.len()];
        socket.read_exact(&mut frame).await.map_err(|_| silent())?;
        if frame.ends_with(SOCKET_TEXT.as_bytes()) {
            Ok(Finding::ok("WebSockets get through"))
        } else {
            Err(silent())
        }
    })
    .await
}

async fn check_stream(s: &CheckedServer, db: &Db) -> Finding {
    const HINT: &str = "turn buffering off: nginx `proxy_buffering off`, Apache `flushpackets=on`";
    result(async {
        let url = part_of_probe(s, db, "/stream").await?;
        let client = http::lenient_client().map_err(|e| http::no_client(&e))?;
        let broken = |e: &reqwest::Error| http::failed("a streamed response", e, HINT);
        let mut response = client.get(url).send().await.map_err(|e| broken(&e))?;
        let status = response.status();
        if !status.is_success() {
            let text = format!("a streamed response has status {}", status.as_u16());
            return Err(Finding::failed(text, HINT));
        }
        let (mut first, mut last) = (None, None);
        while let Some(_part) = response.chunk().await.map_err(|e| broken(&e))? {
            last = Some(Instant::now());
            first = first.or(last);
        }
        let sent_over = STREAM_EVERY * (STREAM_PARTS - 1);
        let received_over = first.zip(last).map(|(first, last)| last - first);
        let late = sent_over.saturating_sub(received_over.unwrap_or_default());
        if late > LATE {
            return Err(Finding::failed(
                format!("parts of a response arrive {} ms late", late.as_millis()),
                HINT,
            ));
        }
        Ok(Finding::ok("parts of a response arrive at once"))
    })
    .await
}

fn upload_bytes(config: &Config) -> u64 {
    config.upload_bytes_max.min(UPLOAD_BYTES_MAX)
}

async fn check_upload(s: &CheckedServer, db: &Db) -> Finding {
    let size = upload_bytes(&s.config);
    let mib = size.div_ceil(1 << 20);
    let hint = format!(
        "raise the limit of the proxy: nginx `client_max_body_size {}m`",
        mib + 1
    );
    result(async {
        let url = part_of_probe(s, db, "/upload").await?;
        let client = http::lenient_client().map_err(|e| http::no_client(&e))?;
        let pieces = (0..size.div_ceil(PIECE.len() as u64)).map(move |n| {
            let left = size - n * PIECE.len() as u64;
            let length = usize::try_from(left).map_or(PIECE.len(), |left| left.min(PIECE.len()));
            Ok::<_, std::convert::Infallible>(Bytes::from_static(
                PIECE.get(..length).unwrap_or(PIECE),
            ))
        });
        let body = reqwest::Body::wrap_stream(futures::stream::iter(pieces).boxed());
        let sent = client
            .post(url)
            .header(header::CONTENT_LENGTH, size)
            .body(body)
            .send()
            .await;
        let response =
            sent.map_err(|e| http::failed(&format!("an upload of {mib} MiB"), &e, hint.clone()))?;
        match response.status() {
            status if status.is_success() => {
                Ok(Finding::ok(format!("uploads of {mib} MiB get through")))
            }
            StatusCode::PAYLOAD_TOO_LARGE => Err(Finding::failed(
                format!("the proxy refuses uploads of {mib} MiB (status 413)"),
                hint.clone(),
            )),
            status => Err(Finding::failed(
                format!("an upload of {mib} MiB has status {}", status.as_u16()),
                hint.clone(),
            )),
        }
    })
    .await
}
