//! Operating-system metrics of this process. Available only on Linux; on other systems, the gauges are not
//! exported.

use std::{
    fs,
    sync::LazyLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use metrics::gauge;

use crate::time::Timestamp;

static STARTED: LazyLock<f64> = LazyLock::new(|| {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
});

/// Records the start time of the process. Must be called first.
pub fn note_start() {
    LazyLock::force(&STARTED);
}

/// Start of this process, or of the first server in it.
pub fn started_at() -> Timestamp {
    Timestamp::EPOCH + Duration::from_secs_f64(STARTED.max(0.0))
}

/// The number after `label` in lines such as `VmRSS:     1234 kB`.
fn number_after(text: &str, label: &str) -> Option<u32> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Updates the gauges. Reads a few files of `/proc` and counts open files, so it should run on a thread that may
/// block.
pub fn look() {
    gauge!("process_start_time_seconds").set(*STARTED);
    let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}"));
    if let Some(kib) = read("status")
        .ok()
        .and_then(|text| number_after(&text, "VmRSS:"))
    {
        gauge!("process_resident_memory_bytes").set(f64::from(kib) * 1024.0);
    }
    if let Some(max) = read("limits")
        .ok()
        .and_then(|text| number_after(&text, "Max open files"))
    {
        gauge!("process_max_fds").set(f64::from(max));
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One of the open files is this directory itself.
        let n = u32::try_from(open.count()).unwrap_or(u32::MAX);
        gauge!("process_open_fds").set(f64::from(n.saturating_sub(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_their_labels() {
        let text = "Name:\topenvibe\nVmRSS:\t  123456 kB\nMax open files            1024                 4096  files\n";
        assert_eq!(number_after(text, "VmRSS:"), Some(123_456));
        assert_eq!(number_after(text, "Max open files"), Some(1024));
        assert_eq!(number_after(text, "VmSwap:"), None);
        assert_eq!(
            number_after("Max open files unlimited", "Max open files"),
            None
        );
    }
}
