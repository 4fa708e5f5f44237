//! Verification of tokens that a provider signs (JSON Web Tokens): ID tokens, and logout tokens.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use super::{
    SignInFault,
    keys::{ProviderKey, TokenAlgorithm},
};
use crate::time::Timestamp;

/// Maximum size of a token.
pub(super) const TOKEN_BYTES_MAX: usize = 64 * 1024;
/// Difference of the clocks that is tolerated, in seconds.
pub(super) const LEEWAY_S: i64 = 60;
const SUBJECT_CHARS_MAX: usize = 255;

pub(super) type Claims = Map<String, Value>;

/// A token that is not verified.
pub(super) struct UnverifiedToken<'a> {
    algorithm: TokenAlgorithm,
    pub key_id: Option<String>,
    /// Header and claims, as they are signed.
    signed: &'a str,
    signature: Vec<u8>,
    claims: Claims,
}

fn malformed() -> SignInFault {
    SignInFault::Refused("invalid_token".to_owned())
}

fn decode_object(part: &str) -> Option<Map<String, Value>> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice(&bytes).ok()
}

impl<'a> UnverifiedToken<'a> {
    /// # Errors
    /// `Refused` for a token that is malformed, or has an algorithm that is not permitted.
    pub(super) fn parse(token: &'a str) -> Result<Self, SignInFault> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(malformed());
        }
        let (signed, signature) = token.rsplit_once('.').ok_or_else(malformed)?;
        let (header, claims) = signed.split_once('.').ok_or_else(malformed)?;
        let header = decode_object(header).ok_or_else(malformed)?;
        // Extensions that must be understood are not supported.
        if header.contains_key("crit") {
            return Err(malformed());
        }
        let algorithm = header.get("alg").and_then(Value::as_str);
        let algorithm = algorithm.and_then(|text| text.parse().ok());
        Ok(Self {
            algorithm: algorithm
                .ok_or_else(|| SignInFault::Refused("algorithm_not_permitted".to_owned()))?,
            key_id: header.get("kid").and_then(Value::as_str).map(str::to_owned),
            signed,
            signature: URL_SAFE_NO_PAD.decode(signature).map_err(|_| malformed())?,
            claims: decode_object(claims).ok_or_else(malformed)?,
        })
    }

    /// Checks whether one of the keys has the token's key ID. A token without one can be signed by any key.
    pub(super) fn has_key(&self, keys: &[ProviderKey]) -> bool {
        match &self.key_id {
            Some(id) => keys.iter().any(|key| key.kid.as_ref() == Some(id)),
            None => !keys.is_empty(),
        }
    }

    /// # Errors
    /// `Refused` if none of the keys has signed it.
    pub(super) fn verify(self, keys: &[ProviderKey]) -> Result<Claims, SignInFault> {
        let is_signed = keys
            .iter()
            .filter(|key| self.key_id.is_none() || key.kid == self.key_id)
            .any(|key| key.has_signed(self.algorithm, self.signed.as_bytes(), &self.signature));
        if is_signed {
            Ok(self.claims)
        } else {
            Err(SignInFault::Refused("invalid_signature".to_owned()))
        }
    }
}

/// Requirements for the claims of a token.
pub(super) struct Expected<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    pub now: Timestamp,
}

impl Expected<'_> {
    /// Checks issuer, audience, and times.
    ///
    /// # Errors
    /// `Refused`, or `ClockSkew` for a token that is not valid yet or not anymore.
    pub(super) fn check(&self, claims: &Claims) -> Result<(), SignInFault> {
        let refuse = |code: &str| Err(SignInFault::Refused(code.to_owned()));
        if claims.get("iss").and_then(Value::as_str) != Some(self.issuer) {
            return refuse("wrong_issuer");
        }
        let audience: Vec<&str> = match claims.get("aud") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let party = claims.get("azp").map(|party| party.as_str());
        let is_for_us = audience.contains(&self.client_id)
            && match party {
                Some(party) => party == Some(self.client_id),
                None => audience.len() == 1,
            };
        if !is_for_us {
            return refuse("wrong_audience");
        }
        let Some(issued) = time(claims, "iat") else {
            return refuse("invalid_token");
        };
        let Some(expires) = time(claims, "exp") else {
            return refuse("invalid_token");
        };
        let now = self.now.unix_s();
        let starts = time(claims, "nbf").map_or(issued, |from| from.max(issued));
        if starts > now.saturating_add(LEEWAY_S) || expires < now.saturating_sub(LEEWAY_S) {
            return Err(SignInFault::ClockSkew(now.saturating_sub(starts) / 60));
        }
        Ok(())
    }
}

/// A time in seconds since 1970.
pub(super) fn time(claims: &Claims, name: &str) -> Option<i64> {
    let value = claims.get(name)?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "times with a fraction are rounded down"
    )]
    let fraction = || value.as_f64().map(|seconds| seconds as i64);
    value.as_i64().or_else(fraction)
}

/// The provider's own name for the person.
pub(super) fn subject(claims: &Claims) -> Option<&str> {
    let subject = claims.get("sub").and_then(Value::as_str)?;
    let is_valid = (1..=SUBJECT_CHARS_MAX).contains(&subject.chars().count());
    Some(subject).filter(|subject| is_valid && !subject.contains('\0'))
}
