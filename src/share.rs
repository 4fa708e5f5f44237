//! Pools of a resource, such as bytes or connections, parts of which are held for a while. A pool has a total limit and a limit per
//! holder. Also limits the number of concurrent turns per holder.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Number of holders in the table of turns beyond which idle ones are removed.
const HOLDERS_KEPT: usize = 1024;

/// Bounds of a [`Pool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolBounds {
    /// Maximum for all holders together.
    pub total: u64,
    /// Maximum for one holder.
    pub share: u64,
}

/// The bound that a request would have exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    Total,
    Share,
}

/// A pool from which holders acquire amounts. Its memory is bounded by the number of permits, because a holder without a permit is
/// removed.
#[derive(Debug)]
pub struct Pool<K> {
    bounds: PoolBounds,
    held: Mutex<Held<K>>,
}

#[derive(Debug)]
struct Held<K> {
    total: u64,
    of: HashMap<K, u64>,
}

impl<K: Hash + Eq + Clone> Pool<K> {
    pub fn new(bounds: PoolBounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            held: Mutex::new(Held {
                total: 0,
                of: HashMap::new(),
            }),
        })
    }

    fn held(&self) -> MutexGuard<'_, Held<K>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires a permit for `amount`, which is held until the permit is dropped.
    ///
    /// # Errors
    /// The bound that would be exceeded.
    pub fn take(self: &Arc<Self>, holder: K, amount: u64) -> Result<Permit<K>, Exhausted> {
        let mut permit = self.force(holder, 0);
        permit.grow(amount)?;
        Ok(permit)
    }

    /// Acquires a permit regardless of the bounds, for something that already exists and can no longer be rejected.
    pub fn force(self: &Arc<Self>, holder: K, amount: u64) -> Permit<K> {
        let permit = Permit {
            pool: Arc::clone(self),
            holder,
            amount,
        };
        let mut held = self.held();
        held.total += amount;
        *held.of.entry(permit.holder.clone()).or_default() += amount;
        drop(held);
        permit
    }

    /// Returns true if this holder has used up its share.
    pub fn has_used_up(&self, holder: &K) -> bool {
        let held = self.held();
        held.of.get(holder).copied().unwrap_or(0) >= self.bounds.share
    }
}

/// An amount that is held until this value is dropped.
#[derive(Debug)]
pub struct Permit<K: Hash + Eq + Clone> {
    pool: Arc<Pool<K>>,
    holder: K,
    amount: u64,
}

impl<K: Hash + Eq + Clone> Permit<K> {
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Increases the amount.
    ///
    /// # Errors
    /// The bound that would be exceeded; the amount is unchanged.
    pub fn grow(&mut self, more: u64) -> Result<(), Exhausted> {
        self.grow_within(more, self.pool.bounds.share)
    }

    /// Increases the amount, with a different maximum for the holder.
    ///
    /// # Errors
    /// Same as `grow`.
    pub fn grow_within(&mut self, more: u64, share: u64) -> Result<(), Exhausted> {
        let mut held = self.pool.held();
        let own = held.of.get(&self.holder).copied().unwrap_or(0);
        if own + more > share {
            return Err(Exhausted::Share);
        }
        if held.total + more > self.pool.bounds.total {
            return Err(Exhausted::Total);
        }
        held.total += more;
        *held.of.entry(self.holder.clone()).or_default() += more;
        drop(held);
        self.amount += more;
        Ok(())
    }
}

impl<K: Hash + Eq + Clone> Drop for Permit<K> {
    fn drop(&mut self) {
        let mut held = self.pool.held();
        held.total -= self.amount;
        if let Some(own) = held.of.get_mut(&self.holder) {
            *own -= self.amount;
            if *own == 0 {
                held.of.remove(&self.holder);
            }
        }
    }
}

/// Limits how many turns each holder has at a time; other requests wait for a turn.
#[derive(Debug)]
pub struct Turns<K> {
    at_once: usize,
    waiting_max: usize,
    semaphores: Mutex<HashMap<K, Arc<Semaphore>>>,
}

