//! What a server does to keep its data: backups on a schedule, with proof that they can be restored.
//!
//! `backups` runs them, one at a time over all nodes, and stores their state in `meta`. `names` decides when the next one is due and
//! which old ones are deleted. `place` is the directory or bucket. `drill` restores a backup into a scratch directory.
//! `before_migration` backs up a database before a new version changes it.
//! `choices` are those of the server's admins. `daily` measures the disk (`disk_trend`) and looks for new versions (`updates`).
//! `alerts` opens notices for them about problems.

pub mod alerts;
pub mod backups;
pub mod before_migration;
pub mod choices;
pub mod daily;
pub mod disk_trend;
pub mod drill;
pub mod names;
mod place;
mod state;
pub mod updates;

pub use state::{BackupState, DrillResult, LastBackup, end_abandoned};

use std::future::Future;

use anyhow::Context;

/// Lowest priority of a thread. Test builds keep the normal one, because other tests use all processors for minutes.
const NICE: i32 = if cfg!(test_hooks) { 0 } else { 19 };

/// Runs work with blocking reads and writes on a thread of its own with the lowest priority, so that it does not delay requests.
async fn in_background<T: Send + 'static, F: Future<Output = anyhow::Result<T>>>(
    work: impl FnOnce() -> F + Send + 'static,
) -> anyhow::Result<T> {
    let (send, receive) = tokio::sync::oneshot::channel();
    let run = move || {
        // On Linux, the priority is that of the thread.
        if let Err(e) = rustix::process::nice(NICE) {
            tracing::debug!(error = %e, "the priority of background work could not be lowered");
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let done = match runtime {
            Ok(runtime) => runtime.block_on(work()),
            Err(e) => Err(e.into()),
        };
        // Fails only if nobody waits for the result anymore.
        drop(send.send(done));
    };
    std::thread::Builder::new()
        .name("upkeep".to_owned())
        .spawn(run)
        .context("cannot start a thread")?;
    receive.await.context("the work ended unexpectedly")?
}

/// Formats a size for people, such as `4.1 GiB`.
pub fn size_text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    #[expect(clippy::cast_precision_loss, reason = "rounded to a tenth")]
    let mut size = bytes as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    for larger in units {
        if size < 1024.0 {
            break;
        }
        size /= 1024.0;
        unit = larger;
    }
    format!("{size:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_decimal() {
        for (bytes, text) in [
            (512, "0.5 KiB"),
            (3 << 20, "3.0 MiB"),
            (4_402_341_478, "4.1 GiB"),
            (1 << 50, "1024.0 TiB"),
        ] {
            assert_eq!(size_text(bytes), text);
        }
    }
}
