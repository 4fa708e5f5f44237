//! What one person, key or address may ask of the server: how often, and how many sockets at once.
//!
//! Every request is counted for its address before anything else is done with it. One that shows no valid session or
//! key is counted for its address once more, by a narrower measure; any other for its person or key.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{AuthError, Caller, Credential, hash_token};
use crate::{
    ids::{ApiKeyId, UserId},
    rate::Buckets,
};

const SECOND: Duration = Duration::from_secs(1);

/// Each is how long it takes until there may be one more, and how many there may be at once.
///
/// Failed attempts to log in: for one account, and from one address.
const LOGINS_OF_ACCOUNT: (Duration, u32) = (Duration::from_secs(6), 10);
const LOGINS_OF_ADDRESS: (Duration, u32) = (SECOND, 60);
/// Of one person in all sessions, and of one key.
const READS: (Duration, u32) = (Duration::from_millis(20), 1000);
const WRITES: (Duration, u32) = (Duration::from_millis(50), 400);
/// Of one person.
const UPLOADS: (Duration, u32) = (SECOND, 60);
/// From one address: all requests, and those of nobody that is known.
const REQUESTS: (Duration, u32) = (Duration::from_millis(2), 5000);
const STRANGERS: (Duration, u32) = (Duration::from_millis(100), 200);

/// What a known person's request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Reading,
    Writing,
    /// A write that brings a file.
    Uploading,
}

/// Whose requests are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Who {
    User(UserId),
    Key(ApiKeyId),
}

pub struct Limits {
    on: bool,
    account_logins: Buckets<String>,
    address_logins: Buckets<IpAddr>,
    reads: Buckets<Who>,
    writes: Buckets<Who>,
    uploads: Buckets<UserId>,
    requests: Buckets<IpAddr>,
    strangers: Buckets<IpAddr>,
    sockets: Arc<Mutex<Sockets>>,
}

struct Sockets {
    max: usize,
    per_user_max: usize,
    all: usize,
    of_users: HashMap<UserId, usize>,
}

/// A socket that is counted until this is dropped.
pub struct SocketPlace {
    sockets: Arc<Mutex<Sockets>>,
    user: Option<UserId>,
}

fn lock(sockets: &Mutex<Sockets>) -> MutexGuard<'_, Sockets> {
    sockets.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for SocketPlace {
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

/// The part of an address that one subscriber has: of IPv6 they have a whole /64.
pub fn net(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

fn buckets<K: std::hash::Hash + Eq>((every, burst): (Duration, u32)) -> Buckets<K> {
    Buckets::new(every, burst)
}

/// Whole seconds, so that waiting for them is long enough.
fn seconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis().div_ceil(1000)).map_or(u64::MAX, |s| s.max(1))
}

fn refused(limit: &'static str, wait: Duration) -> AuthError {
    metrics::counter!("openvibe_rate_limited_total", "limit" => limit).increment(1);
    AuthError::RateLimited(seconds(wait))
}

impl Limits {
    /// With `on` false nothing is counted but the sockets of all.
    pub fn new(on: bool, sockets_max: usize, sockets_per_user: usize) -> Self {
        Self {
            on,
            account_logins: buckets(LOGINS_OF_ACCOUNT),
            address_logins: buckets(LOGINS_OF_ADDRESS),
            reads: buckets(READS),
            writes: buckets(WRITES),
            uploads: buckets(UPLOADS),
            requests: buckets(REQUESTS),
            strangers: buckets(STRANGERS),
            sockets: Arc::new(Mutex::new(Sockets {
                max: sockets_max,
                // Load tests open thousands as a few people.
                per_user_max: if on { sockets_per_user } else { usize::MAX },
                all: 0,
                of_users: HashMap::new(),
            })),
        }
    }

    /// Counts a request from an address, whoever sends it.
    ///
    /// # Errors
    /// `RateLimited`.
    pub fn request(&self, address: IpAddr) -> Result<(), AuthError> {
        self.count(&self.requests, net(address), "requests")
    }

    /// Counts a request of nobody that is known.
    ///
    /// # Errors
    /// `RateLimited`.
    pub fn stranger(&self, address: IpAddr) -> Result<(), AuthError> {
        self.count(&self.strangers, net(address), "strangers")
    }

    /// Counts what a known person or their key does.
    ///
    /// # Errors
    /// `RateLimited`.
    pub fn act(&self, caller: &Caller, doing: Doing) -> Result<(), AuthError> {
        let who = match caller.credential {
            Credential::Session(_) => Who::User(caller.user),
            Credential::Key { id, .. } => Who::Key(id),
        };
        if doing == Doing::Reading {
            return self.count(&self.reads, who, "reads");
        }
        if doing == Doing::Uploading {
            self.count(&self.uploads, caller.user, "uploads")?;
        }
        self.count(&self.writes, who, "writes")
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
            .take(key, Instant::now())
            .map_err(|wait| refused(limit, wait))
    }

    /// Counts an attempt to log in, before the password is looked at: many at once are no way around.
    ///
    /// # Errors
    /// `TooManyAttempts` with the seconds to wait.
    pub fn log_in(&self, email: &str, address: IpAddr) -> Result<(), AuthError> {
        if !self.on {
            return Ok(());
        }
        let (now, account) = (Instant::now(), hash_token(email));
        let refuse = |wait| {
            metrics::counter!("openvibe_rate_limited_total", "limit" => "logins").increment(1);
            AuthError::TooManyAttempts(seconds(wait))
        };
        self.account_logins
            .take(account.clone(), now)
            .map_err(refuse)?;
        self.address_logins.take(net(address), now).map_err(|wait| {
            self.account_logins.give_back(&account);
            refuse(wait)
        })
    }

