//! Identity of this server towards push services: RFC 8292.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::error::PushError;
use crate::{
    db::{Conn, Db, now},
    outbound::Url,
    secrets::{self, Keyring, SecretError},
};

/// Owner of the sealed key.
const OWNER: &str = "push";
/// Time for which a push service accepts a token.
const VALID_FOR: Duration = Duration::from_hours(12);
/// Ends of names that are not public.
const LOCAL_NAMES: [&str; 6] = [
    ".local",
    ".internal",
    ".invalid",
    ".test",
    ".example",
    ".localhost",
];

/// Contact of this server's operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    pub text: String,
    /// False if Apple refuses it.
    pub is_accepted: bool,
}

impl Subject {
    /// The setting, or else the public URL.
    pub fn new(setting: Option<&str>, public_url: &str) -> Self {
        Self {
            text: setting.unwrap_or(public_url).to_owned(),
            is_accepted: setting.is_some() || is_public(public_url),
        }
    }
}

fn is_public(url: &str) -> bool {
    let Some(url) = Url::parse(url).ok().filter(|url| url.scheme() == "https") else {
        return false;
    };
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    let is_address = host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok();
    !is_address && host.contains('.') && !LOCAL_NAMES.iter().any(|end| host.ends_with(end))
}

/// The key pair and the subject with which this server signs.
pub struct Identity {
    pair: EcdsaKeyPair,
    /// Public key in base64url, with which browsers subscribe.
    pub public_key: String,
    subject: String,
    /// Changes with the key and with the subject.
    pub fingerprint: String,
}

impl Identity {
    fn new(secret: &str, subject: &str) -> Option<Self> {
        let pkcs8 = URL_SAFE_NO_PAD.decode(secret).ok()?;
        let pair = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            &pkcs8,
            &SystemRandom::new(),
        )
        .ok()?;
        let public_key = URL_SAFE_NO_PAD.encode(pair.public_key());
        let digest = Sha256::new()
            .chain_update(&public_key)
            .chain_update(subject)
            .finalize();
        Some(Self {
            pair,
            public_key,
            subject: subject.to_owned(),
            fingerprint: hex::encode(&digest[..16]),
        })
    }

    /// Loads the key pair, or creates it if there is none that this server can open.
    ///
    /// # Errors
    /// `Secret` if the server has no key for secrets.
    pub(super) async fn load(db: &Db, keyring: &Keyring, subject: &str) -> Result<Self, PushError> {
        let found = secrets::find(&mut db.read().await?, OWNER).await?;
        let known = found.as_ref().map(|sealed| sealed.ciphertext.clone());
        if let Some(identity) = found
            .and_then(|sealed| keyring.open(OWNER, &sealed).ok())
            .and_then(|secret| Self::new(&secret, subject))
        {
            return Ok(identity);
        }
        let pkcs8 =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
                .map_err(|_| SecretError::Unreadable)?;
        let sealed = keyring.seal(OWNER, &URL_SAFE_NO_PAD.encode(pkcs8.as_ref()))?;
        let stored = db
            .write(Uuid::nil(), async move |c: &mut Conn| {
                let found = secrets::find(c, OWNER).await?;
                match found {
                    // Another node has created one.
                    Some(other) if Some(&other.ciphertext) != known.as_ref() => Ok(other),
                    _ => {
                        secrets::put(c, OWNER, &sealed).await?;
                        Ok::<_, PushError>(sealed.clone())
                    }
                }
            })
            .await?;
        let secret = keyring.open(OWNER, &stored)?;
        Ok(Self::new(&secret, subject).ok_or(SecretError::Unreadable)?)
    }

    /// Signs a token for the push service at an origin. It is valid for twelve hours.
    ///
    /// # Errors
    /// If there are no random numbers.
    pub(super) fn sign(&self, origin: &str) -> Result<String, ring::error::Unspecified> {
        let header = URL_SAFE_NO_PAD.encode(r#"{"typ":"JWT","alg":"ES256"}"#);
        let claims = serde_json::json!({
            "aud": origin,
            "exp": (now() + VALID_FOR).unix_s(),
            "sub": self.subject,
        });
        let claims = URL_SAFE_NO_PAD.encode(claims.to_string());
        let signed = format!("{header}.{claims}");
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes())?;
        Ok(format!(
            "{signed}.{}",
            URL_SAFE_NO_PAD.encode(signature.as_ref())
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apple_accepts_a_setting_and_public_names() {
        for (setting, url, expected) in [
            (
                Some("mailto:ada@example.org"),
                "http://127.0.0.1:8080",
                true,
            ),
            (None, "https://chat.example.org", true),
            (None, "http://chat.example.org", false),
            (None, "https://chat", false),
            (None, "https://localhost:8443", false),
            (None, "https://10.0.0.1", false),
            (None, "https://[2001:db8::1]", false),
            (None, "https://chat.local", false),
            (None, "https://chat.internal", false),
            (None, "https://chat.example.", false),
        ] {
            let subject = Subject::new(setting, url);
            assert_eq!(subject.is_accepted, expected, "{url}");
        }
    }
}
