//! What a provider publishes about itself.

use serde::Deserialize;

use super::SignInFault;
use crate::outbound::Url;

/// The document at `/.well-known/openid-configuration`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Discovery {
    pub issuer: String,
    pub authorization_endpoint: String,
    pub token_endpoint: String,
    pub jwks_uri: String,
    #[serde(default)]
    pub userinfo_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub scopes_supported: Vec<String>,
    /// True if each answer names its issuer (RFC 9207).
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
}

/// Way in which this server proves to the provider who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientProof {
    Basic,
    Post,
}

/// Checks an address of a provider: HTTPS, or HTTP on this machine.
pub(super) fn parse_address(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']);
    let is_loopback = host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.to_canonical().is_loopback());
    let is_permitted = match url.scheme() {
        "https" => true,
        "http" => is_loopback,
        _ => false,
    };
    let is_plain = url.username().is_empty() && url.password().is_none();
    (is_permitted && is_plain).then_some(url)
}

/// Address of the document.
pub(super) fn address_of(issuer: &str) -> String {
    format!(
        "{}/.well-known/openid-configuration",
        issuer.trim_end_matches('/')
    )
}

impl Discovery {
    /// # Errors
    /// `Misconfigured` if the document is malformed, or has an address that cannot be used.
    pub(super) fn parse(document: serde_json::Value) -> Result<Self, SignInFault> {
        let invalid = || SignInFault::Misconfigured("invalid_discovery".to_owned());
        let this: Self = serde_json::from_value(document).map_err(|_| invalid())?;
        let addresses = [
            Some(&this.authorization_endpoint),
            Some(&this.token_endpoint),
            Some(&this.jwks_uri),
            this.userinfo_endpoint.as_ref(),
        ];
        let are_valid = addresses
            .into_iter()
            .flatten()
            .all(|address| parse_address(address).is_some());
        if are_valid { Ok(this) } else { Err(invalid()) }
    }

    /// Basic authentication unless the provider announces only the other way.
    pub(super) fn client_proof(&self) -> ClientProof {
        let has = |methods: &[String], method: &str| methods.iter().any(|known| known == method);
        match &self.token_endpoint_auth_methods_supported {
            Some(methods)
                if !has(methods, "client_secret_basic") && has(methods, "client_secret_post") =>
            {
                ClientProof::Post
            }
            _ => ClientProof::Basic,
        }
    }
}
