//! The first account, which administers the server: anybody who can reach a new server could create it.

use std::net::SocketAddr;

use axum::http::HeaderMap;

use super::hosts::is_loopback_url;
use crate::{
    auth::{self, AuthError},
    config::{Config, Signup},
    db::Db,
    http::address::is_forwarded,
};

/// Proof that the person who creates the first account operates the server.
pub struct FirstAccount {
    token: String,
    /// False if the token is required only for requests that a proxy forwarded.
    is_always_required: bool,
}

impl FirstAccount {
    /// `address` is the address on which the server listens.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn new(
        db: &Db,
        config: &Config,
        address: SocketAddr,
        public_url: &str,
    ) -> Result<Self, AuthError> {
        let token = auth::setup_token(db, config.setup_token.as_ref()).await?;
        let is_local = address.ip().is_loopback() && is_loopback_url(public_url);
        Ok(Self {
            token,
            is_always_required: !is_local || config.signup == Signup::Invite,
        })
    }

    /// The token that a request for the first account must contain; `None` if it needs none, because it comes from a program on the
    /// server's own machine.
    pub fn token_for(&self, headers: &HeaderMap) -> Option<&str> {
        (self.is_always_required || is_forwarded(headers)).then_some(self.token.as_str())
    }

    /// The token, if every request needs it.
    pub fn token(&self) -> Option<&str> {
        self.is_always_required.then_some(self.token.as_str())
    }
}

/// Link that signs in to an account. The secret is in the fragment, which browsers do not send, so it gets into no log of a proxy.
pub fn sign_in_link(base: &str, token: &str) -> String {
    format!("{base}/sign-in#link={token}")
}

/// Link for the first account; `base` is an address of the server.
pub fn setup_link(base: &str, token: &str) -> String {
    format!("{base}/setup?setup_token={token}")
}