impl<K: Hash + Eq> Turns<K> {
    /// Each holder has `at_once` turns. At most about `waiting_max` requests per holder hold a turn or wait for one.
    pub fn new(at_once: usize, waiting_max: usize) -> Self {
        Self {
            at_once,
            waiting_max,
            semaphores: Mutex::default(),
        }
    }

    fn of(&self, holder: K) -> Arc<Semaphore> {
        let mut all = self
            .semaphores
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if all.len() > HOLDERS_KEPT {
            // Permits and waiting requests hold references.
            all.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        let semaphore = all
            .entry(holder)
            .or_insert_with(|| Arc::new(Semaphore::new(self.at_once)));
        Arc::clone(semaphore)
    }

    /// Waits for a turn, which is held until the permit is dropped. Returns `None` immediately if too many of the holder's requests
    /// already hold a turn or wait for one.
    pub async fn take(&self, holder: K) -> Option<OwnedSemaphorePermit> {
        let semaphore = self.of(holder);
        if Arc::strong_count(&semaphore) > self.waiting_max {
            return None;
        }
        // Fails only if the semaphore is closed, which never happens.
        semaphore.acquire_owned().await.ok()
    }

    /// Waits for a turn for a limited time. Returns `None` when that time is up, or immediately if `take` would return `None`
    /// immediately.
    pub async fn take_within(&self, holder: K, within: Duration) -> Option<OwnedSemaphorePermit> {
        let turn = tokio::time::timeout(within, self.take(holder));
        turn.await.ok().flatten()
    }
}

/// Turns with a limit per holder and a limit for all holders together.
#[derive(Debug)]
pub struct SharedTurns<K> {
    own: Turns<K>,
    all: Arc<Semaphore>,
}

/// A turn that is held until this value is dropped.
#[derive(Debug)]
pub struct Turn {
    _own: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl<K: Hash + Eq> SharedTurns<K> {
    /// Each holder has one turn, and all holders together have `total`. At most about `waiting_max` requests per holder hold a turn
    /// or wait for one.
    pub fn new(total: usize, waiting_max: usize) -> Self {
        Self::with_share(1, total, waiting_max)
    }

    /// Same as `new`, but each holder has `share` turns.
    pub fn with_share(share: usize, total: usize, waiting_max: usize) -> Self {
        Self {
            own: Turns::new(share, waiting_max),
            all: Arc::new(Semaphore::new(total)),
        }
    }

    /// Waits for a turn. A holder's requests wait for the holder's own turn first, so that a holder never has more than one place in
    /// the queue of all holders. Returns `None` immediately if too many of the holder's requests already hold a turn or wait for one.
    pub async fn take(&self, holder: K) -> Option<Turn> {
        let own = self.own.take(holder).await?;
        self.join(own).await
    }

    /// Waits for a turn for a limited time. Returns `None` when that time is up, or immediately if `take` would return `None`
    /// immediately.
    pub async fn take_within(&self, holder: K, within: Duration) -> Option<Turn> {
        let turn = tokio::time::timeout(within, self.take(holder));
        turn.await.ok().flatten()
    }

    /// Like `take`, but waits only for a limited time while the holder's own turn is taken.
    pub async fn take_if_own_is_free(&self, holder: K, within: Duration) -> Option<Turn> {
        let own = self.own.take_within(holder, within).await?;
        self.join(own).await
    }

    async fn join(&self, own: OwnedSemaphorePermit) -> Option<Turn> {
        // Fails only if the semaphore is closed, which never happens.
        let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Turn {
            _own: own,
            _of_all: of_all,
        })
    }
}

/// Part of a whole, more than 0 and at most 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(f64);

impl Share {
    pub const QUARTER: Self = Self(0.25);

