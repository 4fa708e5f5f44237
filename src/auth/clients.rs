//! Clients from which people have signed in before. While somebody guesses at the password of an account, these are not
//! slowed down.

use std::{net::IpAddr, time::Duration};

use super::{AuthError, hash_token, limits::net, new_token};
use crate::{
    db::{Conn, now},
    ids::UserId,
};

/// Cookie that marks a browser beyond the end of its sessions. It proves nothing but an earlier sign-in.
pub(super) const BROWSER_COOKIE: &str = "openvibe_browser";
pub(super) const BROWSER_COOKIE_LIFETIME: Duration = Duration::from_hours(400 * 24);
/// Known networks and browsers of one account; the ones that were seen last are kept.
const KNOWN_MAX: i64 = 50;
const TOKEN_CHARACTERS: usize = 43;

/// Where an attempt to log in comes from.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) address: IpAddr,
    /// Value of `BROWSER_COOKIE`.
    pub(super) browser: Option<String>,
}

impl Client {
    fn address_hash(&self) -> String {
        hash_token(&format!("address {}", net(self.address)))
    }

    fn browser_hash(&self) -> Option<String> {
        let token = self.browser.as_deref()?;
        Some(hash_token(&format!("browser {token}")))
    }

    /// The same client with a mark for its browser, which is kept if there is one.
    pub(super) fn marked(mut self) -> Self {
        self.browser
            .take_if(|token| token.chars().count() != TOKEN_CHARACTERS);
        self.browser.get_or_insert_with(new_token);
        self
    }
}

/// Whether somebody has signed in to the account from this network or browser.
pub(super) async fn is_known(
    c: &mut Conn,
    user: UserId,
    client: &Client,
) -> Result<bool, AuthError> {
    let known: Option<(UserId,)> = c
        .q("select user_id from known_clients where user_id = $1 and (client_hash = $2 or client_hash = $3) limit 1")
        .bind(user)
        .bind(client.address_hash())
        .bind(client.browser_hash())
        .opt()
        .await?;
    Ok(known.is_some())
}

/// Remembers a client that has signed in.
pub(super) async fn remember(c: &mut Conn, user: UserId, client: &Client) -> Result<(), AuthError> {
    for hash in [Some(client.address_hash()), client.browser_hash()]
        .into_iter()
        .flatten()
    {
        c.q(
            "insert into known_clients (user_id, client_hash, seen_at) values ($1, $2, $3) \
             on conflict (user_id, client_hash) do update set seen_at = excluded.seen_at",
        )
        .bind(user)
        .bind(hash)
        .bind(now())
        .run()
        .await?;
    }
    c.q("delete from known_clients where user_id = $1 and client_hash not in \
         (select client_hash from known_clients where user_id = $1 order by seen_at desc, client_hash limit $2)")
        .bind(user)
        .bind(KNOWN_MAX)
        .run()
        .await?;
    Ok(())
}
