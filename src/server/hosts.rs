//! Names of hosts in headers and URLs.

use std::net::IpAddr;

/// Parses host and port; loopback addresses are normalized to `localhost`.
pub(super) fn authority(text: &str, default_port: u16) -> Option<(String, u16)> {
    let text = text.to_ascii_lowercase();
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host.to_owned(), port.parse().ok()?),
        _ => (text, default_port),
    };
    let host = if matches!(host.as_str(), "127.0.0.1" | "[::1]") {
        "localhost".to_owned()
    } else {
        host
    };
    (!host.is_empty()).then_some((host, port))
}

pub(super) fn origin_authority(origin: &str) -> Option<((String, u16), u16)> {
    let (scheme, rest) = origin.split_once("://")?;
    let default_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let rest = rest.split('/').next()?;
    Some((authority(rest, default_port)?, default_port))
}

/// Checks whether a host is a loopback name or address. DNS cannot assign such a name to another site (RFC 6761 §6.3).
pub(super) fn is_loopback_name(host: &str) -> bool {
    host == "localhost"
        || host.ends_with(".localhost")
        || host
            .trim_matches(['[', ']'])
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Checks whether a URL names this machine.
pub fn is_loopback_url(url: &str) -> bool {
    origin_authority(url).is_some_and(|((host, _), _)| is_loopback_name(&host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_this_machine_are_loopback() {
        for (url, is_loopback) in [
            ("http://localhost:8080", true),
            ("http://127.0.0.1:8080", true),
            ("http://[::1]:8080", true),
            ("https://team.localhost", true),
            ("https://chat.example.org", false),
            ("http://192.0.2.7:8080", false),
            ("http://0.0.0.0:8080", false),
        ] {
            assert_eq!(is_loopback_url(url), is_loopback, "{url}");
        }
    }
}
