//! Settings that must be the same on all nodes. They are compared by hash, so that no row contains a secret.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::{config::Config, secrets::SecretKey};

/// Hash of each setting, by the setting's name, and the IDs of the secret keys.
pub(super) type Hashes = BTreeMap<String, String>;

const SECRET_KEY: &str = "OPENVIBE_SECRET_KEY";
/// Entry with the IDs of the keys in `OPENVIBE_SECRET_KEY`, separated by spaces. Versions whose packets are not encrypted do not have it.
const KEY_IDS: &str = "secret_key_ids";

fn hash(value: &str) -> String {
    hex::encode(&Sha256::digest(value)[..8])
}

/// Hashes of the settings of this process.
pub(super) fn hashes(config: &Config) -> Hashes {
    let keys = config.secret_keys.iter().map(SecretKey::id);
    let key_ids = keys.collect::<Vec<String>>().join(" ");
    let values = [
        ("OPENVIBE_PUBLIC_URL", format!("{:?}", config.public_url)),
        ("OPENVIBE_SIGNUP", config.signup.to_string()),
        (
            "OPENVIBE_EVENT_RETENTION",
            format!("{:?}", config.event_retention),
        ),
        ("OPENVIBE_MODEL", format!("{:?}", config.model)),
        (
            "OPENVIBE_EMBEDDING_MODEL",
            format!("{:?}", config.embedding),
        ),
        (SECRET_KEY, key_ids.clone()),
        ("OPENVIBE_BLOBS_URL", format!("{:?}", config.blobs_url)),
        ("OPENVIBE_RATE_LIMITS", config.rate_limits.to_string()),
        ("OPENVIBE_QUIET", config.is_quiet.to_string()),
        (
            "OPENVIBE_TASKS_QUEUED_MAX",
            config.tasks_queued_max.to_string(),
        ),
        (
            "OPENVIBE_WORKSPACE_BYTES_MAX",
            config.workspace_bytes_max.to_string(),
        ),
        ("OPENVIBE_AGENTS_MAX", config.agents_max.to_string()),
        (
            "OPENVIBE_UPLOAD_BYTES_MAX",
            config.upload_bytes_max.to_string(),
        ),
    ];
    let hashes = values.into_iter().map(|(name, value)| (name, hash(&value)));
    hashes
        .chain([(KEY_IDS, key_ids)])
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Names of settings that differ between two nodes. Settings that the other node's version does not store are omitted.
pub(super) fn differing(own: &Hashes, other: &Hashes) -> Vec<String> {
    own.iter()
        .filter(|(name, hash)| match name.as_str() {
            KEY_IDS => false,
            SECRET_KEY => !shares_key(own, other),
            _ => other.get(*name).is_some_and(|other| other != *hash),
        })
        .map(|(name, _)| name.clone())
        .collect()
}

/// IDs of a node's secret keys; `None` if its version does not store them.
fn key_ids(of: &Hashes) -> Option<Vec<&str>> {
    Some(of.get(KEY_IDS)?.split_whitespace().collect())
}

/// Checks whether one of two nodes can decrypt what the other one encrypts, or neither of them has a key.
fn shares_key(own: &Hashes, other: &Hashes) -> bool {
    let own = key_ids(own).unwrap_or_default();
    let Some(other_ids) = key_ids(other) else {
        let stored = other.get(SECRET_KEY);
        let one = own.iter().map(|id| (*id).to_owned());
        let mut known = one.chain([own.join(" ")]);
        return known.any(|ids| stored == Some(&hash(&ids)));
    };
    match (own.first(), other_ids.first()) {
        (Some(first), Some(others_first)) => {
            own.contains(others_first) || other_ids.contains(first)
        }
        (first, others_first) => first == others_first,
    }
}

/// Checks whether a node has a secret key that another one does not share.
pub(super) fn has_another_key(own: &Hashes, other: &Hashes) -> bool {
    let has_key = match key_ids(other) {
        Some(ids) => !ids.is_empty(),
        None => other.get(SECRET_KEY) != Some(&hash("")),
    };
    has_key && !shares_key(own, other)
}

/// Checks whether a node's version encrypts its packets.
pub(super) fn encrypts(settings: &Hashes) -> bool {
    settings.contains_key(KEY_IDS)
}

/// Checks whether `reader` can open the packets of `sender`.
pub(super) fn can_read(reader: &Hashes, sender: &Hashes) -> bool {
    let (Some(reader), Some(sender)) = (key_ids(reader), key_ids(sender)) else {
        return false;
    };
    sender.first().is_some_and(|first| reader.contains(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_keys(ids: &str) -> Hashes {
        let entries = [(KEY_IDS, ids.to_owned()), (SECRET_KEY, hash(ids))];
        let named = entries.map(|(name, value)| (name.to_owned(), value));
        named.into_iter().collect()
    }

    /// Settings as versions without encryption store them.
    fn of_old_version(ids: &str) -> Hashes {
        let mut settings = with_keys(ids);
        settings.remove(KEY_IDS);
        settings
    }

    #[test]
    fn a_key_differs_if_neither_list_contains_the_others_first_key() {
        for (own, other, differs) in [
            ("a", "a", false),
            ("b a", "a", false),
            ("a", "b a", false),
            ("b a", "c b", false),
            ("a", "b", true),
            ("a c", "b c", true),
            ("", "", false),
            ("", "a", true),
        ] {
            let (own, other) = (with_keys(own), with_keys(other));
            assert_eq!(has_another_key(&own, &other), differs, "{own:?} {other:?}");
            assert_eq!(!differing(&own, &other).is_empty(), differs);
        }
        // A node without a key does not keep one with a key from serving, because the first of several nodes to get a key would never
        // be ready.
        assert!(!has_another_key(&with_keys("a"), &with_keys("")));
        assert_eq!(differing(&with_keys("a"), &with_keys("")), [SECRET_KEY]);
    }

    #[test]
    fn keys_of_older_versions_are_compared_by_hash() {
        for (own, old, differs) in [
            ("a", "a", false),
            ("b a", "a", false),
            ("b a", "b a", false),
            ("a", "b", true),
            ("", "a", true),
            ("a", "", false),
        ] {
            let (own, old) = (with_keys(own), of_old_version(old));
            assert_eq!(has_another_key(&own, &old), differs, "{own:?} {old:?}");
            assert!(!encrypts(&old) && !can_read(&old, &own) && !can_read(&own, &old));
        }
    }

    #[test]
    fn a_node_reads_packets_that_are_encrypted_with_one_of_its_keys() {
        let reads = |reader: &str, sender: &str| can_read(&with_keys(reader), &with_keys(sender));
        assert!(reads("a", "a") && reads("b a", "a") && reads("a b", "b a"));
        assert!(!reads("a", "b a") && !reads("a", "b"));
    }
}
