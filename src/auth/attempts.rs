//! Limits for failed sign-ins and wrong current passwords, which are exact across all nodes.
//!
//! An attempt takes a permit from each of its buckets before the password is verified, so that concurrent attempts cannot bypass the
//! limits, and returns the permits if the password was right or could not be verified. `SQLite` has a single node, which keeps the
//! buckets in memory (see `rate`). On `PostgreSQL`, they are rows that all nodes share, with the same algorithm: a row contains the
//! time, by the clock of the database, at which its bucket will be full again.
//!
//! On `PostgreSQL`, each node also checks its own buckets in memory first. It thus rejects attempts beyond its own limits without a
//! query, and an attacker with many addresses cannot make it store more rows than it keeps buckets in memory.
//!
//! Every attempt has its own transaction, which locks at most one row of each kind, in the order of the kinds, so that attempts on
//! several nodes never deadlock.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::{AuthError, hash_token};
use crate::{
    db::{Conn, Db, DbError, Engine, dialect},
    http::address::net_of,
    ids::{SessionId, UserId},
    rate::{Buckets, Rate, whole_seconds},
    text_enum::text_enum,
};

/// Limits of failed login attempts from one address, to one account and to all accounts.
const LOGINS_OF_ACCOUNT: Rate = Rate::new(Duration::from_secs(6), 10);
const LOGINS_OF_ADDRESS: Rate = Rate::new(Duration::from_secs(1), 60);
/// Failed login attempts to one account from anywhere: 100 per hour. Beyond that, clients that have never signed in to
/// the account get one attempt per minute, so that nobody is locked out.
const LOGINS_OF_ACCOUNT_ANYWHERE: Rate = Rate::new(Duration::from_secs(36), 100);
const LOGINS_OF_UNKNOWN_CLIENT: Rate = Rate::new(Duration::from_mins(1), 1);
/// Limit of wrong current passwords in one session.
const PASSWORD_CHANGES: Rate = Rate::new(Duration::from_secs(6), 10);

/// Limit of wrong second factors of an account: they follow the right password, so nobody can use up those of others.
const SECOND_FACTORS: Rate = Rate::new(Duration::from_mins(1), 10);

/// Result of the rate limit check before the password is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// The password can be verified.
    Open,
    /// The account is under attack: known clients continue, others need `Limits::unknown_client`.
    Guarded,
    /// The account is under attack, and this is the attempt of an unknown client.
    Unknown,
}

text_enum! {
    /// Stored kind of a bucket. Transactions lock rows in this order.
    enum BucketKind {
        AccountLogins = "account_logins",
        AddressLogins = "address_logins",
        AccountLoginsAnywhere = "account_logins_anywhere",
        UnknownLogins = "unknown_logins",
        PasswordChanges = "password_changes",
        SecondFactors = "second_factors",
    }
}

/// The buckets of one kind.
struct Limit {
    kind: BucketKind,
    every: Duration,
    burst: u32,
    buckets: Buckets<String>,
}

impl Limit {
    fn new(kind: BucketKind, rate: Rate) -> Self {
        Self {
            kind,
            every: rate.every,
            burst: rate.burst,
            buckets: Buckets::of(rate),
        }
    }

    /// Takes a permit in memory.
    ///
    /// # Errors
    /// The time until the next permit, if none is available.
    fn take(&self, key: &str) -> Result<(), Duration> {
        self.buckets.take(key.to_owned(), Instant::now())
    }

    fn give_back(&self, key: &str) {
        self.buckets.give_back(&key.to_owned());
    }

    fn shared(&self, key: &str) -> SharedBucket {
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        SharedBucket {
            kind: self.kind,
            key_hash: key.to_owned(),
            every_us: micros(self.every),
            whole_us: micros(self.every * self.burst),
        }
    }
}

/// A bucket that is a row of `login_attempts`.
struct SharedBucket {
    kind: BucketKind,
    key_hash: String,
    /// Time in which one permit is refilled, in microseconds.
    every_us: i64,
    /// Time in which an empty bucket is completely refilled, in microseconds.
    whole_us: i64,
}

