//! Futures that run beside other work of the same task.

use futures::{Stream, StreamExt};

/// Does the work, and meanwhile polls the futures of `running`; results of those that end are appended to `ended`. Without this, a future
/// that holds a connection of the database would keep it while the work waits for one.
pub async fn poll_while<T, R>(
    running: &mut (impl Stream<Item = R> + Unpin),
    ended: &mut Vec<R>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            // If none is left, only the work is polled.
            Some(one) = running.next() => ended.push(one),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::stream::FuturesUnordered;
    use tokio::{sync::Semaphore, task::yield_now, time::timeout};

    use super::*;

    #[tokio::test]
    async fn work_gets_the_connection_that_a_running_future_holds() {
        let connection = Semaphore::new(1);
        let mut running = FuturesUnordered::new();
        running.push(async {
            let held = connection.acquire().await.unwrap();
            yield_now().await;
            drop(held);
            "sent"
        });
        // From here on, the future holds the connection.
        assert!(futures::poll!(running.next()).is_pending());
        let work = async {
            drop(connection.acquire().await.unwrap());
            "taken"
        };
        let mut ended = Vec::new();
        let polled = poll_while(&mut running, &mut ended, work);
        let done = timeout(Duration::from_secs(10), polled).await.unwrap();
        assert_eq!((done, ended), ("taken", vec!["sent"]));
    }

    #[tokio::test]
    async fn work_ends_without_a_running_future() {
        let mut running = FuturesUnordered::<std::future::Ready<()>>::new();
        let mut ended = Vec::new();
        poll_while(&mut running, &mut ended, yield_now()).await;
        assert!(ended.is_empty());
    }
}
