//! Free space on the disks that hold the data.
//!
//! Uploads and agent versions are rejected before a disk is full, so that the remaining space is left for messages and sign-ins.
//! `PostgreSQL` stores both on disks that this process cannot see, so nothing is checked there.

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Mutex;

use crate::blocking::blocking;

/// Free space that uploads and agent versions must not use.
const RESERVED_BYTES: u64 = 1 << 30;
/// Time for which a measurement is valid.
const MEASURED_FOR: Duration = Duration::from_secs(2);

/// `RESERVED_BYTES`; in debug builds, tests with small disks can set it with `OPENVIBE_DISK_RESERVED_BYTES`.
#[cfg(test_hooks)]
fn reserved_bytes() -> u64 {
    let bytes = std::env::var("OPENVIBE_DISK_RESERVED_BYTES").ok();
    bytes
        .and_then(|bytes| bytes.parse().ok())
        .unwrap_or(RESERVED_BYTES)
}

#[cfg(not(test_hooks))]
fn reserved_bytes() -> u64 {
    RESERVED_BYTES
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the server's disk has less than 1 GiB of free space, so uploads and changes to agents are paused; messages still work: try \
     again when the server's operator has freed some space"
)]
pub struct LowDiskSpace;

#[derive(Debug, Default)]
struct Measured {
    at: Option<Instant>,
    is_low: bool,
    /// True if a disk that cannot be measured has been logged, so that the warning is not repeated.
    is_unknown: bool,
}

/// State of the disks: whether there is enough free space for uploads and agent versions. Measured on request, at most every 2
/// s.
#[derive(Debug)]
pub struct DiskSpace {
    directories: Arc<[PathBuf]>,
    reserved_bytes: u64,
    measured: Arc<Mutex<Measured>>,
}

/// Minimum free space of the disks that contain these directories, in bytes.
fn measure(directories: &[PathBuf]) -> io::Result<u64> {
    let mut least = u64::MAX;
    for directory in directories {
        let disk = rustix::fs::statvfs(directory)?;
        least = least.min(disk.f_bavail.saturating_mul(disk.f_frsize));
    }
    Ok(least)
}

impl DiskSpace {
    pub fn new(directories: Vec<PathBuf>) -> Self {
        Self {
            directories: directories.into(),
            reserved_bytes: reserved_bytes(),
            measured: Arc::default(),
        }
    }

    /// Fails if a disk has too little free space for uploads and agent versions. Space that cannot be measured counts as enough.
    ///
    /// # Errors
    /// `LowDiskSpace`.
    pub async fn check(&self) -> Result<(), LowDiskSpace> {
        let mut measured = Arc::clone(&self.measured).lock_owned().await;
        let mut is_low = measured.is_low;
        if measured.at.is_none_or(|at| at.elapsed() >= MEASURED_FOR) {
            let (directories, reserved_bytes) =
                (Arc::clone(&self.directories), self.reserved_bytes);
            // The lock is held until the disks have been measured, also if the request is dropped before that.
            let measuring = blocking((), move || {
                measured.note(measure(&directories), reserved_bytes);
                measured.is_low
            });
            is_low = measuring.await.unwrap_or(false);
        }
        if is_low { Err(LowDiskSpace) } else { Ok(()) }
    }
}

impl Measured {
    fn note(&mut self, free: io::Result<u64>, reserved_bytes: u64) {
        self.at = Some(Instant::now());
        let free = match free {
            Ok(free) => free,
            Err(e) => {
                if !self.is_unknown {
                    tracing::warn!(error = %e, "free disk space cannot be measured; uploads and agent changes are not limited");
                }
                (self.is_unknown, self.is_low) = (true, false);
                return;
            }
        };
        let is_low = free < reserved_bytes;
        if is_low && !self.is_low {
            tracing::error!(
                free_bytes = free,
                "the disk has less than 1 GiB of free space: uploads and agent changes get 503 until there is more"
            );
        } else if self.is_low && !is_low {
            tracing::info!(free_bytes = free, "the disk has enough free space again");
        }
        self.is_low = is_low;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn space_that_cannot_be_measured_counts_as_enough() {
        let space = DiskSpace {
            reserved_bytes: u64::MAX,
            ..DiskSpace::new(vec![PathBuf::from("/nonexistent/openvibe")])
        };
        assert!(space.check().await.is_ok());
        assert!(space.measured.lock().await.is_unknown);
    }

    #[tokio::test]
    async fn the_fullest_disk_counts() {
        let space = DiskSpace {
            reserved_bytes: 1,
            ..DiskSpace::new(vec![std::env::temp_dir(), PathBuf::from("/proc")])
        };
        // The proc file system has no free space.
        assert!(space.check().await.is_err());
        let space = DiskSpace {
            reserved_bytes: 1,
            ..DiskSpace::new(vec![std::env::temp_dir()])
        };
        assert!(space.check().await.is_ok());
    }

    #[test]
    fn space_that_was_freed_counts_again() {
        let mut measured = Measured::default();
        for (free, is_low) in [(100, false), (99, true), (98, true), (100, false)] {
            measured.note(Ok(free), 100);
            assert_eq!(measured.is_low, is_low, "{free}");
        }
    }
}
