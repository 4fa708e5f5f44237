//! Ends of sessions that a provider reports (`OpenID` Connect Back-Channel Logout).

use std::time::Duration;

use serde_json::Value;

use super::{
    SignInFault,
    client::{Connection, ProviderClient},
    identity::sessions_of,
    token::{subject, time},
};
use crate::{
    auth::{AuthError, flows, flows::FlowKind, sessions},
    db::Conn,
    ids::IdentityProviderId,
    time::Timestamp,
};

/// Maximum age of a logout token, in seconds.
const AGE_MAX_S: i64 = 600;
/// Time for which the ID of a token is remembered, so that each is used once.
const REMEMBERED_FOR: Duration = Duration::from_mins(15);
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// A verified logout token.
#[derive(Debug, Clone)]
pub(crate) struct Logout {
    id: String,
    subject: Option<String>,
    session: Option<String>,
}

impl Logout {
    /// Verifies a logout token.
    ///
    /// # Errors
    /// `Refused`, `ClockSkew`, `Unreachable`, `Misconfigured`.
    pub(crate) async fn read(
        client: &ProviderClient,
        provider: &Connection,
        token: &str,
    ) -> Result<Self, SignInFault> {
        let claims = client.verify(provider, token).await?;
        let text = |name: &str| claims.get(name).and_then(Value::as_str).map(str::to_owned);
        let is_logout = claims.get("events").and_then(|events| events.get(EVENT)).is_some()
            // An ID token must not pass as one.
            && !claims.contains_key("nonce");
        let is_new =
            time(&claims, "iat").is_some_and(|at| at + AGE_MAX_S >= Timestamp::now().unix_s());
        let this = Self {
            id: text("jti").unwrap_or_default(),
            subject: subject(&claims).map(str::to_owned),
            session: text("sid"),
        };
        let names_session = this.subject.is_some() || this.session.is_some();
        if is_logout && is_new && names_session && !this.id.is_empty() {
            Ok(this)
        } else {
            Err(SignInFault::Refused("invalid_token".to_owned()))
        }
    }

    /// Ends the sessions that the token names. Returns their number.
    ///
    /// # Errors
    /// `FlowExpired` for a token that was used before.
    pub(crate) async fn apply(
        &self,
        c: &mut Conn,
        provider: IdentityProviderId,
    ) -> Result<usize, AuthError> {
        let used = format!("{provider} {}", self.id);
        flows::use_once(c, &used, FlowKind::LogoutToken, REMEMBERED_FOR).await?;
        let (subject, session) = (self.subject.as_deref(), self.session.as_deref());
        let ended = sessions_of(c, provider, subject, session).await?;
        for (user, session) in &ended {
            sessions::end(c, *user, *session).await?;
        }
        Ok(ended.len())
    }
}
