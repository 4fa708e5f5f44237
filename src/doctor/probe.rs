//! Probes: requests that the server answers only because a check announced them. A nonce is a row, so that it also works between
//! processes and nodes.

use std::{net::IpAddr, time::Duration};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    auth::new_token,
    db::{Conn, Db, DbError},
    time::Timestamp,
};

/// Time for which a nonce can be used.
pub const NONCE_FOR: Duration = Duration::from_mins(1);
/// Length of a nonce in characters: 256 bits in Base64.
const NONCE_CHARS: usize = 43;
/// Message of a probe's socket.
pub const SOCKET_TEXT: &str = "probe";
/// Number of parts of a streamed probe, and the time between them.
pub const STREAM_PARTS: u32 = 5;
pub const STREAM_EVERY: Duration = Duration::from_millis(250);

/// Answer to a probe: the request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echo {
    pub nonce: String,
    /// `Host` of the request.
    pub host: Option<String>,
    /// Address from which the connection came.
    pub peer: IpAddr,
    /// True if `peer` is a trusted proxy.
    pub is_trusted: bool,
    /// True if a proxy stated the address of its client.
    pub has_forwarded_for: bool,
    /// Address of the client according to trusted proxies.
    pub client: IpAddr,
}

/// Makes a nonce that one request can use.
///
/// # Errors
/// Only database errors.
pub async fn announce(db: &Db) -> Result<String, DbError> {
    let nonce = new_token();
    let stored = nonce.clone();
    db.write(Uuid::nil(), async move |c: &mut Conn| {
        let now = Timestamp::now();
        c.q("delete from probes where expires_at < $1")
            .bind(now)
            .run()
            .await?;
        c.q("insert into probes (nonce, expires_at) values ($1, $2)")
            .bind(stored.clone())
            .bind(now + NONCE_FOR)
            .run()
            .await?;
        Ok::<_, DbError>(())
    })
    .await?;
    Ok(nonce)
}

/// Uses a nonce up. Returns false if it is unknown, expired, or used.
///
/// # Errors
/// Only database errors.
pub async fn take(db: &Db, nonce: &str) -> Result<bool, DbError> {
    if nonce.len() != NONCE_CHARS {
        return Ok(false);
    }
    // A read first, because anybody can send nonces.
    let known: Option<(String,)> = db
        .read()
        .await?
        .q("select nonce from probes where nonce = $1 and expires_at > $2")
        .bind(nonce.to_owned())
        .bind(Timestamp::now())
        .opt()
        .await?;
    let Some((nonce,)) = known else {
        return Ok(false);
    };
    let taken = db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            c.q("delete from probes where nonce = $1 and expires_at > $2")
                .bind(nonce.clone())
                .bind(Timestamp::now())
                .run()
                .await
        })
        .await?;
    Ok(taken > 0)
}
