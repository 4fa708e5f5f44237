//! Public keys of a provider (JSON Web Key Set), and signatures by them.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

use super::SignInFault;
use crate::text_enum::text_enum;

/// Maximum number of keys of a provider.
const KEYS_MAX: usize = 50;

text_enum! {
    /// Signature algorithm. Those with a shared secret, and `none`, are not among them.
    pub(super) enum TokenAlgorithm {
        Rs256 = "RS256",
        Ps256 = "PS256",
        Es256 = "ES256",
        Es384 = "ES384",
        EdDsa = "EdDSA",
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct ProviderKey {
    kty: String,
    #[serde(default)]
    pub kid: Option<String>,
    #[serde(default, rename = "use")]
    purpose: Option<String>,
    #[serde(default)]
    alg: Option<String>,
    #[serde(default)]
    crv: Option<String>,
    #[serde(default)]
    n: Option<String>,
    #[serde(default)]
    e: Option<String>,
    #[serde(default)]
    x: Option<String>,
    #[serde(default)]
    y: Option<String>,
}

/// Reads the keys of a set. Keys of unknown kinds are ignored.
///
/// # Errors
/// `Misconfigured` for a set that is malformed or too large.
pub(super) fn parse_keys(set: &serde_json::Value) -> Result<Vec<ProviderKey>, SignInFault> {
    let keys = set["keys"].as_array();
    let keys = keys.ok_or_else(|| SignInFault::Misconfigured("keys_missing".to_owned()))?;
    if keys.len() > KEYS_MAX {
        return Err(SignInFault::Misconfigured("too_many_keys".to_owned()));
    }
    let known = keys.iter().filter_map(|key| {
        let key = ProviderKey::deserialize(key).ok()?;
        Some(key).filter(|key| {
            key.purpose
                .as_deref()
                .is_none_or(|purpose| purpose == "sig")
        })
    });
    Ok(known.collect())
}

fn decode(part: Option<&String>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD
        .decode(part?.trim_end_matches('='))
        .ok()
        .filter(|bytes| bytes.len() <= 1024)
}

impl ProviderKey {
    /// Checks a signature. False if the key is not for the algorithm.
    pub(super) fn has_signed(
        &self,
        algorithm: TokenAlgorithm,
        text: &[u8],
        signature: &[u8],
    ) -> bool {
        if self
            .alg
            .as_deref()
            .is_some_and(|alg| alg != algorithm.as_str())
        {
            return false;
        }
        let checked = match algorithm {
            TokenAlgorithm::Rs256 => self.check_rsa(&RSA_PKCS1_2048_8192_SHA256, text, signature),
            TokenAlgorithm::Ps256 => self.check_rsa(&RSA_PSS_2048_8192_SHA256, text, signature),
            TokenAlgorithm::Es256 => self.point("P-256", 32).map(|point| {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(text, signature)
            }),
            TokenAlgorithm::Es384 => self.point("P-384", 48).map(|point| {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(text, signature)
            }),
            TokenAlgorithm::EdDsa => decode(self.x.as_ref())
                .filter(|_| self.kty == "OKP" && self.crv.as_deref() == Some("Ed25519"))
                .map(|key| UnparsedPublicKey::new(&ED25519, key).verify(text, signature)),
        };
        checked.is_some_and(|checked| checked.is_ok())
    }

    fn check_rsa(
        &self,
        parameters: &'static ring::signature::RsaParameters,
        text: &[u8],
        signature: &[u8],
    ) -> Option<Result<(), ring::error::Unspecified>> {
        if self.kty != "RSA" {
            return None;
        }
        let key = RsaPublicKeyComponents {
            n: decode(self.n.as_ref())?,
            e: decode(self.e.as_ref())?,
        };
        Some(key.verify(parameters, text, signature))
    }

    /// Uncompressed point of an elliptic curve.
    fn point(&self, curve: &str, bytes: usize) -> Option<Vec<u8>> {
        let (x, y) = (decode(self.x.as_ref())?, decode(self.y.as_ref())?);
        let is_right = self.kty == "EC"
            && self.crv.as_deref() == Some(curve)
            && x.len() == bytes
            && y.len() == bytes;
        is_right.then(|| [&[4][..], &x, &y].concat())
    }
}
