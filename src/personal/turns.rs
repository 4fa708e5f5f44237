//! Limits on concurrent exports and erasures, which can outlive the requests that start them.

use std::{sync::Arc, time::Duration};

use tokio::sync::OwnedSemaphorePermit;

use crate::{
    ids::{UserId, WorkspaceId},
    share::{Exhausted, Permit, Pool, PoolBounds, Turns},
};

/// Limits on concurrent exports, in total and per requester. Each export holds two pages of rows in memory while its client reads.
const EXPORTS: PoolBounds = PoolBounds {
    total: 32,
    share: 2,
};
/// Maximum number of running and waiting erasures per workspace, and the maximum wait.
const ERASURES_MAX: usize = 8;
const ERASURE_WITHIN: Duration = Duration::from_secs(10);

pub struct PersonalTurns {
    exports: Arc<Pool<UserId>>,
    erasures: Turns<WorkspaceId>,
}

impl Default for PersonalTurns {
    fn default() -> Self {
        Self {
            exports: Pool::new(EXPORTS),
            erasures: Turns::new(1, ERASURES_MAX),
        }
    }
}

impl PersonalTurns {
    /// Acquires a permit for an export by `requester`.
    ///
    /// # Errors
    /// The limit that the export would exceed.
    pub fn export(&self, requester: UserId) -> Result<Permit<UserId>, Exhausted> {
        self.exports.take(requester, 1)
    }

    /// Waits until no other erasure in the workspace is running. Returns `None` after the maximum wait, or immediately if too many
    /// are waiting.
    pub async fn erase(&self, workspace: WorkspaceId) -> Option<OwnedSemaphorePermit> {
        self.erasures.take_within(workspace, ERASURE_WITHIN).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_erasure_of_a_workspace_runs_at_a_time() {
        let (turns, ours) = (PersonalTurns::default(), WorkspaceId::new());
        let first = turns.erase(ours).await.unwrap();
        let mut second = Box::pin(turns.erase(ours));
        assert!(futures::poll!(second.as_mut()).is_pending());
        let other = turns.erase(WorkspaceId::new()).now_or_never();
        assert!(other.flatten().is_some());
        drop(first);
        assert!(second.await.is_some());
    }

    #[tokio::test]
    async fn erasures_that_wait_are_limited() {
        let (turns, ours) = (PersonalTurns::default(), WorkspaceId::new());
        let _first = turns.erase(ours).await.unwrap();
        let mut waiting = Vec::new();
        while waiting.len() < 2 * ERASURES_MAX {
            let mut next = Box::pin(turns.erase(ours));
            if let std::task::Poll::Ready(turn) = futures::poll!(next.as_mut()) {
                assert!(turn.is_none());
                break;
            }
            waiting.push(next);
        }
        assert!(waiting.len() < ERASURES_MAX, "{} wait", waiting.len());
    }
}
