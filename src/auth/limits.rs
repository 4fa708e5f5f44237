//! Rate limits per person and address, and limits of concurrent sockets.
//!
//! Every request first counts toward the limit of its address. Requests without a valid session or key then count toward a second,
//! lower limit of the address; all others count toward the limits of their person.
//!
//! Sizes count as well: each part of a body or answer counts like one more request. A body is counted before its request is handled,
//! and an answer when it is known, so that it delays the person's next requests.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{
    AuthError, Caller,
    attempts::{Attempt, Attempts},
};
use crate::{
    db::{Db, DbError},
    http::address::net_of,
    ids::{HookId, IdentityProviderId, SessionId, UserId},
    rate::{Buckets, Rate, whole_seconds},
};

const SECOND: Duration = Duration::from_secs(1);

/// Limits of reads and of writes by one person, across all sessions and keys. With the sizes below, a person can read 64 MiB at once and
/// 3.2 MiB per second, and write 1.6 MiB at once and 80 KiB per second: 44 messages of the maximum size, which take the writer of the
/// database half a second, and then two per second.
const READS: Rate = Rate::new(Duration::from_millis(20), 1000);
const WRITES: Rate = Rate::new(Duration::from_millis(50), 400);
/// Part of a write's body that counts like one more write.
const WRITE_BYTES: u64 = 4 * 1024;
/// Part of an answer, and of the body of a read, that counts like one more read.
const READ_BYTES: u64 = 64 * 1024;
/// Part of a streamed answer, such as a file, that counts like one more read. It is neither rendered nor compressed.
const STREAM_BYTES: u64 = 1024 * 1024;
/// Limit of uploads by one person.
const UPLOADS: Rate = Rate::new(SECOND, 60);
/// Limit of files that one person puts into vector stores: 600 per hour.
const COLLECTED_FILES: Rate = Rate::new(Duration::from_secs(6), 600);
/// Limit of agents that a model drafts for one person: 10 per hour.
const AGENT_DRAFTS: Rate = Rate::new(Duration::from_mins(6), 10);
/// Per-person catch-up limits: without a model (each reads up to 500 messages), and written by a model (20 per hour).
const CATCH_UPS: Rate = Rate::new(Duration::from_secs(2), 30);
const WRITTEN_CATCH_UPS: Rate = Rate::new(Duration::from_mins(3), 20);
/// Limit of messages that one incoming webhook posts: 5 per second.
const HOOK_POSTS: Rate = Rate::new(Duration::from_millis(200), 60);
/// Limit of SCIM requests of one identity provider: 50 per second.
const SCIM_REQUESTS: Rate = Rate::new(Duration::from_millis(20), 100);
/// Limits of all requests, and of anonymous requests, from one address.
const REQUESTS: Rate = Rate::new(Duration::from_millis(2), 5000);
const ANONYMOUS: Rate = Rate::new(Duration::from_millis(100), 200);

/// Rate limit class of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateClass {
    Reading,
    Writing,
    /// Upload of a file.
    Uploading,
}

/// Size of an answer in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerSize {
    /// An answer that was built in memory, before compression.
    Built(u64),
    /// A file or another answer that is sent in pieces.
    Streamed(u64),
}

pub struct Limits {
    on: bool,
    /// Time that is used instead of the current time, in tests whose permits are not refilled.
    stopped_at: Option<Instant>,
    attempts: Attempts,
    reads: Buckets<UserId>,
    writes: Buckets<UserId>,
    uploads: Buckets<UserId>,
    collected_files: Buckets<UserId>,
    agent_drafts: Buckets<UserId>,
    catch_ups: Buckets<UserId>,
    written_catch_ups: Buckets<UserId>,
    hooks: Buckets<HookId>,
    scim: Buckets<IdentityProviderId>,
    requests: Buckets<IpAddr>,
    anonymous: Buckets<IpAddr>,
    sockets: Arc<Mutex<Sockets>>,
}

