//! Encryption of push messages: RFC 8291 over RFC 8188, with one record.

use ring::{
    aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral},
    error::Unspecified,
    hkdf::{HKDF_SHA256, KeyType, Salt},
    rand::{SecureRandom, SystemRandom},
};

/// Maximum length of a message in bytes.
pub(super) const PLAINTEXT_BYTES_MAX: usize = 3000;
/// Length of an uncompressed point of P-256.
pub(super) const POINT_BYTES: usize = 65;
pub(super) const AUTH_BYTES: usize = 16;
const SALT_BYTES: usize = 16;
const RECORD_BYTES: u32 = 4096;
/// Marks the last record.
const LAST: u8 = 2;

/// Key and secret of a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BrowserKeys {
    pub(super) point: [u8; POINT_BYTES],
    pub(super) auth: [u8; AUTH_BYTES],
}

impl BrowserKeys {
    /// Returns `None` unless the key is a point on the curve, and the secret has 16 bytes.
    pub(super) fn new(point: &[u8], auth: &[u8]) -> Option<Self> {
        let keys = Self {
            point: point.try_into().ok()?,
            auth: auth.try_into().ok()?,
        };
        // `ring` checks that a point is on the curve only when it is used.
        let private = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()).ok()?;
        let peer = UnparsedPublicKey::new(&ECDH_P256, keys.point);
        agree_ephemeral(private, &peer, |_| ()).ok()?;
        Some(keys)
    }
}

/// Length of a derived key.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive<const N: usize>(
    salt: &[u8],
    secret: &[u8],
    info: &[&[u8]],
) -> Result<[u8; N], Unspecified> {
    let mut key = [0; N];
    Salt::new(HKDF_SHA256, salt)
        .extract(secret)
        .expand(info, Length(N))?
        .fill(&mut key)?;
    Ok(key)
}

/// Encrypts a message for a browser, with a fresh key.
///
/// # Errors
/// If the message is too long, or there are no random numbers.
pub(super) fn encrypt(keys: &BrowserKeys, plaintext: &[u8]) -> Result<Vec<u8>, Unspecified> {
    let random = SystemRandom::new();
    let private = EphemeralPrivateKey::generate(&ECDH_P256, &random)?;
    let public = private.compute_public_key()?;
    let mut salt = [0; SALT_BYTES];
    random.fill(&mut salt)?;
    let peer = UnparsedPublicKey::new(&ECDH_P256, keys.point);
    agree_ephemeral(private, &peer, |shared| {
        seal(keys, shared, public.as_ref(), salt, plaintext)
    })?
}

/// Encrypts a message with a shared secret: the header with the salt and the server's public key, then the record.
fn seal(
    keys: &BrowserKeys,
    shared: &[u8],
    public: &[u8],
    salt: [u8; SALT_BYTES],
    plaintext: &[u8],
) -> Result<Vec<u8>, Unspecified> {
    if plaintext.len() > PLAINTEXT_BYTES_MAX {
        return Err(Unspecified);
    }
    let info: [&[u8]; 3] = [b"WebPush: info\0", &keys.point, public];
    let secret: [u8; 32] = derive(&keys.auth, shared, &info)?;
    let key: [u8; 16] = derive(&salt, &secret, &[b"Content-Encoding: aes128gcm\0"])?;
    let nonce: [u8; NONCE_LEN] = derive(&salt, &secret, &[b"Content-Encoding: nonce\0"])?;
    let mut record = plaintext.to_vec();
    record.push(LAST);
    LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key)?).seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::empty(),
        &mut record,
    )?;
    let mut body = salt.to_vec();
    body.extend(RECORD_BYTES.to_be_bytes());
    body.push(u8::try_from(public.len()).map_err(|_| Unspecified)?);
    body.extend(public);
    body.extend(record);
    Ok(body)
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    const BROWSER: &str =
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";

    #[test]
    fn the_example_of_rfc_8291_is_encrypted_as_there() {
        let keys = BrowserKeys::new(&bytes(BROWSER), &bytes("BTBZMqHH6r4Tts7J_aSIgg")).unwrap();
        let public = bytes(
            "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8",
        );
        let body = seal(
            &keys,
            &bytes("kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs"),
            &public,
            bytes("DGv6ra1nlYgDCS1FRnbzlw").try_into().unwrap(),
            b"When I grow up, I want to be a watermelon",
        );
        assert_eq!(
            URL_SAFE_NO_PAD.encode(body.unwrap()),
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95b\
             Qpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
        );
    }

    #[test]
    fn keys_must_be_a_point_on_the_curve_and_16_bytes() {
        let point = bytes(BROWSER);
        assert!(BrowserKeys::new(&point, &[1; 16]).is_some());
        assert!(BrowserKeys::new(&point, &[1; 15]).is_none());
        assert!(BrowserKeys::new(&point[..64], &[1; 16]).is_none());
        let mut elsewhere = point;
        elsewhere[64] ^= 1;
        assert!(BrowserKeys::new(&elsewhere, &[1; 16]).is_none());
        assert!(BrowserKeys::new(&[4; 65], &[1; 16]).is_none());
    }

    #[test]
    fn a_message_that_does_not_fit_is_refused() {
        let keys = BrowserKeys::new(&bytes(BROWSER), &[1; 16]).unwrap();
        assert!(encrypt(&keys, &[b'a'; PLAINTEXT_BYTES_MAX + 1]).is_err());
        let one = encrypt(&keys, &[b'a'; PLAINTEXT_BYTES_MAX]).unwrap();
        assert!(one.len() < RECORD_BYTES as usize);
        assert_ne!(one, encrypt(&keys, &[b'a'; PLAINTEXT_BYTES_MAX]).unwrap());
    }
}
