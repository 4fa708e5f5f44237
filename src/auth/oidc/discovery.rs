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
    end_session_endpoint: Option<String>,
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

    /// Page on which a person ends their session at the provider (RP-initiated logout); `None` if the provider has no usable address for it.
    pub(crate) fn end_session_url(&self, client_id: &str) -> Option<Url> {
        let mut url = parse_address(self.end_session_endpoint.as_deref()?)?;
        url.query_pairs_mut().append_pair("client_id", client_id);
        Some(url)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_for_signing_out_is_used_only_if_its_address_can_be() {
        for (address, expected) in [
            (
                "https://corp.example.org/end?tenant=1",
                Some("https://corp.example.org/end?tenant=1&client_id=a+b"),
            ),
            ("http://corp.example.org/end", None),
            ("javascript:alert(1)", None),
            ("https://ada:secret@corp.example.org/end", None),
        ] {
            let document = json!({"issuer": "https://corp.example.org",
                "authorization_endpoint": "https://corp.example.org/authorize",
                "token_endpoint": "https://corp.example.org/token", "jwks_uri": "https://corp.example.org/keys",
                "end_session_endpoint": address});
            let discovery = Discovery::parse(document).unwrap();
            let url = discovery.end_session_url("a b").map(|url| url.to_string());
            assert_eq!(url.as_deref(), expected, "{address}");
        }
    }
}