impl SharedBucket {
    /// Takes a permit. The inner error is the time until the next one, if none is available.
    async fn take(&self, c: &mut Conn) -> Result<Result<(), Duration>, DbError> {
        // If the statement waits for another transaction, its timestamp is earlier than the last change to the row. It may then grant
        // fewer permits than allowed, but never more.
        let taken: Option<(bool,)> = c
            .q("insert into login_attempts as b (kind, key_hash, full_at) \
                values ($1, $2, statement_timestamp() + $3 * interval '1 microsecond') \
                on conflict (kind, key_hash) do update \
                set full_at = greatest(b.full_at, statement_timestamp()) + $3 * interval '1 microsecond' \
                where greatest(b.full_at, statement_timestamp()) + $3 * interval '1 microsecond' \
                  <= statement_timestamp() + $4 * interval '1 microsecond' \
                returning true")
            .bind(self.kind)
            .bind(self.key_hash.clone())
            .bind(self.every_us)
            .bind(self.whole_us)
            .opt()
            .await?;
        if taken.is_some() {
            return Ok(Ok(()));
        }
        // The row is already locked by the statement above, although it was not changed.
        let wait_us: i64 = c
            .q("select cast(extract(epoch from full_at - statement_timestamp()) * 1000000 as bigint) + $3 - $4 \
                from login_attempts where kind = $1 and key_hash = $2")
            .bind(self.kind)
            .bind(self.key_hash.clone())
            .bind(self.every_us)
            .bind(self.whole_us)
            .value()
            .await?;
        let wait = Duration::from_micros(wait_us.max(0).unsigned_abs());
        Ok(Err(wait))
    }

    /// Returns a permit that was not needed.
    async fn give_back(&self, c: &mut Conn) -> Result<(), DbError> {
        c.q(
            "update login_attempts set full_at = full_at - $3 * interval '1 microsecond' \
             where kind = $1 and key_hash = $2",
        )
        .bind(self.kind)
        .bind(self.key_hash.clone())
        .bind(self.every_us)
        .run()
        .await?;
        Ok(())
    }
}

/// Keys of the buckets of a login attempt, which are hashes, so that no address is stored.
struct LoginKeys {
    account: String,
    address: String,
    account_and_address: String,
}

impl LoginKeys {
    fn new(email: &str, address: IpAddr) -> Self {
        let (account, address) = (hash_token(email), hash_token(&net_of(address).to_string()));
        Self {
            account_and_address: hash_token(&format!("{account} {address}")),
            account,
            address,
        }
    }
}

fn refused(kind: BucketKind, wait: Duration) -> AuthError {
    let limit = match kind {
        BucketKind::AccountLogins
        | BucketKind::AddressLogins
        | BucketKind::AccountLoginsAnywhere => "logins",
        BucketKind::UnknownLogins => "unknown_logins",
        BucketKind::PasswordChanges => "password_changes",
        BucketKind::SecondFactors => "second_factors",
    };
    metrics::counter!("openvibe_rate_limited_total", "limit" => limit).increment(1);
    AuthError::TooManyAttempts(whole_seconds(wait))
}

/// The limits of all attempts.
pub(super) struct Attempts {
    account_logins: Limit,
    address_logins: Limit,
    account_logins_anywhere: Limit,
    unknown_logins: Limit,
    password_changes: Limit,
    second_factors: Limit,
    /// The database whose rows all nodes share.
    shared: Option<Db>,
}

impl Default for Attempts {
    fn default() -> Self {
        use BucketKind as Kind;
        Self {
            account_logins: Limit::new(Kind::AccountLogins, LOGINS_OF_ACCOUNT),
            address_logins: Limit::new(Kind::AddressLogins, LOGINS_OF_ADDRESS),
            account_logins_anywhere: Limit::new(
                Kind::AccountLoginsAnywhere,
                LOGINS_OF_ACCOUNT_ANYWHERE,
            ),
            unknown_logins: Limit::new(Kind::UnknownLogins, LOGINS_OF_UNKNOWN_CLIENT),
            password_changes: Limit::new(Kind::PasswordChanges, PASSWORD_CHANGES),
            second_factors: Limit::new(Kind::SecondFactors, SECOND_FACTORS),
            shared: None,
        }
    }
}

impl Attempts {
    /// Makes attempts count in the database, if the database can have several nodes.
    pub(super) fn share(&mut self, db: &Db) {
        self.shared = (db.engine() == Engine::Postgres).then(|| db.clone());
    }

    /// Counts a login attempt.
    ///
    /// # Errors
    /// `TooManyAttempts`, or a database error.
    pub(super) async fn log_in(&self, email: &str, address: IpAddr) -> Result<Attempt, AuthError> {
        let keys = LoginKeys::new(email, address);
        let (account, from) = (&self.account_logins, &self.address_logins);
        account
            .take(&keys.account_and_address)
            .map_err(|wait| refused(account.kind, wait))?;
        from.take(&keys.address).map_err(|wait| {
            account.give_back(&keys.account_and_address);
            refused(from.kind, wait)
        })?;
        let Some(db) = &self.shared else {
            let anywhere = self.account_logins_anywhere.take(&keys.account);
            return Ok(anywhere.map_or(Attempt::Guarded, |()| Attempt::Open));
        };
        let taken = self.take_login(db, &keys).await;
        if !matches!(taken, Ok(Ok(_))) {
            account.give_back(&keys.account_and_address);
            from.give_back(&keys.address);
        }
        taken?
    }

