//! What is free on the machine.

use std::{path::Path, time::Duration};

use tokio::time::sleep;

/// A disk writes at most about what is left until the next measurement.
const INTERVAL: Duration = Duration::from_millis(200);
/// What is left for others.
pub(crate) const LEAST: Machine = Machine { disk: 256 << 20, files: 1000, memory: 128 << 20 };

/// What is free on a machine: bytes of the disk, number of files, and bytes of memory with swap space.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine {
    pub(crate) disk: u64,
    pub(crate) files: u64,
    pub(crate) memory: u64,
}

impl Machine {
    /// Free space for a directory. What cannot be measured counts as free.
    fn measure(directory: &Path) -> Self {
        let mut free = Self { disk: u64::MAX, files: u64::MAX, memory: u64::MAX };
        if let Ok(disk) = rustix::fs::statvfs(directory) {
            free.disk = disk.f_bavail.saturating_mul(disk.f_frsize);
            // Some file systems have no such limit.
            if disk.f_files > 0 {
                free.files = disk.f_favail;
            }
        }
        if let Some(memory) =
            std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| free_memory(&text))
        {
            free.memory = memory;
        }
        free
    }

    /// What is short, compared with the least that must be free.
    fn shortage(self, least: Self) -> Option<Shortage> {
        if self.disk < least.disk {
            Some(Shortage::Disk(least.disk >> 20))
        } else if self.files < least.files {
            Some(Shortage::Files(least.files))
        } else if self.memory < least.memory {
            Some(Shortage::Memory(least.memory >> 20))
        } else {
            None
        }
    }
}

/// A resource that a machine is short of, with the least that must be free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Shortage {
    #[error("less than {0} MiB of disk are free")]
    Disk(u64),
    #[error("less than {0} files can be created")]
    Files(u64),
    #[error("less than {0} MiB of memory are free")]
    Memory(u64),
}

/// Checks whether the disk of a directory is full, or about to be.
pub(crate) fn is_disk_full(directory: &Path) -> bool {
    let shortage = Machine::measure(directory).shortage(LEAST);
    matches!(shortage, Some(Shortage::Disk(_) | Shortage::Files(_)))
}

/// Waits until the machine is short of something, and returns what it is.
pub(crate) async fn short(directory: &Path, least: Machine) -> Shortage {
    loop {
        sleep(INTERVAL).await;
        if let Some(shortage) = Machine::measure(directory).shortage(least) {
            return shortage;
        }
    }
}

/// Free memory and swap space in bytes, from `/proc/meminfo`.
fn free_memory(text: &str) -> Option<u64> {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    Some(value("MemAvailable")?.saturating_add(value("SwapFree").unwrap_or(0)) << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_short_of_disk_files_or_memory() {
        let directory = tempfile::tempdir().unwrap();
        let free = Machine::measure(directory.path());
        assert!(free.disk < u64::MAX && free.memory < u64::MAX, "{free:?}");
        let least = Machine { disk: 1 << 20, files: 10, memory: 2 << 20 };
        for (free, shortage) in [
            (least, None),
            (Machine { disk: 9, ..least }, Some("less than 1 MiB of disk are free")),
            (Machine { files: 9, ..least }, Some("less than 10 files can be created")),
            (Machine { memory: 9, ..least }, Some("less than 2 MiB of memory are free")),
        ] {
            let found = free.shortage(least).map(|shortage| shortage.to_string());
            assert_eq!(found.as_deref(), shortage);
        }
        let text =
            "MemTotal: 9000 kB\nMemFree: 1 kB\nMemAvailable:    2048 kB\nSwapFree:  1024 kB\n";
        assert_eq!(free_memory(text), Some(3 << 20));
        assert_eq!(free_memory("MemTotal: 9000 kB"), None);
    }
}
