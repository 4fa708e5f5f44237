//! Limits on concurrent exports and erasures, which can outlive the requests that start them.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use crate::{
    ids::{UserId, WorkspaceId},
    share::{Exhausted, Permit, Pool, PoolBounds, Turns},
};

/// Limits on concurrent exports, in total and per requester. Each export holds two pages of rows in memory while its client reads.
const EXPORTS: PoolBounds = PoolBounds {
    total: 32,
    share: 2,
};
pub struct PersonalTurns {
    exports: Arc<Pool<UserId>>,
    /// One turn per workspace.
    erasures: Turns<WorkspaceId>,
    /// Erasures that run or wait in this process.
    running: Mutex<HashSet<Uuid>>,
}

/// Mark of an erasure that runs or waits in this process, until it is dropped.
pub struct RunningErasure<'a> {
    turns: &'a PersonalTurns,
    id: Uuid,
}

impl Drop for RunningErasure<'_> {
    fn drop(&mut self) {
        self.turns.running().remove(&self.id);
    }
}

impl Default for PersonalTurns {
    fn default() -> Self {
        Self {
            exports: Pool::new(EXPORTS),
            // Every erasure waits at most once, so their number is limited by that of members.
            erasures: Turns::new(1, Semaphore::MAX_PERMITS),
            running: Mutex::default(),
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

    /// Marks an erasure as running. Returns `None` if it already runs or waits in this process.
    pub fn start_erasure(&self, id: Uuid) -> Option<RunningErasure<'_>> {
        let is_new = self.running().insert(id);
        is_new.then_some(RunningErasure { turns: self, id })
    }

    pub fn is_running(&self, erasure: Uuid) -> bool {
        self.running().contains(&erasure)
    }

    fn running(&self) -> MutexGuard<'_, HashSet<Uuid>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other erasure in the workspace is running.
    pub async fn erase(&self, workspace: WorkspaceId) -> Option<OwnedSemaphorePermit> {
        self.erasures.take(workspace).await
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

    #[test]
    fn an_erasure_runs_once_at_a_time() {
        let (turns, id) = (PersonalTurns::default(), Uuid::now_v7());
        let running = turns.start_erasure(id);
        assert!(running.is_some() && turns.is_running(id));
        assert!(turns.start_erasure(id).is_none());
        drop(running);
        assert!(!turns.is_running(id) && turns.start_erasure(id).is_some());
    }
}
