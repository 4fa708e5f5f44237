//! Proxy of outgoing connections over HTTP (`OPENVIBE_PROXY`), for machines that reach other networks only through one.
//!
//! It is used for public names. IP addresses, names without a dot, local names, and names in `OPENVIBE_NO_PROXY` are reached without it.

use std::{fmt, net::IpAddr, sync::OnceLock};

use reqwest::Url;

/// Ends of names that are not public.
const LOCAL_NAMES: [&str; 3] = [".localhost", ".local", ".internal"];

static PROXY: OnceLock<Proxy> = OnceLock::new();

/// The operator's proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    url: Url,
    /// Domains that are reached without it.
    direct: Vec<String>,
}

impl fmt::Debug for Proxy {
    /// Omits the URL, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("direct", &self.direct)
            .finish_non_exhaustive()
    }
}

/// Parses the address of a proxy.
///
/// # Errors
/// The problem, as a sentence that does not repeat the address.
pub fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text.trim()).ok();
    let url = url.filter(|url| {
        url.scheme() == "http"
            && url.has_host()
            && matches!(url.path(), "" | "/")
            && url.query().is_none()
            && url.fragment().is_none()
    });
    url.ok_or_else(|| "it is not a URL such as http://proxy.example.org:3128".to_owned())
}

/// Parses a list of domains separated by commas. `example.org` includes all names that end with `.example.org`.
///
/// # Errors
/// A message that names the invalid entry.
pub fn parse_domains(text: &str) -> Result<Vec<String>, String> {
    let entries = text.split(',').map(str::trim).filter(|t| !t.is_empty());
    entries
        .map(|entry| {
            let name = entry.trim_start_matches("*.").trim_start_matches('.');
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            if name.is_empty() || !name.chars().all(is_name) {
                return Err(format!("`{entry}` is not a domain such as example.org"));
            }
            Ok(name.to_lowercase())
        })
        .collect()
}

/// Checks whether a host is a domain or one of its subdomains.
pub fn is_in_domain(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

impl Proxy {
    pub fn new(url: Url, direct: Vec<String>) -> Self {
        Self { url, direct }
    }

    /// Checks whether connections to this host go through the proxy.
    pub fn serves(&self, host: &str) -> bool {
        let host = host.trim_matches(['[', ']']).trim_end_matches('.');
        let host = host.to_lowercase();
        let mut direct = self.direct.iter();
        host.contains('.')
            && host.parse::<IpAddr>().is_err()
            && !LOCAL_NAMES.iter().any(|end| host.ends_with(end))
            && !direct.any(|domain| is_in_domain(&host, domain))
    }

    /// Address of the proxy, which may contain a password.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// The proxy for a client of reqwest.
    pub fn of_client(&self) -> reqwest::Proxy {
        let this = self.clone();
        reqwest::Proxy::custom(move |url| {
            let is_served = this.serves(url.host_str()?);
            is_served.then(|| this.url.clone())
        })
    }
}

/// Lets all connections that are made later use a proxy. Only one server runs in a process; tests that start several use none.
pub fn set(proxy: Proxy) {
    PROXY.get_or_init(|| proxy);
}

/// The operator's proxy, if there is one.
pub fn get() -> Option<&'static Proxy> {
    PROXY.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_covers_its_subdomains_only() {
        for (host, domain, expected) in [
            ("example.com", "example.com", true),
            ("docs.example.com", "example.com", true),
            ("badexample.com", "example.com", false),
            ("example.com.evil.org", "example.com", false),
            ("com", "example.com", false),
        ] {
            assert_eq!(is_in_domain(host, domain), expected, "{host} {domain}");
        }
    }

    #[test]
    fn only_public_names_are_reached_through_the_proxy() {
        let url = parse_url("http://ada:secret@proxy.example.org:3128").unwrap();
        let direct = parse_domains("corp.example, *.lan").unwrap();
        let proxy = Proxy::new(url, direct);
        for host in ["api.example.com", "API.example.com.", "notcorp.example"] {
            assert!(proxy.serves(host), "{host}");
        }
        for host in [
            "localhost",
            "ollama",
            "127.0.0.1",
            "[::1]",
            "203.0.113.7",
            "db.internal",
            "printer.local",
            "corp.example",
            "llm.Corp.example",
            "gpu.lan",
        ] {
            assert!(!proxy.serves(host), "{host}");
        }
        assert!(!format!("{proxy:?}").contains("secret"));
    }

    #[test]
    fn other_addresses_are_no_proxies() {
        for text in [
            "proxy.example.org:3128",
            "https://proxy.example.org",
            "socks5://proxy.example.org",
            "http://proxy.example.org/path",
            "http://",
        ] {
            assert!(parse_url(text).is_err(), "{text}");
        }
        for text in ["*", "a b", "https://corp.example", "10.0.0.0/8"] {
            assert!(parse_domains(text).is_err(), "{text}");
        }
    }
}
