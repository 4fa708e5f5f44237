//! Rate limits for many keys in bounded memory.
//!
//! Each key has a bucket of permits that refills at a constant rate. Only one value is stored per bucket: the time at
//! which it will be full again (the generic cell rate algorithm). A full bucket is equivalent to a missing one, so it
//! is removed.

use std::{
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use dashmap::{DashMap, Entry};

/// Maximum number of remembered keys. All other keys share one bucket, so that invented keys cannot exhaust memory.
const KEYS_MAX: usize = 100_000;
/// Minimum interval between scans for full buckets, which are too slow to run for every new key.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(1);

/// Time to wait in whole seconds, rounded up.
pub fn whole_seconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis().div_ceil(1000)).map_or(u64::MAX, |s| s.max(1))
}

/// A bucket of permits for each key.
pub struct Buckets<K> {
    /// Time that it takes to refill one permit.
    every: Duration,
    /// Time that it takes to refill an empty bucket completely.
    whole: Duration,
    keys_max: usize,
    /// Time at which each bucket will be full again.
    full_at: DashMap<K, Instant>,
    /// The bucket that all other keys share, and the time of the last scan for full buckets.
    overflow: Mutex<(Option<Instant>, Option<Instant>)>,
}

/// A rate limit.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Time that it takes to refill one permit.
    pub every: Duration,
    pub burst: u32,
}

impl Rate {
    pub const fn new(every: Duration, burst: u32) -> Self {
        Self { every, burst }
    }
}

impl<K: Hash + Eq> Buckets<K> {
    pub fn of(rate: Rate) -> Self {
        Self::new(rate.every, rate.burst)
    }

    /// Allows `burst` permits at once and refills one permit per `every`.
    pub fn new(every: Duration, burst: u32) -> Self {
        Self {
            every,
            whole: every * burst,
            keys_max: KEYS_MAX,
            full_at: DashMap::new(),
            overflow: Mutex::new((None, None)),
        }
    }

    /// Time at which the bucket will be full if `count` permits are taken now.
    fn after(&self, full_at: Option<Instant>, count: u32, now: Instant) -> Instant {
        full_at.map_or(now, |at| at.max(now)) + self.every * count
    }

    /// Like `after`, with an error if the bucket has fewer permits.
    ///
    /// # Errors
    /// The time until the permits are available. More than a full bucket never is, so the whole bucket counts as enough.
    fn next(
        &self,
        full_at: Option<Instant>,
        count: u32,
        now: Instant,
    ) -> Result<Instant, Duration> {
        let next = self.after(full_at, count, now);
        let taken = (self.every * count).max(self.whole);
        match next.checked_duration_since(now + taken) {
            None | Some(Duration::ZERO) => Ok(next),
            Some(wait) => Err(wait),
        }
    }

    /// Changes the bucket of a key with `change`, which gets the time at which it will be full and returns the new one.
    fn change(
        &self,
        key: K,
        now: Instant,
        change: impl Fn(Option<Instant>) -> Result<Instant, Duration>,
    ) -> Result<(), Duration> {
        if let Some(mut full_at) = self.full_at.get_mut(&key) {
            *full_at = change(Some(*full_at))?;
            return Ok(());
        }
        if self.full_at.len() >= self.keys_max && !self.make_room(now) {
            let mut overflow = self.overflow.lock().unwrap_or_else(PoisonError::into_inner);
            overflow.0 = Some(change(overflow.0)?);
            return Ok(());
        }
        match self.full_at.entry(key) {
            // A concurrent request with the same key inserted it first.
            Entry::Occupied(mut entry) => {
                let next = change(Some(*entry.get()))?;
                entry.insert(next);
            }
            Entry::Vacant(entry) => {
                entry.insert(change(None)?);
            }
        }
        Ok(())
    }

    /// Takes a permit.
    ///
    /// # Errors
    /// The time until the next permit, if none is available.
    pub fn take(&self, key: K, now: Instant) -> Result<(), Duration> {
        self.take_many(key, 1, now)
    }

    /// Takes several permits, or none.
    ///
    /// # Errors
    /// The time until all of them are available.
    pub fn take_many(&self, key: K, count: u32, now: Instant) -> Result<(), Duration> {
        self.change(key, now, |full_at| self.next(full_at, count, now))
    }

    /// Takes permits for something that has already happened. If the bucket has fewer, it is in debt, and later requests wait until the
    /// debt is paid.
    pub fn charge(&self, key: K, count: u32, now: Instant) {
        if count > 0 {
            // The change has no error.
            let _charged = self.change(key, now, |full_at| Ok(self.after(full_at, count, now)));
        }
    }

    /// Returns a permit that was not needed.
    pub fn give_back(&self, key: &K) {
        if let Some(mut full_at) = self.full_at.get_mut(key)
            && let Some(earlier) = full_at.checked_sub(self.every)
        {
            *full_at = earlier;
        }
    }

