//! Settings that must be the same on all nodes. They are compared by hash, so that no row contains a secret.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::{config::Config, secrets::SecretKey};

/// Hash of each setting, by the setting's name.
pub(super) type Hashes = BTreeMap<String, String>;

fn hash(value: &str) -> String {
    hex::encode(&Sha256::digest(value)[..8])
}

/// Hashes of the settings of this process.
pub(super) fn hashes(config: &Config) -> Hashes {
    let keys = config.secret_keys.iter().map(SecretKey::id);
    let keys: Vec<String> = keys.collect();
    let values = [
        ("OPENVIBE_PUBLIC_URL", format!("{:?}", config.public_url)),
        ("OPENVIBE_SIGNUP", config.signup.to_string()),
        (
            "OPENVIBE_EVENT_RETENTION",
            format!("{:?}", config.event_retention),
        ),
        ("OPENVIBE_MODEL", format!("{:?}", config.model)),
        ("OPENVIBE_SECRET_KEY", keys.join(" ")),
        ("OPENVIBE_RATE_LIMITS", config.rate_limits.to_string()),
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
    values
        .into_iter()
        .map(|(name, value)| (name.to_owned(), hash(&value)))
        .collect()
}

/// Names of settings that differ between two nodes.
pub(super) fn differing(own: &Hashes, other: &Hashes) -> Vec<String> {
    own.iter()
        .filter(|(name, hash)| other.get(*name) != Some(hash))
        .map(|(name, _)| name.clone())
        .collect()
}