    /// The attempt succeeded, and those do not count.
    pub fn logged_in(&self, email: &str, address: IpAddr) {
        self.account_logins.give_back(&hash_token(email));
        self.address_logins.give_back(&net(address));
    }

    /// Counts a socket, of a person once that is known.
    ///
    /// # Errors
    /// `TooManySockets` of this person, `NoMoreSockets` of all.
    pub fn open_socket(&self, user: Option<UserId>) -> Result<SocketPlace, AuthError> {
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
        Ok(SocketPlace {
            sockets: Arc::clone(&self.sockets),
            user,
        })
    }

    /// Forgets what has run out; called now and then.
    pub fn tidy(&self) {
        let now = Instant::now();
        self.account_logins.tidy(now);
        self.address_logins.tidy(now);
        self.reads.tidy(now);
        self.writes.tidy(now);
        self.uploads.tidy(now);
        self.requests.tidy(now);
        self.strangers.tidy(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        auth::Scopes,
        ids::{SessionId, WorkspaceId},
    };

    fn limits() -> Limits {
        Limits::new(true, 3, 2)
    }

    /// How many are granted at once; the wait after that.
    fn granted(mut ask: impl FnMut() -> Result<(), AuthError>) -> (u32, u64) {
        let mut n = 0;
        loop {
            match ask() {
                Ok(()) => n += 1,
                Err(AuthError::RateLimited(s) | AuthError::TooManyAttempts(s)) => return (n, s),
                Err(e) => panic!("{e}"),
            }
        }
    }

    fn session(user: UserId) -> Caller {
        Caller {
            user,
            name: "Ada".to_owned(),
            credential: Credential::Session(SessionId::new()),
        }
    }

    fn key(user: UserId) -> Caller {
        Caller {
            credential: Credential::Key {
                id: ApiKeyId::new(),
                workspace: WorkspaceId::new(),
                scopes: Scopes::default(),
            },
            ..session(user)
        }
    }

    #[test]
    fn sessions_of_a_person_share_a_measure_and_each_key_has_its_own() {
        let (limits, ada) = (limits(), UserId::new());
        let (n, wait) = granted(|| limits.act(&session(ada), Doing::Writing));
        assert!((400..450).contains(&n), "{n}");
        assert_eq!(wait, 1);
        assert!(limits.act(&session(ada), Doing::Writing).is_err());
        limits.act(&session(ada), Doing::Reading).unwrap();
        limits.act(&key(ada), Doing::Writing).unwrap();
        limits.act(&session(UserId::new()), Doing::Writing).unwrap();
    }

    #[test]
    fn uploads_are_counted_by_person_whatever_they_show() {
        let (limits, ada) = (limits(), UserId::new());
        let (n, wait) = granted(|| limits.act(&key(ada), Doing::Uploading));
        assert_eq!((n, wait), (60, 1));
        assert!(limits.act(&session(ada), Doing::Uploading).is_err());
        limits.act(&session(ada), Doing::Writing).unwrap();
    }

    #[test]
    fn an_address_counts_whoever_sends_and_ipv6_by_the_64() {
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
            limits.stranger(Ipv6Addr::from_bits(v6.to_bits() | host).into())
        });
        assert!((200..220).contains(&n), "{n}");
        limits.stranger(at("2001:db8:1:3::1")).unwrap();
        assert_eq!(net(at("::ffff:203.0.113.7")), at("203.0.113.7"));
    }

    #[test]
    fn attempts_to_log_in_count_by_account_and_by_address_unless_they_succeed() {
        let limits = limits();
        let [here, there]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        for _ in 0..100 {
            limits.log_in("ada@example.org", here).unwrap();
            limits.logged_in("ada@example.org", here);
        }
        let (n, wait) = granted(|| limits.log_in("ada@example.org", here));
        assert_eq!(n, 10);
        assert!((5..=6).contains(&wait), "{wait}");
        assert!(
            limits.log_in("ada@example.org", there).is_err(),
            "the account"
        );
        limits.log_in("bo@example.org", there).unwrap();
        let mut n = 0;
        let (more, _) = granted(|| {
            n += 1;
            limits.log_in(&format!("{n}@example.org"), here)
        });
        assert!((50..55).contains(&more), "{more} after ten");
        limits.log_in("cy@example.org", there).unwrap();
    }

    #[test]
    fn sockets_are_counted_until_they_end() {
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

    #[test]
    fn switched_off_nothing_is_counted_but_the_sockets_of_all() {
        let (limits, address) = (Limits::new(false, 2, 1), IpAddr::from([10, 0, 0, 1]));
        for _ in 0..10_000 {
            limits.request(address).unwrap();
            limits.stranger(address).unwrap();
            limits.log_in("ada@example.org", address).unwrap();
        }
        assert!(limits.requests.take(address, Instant::now()).is_ok());
        let ada = UserId::new();
        let _both = [Some(ada), Some(ada)].map(|user| limits.open_socket(user).unwrap());
        assert!(limits.open_socket(None).is_err());
    }
}
