//! Signatures of requests, made with a secret that the webhook shares with a program.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::hmac::{self, HMAC_SHA256, Key};

use crate::{auth::hash_token, time::Timestamp};

/// Allowed difference between the clocks, in seconds.
const CLOCK_S_MAX: i64 = 300;
/// Maximum number of signatures of a request, which are made with old and new secrets.
const SIGNATURES_MAX: usize = 10;

/// Headers that prove knowledge of the secret. One that is present must match.
#[derive(Debug, Default, Clone)]
pub struct Proofs {
    /// `X-Hub-Signature-256`, of GitHub, Gitea, and Forgejo.
    pub hub: Option<String>,
    /// `X-Gitlab-Token`: the secret itself.
    pub gitlab: Option<String>,
    /// `Sentry-Hook-Signature`.
    pub sentry: Option<String>,
    /// `webhook-id`, `webhook-timestamp`, and `webhook-signature` of Standard Webhooks.
    pub standard: Option<StandardProof>,
}

#[derive(Debug, Clone)]
pub struct StandardProof {
    pub id: String,
    /// In seconds since 1970.
    pub timestamp: String,
    /// List of `v1,BASE64`, separated by spaces.
    pub signatures: String,
}

fn is_hex_of(key: &Key, body: &[u8], text: &str) -> bool {
    hex::decode(text).is_ok_and(|tag| hmac::verify(key, body, &tag).is_ok())
}

impl StandardProof {
    fn fits(&self, secret: &str, body: &[u8], at: Timestamp) -> bool {
        let sent: Result<i64, _> = self.timestamp.parse();
        if sent.is_ok_and(|sent| (at.unix_s() - sent).abs() > CLOCK_S_MAX)
            || self.timestamp.parse::<i64>().is_err()
        {
            return false;
        }
        let bytes = secret
            .strip_prefix("whsec_")
            .and_then(|text| STANDARD.decode(text).ok());
        let key = Key::new(
            HMAC_SHA256,
            &bytes.unwrap_or_else(|| secret.as_bytes().to_vec()),
        );
        let mut signed = format!("{}.{}.", self.id, self.timestamp).into_bytes();
        signed.extend_from_slice(body);
        let signatures = self.signatures.split(' ').take(SIGNATURES_MAX);
        let mut tags =
            signatures.filter_map(|text| STANDARD.decode(text.strip_prefix("v1,")?).ok());
        tags.any(|tag| hmac::verify(&key, &signed, &tag).is_ok())
    }
}

impl Proofs {
    /// Checks that the request has a proof, and that all of its proofs match.
    pub fn fit(&self, secret: &str, body: &[u8], at: Timestamp) -> bool {
        let key = Key::new(HMAC_SHA256, secret.as_bytes());
        let hub = self.hub.as_ref().map(|text| {
            let text = text.strip_prefix("sha256=");
            text.is_some_and(|text| is_hex_of(&key, body, text))
        });
        // Hashes are compared, so that the time does not depend on the secret.
        let gitlab = self
            .gitlab
            .as_ref()
            .map(|text| hash_token(text) == hash_token(secret));
        let sentry = self.sentry.as_ref().map(|text| is_hex_of(&key, body, text));
        let standard = self
            .standard
            .as_ref()
            .map(|proof| proof.fits(secret, body, at));
        let mut found = [hub, gitlab, sentry, standard]
            .into_iter()
            .flatten()
            .peekable();
        found.peek().is_some() && found.all(|fits| fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::now;

    const BODY: &[u8] = br#"{"text":"x"}"#;

    fn tag(secret: &[u8], signed: &[u8]) -> Vec<u8> {
        hmac::sign(&Key::new(HMAC_SHA256, secret), signed)
            .as_ref()
            .to_vec()
    }

    #[test]
    fn each_proof_fits_only_its_secret_and_body() {
        let at = now();
        let hex = hex::encode(tag(b"s3cret", BODY));
        let hub = Proofs {
            hub: Some(format!("sha256={hex}")),
            ..Proofs::default()
        };
        let gitlab = Proofs {
            gitlab: Some("s3cret".to_owned()),
            ..Proofs::default()
        };
        let sentry = Proofs {
            sentry: Some(hex),
            ..Proofs::default()
        };
        for proofs in [&hub, &gitlab, &sentry] {
            assert!(proofs.fit("s3cret", BODY, at));
            assert!(!proofs.fit("other", BODY, at));
        }
        assert!(!hub.fit("s3cret", b"other", at));
        assert!(
            !Proofs::default().fit("s3cret", BODY, at),
            "a proof is required"
        );
        let both = Proofs {
            gitlab: Some("wrong".to_owned()),
            ..hub
        };
        assert!(!both.fit("s3cret", BODY, at), "all proofs must match");
    }

    #[test]
    fn a_standard_signature_is_valid_for_five_minutes() {
        let at = now();
        let secret = format!("whsec_{}", STANDARD.encode(b"key"));
        let proof = |age_s: i64| {
            let timestamp = (at.unix_s() - age_s).to_string();
            let signed = [format!("msg_1.{timestamp}.").as_bytes(), BODY].concat();
            let signature = STANDARD.encode(tag(b"key", &signed));
            let standard = StandardProof {
                id: "msg_1".to_owned(),
                timestamp,
                signatures: format!("v1,AAAA v1,{signature}"),
            };
            Proofs {
                standard: Some(standard),
                ..Proofs::default()
            }
        };
        assert!(proof(0).fit(&secret, BODY, at));
        assert!(proof(299).fit(&secret, BODY, at) && proof(-299).fit(&secret, BODY, at));
        assert!(!proof(301).fit(&secret, BODY, at) && !proof(-301).fit(&secret, BODY, at));
        assert!(!proof(0).fit(&secret, b"other", at));
    }
}
