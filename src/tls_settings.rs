//! Settings of HTTPS: `OPENVIBE_DOMAIN`, `OPENVIBE_TLS_*`, `OPENVIBE_ACME_*`.

use std::{fmt, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::outbound::Url;

/// Maximum number of names in a certificate.
const NAMES_MAX: usize = 20;
/// Maximum length of a DNS name, in bytes (RFC 1035).
const NAME_BYTES_MAX: usize = 253;

/// Names of the server, and the source of its certificate.
#[derive(Debug, Clone)]
pub struct TlsSettings {
    /// Names of the server; the first is the public one. Can be empty with the operator's own files.
    pub names: Vec<String>,
    pub source: TlsSource,
    /// Address for plain HTTP, `HOST:PORT`.
    pub http_listen: String,
}

impl TlsSettings {
    /// URL with the first name; `None` if the names are only in the operator's certificate.
    pub fn url(&self, port: u16) -> Option<String> {
        self.names.first().map(|name| https_url(name, port))
    }

    /// Returns true if the server orders its certificate and stores its key.
    pub fn is_ordered(&self) -> bool {
        matches!(self.source, TlsSource::Acme(_))
    }
}

/// URL of a server with HTTPS, without a trailing slash.
pub fn https_url(name: &str, port: u16) -> String {
    match port {
        443 => format!("https://{name}"),
        port => format!("https://{name}:{port}"),
    }
}

#[derive(Debug, Clone)]
pub enum TlsSource {
    /// The operator's own certificate.
    Files(KeyPair),
    Acme(AcmeSettings),
}

/// Paths of a certificate chain and its key, in PEM format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Certificate authority, and the account at it.
#[derive(Debug, Clone)]
pub struct AcmeSettings {
    /// URL of the directory; `None` is Let's Encrypt.
    pub directory_url: Option<Url>,
    pub email: Option<String>,
    pub binding: Option<Binding>,
}

/// External account that the authority requires (RFC 8555, section 7.3.4).
#[derive(Debug, Clone)]
pub struct Binding {
    pub key_id: String,
    pub key: BindingKey,
}

/// A key that is never logged.
#[derive(Clone)]
pub struct BindingKey(pub Vec<u8>);

impl fmt::Debug for BindingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl Binding {
    /// Parses `KEY_ID:KEY`, with the key in base64url.
    ///
    /// # Errors
    /// A description that does not contain the value.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let parsed = text.trim().split_once(':').and_then(|(key_id, key)| {
            let key = URL_SAFE_NO_PAD.decode(key.trim_end_matches('=')).ok()?;
            (!key_id.is_empty() && !key.is_empty()).then(|| Self {
                key_id: key_id.to_owned(),
                key: BindingKey(key),
            })
        });
        let invalid = || "the value must be KEY_ID:KEY, with the key in base64url".to_owned();
        parsed.ok_or_else(invalid).map(Some)
    }
}

/// Parses names separated by commas, such as `chat.example.org`.
///
/// # Errors
/// A message that names the invalid entry.
pub fn parse_names(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = text
        .split(',')
        .map(|name| name.trim().trim_end_matches('.').to_ascii_lowercase())
        .filter(|name| !name.is_empty())
        .collect();
    if names.len() > NAMES_MAX {
        return Err(format!("at most {NAMES_MAX} names can be in a certificate"));
    }
    match names.iter().find(|name| !is_dns_name(name)) {
        Some(name) => Err(format!(
            "`{name}` is not a name such as chat.example.org: leave out https://, ports, and paths"
        )),
        None => Ok(names),
    }
}

fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= NAME_BYTES_MAX
        && name.contains('.')
        && name.split('.').all(is_label)
        // An IP address, for which certificates are rarely issued.
        && name.rsplit('.').next().is_some_and(|last| last.bytes().any(|b| !b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_names_without_ports_or_paths() {
        assert_eq!(
            parse_names("Chat.Example.org., b.example").unwrap(),
            ["chat.example.org", "b.example"]
        );
        for invalid in [
            "localhost",
            "a_b.example",
            "https://a.example",
            "a.example:443",
            "10.0.0.1",
            "-a.example",
            "*.a.example",
        ] {
            assert!(parse_names(invalid).is_err(), "{invalid}");
        }
        assert!(parse_names(&"a.example,".repeat(21)).is_err());
    }

    #[test]
    fn the_key_of_an_external_account_is_not_shown() {
        let binding = Binding::parse("kid-1:c2VjcmV0").unwrap().unwrap();
        assert_eq!(
            (binding.key_id.as_str(), &binding.key.0[..]),
            ("kid-1", &b"secret"[..])
        );
        assert!(!format!("{binding:?}").contains("115"));
        assert!(Binding::parse("kid-1").is_err() && Binding::parse(":c2VjcmV0").is_err());
    }
}
