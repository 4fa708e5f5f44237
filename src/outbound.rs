//! Addresses to which the server may connect on behalf of a workspace.
//!
//! The check is part of name resolution: a client receives only permitted addresses, which prevents attacks with
//! names that later resolve to other addresses (DNS rebinding). Clients do not resolve IP addresses, so these are
//! checked separately.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket},
    sync::Arc,
    time::Duration,
};

use futures::FutureExt;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
pub use reqwest::{Url, header::HeaderName};
use tokio::time::timeout;

pub use crate::proxy::is_in_domain;
use crate::{proxy, trust};

/// Timeout of a name lookup.
pub const LOOKUP_MAX: Duration = Duration::from_secs(10);

/// Exemption from the address rules: `HOST[:PORT]`, or a network such as `10.0.0.0/8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exemption {
    Host { host: String, port: Option<u16> },
    Network { address: IpAddr, bits: u8 },
}

impl Exemption {
    /// Parses a list separated by commas.
    ///
    /// # Errors
    /// A message that names the invalid entry.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        let entries = text.split(',').map(str::trim).filter(|t| !t.is_empty());
        entries.map(Self::parse).collect()
    }

    /// The host and port of a URL; `None` if it has no host or port.
    pub fn of(url: &Url) -> Option<Self> {
        let target = Target::of(url)?;
        Some(Self::Host {
            host: target.host,
            port: Some(target.port),
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let invalid = || {
            format!(
                "`{text}` is not a host such as llm.example.com:8000 or a network such as 10.0.0.0/8"
            )
        };
        if let Some((address, bits)) = text.split_once('/') {
            let address: IpAddr = address.parse().map_err(|_| invalid())?;
            let bits_max = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.parse().ok().filter(|bits| *bits <= bits_max);
            let bits = bits.ok_or_else(invalid)?;
            return Ok(Self::Network { address, bits });
        }
        if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
            let host = host_of(address);
            return Ok(Self::Host { host, port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| invalid())?)),
            None => (text, None),
        };
        let host = host.trim_matches(['[', ']']).to_lowercase();
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host.is_empty() || !host.chars().all(is_name) {
            return Err(invalid());
        }
        Ok(Self::Host { host, port })
    }

    /// Checks whether the exemption names the host of the URL.
    pub fn names(&self, url: &Url) -> bool {
        let unknown = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Target::of(url).is_some_and(|target| self.covers(&target, target.ip.unwrap_or(unknown)))
    }

    fn covers(&self, target: &Target, ip: IpAddr) -> bool {
        match self {
            Self::Host { host, port } => {
                *host == target.host && port.is_none_or(|port| port == target.port)
            }
            Self::Network { address, bits } => match (address, ip) {
                (IpAddr::V4(network), IpAddr::V4(ip)) => {
                    shares_bits(network.to_bits().into(), ip.to_bits().into(), 32, *bits)
                }
                (IpAddr::V6(network), IpAddr::V6(ip)) => {
                    shares_bits(network.to_bits(), ip.to_bits(), 128, *bits)
                }
                _ => false,
            },
        }
    }
}

fn host_of(ip: IpAddr) -> String {
    ip.to_canonical().to_string()
}

fn shares_bits(one: u128, other: u128, width: u8, bits: u8) -> bool {
    let rest = u32::from(width - bits);
    (one ^ other).checked_shr(rest).unwrap_or(0) == 0
}

/// Permission for a workspace to use addresses of this machine and of private networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalAddresses {
    Permitted,
    Forbidden,
}

/// Class of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Global,
    /// This machine or a private network.
    Local,
    /// All other addresses that are not public: link-local, metadata services, multicast, documentation, Teredo, and
    /// so on.
    Special,
}

