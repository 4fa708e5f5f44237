//! Slow work of tasks, such as reading a conversation with the extractor: one piece of work per person and one per core at a time.
//!
//! Stopping a task frees its slot and lets the person start the next one, while the work may still be running. The turn is therefore
//! held by the work.

use std::{
    num::NonZero,
    sync::{Arc, LazyLock},
    time::Duration,
};

use tokio::task::JoinError;

use crate::{
    blocking::{Interrupt, interruptible},
    ids::UserId,
    share::{SharedTurns, Turn},
};

/// The cores belong to the process, so all of its workers share the turns. The number of waiting tasks is limited by the number of
/// workers.
static TURNS: LazyLock<SharedTurns<UserId>> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    SharedTurns::new(cores, usize::MAX)
});

/// A turn for slow work. Work keeps it by holding a clone.
#[derive(Debug, Clone)]
pub struct SlowTurn(#[expect(dead_code, reason = "held, not used")] Arc<Option<Turn>>);

impl SlowTurn {
    /// Waits for a turn of the person for whom a task runs.
    pub async fn take(person: UserId) -> Self {
        // Turns are rejected only if too many tasks wait, which `TURNS` never does.
        Self(Arc::new(TURNS.take(person).await))
    }

    /// Waits for a turn. Returns `None` if other work for the same person takes longer than `within`.
    pub async fn take_unless_busy(person: UserId, within: Duration) -> Option<Self> {
        let turn = TURNS.take_if_own_is_free(person, within).await?;
        Some(Self(Arc::new(Some(turn))))
    }

    /// Runs work on a thread that may block. The work can end early when the returned future is dropped.
    ///
    /// # Errors
    /// If the work panics, or if the runtime is shutting down.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Interrupt) -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        interruptible(self.clone(), work).await
    }
}

/// Waits for a turn and runs work.
///
/// # Errors
/// Same as `SlowTurn::run`.
pub async fn run<T: Send + 'static>(
    person: UserId,
    work: impl FnOnce(&Interrupt) -> T + Send + 'static,
) -> Result<T, JoinError> {
    SlowTurn::take(person).await.run(work).await
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn the_work_of_a_stopped_task_keeps_its_turn_and_delays_only_its_person() {
        let (ada, bo) = (UserId::new(), UserId::new());
        let (end, ended) = mpsc::channel::<()>();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let mut stopped = Box::pin(run(ada, move |_| {
            begin.send(()).unwrap();
            ended.recv()
        }));
        tokio::select! {
            _ = stopped.as_mut() => unreachable!("the work waits for the test"),
            begun = begun => begun.unwrap(),
        }
        drop(stopped);
        let soon = Duration::from_millis(1);
        assert!(SlowTurn::take_unless_busy(ada, soon).await.is_none());
        let mut next = Box::pin(run(ada, |_| "read"));
        assert!(futures::poll!(next.as_mut()).is_pending());
        if std::thread::available_parallelism().unwrap().get() > 1 {
            assert_eq!(run(bo, |_| "read").await.unwrap(), "read");
        }
        end.send(()).unwrap();
        assert_eq!(next.await.unwrap(), "read");
    }
}
