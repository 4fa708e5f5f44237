//! Web Authentication: checks of what a browser returns for a passkey.
//!
//! There is no attestation, so registrations need no CBOR: the browser provides the public key as a `SubjectPublicKeyInfo`.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    VerificationAlgorithm,
};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;
use x509_parser::{prelude::FromDer, x509::SubjectPublicKeyInfo};

use crate::{auth::AuthError, text_enum::text_enum};

/// Maximum length of a credential ID in bytes (Web Authentication Level 3, §4).
const CREDENTIAL_ID_BYTES_MAX: usize = 1023;
/// Maximum length of a public key in bytes, which an RSA key of 8,192 bits needs.
const PUBLIC_KEY_BYTES_MAX: usize = 1200;
/// Length of authenticator data without extensions: hash of the RP ID, flags, and counter.
const AUTHENTICATOR_DATA_BYTES_MIN: usize = 37;
const USER_PRESENT: u8 = 0x01;
const USER_VERIFIED: u8 = 0x04;
const ATTESTED: u8 = 0x40;

text_enum! {
    /// Signature algorithm of a passkey.
    pub(crate) enum PasskeyAlgorithm {
        Es256 = "ES256",
        EdDsa = "EdDSA",
        Rs256 = "RS256",
    }
}

impl PasskeyAlgorithm {
    /// COSE identifier.
    pub(crate) const fn cose(self) -> i64 {
        match self {
            Self::Es256 => -7,
            Self::EdDsa => -8,
            Self::Rs256 => -257,
        }
    }

    fn of_cose(id: i64) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.cose() == id)
    }

    /// Object identifier of the keys in a `SubjectPublicKeyInfo`.
    const fn key_oid(self) -> &'static str {
        match self {
            Self::Es256 => "1.2.840.10045.2.1",
            Self::EdDsa => "1.3.101.112",
            Self::Rs256 => "1.2.840.113549.1.1.1",
        }
    }

    fn verifier(self) -> &'static dyn VerificationAlgorithm {
        match self {
            Self::Es256 => &ECDSA_P256_SHA256_ASN1,
            Self::EdDsa => &ED25519,
            Self::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        }
    }
}

/// Site to which passkeys are bound.
#[derive(Clone)]
pub(crate) struct Site {
    /// Such as `https://chat.example.org`.
    pub origin: String,
    /// Host of the origin.
    pub rp_id: String,
}

/// A passkey that a browser has created.
#[derive(Clone)]
pub(crate) struct Registration {
    pub challenge: String,
    pub credential_id: String,
    pub algorithm: PasskeyAlgorithm,
    pub public_key: String,
    pub counter: i64,
}

