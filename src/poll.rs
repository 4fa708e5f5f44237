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
    let mut is_empty = false;
    loop {
        tokio::select! {
            done = &mut work => return done,
            next = running.next(), if !is_empty => match next {
                Some(one) => ended.push(one),
                None => is_empty = true,
            },
        }
    }
}