    /// Takes the permits of a login attempt that all nodes share.
    async fn take_login(
        &self,
        db: &Db,
        keys: &LoginKeys,
    ) -> Result<Result<Attempt, AuthError>, DbError> {
        let account = self.account_logins.shared(&keys.account_and_address);
        let address = self.address_logins.shared(&keys.address);
        let anywhere = self.account_logins_anywhere.shared(&keys.account);
        // The key is unique, so that the attempt does not share its transaction with other commands.
        let taken = db.write_in_turn(Uuid::nil(), Uuid::now_v7(), async move |c: &mut Conn| {
            if let Err(wait) = account.take(c).await? {
                return Ok(Err((account.kind, wait)));
            }
            if let Err(wait) = address.take(c).await? {
                account.give_back(c).await?;
                return Ok(Err((address.kind, wait)));
            }
            let anywhere = anywhere.take(c).await?;
            Ok::<_, DbError>(Ok(anywhere.map_or(Attempt::Guarded, |()| Attempt::Open)))
        });
        Ok(taken.await?.map_err(|(kind, wait)| refused(kind, wait)))
    }

    /// Refunds a login attempt that was not a wrong guess. A failure is only logged, because the response does not depend on it.
    pub(super) async fn refund(&self, email: &str, address: IpAddr, attempt: Attempt) {
        let keys = LoginKeys::new(email, address);
        let mut taken = vec![
            (&self.account_logins, &keys.account_and_address),
            (&self.address_logins, &keys.address),
        ];
        match attempt {
            Attempt::Open => taken.push((&self.account_logins_anywhere, &keys.account)),
            Attempt::Guarded => {}
            Attempt::Unknown => taken.push((&self.unknown_logins, &keys.account_and_address)),
        }
        for (limit, key) in &taken {
            limit.give_back(key);
        }
        if let Some(db) = &self.shared {
            let rows = taken.iter().map(|(limit, key)| limit.shared(key));
            give_back(db, rows.collect()).await;
        }
    }

    /// Counts an attempt on a guarded account by a client that has never signed in to it.
    ///
    /// # Errors
    /// `TooManyAttempts`, or a database error.
    pub(super) async fn unknown_client(
        &self,
        email: &str,
        address: IpAddr,
    ) -> Result<Attempt, AuthError> {
        let keys = LoginKeys::new(email, address);
        self.take(&self.unknown_logins, &keys.account_and_address)
            .await?;
        Ok(Attempt::Unknown)
    }

    /// Counts a password change attempt in a session.
    ///
    /// # Errors
    /// `TooManyAttempts`, or a database error.
    pub(super) async fn change_password(&self, session: SessionId) -> Result<(), AuthError> {
        self.take(&self.password_changes, &hash_token(&session.to_string()))
            .await
    }

    /// Refunds a password change attempt that was not a wrong guess.
    pub(super) async fn refund_change(&self, session: SessionId) {
        self.refund_one(&self.password_changes, &hash_token(&session.to_string()))
            .await;
    }

    /// Counts an attempt with a second factor.
    ///
    /// # Errors
    /// `TooManyAttempts`, or a database error.
    pub(super) async fn second_factor(&self, user: UserId) -> Result<(), AuthError> {
        self.take(&self.second_factors, &hash_token(&user.to_string()))
            .await
    }

    /// Refunds an attempt with a second factor that was not wrong.
    pub(super) async fn refund_second_factor(&self, user: UserId) {
        self.refund_one(&self.second_factors, &hash_token(&user.to_string()))
            .await;
    }

    async fn refund_one(&self, limit: &Limit, key: &str) {
        limit.give_back(key);
        if let Some(db) = &self.shared {
            give_back(db, vec![limit.shared(key)]).await;
        }
    }

    async fn take(&self, limit: &Limit, key: &str) -> Result<(), AuthError> {
        limit.take(key).map_err(|wait| refused(limit.kind, wait))?;
        let Some(db) = &self.shared else {
            return Ok(());
        };
        let bucket = limit.shared(key);
        let taken = db
            .write_in_turn(Uuid::nil(), Uuid::now_v7(), async move |c: &mut Conn| {
                bucket.take(c).await
            })
            .await;
        if !matches!(taken, Ok(Ok(()))) {
            limit.give_back(key);
        }
        taken?.map_err(|wait| refused(limit.kind, wait))
    }