impl Class {
    fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => Self::of_v4(ip),
            IpAddr::V6(ip) => embedded(ip).map_or_else(|| Self::of_v6(ip), Self::of_v4),
        }
    }

    fn of_v4(ip: Ipv4Addr) -> Self {
        let [a, b, c, _] = ip.octets();
        // Carrier-grade NAT, which some VPNs use; one of its addresses is a metadata service.
        let is_shared = a == 100 && b & 0xc0 == 64 && ip != Ipv4Addr::new(100, 100, 100, 200);
        if ip.is_loopback() || ip.is_private() || is_shared {
            return Self::Local;
        }
        let is_special = a == 0
            || a >= 224
            || (a == 100 && b & 0xc0 == 64)
            || (a == 198 && b & 0xfe == 18)
            || matches!(
                (a, b, c),
                (169, 254, _) | (192, 0, 0 | 2) | (192, 88, 99) | (198, 51, 100) | (203, 0, 113)
            );
        if is_special {
            Self::Special
        } else {
            Self::Global
        }
    }

    fn of_v6(ip: Ipv6Addr) -> Self {
        let [a, b, ..] = ip.segments();
        let is_metadata = (a, b) == (0xfd00, 0x0ec2);
        if ip.is_loopback() || (a & 0xfe00 == 0xfc00 && !is_metadata) {
            return Self::Local;
        }
        let is_global_unicast = a & 0xe000 == 0x2000;
        // Protocol assignments such as Teredo, and documentation.
        let is_special =
            (a == 0x2001 && (b < 0x0200 || b == 0x0db8)) || (a == 0x3fff && b < 0x1000);
        if is_global_unicast && !is_special {
            Self::Global
        } else {
            Self::Special
        }
    }
}

/// Returns true for an address of the Internet, and false for one of this machine, of a private network, or for a special purpose.
pub fn is_public(ip: IpAddr) -> bool {
    Class::of(ip.to_canonical()) == Class::Global
}

/// The IPv4 address embedded in a mapped, NAT64, or 6to4 address.
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    if let Some(v4) = ip.to_ipv4_mapped() {
        return Some(v4);
    }
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low));
    match ip.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

/// Reason why an address cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error("{0} is the address of this server: use the address of a model server")]
    OwnServer(String),
    #[error("{0} is not a public address: an operator can permit it with OPENVIBE_MODEL_ALLOW")]
    NotPublic(String),
    #[error("{0} must be used with https: only permitted local addresses can use http")]
    NotEncrypted(String),
    #[error("port {1} of {0} cannot be used: use an address with a standard port")]
    Port(String, u16),
    #[error("could not find the host {0}: check the address")]
    NotFound(String),
}

/// Addresses of this server, to which it must not connect.
#[derive(Debug, Clone)]
pub struct OwnServer {
    pub address: SocketAddr,
    /// Host and port of the public URL.
    pub public: Option<(String, u16)>,
}

impl OwnServer {
    pub fn new(address: SocketAddr, public_url: &str) -> Self {
        let public = Url::parse(public_url).ok().and_then(|url| {
            let target = Target::of(&url)?;
            Some((target.host, target.port))
        });
        Self { address, public }
    }

    /// Checks whether the target is the public URL.
    fn is_named(&self, target: &Target) -> bool {
        let public = self.public.as_ref();
        public.is_some_and(|(host, port)| *host == target.host && *port == target.port)
    }

    fn is_at(&self, target: &Target, ip: IpAddr) -> bool {
        let listens_at = || {
            let own = self.address.ip().to_canonical();
            let ip = ip.to_canonical();
            if own.is_unspecified() {
                // Binding succeeds only for an address of this machine.
                ip.is_unspecified() || UdpSocket::bind((ip, 0)).is_ok()
            } else {
                own == ip || (ip.is_unspecified() && own.is_loopback())
            }
        };
        self.is_named(target) || (target.port == self.address.port() && listens_at())
    }
}

/// Host, port, and scheme of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    /// Host in lowercase; IP addresses have no brackets.
    host: String,
    port: u16,
    is_encrypted: bool,
    /// The host, if it is an IP address.
    ip: Option<IpAddr>,
}

impl Target {
    fn of(url: &Url) -> Option<Self> {
        let text = url.host_str()?.trim_matches(['[', ']']).to_lowercase();
        let ip = text.parse::<IpAddr>().ok();
        Some(Self {
            host: ip.map_or_else(|| text.trim_end_matches('.').to_owned(), host_of),
            port: url.port_or_known_default()?,
            is_encrypted: url.scheme() == "https",
            ip,
        })
    }
}