    /// # Errors
    /// A description of the expected value.
    pub fn parse(text: &str) -> Result<Self, String> {
        let share = text.trim().parse::<f64>().ok();
        let share = share.filter(|share| *share > 0.0 && *share <= 1.0);
        let share = share.map(Self);
        share.ok_or_else(|| format!("`{text}` is not a number above 0 and at most 1, such as 0.25"))
    }

    /// Returns this part of `max`, rounded down, and at least 1.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the result is from 1 to `max`, which is small"
    )]
    pub fn of(self, max: usize) -> usize {
        ((max as f64 * self.0) as usize).clamp(1, max.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: PoolBounds = PoolBounds { total: 5, share: 3 };

    #[test]
    fn each_holder_has_a_share_and_all_holders_a_total() {
        let pool = Pool::new(BOUNDS);
        let mut ada = pool.take("ada", 2).unwrap();
        assert_eq!(pool.take("ada", 2).unwrap_err(), Exhausted::Share);
        ada.grow(1).unwrap();
        assert_eq!(ada.grow(1).unwrap_err(), Exhausted::Share);
        assert_eq!(ada.amount(), 3);
        assert!(pool.has_used_up(&"ada") && !pool.has_used_up(&"bo"));
        assert_eq!(pool.take("bo", 3).unwrap_err(), Exhausted::Total);
        let bo = pool.take("bo", 2).unwrap();
        drop((ada, bo));
        assert_eq!(pool.held().total, 0);
        assert!(pool.held().of.is_empty());
    }

    #[test]
    fn a_permit_can_have_another_maximum_for_its_holder() {
        let pool = Pool::new(BOUNDS);
        let mut ada = pool.take("ada", 3).unwrap();
        assert_eq!(ada.grow_within(2, 4).unwrap_err(), Exhausted::Share);
        ada.grow_within(1, 4).unwrap();
        assert_eq!(ada.grow_within(2, 9).unwrap_err(), Exhausted::Total);
    }

    #[tokio::test]
    async fn a_holder_has_one_turn_and_one_place_in_the_queue_of_all() {
        let turns = SharedTurns::new(2, 8);
        let ada = turns.take("ada").await.unwrap();
        let mut again = Box::pin(turns.take("ada"));
        assert!(futures::poll!(again.as_mut()).is_pending());
        let bo = turns.take("bo").await.unwrap();
        let mut cy = Box::pin(turns.take("cy"));
        assert!(futures::poll!(cy.as_mut()).is_pending());
        drop(ada);
        let cy = cy.await.unwrap();
        assert!(futures::poll!(again.as_mut()).is_pending());
        drop((bo, cy));
        again.await.unwrap();
    }

    #[tokio::test]
    async fn a_turn_is_not_awaited_for_longer_than_allowed() {
        let (turns, soon) = (SharedTurns::new(1, 8), Duration::from_millis(1));
        let held = turns.take("ada").await.unwrap();
        assert!(turns.take_within("bo", soon).await.is_none());
        assert!(turns.take_if_own_is_free("ada", soon).await.is_none());
        let mut bo = Box::pin(turns.take_if_own_is_free("bo", soon));
        assert!(futures::poll!(bo.as_mut()).is_pending());
        drop(held);
        bo.await.unwrap();
    }

    #[test]
    fn a_forced_permit_counts_against_later_ones() {
        let pool = Pool::new(BOUNDS);
        let forced = pool.force("ada", 9);
        assert_eq!(pool.take("ada", 1).unwrap_err(), Exhausted::Share);
        assert_eq!(pool.take("bo", 1).unwrap_err(), Exhausted::Total);
        drop(forced);
        pool.take("ada", 3).unwrap();
    }

    #[test]
    fn a_share_is_a_part_of_the_slots() {
        for (text, wanted) in [("0.25", 4), ("1", 16), ("0.5", 8), ("0.01", 1)] {
            assert_eq!(Share::parse(text).unwrap().of(16), wanted, "{text}");
        }
        for text in ["0", "1.5", "-1", "NaN", "a quarter"] {
            assert!(Share::parse(text).is_err(), "{text}");
        }
    }
}
