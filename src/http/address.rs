//! Address of the client behind trusted proxies.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Once,
};

use axum::{
    extract::ConnectInfo,
    http::{Extensions, HeaderMap},
};

use crate::networks::TrustedProxies;

/// Network of one subscriber: the address itself for IPv4, its /64 for IPv6.
pub fn net_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Headers with which proxies describe the request that they forward.
const FORWARDING: [&str; 6] = [
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
];

/// Checks whether a proxy forwarded a request. A proxy on the same machine connects from a loopback address.
pub fn is_forwarded(headers: &HeaderMap) -> bool {
    FORWARDING.iter().any(|name| headers.contains_key(*name))
}

/// Limits the warning about a proxy that is not trusted to one per process.
static UNTRUSTED: Once = Once::new();

/// Client address of a request. Each proxy appends the address of its peer, so the list is read backward over all
/// lines of the header: the first address that is not a trusted proxy is the client. An entry that is not an address
/// ends the search at the proxy that wrote it, because everything before it may be forged.
pub fn client_of(extensions: &Extensions, headers: &HeaderMap, trusted: &TrustedProxies) -> IpAddr {
    let peer = extensions
        .get::<ConnectInfo<SocketAddr>>()
        .map_or(IpAddr::from([127, 0, 0, 1]), |info| info.0.ip());
    let mut nearest = peer.to_canonical();
    if !trusted.contains(nearest) {
        if headers.contains_key("x-forwarded-for") {
            UNTRUSTED.call_once(|| {
                tracing::warn!(
                    "requests carry X-Forwarded-For from {nearest}, which is not in OPENVIBE_TRUSTED_PROXIES: if it is your proxy, \
                     add it, or all people behind it share one limit"
                );
            });
        }
        return nearest;
    }
    let lines = headers.get_all("x-forwarded-for").iter().rev();
    for line in lines {
        // A line with non-ASCII bytes counts as an invalid entry.
        let line = line.to_str().unwrap_or("?");
        for entry in line.rsplit(',') {
            let Some(hop) = forwarded_address(entry.trim()) else {
                return nearest;
            };
            nearest = hop;
            if !trusted.contains(hop) {
                return hop;
            }
        }
    }
    nearest
}

/// Parses an IP address with or without a port, such as `192.0.2.1`, `2001:db8::1`, `192.0.2.1:56`, or `[2001:db8::1]:56`.
fn forwarded_address(entry: &str) -> Option<IpAddr> {
    let bracketed = |entry: &str| entry.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    entry
        .parse::<IpAddr>()
        .ok()
        .or_else(|| entry.parse::<SocketAddr>().ok().map(|address| address.ip()))
        .or_else(|| bracketed(entry))
        .map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_is_the_last_forwarded_address_that_is_not_a_trusted_proxy() {
        let trusted = TrustedProxies::parse("127.0.0.1,10.0.0.2,172.16.0.0/12").unwrap();
        for (peer, lines, client) in [
            ("127.0.0.1", &[][..], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.7"], "203.0.113.7"),
            ("203.0.113.9", &["203.0.113.7"], "203.0.113.9"),
            // Entries forged by the client come before those of the proxies, on the same line or on an earlier one.
            ("127.0.0.1", &["192.0.2.1, 203.0.113.7"], "203.0.113.7"),
            ("127.0.0.1", &["192.0.2.1", "203.0.113.7"], "203.0.113.7"),
            ("127.0.0.1", &["203.0.113.7, 10.0.0.2"], "203.0.113.7"),
            ("127.0.0.1", &["203.0.113.7", "10.0.0.2"], "203.0.113.7"),
            ("172.20.1.9", &["203.0.113.7, 172.31.0.1"], "203.0.113.7"),
            // Some proxies include the port.
            ("127.0.0.1", &["203.0.113.7:4711"], "203.0.113.7"),
            ("127.0.0.1", &["[2001:db8::1]:4711"], "2001:db8::1"),
            ("127.0.0.1", &["[2001:db8::1]"], "2001:db8::1"),
            ("127.0.0.1", &["203.0.113.7, 10.0.0.2:80"], "203.0.113.7"),
            ("127.0.0.1", &["::ffff:203.0.113.7"], "203.0.113.7"),
            ("::ffff:127.0.0.1", &["203.0.113.7"], "203.0.113.7"),
            // Entries before an invalid one are ignored.
            ("127.0.0.1", &["203.0.113.7, unknown"], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.7, ?, 10.0.0.2"], "10.0.0.2"),
            ("127.0.0.1", &["203.0.113.7", ""], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.7:x"], "127.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-for", line.parse().unwrap());
            }
            let mut extensions = Extensions::new();
            let peer: IpAddr = peer.parse().unwrap();
            extensions.insert(ConnectInfo(SocketAddr::new(peer, 1)));
            let found = client_of(&extensions, &headers, &trusted);
            assert_eq!(found, client.parse::<IpAddr>().unwrap(), "{lines:?}");
        }
    }
}
