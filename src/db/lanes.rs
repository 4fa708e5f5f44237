//! The slow lane: connections for reads of several statements, such as searches, snapshots, and lists.
//!
//! Authentication and single reads have their own connections, so that a long read delays only other long reads. Each
//! read has a deadline that the engine enforces. Shares per person and workspace keep anyone from using the whole
//! lane.

use std::{sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use super::error::DbError;
use crate::share::Turns;

/// Maximum wait for a connection of the slow lane.
const WAIT_DEADLINE: Duration = Duration::from_secs(5);
/// Maximum number of waiting reads per person or workspace. Further reads are rejected immediately.
const WAITING_MAX: usize = 256;

/// Share of the slow lane that a read uses.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    pub person: Uuid,
    pub workspace: Uuid,
}

/// Slots of the slow lane and their shares.
pub(super) struct Lane {
    slots: Arc<Semaphore>,
    people: Turns<Uuid>,
    workspaces: Turns<Uuid>,
}

/// Slot in the lane, released on drop.
pub(super) struct LanePermit {
    _permits: [OwnedSemaphorePermit; 3],
}

impl Lane {
    /// Creates a lane. A person can use up to a third of the slots, and a workspace all but one.
    pub(super) fn new(size: usize) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(size)),
            people: Turns::new((size / 3).max(1), WAITING_MAX),
            workspaces: Turns::new(size.saturating_sub(1).max(1), WAITING_MAX),
        }
    }

    /// Waits for a slot in the lane and in both shares.
    ///
    /// # Errors
    /// `Busy` if no slot becomes free in time, or too many reads of the person or workspace are waiting.
    pub(super) async fn enter(&self, share: Share) -> Result<LanePermit, DbError> {
        let enter = async {
            let person = self.people.take(share.person).await.ok_or(DbError::Busy)?;
            let workspace = self.workspaces.take(share.workspace).await;
            let workspace = workspace.ok_or(DbError::Busy)?;
            let permit = Arc::clone(&self.slots).acquire_owned().await;
            let permit = permit.map_err(|_| DbError::Closed)?;
            Ok(LanePermit {
                _permits: [person, workspace, permit],
            })
        };
        tokio::time::timeout(WAIT_DEADLINE, enter)
            .await
            .unwrap_or(Err(DbError::Busy))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn share(person: u128, workspace: u128) -> Share {
        Share {
            person: Uuid::from_u128(person),
            workspace: Uuid::from_u128(workspace),
        }
    }

    #[tokio::test]
    async fn one_user_and_one_workspace_leave_capacity_for_others() {
        let lane = Lane::new(6);
        let enters = |person, workspace| {
            let entered = lane.enter(share(person, workspace)).now_or_never();
            entered.and_then(Result::ok)
        };
        let mut held = Vec::new();
        for person in [1, 1, 2, 2, 3] {
            held.push(enters(person, 1).unwrap());
        }
        assert!(enters(1, 2).is_none(), "a third for one person");
        assert!(enters(4, 1).is_none(), "one workspace");
        held.push(enters(4, 2).unwrap());
        assert!(enters(5, 3).is_none(), "no place");
        held.pop();
        assert!(enters(5, 3).is_some());
    }

    #[tokio::test]
    async fn queued_reads_of_one_user_are_limited() {
        let lane = Lane::new(3);
        let _held = lane.enter(share(1, 1)).await.unwrap();
        let mut waiting = Vec::new();
        let mut rejected = 0;
        for _ in 0..WAITING_MAX * 2 {
            let mut entering = Box::pin(lane.enter(share(1, 1)));
            match futures::poll!(entering.as_mut()) {
                std::task::Poll::Ready(entered) => {
                    assert!(matches!(entered, Err(DbError::Busy)));
                    rejected += 1;
                }
                std::task::Poll::Pending => waiting.push(entering),
            }
        }
        assert!(
            !waiting.is_empty() && waiting.len() <= WAITING_MAX && rejected >= WAITING_MAX,
            "{} wait, {rejected} were rejected",
            waiting.len()
        );
    }
}
