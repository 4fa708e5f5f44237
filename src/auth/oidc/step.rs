//! A sign-in that waits for its provider.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{SignInFault, client::Connection, discovery::Discovery};
use crate::{
    auth::{
        AuthError,
        flows::{self, FlowKind, NewFlow},
        new_token,
    },
    db::Conn,
    ids::{IdentityProviderId, InviteId, SessionId, UserId},
    outbound::Url,
    text_enum::text_enum,
};

/// Cookie with the secret of the browser that began a sign-in.
pub(crate) const FLOW_COOKIE: &str = "openvibe_flow";
pub(crate) const FLOW_COOKIE_S: u64 = 600;
const NEXT_CHARS_MAX: usize = 2000;

text_enum! {
    /// Purpose for which a person is sent to a provider.
    pub(crate) enum StepPurpose {
        SignIn = "sign_in",
        /// Connects the provider to the account of the session.
        Connect = "connect",
        /// Confirms that it is still the same person.
        Confirm = "confirm",
        /// Shows an admin the provider's claims.
        Try = "try",
    }
}

/// Sign-in to which an answer of the provider belongs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Step {
    pub provider: IdentityProviderId,
    pub purpose: StepPurpose,
    /// Path of this server that the person gets to see afterwards.
    pub next: String,
    /// Session that began it, except to sign in.
    pub session: Option<SessionId>,
    /// Version of the provider's settings.
    pub version: i64,
    /// Time in seconds since 1970.
    pub began_at: i64,
}

/// The account and the invite of a step.
#[derive(Debug, Clone)]
pub(crate) struct Begun {
    pub step: Step,
    pub user: Option<UserId>,
    pub invite: Option<InviteId>,
}

/// Secrets of a step. Only the browser has `browser`, from which the others follow, so that the database has none of them.
#[derive(Clone)]
pub(crate) struct StepSecrets {
    pub state: String,
    pub browser: String,
}

impl StepSecrets {
    pub(crate) fn new() -> Self {
        Self {
            state: new_token(),
            browser: new_token(),
        }
    }

    fn derive(&self, purpose: &str) -> String {
        let digest = Sha256::new()
            .chain_update(purpose)
            .chain_update(&self.state)
            .chain_update(&self.browser)
            .finalize();
        URL_SAFE_NO_PAD.encode(digest)
    }

    pub(crate) fn nonce(&self) -> String {
        self.derive("nonce")
    }

    /// Proof Key for Code Exchange (RFC 7636).
    pub(crate) fn verifier(&self) -> String {
        self.derive("verifier")
    }

    fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier()))
    }
}

/// Checks the path that follows a sign-in.
///
/// # Errors
/// `Invalid` for anything that could lead to another site.
pub(crate) fn parse_next(text: &str, public_url: &str) -> Result<String, AuthError> {
    let stays = || {
        let base = Url::parse(public_url).ok()?;
        let there = base.join(text).ok()?;
        Some(there.origin() == base.origin())
    };
    let is_path = text.starts_with('/')
        && !text.starts_with("//")
        && !text.contains('\\')
        && !text.chars().any(char::is_control)
        && text.chars().count() <= NEXT_CHARS_MAX
        && stays() == Some(true);
    if is_path {
        Ok(text.to_owned())
    } else {
        let problem = "`next` must be a path of this server, such as /acme".to_owned();
        Err(AuthError::Invalid(problem, "next"))
    }
}

/// Stores a step.
///
/// # Errors
/// Only database errors.
pub(crate) async fn begin(
    c: &mut Conn,
    secrets: &StepSecrets,
    begun: &Begun,
) -> Result<(), AuthError> {
    let flow = NewFlow {
        secret: secrets.state.clone(),
        invite: begun.invite,
        browser: Some(secrets.browser.clone()),
        data: serde_json::to_value(&begun.step).ok(),
        ..NewFlow::new(FlowKind::Oidc, begun.user)
    };
    flow.store(c).await
}

/// Ends a step that this browser began at this provider.
///
/// # Errors
/// `FlowExpired`.
pub(crate) async fn take(
    c: &mut Conn,
    secrets: &StepSecrets,
    provider: IdentityProviderId,
) -> Result<Begun, AuthError> {
    let flow = flows::take_in_browser(c, &secrets.state, &secrets.browser, FlowKind::Oidc).await?;
    let step: Option<Step> = flow
        .data
        .and_then(|data| serde_json::from_value(data.0).ok());
    let step = step
        .filter(|step| step.provider == provider)
        .ok_or(AuthError::FlowExpired)?;
    Ok(Begun {
        step,
        user: flow.user_id,
        invite: flow.invite_id,
    })
}

/// Address of the provider's page.
///
/// # Errors
/// `Misconfigured`.
pub(crate) fn address(
    provider: &Connection,
    discovery: &Discovery,
    secrets: &StepSecrets,
    purpose: StepPurpose,
    redirect_uri: &str,
) -> Result<String, SignInFault> {
    let mut url = Url::parse(&discovery.authorization_endpoint)
        .map_err(|_| SignInFault::Misconfigured("invalid_discovery".to_owned()))?;
    let has_groups = discovery
        .scopes_supported
        .iter()
        .any(|scope| scope == "groups");
    let scope = if has_groups {
        "openid email profile groups"
    } else {
        "openid email profile"
    };
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &provider.client_id)
        .append_pair("redirect_uri", redirect_uri)
        .append_pair("scope", scope)
        .append_pair("state", &secrets.state)
        .append_pair("nonce", &secrets.nonce())
        .append_pair("code_challenge", &secrets.challenge())
        .append_pair("code_challenge_method", "S256");
    if purpose == StepPurpose::Confirm {
        url.query_pairs_mut().append_pair("max_age", "0");
    }
    Ok(url.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_this_server_follow_a_sign_in() {
        for path in ["/", "/acme", "/acme/c/chan_1?x=//y#z", "/invite/TOKEN"] {
            assert_eq!(parse_next(path, "https://chat.example").unwrap(), path);
        }
        for path in [
            "",
            "acme",
            "//evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "https://evil.example/",
            "/\t/evil.example",
            "/\n/evil.example",
            "javascript:alert(1)",
        ] {
            assert!(
                parse_next(path, "https://chat.example").is_err(),
                "{path:?}"
            );
        }
    }

    #[test]
    fn each_step_has_its_own_secrets() {
        let one = StepSecrets::new();
        let other = StepSecrets {
            state: new_token(),
            browser: one.browser.clone(),
        };
        assert_ne!(one.nonce(), one.verifier());
        assert_ne!(one.nonce(), other.nonce());
        assert_eq!(one.verifier().len(), 43);
    }
}
