//! Limits concurrent host name lookups made for requests.
//!
//! A lookup occupies a thread until the operating system gives up, even if its request has ended, so names whose servers never
//! respond would use up the threads of the process.

use crate::{blocking::blocking, ids::WorkspaceId, share::Turns};

/// Maximum number of concurrent lookups per workspace; `WAITING_MAX` also includes lookups that wait for a turn.
const AT_ONCE: usize = 2;
const WAITING_MAX: usize = 16;

pub(super) struct Lookups(Turns<WorkspaceId>);

impl Default for Lookups {
    fn default() -> Self {
        Self(Turns::new(AT_ONCE, WAITING_MAX))
    }
}

impl Lookups {
    /// Runs a lookup when the workspace has a free turn. Returns `None` if too many of its lookups are waiting.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        workspace: WorkspaceId,
        lookup: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let turn = self.0.take(workspace).await?;
        blocking(turn, lookup).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex, mpsc},
        time::Duration,
    };

    use super::*;

    #[tokio::test]
    async fn lookups_that_hang_delay_only_their_workspace() {
        let (lookups, attacker) = (Lookups::default(), WorkspaceId::new());
        let (answer, answered) = mpsc::channel::<()>();
        let answered = Arc::new(Mutex::new(answered));
        for _ in 0..AT_ONCE {
            let answered = Arc::clone(&answered);
            let hanging = lookups.run(attacker, move || answered.lock().unwrap().recv());
            // The request ends, but the thread does not.
            let request = tokio::time::timeout(Duration::from_millis(10), hanging);
            assert!(request.await.is_err());
        }
        let other = lookups.run(WorkspaceId::new(), || "found").await;
        assert_eq!(other, Some("found"));
        let mut next = Box::pin(lookups.run(attacker, || "found"));
        assert!(futures::poll!(next.as_mut()).is_pending());
        drop(answer);
        assert_eq!(next.await, Some("found"));
    }
}
