//! IP networks and sites in settings.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};
use reqwest::Url;

/// Reverse proxies whose forwarding headers are trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Parses addresses and networks, such as `10.0.0.0/8` and `fd00::/8`, separated by commas.
    ///
    /// # Errors
    /// A message that names the invalid entry.
    pub fn parse(text: &str) -> Result<Self, String> {
        let networks = text.split(',').map(|entry| {
            let entry = entry.trim();
            let address = || entry.parse::<IpAddr>().map(IpNet::from);
            let network = entry.parse::<IpNet>().or_else(|_| address());
            let invalid =
                |_| format!("`{entry}` is neither an IP address nor a network such as 10.0.0.0/8");
            network.map(canonical).map_err(invalid)
        });
        networks.collect::<Result<_, _>>().map(Self)
    }

    /// Checks whether an address in canonical form belongs to a trusted proxy.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

/// Converts an IPv4 network in IPv6 notation (`::ffff:10.0.0.0/104`) to IPv4.
fn canonical(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else {
        return network;
    };
    let bits = v6.prefix_len().checked_sub(96);
    let v4 = v6.addr().to_ipv4_mapped().zip(bits);
    v4.and_then(|(address, bits)| Ipv4Net::new(address, bits).ok())
        .map_or(network, IpNet::V4)
}

/// Other sites whose pages can use the API with a key: origins such as `https://app.example.org`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiOrigins(Vec<String>);

impl ApiOrigins {
    /// Parses a list that is separated by commas.
    ///
    /// # Errors
    /// A description of the invalid entry.
    pub fn parse_list(text: &str) -> Result<Self, String> {
        let entries = text.split(',').map(str::trim);
        let entries = entries.filter(|entry| !entry.is_empty());
        entries
            .map(parse_origin)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub fn contains(&self, origin: &str) -> bool {
        self.0.iter().any(|known| known == origin)
    }
}

/// Parses an origin into the form in which browsers send it.
fn parse_origin(text: &str) -> Result<String, String> {
    let url = Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let is_origin = |url: &Url| {
        url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none()
    };
    let origin = url.filter(is_origin).map(|url| url.origin());
    let invalid = || format!("`{text}` is not an origin such as https://app.example.org");
    origin
        .map(|origin| origin.ascii_serialization())
        .ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_networks_of_both_versions_are_trusted() {
        let trusted = "127.0.0.1, 10.0.0.0/8,192.0.2.128/25,fd00::/8,2001:db8::7,::ffff:198.51.100.0/120,::ffff:203.0.113.9";
        let trusted = TrustedProxies::parse(trusted).unwrap();
        for (address, is_trusted) in [
            ("127.0.0.1", true),
            ("127.0.0.2", false),
            ("10.0.0.0", true),
            ("10.255.255.255", true),
            ("11.0.0.0", false),
            ("192.0.2.127", false),
            ("192.0.2.128", true),
            ("fd12:3456::1", true),
            ("fe80::1", false),
            ("2001:db8::7", true),
            ("2001:db8::8", false),
            ("198.51.100.200", true),
            ("198.51.101.1", false),
            ("203.0.113.9", true),
            ("::1", false),
        ] {
            let found = trusted.contains(address.parse().unwrap());
            assert_eq!(found, is_trusted, "{address}");
        }
        let every = TrustedProxies::parse("0.0.0.0/0").unwrap();
        assert!(every.contains(IpAddr::from([203, 0, 113, 7])));
        assert!(!every.contains("2001:db8::1".parse().unwrap()));
    }

    #[test]
    fn other_texts_are_refused() {
        for bad in [
            "",
            "proxy",
            "10.0.0.0/33",
            "10.0.0/8",
            "fd00::/129",
            "10.0.0.1,",
            "10.0.0.1:80",
            "10.0.0.0/",
        ] {
            let error = TrustedProxies::parse(bad).unwrap_err();
            assert!(error.contains("10.0.0.0/8"), "{bad}: {error}");
        }
    }

    #[test]
    fn origins_are_compared_as_browsers_send_them() {
        let list = "https://App.example.org:443/, http://localhost:5173,";
        let origins = ApiOrigins::parse_list(list).unwrap();
        for (origin, is_known) in [
            ("https://app.example.org", true),
            ("http://localhost:5173", true),
            ("http://app.example.org", false),
            ("https://app.example.org.evil.example", false),
            ("http://localhost", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(origins.contains(origin), is_known, "{origin}");
        }
    }
}