    /// Removes full buckets from memory.
    pub(super) fn cleanup(&self, now: Instant) {
        for limit in [
            &self.account_logins,
            &self.address_logins,
            &self.account_logins_anywhere,
            &self.unknown_logins,
            &self.password_changes,
            &self.second_factors,
        ] {
            limit.buckets.cleanup(now);
        }
    }

    /// Deletes rows of full buckets, which are equivalent to missing rows.
    ///
    /// # Errors
    /// Only database errors.
    pub(super) async fn delete_expired(&self) -> Result<(), DbError> {
        let Some(db) = &self.shared else {
            return Ok(());
        };
        let before = dialect::clock(&mut db.read().await?).await?;
        // The time is compared again in case an attempt has changed the row in the meantime.
        db.delete_expired(
            before,
            "select exists (select 1 from login_attempts where full_at < $1)",
            "delete from login_attempts where full_at < $1 and (kind, key_hash) in \
             (select kind, key_hash from login_attempts where full_at < $1 order by full_at limit $2 for update skip locked)",
        )
        .await?;
        Ok(())
    }
}

/// Returns permits; `taken` must be in the order of the kinds.
async fn give_back(db: &Db, taken: Vec<SharedBucket>) {
    let given = db
        .write_in_turn(Uuid::nil(), Uuid::now_v7(), async move |c: &mut Conn| {
            for bucket in &taken {
                bucket.give_back(c).await?;
            }
            Ok::<_, DbError>(())
        })
        .await;
    if let Err(e) = given {
        tracing::warn!(error = %e, "could not refund a sign-in attempt; it counts as failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of permits granted at once, and then the wait in seconds for the next one.
    async fn granted(mut ask: impl AsyncFnMut() -> Result<(), AuthError>) -> (u32, u64) {
        let mut n = 0;
        loop {
            match ask().await {
                Ok(()) => n += 1,
                Err(AuthError::TooManyAttempts(s)) => return (n, s),
                Err(e) => panic!("{e}"),
            }
        }
    }

    #[tokio::test]
    async fn failed_logins_are_limited_per_account_and_address() {
        let attempts = Attempts::default();
        let [here, there]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let log_in = async |email: &str, address| attempts.log_in(email, address).await.map(drop);
        for _ in 0..200 {
            let attempt = attempts.log_in("ada@example.org", here).await.unwrap();
            assert_eq!(attempt, Attempt::Open);
            attempts.refund("ada@example.org", here, attempt).await;
        }
        let (n, wait) = granted(async || log_in("ada@example.org", here).await).await;
        assert_eq!(n, 10);
        assert!((5..=6).contains(&wait), "{wait}");
        log_in("ada@example.org", there).await.unwrap();
        let mut n = 0;
        let (more, _) = granted(async || {
            n += 1;
            log_in(&format!("{n}@example.org"), here).await
        })
        .await;
        assert!((50..55).contains(&more), "{more} after ten");
        log_in("cy@example.org", there).await.unwrap();
    }

    #[tokio::test]
    async fn an_account_under_attack_slows_down_only_unknown_clients() {
        let attempts = Attempts::default();
        let address = |n: u8| IpAddr::from([10, 0, 0, n]);
        for n in 0..100 {
            let attempt = attempts.log_in("ada@example.org", address(n)).await;
            assert_eq!(attempt.unwrap(), Attempt::Open, "{n}");
        }
        let (mine, other) = (address(200), address(201));
        let guarded = attempts.log_in("ada@example.org", mine).await.unwrap();
        assert_eq!(guarded, Attempt::Guarded);
        attempts.refund("ada@example.org", mine, guarded).await;
        assert_eq!(
            attempts.log_in("bo@example.org", mine).await.unwrap(),
            Attempt::Open
        );
        let (n, wait) = granted(async || {
            attempts
                .unknown_client("ada@example.org", mine)
                .await
                .map(drop)
        })
        .await;
        assert_eq!(n, 1);
        assert!((59..=60).contains(&wait), "{wait}");
        attempts
            .unknown_client("ada@example.org", other)
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn password_changes_are_counted_per_session_and_not_as_logins() {
        let (attempts, here) = (Attempts::default(), IpAddr::from([10, 0, 0, 1]));
        while attempts.log_in("ada@example.org", here).await.is_ok() {}
        let (mine, other) = (SessionId::new(), SessionId::new());
        let (n, wait) = granted(async || attempts.change_password(mine).await).await;
        assert_eq!(n, 10);
        assert!((5..=6).contains(&wait), "{wait}");
        attempts.change_password(other).await.unwrap();
    }
}