/// Rules for the connections to one server. Resolves the server's name to permitted addresses.
#[derive(Debug, Clone)]
pub struct Gate {
    rules: Arc<Rules>,
    local: LocalAddresses,
    target: Target,
    /// True if the operator's proxy resolves the name, so that permitting its address is the duty of the proxy.
    is_by_proxy: bool,
}

/// Rules for all workspaces.
#[derive(Debug)]
pub struct Rules {
    pub exempt: Vec<Exemption>,
    pub own: OwnServer,
    /// Permitted ports of addresses that are not exempt; `None` permits all ports.
    pub ports: Option<&'static [u16]>,
}

impl Gate {
    /// Returns `None` for a URL without a host and port.
    pub fn new(rules: &Arc<Rules>, local: LocalAddresses, url: &Url) -> Option<Self> {
        Self::through(proxy::get(), rules, local, url)
    }

    fn through(
        proxy: Option<&proxy::Proxy>,
        rules: &Arc<Rules>,
        local: LocalAddresses,
        url: &Url,
    ) -> Option<Self> {
        let target = Target::of(url)?;
        let is_exempt = || rules.exempt.iter().any(|exemption| exemption.names(url));
        let is_by_proxy = proxy.is_some_and(|proxy| proxy.serves(&target.host) && !is_exempt());
        Some(Self {
            rules: Arc::clone(rules),
            local,
            target,
            is_by_proxy,
        })
    }

    /// True if clients connect through the operator's proxy.
    pub fn is_by_proxy(&self) -> bool {
        self.is_by_proxy
    }

    /// Checks the host, after resolving it if it is a name.
    ///
    /// # Errors
    /// `Denied` if no address of the host is permitted.
    pub async fn check(&self) -> Result<(), Denied> {
        match self.target.ip {
            Some(ip) => self.permit(ip),
            None if self.is_by_proxy => self.permit_name(),
            None => self.resolved().await.map(|_| ()),
        }
    }

    /// Same as `check`, but blocks the thread, possibly until the system's lookup times out.
    ///
    /// # Errors
    /// Same as `check`.
    pub fn check_blocking(&self) -> Result<(), Denied> {
        if self.target.ip.is_some() || self.is_by_proxy {
            return self.check_literal();
        }
        let found = (self.target.host.as_str(), self.target.port).to_socket_addrs();
        self.permitted(found.ok().map(Iterator::collect))
            .map(|_| ())
    }

    /// Checks the host if clients connect without resolving it: an IP address, or a name that a proxy resolves. Does nothing for other
    /// names.
    ///
    /// # Errors
    /// `Denied` for a URL with such a host that is not permitted.
    pub fn check_literal(&self) -> Result<(), Denied> {
        match self.target.ip {
            Some(ip) => self.permit(ip),
            None if self.is_by_proxy => self.permit_name(),
            None => Ok(()),
        }
    }

    /// Starts a client for this server only: without redirects, and with connections to permitted addresses or the operator's proxy. IP
    /// addresses are not resolved, so they must have been checked.
    pub fn client_builder(self) -> reqwest::ClientBuilder {
        let builder = trust::client_builder()
            .user_agent(concat!("openvibe/", env!("CARGO_PKG_VERSION")))
            .referer(false)
            .redirect(reqwest::redirect::Policy::none());
        if self.is_by_proxy {
            return builder;
        }
        let builder = if self.target.is_encrypted {
            builder
        } else {
            trust::without_tls(builder)
        };
        builder.no_proxy().dns_resolver(Arc::new(self))
    }

    /// Checks a name whose address is unknown, because the proxy resolves it or the lookup failed.
    fn permit_name(&self) -> Result<(), Denied> {
        let (target, host) = (&self.target, || self.target.host.clone());
        if self.rules.own.is_named(target) {
            return Err(Denied::OwnServer(host()));
        }
        self.permit_port()?;
        if target.is_encrypted {
            Ok(())
        } else {
            Err(Denied::NotEncrypted(host()))
        }
    }