struct Sockets {
    max: usize,
    per_user_max: usize,
    all: usize,
    of_users: HashMap<UserId, usize>,
}

/// A socket slot that is released on drop.
pub struct SocketPermit {
    sockets: Arc<Mutex<Sockets>>,
    user: Option<UserId>,
}

fn lock(sockets: &Mutex<Sockets>) -> MutexGuard<'_, Sockets> {
    sockets.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for SocketPermit {
    fn drop(&mut self) {
        let mut sockets = lock(&self.sockets);
        sockets.all -= 1;
        if let Some(user) = self.user
            && let Some(own) = sockets.of_users.get_mut(&user)
        {
            *own -= 1;
            if *own == 0 {
                sockets.of_users.remove(&user);
            }
        }
    }
}

fn refused(limit: &'static str, wait: Duration) -> AuthError {
    metrics::counter!("openvibe_rate_limited_total", "limit" => limit).increment(1);
    AuthError::RateLimited(whole_seconds(wait))
}

/// Checks whether an attempt counts as a guess. It does not if it succeeded, or if the server was too busy to check the password.
fn is_guess<T>(outcome: &Result<T, AuthError>) -> bool {
    !matches!(outcome, Ok(_) | Err(AuthError::HasherBusy))
}

impl Limits {
    /// Creates the limits. If `on` is false, only the total number of sockets is limited.
    pub fn new(on: bool, sockets_max: usize, sockets_per_user: usize) -> Self {
        Self {
            on,
            stopped_at: None,
            attempts: Attempts::default(),
            reads: Buckets::of(READS),
            writes: Buckets::of(WRITES),
            uploads: Buckets::of(UPLOADS),
            collected_files: Buckets::of(COLLECTED_FILES),
            agent_drafts: Buckets::of(AGENT_DRAFTS),
            catch_ups: Buckets::of(CATCH_UPS),
            written_catch_ups: Buckets::of(WRITTEN_CATCH_UPS),
            hooks: Buckets::of(HOOK_POSTS),
            scim: Buckets::of(SCIM_REQUESTS),
            requests: Buckets::of(REQUESTS),
            anonymous: Buckets::of(ANONYMOUS),
            sockets: Arc::new(Mutex::new(Sockets {
                max: sockets_max,
                // Load tests open thousands of sockets with only a few accounts.
                per_user_max: if on { sockets_per_user } else { usize::MAX },
                all: 0,
                of_users: HashMap::new(),
            })),
        }
    }

    /// Stops the refill of all permits but those of sign-in attempts.
    #[cfg(test_hooks)]
    #[must_use]
    pub fn stopped(mut self) -> Self {
        self.stopped_at = Some(Instant::now());
        self
    }

    fn now(&self) -> Instant {
        self.stopped_at.unwrap_or_else(Instant::now)
    }

    /// Shares the limits of sign-in attempts with the other nodes that use the database.
    #[must_use]
    pub fn shared_by(mut self, db: &Db) -> Self {
        self.attempts.share(db);
        self
    }

    /// Counts a request from an address, authenticated or not.
    ///
    /// # Errors
    /// `RateLimited`.
    pub fn request(&self, address: IpAddr) -> Result<(), AuthError> {
        self.count(&self.requests, net_of(address), "requests")
    }

    /// Counts an anonymous request.
    ///
    /// # Errors
    /// `RateLimited`.
    pub fn anonymous(&self, address: IpAddr) -> Result<(), AuthError> {
        self.count(&self.anonymous, net_of(address), "strangers")
    }

    /// Counts a request by a signed-in person, across all sessions and keys.
    ///
    /// # Errors
    /// `RateLimited`.
    pub fn act(&self, caller: &Caller, doing: RateClass) -> Result<(), AuthError> {
        if doing == RateClass::Reading {
            return self.count(&self.reads, caller.user, "reads");
        }
        if doing == RateClass::Uploading {
            self.count(&self.uploads, caller.user, "uploads")?;
        }
        self.count(&self.writes, caller.user, "writes")
    }

