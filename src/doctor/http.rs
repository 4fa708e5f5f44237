//! HTTP clients of the checks. They connect only to addresses that the operator has set.

use std::{error::Error, io, time::Duration};

use super::finding::Finding;
use crate::trust;

const CONNECT_WITHIN: Duration = Duration::from_secs(4);
const REQUEST_WITHIN: Duration = Duration::from_secs(8);

fn builder() -> reqwest::ClientBuilder {
    // Through a proxy, requests would not take the way that people's do.
    outgoing().no_proxy()
}

fn outgoing() -> reqwest::ClientBuilder {
    trust::client_builder()
        .user_agent(concat!("openvibe/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_WITHIN)
        .timeout(REQUEST_WITHIN)
        .redirect(reqwest::redirect::Policy::none())
        // As browsers do for WebSockets: HTTP/2 has no upgrades.
        .http1_only()
}

/// A client that verifies certificates, and connects as the server does to other servers.
pub(super) fn outgoing_client() -> reqwest::Result<reqwest::Client> {
    outgoing().build()
}

/// A client that accepts any certificate, because another check reports what is wrong with it. It sends no secrets.
pub(super) fn lenient_client() -> reqwest::Result<reqwest::Client> {
    builder().tls_danger_accept_invalid_certs(true).build()
}

/// A client that connects to `address` instead of the address of `host`.
pub(super) fn client_to(
    host: &str,
    address: std::net::SocketAddr,
) -> reqwest::Result<reqwest::Client> {
    builder()
        .tls_danger_accept_invalid_certs(true)
        .resolve(host, address)
        .build()
}

/// A client that verifies certificates.
pub(super) fn strict_client() -> reqwest::Result<reqwest::Client> {
    builder().tls_info(true).build()
}

/// Finding for a client that could not be created.
pub(super) fn no_client(e: &reqwest::Error) -> Finding {
    Finding::failed(
        format!("no HTTPS client can be made ({})", trust::setup_failure(e)),
        "install certificate authorities, such as Debian's package ca-certificates",
    )
}

/// Finding for a failed request to `subject`. `hint` is the remedy unless the error has one of its own.
pub(super) fn failed(
    subject: &str,
    error: &(dyn Error + 'static),
    hint: impl Into<String>,
) -> Finding {
    match trust::advice(error).and_then(|advice| advice.split_once(": ")) {
        Some((fact, remedy)) => {
            Finding::failed(format!("{subject} cannot be used: {fact}"), remedy)
        }
        None => Finding::failed(format!("{subject} {}", describe(error)), hint),
    }
}

/// Describes why a request failed, as the end of a sentence that begins with an address.
pub(super) fn describe(error: &(dyn Error + 'static)) -> String {
    if let Some(advice) = trust::advice(error) {
        return format!("cannot be used: {advice}");
    }
    if let Some(tls) = trust::tls_error(error) {
        return format!("has no working TLS ({tls})");
    }
    match io_kind(error) {
        Some(io::ErrorKind::ConnectionRefused) => "refuses connections".to_owned(),
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof) => {
            "closes connections".to_owned()
        }
        Some(io::ErrorKind::TimedOut) => "does not answer".to_owned(),
        _ if is_timeout(error) => "does not answer".to_owned(),
        _ => format!("cannot be reached ({})", innermost(error)),
    }
}

fn is_timeout(error: &(dyn Error + 'static)) -> bool {
    error
        .downcast_ref::<reqwest::Error>()
        .is_some_and(reqwest::Error::is_timeout)
}

fn io_kind(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
    if let Some(found) = error.downcast_ref::<io::Error>() {
        return Some(found.kind());
    }
    error.source().and_then(io_kind)
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    match error.source() {
        Some(source) => innermost(source),
        None => error.to_string(),
    }
}
