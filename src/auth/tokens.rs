//! Random secrets: shown once, stored as SHA-256 hashes.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};

/// Secret that a client sends. Only its position in the request determines its kind, because a session token is random text
/// that can start like an API key.
#[derive(Clone)]
pub enum Token {
    /// Session token, from the session cookie.
    Session(String),
    /// API key (`ov_…`) or key of a turn (`ovt_…`), from the `Authorization` header.
    Key(String),
}

/// Beginning of the keys of turns on runners.
pub const TURN_KEY: &str = "ovt_";

/// 256 random bits in URL-safe Base64.
pub fn new_token() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

/// SHA-256 hash of a secret, as stored.
pub fn hash_token(token: &str) -> String {
    hex::encode(Sha256::digest(token.as_bytes()))
}
