//! Signatures by `ssh-keygen -Y sign` with Ed25519 keys, in the format SSHSIG (`PROTOCOL.sshsig` of OpenSSH).

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::{digest, signature as keys};

/// Purpose that a signature names, so that one for another purpose is refused.
const NAMESPACE: &str = "openvibe-release";
const MAGIC: &[u8] = b"SSHSIG";
const KEY_TYPE: &[u8] = b"ssh-ed25519";
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";

/// Checks whether one of these keys signed the message. `public_keys` has one key per line, as `ssh-keygen` writes them, and comments.
pub(super) fn is_signed(message: &[u8], armored: &str, public_keys: &str) -> bool {
    let Some(signature) = Signature::parse(armored) else {
        return false;
    };
    let signed = signature.signed_bytes(message);
    public_keys.lines().filter_map(key_of_line).any(|key| {
        let key_bytes = field(&mut key.as_slice(), KEY_TYPE).map(<[u8]>::to_vec);
        key == signature.key
            && key_bytes.is_some_and(|bytes| {
                let key = keys::UnparsedPublicKey::new(&keys::ED25519, bytes);
                key.verify(&signed, &signature.signature).is_ok()
            })
    })
}

/// Decodes the key of a line such as `ssh-ed25519 AAAA… release 2027`.
fn key_of_line(line: &str) -> Option<Vec<u8>> {
    let mut words = line.split_whitespace();
    let is_key = words.next()?.as_bytes() == KEY_TYPE;
    STANDARD.decode(words.next()?).ok().filter(|_| is_key)
}

struct Signature {
    key: Vec<u8>,
    signature: Vec<u8>,
    hash: &'static digest::Algorithm,
    hash_name: &'static [u8],
}

impl Signature {
    fn parse(armored: &str) -> Option<Self> {
        let inner = armored.trim().strip_prefix(BEGIN)?.strip_suffix(END)?;
        let bytes = STANDARD
            .decode(inner.split_whitespace().collect::<String>())
            .ok()?;
        let mut rest = bytes
            .strip_prefix(MAGIC)?
            .strip_prefix(&1_u32.to_be_bytes())?;
        let key = text(&mut rest)?.to_vec();
        let namespace = text(&mut rest)?;
        let _reserved = text(&mut rest)?;
        let (hash, hash_name): (_, &[u8]) = match text(&mut rest)? {
            b"sha512" => (&digest::SHA512, b"sha512"),
            b"sha256" => (&digest::SHA256, b"sha256"),
            _ => return None,
        };
        let mut signature = text(&mut rest)?;
        let signature = field(&mut signature, KEY_TYPE)?.to_vec();
        (namespace == NAMESPACE.as_bytes() && rest.is_empty()).then_some(Self {
            key,
            signature,
            hash,
            hash_name,
        })
    }

    fn signed_bytes(&self, message: &[u8]) -> Vec<u8> {
        let hash = digest::digest(self.hash, message);
        let mut signed = MAGIC.to_vec();
        for part in [NAMESPACE.as_bytes(), b"", self.hash_name, hash.as_ref()] {
            let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
            signed.extend(length.to_be_bytes());
            signed.extend(part);
        }
        signed
    }
}

/// Reads a text, which follows its length.
fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (text, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(text)
}

/// Reads a text of this type, and the only text after it.
fn field<'a>(rest: &mut &'a [u8], kind: &[u8]) -> Option<&'a [u8]> {
    let found = text(rest)?;
    let value = text(rest)?;
    (found == kind && rest.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use ring::signature::KeyPair;

    use super::*;

    fn put(into: &mut Vec<u8>, part: &[u8]) {
        into.extend(u32::try_from(part.len()).unwrap().to_be_bytes());
        into.extend(part);
    }

    /// The public key as a line, and the signature that `ssh-keygen -Y sign -n NAMESPACE` makes.
    fn sign(seed: u8, namespace: &str, message: &[u8]) -> (String, String) {
        let pair = keys::Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        let (mut key, mut own, mut signed) = (Vec::new(), Vec::new(), MAGIC.to_vec());
        put(&mut key, KEY_TYPE);
        put(&mut key, pair.public_key().as_ref());
        let hash = digest::digest(&digest::SHA512, message);
        for part in [namespace.as_bytes(), b"", b"sha512", hash.as_ref()] {
            put(&mut signed, part);
        }
        put(&mut own, KEY_TYPE);
        put(&mut own, pair.sign(&signed).as_ref());
        let mut blob = MAGIC.to_vec();
        blob.extend(1_u32.to_be_bytes());
        for part in [&key, namespace.as_bytes(), b"", b"sha512", &own] {
            put(&mut blob, part);
        }
        let line = format!("ssh-ed25519 {} release", STANDARD.encode(&key));
        (line, format!("{BEGIN}\n{}\n{END}\n", STANDARD.encode(blob)))
    }

    #[test]
    fn only_the_signed_text_with_a_listed_key_passes() {
        let (key, signature) = sign(1, NAMESPACE, b"sums");
        let (other, _) = sign(2, NAMESPACE, b"sums");
        assert!(is_signed(b"sums", &signature, &key));
        assert!(is_signed(
            b"sums",
            &signature,
            &format!("# next\n{other}\n{key}\n")
        ));
        assert!(!is_signed(b"sumz", &signature, &key));
        assert!(!is_signed(b"sums", &signature, &other));
        assert!(!is_signed(b"sums", &signature, "# no key"));
    }

    #[test]
    fn a_signature_for_another_purpose_is_refused() {
        let (key, signature) = sign(1, "git", b"sums");
        assert!(!is_signed(b"sums", &signature, &key));
    }

    #[test]
    fn no_changed_byte_of_a_signature_passes_or_panics() {
        let (key, signature) = sign(1, NAMESPACE, b"sums");
        let blob = signature.replace(BEGIN, "").replace(END, "");
        let blob = STANDARD.decode(blob.trim()).unwrap();
        for at in 0..blob.len() {
            let mut changed = blob.clone();
            changed[at] ^= 1;
            let changed = format!("{BEGIN}\n{}\n{END}", STANDARD.encode(changed));
            assert!(!is_signed(b"sums", &changed, &key), "byte {at}");
            let cut = format!("{BEGIN}\n{}\n{END}", STANDARD.encode(&blob[..at]));
            assert!(!is_signed(b"sums", &cut, &key), "{at} bytes");
        }
    }
}
