//! How often someone may try to log in: by account and by address, failed attempts only.

use std::{net::IpAddr, num::NonZeroU32, time::Duration};

use governor::{DefaultKeyedRateLimiter, Quota, clock::Clock, clock::DefaultClock};

use super::AuthError;

/// Failed attempts a minute for one account, after a burst of as many.
const PER_ACCOUNT: NonZeroU32 = NonZeroU32::new(10).unwrap();
/// Failed attempts a minute from one address.
const PER_ADDRESS: NonZeroU32 = NonZeroU32::new(60).unwrap();

pub struct LoginLimits {
    on: bool,
    accounts: DefaultKeyedRateLimiter<String>,
    addresses: DefaultKeyedRateLimiter<IpAddr>,
    /// Who has used up an allowance, and until when: looked at before a password is checked.
    blocked: dashmap::DashMap<String, std::time::Instant>,
}

impl LoginLimits {
    pub fn new(on: bool) -> Self {
        Self {
            on,
            accounts: DefaultKeyedRateLimiter::keyed(Quota::per_minute(PER_ACCOUNT)),
            addresses: DefaultKeyedRateLimiter::keyed(Quota::per_minute(PER_ADDRESS)),
            blocked: dashmap::DashMap::new(),
        }
    }

    /// # Errors
    /// `TooManyAttempts` with the seconds to wait.
    pub fn check(&self, email: &str, address: IpAddr) -> Result<(), AuthError> {
        let now = std::time::Instant::now();
        for key in [email.to_owned(), address.to_string()] {
            if let Some(until) = self.blocked.get(&key).map(|entry| *entry)
                && until > now
            {
                return Err(AuthError::TooManyAttempts((until - now).as_secs() + 1));
            }
        }
        Ok(())
    }

    /// Counts a failed attempt.
    pub fn failed(&self, email: &str, address: IpAddr) {
        if !self.on {
            return;
        }
        let clock = DefaultClock::default();
        if let Err(not_until) = self.accounts.check_key(&email.to_owned()) {
            self.block(email.to_owned(), not_until.wait_time_from(clock.now()));
        }
        if let Err(not_until) = self.addresses.check_key(&address) {
            self.block(address.to_string(), not_until.wait_time_from(clock.now()));
        }
    }

    fn block(&self, key: String, wait: Duration) {
        self.blocked.insert(key, std::time::Instant::now() + wait);
    }

    /// Forgets what has run out; called now and then.
    pub fn tidy(&self) {
        let now = std::time::Instant::now();
        self.blocked.retain(|_, until| *until > now);
        self.accounts.retain_recent();
        self.addresses.retain_recent();
    }
}