/// A signature by a passkey, which is not verified yet.
#[derive(Clone)]
pub(crate) struct Assertion {
    pub challenge: String,
    pub credential_id: String,
    pub user_handle: Option<Uuid>,
    pub counter: i64,
    signed: Vec<u8>,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CredentialJson<R> {
    id: String,
    raw_id: String,
    #[serde(rename = "type")]
    kind: String,
    response: R,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttestationJson {
    #[serde(rename = "clientDataJSON")]
    client_data: String,
    authenticator_data: String,
    public_key: String,
    public_key_algorithm: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AssertionJson {
    #[serde(rename = "clientDataJSON")]
    client_data: String,
    authenticator_data: String,
    signature: String,
    #[serde(default)]
    user_handle: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientData {
    #[serde(rename = "type")]
    kind: String,
    challenge: String,
    origin: String,
    #[serde(default)]
    cross_origin: bool,
    #[serde(default)]
    top_origin: Option<String>,
}

fn decode(text: &str) -> Result<Vec<u8>, AuthError> {
    URL_SAFE_NO_PAD
        .decode(text.trim_end_matches('='))
        .map_err(|_| AuthError::PasskeyRejected("it is not in URL-safe Base64"))
}

/// Checks the ID and type of a credential; returns the ID in its canonical form.
fn credential_id<R>(json: &CredentialJson<R>) -> Result<String, AuthError> {
    let id = decode(&json.raw_id)?;
    let is_valid = json.kind == "public-key"
        && decode(&json.id)? == id
        && (1..=CREDENTIAL_ID_BYTES_MAX).contains(&id.len());
    if !is_valid {
        return Err(AuthError::PasskeyRejected("its ID is not valid"));
    }
    Ok(URL_SAFE_NO_PAD.encode(id))
}

/// Checks what the browser says about the call; returns the challenge.
fn challenge_of(client_data: &[u8], kind: &str, site: &Site) -> Result<String, AuthError> {
    let data: ClientData = serde_json::from_slice(client_data)
        .map_err(|_| AuthError::PasskeyRejected("the data of the browser cannot be read"))?;
    if data.kind != kind {
        return Err(AuthError::PasskeyRejected("it is for another purpose"));
    }
    if data.origin != site.origin || data.cross_origin || data.top_origin.is_some() {
        return Err(AuthError::PasskeyRejected("it is for another site"));
    }
    Ok(data.challenge)
}

/// Authenticator data that belongs to the site and says that the user is verified.
struct AuthenticatorData<'a> {
    counter: i64,
    flags: u8,
    rest: &'a [u8],
}

impl<'a> AuthenticatorData<'a> {
    fn check(bytes: &'a [u8], site: &Site) -> Result<Self, AuthError> {
        let Some((fixed, rest)) = bytes.split_at_checked(AUTHENTICATOR_DATA_BYTES_MIN) else {
            return Err(AuthError::PasskeyRejected("its data is too short"));
        };
        if fixed[..32] != *Sha256::digest(site.rp_id.as_bytes()) {
            return Err(AuthError::PasskeyRejected("it is for another site"));
        }
        let flags = fixed[32];
        if flags & USER_PRESENT == 0 || flags & USER_VERIFIED == 0 {
            return Err(AuthError::PasskeyRejected(
                "it did not verify its user: unlock it with a PIN, a fingerprint, or a face",
            ));
        }
        let counter = fixed[33..37]
            .iter()
            .fold(0_i64, |counter, byte| (counter << 8) | i64::from(*byte));
        Ok(Self {
            counter,
            flags,
            rest,
        })
    }

    /// ID of the credential that was created: after the 16 bytes of the model and two of the length.
    fn attested_id(&self) -> Option<&'a [u8]> {
        if self.flags & ATTESTED == 0 {
            return None;
        }
        let (length, rest) = self.rest.get(16..)?.split_at_checked(2)?;
        rest.get(..usize::from(u16::from_be_bytes([length[0], length[1]])))
    }
}

/// Bytes of a public key as `ring` expects them.
fn key_bytes(algorithm: PasskeyAlgorithm, info: &[u8]) -> Option<Vec<u8>> {
    let (rest, info) = SubjectPublicKeyInfo::from_der(info).ok()?;
    let is_right =
        rest.is_empty() && info.algorithm.algorithm.to_id_string() == algorithm.key_oid();
    let key = info.subject_public_key.data.to_vec();
    let is_right = is_right
        && match algorithm {
            PasskeyAlgorithm::Es256 => key.len() == 65 && key[0] == 4,
            PasskeyAlgorithm::EdDsa => key.len() == 32,
            PasskeyAlgorithm::Rs256 => key.len() >= 256,
        };
    is_right.then_some(key)
}

impl Registration {
    /// Checks a new passkey, as `PublicKeyCredential.toJSON()` returns it, except for its challenge.
    ///
    /// # Errors
    /// `PasskeyRejected`.
    pub(crate) fn parse(credential: serde_json::Value, site: &Site) -> Result<Self, AuthError> {
        let json: CredentialJson<AttestationJson> = serde_json::from_value(credential)
            .map_err(|_| AuthError::PasskeyRejected("it is not a new credential"))?;
        let credential_id = credential_id(&json)?;
        let response = &json.response;
        let challenge = challenge_of(&decode(&response.client_data)?, "webauthn.create", site)?;
        let data = decode(&response.authenticator_data)?;
        let data = AuthenticatorData::check(&data, site)?;
        if data.attested_id().map(|id| URL_SAFE_NO_PAD.encode(id)) != Some(credential_id.clone()) {
            return Err(AuthError::PasskeyRejected("its ID is not valid"));
        }
        let algorithm = PasskeyAlgorithm::of_cose(response.public_key_algorithm);
        let algorithm = algorithm.ok_or(AuthError::PasskeyRejected(
            "its algorithm is not one of ES256, EdDSA, and RS256",
        ))?;
        let key = decode(&response.public_key)?;
        if key.len() > PUBLIC_KEY_BYTES_MAX || key_bytes(algorithm, &key).is_none() {
            return Err(AuthError::PasskeyRejected("its public key is not valid"));
        }
        Ok(Self {
            challenge,
            credential_id,
            algorithm,
            public_key: URL_SAFE_NO_PAD.encode(key),
            counter: data.counter,
        })
    }
}

impl Assertion {
    /// Checks a signature, as `PublicKeyCredential.toJSON()` returns it, except for its challenge and the signature itself.
    ///
    /// # Errors
    /// `PasskeyRejected`.
    pub(crate) fn parse(credential: serde_json::Value, site: &Site) -> Result<Self, AuthError> {
        let json: CredentialJson<AssertionJson> = serde_json::from_value(credential)
            .map_err(|_| AuthError::PasskeyRejected("it is not a signature of a passkey"))?;
        let credential_id = credential_id(&json)?;
        let response = json.response;
        let client_data = decode(&response.client_data)?;
        let challenge = challenge_of(&client_data, "webauthn.get", site)?;
        let mut signed = decode(&response.authenticator_data)?;
        let counter = AuthenticatorData::check(&signed, site)?.counter;
        signed.extend_from_slice(&Sha256::digest(&client_data));
        let user_handle = response.user_handle.as_deref().map(decode).transpose()?;
        let user_handle = user_handle
            .map(|bytes| Uuid::from_slice(&bytes))
            .transpose()
            .map_err(|_| AuthError::PasskeyRejected("it is for another server"))?;
        Ok(Self {
            challenge,
            credential_id,
            user_handle,
            counter,
            signed,
            signature: decode(&response.signature)?,
        })
    }

    /// Verifies the signature with a stored public key.
    pub(super) fn is_signed_by(&self, algorithm: PasskeyAlgorithm, public_key: &str) -> bool {
        let key = decode(public_key)
            .ok()
            .and_then(|info| key_bytes(algorithm, &info));
        key.is_some_and(|key| {
            UnparsedPublicKey::new(algorithm.verifier(), key)
                .verify(&self.signed, &self.signature)
                .is_ok()
        })
    }
}