    /// Counts the size of a request that `act` has counted. The content of an upload does not count, because uploads have their own limit.
    /// A rejected request does not count at all.
    ///
    /// # Errors
    /// `RateLimited`.
    pub fn body(&self, user: UserId, doing: RateClass, bytes: u64) -> Result<(), AuthError> {
        let (buckets, limit, part) = match doing {
            RateClass::Reading => (&self.reads, "reads", READ_BYTES),
            RateClass::Writing => (&self.writes, "writes", WRITE_BYTES),
            RateClass::Uploading => return Ok(()),
        };
        self.count_parts(buckets, user, limit, bytes / part)
    }

    /// Counts the size of an anonymous request's body.
    ///
    /// # Errors
    /// `RateLimited`.
    pub fn anonymous_body(&self, address: IpAddr, bytes: u64) -> Result<(), AuthError> {
        let parts = bytes / WRITE_BYTES;
        self.count_parts(&self.anonymous, net_of(address), "strangers", parts)
    }

    /// Counts the size of an answer, which may put the person into debt.
    pub fn answered(&self, user: UserId, size: AnswerSize) {
        if self.on {
            let parts = match size {
                AnswerSize::Built(bytes) => bytes / READ_BYTES,
                AnswerSize::Streamed(bytes) => bytes / STREAM_BYTES,
            };
            let parts = u32::try_from(parts).unwrap_or(u32::MAX);
            self.reads.charge(user, parts, self.now());
        }
    }

    /// Counts the parts of a request that has already been counted as one. If there are too many, the request no longer counts, and the
    /// wait is that for all of it.
    fn count_parts<K: std::hash::Hash + Eq + Copy>(
        &self,
        buckets: &Buckets<K>,
        key: K,
        limit: &'static str,
        parts: u64,
    ) -> Result<(), AuthError> {
        if !self.on || parts == 0 {
            return Ok(());
        }
        let parts = u32::try_from(parts).unwrap_or(u32::MAX);
        let taken = buckets.take_many(key, parts, self.now());
        taken.map_err(|wait| {
            buckets.give_back(&key);
            refused(limit, wait)
        })
    }

    /// Counts an agent that a model drafts.
    ///
    /// # Errors
    /// `RateLimited`.
    pub fn draft_agent(&self, user: UserId) -> Result<(), AuthError> {
        self.count(&self.agent_drafts, user, "agent_drafts")
    }

    /// Counts files that a person puts into a vector store.
    ///
    /// # Errors
    /// `RateLimited`.
    pub fn collect_files(&self, user: UserId, files: usize) -> Result<(), AuthError> {
        for _ in 0..files {
            self.count(&self.collected_files, user, "collected_files")?;
        }
        Ok(())
    }

    /// Counts a message of an incoming webhook.
    ///
    /// # Errors
    /// `RateLimited`.
    pub fn hook(&self, hook: HookId) -> Result<(), AuthError> {
        self.count(&self.hooks, hook, "hooks")
    }

    /// Counts a SCIM request.
    ///
    /// # Errors
    /// `RateLimited`.
    pub fn scim(&self, provider: IdentityProviderId) -> Result<(), AuthError> {
        self.count(&self.scim, provider, "scim")
    }

    /// Counts a catch-up.
    ///
    /// # Errors
    /// `RateLimited`.
    pub fn catch_up(&self, user: UserId) -> Result<(), AuthError> {
        self.count(&self.catch_ups, user, "catch_ups")
    }

    /// Counts a catch-up that a model writes.
    ///
    /// # Errors
    /// `RateLimited`.
    pub fn write_catch_up(&self, user: UserId) -> Result<(), AuthError> {
        self.count(&self.written_catch_ups, user, "written_catch_ups")
    }