    /// Checks whether the host can be exempt from the rules for public addresses if it gets an address.
    fn can_be_exempt(&self) -> bool {
        let unknown = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let mut exempt = self.rules.exempt.iter();
        self.local == LocalAddresses::Permitted
            || exempt.any(|exemption| match exemption {
                Exemption::Host { .. } => exemption.covers(&self.target, unknown),
                Exemption::Network { .. } => true,
            })
    }

    fn permit_port(&self) -> Result<(), Denied> {
        let port = self.target.port;
        match self.rules.ports {
            Some(ports) if !ports.contains(&port) => {
                Err(Denied::Port(self.target.host.clone(), port))
            }
            _ => Ok(()),
        }
    }

    fn permit(&self, ip: IpAddr) -> Result<(), Denied> {
        let (target, host) = (&self.target, || self.target.host.clone());
        let ip = ip.to_canonical();
        if self.rules.own.is_at(target, ip) {
            return Err(Denied::OwnServer(host()));
        }
        if self.rules.exempt.iter().any(|e| e.covers(target, ip)) {
            return Ok(());
        }
        self.permit_port()?;
        match Class::of(ip) {
            Class::Local if self.local == LocalAddresses::Permitted => Ok(()),
            Class::Global if target.is_encrypted => Ok(()),
            Class::Global => Err(Denied::NotEncrypted(host())),
            Class::Local | Class::Special => Err(Denied::NotPublic(host())),
        }
    }

    /// Resolves the host and returns its permitted addresses. Fails if none is permitted.
    async fn resolved(&self) -> Result<Vec<SocketAddr>, Denied> {
        let looked_up = tokio::net::lookup_host((self.target.host.as_str(), self.target.port));
        let found = timeout(LOOKUP_MAX, looked_up).await;
        self.permitted(found.ok().and_then(Result::ok).map(Iterator::collect))
    }

    /// Filters the resolved addresses by the access rules. Fails if none is permitted.
    fn permitted(&self, found: Option<Vec<SocketAddr>>) -> Result<Vec<SocketAddr>, Denied> {
        let not_found = || match self.permit_name() {
            Err(denied) if !self.can_be_exempt() => denied,
            _ => Denied::NotFound(self.target.host.clone()),
        };
        let found = found.ok_or_else(not_found)?;
        let mut denied = None;
        let mut permitted = Vec::with_capacity(found.len());
        for address in found {
            match self.permit(address.ip()) {
                Ok(()) => permitted.push(address),
                Err(e) => denied = Some(e),
            }
        }
        if permitted.is_empty() {
            return Err(denied.unwrap_or_else(not_found));
        }
        Ok(permitted)
    }
}

