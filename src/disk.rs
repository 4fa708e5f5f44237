//! Free space on the disks that hold the data.
//!
//! Uploads and agent versions are rejected before a disk is full, so that the remaining space is left for messages and sign-ins.
//! `PostgreSQL` stores both on disks that this process cannot see, so nothing is checked there.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Mutex;

use crate::blocking::blocking;

/// Maximum free space that uploads and agent versions must not use.
const RESERVED_BYTES_MAX: u64 = 1 << 30;
/// The same as a part of the disk, for small disks.
const RESERVED_PART: u64 = 20;
/// Time for which a measurement is valid.
const MEASURED_FOR: Duration = Duration::from_secs(2);

/// Free space of a disk of this size that uploads and agent versions must not use. In debug builds, tests with small disks can set it with
/// `OPENVIBE_DISK_RESERVED_BYTES`.
fn reserved_bytes(disk_bytes: u64) -> u64 {
    #[cfg(test_hooks)]
    if let Some(bytes) = std::env::var("OPENVIBE_DISK_RESERVED_BYTES")
        .ok()
        .and_then(|bytes| bytes.parse().ok())
    {
        return bytes;
    }
    RESERVED_BYTES_MAX.min(disk_bytes / RESERVED_PART)
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the server's disk is almost full, so uploads and changes to agents are paused; messages still work: try again when the server's \
     operator has freed some space"
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
#[derive(Debug, Clone)]
pub struct DiskSpace {
    directories: Arc<[PathBuf]>,
    measured: Arc<Mutex<Measured>>,
}

/// Space on a disk, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Space {
    pub total: u64,
    pub free: u64,
}

impl Space {
    /// Space on the disk that contains a directory.
    ///
    /// # Errors
    /// If the directory does not exist.
    pub fn of(directory: &Path) -> io::Result<Self> {
        let disk = rustix::fs::statvfs(directory)?;
        Ok(Self {
            total: disk.f_blocks.saturating_mul(disk.f_frsize),
            free: disk.f_bavail.saturating_mul(disk.f_frsize),
        })
    }

    /// Free space below which uploads and agent versions are rejected.
    pub fn reserved(self) -> u64 {
        reserved_bytes(self.total)
    }

    /// Checks whether uploads and agent versions will soon be rejected.
    pub fn is_nearly_low(self) -> bool {
        self.free < self.reserved().saturating_mul(2)
    }

    /// Checks whether uploads and agent versions are rejected.
    pub fn is_low(self) -> bool {
        self.free < self.reserved()
    }
}

/// The disk of these directories that has the least free space above its reserve.
fn measure(directories: &[PathBuf]) -> io::Result<Space> {
    let mut least = Space {
        total: 0,
        free: u64::MAX,
    };
    for directory in directories {
        let space = Space::of(directory)?;
        let spare = |space: Space| i128::from(space.free) - i128::from(space.reserved());
        if spare(space) < spare(least) {
            least = space;
        }
    }
    Ok(least)
}

/// Free space of the disk that contains a directory, in bytes.
///
/// # Errors
/// If the directory does not exist.
pub fn free_bytes(directory: &Path) -> io::Result<u64> {
    Ok(Space::of(directory)?.free)
}

impl DiskSpace {
    pub fn new(directories: Vec<PathBuf>) -> Self {
        Self {
            directories: directories.into(),
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
            let directories = Arc::clone(&self.directories);
            // The lock is held until the disks have been measured, also if the request is dropped before that.
            let measuring = blocking((), move || {
                measured.note(measure(&directories));
                measured.is_low
            });
            is_low = measuring.await.unwrap_or(false);
        }
        if is_low { Err(LowDiskSpace) } else { Ok(()) }
    }
}

impl Measured {
    fn note(&mut self, space: io::Result<Space>) {
        self.at = Some(Instant::now());
        let space = match space {
            Ok(space) => space,
            Err(e) => {
                if !self.is_unknown {
                    tracing::warn!(error = %e, "free disk space cannot be measured; uploads and agent changes are not limited");
                }
                (self.is_unknown, self.is_low) = (true, false);
                return;
            }
        };
        let is_low = space.is_low();
        let (free, reserved) = (space.free, space.reserved());
        if is_low && !self.is_low {
            tracing::error!(
                free_bytes = free,
                reserved_bytes = reserved,
                "the disk is almost full: uploads and agent changes get 503 until there is more free space"
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
        let space = DiskSpace::new(vec![PathBuf::from("/nonexistent/openvibe")]);
        assert!(space.check().await.is_ok());
        assert!(space.measured.lock().await.is_unknown);
    }

    #[test]
    fn small_disks_reserve_a_part_and_large_ones_a_gibibyte() {
        assert_eq!(reserved_bytes(200 << 20), 10 << 20);
        assert_eq!(reserved_bytes(20 << 30), 1 << 30);
        assert_eq!(reserved_bytes(4 << 40), 1 << 30);
    }

    #[test]
    fn space_that_was_freed_counts_again() {
        let mut measured = Measured::default();
        for (free, is_low) in [(100, false), (99, true), (98, true), (100, false)] {
            measured.note(Ok(Space { total: 2_000, free }));
            assert_eq!(measured.is_low, is_low, "{free}");
        }
    }
}