    fn count<K: std::hash::Hash + Eq>(
        &self,
        buckets: &Buckets<K>,
        key: K,
        limit: &'static str,
    ) -> Result<(), AuthError> {
        if !self.on {
            return Ok(());
        }
        buckets
            .take(key, self.now())
            .map_err(|wait| refused(limit, wait))
    }

    /// Counts a login attempt before the password is verified, so that concurrent attempts cannot bypass the limits.
    ///
    /// # Errors
    /// `TooManyAttempts`, with the seconds to wait, or a database error, so that passwords cannot be guessed while
    /// the database is unavailable.
    pub async fn log_in(&self, email: &str, address: IpAddr) -> Result<Attempt, AuthError> {
        if !self.on {
            return Ok(Attempt::Open);
        }
        self.attempts.log_in(email, address).await
    }

    /// Counts an attempt on a guarded account by a client that has never signed in to it.
    ///
    /// # Errors
    /// Same as `log_in`.
    pub async fn unknown_client(&self, email: &str, address: IpAddr) -> Result<Attempt, AuthError> {
        if !self.on {
            return Ok(Attempt::Unknown);
        }
        self.attempts.unknown_client(email, address).await
    }

    /// Refunds an attempt that was not a wrong guess.
    pub async fn settle<T>(
        &self,
        email: &str,
        address: IpAddr,
        attempt: Attempt,
        outcome: &Result<T, AuthError>,
    ) {
        if self.on && !is_guess(outcome) {
            self.attempts.refund(email, address, attempt).await;
        }
    }

    /// Counts a password change attempt in a session. Login attempts do not count here, so that nobody can block
    /// someone else's password change.
    ///
    /// # Errors
    /// Same as `log_in`.
    pub async fn change_password(&self, session: SessionId) -> Result<(), AuthError> {
        if !self.on {
            return Ok(());
        }
        self.attempts.change_password(session).await
    }

    /// Refunds a password change attempt that was not a wrong guess.
    pub async fn settle_change<T>(&self, session: SessionId, outcome: &Result<T, AuthError>) {
        if self.on && !is_guess(outcome) {
            self.attempts.refund_change(session).await;
        }
    }

    /// Counts an attempt with a second factor of an account.
    ///
    /// # Errors
    /// Same as `log_in`.
    pub async fn second_factor(&self, user: UserId) -> Result<(), AuthError> {
        if !self.on {
            return Ok(());
        }
        self.attempts.second_factor(user).await
    }

    /// Refunds an attempt with a second factor that was not wrong.
    pub async fn settle_second_factor<T>(&self, user: UserId, outcome: &Result<T, AuthError>) {
        let is_wrong = matches!(
            outcome,
            Err(AuthError::WrongCode | AuthError::WrongCurrentCode)
        );
        if self.on && !is_wrong {
            self.attempts.refund_second_factor(user).await;
        }
    }

    /// Takes a socket slot, and one of the person's slots if the person is known.
    ///
    /// # Errors
    /// `TooManySockets` if the person has too many sockets, or `NoMoreSockets` if the server does.
    pub fn open_socket(&self, user: Option<UserId>) -> Result<SocketPermit, AuthError> {
        let refused = |limit| {
            metrics::counter!("openvibe_rate_limited_total", "limit" => limit).increment(1);
        };
        let mut sockets = lock(&self.sockets);
        if sockets.all >= sockets.max {
            refused("sockets");
            return Err(AuthError::NoMoreSockets);
        }
        if let Some(user) = user {
            let (own, max) = (
                sockets.of_users.get(&user).copied().unwrap_or_default(),
                sockets.per_user_max,
            );
            if own >= max {
                refused("user_sockets");
                return Err(AuthError::TooManySockets(max));
            }
            sockets.of_users.insert(user, own + 1);
        }
        sockets.all += 1;
        drop(sockets);
        Ok(SocketPermit {
            sockets: Arc::clone(&self.sockets),
            user,
        })
    }

