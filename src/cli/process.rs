//! What commands share of the process: its threads, and its end.

/// Stack size of threads: twice the default, because a reply that calls tools needs almost all of the default in unoptimized builds.
const STACK_BYTES: usize = 4 * 1024 * 1024;

/// Number of runtime threads in addition to one per processor. They accept connections and send responses while handlers keep the
/// other threads busy.
const WORKERS_EXTRA: usize = 2;

/// Starts the threads of a command.
pub(super) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores + WORKERS_EXTRA)
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()?)
}

/// Makes SIGTERM and SIGINT complete the returned future instead of ending the process.
pub(super) fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_has_two_threads_more_than_processors() {
        let cores = std::thread::available_parallelism().unwrap().get();
        let runtime = runtime().unwrap();
        assert_eq!(runtime.metrics().num_workers(), cores + 2);
    }
}
