//! Limits the number of sockets that catch up at the same time: per person, so that one person's sockets do not occupy all database
//! readers, and in total, so that a node that takes over another node's clients can still serve its own.

use std::sync::Arc;

use dashmap::DashMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::ids::UserId;

/// Maximum number of sockets of one person that catch up at the same time; additional ones wait.
const CATCH_UPS_PER_USER: usize = 4;

/// Maximum number of sockets that read missed events at the same time. Sending the events to a slow client does not count.
const READS: usize = 64;

/// Sockets in this process that are catching up.
#[derive(Clone)]
pub struct CatchUps {
    of_people: Arc<DashMap<UserId, Arc<Semaphore>>>,
    reads: Arc<Semaphore>,
}

impl Default for CatchUps {
    fn default() -> Self {
        Self {
            of_people: Arc::default(),
            reads: Arc::new(Semaphore::new(READS)),
        }
    }
}

/// A permit to catch up. Dropping it lets the person's next socket catch up.
pub struct CatchUpPermit {
    all: CatchUps,
    user: UserId,
    share: Option<Arc<Semaphore>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl CatchUps {
    /// Waits for a permit. The future can be dropped while it waits.
    pub async fn acquire(&self, user: UserId) -> CatchUpPermit {
        let share = Arc::clone(
            &self
                .of_people
                .entry(user)
                .or_insert_with(|| Arc::new(Semaphore::new(CATCH_UPS_PER_USER))),
        );
        let mut permit = CatchUpPermit {
            all: self.clone(),
            user,
            share: Some(Arc::clone(&share)),
            permit: None,
        };
        // Fails only if the semaphore is closed, which never happens.
        permit.permit = share.acquire_owned().await.ok();
        permit
    }

    /// Waits until the socket may read missed events. The future can be dropped while it waits.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // Fails only if the semaphore is closed, which never happens.
        Arc::clone(&self.reads).acquire_owned().await.ok()
    }
}

impl Drop for CatchUpPermit {
    fn drop(&mut self) {
        drop((self.permit.take(), self.share.take()));
        // If only the map refers to the semaphore, nobody holds or awaits a permit.
        self.all
            .of_people
            .remove_if(&self.user, |_, share| Arc::strong_count(share) == 1);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_user_catches_up_on_four_sockets_at_a_time_without_delaying_others() {
        let (all, ada, bo) = (CatchUps::default(), UserId::new(), UserId::new());
        let mut held = Vec::new();
        for _ in 0..CATCH_UPS_PER_USER {
            held.push(all.acquire(ada).now_or_never().unwrap());
        }
        let mut waiting = Box::pin(all.acquire(ada));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        assert!(all.acquire(bo).now_or_never().is_some());
        held.pop();
        let permit = waiting.await;
        drop((held, permit));
        assert!(all.of_people.is_empty(), "unused shares are removed");
    }

    #[tokio::test]
    async fn a_socket_that_stops_waiting_releases_its_slot() {
        let (all, ada) = (CatchUps::default(), UserId::new());
        let mut held = Vec::new();
        for _ in 0..CATCH_UPS_PER_USER {
            held.push(all.acquire(ada).await);
        }
        let mut waiting = Box::pin(all.acquire(ada));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(held);
        drop(waiting);
        assert!(all.of_people.is_empty());
    }
}