    /// Removes expired entries; called periodically.
    pub fn cleanup(&self) {
        let now = self.now();
        self.attempts.cleanup(now);
        self.reads.cleanup(now);
        self.writes.cleanup(now);
        self.uploads.cleanup(now);
        self.collected_files.cleanup(now);
        self.agent_drafts.cleanup(now);
        self.hooks.cleanup(now);
        self.scim.cleanup(now);
        self.requests.cleanup(now);
        self.anonymous.cleanup(now);
        self.catch_ups.cleanup(now);
        self.written_catch_ups.cleanup(now);
    }

    /// Deletes expired attempts from the database.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn delete_expired(&self) -> Result<(), DbError> {
        self.attempts.delete_expired().await
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use crate::{
        auth::{Credential, Scopes},
        ids::{ApiKeyId, WorkspaceId},
    };

    fn limits() -> Limits {
        Limits::new(true, 3, 2)
    }

    /// Returns the number of permits granted at once, and then the wait in seconds for the next one.
    fn granted(mut ask: impl FnMut() -> Result<(), AuthError>) -> (u32, u64) {
        let mut n = 0;
        loop {
            match ask() {
                Ok(()) => n += 1,
                Err(AuthError::RateLimited(s)) => return (n, s),
                Err(e) => panic!("{e}"),
            }
        }
    }

    fn session(user: UserId) -> Caller {
        Caller {
            user,
            kind: crate::auth::UserKind::Person,
            name: "Ada".to_owned(),
            credential: Credential::Session(SessionId::new()),
            reach: crate::auth::RouteReach::Members,
            turn: None,
        }
    }

    fn key(user: UserId) -> Caller {
        Caller {
            credential: Credential::Key {
                id: ApiKeyId::new(),
                workspace: WorkspaceId::new(),
                scopes: Scopes::default(),
                expires_at: None,
            },
            ..session(user)
        }
    }

    #[test]
    fn sessions_and_keys_of_a_person_share_one_limit() {
        let (limits, ada) = (limits(), UserId::new());
        let keys: Vec<Caller> = (0..6).map(|_| key(ada)).collect();
        let mut callers = keys.iter().cycle();
        let (n, wait) = granted(|| limits.act(callers.next().unwrap(), RateClass::Writing));
        assert!((400..450).contains(&n), "{n}");
        assert_eq!(wait, 1);
        assert!(limits.act(&session(ada), RateClass::Writing).is_err());
        limits.act(&session(ada), RateClass::Reading).unwrap();
        limits
            .act(&session(UserId::new()), RateClass::Writing)
            .unwrap();
    }

    #[test]
    fn the_size_of_a_write_counts() {
        const MESSAGE: u64 = 32 * 1024;
        let (limits, ada) = (limits(), UserId::new());
        let caller = session(ada);
        let post = |bytes| {
            limits.act(&caller, RateClass::Writing)?;
            limits.body(ada, RateClass::Writing, bytes)
        };
        let (n, wait) = granted(|| post(MESSAGE));
        assert!((44..50).contains(&n), "{n}");
        assert_eq!(wait, 1, "nine permits of 50 ms");
        // The rejected requests do not count: what is left is enough for small ones.
        let (small, _) = granted(|| post(100));
        assert!((400 - n * 9..450 - n * 9).contains(&small), "{small}");
        assert!(post(4095).is_err());
        limits.act(&caller, RateClass::Reading).unwrap();
        limits.body(ada, RateClass::Uploading, 1 << 30).unwrap();
    }

    #[test]
    fn a_body_of_the_maximum_size_is_accepted_and_its_wait_is_that_for_all_of_it() {
        let (limits, ada) = (limits(), UserId::new());
        let (caller, mib) = (session(ada), 1024 * 1024);
        let put = || {
            limits.act(&caller, RateClass::Writing)?;
            limits.body(ada, RateClass::Writing, mib)
        };
        let (n, wait) = granted(put);
        assert_eq!(n, 1, "257 permits of 400");
        assert!((5..=6).contains(&wait), "114 permits of 50 ms: {wait}");
    }

