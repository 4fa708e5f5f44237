//! Slow work on threads that may block.
//!
//! Such work cannot be aborted: it continues after its request has been dropped or its task has been stopped. Whatever limits it
//! must therefore be released by the work itself.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::task::{JoinError, JoinHandle};

/// Starts `work` at once on a thread that may block. `permit` is dropped when the work has ended, even if the returned future is
/// dropped earlier. The future fails if the work panics, or if the runtime is shutting down.
#[must_use]
pub fn blocking<P, T>(permit: P, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T>
where
    P: Send + 'static,
    T: Send + 'static,
{
    #[expect(
        clippy::disallowed_methods,
        reason = "the permit is moved into the work"
    )]
    tokio::task::spawn_blocking(move || {
        let done = work();
        drop(permit);
        done
    })
}

/// Like `blocking`, for work that ends early when nobody waits for its result any longer.
///
/// # Errors
/// Same as `blocking`.
pub async fn interruptible<P, T>(
    permit: P,
    work: impl FnOnce(&Interrupt) -> T + Send + 'static,
) -> Result<T, JoinError>
where
    P: Send + 'static,
    T: Send + 'static,
{
    let interrupt = Interrupt::default();
    let _set_on_drop = SetOnDrop(interrupt.clone());
    blocking(permit, move || work(&interrupt)).await
}

/// Flag that is set when the result of some work is no longer needed.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct SetOnDrop(Interrupt);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, mpsc},
        time::Duration,
    };

    use tokio::sync::Semaphore;

    use super::*;

    /// Time limit for events that should happen soon.
    const SOON: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn work_whose_future_was_dropped_keeps_its_permit_until_it_ends() {
        let permits = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&permits).acquire_owned().await.unwrap();
        let (end, ended) = mpsc::channel::<()>();
        let mut work = Box::pin(blocking(permit, move || ended.recv()));
        assert!(futures::poll!(work.as_mut()).is_pending());
        drop(work);
        assert!(permits.try_acquire().is_err());
        end.send(()).unwrap();
        let next = tokio::time::timeout(SOON, permits.acquire()).await;
        drop(next.expect("the permit is released").unwrap());
    }

    #[tokio::test]
    async fn work_that_panics_releases_its_permit() {
        let permits = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&permits).acquire_owned().await.unwrap();
        let failed = blocking::<_, ()>(permit, || panic!("expected by this test")).await;
        assert!(failed.unwrap_err().is_panic());
        assert_eq!(permits.available_permits(), 1);
    }

    #[tokio::test]
    async fn work_is_interrupted_when_its_future_is_dropped() {
        let permits = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&permits).acquire_owned().await.unwrap();
        let mut work = Box::pin(interruptible(permit, |interrupt| {
            while !interrupt.is_set() {
                std::thread::yield_now();
            }
        }));
        assert!(futures::poll!(work.as_mut()).is_pending());
        drop(work);
        let next = tokio::time::timeout(SOON, permits.acquire()).await;
        drop(next.expect("the work ends").unwrap());
    }
}