    /// Removes buckets that are full again.
    pub fn cleanup(&self, now: Instant) {
        self.full_at.retain(|_, full_at| *full_at > now);
        if self.full_at.capacity() > 4 * self.full_at.len().max(1024) {
            self.full_at.shrink_to_fit();
        }
    }

    fn make_room(&self, now: Instant) -> bool {
        let mut overflow = self.overflow.lock().unwrap_or_else(PoisonError::into_inner);
        if overflow.1.is_none_or(|at| now >= at + CLEANUP_INTERVAL) {
            overflow.1 = Some(now);
            self.cleanup(now);
        }
        self.full_at.len() < self.keys_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_is_granted_and_then_permits_at_the_rate() {
        let (buckets, now) = (Buckets::new(SECOND / 2, 3), Instant::now());
        for _ in 0..3 {
            assert_eq!(buckets.take("ada", now), Ok(()));
        }
        assert_eq!(buckets.take("ada", now), Err(SECOND / 2));
        assert_eq!(
            buckets.take("ada", now),
            Err(SECOND / 2),
            "a rejection does not take a permit"
        );
        assert_eq!(buckets.take("ada", now + SECOND / 2), Ok(()));
        assert_eq!(buckets.take("ada", now + SECOND / 2), Err(SECOND / 2));
        let later = now + 60 * SECOND;
        for _ in 0..3 {
            assert_eq!(
                buckets.take("ada", later),
                Ok(()),
                "at most one burst accumulates"
            );
        }
        assert!(buckets.take("ada", later).is_err());
    }

    #[test]
    fn keys_are_limited_independently() {
        let (buckets, now) = (Buckets::new(SECOND, 1), Instant::now());
        buckets.take("ada", now).unwrap();
        assert!(buckets.take("ada", now).is_err());
        assert_eq!(buckets.take("bo", now), Ok(()));
    }

    #[test]
    fn returned_permits_can_be_acquired_again() {
        let (buckets, now) = (Buckets::new(SECOND, 1), Instant::now());
        buckets.take("ada", now).unwrap();
        buckets.give_back(&"ada");
        assert_eq!(buckets.take("ada", now), Ok(()));
        assert!(buckets.take("ada", now).is_err());
    }

    #[test]
    fn several_permits_are_taken_together_or_not_at_all() {
        let (buckets, now) = (Buckets::new(SECOND, 10), Instant::now());
        assert_eq!(buckets.take_many("ada", 8, now), Ok(()));
        assert_eq!(buckets.take_many("ada", 5, now), Err(3 * SECOND));
        assert_eq!(buckets.take_many("ada", 2, now), Ok(()));
        let later = now + 3 * SECOND;
        assert_eq!(buckets.take_many("ada", 3, later), Ok(()));
        assert_eq!(
            buckets.take_many("bo", 25, now),
            Ok(()),
            "more than a full bucket"
        );
        assert_eq!(buckets.take("bo", now), Err(16 * SECOND));
    }

    #[test]
    fn a_debt_is_paid_before_the_next_permit() {
        let (buckets, now) = (Buckets::new(SECOND, 3), Instant::now());
        buckets.take("ada", now).unwrap();
        buckets.charge("ada", 7, now);
        assert_eq!(buckets.take("ada", now), Err(6 * SECOND));
        assert_eq!(buckets.take("ada", now + 6 * SECOND), Ok(()));
        buckets.charge("bo", 0, now);
        assert!(!buckets.full_at.contains_key("bo"));
        buckets.cleanup(now + 9 * SECOND);
        assert_eq!(buckets.full_at.len(), 0, "a paid debt leaves nothing");
    }

    #[test]
    fn full_buckets_are_removed() {
        let (buckets, now) = (Buckets::new(SECOND, 2), Instant::now());
        buckets.take("ada", now).unwrap();
        buckets.take("bo", now).unwrap();
        buckets.take("bo", now).unwrap();
        buckets.cleanup(now + SECOND);
        assert_eq!(buckets.full_at.len(), 1);
        buckets.cleanup(now + 2 * SECOND);
        assert_eq!(buckets.full_at.len(), 0);
    }

    #[test]
    fn invented_keys_share_one_bucket_and_use_no_memory() {
        let (mut buckets, now) = (Buckets::new(SECOND, 2), Instant::now());
        buckets.keys_max = 10;
        let granted = (0..1000).filter(|n| buckets.take(*n, now).is_ok()).count();
        assert_eq!(
            granted, 12,
            "ten in their own buckets and two in the shared one"
        );
        assert_eq!(buckets.full_at.len(), 10);
        assert_eq!(buckets.take(3, now), Ok(()), "known keys are not affected");
        assert_eq!(
            buckets.take(5000, now + 2 * SECOND),
            Ok(()),
            "there is room again"
        );
        assert!(buckets.full_at.contains_key(&5000));
    }
}