    #[test]
    fn the_size_of_answers_delays_the_next_reads() {
        const MIB: u64 = 1024 * 1024;
        let (limits, ada) = (limits(), UserId::new());
        let caller = session(ada);
        let read = |size| {
            limits.act(&caller, RateClass::Reading)?;
            limits.answered(ada, size);
            Ok(())
        };
        let (n, wait) = granted(|| read(AnswerSize::Built(7 * MIB)));
        assert!((9..=10).contains(&n), "113 permits each: {n}");
        assert!((1..=3).contains(&wait), "{wait}");
        limits.act(&caller, RateClass::Writing).unwrap();
        let bo = UserId::new();
        limits.answered(bo, AnswerSize::Streamed(200 * MIB));
        let (n, _) = granted(|| limits.act(&session(bo), RateClass::Reading));
        assert!((800..850).contains(&n), "a file counts less: {n}");
    }

    #[test]
    fn the_size_of_anonymous_bodies_counts() {
        let limits = limits();
        let at = IpAddr::from([203, 0, 113, 9]);
        let (n, _) = granted(|| {
            limits.anonymous(at)?;
            limits.anonymous_body(at, 16 * 1024)
        });
        assert!((40..45).contains(&n), "{n}");
    }

    #[test]
    fn uploads_are_counted_per_user_across_credentials() {
        let (limits, ada) = (limits(), UserId::new());
        let (n, wait) = granted(|| limits.act(&key(ada), RateClass::Uploading));
        assert_eq!((n, wait), (60, 1));
        assert!(limits.act(&session(ada), RateClass::Uploading).is_err());
        limits.act(&session(ada), RateClass::Writing).unwrap();
    }

    #[test]
    fn ten_agents_an_hour_are_drafted_for_a_person() {
        let (limits, ada) = (limits(), UserId::new());
        let (n, wait) = granted(|| limits.draft_agent(ada));
        assert_eq!(n, 10);
        assert!((359..=360).contains(&wait), "{wait}");
        limits.draft_agent(UserId::new()).unwrap();
    }

    #[test]
    fn six_hundred_files_an_hour_are_put_into_vector_stores_by_a_person() {
        let (limits, ada) = (limits(), UserId::new());
        let (n, wait) = granted(|| limits.collect_files(ada, 1));
        assert_eq!((n, wait), (600, 6));
        assert!(limits.collect_files(ada, 500).is_err());
        limits.collect_files(UserId::new(), 500).unwrap();
    }

    #[test]
    fn twenty_catch_ups_an_hour_are_written_for_a_person() {
        let (limits, ada) = (limits(), UserId::new());
        let (n, wait) = granted(|| limits.write_catch_up(ada));
        assert_eq!(n, 20);
        assert!((179..=180).contains(&wait), "{wait}");
        assert!(granted(|| limits.catch_up(ada)).0 >= 30);
        limits.write_catch_up(UserId::new()).unwrap();
    }

    #[test]
    fn a_provider_sends_fifty_scim_requests_a_second() {
        let (limits, corp) = (limits(), IdentityProviderId::new());
        let (n, wait) = granted(|| limits.scim(corp));
        assert!((100..150).contains(&n), "{n}");
        assert_eq!(wait, 1);
        limits.scim(IdentityProviderId::new()).unwrap();
    }

    #[test]
    fn address_limits_apply_to_all_callers_and_group_ipv6_by_64_bits() {
        let limits = limits();
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        let (n, wait) = granted(|| limits.request(at("203.0.113.7")));
        assert!((5000..6000).contains(&n), "{n}");
        assert_eq!(wait, 1);
        limits.request(at("203.0.113.8")).unwrap();
        let mut host = 0_u128;
        let (n, _) = granted(|| {
            host += 1;
            let v6 = at("2001:db8:1:2::").to_canonical();
            let IpAddr::V6(v6) = v6 else { unreachable!() };
            limits.anonymous(Ipv6Addr::from_bits(v6.to_bits() | host).into())
        });
        assert!((200..220).contains(&n), "{n}");
        limits.anonymous(at("2001:db8:1:3::1")).unwrap();
        assert_eq!(net_of(at("::ffff:203.0.113.7")), at("203.0.113.7"));
    }