impl Resolve for Gate {
    /// The name is always the host of the URL, because clients with this resolver use neither redirects nor proxies.
    fn resolve(&self, _name: Name) -> Resolving {
        let this = self.clone();
        async move {
            let addresses = this.resolved().await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(
                Box::new(addresses.into_iter()) as Addrs
            )
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(url: &str, local: LocalAddresses, exempt: &str) -> Gate {
        let rules = Rules {
            exempt: Exemption::parse_list(exempt).unwrap(),
            own: OwnServer::new("127.0.0.1:8080".parse().unwrap(), "https://chat.example"),
            ports: None,
        };
        Gate::new(&Arc::new(rules), local, &Url::parse(url).unwrap()).unwrap()
    }

    fn literal(url: &str, local: LocalAddresses, exempt: &str) -> Result<(), Denied> {
        gate(url, local, exempt).check_literal()
    }

    #[test]
    fn names_that_a_proxy_resolves_are_checked_without_their_address() {
        use LocalAddresses::Permitted;
        let url = proxy::parse_url("http://proxy.example.org:3128").unwrap();
        let proxy = proxy::Proxy::new(url, vec!["corp.example".to_owned()]);
        let rules = Arc::new(Rules {
            exempt: Exemption::parse_list("llm.example.org:8000").unwrap(),
            own: OwnServer::new(
                "127.0.0.1:8080".parse().unwrap(),
                "https://chat.example.org",
            ),
            ports: None,
        });
        let gate = |url: &str| {
            let url = Url::parse(url).unwrap();
            Gate::through(Some(&proxy), &rules, Permitted, &url).unwrap()
        };
        let host = || "api.example.org".to_owned();
        for (url, expected) in [
            ("https://api.example.org/v1", Ok(())),
            (
                "http://api.example.org/v1",
                Err(Denied::NotEncrypted(host())),
            ),
            (
                "https://chat.example.org/v1",
                Err(Denied::OwnServer("chat.example.org".to_owned())),
            ),
        ] {
            let gate = gate(url);
            assert!(gate.is_by_proxy(), "{url}");
            assert_eq!(gate.check_literal(), expected, "{url}");
            assert_eq!(gate.check_blocking(), expected, "{url}");
        }
        for url in [
            "http://llm.example.org:8000/v1",
            "https://llm.corp.example/v1",
            "https://1.1.1.1/v1",
            "http://localhost:11434/v1",
            "http://ollama:11434/v1",
        ] {
            assert!(!gate(url).is_by_proxy(), "{url}");
        }
    }

    #[test]
    fn only_global_unicast_addresses_are_permitted() {
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "169.254.169.254",
            "192.0.0.192",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "[::]",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:a9fe:a9fe]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "[2001:0:4136:e378::1]",
            "[2001:db8::1]",
            "[3fff::1]",
            "[fe80::1]",
            "[fc00::1]",
            "[fd00:ec2::254]",
            "[ff02::1]",
            "[::127.0.0.1]",
            "[64:ff9b:1::1]",
        ] {
            let url = format!("https://{host}/v1");
            let checked = literal(&url, LocalAddresses::Forbidden, "");
            assert!(
                matches!(checked, Err(Denied::NotPublic(_))),
                "{url}: {checked:?}"
            );
        }
        for host in [
            "1.1.1.1",
            "100.128.0.1",
            "172.32.0.1",
            "[2606:4700::1111]",
            "[::ffff:1.1.1.1]",
            "[64:ff9b::101:101]",
            "[2002:101:101::]",
        ] {
            let url = format!("https://{host}/v1");
            assert_eq!(
                literal(&url, LocalAddresses::Forbidden, ""),
                Ok(()),
                "{url}"
            );
        }
    }

    #[test]
    fn local_addresses_can_be_permitted_but_not_special_ones() {
        use LocalAddresses::Permitted;
        for host in [
            "127.0.0.1:9",
            "10.1.2.3",
            "[::1]:9",
            "[fc00::1]",
            "100.64.0.1",
        ] {
            let url = format!("http://{host}/v1");
            assert_eq!(literal(&url, Permitted, ""), Ok(()), "{url}");
        }
        for host in [
            "169.254.169.254",
            "[fe80::1]",
            "[fd00:ec2::254]",
            "0.0.0.0",
            "224.0.0.1",
        ] {
            let url = format!("http://{host}/v1");
            assert!(literal(&url, Permitted, "").is_err(), "{url}");
        }
        let plain = literal("http://1.1.1.1/v1", Permitted, "");
        assert_eq!(plain, Err(Denied::NotEncrypted("1.1.1.1".to_owned())));
    }

