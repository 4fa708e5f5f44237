//! Addresses at which browsers reach this server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Context;

use crate::{
    app::{App, default_url},
    config::Config,
};

/// Maximum number of printed addresses of a server that listens on all of them.
const ADDRESSES_MAX: usize = 4;

/// Base URLs of a server that is running.
pub(super) fn bases_of(app: &App) -> Vec<String> {
    bases(app.configured_url(), app.address())
}

/// Base URLs, without a trailing slash: the public URL, or else one for each address on which the server listens.
pub(super) fn bases(public_url: Option<&str>, listen: SocketAddr) -> Vec<String> {
    if let Some(url) = public_url {
        return vec![url.to_owned()];
    }
    let mut found: Vec<String> = if listen.ip().is_unspecified() {
        machine_addresses(listen.ip())
            .map(|ip| format!("http://{}", SocketAddr::new(ip, listen.port())))
            .take(ADDRESSES_MAX)
            .collect()
    } else {
        Vec::new()
    };
    if found.is_empty() {
        found.push(default_url(listen));
    }
    found
}

/// Base URL at which this machine reaches the server that has this configuration. With HTTPS, this is the listener for plain HTTP.
pub(super) async fn local_url(config: &Config) -> anyhow::Result<String> {
    let plain = config.tls.as_ref().map(|tls| &tls.http_listen);
    let address = local_address(plain.unwrap_or(&config.listen)).await?;
    Ok(format!("http://{address}"))
}

/// Address at which this machine reaches a listener.
///
/// # Errors
/// If its name is not known.
pub(super) async fn local_address(listen: &str) -> anyhow::Result<SocketAddr> {
    let mut address = listen_address(listen).await?;
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    Ok(address)
}

/// The public URL that the settings name, without a trailing slash. `listen` is the address on which the server listens.
pub(super) fn public_url(config: &Config, listen: SocketAddr) -> Option<String> {
    let of_domain = || config.tls.as_ref()?.url(listen.port());
    config.public_url.clone().or_else(of_domain)
}

/// # Errors
/// If the name is not known.
pub(super) async fn listen_address(listen: &str) -> anyhow::Result<SocketAddr> {
    let unknown = || format!("OPENVIBE_LISTEN: the address {listen} is not known");
    let mut found = tokio::net::lookup_host(listen)
        .await
        .with_context(unknown)?;
    found.next().with_context(unknown)
}

/// Addresses of this machine that others can connect to, without those of IPv6 if `listen` is `0.0.0.0`.
fn machine_addresses(listen: IpAddr) -> impl Iterator<Item = IpAddr> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let v4 = ipv4_addresses(&read("/proc/net/fib_trie"));
    let v6 = if listen.is_ipv6() {
        ipv6_addresses(&read("/proc/net/if_inet6"))
    } else {
        Vec::new()
    };
    let v4 = v4.into_iter().map(IpAddr::from);
    v4.chain(v6.into_iter().map(IpAddr::from))
}

/// Reads Linux's routing table, in which the machine's own addresses are hosts of type LOCAL.
fn ipv4_addresses(fib_trie: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut latest = None;
    for line in fib_trie.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            latest = address.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL"
            && let Some(address) = latest.filter(|ip| !ip.is_loopback() && !found.contains(ip))
        {
            found.push(address);
        }
    }
    found
}

/// Reads Linux's list of IPv6 addresses; the fourth column of a line is the scope, which is 0 for global addresses.
fn ipv6_addresses(if_inet6: &str) -> Vec<Ipv6Addr> {
    let global = if_inet6.lines().filter_map(|line| {
        let mut columns = line.split_whitespace();
        let address = u128::from_str_radix(columns.next()?, 16).ok()?;
        (columns.nth(2)? == "00").then(|| Ipv6Addr::from_bits(address))
    });
    global.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_url_replaces_all_addresses() {
        let listen = "0.0.0.0:8080".parse().unwrap();
        let url = "https://chat.example.org";
        assert_eq!(bases(Some(url), listen), [url]);
        let listen = "127.0.0.1:8080".parse().unwrap();
        assert_eq!(bases(None, listen), ["http://127.0.0.1:8080"]);
    }

    #[test]
    fn own_addresses_are_read_once_each() {
        let table = "Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 192.0.2.0\n        \
                     /24 link UNICAST\n     |-- 192.0.2.7\n        /32 host LOCAL\n     |-- 192.0.2.255\n        /32 link BROADCAST\n";
        let twice = format!("Main:\n{table}{table}");
        assert_eq!(ipv4_addresses(&twice), [Ipv4Addr::new(192, 0, 2, 7)]);
        let list = "20010db8000000000000000000000007 04 40 00 82     eth0\n\
                    fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n\
                    00000000000000000000000000000001 01 80 10 80       lo\n";
        let expected: Ipv6Addr = "2001:db8::7".parse().unwrap();
        assert_eq!(ipv6_addresses(list), [expected]);
    }
}