    #[tokio::test]
    async fn attempts_whose_password_was_not_checked_do_not_count() {
        let (limits, ada) = (limits(), "ada@example.org");
        let at = |n: u8| IpAddr::from([10, 0, 0, n]);
        let (wrong, busy) = (
            Err::<(), _>(AuthError::WrongPassword),
            Err::<(), _>(AuthError::HasherBusy),
        );
        for _ in 0..100 {
            let attempt = limits.log_in(ada, at(1)).await.unwrap();
            limits.settle(ada, at(1), attempt, &busy).await;
        }
        for n in 0..100 {
            let attempt = limits.log_in(ada, at(n)).await.unwrap();
            assert_eq!(attempt, Attempt::Open, "{n}");
            limits.settle(ada, at(n), attempt, &wrong).await;
        }
        for _ in 0..9 {
            let attempt = limits.log_in(ada, at(200)).await.unwrap();
            assert_eq!(attempt, Attempt::Guarded);
            let attempt = limits.unknown_client(ada, at(200)).await.unwrap();
            limits.settle(ada, at(200), attempt, &busy).await;
        }
        let attempt = limits.unknown_client(ada, at(200)).await.unwrap();
        limits.settle(ada, at(200), attempt, &wrong).await;
        let again = limits.unknown_client(ada, at(200)).await;
        assert!(matches!(again, Err(AuthError::TooManyAttempts(_))));
    }

    #[tokio::test]
    async fn changes_whose_current_password_was_not_checked_do_not_count() {
        let (limits, session) = (limits(), SessionId::new());
        let (wrong, busy) = (
            Err::<(), _>(AuthError::WrongCurrentPassword),
            Err::<(), _>(AuthError::HasherBusy),
        );
        for _ in 0..100 {
            limits.change_password(session).await.unwrap();
            limits.settle_change(session, &busy).await;
        }
        let mut failed = 0;
        while limits.change_password(session).await.is_ok() {
            limits.settle_change(session, &wrong).await;
            failed += 1;
        }
        assert_eq!(failed, 10);
    }

    #[test]
    fn sockets_are_counted_until_they_close() {
        let (limits, ada, bo) = (limits(), UserId::new(), UserId::new());
        let first = limits.open_socket(Some(ada)).unwrap();
        let _second = limits.open_socket(Some(ada)).unwrap();
        assert!(matches!(
            limits.open_socket(Some(ada)),
            Err(AuthError::TooManySockets(2))
        ));
        let third = limits.open_socket(Some(bo)).unwrap();
        assert!(matches!(
            limits.open_socket(None),
            Err(AuthError::NoMoreSockets)
        ));
        drop((first, third));
        let _again = limits.open_socket(Some(ada)).unwrap();
        assert_eq!(lock(&limits.sockets).of_users.get(&bo), None);
    }

    #[tokio::test]
    async fn with_limits_off_only_the_total_number_of_sockets_is_limited() {
        let (limits, address) = (Limits::new(false, 2, 1), IpAddr::from([10, 0, 0, 1]));
        for _ in 0..10_000 {
            limits.request(address).unwrap();
            limits.anonymous(address).unwrap();
            limits.log_in("ada@example.org", address).await.unwrap();
        }
        assert!(limits.requests.take(address, Instant::now()).is_ok());
        let ada = UserId::new();
        let _both = [Some(ada), Some(ada)].map(|user| limits.open_socket(user).unwrap());
        assert!(limits.open_socket(None).is_err());
    }
}
