//! Limits concurrent calls to one server. Some servers have a single slot and cut off the running call when another one arrives; if
//! both calls were repeated at the same time, neither would ever finish.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// Time for which calls are made one at a time after a call was cut off while another one was running.
const ONE_AT_A_TIME: Duration = Duration::from_mins(1);
/// Time after `ONE_AT_A_TIME` for which at most two calls run at once.
const TWO_AT_A_TIME: Duration = Duration::from_mins(10);

/// Admission of calls to a server.
#[derive(Default)]
pub(super) struct Places {
    state: Mutex<State>,
    /// Held by the first caller that waits, so that calls start in the order in which they arrived.
    queue: tokio::sync::Mutex<()>,
    freed: Notify,
}

#[derive(Default)]
struct State {
    running: usize,
    /// Number of calls started so far.
    started: u64,
    cut_off_at: Option<Instant>,
}

impl State {
    /// Maximum number of calls at once, and the time at which that limit ends.
    fn limit(&self, now: Instant) -> (usize, Option<Instant>) {
        let Some(since) = self.cut_off_at else {
            return (usize::MAX, None);
        };
        let (one, two) = (since + ONE_AT_A_TIME, since + ONE_AT_A_TIME + TWO_AT_A_TIME);
        if now < one {
            (1, Some(one))
        } else if now < two {
            (2, Some(two))
        } else {
            (usize::MAX, None)
        }
    }
}

/// A slot for a call to a server; dropping it marks the end of the call.
pub(super) struct Taken {
    places: Arc<Places>,
    /// True if another call was running when this one started.
    began_beside: bool,
    /// Number of this call; later calls have higher numbers.
    number: u64,
}

impl Places {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot.
    pub(super) async fn take(self: &Arc<Self>) -> Taken {
        let _turn = self.queue.lock().await;
        loop {
            let freed = self.freed.notified();
            let until = {
                let mut state = self.state();
                let (max, until) = state.limit(Instant::now());
                if state.running < max {
                    let began_beside = state.running > 0;
                    state.running += 1;
                    state.started += 1;
                    return Taken {
                        places: Arc::clone(self),
                        began_beside,
                        number: state.started,
                    };
                }
                until
            };
            match until {
                Some(until) => drop(tokio::time::timeout_at(until, freed).await),
                None => freed.await,
            }
        }
    }
}

impl Taken {
    /// Checks whether another call was running at any time during this one.
    pub(super) fn ran_beside_another(&self) -> bool {
        self.began_beside || self.places.state().started > self.number
    }

    /// Records that the server cut this call off. Limits subsequent calls if another call was running during this one.
    pub(super) fn cut_off(&self) {
        if self.ran_beside_another() {
            self.places.state().cut_off_at = Some(Instant::now());
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.places.state().running -= 1;
        self.places.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn calls_that_cut_each_other_off_are_made_one_after_another() {
        let places = Arc::new(Places::default());
        let first = places.take().await;
        let second = places.take().await;
        assert!(first.ran_beside_another() && second.ran_beside_another());
        first.cut_off();
        drop((first, second));
        let one = places.take().await;
        assert!(!one.ran_beside_another());
        let mut next = Box::pin(places.take());
        assert!((&mut next).now_or_never().is_none());
        drop(one);
        assert!(!next.await.ran_beside_another());
    }

    #[test]
    fn the_limit_is_one_call_then_two_then_none() {
        let now = Instant::now();
        let state = State {
            cut_off_at: Some(now),
            ..State::default()
        };
        let max = |seconds| state.limit(now + Duration::from_secs(seconds)).0;
        assert_eq!([0, 59, 60, 659].map(max), [1, 1, 2, 2]);
        assert_eq!(max(660), usize::MAX);
        assert_eq!(State::default().limit(now), (usize::MAX, None));
    }

    #[tokio::test]
    async fn a_call_that_was_cut_off_alone_limits_nothing() {
        let places = Arc::new(Places::default());
        let first = places.take().await;
        first.cut_off();
        drop(first);
        let _one = places.take().await;
        assert!(places.take().now_or_never().is_some());
    }
}
