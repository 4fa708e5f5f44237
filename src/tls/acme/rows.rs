//! Stored certificates and challenges.

use std::time::Duration;

use crate::{
    db::{Conn, DbError},
    secrets::{self, Sealed},
    time::Timestamp,
    tls::store::{CertificateFault, Failure},
};

/// Time for which the answer to a challenge is kept.
const CHALLENGE_FOR: Duration = Duration::from_hours(1);

#[derive(Debug, Clone, Default, sqlx::FromRow)]
pub(super) struct Row {
    pub version: i64,
    pub chain: Option<String>,
    pub renew_at: Option<Timestamp>,
    pub order_url: Option<String>,
    pub fault: Option<CertificateFault>,
    pub fault_text: Option<String>,
    pub attempts: i64,
    pub next_attempt_at: Option<Timestamp>,
}

impl Row {
    pub(super) fn failure(&self) -> Option<Failure> {
        Some(Failure {
            reason: self.fault?,
            text: self.fault_text.clone()?,
        })
    }

    /// Checks whether a certificate must be ordered now.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        let is_wanted = self.chain.is_none() || self.renew_at.is_none_or(|at| at <= now);
        is_wanted && self.next_attempt_at.is_none_or(|at| at <= now)
    }
}

/// Owners of secrets.
pub(super) fn key_of(names: &str) -> String {
    format!("certificate:{names}")
}

pub(super) fn order_key_of(names: &str) -> String {
    format!("certificate_order:{names}")
}

pub(super) fn account_of(directory_url: &str) -> String {
    format!("acme_account:{directory_url}")
}

pub(super) async fn find(c: &mut Conn, names: &str) -> Result<Option<Row>, DbError> {
    c.q("select version, chain, renew_at, order_url, fault, fault_text, attempts, next_attempt_at from certificates where names = $1")
        .bind(names.to_owned())
        .opt()
        .await
}

/// Stores an order and the key of its certificate, before the order is completed.
pub(super) async fn begin_order(
    c: &mut Conn,
    names: &str,
    order_url: &str,
    key: &Sealed,
) -> Result<(), DbError> {
    secrets::put(c, &order_key_of(names), key).await?;
    c.q(
        "insert into certificates (names, version, order_url, attempts) values ($1, 1, $2, 0) \
         on conflict (names) do update set order_url = excluded.order_url",
    )
    .bind(names.to_owned())
    .bind(order_url.to_owned())
    .run()
    .await?;
    Ok(())
}

/// An issued certificate.
pub(super) struct Issued {
    pub chain: String,
    pub key: Sealed,
    pub expires_at: Timestamp,
    pub renew_at: Timestamp,
}

pub(super) async fn store(c: &mut Conn, names: &str, issued: &Issued) -> Result<(), DbError> {
    secrets::put(c, &key_of(names), &issued.key).await?;
    secrets::delete(c, &order_key_of(names)).await?;
    c.q("insert into certificates (names, version, chain, expires_at, renew_at, attempts) values ($1, 1, $2, $3, $4, 0) \
         on conflict (names) do update set version = certificates.version + 1, chain = excluded.chain, expires_at = excluded.expires_at, \
         renew_at = excluded.renew_at, order_url = null, fault = null, fault_text = null, attempts = 0, next_attempt_at = null")
        .bind(names.to_owned())
        .bind(issued.chain.clone())
        .bind(issued.expires_at)
        .bind(issued.renew_at)
        .run()
        .await?;
    Ok(())
}

/// Records a failed attempt. The order is forgotten unless it can be continued.
pub(super) async fn fail(
    c: &mut Conn,
    names: &str,
    failure: &Failure,
    next_attempt_at: Timestamp,
    keeps_order: bool,
) -> Result<(), DbError> {
    c.q("insert into certificates (names, version, fault, fault_text, attempts, next_attempt_at) values ($1, 1, $2, $3, 1, $4) \
         on conflict (names) do update set version = certificates.version + 1, fault = excluded.fault, fault_text = excluded.fault_text, \
         attempts = certificates.attempts + 1, next_attempt_at = excluded.next_attempt_at, \
         order_url = case when $5 then certificates.order_url end")
        .bind(names.to_owned())
        .bind(failure.reason)
        .bind(failure.text.clone())
        .bind(next_attempt_at)
        .bind(keeps_order)
        .run()
        .await?;
    Ok(())
}

/// Makes the next attempt due now. Returns false if nothing was ordered for these names yet.
pub(super) async fn renew_now(c: &mut Conn, names: &str) -> Result<bool, DbError> {
    let done = c
        .q("update certificates set renew_at = $2, next_attempt_at = null where names = $1")
        .bind(names.to_owned())
        .bind(Timestamp::now())
        .run()
        .await?;
    Ok(done > 0)
}

pub(super) async fn put_challenge(
    c: &mut Conn,
    name: &str,
    token: &str,
    answer: &str,
) -> Result<(), DbError> {
    c.q("insert into acme_challenges (name, token, answer, expires_at) values ($1, $2, $3, $4) \
         on conflict (name, token) do update set answer = excluded.answer, expires_at = excluded.expires_at")
        .bind(name.to_owned())
        .bind(token.to_owned())
        .bind(answer.to_owned())
        .bind(Timestamp::now() + CHALLENGE_FOR)
        .run()
        .await?;
    Ok(())
}

/// Deletes expired answers, and all answers for these names.
pub(super) async fn delete_challenges(c: &mut Conn, names: &[String]) -> Result<(), DbError> {
    for name in names {
        c.q("delete from acme_challenges where name = $1 or expires_at < $2")
            .bind(name.clone())
            .bind(Timestamp::now())
            .run()
            .await?;
    }
    Ok(())
}

/// Answer to the HTTP-01 challenge with this token.
pub(super) async fn answer_to_token(c: &mut Conn, token: &str) -> Result<Option<String>, DbError> {
    let found: Option<(String,)> = c
        .q("select answer from acme_challenges where token = $1 and expires_at > $2")
        .bind(token.to_owned())
        .bind(Timestamp::now())
        .opt()
        .await?;
    Ok(found.map(|(answer,)| answer))
}

/// Newest answer for the TLS-ALPN-01 challenge of this name.
pub(super) async fn answer_for_name(c: &mut Conn, name: &str) -> Result<Option<String>, DbError> {
    let found: Option<(String,)> = c
        .q("select answer from acme_challenges where name = $1 and expires_at > $2 order by expires_at desc limit 1")
        .bind(name.to_owned())
        .bind(Timestamp::now())
        .opt()
        .await?;
    Ok(found.map(|(answer,)| answer))
}
