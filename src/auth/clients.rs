//! Known clients, from which a person has signed in before. They are not slowed down while someone else guesses
//! passwords of the account.

use std::{net::IpAddr, time::Duration};

use super::{AuthError, hash_token, new_token};
use crate::http::address::net_of;
use crate::{
    db::{Conn, now},
    ids::UserId,
};

/// Cookie that identifies a browser after its sessions have ended. It only proves an earlier sign-in.
pub(crate) const BROWSER_COOKIE: &str = "openvibe_browser";
pub(crate) const BROWSER_COOKIE_LIFETIME: Duration = Duration::from_hours(400 * 24);
/// Maximum number of known networks and browsers per account; the most recently seen ones are kept.
const KNOWN_MAX: i64 = 50;
const TOKEN_CHARACTERS: usize = 43;

/// Origin of a sign-in attempt.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) address: IpAddr,
    /// Value of `BROWSER_COOKIE`.
    pub(crate) browser: Option<String>,
}

impl Client {
    fn address_hash(&self) -> String {
        hash_token(&format!("address {}", net_of(self.address)))
    }

    fn browser_hash(&self) -> Option<String> {
        let token = self.browser.as_deref()?;
        Some(hash_token(&format!("browser {token}")))
    }

    /// Adds a browser cookie value unless the client already has one.
    pub(crate) fn marked(mut self) -> Self {
        self.browser
            .take_if(|token| token.chars().count() != TOKEN_CHARACTERS);
        self.browser.get_or_insert_with(new_token);
        self
    }
}

/// Checks whether someone has signed in to the account from this network or with this browser.
pub(crate) async fn is_known(
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
pub(crate) async fn remember(c: &mut Conn, user: UserId, client: &Client) -> Result<(), AuthError> {
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