    #[test]
    fn exemptions_name_hosts_ports_and_networks() {
        use LocalAddresses::Forbidden;
        let permitted = |url: &str, exempt: &str| literal(url, Forbidden, exempt).is_ok();
        assert!(permitted("http://10.0.0.5:8000/v1", "10.0.0.0/8"));
        assert!(!permitted(
            "http://11.0.0.5:8000/v1",
            "10.0.0.0/8, fd00::/8"
        ));
        assert!(permitted("http://[fd00::5]/v1", "10.0.0.0/8, fd00::/8"));
        assert!(permitted("http://127.0.0.1:8000/v1", "127.0.0.1:8000"));
        assert!(!permitted("http://127.0.0.1:8001/v1", "127.0.0.1:8000"));
        assert!(permitted("http://[::ffff:127.0.0.1]:8001/v1", "127.0.0.1"));
        assert!(permitted("http://169.254.1.1/v1", "0.0.0.0/0"));
        assert!(permitted("http://[::1]:9/v1", "[::1]:9"));
        for url in [
            "http://LOCALHOST:9/mcp",
            "http://[::ffff:127.0.0.1]:9/mcp",
            "https://runner.example/",
        ] {
            let url = Url::parse(url).unwrap();
            let own = Exemption::of(&url).unwrap();
            assert!(own.covers(&Target::of(&url).unwrap(), [10, 0, 0, 5].into()));
        }
        for invalid in ["10.0.0.0/33", "http://a", "a:b", "/8", "a b", "x:70000"] {
            assert!(Exemption::parse_list(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn the_server_itself_is_never_permitted() {
        use LocalAddresses::Permitted;
        for url in [
            "http://127.0.0.1:8080/v1",
            "http://0.0.0.0:8080/v1",
            "https://[::ffff:127.0.0.1]:8080/v1",
        ] {
            let checked = literal(url, Permitted, "0.0.0.0/0");
            assert!(
                matches!(checked, Err(Denied::OwnServer(_))),
                "{url}: {checked:?}"
            );
        }
    }

    #[test]
    fn ports_are_restricted_except_for_exempt_addresses() {
        let checked = |url: &str| {
            let rules = Rules {
                exempt: Exemption::parse_list("10.0.0.0/8").unwrap(),
                own: OwnServer::new("127.0.0.1:8080".parse().unwrap(), "https://chat.example"),
                ports: Some(&[80, 443]),
            };
            let url = Url::parse(url).unwrap();
            let gate = Gate::new(&Arc::new(rules), LocalAddresses::Forbidden, &url).unwrap();
            gate.check_literal()
        };
        assert_eq!(checked("https://1.1.1.1/"), Ok(()));
        assert_eq!(checked("https://1.1.1.1:80/"), Ok(()));
        assert_eq!(
            checked("https://1.1.1.1:8443/"),
            Err(Denied::Port("1.1.1.1".to_owned(), 8443))
        );
        assert_eq!(checked("http://10.0.0.5:9200/"), Ok(()));
    }

    #[tokio::test]
    async fn a_name_resolves_to_permitted_addresses_only() {
        use LocalAddresses::{Forbidden, Permitted};
        let local = "http://localhost:9/v1";
        let denied = gate(local, Forbidden, "").check().await;
        assert_eq!(denied, Err(Denied::NotPublic("localhost".to_owned())));
        let name = || "localhost".parse::<Name>().unwrap();
        assert!(gate(local, Forbidden, "").resolve(name()).await.is_err());
        assert_eq!(gate(local, Permitted, "").check().await, Ok(()));
        assert_eq!(gate(local, Permitted, "").check_blocking(), Ok(()));
        assert_eq!(gate(local, Forbidden, "localhost:9").check().await, Ok(()));
        let mut found = gate(local, Permitted, "").resolve(name()).await.unwrap();
        assert!(found.all(|address| address.ip().is_loopback()));
        let absent = gate("https://absent.invalid", Forbidden, "").check().await;
        assert_eq!(absent, Err(Denied::NotFound("absent.invalid".to_owned())));
        let own = gate("https://chat.example", Forbidden, "").check().await;
        assert_eq!(own, Err(Denied::OwnServer("chat.example".to_owned())));
        let plain = "http://absent.invalid";
        let host = || "absent.invalid".to_owned();
        for (local, exempt, expected) in [
            (Forbidden, "", Denied::NotEncrypted(host())),
            (Forbidden, "other.invalid", Denied::NotEncrypted(host())),
            (Forbidden, "absent.invalid", Denied::NotFound(host())),
            (Forbidden, "10.0.0.0/8", Denied::NotFound(host())),
            (Permitted, "", Denied::NotFound(host())),
        ] {
            let denied = gate(plain, local, exempt).check().await;
            assert_eq!(denied, Err(expected), "{exempt}");
        }
    }
}
